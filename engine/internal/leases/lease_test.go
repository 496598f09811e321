package leases_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/leases"
	"github.com/courierhq/courier/store"
)

// granted returns a lease of ten seconds, which is closed when the test ends.
func granted(t *testing.T, stop <-chan struct{}) *leases.Lease {
	l := new(leases.Lease)
	l.Begin(t.Context())
	l.Grant(10*time.Second, time.Now(), stop)
	t.Cleanup(l.Close)
	return l
}

func pending(l *leases.Lease) courier.RequestKind {
	if q := l.Request(); q != nil {
		return q.Request
	}
	return ""
}

// TestLeaseLasts checks how long a lease can be relied on: four fifths of its period after
// the call that granted or renewed it was sent.
func TestLeaseLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := granted(t, nil)
		time.Sleep(7900 * time.Millisecond)
		if !l.Held() {
			t.Fatal("lost after 7.9 s of 10 s")
		}
		l.Renewed(&store.Renewed{}, time.Now().Add(-time.Second))
		time.Sleep(6900 * time.Millisecond)
		if !l.Held() {
			t.Fatal("lost 7.9 s after the renewal was sent")
		}
		time.Sleep(200 * time.Millisecond)
		if l.Held() || context.Cause(l.Steps()) != courier.ErrLeaseLost {
			t.Errorf("held %v, steps end with %v 8.1 s after the renewal was sent", l.Held(), context.Cause(l.Steps()))
		}
		l.Renewed(&store.Renewed{Request: courier.RequestCancel}, time.Now())
		if l.Request() != nil || l.Held() {
			t.Error("a renewal that came too late counts")
		}
	})
}

// TestLeaseLeft checks that a lease which was left to other workers lasts until one has
// the execution, and what becomes of it when it is wanted again.
func TestLeaseLeft(t *testing.T) {
	for _, renewed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			l := granted(t, nil)
			l.Leave()
			time.Sleep(time.Hour)
			if !l.Held() || !l.Left() {
				t.Fatal("it did not last")
			}
			l.Regain(func(context.Context) bool { return renewed })
			if l.Held() != renewed || l.Left() == renewed {
				t.Errorf("renewed %v: held %v, left %v", renewed, l.Held(), l.Left())
			}
			time.Sleep(9 * time.Second)
			if l.Held() {
				t.Error("it lasts without renewals")
			}
		})
	}
}

// TestRequestOrder checks which request counts where several come, in any order.
func TestRequestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := granted(t, nil)
		for _, c := range []struct{ request, want courier.RequestKind }{
			{"", ""},
			{courier.RequestPause, courier.RequestPause},
			{"", ""}, // withdrawn
			{courier.RequestPause, courier.RequestPause},
		} {
			l.SetRequest(&store.Renewed{Request: c.request})
			if pending(l) != c.want || l.Steps().Err() != nil {
				t.Errorf("after %q: %q is pending, steps end with %v", c.request, pending(l), l.Steps().Err())
			}
		}
		l.SetRequest(&store.Renewed{Request: courier.RequestCancel})
		for _, older := range []courier.RequestKind{courier.RequestPause, ""} {
			l.SetRequest(&store.Renewed{Request: older})
		}
		if pending(l) != courier.RequestCancel || context.Cause(l.Steps()) != courier.ErrCancelled || !l.Held() {
			t.Errorf("after a cancel: %q is pending, steps end with %v, held %v", pending(l), context.Cause(l.Steps()), l.Held())
		}
	})
}

// TestDeadline checks that the deadline of an execution ends steps, and not the lease.
func TestDeadline(t *testing.T) {
	for _, remaining := range []time.Duration{3 * time.Second, 0, -time.Second} {
		synctest.Test(t, func(t *testing.T) {
			l := granted(t, nil)
			l.Limit(remaining)
			if remaining > 0 {
				time.Sleep(remaining - time.Millisecond)
				if l.Steps().Err() != nil {
					t.Error("steps have ended before the deadline")
				}
				time.Sleep(2 * time.Millisecond)
			}
			if cause := context.Cause(l.Steps()); cause != leases.ErrTimeout || !errors.Is(cause, courier.ErrTimeout) || !l.Held() {
				t.Errorf("%v: steps end with %v, held %v", remaining, cause, l.Held())
			}
		})
	}
}

// TestRefusedWhileStopping checks that a stop does not wait for a store that refuses all
// writes longer than a lease can be relied on.
func TestRefusedWhileStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		l := granted(t, stop)
		write := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
				l.Refused()
				l.Renewed(&store.Renewed{}, time.Now())
			}
		}
		l.BeginWrite()
		write(time.Minute)
		if !l.Held() || l.Stopping() {
			t.Fatal("given up though nothing stops")
		}
		close(stop)
		write(7 * time.Second)
		l.BeginWrite() // another one
		write(7 * time.Second)
		if !l.Held() || !l.Stopping() || !l.StoppedBy(stop) {
			t.Fatal("given up within the time that a lease can be relied on")
		}
		write(3 * time.Second)
		if l.Held() {
			t.Error("the write goes on")
		}
	})
}
