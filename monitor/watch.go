package monitor

import (
	"context"
	"errors"

	"github.com/courierhq/courier"
)

// A directoryWatcher is what watches a directory between two polls.
type directoryWatcher struct {
	directory courier.Directory
	close     context.CancelFunc
}

// maxWatchers is the maximum number of watched directories. Further directories are only polled
// when they are due.
const maxWatchers = 1000

// watchDirectory makes sure that a directory is watched, if its lister supports that. A change
// leads to an early poll.
func (v *Service) watchDirectory(w *loops, name string, l courier.Lister, d courier.Directory) {
	watcher, ok := l.(courier.Watcher)
	if !ok {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	old, open := v.watchers[name]
	if open && old.directory == d || !open && len(v.watchers) >= maxWatchers || w.ctx.Err() != nil {
		return
	}
	if open {
		old.close()
	}
	ctx, cancel := context.WithCancel(w.ctx)
	v.watchers[name] = directoryWatcher{d, cancel}
	w.rest.Add(1)
	go func() {
		defer w.rest.Done()
		err := watcher.Watch(ctx, d, func() { v.pollNow([]string{name}) })
		if ctx.Err() == nil && !errors.Is(err, errors.ErrUnsupported) {
			v.opt.Log.Warn("watch a directory; polling continues", "monitor", name, "error", err)
			<-ctx.Done() // not again, until the directory changes or the engine starts anew
		}
	}()
}

// stopWatching ends all watching.
func (v *Service) stopWatching() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, d := range v.watchers {
		d.close()
	}
	clear(v.watchers)
	clear(v.known)
}
