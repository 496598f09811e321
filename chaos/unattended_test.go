package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
)

// unattended are jobs of schedules and chains, besides those that others execute
// too.
var unattended = []pipeline{
	{courier.Job{Name: "tick", Steps: []courier.StepSpec{does(config{"add": 1})}}, []string{"0[]=1"}},
	{courier.Job{Name: follower, Steps: []courier.StepSpec{does(config{"add": 1})}}, []string{"0[]=1"}},
	{
		courier.Job{Name: "chancy", Steps: []courier.StepSpec{
			does(config{"add": 1}), does(config{"in": value(0), "add": 1, "fails": "some"}),
		}},
		[]string{"0[]=1", "1[]=2"},
	},
}

// brisk are the orders of workers that others soon take over from.
var brisk = orders{Lease: 500 * time.Millisecond, Poll: 100 * time.Millisecond, Slots: 6}

// points and spots of what goes on by itself, see [points] and [spots].
var (
	automaticPoints = []string{"due", "fire jobs", "fire chains", "start chain", "ask chain", "member's end", "take", "settle"}
	automaticSpots  = []string{"delivery begins", "delivery ends"}
)

// An automation is what goes on by itself in a world, and what must come of it.
type automation struct {
	chains map[string]chain.Chain

	mu        sync.Mutex
	schedules map[string]*timetable
	started   []courier.ChainExecutionID // that were acknowledged
	cancelled []courier.ChainExecutionID // of which a cancel was
}

// Schedules fire, chains run, and what ends is delivered, while workers are
// killed at random and at named points of all three, and the server is stopped
// once.
func TestUnattended(t *testing.T) {
	t.Parallel()
	rounds(t, *ends, 64, func(t *testing.T, n int) {
		c := pgtest.Start(t, &pgtest.Options{Config: map[string]string{"fsync": "off"}})
		w := newWorld(t, c.URL(""), map[string]int{"": 24})
		w.forgetful, w.orders = true, brisk
		w.automate()
		begun := time.Now()
		stop := w.startAll()
		todo := make(chan plan, n)
		for _, p := range plans(n/2, automaticPoints, automaticSpots) {
			todo <- p
			todo <- plan{}
		}
		close(todo)
		var gone atomic.Int64
		var lanes sync.WaitGroup
		for range 4 {
			lanes.Go(func() {
				for p := range todo {
					if !w.end(p) {
						return
					}
					gone.Add(1)
				}
			})
		}
		w.until("a quarter of them is killed", func() bool { return int(gone.Load()) >= n/4 })
		w.miss("every", 70*time.Second)
		w.until("half of them are killed", func() bool { return int(gone.Load()) >= n/2 })
		c.Stop(t, "immediate")
		c.Begin(t)
		lanes.Wait()
		stop()
		disturbed := time.Since(begun)
		for range 2 {
			w.spawn(brisk)
		}
		w.rest()
		settled := time.Since(begun) - disturbed
		r, e := w.check()
		r.lossy(t)
		t.Logf("%d workers killed in %v, the rest done in %v: %v; %v", gone.Load(),
			disturbed.Round(time.Millisecond), settled.Round(time.Millisecond), r, w.auto.report(e))
		if n >= enough {
			w.auto.forge(t, e)
		}
	})
}

// end lets a worker end itself at a point, or kills it at any time when it has
// begun to work if that is empty, and reports whether it has ended.
func (w *world) end(at plan) bool {
	if at.Point != "" {
		return w.crash(at)
	}
	p := w.spawn(brisk)
	w.begins(p)
	time.Sleep(rand.N(150 * time.Millisecond))
	w.kill(p)
	return !w.Failed()
}

// automate defines the jobs and chains, subscribes to what ends, and sets the
// schedules.
func (w *world) automate() {
	w.Helper()
	w.auto = &automation{chains: make(map[string]chain.Chain), schedules: make(map[string]*timetable)}
	ctx := w.Context()
	for _, p := range unattended {
		if _, err := w.people.Jobs().Define(ctx, p.job, nil); err != nil {
			w.Fatal(err)
		}
	}
	for _, s := range someSubscriptions {
		if _, err := w.people.Subscriptions().Set(ctx, s, courier.By{}); err != nil {
			w.Fatal(err)
		}
	}
	for _, c := range slices.Concat(someChains, []chain.Chain{anyChain("any 1"), anyChain("any 2")}) {
		if _, err := w.people.Chains().Define(ctx, c, nil); err != nil {
			w.Fatal(err)
		}
		w.auto.chains[c.Name] = c
	}
	for _, s := range someSchedules {
		got, err := w.people.Schedules().Set(ctx, s.Schedule, courier.By{})
		if err != nil {
			w.Fatal(err)
		}
		t := s.timetable
		t.first = got.NextFire
		w.auto.schedules[s.Name] = &t
	}
}

// startChain starts a chain, and repeats that until it is acknowledged or the
// test is over.
func (w *world) startChain(name, key string) {
	w.Helper()
	for deadline := time.Now().Add(patience); w.Context().Err() == nil; {
		c, err := w.people.Chains().Start(w.Context(), name, &chain.StartOptions{IdempotencyKey: key})
		if err == nil {
			w.auto.mu.Lock()
			w.auto.started = append(w.auto.started, c.ID)
			w.auto.mu.Unlock()
			return
		}
		if time.Now().After(deadline) {
			w.Errorf("start chain %q: %v", name, err)
			return
		}
	}
}

// openChains returns the chain executions that have not ended.
func (w *world) openChains() ([]chain.Execution, error) {
	return w.people.Chains().Executions(w.Context(), chain.Filter{
		States: []chain.State{chain.Pending, chain.Running, chain.Paused}, Limit: 1000,
	})
}

// startAll lets people start chains and ask something of them, and set schedules
// that fire once, until the returned function is called.
func (w *world) startAll() (stop func()) {
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
			}
			open, err := w.openChains()
			if err != nil {
				continue
			}
			if len(open) < 12 {
				w.startChain([]string{"diamond", "ladder", "mended", "any 1", "any 2"}[rand.IntN(5)], fmt.Sprintf("people-%d", rand.Uint64()))
			}
			w.botherChains(open)
			if i%20 == 0 {
				w.once(fmt.Sprintf("once %d", i))
			}
		}
	})
	stop = sync.OnceFunc(func() {
		close(done)
		group.Wait()
	})
	w.Cleanup(stop)
	return stop
}

// botherChains pauses and cancels a few chains, and takes up those that failed
// and those that are paused. That it is not allowed, or that nobody knows whether
// it was heard, is as it may be.
func (w *world) botherChains(open []chain.Execution) {
	for i := range open {
		switch n := rand.IntN(1000); {
		case n < 1:
			if errOf(w.people.Chains().Cancel(w.Context(), open[i].ID, courier.By{Actor: "somebody"})) == nil {
				w.auto.mu.Lock()
				w.auto.cancelled = append(w.auto.cancelled, open[i].ID)
				w.auto.mu.Unlock()
			}
		case n < 10:
			_, _ = w.people.Chains().Pause(w.Context(), open[i].ID, courier.By{Actor: "somebody"})
		case n < 200 && open[i].Request == courier.RequestPause:
			_, _ = w.people.Chains().Resume(w.Context(), open[i].ID, courier.By{Actor: "somebody"})
		}
	}
	list, err := w.people.Chains().Executions(w.Context(), chain.Filter{Chain: "mended", States: []chain.State{chain.Failed}, Limit: 100})
	if err == nil && len(list) > 1 {
		_, _ = w.people.Chains().Retry(w.Context(), list[rand.IntN(len(list))].ID, courier.By{Actor: "somebody"})
	}
}

// once sets a schedule that fires once, soon.
func (w *world) once(name string) {
	at := time.Now().Add(1500 * time.Millisecond).UTC().Truncate(time.Microsecond)
	_, err := w.people.Schedules().Set(w.Context(), schedule.Schedule{Name: name, Job: "tick", At: at}, courier.By{})
	w.auto.mu.Lock()
	defer w.auto.mu.Unlock()
	w.auto.schedules[name] = &timetable{at: at, perhaps: err != nil}
}

// miss puts a schedule back by a time, as if no engine had been there for so
// long.
func (w *world) miss(name string, by time.Duration) {
	w.Helper()
	for range 100 {
		list, err := w.store.Schedules(w.Context(), schedule.Filter{Name: name})
		if err != nil || len(list.List) != 1 {
			w.Fatalf("schedule %q: %v, %v", name, list, err)
		}
		s := list.List[0]
		s.Next = s.Next.Add(-by)
		s.Due = s.Next
		_, err = w.store.PutSchedule(w.Context(), s)
		if err == nil {
			w.auto.mu.Lock()
			defer w.auto.mu.Unlock()
			w.auto.schedules[name].first = s.Next
			return
		}
		if !errors.Is(err, courier.ErrConflict) {
			w.Fatal(err)
		}
	}
	w.Fatalf("schedule %q has changed all the time", name)
}

// overdue is how long what goes on by itself may take to come to rest.
const overdue = 30 * time.Second

// rest waits until schedules have fired all that is due, and stops them; until
// all that they and people have started has ended; and until that is delivered.
func (w *world) rest() {
	w.Helper()
	w.within(overdue, "the schedules have fired all that is due", func() bool {
		all, err := w.store.Schedules(w.Context(), schedule.Filter{})
		return err == nil && !slices.ContainsFunc(all.List, func(s schedule.Record) bool {
			return !s.Next.IsZero() && (all.Now.Sub(s.Next) > time.Second || w.auto.schedules[s.Name].every == 0)
		})
	})
	for name, t := range w.auto.schedules {
		if t.every == 0 {
			continue
		}
		w.within(overdue, "a schedule is disabled", func() bool {
			s, err := w.people.Schedules().Disable(w.Context(), name, courier.By{Actor: "somebody"})
			t.last = s.LastFire
			return err == nil
		})
	}
	w.within(overdue, "all chains have ended", func() bool {
		open, err := w.openChains()
		for i := range open {
			if open[i].Request == courier.RequestPause {
				_, _ = w.people.Chains().Resume(w.Context(), open[i].ID, courier.By{Actor: "somebody"})
			}
		}
		return err == nil && len(open) == 0
	})
	w.within(overdue, "all events are delivered, and what they have started has ended", func() bool {
		return w.told() && w.idle() && w.told()
	})
}

// told reports whether no event waits for its delivery.
func (w *world) told() bool {
	list, err := w.store.Deliveries(w.Context(), notify.DeliveryFilter{Limit: 1})
	return err == nil && len(list) == 0
}

// idle reports whether no execution is under way.
func (w *world) idle() bool {
	list, err := w.in(courier.Created, courier.Queued, courier.Running, courier.Paused)
	return err == nil && len(list) == 0
}

// errOf is the error of a call whose other result does not matter.
func errOf[T any](_ T, err error) error { return err }
