package pgstore

import (
	"context"
	"slices"
	"sync"
)

// A bell tells those in this process who wait for work that there may be some.
type bell struct {
	mu      sync.Mutex
	count   uint64            // of what may have made something claimable
	queues  map[string]uint64 // the last time for a queue
	all     uint64            // the last time for all of them
	waiters map[*waiter]struct{}
}

// A waiter is a call of Await.
type waiter struct {
	queues []string
	rung   chan struct{} // has room for one
}

func (b *bell) init() {
	b.queues, b.waiters = make(map[string]uint64), make(map[*waiter]struct{})
}

// mark is what [bell.wait] takes to wait for what comes after now.
func (b *bell) mark() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count
}

// ring says that something may be claimable in a queue.
func (b *bell) ring(queue string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count++
	b.queues[queue] = b.count
	for w := range b.waiters {
		if slices.Contains(w.queues, queue) {
			w.wake()
		}
	}
}

// ringAll says that something may be claimable in any queue: a slot became
// free, or a limit changed.
func (b *bell) ringAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count++
	b.all = b.count
	for w := range b.waiters {
		w.wake()
	}
}

// wait returns when the bell has rung for one of the queues since the mark, or
// ctx's error.
func (b *bell) wait(ctx context.Context, queues []string, since uint64) error {
	w := &waiter{queues: queues, rung: make(chan struct{}, 1)}
	if b.since(queues, since, w) {
		return nil
	}
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.waiters, w)
	}()
	select {
	case <-w.rung:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// since reports whether the bell has rung since the mark; otherwise w is woken
// when it does.
func (b *bell) since(queues []string, since uint64, w *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all > since {
		return true
	}
	for _, q := range queues {
		if b.queues[q] > since {
			return true
		}
	}
	b.waiters[w] = struct{}{}
	return false
}

func (w *waiter) wake() {
	select {
	case w.rung <- struct{}{}:
	default:
	}
}
