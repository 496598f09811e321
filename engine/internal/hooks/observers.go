// Package hooks calls functions of the host, whose panics and delays must not harm the
// engine.
package hooks

import (
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier"
)

// maxEvents is how many events may wait for the observers.
const maxEvents = 1024

// Observers are functions that are called with every event, in order, by a goroutine
// that runs while there are events. Its methods may be called by several goroutines.
type Observers struct {
	list    atomic.Pointer[[]*func(courier.Event)] // replaced, never changed
	log     *slog.Logger
	dropped atomic.Int64

	mu      sync.Mutex
	queue   []courier.Event
	waiting int // in the queue, or taken out of it and not delivered yet
	running bool
	idle    chan struct{} // closed when the goroutine has ended
}

// NewObservers returns observers.
func NewObservers(list []func(courier.Event), log *slog.Logger) *Observers {
	v := &Observers{log: log}
	v.list.Store(new([]*func(courier.Event)))
	for _, o := range list {
		v.Add(o)
	}
	return v
}

// Add has an observer called with events from now on, until the function that it returns
// is called. A call that has begun then may still be in progress.
func (v *Observers) Add(o func(courier.Event)) (remove func()) {
	added := &o
	v.mu.Lock()
	defer v.mu.Unlock()
	list := append(slices.Clone(*v.list.Load()), added)
	v.list.Store(&list)
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		list := slices.DeleteFunc(slices.Clone(*v.list.Load()), func(o *func(courier.Event)) bool { return o == added })
		v.list.Store(&list)
	}
}

// Wanted reports whether there are observers, so that events need be made.
func (v *Observers) Wanted() bool { return len(*v.list.Load()) > 0 }

// Emit has the observers called with an event, unless too many events are waiting.
func (v *Observers) Emit(ev courier.Event) {
	if !v.Wanted() {
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

func (v *Observers) deliver(idle chan struct{}) {
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
			for _, o := range *v.list.Load() {
				v.call(*o, ev)
			}
		}
	}
}

// call keeps a panic or runtime.Goexit of an observer from harming the others; because of
// the latter it has a goroutine of its own.
func (v *Observers) call(o func(courier.Event), ev courier.Event) {
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

// Flush waits until the observers were called with all events so far, at most for d.
func (v *Observers) Flush(d time.Duration) {
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

// Dropped returns how many events observers were not called with.
func (v *Observers) Dropped() int64 { return v.dropped.Load() }
