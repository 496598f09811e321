package engine

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/store"
)

// Target returns the latest version of a job, or of a chain if job is empty, to
// start it together with a record of the store. The error of one that does not exist
// matches [courier.ErrNotFound].
func (c access) Target(ctx context.Context, job, chain string) (core.Target, error) {
	t := &target{access: c}
	var err error
	if job != "" {
		t.job, err = c.e.programs.Load(ctx, job, 0)
		return t, err
	}
	if _, err := c.e.roles.Chains(); err != nil {
		return nil, err
	}
	t.chain, err = c.e.chains.Load(ctx, chain, 0)
	return t, err
}

// targetOf returns the job or chain of a definition.
func (c access) targetOf(ctx context.Context, d *store.Definition) (core.Target, error) {
	t := &target{access: c}
	var err error
	if d.Kind == store.Chain {
		t.chain, err = c.e.chains.Load(ctx, d.Name, d.Version)
	} else {
		t.job, err = c.e.programs.Of(d)
	}
	return t, err
}

// Started gives observers the events of chain executions that were started.
func (c access) Started(list []chain.Started) { c.e.chains.Started(list) }

// A target is a job or a chain; see [core.Target].
type target struct {
	access access
	job    *program.Program
	chain  *chain.Loaded // nil if it is a job
}

func (t *target) Params() map[string]any {
	if t.chain != nil {
		return t.chain.Chain.Params
	}
	return t.job.Job.Params
}

func (t *target) Job() (name string, version int) {
	if t.chain != nil {
		return "", 0
	}
	return t.job.Job.Name, t.job.Version
}

func (t *target) Prepare(ctx context.Context, s core.Start) (core.Prepared, error) {
	if t.chain != nil {
		n, err := t.chain.NewExecution(ctx, &chain.StartOptions{Params: s.Params, IdempotencyKey: s.IdempotencyKey, By: s.By})
		return core.Prepared{Chain: &n}, err
	}
	n, err := t.access.NewExecution(ctx, t.job, &courier.EnqueueOptions{Params: s.Params, Priority: s.Priority, IdempotencyKey: s.IdempotencyKey, By: s.By})
	return core.Prepared{Execution: &n}, err
}
