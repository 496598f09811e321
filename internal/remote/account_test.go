package remote_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
)

// TestTestOnce: of all who test a connection one does, the others get what it
// came to.
func TestTestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := courier.NewContext(courier.ContextConfig{})
		defer job.Close()
		broken := errors.New("broken")
		calls := make(map[string]int)
		test := func(ctx context.Context, key string, passes bool) error {
			return remote.TestOnce(ctx, job, key, func(first bool) (bool, error) {
				calls[key]++
				if time.Sleep(time.Second); first && !passes {
					return false, broken
				}
				if first {
					return true, nil
				}
				return false, errors.New("the path is wrong")
			})
		}
		done := make(chan error, 3)
		begun := time.Now()
		for range 3 {
			go func() { done <- test(t.Context(), "bad", false) }()
		}
		for range 3 {
			if err := <-done; err != broken {
				t.Errorf("%v", err)
			}
		}
		if calls["bad"] != 1 || time.Since(begun) != time.Second {
			t.Errorf("%d calls in %v", calls["bad"], time.Since(begun))
		}
		if err := test(t.Context(), "good", true); err != nil {
			t.Error(err)
		}
		for range 2 { // what comes after the test is each caller's own
			if err := test(t.Context(), "good", true); err == nil || err.Error() != "the path is wrong" {
				t.Errorf("%v", err)
			}
		}
		if calls["good"] != 3 {
			t.Errorf("%d calls", calls["good"])
		}
		go func() { done <- test(t.Context(), "good", true) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := test(ctx, "good", true); !errors.Is(err, context.DeadlineExceeded) || calls["good"] != 4 {
			t.Errorf("a caller who can't wait: %v, %d calls", err, calls["good"])
		}
		<-done
	})
}
