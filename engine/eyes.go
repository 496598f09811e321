package engine

import (
	"context"
	"errors"

	"github.com/courierhq/courier"
)

// An eye is what watches a directory between two looks.
type eye struct {
	target courier.MonitorTarget
	close  context.CancelFunc
}

// mostEyes is how many directories are watched; more are only looked at when
// they are due.
const mostEyes = 1000

// openEye sees to it that a directory is watched, if its lister can do that: a
// change leads to an early look.
func (e *Engine) openEye(w *worker, name string, l courier.Lister, t courier.MonitorTarget) {
	watcher, ok := l.(courier.Watcher)
	if !ok {
		return
	}
	e.watching.mu.Lock()
	defer e.watching.mu.Unlock()
	old, open := e.watching.eyes[name]
	if open && old.target == t || !open && len(e.watching.eyes) >= mostEyes || w.ctx.Err() != nil {
		return
	}
	if open {
		old.close()
	}
	ctx, cancel := context.WithCancel(w.ctx)
	e.watching.eyes[name] = eye{t, cancel}
	w.rest.Add(1)
	go func() {
		defer w.rest.Done()
		err := watcher.Watch(ctx, t, func() { e.hurry([]string{name}) })
		if ctx.Err() == nil && !errors.Is(err, errors.ErrUnsupported) {
			e.log.Warn("watch a directory; it is still looked at", "monitor", name, "error", err)
			<-ctx.Done() // not again, until the target changes or the engine starts anew
		}
	}()
}

// closeEyes ends all watching.
func (e *Engine) closeEyes() {
	e.watching.mu.Lock()
	defer e.watching.mu.Unlock()
	for _, eye := range e.watching.eyes {
		eye.close()
	}
	clear(e.watching.eyes)
	clear(e.watching.known)
}
