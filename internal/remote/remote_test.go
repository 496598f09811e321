package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
)

func TestArchiveNames(t *testing.T) {
	at := time.Date(2026, 5, 6, 7, 8, 9, 123456789, time.FixedZone("east", 3600))
	a := After{Action: AfterArchive, MoveTo: "old"}
	for below, want := range map[string]string{
		"a.csv": "a-20260506T060809.123456Z.csv", "a": "a-20260506T060809.123456Z", "sub/a.tar.gz": "sub/a.tar-20260506T060809.123456Z.gz",
		".hidden": ".hidden-20260506T060809.123456Z", "v1.2/a": "v1.2/a-20260506T060809.123456Z",
	} {
		if got := a.Name(below, at); got != want {
			t.Errorf("%q is archived as %q, want %q", below, got, want)
		}
		if got := (After{Action: AfterMove}).Name(below, at); got != below {
			t.Errorf("%q is moved as %q", below, got)
		}
	}
}

func TestDirectories(t *testing.T) {
	files := []Source{{Below: "b/c/x"}, {Below: "a"}, {Below: "b/y"}, {Below: "d/z"}}
	for base, want := range map[string]string{"": "b b/c d", "in": "in/b in/b/c in/d", "/in/": "/in/b /in/b/c /in/d"} {
		if got := strings.Join(Directories(base, files), " "); got != want {
			t.Errorf("below %q: %q, want %q", base, got, want)
		}
	}
}

// TestReconnecting goes on after losses, so many of them, and after no other
// errors.
func TestReconnecting(t *testing.T) {
	lost, other := &LostError{Err: io.EOF}, errors.New("refused")
	fatal := courier.Permanent(other)
	for _, test := range []struct {
		outcomes []error
		calls    int
		want     []error
	}{
		{[]error{nil}, 1, nil},
		{[]error{lost, lost, lost, nil}, 4, nil},
		{[]error{lost, lost, lost, lost, nil}, 4, []error{lost}},
		{[]error{other, nil}, 1, []error{other}},
		{[]error{lost, other, nil}, 2, []error{lost, other}},
		{[]error{lost, fatal, nil}, 2, []error{fatal}},
	} {
		calls := 0
		job := courier.NewContext(courier.ContextConfig{})
		err := Reconnecting(t.Context(), job, "partner", IsLost, func() error {
			calls++
			if err := test.outcomes[calls-1]; err != nil {
				return fmt.Errorf("transfer: %w", err)
			}
			return nil
		})
		job.Close()
		if calls != test.calls || (err == nil) != (test.want == nil) || slices.ContainsFunc(test.want, func(want error) bool { return !errors.Is(err, want) }) {
			t.Errorf("%v: %v after %d calls, want %v after %d", test.outcomes, err, calls, test.want, test.calls)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	err := Reconnecting(ctx, courier.NewContext(courier.ContextConfig{}), "partner", IsLost, func() error {
		cancel(other)
		return lost
	})
	if err != other {
		t.Errorf("after the end of the context: %v", err)
	}
}

// TestLimiter lets several transfers together have so many bytes per second, in
// pieces that don't take long.
func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(10_000)
		if n := l.Chunk(1 << 20); n != 2500 {
			t.Errorf("a piece has %d bytes", n)
		}
		began := time.Now()
		err := InParallel(t.Context(), 4, 4, func(ctx context.Context, _ int) error {
			n, err := io.Copy(io.Discard, l.Reader(ctx, io.LimitReader(zeros{}, 25_000)))
			if n != 25_000 {
				t.Errorf("%d bytes", n)
			}
			return err
		})
		if took := time.Since(began); err != nil || took < 9900*time.Millisecond || took > 10100*time.Millisecond {
			t.Errorf("100 kB with 10 kB/s took %v, %v", took, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := io.Copy(io.Discard, l.Reader(ctx, zeros{})); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the end of the context: %v", err)
		}
	})
	if NewLimiter(0).Chunk(99) != 99 || NewLimiter(0).Wait(t.Context(), 1<<40) != nil {
		t.Error("no limit limits")
	}
	for rate, ok := range map[int64]bool{0: true, 1024: true, 1023: false, -1: false} {
		if (CheckRate(rate) == nil) != ok {
			t.Errorf("bandwidth_limit %d: %v", rate, CheckRate(rate))
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestParallelEnds starts nothing after the first error, and ends the rest with
// a cause.
func TestParallelEnds(t *testing.T) {
	bad := errors.New("bad")
	causes := make(chan error, 2)
	err := InParallel(t.Context(), 100, 3, func(ctx context.Context, i int) error {
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
