package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// Executions reads executions, the records of their steps, and the values in scope. The
// methods that change an execution are methods of [Engine].
type Executions struct{ e *Engine }

// Executions returns the handle for the executions in the engine's store.
func (e *Engine) Executions() Executions { return Executions{e} }

// StoreID returns the unique id of the engine's store, or "" if it has none.
func (h Executions) StoreID(ctx context.Context) (string, error) { return h.e.roles.StoreID(ctx) }

// Get returns an execution as it is now. If there is no such execution, the error matches
// [courier.ErrNotFound].
func (h Executions) Get(ctx context.Context, id courier.ExecutionID) (courier.Execution, error) {
	x, err := h.e.roles.Archive().Execution(ctx, id)
	if errors.Is(err, courier.ErrNotFound) {
		return x, courier.Errorf(courier.ErrNotFound, "there is no execution %q", id)
	}
	if err != nil {
		return x, fmt.Errorf("load execution: %w", err)
	}
	return x, nil
}

// List returns a page of the executions that the filter selects, the newest first.
func (h Executions) List(ctx context.Context, f store.Filter) ([]courier.Execution, error) {
	list, err := h.e.roles.Archive().Executions(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("executions: %w", err)
	}
	return list, nil
}

// WaitFor returns the execution as soon as done returns true for it, for example when it
// is paused or has passed a step. It calls done at once, and then at increasing intervals
// of up to a second, with the present execution. If this engine runs the execution,
// WaitFor also calls done when the engine has finished with it. WaitFor may miss a
// condition that held only between two calls. If ctx ends first, it returns the error of
// ctx and the execution as it is.
func (h Executions) WaitFor(ctx context.Context, id courier.ExecutionID, done func(*courier.Execution) bool) (courier.Execution, error) {
	var x courier.Execution
	var failed error
	err := h.e.waiters.Until(ctx, id, func() (bool, error) {
		x, failed = h.e.roles.Archive().Execution(ctx, id)
		return failed == nil && done(&x), failed
	})
	switch {
	case errors.Is(failed, courier.ErrNotFound):
		return x, courier.Errorf(courier.ErrNotFound, "wait: there is no execution %q", id)
	case failed != nil:
		return x, fmt.Errorf("wait for execution %s: %w", id, failed)
	case err != nil:
		return x, fmt.Errorf("wait for execution %s, which is %s: %w", id, x.State, err)
	}
	return x, nil
}

// Steps returns the records of all attempts of all steps of an execution, in the
// order in which they ended. If there is no such execution, the error matches
// [courier.ErrNotFound].
func (h Executions) Steps(ctx context.Context, id courier.ExecutionID) ([]courier.StepExecution, error) {
	var all []courier.StepExecution
	for after := int64(0); ; {
		page, err := h.e.roles.Archive().Steps(ctx, store.StepFilter{Execution: id, After: after})
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

// StepsPage returns a page of the records of an execution that the filter selects, in the
// order in which the attempts ended. If there is no such execution, the page is empty. If
// the filter's Item is in none of the job's loops, in the execution's version, the error
// matches [courier.ErrInvalid].
func (h Executions) StepsPage(ctx context.Context, f store.StepFilter) ([]courier.StepExecution, error) {
	if f.Item != nil {
		if err := h.findLoop(ctx, &f); err != nil {
			return nil, fmt.Errorf("steps of execution %q: %w", f.Execution, err)
		}
	}
	list, err := h.e.roles.Archive().Steps(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("steps of execution %q: %w", f.Execution, err)
	}
	if len(list) > 0 {
		err = h.setVersions(ctx, f.Execution, list)
	}
	return list, err
}

// Transfers returns the newest attempts of some steps, over all their executions, those that ended
// last first. The store must have the role store.Overview; otherwise the error matches
// [errors.ErrUnsupported].
func (h Executions) Transfers(ctx context.Context, f store.TransferFilter) ([]store.Transfer, error) {
	o, err := h.e.roles.Overview()
	if err != nil {
		return nil, fmt.Errorf("transfers: %w", err)
	}
	list, err := o.Transfers(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("transfers: %w", err)
	}
	return list, nil
}

// findLoop sets where the loop of the item ends that a filter selects.
func (h Executions) findLoop(ctx context.Context, f *store.StepFilter) error {
	x, err := h.Get(ctx, f.Execution)
	if err != nil {
		return err
	}
	p, err := h.e.programs.Load(ctx, x.Job, x.Version)
	switch {
	case err != nil:
		return err
	case p.Tree == nil:
		return p.NotRunnable
	}
	if f.ItemEnd = p.Tree.End(f.Item.Loop); f.ItemEnd < 0 || len(p.Tree.Loops(f.ItemEnd)) != len(f.Item.Iteration) || !slices.Contains(p.Tree.Loops(f.ItemEnd), f.Item.Loop) {
		return courier.Errorf(courier.ErrInvalid, "step %d of version %d is not a flow.foreach within %d loops; give the loop of the item, and its index in each loop around it and in the loop itself", f.Item.Loop, x.Version, max(0, len(f.Item.Iteration)-1))
	}
	return nil
}

// AuditPage returns a page of the audit of an execution, in order. If there is no
// such execution, the page is empty.
func (h Executions) AuditPage(ctx context.Context, f store.AuditFilter) ([]courier.AuditEntry, error) {
	list, err := h.e.roles.Archive().Audit(ctx, f)
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
		page, err := h.e.roles.Archive().Audit(ctx, store.AuditFilter{Execution: id, After: after})
		if err != nil {
			return nil, fmt.Errorf("audit of execution %q: %w", id, err)
		}
		if len(page) == 0 {
			return all, h.there(ctx, id, len(all))
		}
		all = append(all, page...)
		after = page[len(page)-1].Seq
	}
}

// there returns the error of an execution that does not exist, if nothing of it was found.
func (h Executions) there(ctx context.Context, id courier.ExecutionID, found int) error {
	if found > 0 {
		return nil
	}
	_, err := h.Get(ctx, id)
	return err
}
