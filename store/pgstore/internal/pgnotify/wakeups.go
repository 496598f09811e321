package pgnotify

import (
	"context"
	"slices"
	"sync"
)

// Wakeups wakes goroutines of this process that wait for a change of a queue. A
// change between [Wakeups.Mark] and [Wakeups.Wait] is not missed. It may be used by
// any number of goroutines.
type Wakeups struct {
	mu      sync.Mutex
	count   uint64            // the number of changes so far
	queues  map[string]uint64 // the count at the last change of a queue
	all     uint64            // the count at the last change of all queues
	waiters map[*waiter]struct{}
}

// A waiter is a call of Wait.
type waiter struct {
	queues []string
	woken  chan struct{} // has room for one
}

func (w *Wakeups) init() {
	w.queues, w.waiters = make(map[string]uint64), make(map[*waiter]struct{})
}

// Mark returns the number of changes so far, for [Wakeups.Wait].
func (w *Wakeups) Mark() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}

// Wake ends the calls of Wait for a queue.
func (w *Wakeups) Wake(queue string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count++
	w.queues[queue] = w.count
	for x := range w.waiters {
		if slices.Contains(x.queues, queue) {
			x.wake()
		}
	}
}

// WakeAll ends all calls of Wait: an execution ended, a limit changed, or the change
// names no queue.
func (w *Wakeups) WakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count++
	w.all = w.count
	for x := range w.waiters {
		x.wake()
	}
}

// Wait returns nil when one of the queues has changed since the mark, at once if that
// has happened already, or ctx's error when ctx ends.
func (w *Wakeups) Wait(ctx context.Context, queues []string, since uint64) error {
	x := &waiter{queues: queues, woken: make(chan struct{}, 1)}
	if w.changed(since, x) {
		return nil
	}
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waiters, x)
	}()
	select {
	case <-x.woken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// changed reports whether a queue of a waiter has changed since the mark. Otherwise
// it adds the waiter.
func (w *Wakeups) changed(since uint64, x *waiter) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all > since {
		return true
	}
	for _, q := range x.queues {
		if w.queues[q] > since {
			return true
		}
	}
	w.waiters[x] = struct{}{}
	return false
}

func (x *waiter) wake() {
	select {
	case x.woken <- struct{}{}:
	default:
	}
}
