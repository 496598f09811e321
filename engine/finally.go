package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/repair"
	"github.com/courierhq/courier/store"
)

// conclude writes the end of an execution: one of the states in which it has ended. If it has
// a finally part, that begins in its place, and the end of the finally part is the end of
// the execution with the outcome that was on record when it began.
func (r *run) conclude(t *store.Transition) error {
	switch {
	case r.finish != nil:
		return r.endFinally(t)
	case !r.x.HasFinally || r.aborted():
	case r.program != nil && r.program.HasFinally() && (r.walk != nil || r.checkpoint.Omits()):
		return r.beginFinally(t)
	default:
		t.FinallyError = &courier.Failure{Step: -1, Reason: courier.ReasonDefinition, Message: "the finally part can't be run here; see why the execution has ended"}
	}
	return r.end(t)
}

// end writes the end of an execution, and removes the workspace of one that ends as cancelled.
func (r *run) end(t *store.Transition) error {
	err := r.apply(t)
	if err == nil && t.To == courier.Cancelled {
		r.letGo(t.OnlyCopies)
	}
	return err
}

// aborted reports whether an operator has asked for an end without the finally part.
func (r *run) aborted() bool {
	q := r.lease.Request()
	return q != nil && q.Request == courier.RequestAbort
}

// beginFinally writes the outcome of an execution, and goes to its finally part.
func (r *run) beginFinally(t *store.Transition) error {
	if r.walk != nil {
		r.countItems()
	}
	before := r.checkpoint.Counters
	f := r.decided(t)
	begin := &store.Transition{
		To: courier.Running, Finish: f, Position: r.program.Tree.BeginFinally(), Failure: t.Failure, Result: t.Result,
		Interrupt: t.Interrupt, DiskBytes: t.DiskBytes,
	}
	if r.checkpoint.Omits() {
		begin.To = courier.Queued // what the store has is what counts, and the next claim reads that
	}
	if t.To != courier.Completed && r.walk != nil {
		r.stopsAt(r.walk.Position().Step)
	}
	r.checkpoint.Counters, r.checkpoint.Kept = store.Counters{Base: int(f.Seq)}, nil
	if err := r.apply(begin); err != nil {
		r.checkpoint.Counters = before
		return err
	}
	if !r.checkpoint.Over() {
		r.finish, r.outcome, r.begun = f, t.Failure, true
		r.lease.Finish(f.Timeout)
		r.walk.BeginFinally()
		r.setEnding()
	}
	return nil
}

// decided is what is on record of an execution that would end with a transition now.
func (r *run) decided(t *store.Transition) *store.Finish {
	f := &store.Finish{
		Finishing: courier.Finishing{Outcome: t.To, Position: t.Position, Seq: r.checkpoint.Seq() + 1 + int64(len(r.checkpoint.Ended()))},
		Counters:  r.checkpoint.Counters, Timeout: r.program.Tree.FinallyTimeout(),
		Text: fmt.Sprintf("the finally part begins; the outcome is %s", t.To),
	}
	f.Counters.Secrets = nil
	if t.Interrupt && r.checkpoint.Current() != nil {
		f.Seq++
	}
	why := ""
	switch q := r.lease.Request(); {
	case t.To == courier.Cancelled:
		f.Counters.Attempts = 0 // the step was rolled back
		if q != nil {
			f.By, f.Reason, why = q.By, q.Reason, q.Reason
		}
	case t.Failure != nil:
		why = t.Failure.Message
	}
	if why != "" {
		f.Text += ": " + why
	}
	return f
}

// setEnding sets the values that only steps in the finally part have.
func (r *run) setEnding() {
	f, failure := r.finish, r.outcome
	switch f.Outcome {
	case courier.Completed:
		failure = nil
	case courier.Cancelled:
		failure = &courier.Failure{Step: -1, Reason: courier.ReasonCancelled, Message: cmp.Or(f.Reason, "the execution was cancelled")}
	}
	list := func(what string, read func(context.Context, *repair.History) ([]courier.ItemFailure, int, error)) func() ([]courier.ItemFailure, int) {
		return func() ([]courier.ItemFailure, int) {
			x := r.x
			x.Position = f.Position
			h := &repair.History{Archive: r.e.store, Tree: r.program.Tree, Execution: &x, Retry: true}
			first, count, err := read(r.lease.Context(), h)
			if err != nil {
				r.log.Error("read the items of an execution for its finally part", "items", what, "error", r.secrets.Message(err))
			}
			return first, count
		}
	}
	r.vals.SetEnding(f.Outcome, failure,
		list("failed", func(ctx context.Context, h *repair.History) ([]courier.ItemFailure, int, error) {
			return h.FailedAt(ctx, f.Position)
		}),
		list("rescued", func(ctx context.Context, h *repair.History) ([]courier.ItemFailure, int, error) {
			return h.RescuedAt(ctx, f.Position)
		}))
}

// endFinally ends the finally part, and the execution with the outcome that was decided. T says
// how the part has ended: completed, failed, or cancelled by an operator.
func (r *run) endFinally(t *store.Transition) error {
	if r.walk != nil {
		r.countItems()
	}
	f, before := r.finish, r.checkpoint.Counters
	end := &store.Transition{To: f.Outcome, Position: f.Position, Failure: r.outcome, Finally: true, DiskBytes: r.diskBytes(), Interrupt: t.Interrupt}
	switch {
	case t.To == courier.Cancelled:
		q := r.lease.Request()
		if q == nil {
			q = new(store.Renewed)
		}
		end.FinallyError = store.AbortedFinally(q.By, q.Reason)
	case t.To == courier.Failed:
		end.FinallyError = t.Failure
	case before.FinallyItems > 0:
		end.FinallyError = &courier.Failure{Step: -1, Reason: courier.ReasonItems, Message: fmt.Sprintf("items of loops in the finally part have failed: %d", before.FinallyItems)}
	case before.RescueFails:
		end.FinallyError = &courier.Failure{Step: -1, Reason: courier.ReasonRescued, Message: "a rescue in the finally part has run, and the job says that this fails it"}
	}
	if f.Outcome == courier.Cancelled {
		end.By, end.Text = f.By, f.Reason
	}
	end.Text = store.TextOfEnd(end.Text, end.FinallyError)
	r.checkpoint.Counters = f.After(before)
	if f.Outcome == courier.Completed {
		r.keepCopies(end)
	}
	r.slot.SetEnding(true)
	err := r.end(end)
	switch {
	case err != nil:
		r.checkpoint.Counters = before
		r.slot.SetEnding(false)
	case end.To == courier.Completed:
		r.letGo(end.OnlyCopies)
	}
	return err
}

// keepCopies has a completed execution keep files that may exist nowhere else, if there may
// be any: something has failed, was left unfinished, or was left behind by items and blocks
// that were dealt with.
func (r *run) keepCopies(t *store.Transition) {
	c := r.onlyCopies()
	if c != nil && c.Any() && (t.FinallyError != nil || r.checkpoint.Items > 0 || r.leftBehind() ||
		r.e.work.Unfinished(r.lease.Context(), r.e.store, &r.x, r.checkpoint.Ended())) {
		t.OnlyCopies = c
	}
}

// finallyOver ends the finally part when its steps are done. It reports false if the execution
// goes on.
func (r *run) finallyOver() bool {
	err := r.conclude(&store.Transition{To: courier.Completed})
	return !errors.Is(err, courier.ErrConflict) || !r.lease.Held()
}

// restoreFinally sets the values of a finally part that another worker has begun.
func (r *run) restoreFinally(c *store.Claimed, pos courier.Position) (err error) {
	r.outcome = c.Execution.Failure
	r.vals.RestoreFinally(r.earlier.Latest(), pos, r.finish.Seq)
	if r.walk, err = r.program.Tree.FinallyWalk(r.finish.Position, pos, r.vals); err == nil {
		r.setEnding()
	}
	return err
}
