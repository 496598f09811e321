package storecall_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/storecall"
)

// TestRetry checks which errors of a store end the calls, and which are tried again.
func TestRetry(t *testing.T) {
	broken := errors.New("the connection is broken")
	for _, c := range []struct {
		name    string
		err     error
		awaited bool
		again   bool
	}{
		{"success", nil, false, false},
		{"not found", fmt.Errorf("it: %w", courier.ErrNotFound), false, false},
		{"conflict", courier.ErrConflict, false, false},
		{"lease lost", courier.ErrLeaseLost, false, false},
		{"invalid", courier.ErrInvalid, false, false},
		{"broken", broken, false, true},
		{"broken and awaited", broken, true, true},
		{"lasting", courier.Permanent(broken), false, true}, // its cause may be removed
		{"lasting and awaited", courier.Permanent(broken), true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := storecall.Calls{Parent: t.Context(), Awaited: c.awaited}
				defer calls.End()
				n := 0
				err := storecall.Retry(&calls, func(context.Context) error {
					if n++; n > 1 {
						return nil
					}
					return c.err
				})
				want := c.err
				if c.again {
					want = nil
				}
				if again := n > 1; again != c.again || !errors.Is(err, want) {
					t.Errorf("%d calls, %v", n, err)
				}
			})
		})
	}
}

// TestPauses checks that a store which is away is not asked more often than once a second in
// the long run, and that the end of the parent is the end of it.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, end := context.WithCancelCause(t.Context())
		calls := storecall.Calls{Parent: parent}
		defer calls.End()
		lost := errors.New("the lease is lost")
		time.AfterFunc(time.Minute, func() { end(lost) })
		n, away := 0, errors.New("away")
		err := storecall.Retry(&calls, func(context.Context) error {
			n++
			return away
		})
		if n < 60 || n > 70 || err != away {
			t.Errorf("%d calls in a minute, then %v", n, err)
		}
		if err := storecall.Retry(&calls, func(context.Context) error { n = 0; return nil }); err != lost || n == 0 {
			t.Errorf("after the end of the parent: %v, called %v", err, n == 0)
		}
	})
}

// TestTimeout checks that a call which does not return is given up and made again, with time of
// its own, and that one after another which was quick has all of it.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := storecall.Calls{Parent: t.Context()}
		defer calls.End()
		quick := func(context.Context) error { time.Sleep(storecall.Timeout - time.Second); return nil }
		for range 3 {
			if err := storecall.Retry(&calls, quick); err != nil {
				t.Fatalf("a call of %v: %v", storecall.Timeout-time.Second, err)
			}
		}
		n, began := 0, time.Now()
		err := storecall.Retry(&calls, func(ctx context.Context) error {
			if n++; n > 1 {
				return quick(ctx)
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if took := time.Since(began); err != nil || n != 2 || took < 2*storecall.Timeout-time.Second || took > 2*storecall.Timeout {
			t.Errorf("%d calls in %v, %v", n, took, err)
		}
	})
}
