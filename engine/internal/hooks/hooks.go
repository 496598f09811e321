package hooks

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"
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

// WithValues is a context that has the values of another one.
type WithValues struct {
	context.Context
	Values context.Context
}

// Value returns the value of the other context.
func (c WithValues) Value(key any) any { return c.Values.Value(key) }
