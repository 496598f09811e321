package engine

import (
	"context"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/engine/internal/repair"
	"github.com/courierhq/courier/flow"
)

// Values returns the values that are in scope at the position of an execution, by key: its
// parameters, the system values, and the outputs of its completed steps, such as
// "0.file_list", also under the ids of the steps. The path of its workspace is included
// only if it is in the directory of this engine, because it would be meaningless on another
// host.
func (h Executions) Values(ctx context.Context, id courier.ExecutionID) (map[string]any, error) {
	x, err := h.e.roles.Archive().Execution(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("values of execution %q: %w", id, err)
	}
	p, err := h.e.programs.Load(ctx, x.Job, x.Version)
	if err != nil {
		return nil, fmt.Errorf("values of execution %q: %w", id, err)
	}
	vals, err := h.valuesOf(ctx, p, &x)
	if err != nil {
		return nil, fmt.Errorf("values of execution %q: %w", id, err)
	}
	values := vals.Snapshot()
	if x.Workspace == "" || x.Workspace != h.e.opt.WorkspaceID {
		delete(values, "job.workspace")
	}
	return values, nil
}

// valuesOf returns the values that are in scope where an execution stands that no run of
// this engine has.
func (h Executions) valuesOf(ctx context.Context, p *program.Program, x *courier.Execution) (*program.Values, error) {
	vals := program.NewValues(p, x, h.e.work.Of(x.ID))
	history := h.history(p, x)
	if err := history.ReadAndRestore(ctx, vals, x.Position); err != nil {
		return nil, err
	}
	if err := history.EndLoops(ctx, p, vals); err != nil {
		return nil, err
	}
	members, err := h.e.memberValues(ctx, p, x)
	vals.SetMembers(members)
	return vals, err
}

func (h Executions) history(p *program.Program, x *courier.Execution) *repair.History {
	return &repair.History{Archive: h.e.roles.Archive(), Tree: p.Tree, Execution: x}
}

// FailedItems returns the items of an execution's loops that failed and were not
// repaired, in the order of the list. In nested loops these are the outermost items. Each
// has its first failure.
func (h Executions) FailedItems(ctx context.Context, id courier.ExecutionID) ([]courier.FailedItem, error) {
	x, err := h.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	p, err := h.e.programs.Load(ctx, x.Job, x.Version)
	if err != nil {
		return nil, fmt.Errorf("failed items of execution %q: %w", id, err)
	}
	if p.Tree == nil {
		return nil, nil
	}
	left, err := h.history(p, &x).Failures(ctx)
	if err != nil {
		return nil, fmt.Errorf("failed items of execution %q: %w", id, err)
	}
	return repair.FailedItems(p.Tree, left, x.Position), nil
}

// RescuedItems returns the items of an execution's loops that were rescued, each with the
// failure that led to the rescue, in the order of the failures.
func (h Executions) RescuedItems(ctx context.Context, id courier.ExecutionID) ([]courier.FailedItem, error) {
	x, err := h.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	p, err := h.e.programs.Load(ctx, x.Job, x.Version)
	if err != nil {
		return nil, fmt.Errorf("rescued items of execution %q: %w", id, err)
	}
	if p.Tree == nil {
		return nil, nil
	}
	list, err := h.history(p, &x).RescuedItems(ctx)
	if err != nil {
		return nil, fmt.Errorf("rescued items of execution %q: %w", id, err)
	}
	return list, nil
}

// An Outline is an execution with the state of each entry of its job.
type Outline struct {
	Execution courier.Execution `json:"execution"`
	Steps     []flow.Outlined   `json:"steps"` // in the order of the job's list
}

// Outline returns the steps and markers of the job of an execution, each with one state,
// as an overview for a page. It reads only the latest record of each step, however many
// iterations there were. If several loops of the job count failed items, the counts of
// loops that have ended cover only the first 1,000 records. If there is no such
// execution, the error matches [courier.ErrNotFound].
func (h Executions) Outline(ctx context.Context, id courier.ExecutionID) (Outline, error) {
	x, err := h.Get(ctx, id)
	if err != nil {
		return Outline{}, fmt.Errorf("outline: %w", err)
	}
	p, err := h.e.programs.Load(ctx, x.Job, x.Version)
	if err == nil && p.Tree == nil {
		err = p.NotRunnable
	}
	if err != nil {
		return Outline{}, fmt.Errorf("outline of execution %q: %w", id, err)
	}
	latest, counted, err := h.history(p, &x).Overview(ctx)
	if err != nil {
		return Outline{}, fmt.Errorf("outline of execution %q: %w", id, err)
	}
	return Outline{x, p.Tree.Outline(&x, latest, counted)}, nil
}
