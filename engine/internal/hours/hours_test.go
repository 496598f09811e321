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

// A counter is a store with workers that counts how often it is asked to count.
type counter struct {
	store.Store
	present []store.Worker
	calls   map[time.Time]int // by minute
	err     error
}

func (c *counter) Workers(context.Context, time.Duration) ([]store.Worker, error) {
	return append([]store.Worker(nil), c.present...), nil
}
func (*counter) Drain(context.Context, string) error                               { return nil }
func (*counter) Stranded(context.Context, time.Duration) ([]store.Stranded, error) { return nil, nil }
func (*counter) Hours(context.Context, int) ([]store.HourFigures, error)           { return nil, nil }
func (c *counter) CountHours(context.Context) error {
	c.calls[time.Now().Truncate(time.Minute)]++
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

// TestTurns: of several engines one counts in each minute. One that is gone does not count, and the
// next minute is another's.
func TestTurns(t *testing.T) {
	for name, gone := range map[string]bool{"both run": false, "one is gone": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &counter{present: []store.Worker{{Name: "a"}, {Name: "b"}, {Name: "c", Draining: true}}, calls: make(map[time.Time]int)}
				names, want := []string{"a", "b"}, 60
				if gone {
					names, want = names[:1], 30
				}
				start(s, slog.New(slog.DiscardHandler), names, time.Hour+30*time.Second)
				if len(s.calls) != want {
					t.Errorf("it was counted in %d minutes of an hour, want %d", len(s.calls), want)
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
		s := &counter{present: []store.Worker{{Name: "a"}}, calls: make(map[time.Time]int), err: errors.New("no space")}
		start(s, slog.New(slog.NewTextHandler(&log, nil)), []string{"a"}, 10*time.Minute+30*time.Second)
		if text := log.String(); len(s.calls) != 10 || strings.Count(text, "no space") != 1 {
			t.Errorf("%d calls: %s", len(s.calls), text)
		}
	})
	synctest.Test(t, func(t *testing.T) { // a store without the role
		start(struct{ store.Store }{}, slog.New(slog.DiscardHandler), []string{"a"}, time.Hour)
	})
}
