package desk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/internal/wakeup"
)

// A ListWatch tells one viewer what is on the first page of a list. Its methods are for one
// goroutine.
type ListWatch struct {
	d     *Desk
	f     *listFeed
	of    access.Principal
	where filter.Filter
	limit int
	done  func()
	seen  int
}

// WatchExecutions begins to tell what is on the first page of the executions that a filter
// selects, as far as the visitor may see them. However many watch the same list, it is read
// every two seconds, and soon after this engine has changed an execution. The error is a
// *[BusyError] if too many watch already. The caller must close the watch.
func (v *Visit) WatchExecutions(ctx context.Context, w filter.Filter, limit int) (*ListWatch, error) {
	done, err := v.d.viewers.enter(v.ID)
	if err != nil {
		return nil, err
	}
	l := &ListWatch{d: v.d, of: v.Principal, where: w, limit: limit, done: done}
	l.f = v.d.lists.join(l.key(ctx))
	return l, nil
}

// key identifies the list as the viewer may see it now: all of it, which is the same for all
// who may, or what it may see, which is its own.
func (w *ListWatch) key(ctx context.Context) listKey {
	v := w.d.Visitor(w.of) // roles are asked for each time
	k := listKey{where: w.where.String(), limit: w.limit}
	if may, err := v.mayAsk(ctx, &w.where); err != nil || may != nil || !v.Can(ctx, "", access.RightSee) {
		k.of = w.of
	}
	k.read = func(ctx context.Context) (Page, error) {
		if k.of == (access.Principal{}) {
			return w.d.Executions(ctx, w.where, "", w.limit)
		}
		return w.d.Visitor(w.of).Executions(ctx, w.where, "", w.limit)
	}
	return k
}

// A listKey says which list is read, and for whom.
type listKey struct {
	of    access.Principal // none for all who may see all of it
	where string
	limit int
	read  func(ctx context.Context) (Page, error)
}

func (k *listKey) text() string { return fmt.Sprintf("%q %d %s", k.of.ID, k.limit, k.where) }

// Close ends the watch. It may be called more than once.
func (w *ListWatch) Close() {
	if w.done != nil {
		w.d.lists.leave(w.f)
		w.done()
		w.done = nil
	}
}

// Next returns the page as it is: the first time at once, and then when it may have changed.
// The error is that of ctx if it ends first, and otherwise that of the store.
func (w *ListWatch) Next(ctx context.Context) ([]courier.Execution, error) {
	for {
		s := w.f.read()
		if s.version != w.seen {
			if k := w.key(ctx); k.text() != w.f.key { // it may see more now, or less
				f := w.d.lists.join(k)
				w.d.lists.leave(w.f)
				w.f, w.seen = f, 0
				continue
			}
			w.seen = s.version
			return s.items, s.err
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// A listWatcher has the lists that are watched.
type listWatcher struct {
	d *Desk

	mu    sync.Mutex
	feeds map[string]*listFeed
}

// A listFeed is a list that somebody watches, with a goroutine of its own.
type listFeed struct {
	key     string
	viewers int // under the lock of the listWatcher
	end     context.CancelFunc

	mu sync.Mutex
	listSnapshot
}

type listSnapshot struct {
	version int // 0 before the first read
	changed chan struct{}
	items   []courier.Execution
	err     error
}

func (f *listFeed) read() listSnapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.listSnapshot
}

func (f *listFeed) publish(items []courier.Execution, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.items, f.err = items, err
	f.version++
	close(f.changed)
	f.changed = make(chan struct{})
}

func (l *listWatcher) join(k listKey) *listFeed {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := k.text()
	f := l.feeds[key]
	if f == nil {
		ctx, cancel := context.WithCancel(context.Background())
		f = &listFeed{key: key, end: cancel, listSnapshot: listSnapshot{changed: make(chan struct{})}}
		if l.feeds == nil {
			l.feeds = make(map[string]*listFeed)
		}
		l.feeds[key] = f
		go l.run(ctx, f, k.read)
	}
	f.viewers++
	return f
}

func (l *listWatcher) leave(f *listFeed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.viewers--; f.viewers == 0 {
		delete(l.feeds, f.key)
		f.end()
	}
}

// How often a list is read.
const (
	listPeriod = 2 * time.Second
	listGap    = period / 2 // at least, between two reads
	busyGap    = 10 * time.Second
)

func isBusy(err error) bool {
	_, busy := errors.AsType[*BusyError](err)
	return busy
}

// run reads a list until nobody watches it.
func (l *listWatcher) run(ctx context.Context, f *listFeed, read func(ctx context.Context) (Page, error)) {
	touched := make(chan struct{}, 1)
	stop := l.d.e.Observe(func(ev courier.Event) {
		if ev.StepType != "" && ev.Type != courier.EventJobFailed {
			return
		}
		select {
		case touched <- struct{}{}:
		default:
		}
	})
	defer stop()
	failing := time.Time{}
	for ctx.Err() == nil {
		began := time.Now()
		page, err := read(ctx)
		switch {
		case err == nil:
			failing = time.Time{}
			f.publish(page.Items, nil)
		case ctx.Err() != nil:
			return
		case refusedToAsk(err), errors.Is(err, courier.ErrNotFound), errors.Is(err, courier.ErrInvalid):
			f.publish(nil, err)
		case isBusy(err): // the page stays as it is until the visitor may read again
			if wakeup.Sleep(ctx, busyGap) != nil {
				return
			}
		default:
			if failing.IsZero() {
				failing = began
				l.d.log.Error("a list that is watched could not be read; it is tried again every two seconds", "error", err)
			}
			if began.Sub(failing) >= patience {
				f.publish(nil, err)
			}
		}
		if wakeup.Sleep(ctx, listGap) != nil {
			return
		}
		select {
		case <-touched:
		case <-time.After(listPeriod - listGap):
		case <-ctx.Done():
		}
	}
}

// refusedToAsk reports whether an error says that somebody may not ask for a list.
func refusedToAsk(err error) bool {
	_, no := errors.AsType[*access.Error](err)
	return no
}
