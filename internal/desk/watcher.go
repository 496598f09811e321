package desk

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

// A watcher reads the executions that are watched: by one goroutine that lives while there
// are any, and by one statement for all of them. A second one reads the audit of each that
// has changed.
type watcher struct {
	d   *Desk
	e   *engine.Engine
	log *slog.Logger

	mu    sync.Mutex
	feeds map[courier.ExecutionID]*feed
	wake  chan struct{} // of the goroutine; nil while there is none

	failing bool // of the goroutine: the last read has failed, which the log says once
}

// How often is read.
const (
	period    = time.Second
	minGap    = 40 * time.Millisecond // between two reads of an execution whose state changes
	gapOfEach = 20 * time.Millisecond // for each feed, between two reads of one whose steps change: 50 reads a second in all
)

// join returns the feed of an execution, with one more viewer.
func (w *watcher) join(id courier.ExecutionID) *feed {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.feeds[id]
	if f == nil {
		f = &feed{id: id, snapshot: snapshot{changed: make(chan struct{})}}
		if w.feeds == nil {
			w.feeds = make(map[courier.ExecutionID]*feed)
		}
		w.feeds[id] = f
	}
	f.viewers++
	if w.wake == nil {
		w.wake = make(chan struct{}, 1)
		go w.run(w.wake)
	}
	w.poke()
	return f
}

// leave takes a viewer away.
func (w *watcher) leave(f *feed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.viewers--; f.viewers == 0 {
		delete(w.feeds, f.id)
		w.poke()
	}
}

// poke wakes the goroutine. The caller holds the lock.
func (w *watcher) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run reads until nobody watches.
func (w *watcher) run(wake <-chan struct{}) {
	stop := w.e.Observe(w.observe)
	defer stop()
	for {
		due, wait, ok := w.due(time.Now())
		if !ok {
			return
		}
		if len(due) > 0 {
			w.read(due)
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
func (w *watcher) observe(ev courier.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.feeds[ev.Execution]
	switch {
	case f == nil:
	case ev.Type == courier.EventStepProgress:
		f.moved(&ev)
	default:
		f.touched = true
		f.urgent = f.urgent || ev.StepType == "" || ev.Type == courier.EventJobFailed
		w.poke()
	}
}

// due returns the feeds to read now, or how long none is; ok is false if there are no feeds,
// and then the goroutine ends.
func (w *watcher) due(now time.Time) (list []*feed, wait time.Duration, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.feeds) == 0 {
		w.wake = nil
		return nil, 0, false
	}
	wait = period
	for _, f := range w.feeds {
		wait = min(wait, f.readAt.Add(f.gap(len(w.feeds))).Sub(now))
	}
	if wait > 0 {
		return nil, wait, true
	}
	for _, f := range w.feeds {
		// What is due soon is read with the rest, so that all are read together in the end.
		gap := f.gap(len(w.feeds))
		if now.Sub(f.readAt) < gap-gap/8 {
			continue
		}
		f.readAt, f.touched, f.urgent = now, false, false
		list = append(list, f)
	}
	return list, 0, true
}

// gap is the time between two reads of a feed, one of n. The caller holds the lock of the
// watcher.
func (f *feed) gap(n int) time.Duration {
	switch {
	case f.urgent:
		return minGap
	case f.touched:
		return min(max(minGap, time.Duration(n)*gapOfEach), period)
	}
	return period
}

// touch has an execution read at once, if somebody watches it.
func (w *watcher) touch(id courier.ExecutionID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.feeds[id]; f != nil {
		f.touched, f.urgent = true, true
		w.poke()
	}
}

// readTimeout is how long the store may take for what is read at once.
const readTimeout = 10 * time.Second

// read reads feeds.
func (w *watcher) read(list []*feed) {
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
		found, err := w.e.Executions().List(ctx, store.Filter{IDs: page, Limit: len(page)})
		if err != nil {
			w.fail(byID, err)
			return
		}
		w.failing = false
		for i := range found {
			w.update(ctx, byID[found[i].ID], &found[i])
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
func (w *watcher) update(ctx context.Context, f *feed, x *courier.Execution) {
	was := f.read()
	var entries []AuditEvent
	if was.version > 0 && x.Seq > was.execution.Seq {
		var err error
		entries, err = w.d.AuditEvents(ctx, store.AuditFilter{Execution: f.id, After: was.execution.Seq, Limit: auditPage})
		if err != nil {
			w.fail(map[courier.ExecutionID]*feed{f.id: f}, err)
			return
		}
		for n := len(entries); n > 0 && entries[n-1].Seq > x.Seq; n = len(entries) {
			entries = entries[:n-1] // of a later change, which is read next
		}
	}
	f.update(x, entries, time.Now())
}

// fail takes the error of a read of feeds.
func (w *watcher) fail(feeds map[courier.ExecutionID]*feed, err error) {
	if !w.failing {
		w.log.Error("executions that are watched could not be read; it is tried again every second", "executions", len(feeds), "error", err)
	}
	w.failing = true
	err = errors.Join(errors.New("the store could not be read"), err)
	for _, f := range feeds {
		f.fail(err, time.Now(), false)
	}
}
