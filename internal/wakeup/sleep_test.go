package wakeup_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/internal/wakeup"
)

// TestSleep checks how long a sleep lasts, and that the end of the context ends it.
func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, why := time.Now(), errors.New("the engine stops")
		if err := wakeup.Sleep(t.Context(), time.Minute); err != nil || time.Since(start) != time.Minute {
			t.Errorf("it took %v, with the error %v", time.Since(start), err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		if err := wakeup.Sleep(ctx, time.Minute); err != why || time.Since(start) != time.Minute+time.Second {
			t.Errorf("it ended after %v, with the error %v", time.Since(start), err)
		}
	})
}
