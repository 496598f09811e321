package leases

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/store"
)

// ErrTimeout is the cause with which steps end when the whole execution takes too long.
var ErrTimeout = fmt.Errorf("the execution: %w", courier.ErrTimeout)

// A Lease says whether one run may go on with its execution: as long as it holds the
// execution in the store, until the execution's deadline, and until somebody requests
// that it pauses, cancels or stops. It has two contexts. That of [Lease.Context] ends when
// the lease is lost: nothing of the execution may be written or executed then. That of
// [Lease.Steps], below it, ends also when a step has to stop, with the reason as its
// cause: [ErrTimeout], [courier.ErrCancelled], [courier.ErrStopped] or
// [courier.ErrLeaseLost].
//
// A run sets it up with [Lease.Begin], and calls [Lease.Close] in the end. Other methods
// may be called by several goroutines if they say so.
type Lease struct {
	period    time.Duration // for which the store grants it
	ctx       context.Context
	lose      context.CancelCauseFunc
	steps     context.Context
	interrupt atomic.Pointer[context.CancelCauseFunc] // of steps
	finishing atomic.Bool                             // the finally part runs, which no cancel interrupts, but an abort does
	calls     storecall.Calls
	watchdog  *time.Timer     // nil if nobody else can take the execution
	deadline  *time.Timer     // of the execution; nil if it has no timeout
	stop      <-chan struct{} // closed when the execution is to be handed over; nil if it never is
	refused   time.Time       // when the present write first saw that the engine stops
	left      atomic.Bool     // it is not renewed, and lasts until another worker takes the execution over
	request   atomic.Pointer[store.Renewed]
}

// Begin sets up a lease that ends with ctx only.
func (l *Lease) Begin(ctx context.Context) {
	l.ctx, l.lose = context.WithCancelCause(ctx)
	l.calls.Parent = l.ctx
	l.setSteps(context.WithCancelCause(l.ctx))
}

func (l *Lease) setSteps(ctx context.Context, interrupt context.CancelCauseFunc) {
	l.steps = ctx
	l.interrupt.Store(&interrupt)
}

// Finish says that the finally part of the execution begins: steps may be executed again, even
// though the execution was cancelled or has taken too long. The deadline is that of the
// part; 0 means none.
func (l *Lease) Finish(timeout time.Duration) {
	l.finishing.Store(true)
	if l.deadline != nil {
		l.deadline.Stop()
	}
	if q := l.request.Load(); q != nil && q.Request == courier.RequestCancel {
		l.request.CompareAndSwap(q, nil) // carried out
	}
	ctx, interrupt := context.WithCancelCause(context.WithoutCancel(l.steps))
	context.AfterFunc(l.ctx, func() { interrupt(context.Cause(l.ctx)) })
	l.setSteps(ctx, interrupt)
	if timeout > 0 {
		l.Limit(timeout)
	}
}

// Finishes says that the finally part had begun when the lease was granted.
func (l *Lease) Finishes() { l.finishing.Store(true) }

// Grant says that the store has granted the lease for a period, in answer to a call that
// was sent at a time. It is lost when it can't be relied on any more. Stop is closed when
// the execution is to be handed over.
func (l *Lease) Grant(period time.Duration, sent time.Time, stop <-chan struct{}) {
	l.period, l.stop = period, stop
	l.watchdog = time.AfterFunc(l.validity(sent), func() {
		if !l.left.Load() {
			l.Lost()
		}
	})
}

// Limit sets the deadline of the execution, after which steps end.
func (l *Lease) Limit(remaining time.Duration) {
	interrupt := *l.interrupt.Load()
	l.deadline = time.AfterFunc(max(0, remaining), func() { interrupt(ErrTimeout) })
	if remaining <= 0 {
		interrupt(ErrTimeout)
	}
}

// validity is how long a lease that was granted by a call sent at a time can be relied
// on: a fifth of it is left for the steps to end.
func (l *Lease) validity(sent time.Time) time.Duration {
	return l.period - l.period/5 - time.Since(sent)
}

// Close ends the lease, its contexts and its timers.
func (l *Lease) Close() {
	if l.watchdog != nil {
		l.watchdog.Stop()
	}
	if l.deadline != nil {
		l.deadline.Stop()
	}
	l.Lost()
	l.calls.End()
}

// Context ends when the lease is lost.
func (l *Lease) Context() context.Context { return l.ctx }

// Held reports whether the lease is not lost. Any goroutine may call it.
func (l *Lease) Held() bool { return l.ctx.Err() == nil }

// Lost says that the lease is lost. Any goroutine may call it.
func (l *Lease) Lost() { l.lose(courier.ErrLeaseLost) }

// Steps ends when steps have to stop.
func (l *Lease) Steps() context.Context { return l.steps }

// Within sets a context below that of [Lease.Steps] in its place.
func (l *Lease) Within(ctx context.Context) { l.steps = ctx }

// Interrupt ends the present step with a cause. Any goroutine may call it.
func (l *Lease) Interrupt(cause error) { (*l.interrupt.Load())(cause) }

// Call calls the store until it succeeds, the lease is lost or the error is one that the
// contract of stores names; see [storecall.Retry].
func (l *Lease) Call(f func(context.Context) error) error { return storecall.Retry(&l.calls, f) }

// StoppedBy reports whether the lease ends with a stop.
func (l *Lease) StoppedBy(stop <-chan struct{}) bool { return l.stop == stop }

// Stopping reports whether the execution is to be handed over.
func (l *Lease) Stopping() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

// Request returns what is requested of the run; nil for nothing. Any goroutine may call
// it.
func (l *Lease) Request() *store.Renewed { return l.request.Load() }

// SetRequest takes note of what is requested. A cancel and an abort are never withdrawn, and
// end the present step. Any goroutine may call it.
func (l *Lease) SetRequest(q *store.Renewed) {
	if q.Request == courier.RequestCancel && l.finishing.Load() {
		return // it has led into the finally part
	}
	for {
		old := l.request.Load()
		if old == nil && q.Request == "" || old != nil && (old.Request == courier.RequestAbort || old.Request == courier.RequestCancel && q.Request != courier.RequestAbort) {
			return // this request is older
		}
		now := q
		if q.Request == "" {
			now = nil // a pause was withdrawn
		}
		if l.request.CompareAndSwap(old, now) {
			break
		}
	}
	if q.Request == courier.RequestCancel || q.Request == courier.RequestAbort {
		l.Interrupt(courier.ErrCancelled)
	}
}

// Renewed says that the lease was renewed by a call that was sent at a time, and which
// request the store has. Any goroutine may call it.
func (l *Lease) Renewed(q *store.Renewed, sent time.Time) {
	if l.watchdog.Reset(l.validity(sent)) {
		l.SetRequest(q)
	}
}

// BeginWrite says that a write begins.
func (l *Lease) BeginWrite() { l.refused = time.Time{} }

// Refused says that the store has refused the present write, or has swallowed it. When the
// engine has been stopping, and the store refusing, for as long as a lease can be relied
// on, the lease is lost: the execution is taken over when it ends in the store.
func (l *Lease) Refused() {
	if !l.Stopping() {
		return
	}
	if l.refused.IsZero() {
		l.refused = time.Now()
	}
	if l.validity(l.refused) <= 0 {
		l.Lost()
	}
}

// Leave has the lease not renewed any more, so that another worker can take the execution
// over. Until one does, the run may write.
func (l *Lease) Leave() { l.left.Store(true) }

// Left reports whether the lease was left to other workers. Any goroutine may call it.
func (l *Lease) Left() bool { return l.left.Load() }

// Regain renews a lease that was left to others, by a call that reports whether the store
// has renewed it. If it has not, the lease is lost.
func (l *Lease) Regain(renew func(context.Context) bool) {
	ctx, cancel := context.WithTimeout(l.ctx, storecall.Timeout)
	defer cancel()
	sent := time.Now()
	if !renew(ctx) {
		l.Lost()
		return
	}
	l.watchdog.Reset(l.validity(sent))
	l.left.Store(false)
}
