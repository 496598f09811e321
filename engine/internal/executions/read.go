package executions

import (
	"context"
	"errors"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// Get returns an execution as it is now.
func (v *Service) Get(ctx context.Context, id courier.ExecutionID) (courier.Execution, error) {
	x, err := v.opt.Roles.Archive().Execution(ctx, id)
	if errors.Is(err, courier.ErrNotFound) {
		return x, courier.Errorf(courier.ErrNotFound, "there is no execution %q", id)
	}
	if err != nil {
		return x, fmt.Errorf("load execution: %w", err)
	}
	return x, nil
}

// List returns a page of executions, the newest first.
func (v *Service) List(ctx context.Context, f store.Filter) ([]courier.Execution, error) {
	list, err := v.opt.Roles.Archive().Executions(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("executions: %w", err)
	}
	return list, nil
}

// WaitFor returns an execution as soon as done reports true for it. If ctx ends first, it
// returns the error of ctx and the execution as it is.
func (v *Service) WaitFor(ctx context.Context, id courier.ExecutionID, done func(*courier.Execution) bool) (courier.Execution, error) {
	var x courier.Execution
	var failed error
	err := v.opt.WaitUntil(ctx, id, func() (bool, error) {
		x, failed = v.opt.Roles.Archive().Execution(ctx, id)
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

// Steps returns the records of all attempts of all steps of an execution, in the order in
// which they ended.
func (v *Service) Steps(ctx context.Context, id courier.ExecutionID) ([]courier.StepExecution, error) {
	var all []courier.StepExecution
	for after := int64(0); ; {
		page, err := v.opt.Roles.Archive().Steps(ctx, store.StepFilter{Execution: id, After: after})
		if err != nil {
			return nil, fmt.Errorf("steps of execution %q: %w", id, err)
		}
		if len(page) == 0 {
			return all, v.setVersions(ctx, id, all)
		}
		all = append(all, page...)
		after = page[len(page)-1].Seq
	}
}

// setVersions sets the versions of records where the execution had several.
func (v *Service) setVersions(ctx context.Context, id courier.ExecutionID, list []courier.StepExecution) error {
	x, err := v.Get(ctx, id)
	store.SetVersions(&x, list)
	return err
}

// StepsPage returns a page of the records of an execution. If there is no such execution,
// the page is empty.
func (v *Service) StepsPage(ctx context.Context, f store.StepFilter) ([]courier.StepExecution, error) {
	list, err := v.opt.Roles.Archive().Steps(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("steps of execution %q: %w", f.Execution, err)
	}
	if len(list) > 0 {
		err = v.setVersions(ctx, f.Execution, list)
	}
	return list, err
}

// AuditPage returns a page of the audit of an execution. If there is no such execution,
// the page is empty.
func (v *Service) AuditPage(ctx context.Context, f store.AuditFilter) ([]courier.AuditEntry, error) {
	list, err := v.opt.Roles.Archive().Audit(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("audit of execution %q: %w", f.Execution, err)
	}
	return list, nil
}

// Audit returns the audit of an execution, complete and in order.
func (v *Service) Audit(ctx context.Context, id courier.ExecutionID) ([]courier.AuditEntry, error) {
	var all []courier.AuditEntry
	for after := int64(0); ; {
		page, err := v.opt.Roles.Archive().Audit(ctx, store.AuditFilter{Execution: id, After: after})
		if err != nil {
			return nil, fmt.Errorf("audit of execution %q: %w", id, err)
		}
		if len(page) == 0 {
			return all, v.there(ctx, id, len(all))
		}
		all = append(all, page...)
		after = page[len(page)-1].Seq
	}
}

// there returns the error of an execution that does not exist, if nothing of it was found.
func (v *Service) there(ctx context.Context, id courier.ExecutionID, found int) error {
	if found > 0 {
		return nil
	}
	_, err := v.Get(ctx, id)
	return err
}
