package executions

import (
	"context"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/engine/internal/repair"
	"github.com/courierhq/courier/flow"
)

// Values returns the values that are in scope at the position of an execution, by key. The path
// of its workspace is among them only if that lies in the directory of this engine: on another
// host it would name nothing.
func (v *Service) Values(ctx context.Context, id courier.ExecutionID) (map[string]any, error) {
	x, err := v.opt.Roles.Archive().Execution(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("values of execution %q: %w", id, err)
	}
	p, err := v.opt.Programs.Load(ctx, x.Job, x.Version)
	if err != nil {
		return nil, fmt.Errorf("values of execution %q: %w", id, err)
	}
	vals, err := v.ValuesOf(ctx, p, &x)
	if err != nil {
		return nil, fmt.Errorf("values of execution %q: %w", id, err)
	}
	values := vals.Snapshot()
	if x.Workspace == "" || x.Workspace != v.opt.WorkspaceID {
		delete(values, "job.workspace")
	}
	return values, nil
}

// ValuesOf returns the values that are in scope where an execution stands that no run of
// this engine has.
func (v *Service) ValuesOf(ctx context.Context, p *program.Program, x *courier.Execution) (*program.Values, error) {
	vals := program.NewValues(p, x, v.opt.Workspace(x.ID))
	history := v.history(p, x)
	if err := history.ReadAndRestore(ctx, vals, x.Position); err != nil {
		return nil, err
	}
	if err := history.EndLoops(ctx, p, vals); err != nil {
		return nil, err
	}
	members, err := v.opt.Members(ctx, p, x)
	vals.SetMembers(members)
	return vals, err
}

func (v *Service) history(p *program.Program, x *courier.Execution) *repair.History {
	return &repair.History{Archive: v.opt.Roles.Archive(), Tree: p.Tree, Execution: x}
}

// FailedItems returns the items of an execution's loops that failed and were not repaired.
func (v *Service) FailedItems(ctx context.Context, id courier.ExecutionID) ([]repair.FailedItem, error) {
	x, err := v.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	p, err := v.opt.Programs.Load(ctx, x.Job, x.Version)
	if err != nil {
		return nil, fmt.Errorf("failed items of execution %q: %w", id, err)
	}
	if p.Tree == nil {
		return nil, nil
	}
	left, err := v.history(p, &x).Failures(ctx)
	if err != nil {
		return nil, fmt.Errorf("failed items of execution %q: %w", id, err)
	}
	return repair.FailedItems(p.Tree, left, x.Position), nil
}

// An Outline is an execution with the state of each entry of its job, in the order of the
// job's list.
type Outline struct {
	Execution courier.Execution
	Steps     []flow.Outlined
}

// Outline returns the steps and markers of the job of an execution, each with one state.
// It reads the latest record of each step.
func (v *Service) Outline(ctx context.Context, id courier.ExecutionID) (Outline, error) {
	x, err := v.Get(ctx, id)
	if err != nil {
		return Outline{}, fmt.Errorf("outline: %w", err)
	}
	p, err := v.opt.Programs.Load(ctx, x.Job, x.Version)
	if err == nil && p.Tree == nil {
		err = p.NotRunnable
	}
	if err != nil {
		return Outline{}, fmt.Errorf("outline of execution %q: %w", id, err)
	}
	latest, failed, err := v.history(p, &x).Overview(ctx)
	if err != nil {
		return Outline{}, fmt.Errorf("outline of execution %q: %w", id, err)
	}
	return Outline{x, p.Tree.Outline(&x, latest, failed)}, nil
}
