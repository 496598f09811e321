// Package watch reports changes of executions ([Executions]) and of the first pages of lists
// ([Lists]) to any number of viewers. An execution or a list is read once for all its viewers, for
// as long as it has any. The caller decides who may watch which.
//
// While somebody watches, one goroutine reads all executions in view by one statement a second,
// and the audit of those that have changed. An event of the own engine has its execution read at
// once. A list is read once for all viewers who may see all of it, and for anybody else as that
// principal; the rights of each viewer are asked for again at each change. A viewer that is
// behind reads the audit itself.
package watch

import (
	"context"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// A Change is what has become of an execution that somebody watches.
type Change struct {
	// Execution is the execution as it is now, and without its result.
	Execution courier.Execution
	// Audit are the entries that were not told yet, in their order: up to that with the
	// number Execution.Seq. An event is emitted once, with the entry.
	Audit []AuditEvent
	// Progress is that of the step in progress; nil if nothing is known of it.
	Progress *Progress
}

// A Progress is what a step in progress has moved: a [courier.Progress] with its step, and
// without the time of the last change, which the execution itself has.
type Progress struct {
	Step  int    `json:"step"` // the index of the step
	Item  string `json:"item,omitempty"`
	Done  int64  `json:"done"`            // bytes of the item
	Total int64  `json:"total"`           // bytes of the item; -1 if not known
	Bytes int64  `json:"bytes"`           // of the attempt, all items
	Stage string `json:"stage,omitempty"` // what the step is doing, if it says so
}

// A Watch tells one viewer of the changes of an execution. Its methods are for one goroutine.
type Watch struct {
	e     *Executions
	f     *feed
	done  func()
	after int64 // the entries of the audit that the viewer has
	seen  int   // the version of the feed
}

// Watch begins to report the changes of an execution, from the entry of the audit behind the
// number after on. An execution is read once a second, however many watch it, and at once when
// this engine has changed it. The caller must close the watch, which calls done once.
func (e *Executions) Watch(id courier.ExecutionID, after int64, done func()) *Watch {
	return &Watch{e: e, f: e.join(id), done: done, after: after}
}

// Close ends the watch. It may be called more than once.
func (w *Watch) Close() {
	if w.done != nil {
		w.e.leave(w.f)
		w.done()
		w.done = nil
	}
}

// auditPage is how many entries of the audit a change has at most.
const auditPage = 1000

// Next returns the next change: the first time the execution as it is, with the entries that
// the viewer lacks; then it waits. A change can have part of the entries, if there are many;
// then the next one comes at once. The error is that of ctx if it ends first, and one that
// matches [courier.ErrNotFound] if the execution is no longer there.
func (w *Watch) Next(ctx context.Context) (Change, error) {
	for {
		s := w.f.read()
		if s.version == w.seen {
			select {
			case <-s.changed:
				continue
			case <-ctx.Done():
				return Change{}, ctx.Err()
			}
		}
		if s.err != nil {
			return Change{}, s.err
		}
		entries, err := w.entries(ctx, &s)
		if err != nil {
			return Change{}, err
		}
		if n := len(entries); n > 0 {
			w.after = entries[n-1].Seq
		}
		if len(entries) < auditPage {
			w.seen, w.after = s.version, max(w.after, s.execution.Seq)
		}
		return Change{Execution: s.execution, Audit: entries, Progress: s.progress}, nil
	}
}

// entries returns the entries that the viewer lacks: from what the feed has kept, or from the
// store.
func (w *Watch) entries(ctx context.Context, s *snapshot) ([]AuditEvent, error) {
	if w.after >= s.execution.Seq {
		return nil, nil
	}
	list := s.entries
	if w.after < s.base {
		var err error
		list, err = AuditEvents(ctx, w.e.s.Executions, store.AuditFilter{Execution: s.execution.ID, After: w.after, Limit: auditPage})
		if err != nil {
			return nil, err
		}
	}
	first, last := 0, len(list)
	for first < last && list[first].Seq <= w.after {
		first++
	}
	for last > first && list[last-1].Seq > s.execution.Seq {
		last--
	}
	return list[first:min(last, first+auditPage)], nil
}

// A feed is an execution that somebody watches. Its viewers read it, and the goroutine of
// the watcher changes it.
type feed struct {
	id courier.ExecutionID

	// Of the watcher, under its lock.
	viewers int
	readAt  time.Time // of the last statement
	touched bool      // this engine has told of a change since
	urgent  bool      // ... of the whole execution

	mu sync.Mutex
	snapshot
	failing time.Time // since when the store can't be read; zero if it can
	movedAt time.Time // when the progress was last told
}

// A snapshot is what is known of an execution. What its fields refer to does not change.
type snapshot struct {
	version   int // 0 before the first read
	changed   chan struct{}
	execution courier.Execution
	status    string
	progress  *Progress
	base      int64 // entries has those of the audit behind this number
	entries   []AuditEvent
	err       error
}

func (f *feed) read() snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.snapshot
}

// publish tells the viewers that the feed has changed, which the caller has locked.
func (f *feed) publish() {
	f.version++
	close(f.changed)
	f.changed = make(chan struct{})
}

// mostKept is how many entries of the audit a feed keeps for viewers that are slow.
const mostKept = 2 * auditPage

// update takes an execution that was read, and the entries since the one before.
func (f *feed) update(x *courier.Execution, entries []AuditEvent, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failing = time.Time{}
	p := progressOf(x)
	if told := f.progress; told != nil && x.Seq == f.execution.Seq && x.State == courier.Running && (p == nil || p.Bytes < told.Bytes) {
		p = told // by an event: the store has it later
	}
	status := x.Status(now)
	was := &f.execution
	changed := f.version == 0 || f.err != nil || x.Seq != was.Seq || x.Request != was.Request || status != f.status || !same(p, f.progress)
	if f.version == 0 || len(entries) == auditPage {
		f.base, f.entries = x.Seq, nil // viewers read the entries before
	} else if f.entries = append(f.entries[:len(f.entries):len(f.entries)], entries...); len(f.entries) > mostKept {
		f.entries = f.entries[len(f.entries)-auditPage:]
		f.base = f.entries[0].Seq - 1
	}
	f.execution, f.status, f.progress, f.err = *x, status, p, nil
	if changed {
		f.publish()
	}
}

func same(a, b *Progress) bool { return a == b || a != nil && b != nil && *a == *b }

// progressOf returns the progress that the store has; nil if it has none.
func progressOf(x *courier.Execution) *Progress {
	if x.State != courier.Running || x.Current == nil || x.Current.Progress == nil {
		return nil
	}
	p := x.Current.Progress
	return &Progress{Step: x.Current.Step, Item: p.Item, Done: p.Done, Total: p.Total, Bytes: p.Bytes, Stage: p.Stage}
}

// patience is how long the store may be out of reach before viewers are told.
const patience = 10 * time.Second

// fail takes the error of a read. Viewers are told at once that the execution is not there,
// and later that the store is out of reach.
func (f *feed) fail(err error, now time.Time, lasting bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failing.IsZero() {
		f.failing = now
	}
	if f.err == nil && (lasting || now.Sub(f.failing) >= patience) {
		f.err = err
		f.publish()
	}
}

// minMoved is the least time between two changes of the progress that events tell.
const minMoved = 500 * time.Millisecond

// moved takes the progress that an event tells.
func (f *feed) moved(ev *courier.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.version == 0 || ev.At.Sub(f.movedAt) < minMoved && ev.ItemDone != ev.ItemTotal {
		return
	}
	p := &Progress{Step: ev.Step, Item: ev.Item, Done: ev.ItemDone, Total: ev.ItemTotal, Bytes: ev.Bytes}
	if f.progress != nil && f.progress.Step == p.Step {
		p.Stage = f.progress.Stage
	}
	f.progress, f.movedAt = p, ev.At
	f.publish()
}
