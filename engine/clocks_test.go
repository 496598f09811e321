package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// A clockwork is two engines on a store whose clock is another than theirs.
type clockwork struct {
	*testing.T
	store  *memstore.Store
	a, b   *engine.Engine
	dead   *atomic.Bool // a is
	begun  atomic.Int64 // executions of demo.work
	failed atomic.Int64 // of demo.fails
}

// newClockwork has a clock of the store that differs from that of the process.
func newClockwork(t *testing.T, differs time.Duration) *clockwork {
	w := &clockwork{T: t, store: memstore.NewAt(time.Now().Add(differs))}
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "demo.work", func(c context.Context, _ *courier.Context, cfg struct {
		Seconds int `json:"seconds"`
	}) (struct{}, error) {
		w.begun.Add(1)
		select {
		case <-time.After(time.Duration(cfg.Seconds) * time.Second):
			return struct{}{}, nil
		case <-c.Done():
			return struct{}{}, context.Cause(c)
		}
	}, nil)
	courier.RegisterFunc(reg, "demo.fails", func(context.Context, *courier.Context, struct{}) (struct{}, error) {
		if w.failed.Add(1) == 1 {
			return struct{}{}, errors.New("once")
		}
		return struct{}{}, nil
	}, nil)
	dir := t.TempDir()
	s, dead := killable(w.store)
	w.dead = dead
	w.a = engine.New(s, reg, &engine.Options{Workspace: dir, Worker: "a"})
	w.b = engine.New(w.store, reg, &engine.Options{Workspace: dir, Worker: "b"})
	work := courier.StepSpec{Type: "demo.work", Config: map[string]any{"seconds": 5}}
	long := courier.StepSpec{Type: "demo.work", Config: map[string]any{"seconds": 60}}
	base := 10 * time.Second
	fails := courier.StepSpec{Type: "demo.fails", FailurePolicy: courier.FailurePolicy{Type: courier.RetryStep, BackoffBase: &base, Jitter: courier.JitterNone}}
	for name, steps := range map[string][]courier.StepSpec{"one": {work}, "long": {long}, "fails": {fails}, "tick": {{Type: "demo.work"}}} {
		job := courier.Job{Name: name, Steps: steps}
		if name == "one" {
			job.Limit = 1
		}
		if _, err := w.b.Jobs().Define(t.Context(), job, nil); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *clockwork) start(e *engine.Engine) {
	w.Helper()
	if err := e.Start(w.Context()); err != nil {
		w.Fatal(err)
	}
}

// took enqueues executions of a job and returns how long it takes until all have completed.
func (w *clockwork) took(job string, n int) time.Duration {
	w.Helper()
	began := time.Now()
	var ids []courier.ExecutionID
	for range n {
		x, err := w.b.Enqueue(w.Context(), job, nil)
		if err != nil {
			w.Fatal(err)
		}
		ids = append(ids, x.ID)
	}
	for _, id := range ids {
		if x, err := w.b.Wait(w.Context(), id); err != nil || x.State != courier.Completed {
			w.Errorf("%s is %s, %v", job, x.State, err)
		}
	}
	return time.Since(began)
}

// TestClocksThatDisagree has a worker whose clock is wrong by hours: leases, takeovers,
// backoffs, schedules, limits and expiry take the time that they should.
func TestClocksThatDisagree(t *testing.T) {
	for _, differs := range []time.Duration{-30 * time.Hour, 30 * time.Hour} {
		t.Run(differs.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newClockwork(t, differs)
				w.start(w.a)
				if w.start(w.b); w.took("long", 1) > 62*time.Second || w.begun.Load() != 1 {
					t.Errorf("a step of a minute was begun %d times", w.begun.Load())
				}
				between(t, "seconds of three executions under a limit of one", int(w.took("one", 3)/time.Second), 15, 18)
				between(t, "seconds with a backoff of ten", int(w.took("fails", 1)/time.Second), 9, 14)

				x, err := w.b.Enqueue(t.Context(), "one", &courier.EnqueueOptions{Hold: true, Expires: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if x, err = w.b.Wait(t.Context(), x.ID); err != nil || x.State != courier.Failed || time.Since(began) > 2*time.Minute || time.Since(began) < time.Minute {
					t.Errorf("it is %s after %v, %v", x.State, time.Since(began), err)
				}

				if _, err := w.b.Schedules().Set(t.Context(), schedule.Schedule{Name: "s", Job: "tick", Every: time.Minute}, courier.By{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10*time.Minute + 30*time.Second)
				list, err := w.b.Executions().List(t.Context(), store.Filter{Jobs: []string{"tick"}})
				if err != nil {
					t.Fatal(err)
				}
				between(t, "ticks of ten minutes", len(list), 10, 11)
				if err := w.b.Schedules().Remove(t.Context(), "s", courier.By{}); err != nil {
					t.Fatal(err)
				}

				// Only a takes the next one, and is lost with it.
				if err := w.b.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
				y, err := w.b.Enqueue(t.Context(), "one", nil)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				w.dead.Store(true)
				lost := time.Now()
				w.start(w.b)
				if y, err = w.b.Wait(t.Context(), y.ID); err != nil || y.State != courier.Completed || y.Worker != "b" && y.Worker != "" {
					t.Errorf("it is %s by %q, %v", y.State, y.Worker, err)
				}
				between(t, "seconds until a lost execution of 5 s has completed", int(time.Since(lost)/time.Second), 5, 25)
				w.b.Stop(t.Context())
				w.a.Stop(context.WithoutCancel(t.Context()))
			})
		})
	}
}

// TestClockOfTheStoreJumps puts the store's clock forward by hours while everything is at
// work: leases end by it, and what they were for completes once; a schedule goes on.
func TestClockOfTheStoreJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newClockwork(t, 0)
		w.start(w.a)
		w.start(w.b)
		if _, err := w.b.Schedules().Set(t.Context(), schedule.Schedule{Name: "s", Job: "tick", Every: time.Minute}, courier.By{}); err != nil {
			t.Fatal(err)
		}
		var ids []courier.ExecutionID
		for i := range 6 {
			x, err := w.b.Enqueue(t.Context(), []string{"long", "one"}[i%2], nil)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, x.ID)
		}
		for range 2 { // three workers in a row that are lost would fail an execution
			time.Sleep(3 * time.Second)
			w.store.Advance(5 * time.Hour)
		}
		for _, id := range ids {
			if x, err := w.b.Wait(t.Context(), id); err != nil || x.State != courier.Completed {
				t.Errorf("%s is %s, %v", x.Job, x.State, x.Failure)
			}
			steps, err := w.b.Executions().Steps(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			done := 0
			for _, s := range steps {
				if s.State == courier.StepCompleted {
					done++
				}
			}
			if done != 1 {
				t.Errorf("%d attempts of %d have completed", done, len(steps))
			}
		}
		before, err := w.b.Executions().List(t.Context(), store.Filter{Jobs: []string{"tick"}, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		after, err := w.b.Executions().List(t.Context(), store.Filter{Jobs: []string{"tick"}, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		between(t, "ticks of five minutes after the jump", len(after)-len(before), 4, 6)
		seen := make(map[string]bool)
		for _, x := range after {
			if seen[x.IdempotencyKey] {
				t.Errorf("the tick %s has two executions", x.IdempotencyKey)
			}
			seen[x.IdempotencyKey] = true
		}
		w.a.Stop(t.Context())
		w.b.Stop(t.Context())
	})
}
