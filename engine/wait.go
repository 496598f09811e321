package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/store"
)

// Run defines job, creates an execution of it, executes it in the calling goroutine,
// and returns it when it has ended. The engine need not be started. If it is, or if there
// are other engines on the same store, any of them may execute it. The error is nil only
// for a completed execution. It is a *[courier.StepError] for a failed one, and
// courier.ErrCancelled for a cancelled one. Run also waits during retries and pauses,
// and, with Hold, for the release. If ctx ends first, the step in progress is
// interrupted, and the execution stays in the queue for other engines.
func (e *Engine) Run(ctx context.Context, job courier.Job, opt *courier.EnqueueOptions) (courier.Execution, error) {
	if e.invalid != nil {
		return courier.Execution{}, fmt.Errorf("run job %q: %w", job.Name, e.invalid)
	}
	defined, err := e.Jobs().Define(ctx, job, nil)
	if err != nil {
		return courier.Execution{}, err
	}
	var o courier.EnqueueOptions
	if opt != nil {
		o = *opt
	}
	o.Version = defined.Job.Version
	x, err := e.enqueue(ctx, job.Name, &o)
	if err != nil {
		return courier.Execution{}, err
	}
	return e.runOne(ctx, x)
}

// runOne claims and drives one execution until it has ended.
func (e *Engine) runOne(ctx context.Context, x courier.Execution) (courier.Execution, error) {
	defer e.observers.Flush(maxFlush)
	var last *courier.StepError
	for {
		if x.State.Ended() {
			return x, outcomeError(&x, last)
		}
		req := e.claimRequest(1)
		req.Only, req.Queues = []courier.ExecutionID{x.ID}, []string{x.Queue}
		sent := time.Now()
		var got *store.Claims
		var err error
		if e.canClaim(ctx) {
			var claims store.Claims
			claim, cancel := context.WithTimeout(ctx, storecall.Timeout)
			claims, err = e.store.Claim(claim, req)
			cancel()
			got = &claims
		}
		switch {
		case err == nil && got != nil && len(got.List) == 1:
			last = e.driveHere(ctx, &got.List[0], sent)
		case ctx.Err() == nil:
			e.idle(ctx, &x, got, err)
		}
		if ctx.Err() != nil {
			return e.unfinished(ctx, x)
		}
		now, err := e.reload(ctx, x.ID)
		if err != nil {
			return x, fmt.Errorf("run job %q: execution %s: %w", x.Job, x.ID, err)
		}
		x = now
	}
}

// reload returns an execution as it is, and tries until it can or ctx ends.
func (e *Engine) reload(ctx context.Context, id courier.ExecutionID) (x courier.Execution, err error) {
	p := storecall.Calls{Parent: ctx}
	defer p.End()
	err = storecall.Retry(&p, func(ctx context.Context) (err error) {
		x, err = e.store.Execution(ctx, id)
		return err
	})
	return x, err
}

// driveHere drives a claimed execution in the calling goroutine.
func (e *Engine) driveHere(ctx context.Context, c *store.Claimed, sent time.Time) *courier.StepError {
	r := e.newRun(ctx, c, sent, ctx.Done())
	r.unready = e.work.Ready()
	e.track(r)
	defer e.untrack(r)
	defer context.AfterFunc(ctx, func() { r.lease.Interrupt(courier.ErrStopped) })()
	r.driveAround(c)
	return r.err
}

// idle waits until the execution may be claimable, or its state is another, since another
// worker has claimed it. Got is nil if nothing may be claimed.
func (e *Engine) idle(ctx context.Context, x *courier.Execution, got *store.Claims, err error) {
	wait := e.opt.Poll
	if err != nil {
		e.log.Error("claim", "error", err)
	} else if got != nil {
		wait = e.until(got)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	var changed sync.WaitGroup
	changed.Go(func() {
		defer cancel()
		_ = e.waiters.Until(ctx, x.ID, func() (bool, error) {
			now, err := e.store.Execution(ctx, x.ID)
			return err == nil && now.State != x.State, nil
		})
	})
	if got == nil || err != nil || e.store.Await(ctx, []string{x.Queue}, got.Mark) != nil {
		<-ctx.Done()
	}
	cancel()
	changed.Wait()
}

// unfinished is what Run returns when its context ended.
func (e *Engine) unfinished(ctx context.Context, x courier.Execution) (courier.Execution, error) {
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), storecall.Timeout)
	defer cancel()
	if now, err := e.store.Execution(after, x.ID); err == nil {
		x = now
	}
	if x.State.Ended() {
		return x, outcomeError(&x, nil)
	}
	return x, fmt.Errorf("run job %q: execution %s is %s and stays in the store: %w", x.Job, x.ID, x.State, ctx.Err())
}

// outcomeError is the error of an execution that has ended, with the step's own
// error where this engine has seen it.
func outcomeError(x *courier.Execution, last *courier.StepError) error {
	if f := x.Failure; x.State == courier.Failed && last != nil && f != nil && f.Step == last.Step && f.Attempt == last.Attempt {
		return last
	}
	return x.Err()
}

// Wait returns the execution when it is completed, failed or cancelled. It goes on
// waiting while the execution is paused. The error is nil whatever the outcome; see
// [courier.Execution.Err]. If ctx ends first, Wait returns the error of ctx and the
// execution as it is.
func (e *Engine) Wait(ctx context.Context, id courier.ExecutionID) (courier.Execution, error) {
	return e.Executions().WaitFor(ctx, id, func(x *courier.Execution) bool { return x.State.Ended() })
}
