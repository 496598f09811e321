// Package bandwidth keeps transfers below a number of bytes per second.
package bandwidth

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/courierhq/courier/internal/wakeup"
)

// A Limiter keeps the transfers of one step below a number of bytes per
// second. A nil Limiter lets everything through.
type Limiter struct {
	rate float64 // bytes per second
	mu   sync.Mutex
	free time.Time // when the bytes so far have had their time
}

// minRate is the lowest limit, in bytes per second. With less, a single packet
// would take longer than a step may go without progress.
const minRate = 1024

// New returns a limiter of so many bytes per second; nil for 0.
func New(rate int64) *Limiter {
	if rate == 0 {
		return nil
	}
	return &Limiter{rate: float64(rate)}
}

// CheckRate reports what is wrong with a value of bandwidth_limit.
func CheckRate(rate int64) error {
	if rate != 0 && rate < minRate {
		return fmt.Errorf("bandwidth_limit: %d is too low; it is in bytes per second, at least %d, or 0 for no limit", rate, minRate)
	}
	return nil
}

// Chunk returns how much data to move at once, limit at most, so that none
// of it takes longer than half a second.
func (l *Limiter) Chunk(limit int) int {
	const least = 512
	if l == nil {
		return limit
	}
	return max(least, min(limit, int(min(l.rate/4, float64(limit)))))
}

// Wait returns when n more bytes may be moved.
func (l *Limiter) Wait(ctx context.Context, n int) error {
	if l == nil || n == 0 {
		return nil
	}
	l.mu.Lock()
	now := time.Now()
	if l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(float64(n) / l.rate * float64(time.Second)))
	delay := l.free.Sub(now)
	l.mu.Unlock()
	if delay <= 0 {
		return nil
	}
	return wakeup.Sleep(ctx, delay)
}

// Reader returns a reader of r that keeps to the limit.
func (l *Limiter) Reader(ctx context.Context, r io.Reader) io.Reader {
	if l == nil {
		return r
	}
	return &limited{ctx, l, r}
}

type limited struct {
	ctx context.Context
	l   *Limiter
	r   io.Reader
}

// Read waits after it has read, so that the content keeps to the limit whatever
// the size of the pieces in which it comes.
func (r *limited) Read(p []byte) (int, error) {
	n, err := r.r.Read(p[:min(len(p), r.l.Chunk(len(p)))])
	if e := r.l.Wait(r.ctx, n); e != nil {
		return n, e
	}
	return n, err
}
