package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// Get returns an execution as it is now.
func (h Executions) Get(ctx context.Context, id courier.ExecutionID) (courier.Execution, error) {
	e := h.e
	x, err := e.store.Execution(ctx, id)
	if errors.Is(err, courier.ErrNotFound) {
		return x, courier.Errorf(courier.ErrNotFound, "there is no execution %q", id)
	}
	if err != nil {
		return x, fmt.Errorf("load execution: %w", err)
	}
	return x, nil
}

// List returns a page of executions, the newest first.
func (h Executions) List(ctx context.Context, f store.Filter) ([]courier.Execution, error) {
	e := h.e
	list, err := e.store.Executions(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("executions: %w", err)
	}
	return list, nil
}

// Steps returns the records of all attempts of all steps of an execution, in
// the order in which they ended. The error of an execution that isn't there
// matches [courier.ErrNotFound].
func (h Executions) Steps(ctx context.Context, id courier.ExecutionID) ([]courier.StepExecution, error) {
	e := h.e
	var all []courier.StepExecution
	for after := int64(0); ; {
		page, err := e.store.Steps(ctx, store.RecordFilter{Execution: id, After: after})
		if err != nil {
			return nil, fmt.Errorf("steps of execution %q: %w", id, err)
		}
		if len(page) == 0 {
			return all, e.there(ctx, id, len(all))
		}
		all = append(all, page...)
		after = page[len(page)-1].Seq
	}
}

// Audit returns the audit of an execution, complete and in order. The error of an
// execution that isn't there matches [courier.ErrNotFound].
func (h Executions) Audit(ctx context.Context, id courier.ExecutionID) ([]courier.AuditEntry, error) {
	e := h.e
	var all []courier.AuditEntry
	for after := int64(0); ; {
		page, err := e.store.Audit(ctx, store.RecordFilter{Execution: id, After: after})
		if err != nil {
			return nil, fmt.Errorf("audit of execution %q: %w", id, err)
		}
		if len(page) == 0 {
			return all, e.there(ctx, id, len(all))
		}
		all = append(all, page...)
		after = page[len(page)-1].Seq
	}
}

// Values returns the values that are in scope where an execution stands, by
// key: its parameters, the system values, and the outputs of its completed
// steps, such as "0.file_list", also under their steps' ids.
func (h Executions) Values(ctx context.Context, id courier.ExecutionID) (map[string]any, error) {
	e := h.e
	x, err := e.store.Execution(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("values of execution %q: %w", id, err)
	}
	p, err := e.program(ctx, x.Job, x.Version)
	if err != nil {
		return nil, fmt.Errorf("values of execution %q: %w", id, err)
	}
	latest, err := e.store.Latest(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("values of execution %q: %w", id, err)
	}
	vals := newValues(p, &x, e.work.of(id))
	vals.restore(latest, x.Position)
	if vals.chain, err = e.chainValues(ctx, p, &x); err != nil {
		return nil, fmt.Errorf("values of execution %q: %w", id, err)
	}
	all := vals.snapshot()
	for i := range latest {
		if id := latest[i].ID; id != "" && vals.steps[latest[i].Step] != nil {
			for name, v := range vals.steps[latest[i].Step].object() {
				all[id+"."+name] = v
			}
		}
	}
	return all, nil
}

func joinLines(list []string) string { return strings.Join(list, "\n  ") }

// there returns the error of an execution that isn't there, if nothing was found
// of it.
func (e *Engine) there(ctx context.Context, id courier.ExecutionID, found int) error {
	if found > 0 {
		return nil
	}
	_, err := e.Executions().Get(ctx, id)
	return err
}
