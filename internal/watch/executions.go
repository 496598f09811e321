package watch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
)

// A Source is what is read of an engine. [Of] returns that of one.
type Source struct {
	// Observe has a function called with every event of the engine until stop is called.
	Observe    func(f func(courier.Event)) (stop func())
	Executions interface {
		Audit
		// List returns executions, without their parameters and results.
		List(ctx context.Context, f store.Filter) ([]courier.Execution, error)
	}
}

// Of returns an engine as a source.
func Of(e *engine.Engine) Source { return Source{Observe: e.Observe, Executions: e.Executions()} }

// Executions reads the executions that are watched: by one goroutine that lives while there
// are any, and by one statement for all of them. A second one reads the audit of each that
// has changed. Its methods may be called by several goroutines.
type Executions struct {
	s   Source
	log *slog.Logger

	mu    sync.Mutex
	feeds map[courier.ExecutionID]*feed
	wake  chan struct{} // of the goroutine; nil while there is none

	failing bool // of the goroutine: the last read has failed, which the log says once
}

// NewExecutions returns the executions of an engine, of which none is watched. That they can't be
// read is logged once.
func NewExecutions(s Source, log *slog.Logger) *Executions { return &Executions{s: s, log: log} }

// How often is read.
const (
	period    = time.Second
	minGap    = 40 * time.Millisecond // between two reads of an execution whose state changes
	gapOfEach = 20 * time.Millisecond // for each feed, between two reads of one whose steps change: 50 reads a second in all
)

// join returns the feed of an execution, with one more viewer.
func (e *Executions) join(id courier.ExecutionID) *feed {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.feeds[id]
	if f == nil {
		f = &feed{id: id, snapshot: snapshot{changed: make(chan struct{})}}
		if e.feeds == nil {
			e.feeds = make(map[courier.ExecutionID]*feed)
		}
		e.feeds[id] = f
	}
	f.viewers++
	if e.wake == nil {
		e.wake = make(chan struct{}, 1)
		go e.run(e.wake)
	}
	e.poke()
	return f
}

// leave takes a viewer away.
func (e *Executions) leave(f *feed) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f.viewers--; f.viewers == 0 {
		delete(e.feeds, f.id)
		e.poke()
	}
}

// poke wakes the goroutine. The caller holds the lock.
func (e *Executions) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// run reads until nobody watches.
func (e *Executions) run(wake <-chan struct{}) {
	stop := e.s.Observe(e.observe)
	defer stop()
	for {
		due, wait, ok := e.due(time.Now())
		if !ok {
			return
		}
		if len(due) > 0 {
			e.read(due)
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// observe takes an event of the own engine.
func (e *Executions) observe(ev courier.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.feeds[ev.Execution]
	switch {
	case f == nil:
	case ev.Type == courier.EventStepProgress:
		f.moved(&ev)
	default:
		f.touched = true
		f.urgent = f.urgent || ev.StepType == "" || ev.Type == courier.EventJobFailed
		e.poke()
	}
}

// due returns the feeds to read now, or how long none is; ok is false if there are no feeds,
// and then the goroutine ends.
func (e *Executions) due(now time.Time) (list []*feed, wait time.Duration, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.feeds) == 0 {
		e.wake = nil
		return nil, 0, false
	}
	wait = period
	for _, f := range e.feeds {
		wait = min(wait, f.readAt.Add(f.gap(len(e.feeds))).Sub(now))
	}
	if wait > 0 {
		return nil, wait, true
	}
	for _, f := range e.feeds {
		// What is due soon is read with the rest, so that all are read together in the end.
		gap := f.gap(len(e.feeds))
		if now.Sub(f.readAt) < gap-gap/8 {
			continue
		}
		f.readAt, f.touched, f.urgent = now, false, false
		list = append(list, f)
	}
	return list, 0, true
}

// gap is the time between two reads of a feed, one of n. The caller holds the lock of the
// executions.
func (f *feed) gap(n int) time.Duration {
	switch {
	case f.urgent:
		return minGap
	case f.touched:
		return min(max(minGap, time.Duration(n)*gapOfEach), period)
	}
	return period
}

// Touch has an execution read at once, if somebody watches it.
func (e *Executions) Touch(id courier.ExecutionID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f := e.feeds[id]; f != nil {
		f.touched, f.urgent = true, true
		e.poke()
	}
}

// readTimeout is how long the store may take for what is read at once.
const readTimeout = 10 * time.Second

// read reads feeds.
func (e *Executions) read(list []*feed) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	byID := make(map[courier.ExecutionID]*feed, len(list))
	ids := make([]courier.ExecutionID, 0, len(list))
	for _, f := range list {
		byID[f.id], ids = f, append(ids, f.id)
	}
	for len(ids) > 0 {
		page := ids[:min(len(ids), 1000)]
		ids = ids[len(page):]
		found, err := e.s.Executions.List(ctx, store.Filter{IDs: page, Limit: len(page)})
		if err != nil {
			e.fail(byID, err)
			return
		}
		e.failing = false
		for i := range found {
			e.update(ctx, byID[found[i].ID], &found[i])
			delete(byID, found[i].ID)
		}
		for _, id := range page {
			if f := byID[id]; f != nil {
				f.fail(courier.Errorf(courier.ErrNotFound, "there is no execution %q", id), time.Now(), true)
				delete(byID, id)
			}
		}
	}
}

// update reads what has come to the audit of an execution, if there is something, and tells
// its viewers.
func (e *Executions) update(ctx context.Context, f *feed, x *courier.Execution) {
	was := f.read()
	var entries []AuditEvent
	if was.version > 0 && x.Seq > was.execution.Seq {
		var err error
		entries, err = AuditEvents(ctx, e.s.Executions, store.AuditFilter{Execution: f.id, After: was.execution.Seq, Limit: auditPage})
		if err != nil {
			e.fail(map[courier.ExecutionID]*feed{f.id: f}, err)
			return
		}
		for n := len(entries); n > 0 && entries[n-1].Seq > x.Seq; n = len(entries) {
			entries = entries[:n-1] // of a later change, which is read next
		}
	}
	f.update(x, entries, time.Now())
}

// fail takes the error of a read of feeds.
func (e *Executions) fail(feeds map[courier.ExecutionID]*feed, err error) {
	if !e.failing {
		e.log.Error("watched executions could not be read; will retry every second", "executions", len(feeds), "error", err)
	}
	e.failing = true
	err = errors.Join(errors.New("the store could not be read"), err)
	for _, f := range feeds {
		f.fail(err, time.Now(), false)
	}
}
