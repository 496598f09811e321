package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/engine/internal/repair"
	"github.com/courierhq/courier/store"
)

// Executions reads executions, the records of their steps, and the values in scope.
// The methods that change an execution are those of [Engine].
type Executions struct{ e *Engine }

// Executions returns the executions in the engine's store.
func (e *Engine) Executions() Executions { return Executions{e} }

// Get returns an execution as it is now.
func (h Executions) Get(ctx context.Context, id courier.ExecutionID) (courier.Execution, error) {
	x, err := h.e.store.Execution(ctx, id)
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
	list, err := h.e.store.Executions(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("executions: %w", err)
	}
	return list, nil
}

// Steps returns the records of all attempts of all steps of an execution, in the
// order in which they ended. If there is no such execution, the error matches
// [courier.ErrNotFound].
func (h Executions) Steps(ctx context.Context, id courier.ExecutionID) ([]courier.StepExecution, error) {
	var all []courier.StepExecution
	for after := int64(0); ; {
		page, err := h.e.store.Steps(ctx, store.StepFilter{Execution: id, After: after})
		if err != nil {
			return nil, fmt.Errorf("steps of execution %q: %w", id, err)
		}
		if len(page) == 0 {
			return all, h.setVersions(ctx, id, all)
		}
		all = append(all, page...)
		after = page[len(page)-1].Seq
	}
}

// setVersions sets the versions of records where the execution had several.
func (h Executions) setVersions(ctx context.Context, id courier.ExecutionID, list []courier.StepExecution) error {
	x, err := h.Get(ctx, id)
	store.SetVersions(&x, list)
	return err
}

// StepsPage returns a page of the records of an execution that the filter selects, in
// the order in which the attempts ended. If there is no such execution, the page is
// empty.
func (h Executions) StepsPage(ctx context.Context, f store.StepFilter) ([]courier.StepExecution, error) {
	list, err := h.e.store.Steps(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("steps of execution %q: %w", f.Execution, err)
	}
	if len(list) > 0 {
		err = h.setVersions(ctx, f.Execution, list)
	}
	return list, err
}

// AuditPage returns a page of the audit of an execution, in order. If there is no
// such execution, the page is empty.
func (h Executions) AuditPage(ctx context.Context, f store.AuditFilter) ([]courier.AuditEntry, error) {
	list, err := h.e.store.Audit(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("audit of execution %q: %w", f.Execution, err)
	}
	return list, nil
}

// Audit returns the audit of an execution, complete and in order. If there is no such
// execution, the error matches [courier.ErrNotFound].
func (h Executions) Audit(ctx context.Context, id courier.ExecutionID) ([]courier.AuditEntry, error) {
	var all []courier.AuditEntry
	for after := int64(0); ; {
		page, err := h.e.store.Audit(ctx, store.AuditFilter{Execution: id, After: after})
		if err != nil {
			return nil, fmt.Errorf("audit of execution %q: %w", id, err)
		}
		if len(page) == 0 {
			return all, h.e.there(ctx, id, len(all))
		}
		all = append(all, page...)
		after = page[len(page)-1].Seq
	}
}

// Values returns the values that are in scope at the position of an execution, by
// key: its parameters, the system values, and the outputs of its completed steps,
// such as "0.file_list", under the ids of the steps too.
func (h Executions) Values(ctx context.Context, id courier.ExecutionID) (map[string]any, error) {
	x, err := h.e.store.Execution(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("values of execution %q: %w", id, err)
	}
	p, err := h.e.programs.Load(ctx, x.Job, x.Version)
	if err != nil {
		return nil, fmt.Errorf("values of execution %q: %w", id, err)
	}
	vals, err := h.e.valuesOf(ctx, p, &x)
	if err != nil {
		return nil, fmt.Errorf("values of execution %q: %w", id, err)
	}
	return vals.Snapshot(), nil
}

// valuesOf returns the values that are in scope where an execution stands that no run
// of this engine has.
func (e *Engine) valuesOf(ctx context.Context, p *program.Program, x *courier.Execution) (*program.Values, error) {
	vals := program.NewValues(p, x, e.work.Of(x.ID))
	history := &repair.History{Archive: e.store, Tree: p.Tree, Execution: x}
	if err := history.ReadAndRestore(ctx, vals, x.Position); err != nil {
		return nil, err
	}
	if err := history.EndLoops(ctx, p, vals); err != nil {
		return nil, err
	}
	members, err := e.chains.Values(ctx, p, x)
	vals.SetMembers(members)
	return vals, err
}

// loadMembers loads the outputs of members of the chain that the steps refer to.
func (r *run) loadMembers() error {
	if r.x.Chain == "" || len(r.program.Members) == 0 {
		return nil
	}
	return core.Retry(&r.callTimeout, func(ctx context.Context) error {
		members, err := r.e.chains.Values(ctx, r.program, &r.x)
		r.vals.SetMembers(members)
		return err
	})
}

// there returns the error of an execution that isn't there, if nothing was found
// of it.
func (e *Engine) there(ctx context.Context, id courier.ExecutionID, found int) error {
	if found > 0 {
		return nil
	}
	_, err := e.Executions().Get(ctx, id)
	return err
}
