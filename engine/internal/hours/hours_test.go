package hours_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/hours"
	"github.com/courierhq/courier/internal/test/lockedbuffer"
	"github.com/courierhq/courier/store"
)

// A counter is a store that counts how often it is asked to count, and how often it has.
type counter struct {
	store.Store
	asked int
	last  time.Time
	calls map[time.Time]int // by minute
	err   error
}

func (*counter) Hours(context.Context, int) ([]store.HourFigures, error) { return nil, nil }
func (c *counter) CountHours(_ context.Context, age time.Duration) error {
	if c.asked++; !c.last.IsZero() && time.Since(c.last) < age {
		return nil
	}
	c.calls[time.Now().Truncate(time.Minute)]++
	c.last = time.Now()
	return c.err
}

// start runs the services of some engines for a time.
func start(s store.Store, log *slog.Logger, names []string, lasts time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	stop, ended := make(chan struct{}), make(chan struct{})
	for _, name := range names {
		go func() {
			hours.New(core.Roles{Store: s, Behind: s}, log, name).Run(core.Lifetime{Base: ctx, Ctx: ctx, Stop: stop})
			ended <- struct{}{}
		}()
	}
	time.Sleep(lasts)
	close(stop)
	cancel()
	for range names {
		<-ended
	}
}

// TestOneCounts: each engine asks in each minute, and one counts, whichever is gone.
func TestOneCounts(t *testing.T) {
	for name, engines := range map[string][]string{"two run": {"a", "b"}, "one is gone": {"a"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &counter{calls: make(map[time.Time]int)}
				start(s, slog.New(slog.DiscardHandler), engines, time.Hour+30*time.Second)
				if len(s.calls) != 60 || s.asked != 60*len(engines) {
					t.Errorf("it was counted in %d minutes of an hour, and asked for %d times", len(s.calls), s.asked)
				}
				for at, n := range s.calls {
					if n != 1 {
						t.Errorf("%d calls in the minute %v", n, at)
					}
				}
			})
		})
	}
}

// TestFailure: what fails is tried again in the next minute, and is in the log once.
func TestFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedbuffer.Buffer
		s := &counter{calls: make(map[time.Time]int), err: errors.New("no space")}
		start(s, slog.New(slog.NewTextHandler(&log, nil)), []string{"a"}, 10*time.Minute+30*time.Second)
		if text := log.String(); len(s.calls) != 10 || strings.Count(text, "no space") != 1 {
			t.Errorf("%d calls: %s", len(s.calls), text)
		}
	})
	synctest.Test(t, func(t *testing.T) { // a store without the role
		start(struct{ store.Store }{}, slog.New(slog.DiscardHandler), []string{"a"}, time.Hour)
	})
}
