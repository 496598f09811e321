package watch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/internal/wakeup"
)

// ErrBusy is matched by an error of [List.Read] that asks for patience: viewers keep the page that
// they have, and the list is read again after 10 seconds.
var ErrBusy = errors.New("busy")

// A List is the first page of a list, as a viewer may see it.
type List struct {
	Key  string // identifies the list; viewers with the same key share what is read
	Read func(ctx context.Context) ([]courier.Execution, error)
}

// Lists has the lists that are watched. Its methods may be called by several goroutines.
type Lists struct {
	observe func(f func(courier.Event)) (stop func())
	log     *slog.Logger

	mu    sync.Mutex
	feeds map[string]*listFeed
}

// NewLists returns the lists of an engine, of which none is watched. A list that can't be read is
// logged once.
func NewLists(s Source, log *slog.Logger) *Lists { return &Lists{observe: s.Observe, log: log} }

// A ListWatch tells one viewer what is on the first page of a list. Its methods are for one
// goroutine.
type ListWatch struct {
	l    *Lists
	f    *listFeed
	list func(ctx context.Context) List
	done func()
	seen int
}

// Watch begins to report the first page of a list. The function returns the list as the viewer may
// see it now; it is called again at each change, since the viewer may see more or less by then. A
// list is read every two seconds, however many watch it, and soon after this engine has changed an
// execution. The caller must close the watch, which calls done once.
func (l *Lists) Watch(ctx context.Context, list func(ctx context.Context) List, done func()) *ListWatch {
	return &ListWatch{l: l, f: l.join(list(ctx)), list: list, done: done}
}

// Close ends the watch. It may be called more than once.
func (w *ListWatch) Close() {
	if w.done != nil {
		w.l.leave(w.f)
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
			if list := w.list(ctx); list.Key != w.f.key { // it may see more now, or less
				f := w.l.join(list)
				w.l.leave(w.f)
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

// A listFeed is a list that somebody watches, with a goroutine of its own.
type listFeed struct {
	key     string
	viewers int // under the lock of the lists
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

func (l *Lists) join(list List) *listFeed {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.feeds[list.Key]
	if f == nil {
		ctx, cancel := context.WithCancel(context.Background())
		f = &listFeed{key: list.Key, end: cancel, listSnapshot: listSnapshot{changed: make(chan struct{})}}
		if l.feeds == nil {
			l.feeds = make(map[string]*listFeed)
		}
		l.feeds[list.Key] = f
		go l.run(ctx, f, list.Read)
	}
	f.viewers++
	return f
}

func (l *Lists) leave(f *listFeed) {
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

// run reads a list until nobody watches it.
func (l *Lists) run(ctx context.Context, f *listFeed, read func(ctx context.Context) ([]courier.Execution, error)) {
	touched := make(chan struct{}, 1)
	stop := l.observe(func(ev courier.Event) {
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
		items, err := read(ctx)
		switch {
		case err == nil:
			failing = time.Time{}
			f.publish(items, nil)
		case ctx.Err() != nil:
			return
		case refusedToAsk(err), errors.Is(err, courier.ErrNotFound), errors.Is(err, courier.ErrInvalid):
			f.publish(nil, err)
		case errors.Is(err, ErrBusy): // the page stays as it is until the viewer may read again
			if wakeup.Sleep(ctx, busyGap) != nil {
				return
			}
		default:
			if failing.IsZero() {
				failing = began
				l.log.Error("a watched list could not be read; will retry every two seconds", "error", err)
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
