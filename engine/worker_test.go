package engine_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storewrap"
)

// A stop that meets a free slot claims no more: which of the two the engine
// sees first must not matter.
func TestStopClaimsNoMore(t *testing.T) {
	for range 50 {
		couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
			var claims atomic.Int64
			e := engine.New(storewrap.Intercept(h.Store, func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
				if c.Method == "Claim" && claims.Add(1) == 1 {
					time.Sleep(time.Second)
				}
				return do(ctx)
			}), h.Registry, &engine.Options{Workspace: t.TempDir()})
			if err := e.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // the first claim is under way
			if err := e.Limits().Set(t.Context(), "global", 3, courier.By{}); err != nil {
				t.Fatal(err)
			}
			if err := e.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := claims.Load(); n != 1 {
				t.Fatalf("%d claims, want just the one that was under way", n)
			}
		})
	}
}

// Slots that become free together are filled by one claim.
func TestSlotsAreFilledTogether(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		var claims atomic.Int64
		e := engine.New(storewrap.Intercept(h.Store, func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
			if c.Method == "Claim" {
				claims.Add(1)
			}
			return do(ctx)
		}), h.Registry, &engine.Options{Workspace: t.TempDir(), Slots: 20})
		courier.RegisterFunc(h.Registry, "demo.second", func(ctx context.Context, _ *courier.Context, _ struct{}) (struct{}, error) {
			time.Sleep(time.Second)
			return struct{}{}, nil
		}, nil)
		if err := errors.Join(h.Store.Set(t.Context(), store.LimitSetting(""), "0"), e.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
		job, err := e.Jobs().Define(t.Context(), h.Job(`{"name": "second", "steps": [{"type": "demo.second"}]}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 60 {
			if _, err := e.Enqueue(t.Context(), job.Job.Name, nil); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(500 * time.Millisecond)
		before := claims.Load()
		time.Sleep(time.Second) // 20 end at once, and 20 begin
		if n := claims.Load() - before; n > 2 {
			t.Errorf("%d claims for 20 slots that became free together, want one, and one more for the news of it", n)
		}
		if err := e.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// Each abandoned attempt keeps a slot, also several of one execution.
func TestEveryAbandonedAttemptKeepsASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := couriertest.New(t, &engine.Options{Slots: 2})
		release := make(chan struct{})
		courier.RegisterFunc(h.Registry, "demo.stuck", func(context.Context, *courier.Context, struct{}) (struct{}, error) {
			<-release
			return struct{}{}, nil
		}, nil)
		if err := h.Engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err := h.Engine.Jobs().Define(t.Context(), h.Job(`{"name": "stuck", "failure_policy": {"type": "retry_step", "max_retries": 1, "backoff_base_seconds": 1},
			"steps": [{"type": "demo.stuck", "timeout_seconds": 1}]}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		x, err := h.Engine.Enqueue(t.Context(), "stuck", nil)
		if err != nil {
			t.Fatal(err)
		}
		if r := h.Wait(x.ID); r.Execution.State != courier.Failed {
			t.Fatalf("it is %s, want failed after two attempts that did not return", r.Execution.State)
		}
		if x, err = h.Engine.Enqueue(t.Context(), "stuck", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if x, err = h.Engine.Executions().Get(t.Context(), x.ID); err != nil || x.State != courier.Queued {
			t.Errorf("it is %s, %v; want it queued while two attempts keep both slots", x.State, err)
		}
		// Before a slot is free: the execution could end first.
		if _, err := h.Engine.Cancel(t.Context(), x.ID, &courier.CancelOptions{By: courier.By{Actor: "test"}}); err != nil {
			t.Error(err)
		}
		close(release)
		synctest.Wait()
	})
}

// A stop during the last step leaves nothing to hand over.
func TestStopDuringTheLastStepCompletes(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.last", func(context.Context, *courier.Context, map[string]any) (map[string]any, error) {
			time.Sleep(time.Second)
			return nil, nil
		})
		_, err := h.Engine.Jobs().Define(t.Context(), h.Job(`{"name": "one", "steps": [{"type": "demo.last"}]}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		x, err := h.Engine.Enqueue(t.Context(), "one", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := h.Engine.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if x, err = h.Engine.Executions().Get(t.Context(), x.ID); err != nil || x.State != courier.Completed {
			t.Errorf("it is %s at %+v, %v; want it completed", x.State, x.Position, err)
		}
	})
}

// TestStartAndStopAtOnce starts and stops an engine from several goroutines:
// when Stop has returned and nobody starts it again, it claims nothing.
func TestStartAndStopAtOnce(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		a := h.Stub("demo.a", nil)
		e := another(t, h, h.Store, t.TempDir())
		for range 300 {
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() { e.Start(t.Context()) })
				wg.Go(func() { e.Stop(t.Context()) })
			}
			wg.Wait()
			if err := e.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := e.Jobs().Define(t.Context(), h.Job(`{"name": "a", "steps": [{"type": "demo.a"}]}`), nil); err != nil {
			t.Fatal(err)
		}
		x, err := e.Enqueue(t.Context(), "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if len(a.Calls()) != 0 {
			t.Error("an engine that has stopped executes")
		}
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.Wait(x.ID).RequireState(courier.Completed)
	})
}

// An execution whose last write is under way keeps no slot, so that the next is
// claimed meanwhile; but where writes take long, no more pile up than there are
// slots.
func TestTheLastWriteKeepsNoSlot(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		const slots = 2
		var begun, executing, most atomic.Int64
		courier.RegisterFunc(h.Registry, "demo.count", func(context.Context, *courier.Context, struct{}) (struct{}, error) {
			begun.Add(1)
			most.Store(max(most.Load(), executing.Add(1)))
			time.Sleep(100 * time.Millisecond)
			executing.Add(-1)
			return struct{}{}, nil
		}, nil)
		e := engine.New(storewrap.Intercept(h.Store, func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
			if tr, ok := c.Request.(store.Transition); ok && tr.To == courier.Completed {
				time.Sleep(time.Second)
			}
			return do(ctx)
		}), h.Registry, &engine.Options{Workspace: t.TempDir(), Slots: slots})
		if err := errors.Join(h.Store.Set(t.Context(), store.LimitSetting(""), "0"), e.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
		defer e.Stop(context.WithoutCancel(t.Context()))
		job, err := e.Jobs().Define(t.Context(), h.Job(`{"name": "count", "steps": [{"type": "demo.count"}]}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		var last courier.Execution
		for range 6 {
			if last, err = e.Enqueue(t.Context(), job.Job.Name, nil); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(900 * time.Millisecond)
		if n := begun.Load(); n != 2*slots {
			t.Errorf("%d steps have begun while the first executions are being completed, want %d", n, 2*slots)
		}
		if last, err = e.Wait(t.Context(), last.ID); err != nil || last.State != courier.Completed || begun.Load() != 6 {
			t.Errorf("the last is %s after %d steps, %v", last.State, begun.Load(), err)
		}
		if most.Load() > slots {
			t.Errorf("%d steps were executed at once, with %d slots", most.Load(), slots)
		}
	})
}

// The end of a step that its claim has started leaves the instant of the start to
// the store, as that of any other step does.
func TestStartedByTheClaim(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		var ended []courier.StepExecution
		e := engine.New(storewrap.Intercept(storewrap.NewEager(h.Store), func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
			if tr, ok := c.Request.(store.Transition); ok {
				ended = append(ended, tr.Ended...)
			}
			return do(ctx)
		}), h.Registry, &engine.Options{Workspace: t.TempDir()})
		h.Stub("demo.a", func(context.Context, *courier.Context, map[string]any) (map[string]any, error) { return nil, nil })
		x, err := e.Run(t.Context(), h.Job(`{"name": "a", "steps": [{"type": "demo.a"}, {"type": "demo.a"}]}`), nil)
		if err != nil || x.State != courier.Completed || len(ended) != 2 {
			t.Fatalf("it is %s with %d ended steps, %v", x.State, len(ended), err)
		}
		for _, s := range ended {
			if !s.StartedAt.IsZero() {
				t.Errorf("the end of step %d says that it started at %v", s.Step, s.StartedAt)
			}
		}
	})
}

// TestWorkerIsDraining stops an engine while a step of it is still running. It is shown as
// draining at once, although it goes on with the step, and as present when it has started
// again.
func TestWorkerIsDraining(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.a", func(context.Context, *courier.Context, map[string]any) (map[string]any, error) {
			time.Sleep(10 * time.Second)
			return nil, nil
		})
		e := engine.New(h.Store, h.Registry, &engine.Options{Workspace: t.TempDir(), Worker: "w", Slots: 7})
		shown := func(draining bool, started time.Time) {
			t.Helper()
			list, err := e.Workers(t.Context())
			if err != nil || len(list) != 1 || list[0].Draining != draining || list[0].Slots != 7 || !list[0].StartedAt.Equal(started) {
				t.Errorf("workers %+v, %v; want one, draining: %t, started at %v", list, err, draining, started)
			}
		}
		start := func() time.Time {
			if err := e.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			enqueueIn(t, h, e, "job", "demo.a", courier.DefaultQueue)
			time.Sleep(time.Second)
			return began
		}
		first := start()
		shown(false, first)
		stopped := make(chan error)
		go func() { stopped <- e.Stop(t.Context()) }()
		time.Sleep(time.Second)
		shown(true, first)
		if err := <-stopped; err != nil {
			t.Fatal(err)
		}
		shown(true, first)
		second := start()
		shown(false, second)
		if err := e.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
