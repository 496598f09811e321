package transfer_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/internal/transfer"
)

// TestKeepAlive checks how often there are signs of life, that they end after five minutes,
// and that none come afterwards.
func TestKeepAlive(t *testing.T) {
	failed := errors.New("the disk is full")
	for _, c := range []struct {
		lasts time.Duration
		beats int
	}{{0, 0}, {14 * time.Second, 0}, {time.Minute + time.Second, 4}, {time.Hour, 20}} {
		synctest.Test(t, func(t *testing.T) {
			beats := 0
			err := transfer.KeepAlive(func() { beats++ }, func() error {
				time.Sleep(c.lasts)
				return failed
			})
			time.Sleep(time.Minute)
			if beats != c.beats || err != failed {
				t.Errorf("after %v there were %d signs of life, not %d, and the error is %v", c.lasts, beats, c.beats, err)
			}
		})
	}
}
