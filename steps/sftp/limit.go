package sftp

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/courierhq/courier"
)

// A limiter keeps the transfers of one step below a number of bytes per
// second. A nil limiter lets everything through.
type limiter struct {
	rate float64 // bytes per second
	mu   sync.Mutex
	free time.Time // when the bytes so far have had their time
}

// minRate is the lowest limit, in bytes per second. With less, a single packet
// would take longer than a step may go without progress.
const minRate = 1024

func newLimiter(rate int64) *limiter {
	if rate == 0 {
		return nil
	}
	return &limiter{rate: float64(rate)}
}

func checkRate(rate int64) error {
	if rate != 0 && rate < minRate {
		return fmt.Errorf("bandwidth_limit: %d is too low; it is in bytes per second, at least %d, or 0 for no limit", rate, minRate)
	}
	return nil
}

// chunk returns how much data to put into a packet, so that none takes longer
// than a quarter of a second.
func (l *limiter) chunk(most int) int {
	if l == nil {
		return most
	}
	return max(minChunk, min(most, int(min(l.rate/4, maxChunk))))
}

// wait returns when n more bytes may be moved.
func (l *limiter) wait(ctx context.Context, n int) error {
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
	return sleep(ctx, delay)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// waitStable waits for so many seconds, and keeps the stall timeout from firing
// meanwhile.
func waitStable(ctx context.Context, job *courier.Context, seconds int, item string) error {
	left := time.Duration(seconds) * time.Second
	for ; left > 0; left -= beatEvery {
		job.Progress(0, -1, item)
		if err := sleep(ctx, min(left, beatEvery)); err != nil {
			return err
		}
	}
	return nil
}

// maxStable is the longest wait, a day.
const maxStable = 24 * 60 * 60

func checkStable(seconds int) error {
	if seconds < 0 || seconds > maxStable {
		return fmt.Errorf("stable_seconds: %d is out of range; %d at most", seconds, maxStable)
	}
	return nil
}
