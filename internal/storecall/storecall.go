// Package storecall calls a store for the subsystems of an engine: it bounds how long a
// call takes, and makes calls again that have failed for a reason that the store's contract
// does not name.
package storecall

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier"
)

// Timeout bounds the calls to the store that no lease bounds.
const Timeout = 10 * time.Second

// Calls bounds calls to the store, one at a time, to [Timeout] each. It
// has one context and one timer for all of them until a call takes too long:
// those of each call would cost as much as the calls to some stores do. The
// zero value with a parent is ready to use, by one goroutine; [Calls.End] ends it.
type Calls struct {
	Parent context.Context
	// Awaited says that a caller waits for the result, so that an error marked as
	// permanent ends the calls. A worker's progress is written again as long as the lease
	// lasts, since the cause may be removed meanwhile.
	Awaited bool
	*bound
}

// A bound is a context that ends when a call under it takes too long.
type bound struct {
	ctx    context.Context
	cancel context.CancelFunc
	start  time.Time
	began  atomic.Int64 // of the call under way, in nanoseconds after start; 0 if there is none
	timer  *time.Timer
}

// call calls f with a context that ends after Timeout.
func (p *Calls) call(f func(context.Context) error) error {
	if p.bound == nil || p.ctx.Err() != nil {
		p.End()
		p.bound = &bound{start: time.Now()}
		p.ctx, p.cancel = context.WithCancel(p.Parent)
		p.timer = time.AfterFunc(1<<62, p.look)
		p.timer.Reset(Timeout)
	}
	p.began.Store(int64(max(1, time.Since(p.start))))
	defer p.began.Store(0)
	return f(p.ctx)
}

// look ends the context if the call under way has taken too long, and looks
// again when it, or one that begins now, may have.
func (b *bound) look() {
	wait := Timeout
	if began := b.began.Load(); began != 0 {
		wait -= time.Since(b.start) - time.Duration(began)
	}
	if wait <= 0 {
		b.cancel()
	} else if b.ctx.Err() == nil {
		b.timer.Reset(wait)
	}
}

// End ends the context of the calls. A call after it begins another one.
func (p *Calls) End() {
	if p.bound != nil {
		p.cancel()
		p.timer.Stop()
		p.bound = nil
	}
}

// Write calls f as [Retry] does, for [Timeout] in all. It is for writes that change nothing a second
// time.
func Write[T any](ctx context.Context, f func(context.Context) (T, error)) (got T, err error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	calls := Calls{Parent: ctx}
	defer calls.End()
	err = Retry(&calls, func(ctx context.Context) (err error) {
		got, err = f(ctx)
		return err
	})
	return got, err
}

// Retry calls f until it succeeds or p's parent ends, or until it fails for a reason
// that the contract names, or, if Awaited is set, for one that
// repeating can't cure. A call that has not returned after [Timeout] is given up
// and made again. Once p's parent has ended, no call is made; the error is its cause.
func Retry(p *Calls, f func(context.Context) error) error {
	const first, most = 10 * time.Millisecond, time.Second
	for delay := first; ; delay = min(2*delay, most) {
		if p.Parent.Err() != nil {
			return context.Cause(p.Parent)
		}
		err := p.call(f)
		if err == nil || Promised(err) || p.Awaited && courier.IsPermanent(err) {
			return err
		}
		timer := time.NewTimer(delay)
		select {
		case <-p.Parent.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}

// Promised reports whether err is one that the contract of stores names, and not a
// failure of the store.
func Promised(err error) bool {
	for _, target := range []error{courier.ErrNotFound, courier.ErrConflict, courier.ErrLeaseLost, courier.ErrInvalid} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
