package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/store"
)

// EnqueueOptions are the settings of a new execution. The zero value is the
// default.
type EnqueueOptions struct {
	Params         map[string]any // the values params.*; any that encoding/json can handle
	Priority       int16          // higher is claimed first
	Delay          time.Duration  // until it is due
	IdempotencyKey string         // unique per job; a used one returns the execution that used it
	// LimitKeys are in addition to the job's; these alone may begin with store.UserLimitKey. An
	// execution has at most 16, of at most 1,000 bytes each and 2 KiB together.
	LimitKeys []string
	Hold      bool           // creates it in the state created, until Release
	Version   int            // of the job; 0 means the latest
	Timeout   *time.Duration // of the whole execution, in place of the job's; nil means that, 0 none
	// Expires is the time, from now, in which the execution has to begin; 0 means any. If no
	// worker has claimed it by then, it fails for the reason expired, also if it is held,
	// paused or waits for other jobs. It can be resumed then.
	Expires time.Duration
	// Labels are names and values by which people find the execution: at most 16 besides [LabelBy]. A name
	// begins with a small letter, and has up to 63 small letters, digits, "_" and "-"; it is
	// not "file". A value has 1 to 200 characters.
	Labels map[string]string
	// MaxRetries replaces the number of retries of all failure policies of the job that
	// repeat; nil leaves them, and 0 allows none.
	MaxRetries *int
	// Trace is the trace context in which the execution is enqueued, in the form of the
	// header traceparent (W3C Trace Context). Empty means that of Options.Trace.
	Trace string
	By    courier.By // who requests it; [Engine.Prepare] keeps the actor alone
}

// Enqueue creates an execution of the named job for some engine to run, and returns
// it. When Enqueue has returned nil, the execution is durable in the store. If the
// idempotency key was used before, Enqueue returns that execution, whatever its
// state, or [courier.ErrConflict] if it has other parameters. If a dependency of the
// job with on_unmet: refuse is not met, nothing is created, and the error is a
// *[courier.DependencyError]. A nil opt means the defaults. If the store has lately
// seen no worker that serves the queue, Enqueue logs a warning in Options.Log, once a
// minute for each queue.
func (e *Engine) Enqueue(ctx context.Context, job string, opt *EnqueueOptions) (courier.Execution, error) {
	x, err := e.enqueuer.Enqueue(ctx, job, (*program.Options)(opt))
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
func (e *Engine) Prepare(ctx context.Context, job string, opt *EnqueueOptions) (store.NewExecution, error) {
	n, err := e.enqueuer.Prepare(ctx, job, (*program.Options)(opt), false)
	if err != nil {
		return store.NewExecution{}, fmt.Errorf("prepare: %w", err)
	}
	return n, nil
}
