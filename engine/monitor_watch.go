package engine

import (
	"context"
	"errors"

	"github.com/courierhq/courier"
)

// A directoryWatcher is what watches a directory between two looks.
type directoryWatcher struct {
	target courier.MonitorTarget
	close  context.CancelFunc
}

// maxWatchers is how many directories are watched; more are only looked at when
// they are due.
const maxWatchers = 1000

// watchDirectory makes sure that a directory is watched, if its lister can do that: a
// change leads to an early look.
func (e *Engine) watchDirectory(w *worker, name string, l courier.Lister, t courier.MonitorTarget) {
	watcher, ok := l.(courier.Watcher)
	if !ok {
		return
	}
	e.watching.mu.Lock()
	defer e.watching.mu.Unlock()
	old, open := e.watching.watchers[name]
	if open && old.target == t || !open && len(e.watching.watchers) >= maxWatchers || w.ctx.Err() != nil {
		return
	}
	if open {
		old.close()
	}
	ctx, cancel := context.WithCancel(w.ctx)
	e.watching.watchers[name] = directoryWatcher{t, cancel}
	w.rest.Add(1)
	go func() {
		defer w.rest.Done()
		err := watcher.Watch(ctx, t, func() { e.pollNow([]string{name}) })
		if ctx.Err() == nil && !errors.Is(err, errors.ErrUnsupported) {
			e.log.Warn("watch a directory; it is still looked at", "monitor", name, "error", err)
			<-ctx.Done() // not again, until the target changes or the engine starts anew
		}
	}()
}

// stopWatching ends all watching.
func (e *Engine) stopWatching() {
	e.watching.mu.Lock()
	defer e.watching.mu.Unlock()
	for _, d := range e.watching.watchers {
		d.close()
	}
	clear(e.watching.watchers)
	clear(e.watching.known)
}
