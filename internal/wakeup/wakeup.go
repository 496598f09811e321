// Package wakeup lets goroutines sleep, and wakes them by channels that have room for one value.
package wakeup

import (
	"context"
	"time"
)

// Sleep returns nil after d, or the cause when ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Send sends to c, which has room for one value, unless a value is there already.
func Send(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Taken receives a value that is there, and reports whether there was one.
func Taken[T any](c <-chan T) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
