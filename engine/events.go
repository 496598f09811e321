package engine

import (
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// maxEvents is how many events may wait for the observers.
const maxEvents = 1024

// events hands events to the observers, in order, from a goroutine that lives
// while there are any.
type events struct {
	observers []func(courier.Event)
	log       *slog.Logger
	dropped   atomic.Int64

	mu      sync.Mutex
	queue   []courier.Event
	waiting int // in the queue, or taken out of it and not delivered yet
	running bool
	idle    chan struct{} // closed when the goroutine has ended
}

func (v *events) init(observers []func(courier.Event), log *slog.Logger) {
	v.observers, v.log = observers, log
}

// wanted reports whether anybody looks at events, so that they need be made.
func (v *events) wanted() bool { return len(v.observers) > 0 }

func (v *events) emit(ev courier.Event) {
	if !v.wanted() {
		return
	}
	ev.At = time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.waiting >= maxEvents {
		v.dropped.Add(1)
		return
	}
	v.waiting++
	v.queue = append(v.queue, ev)
	if !v.running {
		v.running, v.idle = true, make(chan struct{})
		go v.deliver(v.idle)
	}
}

func (v *events) deliver(idle chan struct{}) {
	defer close(idle)
	for {
		v.mu.Lock()
		batch := v.queue
		v.queue = nil
		if len(batch) == 0 {
			v.running = false
			v.mu.Unlock()
			return
		}
		v.mu.Unlock()
		for _, ev := range batch {
			v.mu.Lock()
			v.waiting--
			v.mu.Unlock()
			for _, o := range v.observers {
				v.call(o, ev)
			}
		}
	}
}

// call keeps a panic or runtime.Goexit of an observer away from the others; the
// latter is why it has a goroutine of its own.
func (v *events) call(o func(courier.Event), ev courier.Event) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				v.log.Error("observer panicked", "event", ev.Type, "execution", ev.Execution, "panic", p, "stack", string(debug.Stack()))
			}
		}()
		o(ev)
	}()
	<-done
}

// flush waits until the observers have seen what was emitted, at most for d.
func (v *events) flush(d time.Duration) {
	v.mu.Lock()
	running, idle := v.running, v.idle
	v.mu.Unlock()
	if !running {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
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
	if !a.run.e.events.wanted() || now-shown < int64(minProgress) && v.Done != v.Total || !a.shown.CompareAndSwap(shown, now) {
		return
	}
	ev := a.run.event(courier.EventStepProgress)
	ev.Step, ev.ID, ev.StepType, ev.Iteration, ev.Attempt = a.job.Step(), a.job.ID(), a.typ.Key(), a.job.Iteration(), a.job.Attempt()
	ev.Item, ev.ItemDone, ev.ItemTotal, ev.Bytes = a.run.secrets.Clean(v.Item), v.Done, v.Total, v.Bytes
	a.run.e.events.emit(ev)
}
