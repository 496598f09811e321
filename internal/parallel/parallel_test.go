package parallel

import (
	"context"
	"errors"
	"testing"
)

// TestParallelEnds starts nothing after the first error, and ends the rest with
// a cause.
func TestParallelEnds(t *testing.T) {
	bad := errors.New("bad")
	causes := make(chan error, 2)
	err := Do(t.Context(), 100, 3, func(ctx context.Context, i int) error {
		switch {
		case i == 2:
			return bad
		case i > 2:
			t.Errorf("%d was started", i)
		}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	})
	if err != bad || <-causes != errOther || <-causes != errOther {
		t.Errorf("%v", err)
	}
}
