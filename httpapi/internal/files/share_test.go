package files

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestSharesOfInputs counts what executions hold every few seconds, and adds what has come
// since. Uploads that ended without an execution do not count.
func TestSharesOfInputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held, counts := int64(50), 0
		s := &Shares{MaxUploads: 2, MaxPending: 1000, MaxInputs: 100, Inputs: func(context.Context, string) (int64, error) {
			counts++
			return held, nil
		}}
		send := func(n int64, kept bool) error {
			t.Helper()
			u, err := s.Begin(t.Context(), "ann")
			if err != nil {
				return err
			}
			defer u.End(kept)
			return u.add(n)
		}
		full := func(err error) bool {
			e, ok := errors.AsType[*Error](err)
			return ok && e.Kind == Full
		}
		if err := send(51, false); !full(err) {
			t.Errorf("beyond the limit: %v", err)
		}
		if err := errors.Join(send(50, false), send(30, true), send(20, true)); err != nil || counts != 1 {
			t.Errorf("within the limit: %v, %d counts", err, counts)
		}
		if err := send(1, true); !full(err) {
			t.Errorf("with what has come since: %v", err)
		}
		if err := send(0, true); !full(err) {
			t.Errorf("of empty files: %v", err)
		}
		time.Sleep(inputsLast)
		held = 0
		if err := send(100, true); err != nil || counts != 2 {
			t.Errorf("after another count: %v, %d counts", err, counts)
		}
		time.Sleep(inputsLast)
		if _, err := s.Begin(t.Context(), "ben"); err != nil || len(s.all) != 1 {
			t.Errorf("%v, %d principals are remembered", err, len(s.all))
		}
		boom := errors.New("boom")
		s.Inputs = func(context.Context, string) (int64, error) { return 0, boom }
		if _, err := s.Begin(t.Context(), "ann"); !errors.Is(err, boom) {
			t.Errorf("without a count: %v", err)
		}
	})
}
