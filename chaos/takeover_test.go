package chaos

import (
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgtest"
)

// promised is within which time another worker takes over, at the default
// settings.
const promised = 20 * time.Second

// At the default settings, a worker is killed soon after it has claimed; the
// other one, which had nothing to do, takes over in time.
func TestTakeover(t *testing.T) {
	t.Parallel()
	rounds(t, 1, 1, func(t *testing.T, _ int) {
		w := newWorld(t, pgtest.URL(t), nil)
		workers := []*process{w.spawn(orders{}), w.spawn(orders{})}
		time.Sleep(time.Second) // both have looked for work and found none
		id := w.enqueue("long", courier.EnqueueOptions{})
		var victim *process
		w.until("one of them works", func() bool {
			for _, p := range workers {
				if w.working(p) {
					victim = p
				}
			}
			return victim != nil
		})
		w.kill(victim)
		killed := time.Now()
		w.until("it is completed", func() bool {
			x, err := w.store.Execution(t.Context(), id)
			return err == nil && x.State == courier.Completed
		})
		took := time.Since(killed)
		w.settle()
		r, c := w.check()
		t.Logf("taken over and finished %v after the worker was killed: %v", took.Round(time.Millisecond), r)
		if took > promised || r.lost != 1 {
			t.Errorf("%v after the worker was killed, not within %v; %d attempts were lost", took, promised, r.lost)
		}
		for _, e := range c.audits[id] {
			t.Logf("%v %s > %s %s %s", e.At.Sub(killed).Round(time.Millisecond), e.From, e.To, e.Worker, e.Reason)
		}
	})
}
