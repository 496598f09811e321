package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/executionlog"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/internal/secret"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/store"
)

// Pause requests that an execution stops before its next step. If it is queued, or
// its worker is lost, it is paused at once; otherwise Pause returns when the request
// is recorded, and the worker carries it out. Like the other requests, Pause returns the
// execution as it is afterwards, with the pending request. If its state does not allow
// the request, the error is a *[courier.TransitionError]. If there is no such execution,
// the error matches [courier.ErrNotFound].
func (e *Engine) Pause(ctx context.Context, id courier.ExecutionID, by courier.By) (courier.Execution, error) {
	return e.request(ctx, id, courier.RequestPause, by)
}

// Cancel cancels an execution. If no worker has it, it is cancelled at once; otherwise Cancel
// returns when the request is recorded. From then on the execution can only end as cancelled:
// the context of its step ends with the cause courier.ErrCancelled, and the step is rolled
// back. If the execution has ended, the error is a [*courier.TransitionError].
//
// If the execution has begun and its job has a finally part, that part runs first: an
// execution without a worker is queued for one, with the status "cancelling". A second
// cancel, or WithoutFinally, leaves out the finally part or ends it: an execution without a
// worker is then cancelled at once, and one whose finally part is running ends with the
// outcome that was decided. If the finally part is running and the outcome is not cancelled,
// a first cancel is refused.
//
// A nil opt means the defaults.
func (e *Engine) Cancel(ctx context.Context, id courier.ExecutionID, opt *courier.CancelOptions) (courier.Execution, error) {
	if opt == nil {
		opt = &courier.CancelOptions{}
	}
	kind := courier.RequestCancel
	if opt.WithoutFinally {
		kind = courier.RequestAbort
	}
	x, err := e.request(ctx, id, kind, opt.By)
	if err == nil && x.State.Final() {
		e.discard(ctx, &x)
	}
	return x, err
}

// Release queues an execution that was created with Hold. Its errors are those of
// [Engine.Pause].
func (e *Engine) Release(ctx context.Context, id courier.ExecutionID, by courier.By) (courier.Execution, error) {
	return e.request(ctx, id, courier.RequestRelease, by)
}

// request records a request in the store, and notifies the run and the observers.
func (e *Engine) request(ctx context.Context, id courier.ExecutionID, kind courier.RequestKind, by courier.By) (courier.Execution, error) {
	return e.requestChange(ctx, id, kind, by, nil)
}

// requestChange records a request with a change, which is nil for most.
func (e *Engine) requestChange(ctx context.Context, id courier.ExecutionID, kind courier.RequestKind, by courier.By, change *store.Change) (courier.Execution, error) {
	r := store.Request{Execution: id, Kind: kind, By: by.Actor, Reason: by.Reason, Change: change}
	x, err := e.send(ctx, &r)
	if err == nil {
		e.notifications.Wake()
		e.requested(&x, &r)
	}
	return x, err
}

// send records a request in the store.
func (e *Engine) send(ctx context.Context, r *store.Request) (courier.Execution, error) {
	if err := text.Check(map[string]string{"by": r.By, "reason": r.Reason}); err != nil {
		return courier.Execution{}, fmt.Errorf("%s execution %s: %w", r.Kind, r.Execution, err)
	}
	x, err := e.store.Request(ctx, *r)
	if err != nil {
		return x, e.requestError(r.Kind, r.Execution, err)
	}
	return x, nil
}

// requested passes a request that the store has recorded to the run of the execution, if
// this engine has it, and emits the event of one that took effect at once.
func (e *Engine) requested(x *courier.Execution, q *store.Request) {
	if r := e.runs.Get(x.ID); r != nil && x.State == courier.Running {
		r.lease.SetRequest(&store.Renewed{Execution: x.ID, Request: x.Request, By: q.By, Reason: q.Reason})
	}
	executionlog.Requested(e.log, x, q)
	for _, ev := range executionlog.RequestEvents(x, q) {
		e.observers.Emit(ev)
	}
}

func (e *Engine) requestError(kind courier.RequestKind, id courier.ExecutionID, err error) error {
	if errors.Is(err, courier.ErrNotFound) {
		return courier.Errorf(courier.ErrNotFound, "%s: there is no execution %q", kind, id)
	}
	if _, ok := errors.AsType[*courier.TransitionError](err); ok {
		return fmt.Errorf("%s: %w", kind, err)
	}
	return fmt.Errorf("%s execution %s: %w", kind, id, err)
}

// discard rolls back the step at which a cancelled execution had failed or was
// interrupted, and removes its files, as far as they are within reach; what is
// not is swept by the engine that has it.
func (e *Engine) discard(ctx context.Context, x *courier.Execution) {
	if x.Workspace != "" && x.Workspace != e.opt.WorkspaceID {
		return
	}
	e.waitForRun(ctx, x.ID)
	if x.StepAttempts > 0 {
		e.rollbackUnowned(ctx, x)
	}
	if x.Workspace != "" {
		j, c := e.janitor(), e.work.OnlyCopies(x.ID)
		j.LetGo(x, c)
		j.Found(ctx, x, c, "")
	}
}

// waitForRun waits until a run of this engine's has ended whose execution was
// cancelled at once: it has lost its lease, and its step may still be about to
// return, or it has ended the lease itself and has not been untracked yet.
func (e *Engine) waitForRun(ctx context.Context, id courier.ExecutionID) {
	ended := e.waiters.Add(id)
	defer e.waiters.Remove(id, ended)
	if e.runs.Get(id) == nil {
		return
	}
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// rollbackUnowned rolls back the step at which an execution without a worker
// stands.
func (e *Engine) rollbackUnowned(ctx context.Context, x *courier.Execution) {
	p, err := e.programs.Load(ctx, x.Job, x.Version)
	if err != nil {
		e.log.Warn("roll back step", "execution", x.ID, "error", err)
		return
	}
	step := x.Position.Step
	if step >= len(p.Types) || p.Types[step] == nil || p.Tree == nil {
		if p.NotRunnable != nil && step < len(p.Types) && !program.IsMarker(p.Job.Steps[step].Type) {
			e.log.Warn("roll back step", "execution", x.ID, "error", p.NotRunnable)
		}
		return
	}
	vals, err := e.Executions().valuesOf(ctx, p, x)
	if err != nil {
		e.log.Warn("roll back step", "execution", x.ID, "error", err)
		return
	}
	walk, err := p.Tree.Walk(x.Position, vals)
	if err != nil {
		e.log.Warn("roll back step", "execution", x.ID, "error", err)
		return
	}
	r := &run{e: e, x: *x, program: p, walk: walk, vals: vals}
	r.checkpoint.Base = x.EarlierStarts
	r.begin(context.WithoutCancel(ctx), new(secret.Redactor))
	r.secrets.Claimed(x.Secrets)
	defer r.closeResources()
	defer r.caller.End()
	defer r.lease.Close()
	r.rollback(step, x.StepAttempts, false, true)
}
