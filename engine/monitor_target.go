package engine

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/store"
)

// A target is a job or a chain that a monitor starts, in the version that was the
// latest at one moment.
type target struct {
	e     *Engine
	job   *program
	chain *loadedChain // nil if it is a job
}

func (r room) Target(ctx context.Context, job, chain string) (core.Target, error) {
	t := &target{e: r.e}
	var err error
	if job != "" {
		t.job, err = r.e.program(ctx, job, 0)
		return t, err
	}
	if _, err := r.e.chains(); err != nil {
		return nil, err
	}
	t.chain, err = r.e.loadChain(ctx, chain, 0)
	return t, err
}

func (t *target) Params() map[string]any {
	if t.chain != nil {
		return t.chain.Params
	}
	return t.job.job.Params
}

func (t *target) Job() (name string, version int) {
	if t.chain != nil {
		return "", 0
	}
	return t.job.job.Name, t.job.version
}

func (t *target) AddTo(r *store.MonitorRecord, s core.Start) (courier.ExecutionID, error) {
	if t.chain != nil {
		n, err := t.e.newChain(t.chain, &ChainOptions{Params: s.Params, IdempotencyKey: s.IdempotencyKey, By: s.By})
		r.Chains = append(r.Chains, n)
		return courier.ExecutionID(n.ID), err
	}
	n, err := t.e.execution(t.job, courier.ExecutionID(t.e.ids.New()), &EnqueueOptions{
		Params: s.Params, Priority: s.Priority, IdempotencyKey: s.IdempotencyKey, By: s.By,
	})
	r.Executions = append(r.Executions, n)
	return n.ID, err
}
