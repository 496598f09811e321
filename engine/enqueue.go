package engine

import (
	"context"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// Enqueue creates an execution of the named job for some engine to run, and returns
// it. When Enqueue has returned nil, the execution is durable in the store. If the
// idempotency key was used before, Enqueue returns that execution, whatever its
// state, or [courier.ErrConflict] if it has other parameters. If a dependency of the
// job with on_unmet: refuse is not met, nothing is created, and the error is a
// *[courier.DependencyError]. A nil opt means the defaults. If the store has lately
// seen no worker that serves the queue, Enqueue logs a warning in Options.Log, once a
// minute for each queue.
func (e *Engine) Enqueue(ctx context.Context, job string, opt *courier.EnqueueOptions) (courier.Execution, error) {
	x, err := e.enqueuer.Enqueue(ctx, job, opt)
	if err == nil {
		e.unserved.Created(ctx, e.served(), x)
	}
	return x, err
}

// served returns the queues that this engine serves, none if it is not started.
func (e *Engine) served() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.worker == nil {
		return nil
	}
	return e.opt.Queues
}

// EnqueueAll creates executions that [Engine.Prepare] has made, of any jobs: all of
// them in one call of the store, or none if it returns an error. It returns one
// execution for each of the list, in order. If an idempotency key was used before,
// that is the execution that used it, as with [Engine.Enqueue]; if it has other
// parameters, the error is [courier.ErrConflict]. After an error that leaves open
// whether the list is in the store, enqueue the same list again: no execution is
// created twice.
func (e *Engine) EnqueueAll(ctx context.Context, list []store.NewExecution) ([]courier.Execution, error) {
	got, err := e.enqueuer.Create(ctx, list)
	if err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	e.unserved.Created(ctx, e.served(), got...)
	return got, nil
}

// Prepare returns what [Engine.Enqueue] would create, and creates nothing. Pass the
// result to [Engine.EnqueueAll], or to a store that creates executions in a
// transaction of the caller, such as EnqueueTx of package pgstore. Prepare checks the
// job and the options as Enqueue does. Version 0 is the version that is the latest
// now; any other version is read from the store once. A nil opt means the defaults.
func (e *Engine) Prepare(ctx context.Context, job string, opt *courier.EnqueueOptions) (store.NewExecution, error) {
	n, err := e.enqueuer.Prepare(ctx, job, opt, false)
	if err != nil {
		return store.NewExecution{}, fmt.Errorf("prepare: %w", err)
	}
	return n, nil
}
