package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/engine/internal/repair"
	"github.com/courierhq/courier/store"
)

// memberValues returns the outputs of the members that a program refers to, by member: nil
// for an execution that is no member, or refers to none. A member that has not ended, or
// that retention has removed, has no entry.
func (e *Engine) memberValues(ctx context.Context, p *program.Program, x *courier.Execution) (map[string]any, error) {
	if x.Chain == "" || len(p.Members) == 0 {
		return nil, nil
	}
	chains, err := e.roles.Chains()
	if err != nil {
		return nil, nil
	}
	c, err := chains.ChainExecution(ctx, x.Chain)
	if errors.Is(err, courier.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("load chain execution %s: %w", x.Chain, err)
	}
	values := make(map[string]any)
	for _, name := range p.Members {
		m := c.Member(name)
		if m == nil || m.Execution == "" || !courier.State(m.State).Ended() {
			continue
		}
		outputs, err := e.outputsOf(ctx, m.Execution)
		if errors.Is(err, courier.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("load the outputs of member %q, execution %s: %w", name, m.Execution, err)
		}
		values[name] = outputs
	}
	return values, nil
}

// outputsOf returns the outputs of the completed steps of an execution that has ended,
// by name. Of steps that have an output of the same name, it is that of the last one.
// The step types need not be registered.
func (e *Engine) outputsOf(ctx context.Context, id courier.ExecutionID) (map[string]any, error) {
	x, err := e.roles.Archive().Execution(ctx, id)
	if err != nil {
		return nil, err
	}
	d, err := e.roles.Catalog().Load(ctx, store.Job, x.Job, x.Version)
	if err != nil {
		return nil, err
	}
	p, err := e.programs.Of(&d)
	if err != nil {
		return nil, err
	}
	if p.Tree == nil {
		return nil, p.NotRunnable
	}
	vals := program.NewValues(p, &x, "")
	if err := (&repair.History{Archive: e.roles.Archive(), Tree: p.Tree, Execution: &x}).ReadAndRestore(ctx, vals, x.Position); err != nil {
		return nil, err
	}
	return vals.Outputs(), nil
}
