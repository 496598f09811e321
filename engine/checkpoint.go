package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/executionlog"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/internal/wakeup"
	"github.com/courierhq/courier/store"
)

// apply writes a transition with all that is waiting to be written. Errors of
// the store are retried while the lease lasts. After the error of a refused
// request, the request is known and nothing was written; after any other
// error the lease is gone: that of a write which the store refuses for good has
// ended the execution as failed.
func (r *run) apply(t *store.Transition) error {
	if r.walk != nil && !t.RetryJob {
		r.countItems() // the position has them
	}
	t.Execution, t.Chain, t.Lease, t.Finally = r.x.ID, r.x.Chain, r.token, r.finish != nil
	r.checkpoint.Fill(t)
	t.Counters.Secrets = r.secrets.Used()
	if t.To != courier.Running && t.To != courier.Completed {
		t.OnlyCopies = r.onlyCopies()
		if r.walk != nil {
			r.stopsAt(r.walk.Position().Step)
		}
	}
	if r.used {
		t.Workspace = r.e.opt.WorkspaceID
	}
	given := t.To
	err := r.write(t)
	if q, ok := errors.AsType[*store.RequestedError](err); ok {
		r.lease.SetRequest(&store.Renewed{Execution: r.x.ID, Request: q.Kind, By: q.By})
		t.To, t.Ended = given, nil
		r.regain()
		return err
	}
	if errors.Is(err, courier.ErrInvalid) {
		return r.unkept(t, err)
	}
	if err != nil {
		if !errors.Is(err, courier.ErrLeaseLost) {
			r.log.Error("write progress", "error", r.secrets.Message(err))
		}
		r.lease.Lost()
		return err
	}
	r.written(t)
	if t.To != given {
		r.lease.Lost()
		return errLeft
	}
	return nil
}

// written brings the run up to date with a transition that was written.
func (r *run) written(t *store.Transition) {
	r.lines().Write(t, r.checkpoint.Current(), r.took)
	r.probeWritten(t)
	r.emitWritten(t)
	r.e.notifications.Wake()
	r.checkpoint.Written(t)
	if t.To.Ended() && r.x.Chain != "" {
		r.e.chains.MemberEnded(context.WithoutCancel(r.lease.Context()), r.x.Chain)
	}
}

// emitWritten emits the events of a transition that was written.
func (r *run) emitWritten(t *store.Transition) {
	if !r.e.observers.Wanted() {
		return
	}
	by := ""
	if q := r.lease.Request(); q != nil {
		by = t.CarriedOut(q.Request, q.By)
	}
	for i, a := range t.Entries(r.checkpoint.Current(), by) {
		if i < len(t.Ended) {
			executionlog.StepEvents(&r.x, &t.Ended[i], r.e.observers.Emit)
		}
		ev, ok := executionlog.EventOf(&r.x, &a, t.Failure)
		if !ok {
			continue
		}
		switch {
		case i < len(t.Ended):
			ev.ItemLabels = t.Ended[i].ItemLabels
		case ev.Type == courier.EventJobFailed || ev.Type == courier.EventJobCompleted:
			ev.FailedItems, ev.Failed = r.checkpoint.Items, r.failedAt(t.Position)
		}
		if t.FinallyError != nil && a.Step == nil {
			ev.FinallyError = t.FinallyError.Message
		}
		r.e.observers.Emit(ev)
	}
}

// event is an event about the execution itself.
func (r *run) event(t courier.EventType) courier.Event {
	return courier.Event{Type: t, Execution: r.x.ID, Job: r.x.Job, Version: r.x.Version, ChainExecution: r.x.Chain, Step: -1}
}

// lines writes to the log what is done with the execution.
func (r *run) lines() executionlog.Log {
	return executionlog.Log{Logger: r.log, Execution: &r.x, Claimed: r.claimed}
}

// errLeft says that an execution was given back to the queue after its progress
// had been refused for long.
var errLeft = errors.New("the store has refused progress for too long; the execution went back to the queue")

// write writes a transition, and tries as long as the lease lasts. It may change
// the transition, to one that gives the execution back.
func (r *run) write(t *store.Transition) error {
	r.writing = r.e.refusals.begin(&r.x, t.Seq, r.log)
	r.lease.BeginWrite()
	defer r.endWrite()
	return r.lease.Call(func(ctx context.Context) error {
		err := r.e.store.Apply(ctx, *t)
		if r.checkpoint.Bare() && errors.Is(err, courier.ErrInvalid) {
			err = courier.Permanent(errors.New(r.secrets.Message(err))) // there is nothing left to leave out
		}
		if err != nil && !storecall.Promised(err) && r.lease.Held() {
			r.lease.Refused()
			text := r.secrets.Message(err)
			if r.writing.refused(text, courier.IsPermanent(err)) && !r.lease.Left() {
				r.leave(t, text)
			}
		}
		return err
	})
}

// leave lets other workers take the execution over, and has the transition, as
// soon as the store takes it, give the execution back to the queue.
func (r *run) leave(t *store.Transition, text string) {
	r.lease.Leave()
	r.writing.leave(text)
	if t.To != courier.Running {
		return // it ends the lease anyway
	}
	if t.Finish != nil {
		t.To = courier.Queued // where the finally part goes on elsewhere
		return
	}
	r.checkpoint.Unstart(t)
	t.Counters.Secrets = r.secrets.Used() // a step that was abandoned may have used more since
	t.To, t.Failure = courier.Queued, &courier.Failure{
		Step: -1, Reason: courier.ReasonStore, Message: fmt.Sprintf("the store refused progress for more than %v: %s", leaveAfter, text),
	}
}

// endWrite wakes the claim loop after a write that was refused, for it may claim again.
func (r *run) endWrite() {
	if r.writing.end() {
		wakeup.Send(r.e.freed)
		wakeup.Send(r.e.wake)
	}
}

// regain renews the lease of a run that had been left to others and has to write
// something else now.
func (r *run) regain() {
	if !r.lease.Left() {
		return
	}
	r.lease.Regain(func(ctx context.Context) bool {
		got, err := r.e.store.Renew(ctx, store.RenewRequest{
			Worker: r.e.opt.Worker, For: r.e.opt.Lease, Leases: []store.Lease{{Execution: r.x.ID, Token: r.token}},
		})
		return err == nil && len(got) > 0
	})
}

// unkept ends the execution as failed, at the step where it stands in the store,
// because the store refuses for good what was to be written: it is too large, or
// breaks a rule of the database's. What made the store refuse is left out.
func (r *run) unkept(t *store.Transition, refusal error) error {
	err := &courier.StepError{
		Execution: r.x.ID, Job: r.x.Job, Step: -1, Reason: courier.ReasonStore,
		Err: fmt.Errorf("the store refuses to save the result, and would refuse it again: %w", r.secrets.CleanError(refusal)),
	}
	text := r.secrets.Message(err.Err)
	r.log.LogAttrs(context.Background(), slog.LevelWarn, "the store refuses progress for good; the execution ends as failed", slog.Int64("transition", t.Seq), slog.String("error", text))
	last, at := r.checkpoint.Omit(t, text)
	if last != nil {
		err.Step, err.ID, err.Type, err.Iteration, err.Attempt = last.Step, last.ID, last.Type, last.Iteration, last.Attempt
	}
	r.err = err
	failing := &store.Transition{
		To: courier.Failed, Position: at, Failure: r.failure(err), DiskBytes: r.diskBytes(), Interrupt: r.checkpoint.Bare() && r.checkpoint.Current() != nil,
	}
	if e := r.conclude(failing); errors.Is(e, courier.ErrConflict) && r.lease.Held() {
		r.walk = nil // the position in the store is the one that counts
		r.cancelled()
	}
	r.lease.Lost()
	return refusal
}
