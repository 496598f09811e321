package stepcall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier"
)

// A Call is one call of a step, which has to end within its times.
type Call struct {
	Timeout time.Duration // of the call; 0 means none
	Stall   time.Duration // the longest time without progress; 0 means none
	Grace   time.Duration // for the step to return after its context has ended
	Timer   *Timer
	// Done has room for one outcome. It may serve one call after the other, until the
	// step does not return from one.
	Done chan Outcome

	active atomic.Int64 // when the step last reported progress, in Unix nanoseconds
}

// A Timer is one that calls share, one at a time. The zero value is ready to use.
type Timer struct{ timer *time.Timer }

func (t *Timer) start(d time.Duration) <-chan time.Time {
	if t.timer == nil {
		t.timer = time.NewTimer(d)
	} else {
		t.timer.Reset(d)
	}
	return t.timer.C
}

// Progress takes note that the step is alive, at a time in Unix nanoseconds. It may be
// called by any goroutine.
func (c *Call) Progress(now int64) { c.active.Store(now) }

// Run calls f in the present goroutine and sends its outcome, also if f panics or calls
// runtime.Goexit. Then panicked is called first, with what has happened and the stack.
func (c *Call) Run(f func() (json.RawMessage, error), panicked func(what, stack string)) {
	var o Outcome
	returned := false
	defer func() {
		if !returned {
			p := recover()
			what, stack := Panicked(p)
			panicked(what, stack)
			o = Outcome{Err: errors.New(what), Reason: courier.ReasonPanic, Exited: p == nil, Stack: stack}
		}
		c.Done <- o
	}()
	if o.Outputs, o.Err = c.invoke(f); o.Err != nil {
		o.Err = SafeError(o.Err)
	}
	if p, ok := errors.AsType[*PanicError](o.Err); ok {
		panicked(p.What, p.Stack)
		o.Reason, o.Stack = courier.ReasonPanic, p.Stack
	}
	returned = true
}

// invoke calls f. The trace of a stack shows its first argument, by which StackIn finds
// the goroutine of the call.
//
//go:noinline
func (c *Call) invoke(f func() (json.RawMessage, error)) (json.RawMessage, error) {
	out, err := f()
	runtime.KeepAlive(c)
	return out, err
}

// StackIn returns the stack of the goroutine of the call from the stacks of all
// goroutines; empty if it is not among them.
func (c *Call) StackIn(stacks string) string {
	for one := range strings.SplitSeq(stacks, "\n\n") {
		if strings.Contains(one, fmt.Sprintf(".(*Call).invoke(%p", c)) {
			return one
		}
	}
	return ""
}

// A PanicError is the error of a step that has panicked in another process.
type PanicError struct{ What, Stack string }

// Error says what the step did instead of returning.
func (e *PanicError) Error() string { return e.What }

// Panicked says what a step did instead of returning, and the stack of its goroutine. A
// deferred function calls it with what recover has returned, which is nil for
// runtime.Goexit.
func Panicked(p any) (what, stack string) { return describe(p), string(debug.Stack()) }

func describe(p any) string {
	what := fmt.Sprintf("panic: %v", p)
	if p == nil {
		what = "the step called runtime.Goexit"
	}
	if at := PanickedAt(); at != "" {
		what += ", at " + at
	}
	return what
}

// Await waits for the outcome: until ended is closed, which ends the context of the step,
// and the grace period is over, or until a time is over, when it calls cancel, and again
// the grace period. It returns false if the step has not returned then.
func (c *Call) Await(ended <-chan struct{}, cancel context.CancelCauseFunc) (Outcome, bool) {
	var expired <-chan time.Time
	start := time.Now()
	c.active.Store(start.UnixNano())
	if first := c.next(0, 0); first > 0 {
		expired = c.Timer.start(first)
		defer c.Timer.timer.Stop()
	}
	for {
		select {
		case o := <-c.Done:
			return o, true
		case <-ended:
			return c.grace()
		case <-expired:
			running, idle := time.Since(start), time.Since(time.Unix(0, c.active.Load()))
			switch {
			case c.Timeout > 0 && running >= c.Timeout:
				cancel(&timeoutError{fmt.Sprintf("timed out after %v", c.Timeout), courier.ReasonTimeout})
				return c.grace()
			case c.Stall > 0 && idle >= c.Stall:
				cancel(&timeoutError{fmt.Sprintf("stalled: no progress for %v", c.Stall), courier.ReasonStalled})
				return c.grace()
			default:
				c.Timer.timer.Reset(c.next(running, idle))
			}
		}
	}
}

// next is the time until one of the timeouts can fire; 0 if there is none.
func (c *Call) next(running, idle time.Duration) time.Duration {
	switch {
	case c.Timeout <= 0 && c.Stall <= 0:
		return 0
	case c.Stall <= 0:
		return max(1, c.Timeout-running)
	case c.Timeout <= 0:
		return max(1, c.Stall-idle)
	}
	return max(1, min(c.Timeout-running, c.Stall-idle))
}

// grace waits for a step whose context has ended.
func (c *Call) grace() (Outcome, bool) {
	expired := c.Timer.start(c.Grace)
	defer c.Timer.timer.Stop()
	select {
	case o := <-c.Done:
		return o, true
	case <-expired:
		return Outcome{}, false
	}
}

// A timeoutError is the cause with which a timeout ends a step's context.
type timeoutError struct {
	text   string
	reason courier.Reason
}

func (e *timeoutError) Error() string { return e.text }

// Is reports whether target is [courier.ErrTimeout].
func (e *timeoutError) Is(target error) bool { return target == courier.ErrTimeout }
