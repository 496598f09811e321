package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/history"
	"github.com/courierhq/courier/engine/internal/leases"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/engine/internal/repair"
	"github.com/courierhq/courier/engine/internal/stepcall"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/failure"
	"github.com/courierhq/courier/store"
)

// settle decides what an attempt's outcome leads to. It reports false when the
// run is over.
func (r *run) settle(step, n int, o stepcall.Outcome) bool {
	r.holdReported(r.checkpoint.Current(), o.Files)
	if !r.lease.Held() {
		return false // the execution belongs to another worker now
	}
	rec := *r.checkpoint.Current()
	rec.Worker = "" // this one
	rec.Bytes, rec.Files, rec.Log = o.Bytes, o.Files, o.Log
	if o.Err == nil {
		rec.State, rec.Outputs, rec.Events = courier.StepCompleted, o.Outputs, o.Events
		r.checkpoint.Add(rec)
		r.vals.Set(step, o.Outputs)
		r.gotPast(step)
		r.walk.Advance()
		r.checkpoint.Passed()
		return true
	}
	rec.State, rec.Reason, rec.Error = courier.StepFailed, o.Reason, r.secrets.Message(o.Err)
	rec.Stack, rec.Outputs = o.Stack, o.Outputs // of a type with FailedOutputs; no reference can name them
	cause := context.Cause(r.lease.Steps())
	switch {
	case errors.Is(cause, courier.ErrCancelled):
		rec.Reason, rec.Error = courier.ReasonCancelled, "cancelled: "+rec.Error
		r.checkpoint.Add(rec)
		r.rollback(step, n, o.Abandoned, true)
		r.cancelled()
		return false
	case errors.Is(cause, courier.ErrStopped):
		return r.requeue(o.Abandoned)
	}
	err := &courier.StepError{
		Execution: r.x.ID, Job: r.x.Job, Step: step, ID: rec.ID, Type: rec.Type,
		Iteration: rec.Iteration, Attempt: n, Reason: o.Reason, Err: o.Err,
	}
	if errors.Is(cause, leases.ErrTimeout) {
		late := r.timedOut()
		err.Reason, err.Err = late.Reason, fmt.Errorf("%w; meanwhile: %w", late.Err, o.Err)
		r.checkpoint.Add(rec)
		r.rollback(step, n, o.Abandoned, false)
		r.fail(err, r.walk.Position())
		return false
	}
	return r.failed(err, rec, o.Abandoned)
}

// requeue gives an interrupted execution back to the queue, or does what an
// operator has requested meanwhile. If the step has returned, the same attempt goes
// on elsewhere; otherwise the next one gets a new number, and so a directory of
// its own.
func (r *run) requeue(abandoned bool) bool {
	r.checkpoint.Interrupted = !abandoned
	for r.lease.Held() {
		to := courier.Queued
		if q := r.lease.Request(); q != nil && (q.Request == courier.RequestCancel || q.Request == courier.RequestAbort) {
			to = courier.Cancelled
			r.rollback(r.checkpoint.Current().Step, r.checkpoint.Current().Attempt, abandoned, true)
		} else if q != nil && r.finish == nil {
			to = courier.Paused
		}
		t := &store.Transition{To: to, Interrupt: true, Position: r.walk.Position()}
		if to == courier.Paused {
			t.Request = courier.RequestPause
		}
		write := r.apply
		if to == courier.Cancelled {
			write = r.conclude
		}
		err := write(t)
		if !errors.Is(err, courier.ErrConflict) {
			break
		}
	}
	return false
}

// failed applies the failure policy of a step to a failed attempt.
func (r *run) failed(err *courier.StepError, rec courier.StepExecution, abandoned bool) bool {
	policy, retries := r.program.Policy(rec.Step), 0
	if r.x.MaxRetries != nil {
		policy.MaxRetries = r.x.MaxRetries
	}
	if policy.Repeats(err.Reason, err.Err) {
		retries = policy.Retries()
	}
	switch {
	case policy.Type == courier.SkipAndContinue:
		rec.State = courier.StepSkipped
		r.rollback(rec.Step, rec.Attempt, abandoned, false)
		r.checkpoint.Add(rec)
		r.stopsAt(rec.Step)
		r.walk.Advance()
		r.checkpoint.Passed()
		return true
	case policy.Type == courier.RetryStep && r.checkpoint.Failures < retries:
		delay, counters := program.RetryDelay(policy, &r.x, r.checkpoint.Attempts, r.checkpoint.Failures), r.checkpoint.Counters
		counters.Failures++
		counters.Reclaims = 0
		return r.retryLater(&store.Transition{To: courier.Queued, Delay: delay, Position: r.walk.Position()}, counters, err, rec)
	case policy.Type == courier.RetryJob && r.checkpoint.JobFailures < retries:
		err.Err = r.firstCause(err.Err)
		delay, counters := program.RetryDelay(policy, &r.x, r.checkpoint.Attempts, r.checkpoint.JobFailures), store.Counters{JobFailures: r.checkpoint.JobFailures + 1}
		return r.retryLater(&store.Transition{To: courier.Queued, Delay: delay, RetryJob: true}, counters, err, rec)
	}
	r.rollback(rec.Step, rec.Attempt, abandoned, false)
	item, goesOn := r.failItem(rec.Step, err.Reason)
	item.mark(&rec)
	r.ended(rec)
	if goesOn {
		return true
	}
	if text := item.rescueText(); text != "" {
		err.Err = fmt.Errorf("%w%s", err.Err, text)
	}
	r.checkpoint.Reclaims = 0
	r.fail(err, r.walk.Position())
	return false
}

// retryLater requeues the execution with a delay and the counters for the retry, or
// answers the request that came first.
func (r *run) retryLater(t *store.Transition, counters store.Counters, err *courier.StepError, rec courier.StepExecution) bool {
	before := r.checkpoint.Counters
	err.Err = r.secrets.CleanError(err.Err)
	r.failedWith(err)
	t.Failure = r.failure(err)
	r.checkpoint.Add(rec)
	for r.lease.Held() {
		r.checkpoint.Counters = counters
		if e := r.apply(t); !errors.Is(e, courier.ErrConflict) {
			break
		}
		// A pause or cancel is pending: it decides where the execution waits. A
		// pause keeps the failed attempt; a resume goes on from this step.
		if r.checkpoint.Counters = before; r.boundary() {
			break
		}
	}
	return false
}

// markerFailed handles a flow.if or flow.foreach that can't be evaluated, which is a
// failure of that step that no repetition cures, or a loop of which too many items have
// failed.
func (r *run) markerFailed(err error) bool {
	if e, ok := errors.AsType[*flow.LoopError](err); ok {
		return r.loopFailed(e)
	}
	step := r.walk.Position().Step
	field := err
	if e, ok := errors.AsType[*flow.EvalError](err); ok {
		step = e.Step
	}
	spec := r.program.Tree.Spec(step)
	r.count()
	rec := courier.StepExecution{
		Step: step, ID: spec.ID, Type: strings.ToLower(spec.Type), Iteration: r.walk.Iteration(), Total: r.walk.Total(),
		Attempt: r.checkpoint.Attempts, ExecutionAttempt: r.x.Attempt,
		State: courier.StepFailed, Reason: courier.ReasonConfig, Error: r.secrets.Message(field),
	}
	if r.program.Policy(step).Type == courier.SkipAndContinue {
		rec.State = courier.StepSkipped
		r.checkpoint.Add(rec)
		r.stopsAt(step)
		r.walk.Advance()
		r.checkpoint.Passed()
		return true
	}
	item, goesOn := r.failItem(step, courier.ReasonConfig)
	item.mark(&rec)
	r.ended(rec)
	if goesOn {
		return true
	}
	r.fail(&courier.StepError{
		Step: step, ID: rec.ID, Type: rec.Type, Iteration: rec.Iteration, Attempt: rec.Attempt,
		Reason: courier.ReasonConfig, Err: courier.Permanent(field),
	}, r.walk.Position())
	return false
}

// maxRollback is how long a rollback may take.
const maxRollback = time.Minute

// rollback undoes what the failed or interrupted attempt did, as far as its
// step can. Its failure is logged, and changes nothing.
func (r *run) rollback(step, n int, abandoned, cancelled bool) {
	atWork := r.e.slots.IsStuck(r.x.ID)
	if !r.program.Types[step].RollsBack() {
		return
	}
	if abandoned || atWork {
		return // it may still be at work; nothing of it is ever used again
	}
	ctx, cancel := context.WithTimeout(r.lease.Context(), maxRollback)
	defer cancel()
	a := r.newAttempt(step)
	a.template, a.rollback, a.cancelled = r.program.Template(step), true, cancelled
	defer a.scope.Close()
	a.job = r.newContext(step, n, a)
	defer a.job.Close()
	r.caller.Do(func() {
		a.call(func() (json.RawMessage, error) {
			config, err := a.render(ctx)
			if err != nil {
				return nil, err
			}
			return nil, a.typ.Rollback(ctx, a.job, config)
		})
	})
	o, returned := a.await(ctx.Done(), nil)
	if !returned {
		r.e.abandon(a)
	} else if o.Err != nil {
		r.log.Warn("roll back step", "step", step, "type", a.typ.Key(), "error", r.secrets.Message(o.Err))
	}
}

// fail ends the execution as failed, at a position from which it can be
// resumed.
func (r *run) fail(err *courier.StepError, pos courier.Position) {
	if r.finish == nil {
		err.Err = r.firstCause(err.Err)
	}
	err.Execution, err.Job, err.Err = r.x.ID, r.x.Job, r.secrets.CleanError(err.Err)
	r.failedWith(err)
	t := &store.Transition{To: courier.Failed, Position: pos, Failure: r.failure(err), DiskBytes: r.diskBytes()}
	if e := r.conclude(t); errors.Is(e, courier.ErrConflict) && r.lease.Held() {
		if r.walk != nil {
			r.undo(true) // what was kept for a resume
		}
		r.cancelled()
	}
}

// failedWith takes note of the error with which the execution fails. An error of its finally
// part is not that.
func (r *run) failedWith(err *courier.StepError) {
	if r.finish == nil {
		r.err = err
	}
}

// firstCause adds to the error of a job that was started again why its first
// attempt failed, which is often the cause of the later failures.
func (r *run) firstCause(err error) error {
	if r.x.Attempt == 1 {
		return err
	}
	ctx, cancel := context.WithTimeout(r.lease.Context(), repair.MaxReading)
	defer cancel()
	first, read := history.FirstFailure(ctx, r.e.store, r.x.ID)
	if read != nil {
		r.log.Error("read why the first attempt of the job failed", "error", read)
	}
	if first == nil || first.Error == r.secrets.Message(err) {
		return err
	}
	return fmt.Errorf("%w; attempt 1 of the job had failed in step %d (%s) with: %s", err, first.Step, first.Type, first.Error)
}

// failure is the stored form of an error, without secrets and cut to a length
// that people and rows can take.
func (r *run) failure(err *courier.StepError) *courier.Failure {
	if err.ItemLabels == nil && len(err.Iteration) > 0 && r.walk != nil {
		if labels := r.itemLabels(); len(labels) >= len(err.Iteration) {
			err.ItemLabels = labels[:len(err.Iteration)]
		}
	}
	return &courier.Failure{
		Step: err.Step, ID: err.ID, Type: err.Type, Iteration: err.Iteration, ItemLabels: err.ItemLabels, Attempt: err.Attempt,
		Reason: err.Reason, Message: r.secrets.Message(err.Err), Connection: r.connection(err),
	}
}

// connection returns the connection at which an attempt of a step has failed: that of its error,
// or else the one that its configuration names.
func (r *run) connection(err *courier.StepError) string {
	id := failure.ConnectionOf(err.Err)
	if id == "" && err.Step >= 0 && r.walk != nil {
		id = r.program.Tree.Template(err.Step).Connection(r.walk)
	}
	return r.secrets.Clean(id)
}

func (r *run) timedOut() *courier.StepError {
	if r.finish != nil {
		err := fmt.Errorf("the finally part took longer than its timeout of %v", r.finish.Timeout)
		return &courier.StepError{Step: -1, Reason: courier.ReasonTimeout, Err: err}
	}
	err := fmt.Errorf("the execution took longer than its timeout of %v", r.x.Timeout)
	return &courier.StepError{Step: -1, Reason: courier.ReasonExecution, Err: err}
}
