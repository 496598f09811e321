package engine

import (
	"errors"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/executionlog"
	"github.com/courierhq/courier/store"
)

// apply writes a transition with all that is waiting to be written. Errors of
// the store are retried while the lease lasts. After the error of a refused
// request, the request is known and nothing was written; after any other
// error the lease is gone: that of a write which the store refuses for good has
// ended the execution as failed.
func (r *run) apply(t *store.Transition) error {
	t.Execution, t.Chain, t.Lease, t.Seq, t.Counters = r.x.ID, r.x.Chain, r.token, r.seq+1, r.marks
	t.Ended = append(r.ended, t.Ended...)
	if r.used {
		t.Workspace = r.e.opt.WorkspaceID
	}
	given := t.To
	err := r.write(t)
	if q, ok := errors.AsType[*store.RequestedError](err); ok {
		r.asked(&store.Renewed{Execution: r.x.ID, Request: q.Kind, By: q.By})
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
		r.lost(courier.ErrLeaseLost)
		return err
	}
	r.written(t)
	if t.To != given {
		r.lost(courier.ErrLeaseLost)
		return errLeft
	}
	return nil
}

// giveUp ends the lease when the engine has been stopping for the time that a
// lease can be relied on, and the store has refused or swallowed everything since
// then: the execution is then taken over when the lease ends in the store.
// Since is when this was first seen.
func (r *run) giveUp(since *time.Time) {
	select {
	case <-r.stop:
	default:
		return
	}
	if since.IsZero() {
		*since = time.Now()
	}
	if r.e.validity(*since) <= 0 {
		r.lost(courier.ErrLeaseLost)
	}
}

// written brings the run up to date with a transition that was written.
func (r *run) written(t *store.Transition) {
	n := int64(len(t.Ended))
	if t.Interrupt && r.current != nil {
		n++
	}
	if t.To != courier.Running {
		n++
	}
	if t.Start != nil {
		n++
	}
	r.lines().Write(t, r.current, r.took)
	r.emitWritten(t)
	r.e.notifications.Wake()
	r.known = standing{t.Position, t.Counters}
	r.over = t.To != courier.Running
	r.seq += n
	r.ended = nil
	r.current = t.Start
}

// lines writes to the log what is done with the execution.
func (r *run) lines() executionlog.Log {
	return executionlog.Log{Logger: r.log, Execution: &r.x, Lease: r.e.opt.Lease, Claimed: r.claimed}
}
