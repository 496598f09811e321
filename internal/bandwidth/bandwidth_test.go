package bandwidth

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/internal/parallel"
)

// TestLimiter lets several transfers together have so many bytes per second, in
// pieces that don't take long.
func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(10_000)
		if n := l.Chunk(1 << 20); n != 2500 {
			t.Errorf("a piece has %d bytes", n)
		}
		began := time.Now()
		err := parallel.Do(t.Context(), 4, 4, func(ctx context.Context, _ int) error {
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
	if New(0).Chunk(99) != 99 || New(0).Wait(t.Context(), 1<<40) != nil {
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
