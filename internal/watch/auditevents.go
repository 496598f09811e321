package watch

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

// An Audit has the audit of executions and their records; [engine.Executions] is one.
type Audit interface {
	// AuditPage returns a page of the audit of an execution, in its order.
	AuditPage(ctx context.Context, f store.AuditFilter) ([]courier.AuditEntry, error)
	// StepsPage returns a page of the records of an execution, in the order of their numbers.
	StepsPage(ctx context.Context, f store.StepFilter) ([]courier.StepExecution, error)
}

// AuditEvents returns a page of the audit with what steps have emitted.
func AuditEvents(ctx context.Context, a Audit, f store.AuditFilter) ([]AuditEvent, error) {
	entries, err := a.AuditPage(ctx, f)
	if err != nil {
		return nil, err
	}
	list := make([]AuditEvent, len(entries))
	completed := 0
	for i, entry := range entries {
		list[i].AuditEntry = entry
		if entry.Step != nil && entry.To == string(courier.StepCompleted) {
			completed++
		}
	}
	if completed == 0 {
		return list, nil
	}
	steps, err := a.StepsPage(ctx, store.StepFilter{
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
