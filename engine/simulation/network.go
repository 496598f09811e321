package simulation

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store/storewrap"
)

// A network lies between one worker and the store.
type network struct {
	w   *world
	who *process

	mu    sync.Mutex
	calls map[string]int // how many there were, by method and execution
	down  time.Time      // until when nothing gets through
}

var errNetwork = errors.New("the network is down")

// lease is the lease of all workers.
const lease = 15 * time.Second

// latency is about how long a call takes, there and back each.
const latency = 2 * time.Millisecond

// intercept is what a call of the worker's engine goes through.
func (n *network) intercept(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
	r := n.luck(c)
	m := &n.w.mix
	if n.w.tell {
		n.w.note(n.who.name, "calls "+c.Method, n.w.numberOf(c.Execution))
		defer func() { n.w.note(n.who.name, "is back from "+c.Method, n.w.numberOf(c.Execution)) }()
	}
	if !n.pass(ctx, spread(r, latency)) {
		return n.lost(ctx)
	}
	if c.Method == "Await" || c.Method == "AwaitSchedules" || c.Method == "DueExpectations" && n.w.expected == nil {
		err := do(ctx)
		if !n.pass(ctx, spread(r, latency)) {
			return n.lost(ctx)
		}
		return err
	}
	calm := n.w.calm.Load()
	fate := r.Float64()
	hit := func(p float64) bool {
		ok := !calm && fate >= 0 && fate < p
		fate -= p
		return ok
	}
	number := n.w.numberOf(c.Execution)
	switch {
	case !calm && n.isDown():
		n.pass(ctx, spread(r, latency))
		return errNetwork
	case n.who.mortal && hit(m.crash):
		if r.IntN(2) == 0 {
			do(context.WithoutCancel(ctx))
		}
		n.who.die()
		return n.lost(ctx)
	case hit(m.before):
		n.w.note(n.who.name, "lost before", number)
		n.pass(ctx, spread(r, time.Second))
		return errNetwork
	case hit(m.after):
		n.w.note(n.who.name, "lost after", number)
		do(context.WithoutCancel(ctx))
		n.pass(ctx, spread(r, time.Second))
		return errNetwork
	case hit(m.late):
		return n.late(ctx, c, r, do)
	case hit(m.slow):
		n.w.note(n.who.name, "slow", number)
		if !n.pass(ctx, spread(r, 5*time.Second)) {
			return n.lost(ctx)
		}
	}
	err := do(ctx)
	if !n.pass(ctx, spread(r, latency)) {
		return n.lost(ctx)
	}
	return err
}

// late delivers a call, possibly long after its caller has given up.
func (n *network) late(ctx context.Context, c *storewrap.Call, r *rand.Rand, do func(context.Context) error) error {
	n.w.note(n.who.name, "late", n.w.numberOf(c.Execution))
	delay, patience := spread(r, 5*lease), spread(r, 10*time.Second)
	n.w.spawn(func() {
		if n.w.wait(delay) {
			do(context.WithoutCancel(ctx))
		}
	})
	n.pass(ctx, min(delay, patience))
	return errNetwork
}

// luck returns the random numbers of a call, which depend on what it is about
// and how many like it there were, and not on what other goroutines do.
func (n *network) luck(c *storewrap.Call) *rand.Rand {
	number := int(n.w.numberOf(c.Execution))
	n.mu.Lock()
	defer n.mu.Unlock()
	key := c.Method + string(rune('0'+number)) + subject(c)
	n.calls[key]++
	return n.w.dice("call", n.who.name, key, n.calls[key])
}

// numberOf returns the number of an execution; 0 if there is none or it is not known yet.
func (w *world) numberOf(id courier.ExecutionID) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return int64(w.index[id])
}

func (n *network) isDown() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Now().Before(n.down) || n.who.mortal && int64(time.Since(n.w.start)) < n.w.night.Load()
}

// pass lets a part of a call's time pass, including the time in which the worker stands still. It
// reports false if the worker has died by then. It does not return earlier if ctx ends, except
// for a moment that is specific to the call.
func (n *network) pass(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-n.who.gone:
		return false
	case <-ctx.Done():
		if !n.who.sleep(d%time.Millisecond + 1) {
			return false
		}
	}
	return n.who.standStill(d)
}

// lost blocks the call of a dead worker until the world is over.
func (n *network) lost(ctx context.Context) error {
	<-n.w.over
	return courier.ErrLeaseLost
}
