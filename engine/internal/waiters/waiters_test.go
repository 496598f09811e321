package waiters_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/engine/internal/waiters"
)

// TestWake checks that all who wait for an execution are woken once, and nobody else.
func TestWake(t *testing.T) {
	var s waiters.Set
	a, b, other, gone := s.Add("x"), s.Add("x"), s.Add("y"), s.Add("x")
	s.Remove("x", gone)
	s.Wake("x")
	s.Wake("x") // nobody waits any more
	woken := func(c chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	if !woken(a) || !woken(b) || woken(other) || woken(gone) {
		t.Errorf("woken: %v, %v; one who waits for another: %v; one who has left: %v", woken(a), woken(b), woken(other), woken(gone))
	}
	s.Remove("x", a)
}

// TestUntil checks how often somebody who waits looks without being woken, and what ends it.
func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s waiters.Set
		looks := 0
		var over atomic.Bool
		began := time.Now()
		time.AfterFunc(time.Minute+time.Millisecond, func() {
			over.Store(true)
			s.Wake("x")
		})
		err := s.Until(t.Context(), "x", func() (bool, error) {
			looks++
			return over.Load(), nil
		})
		if took := time.Since(began); err != nil || took != time.Minute+time.Millisecond || looks < 60 || looks > 75 {
			t.Errorf("%d looks in %v, %v", looks, took, err)
		}
		broken := errors.New("the store is away")
		if err := s.Until(t.Context(), "x", func() (bool, error) { return false, broken }); err != broken {
			t.Errorf("an error of the look: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Until(ctx, "x", func() (bool, error) { return false, nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the end of its context: %v", err)
		}
	})
}
