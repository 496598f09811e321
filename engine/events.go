package engine

import (
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// emitWritten emits the events of a transition that was written.
func (r *run) emitWritten(t *store.Transition) {
	if !r.e.observers.Wanted() {
		return
	}
	by := ""
	if q := r.request.Load(); q != nil {
		by = t.By(q.Request, q.By)
	}
	for _, a := range t.Entries(r.current, by) {
		if ev, ok := eventOf(&r.x, &a, t.Failure); ok {
			r.e.observers.Emit(ev)
		}
	}
}

// event is an event about the execution itself.
func (r *run) event(t courier.EventType) courier.Event {
	return courier.Event{Type: t, Execution: r.x.ID, Job: r.x.Job, Version: r.x.Version, Step: -1}
}

// eventOf returns the event that an audit entry of an execution stands for, or
// false for entries that stand for none. F is the failure that was written with it;
// nil if none was.
func eventOf(x *courier.Execution, a *courier.AuditEntry, f *courier.Failure) (courier.Event, bool) {
	ev := courier.Event{
		Execution: x.ID, Job: x.Job, Version: x.Version, Step: -1,
		Reason: a.Reason, Error: a.Error, Bytes: a.Bytes, By: a.By,
	}
	if a.Step != nil {
		ev.Step, ev.ID, ev.StepType, ev.Iteration, ev.Attempt = *a.Step, a.ID, a.Type, a.Iteration, a.Attempt
	}
	ev.Type = store.EventOf(a, false)
	if ev.Type == courier.EventJobFailed && f != nil && f.Step >= 0 {
		ev.Step, ev.ID, ev.StepType, ev.Iteration, ev.Attempt = f.Step, f.ID, f.Type, f.Iteration, f.Attempt
	}
	return ev, ev.Type != ""
}

// minProgress is the least time between two progress events of an attempt.
const minProgress = 100 * time.Millisecond

// progress takes note that the step is alive, and makes a few events a second
// of its reports.
func (a *attempt) progress(v courier.Progress) {
	now := time.Now().UnixNano()
	a.active.Store(now)
	shown := a.shown.Load()
	if !a.run.e.observers.Wanted() || now-shown < int64(minProgress) && v.Done != v.Total || !a.shown.CompareAndSwap(shown, now) {
		return
	}
	ev := a.run.event(courier.EventStepProgress)
	ev.Step, ev.ID, ev.StepType, ev.Iteration, ev.Attempt = a.job.Step(), a.job.ID(), a.typ.Key(), a.job.Iteration(), a.job.Attempt()
	ev.Item, ev.ItemDone, ev.ItemTotal, ev.Bytes = a.run.secrets.Clean(v.Item), v.Done, v.Total, v.Bytes
	a.run.e.observers.Emit(ev)
}
