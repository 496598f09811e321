package desk

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// An AuditEvent is an entry of the audit, with the events that the step has emitted which has
// completed by it.
type AuditEvent struct {
	courier.AuditEntry
	Events []courier.StepEvent // as [courier.StepExecution] has them
}

// MarshalJSON writes the fields of the entry, and events.
func (e AuditEvent) MarshalJSON() ([]byte, error) {
	entry, err := json.Marshal(e.AuditEntry)
	if err != nil || len(e.Events) == 0 {
		return entry, err
	}
	events, err := json.Marshal(struct {
		Events []courier.StepEvent `json:"events"`
	}{e.Events})
	if err != nil {
		return nil, err
	}
	return append(append(entry[:len(entry)-1], ','), events[1:]...), nil
}

// AuditEvents returns a page of the audit with what steps have emitted.
func (d *Desk) AuditEvents(ctx context.Context, f store.AuditFilter) ([]AuditEvent, error) {
	entries, err := d.e.Executions().AuditPage(ctx, f)
	if err != nil {
		return nil, err
	}
	list := make([]AuditEvent, len(entries))
	completed := 0
	for i, a := range entries {
		list[i].AuditEntry = a
		if a.Step != nil && a.To == string(courier.StepCompleted) {
			completed++
		}
	}
	if completed == 0 {
		return list, nil
	}
	steps, err := d.e.Executions().StepsPage(ctx, store.StepFilter{
		Execution: f.Execution, Events: true, Details: true, Brief: true, After: f.After, Limit: completed,
	})
	if err != nil {
		return nil, err
	}
	for _, s := range steps {
		at, found := slices.BinarySearchFunc(list, s.Seq, func(e AuditEvent, seq int64) int { return int(e.Seq - seq) })
		if found {
			list[at].Events = s.Events
		}
	}
	return list, nil
}
