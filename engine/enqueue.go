package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/store"
)

// Enqueue creates an execution of the named job, which any engine on the store may run, and
// returns it. When Enqueue returns a nil error, the execution is durable in the store. If the
// idempotency key was used before, Enqueue returns the execution that used it, whatever its
// state. If that has other parameters, the error matches [courier.ErrConflict], unless opt
// has KeyAlone. With a KeyScope it may be an execution of another job. If there is no such
// job, the error matches courier.ErrNotFound. If parameters are wrong, it is a
// [*courier.ParamsError]. If a dependency of the job with on_unmet: refuse is not met,
// nothing is created, and the error is a *[courier.DependencyError]. A nil opt means the
// defaults. If no worker that serves the queue has claimed lately, Enqueue writes a warning
// to Options.Log, once a minute for each queue.
func (e *Engine) Enqueue(ctx context.Context, job string, opt *courier.EnqueueOptions) (courier.Execution, error) {
	x, err := e.enqueue(ctx, job, opt)
	if err == nil {
		e.unserved.Created(ctx, e.served(), x)
	}
	return x, err
}

// enqueue is Enqueue without the warning.
func (e *Engine) enqueue(ctx context.Context, job string, opt *courier.EnqueueOptions) (courier.Execution, error) {
	n, err := e.prepare(ctx, job, opt, true)
	if err != nil {
		return courier.Execution{}, fmt.Errorf("enqueue: %w", err)
	}
	got, err := e.create(ctx, []store.NewExecution{n})
	if errors.Is(err, store.ErrOutdated) {
		id := n.ID // it may have been created, by a call whose answer was lost
		if n, err = e.prepare(ctx, job, opt, false); err != nil {
			return courier.Execution{}, fmt.Errorf("enqueue: %w", err)
		}
		n.ID = id
		got, err = e.create(ctx, []store.NewExecution{n})
	}
	switch {
	case errors.Is(err, courier.ErrConflict), errors.Is(err, courier.ErrNotFound): // which name the job
		return courier.Execution{}, fmt.Errorf("enqueue: %w", err)
	case err != nil:
		return courier.Execution{}, fmt.Errorf("enqueue: job %q: %w", job, err)
	}
	if opt != nil {
		core.Explained(e.log, "execution", string(got[0].ID), "enqueued", opt.By, slog.String("job", job))
	}
	return got[0], nil
}

// EnqueueAll creates executions that [Engine.Prepare] has returned, of any jobs: all of
// them in one call of the store, or none if it returns an error. It returns one execution
// for each element of the list, in order. If an idempotency key was used before, that is
// the execution that used it, as with [Engine.Enqueue]; if it has other parameters, the
// error matches [courier.ErrConflict]. If an error, such as a lost connection, leaves
// open whether the list was stored, enqueue the same list again: no execution is created
// twice.
func (e *Engine) EnqueueAll(ctx context.Context, list []store.NewExecution) ([]courier.Execution, error) {
	got, err := e.create(ctx, list)
	if err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	e.unserved.Created(ctx, e.served(), got...)
	return got, nil
}

// Prepare returns the execution that [Engine.Enqueue] would create, and creates nothing.
// Pass the result to [Engine.EnqueueAll], or to a store that creates executions in a
// transaction of the caller, such as with EnqueueTx of package pgstore. Prepare checks
// the job and the options as Enqueue does. Version 0 means the present latest version;
// any other version is read from the store once. A nil opt means the defaults.
func (e *Engine) Prepare(ctx context.Context, job string, opt *courier.EnqueueOptions) (store.NewExecution, error) {
	n, err := e.prepare(ctx, job, opt, false)
	if err != nil {
		return store.NewExecution{}, fmt.Errorf("prepare: %w", err)
	}
	return n, nil
}

// prepare makes an execution. Known says that the latest version that is known here will
// do, if it still is the latest when the execution is created.
func (e *Engine) prepare(ctx context.Context, job string, opt *courier.EnqueueOptions, known bool) (store.NewExecution, error) {
	if opt == nil {
		opt = &courier.EnqueueOptions{}
	}
	if opt.Trace == "" {
		traced := *opt
		traced.Trace = access{e}.Trace(ctx)
		opt = &traced
	}
	var p *program.Program
	if known = known && opt.Version == 0; known {
		p = e.programs.Latest(job)
		known = p != nil
	}
	if p == nil {
		var err error
		if p, err = e.programs.Load(ctx, job, opt.Version); err != nil {
			return store.NewExecution{}, err
		}
	}
	n, err := access{e}.NewExecution(ctx, p, opt)
	if err != nil {
		return store.NewExecution{}, fmt.Errorf("job %q: %w", job, err)
	}
	n.Latest = known
	return n, nil
}

// create creates executions, all or none.
func (e *Engine) create(ctx context.Context, list []store.NewExecution) ([]courier.Execution, error) {
	var got []store.Enqueued
	ctx, cancel := context.WithTimeout(ctx, storecall.Timeout)
	defer cancel()
	calls := storecall.Calls{Parent: ctx, Awaited: true}
	defer calls.End()
	err := storecall.Retry(&calls, func(ctx context.Context) (err error) {
		got, err = e.store.Enqueue(ctx, list) // their ids make it safe to repeat
		return err
	})
	if err != nil {
		return nil, err
	}
	e.deadlines.Created(list) // of which some may have a deadline
	executions := make([]courier.Execution, len(got))
	for i := range got {
		executions[i] = got[i].Execution
	}
	return executions, nil
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
