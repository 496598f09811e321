package hooks

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/courierhq/courier"
)

// maxCall is how long Call waits.
const maxCall = 5 * time.Second

// Call calls a function of the host in a goroutine of its own, and returns when that has
// returned, or after 5 seconds: its caller must go on even if the function does not
// return. A panic is written to log. What names the function.
func Call(log *slog.Logger, what string, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				log.Error(what+" panicked", "panic", p, "stack", string(debug.Stack()))
			}
		}()
		f()
	}()
	timer := time.NewTimer(maxCall)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		log.Error(what + " does not return")
	}
}

// Around calls around, a function of the host that calls next, and drive once: within next,
// with the values of the context that next was given, or if around does not call next, or
// panics before, all the same. What around panics with is written to log, if it is not a
// panic of drive.
func Around(ctx context.Context, x courier.Execution, log *slog.Logger, around func(ctx context.Context, x *courier.Execution, next func(context.Context)), drive func(context.Context)) {
	began, ended := false, false
	defer func() {
		p := recover()
		switch {
		case began && !ended && p != nil:
			panic(p) // of the engine itself
		case p != nil:
			log.Error("Options.AroundExecution panicked", "panic", p, "stack", string(debug.Stack()))
		case !began:
			log.Error("Options.AroundExecution did not call next")
		}
		if !began {
			drive(ctx)
		}
	}()
	around(ctx, &x, func(values context.Context) {
		if began {
			return
		}
		began = true
		drive(WithValues{Context: ctx, Values: values})
		ended = true
	})
}

// WithValues is a context that has the values of another one.
type WithValues struct {
	context.Context
	Values context.Context
}

// Value returns the value of the other context.
func (c WithValues) Value(key any) any { return c.Values.Value(key) }
