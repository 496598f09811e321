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
	"github.com/courierhq/courier/store/storetest"
)

// A stop that meets a free slot claims no more: which of the two the engine
// sees first must not matter.
func TestStopClaimsNoMore(t *testing.T) {
	for range 50 {
		couriertest.Virtual(t, func(t *testing.T, h *couriertest.Harness) {
			var claims atomic.Int64
			e := engine.New(storetest.Intercept(h.Store, func(ctx context.Context, c *storetest.Call, do func(context.Context) error) error {
				if c.Method == "Claim" && claims.Add(1) == 1 {
					time.Sleep(time.Second)
				}
				return do(ctx)
			}), h.Registry, &engine.Options{Workspace: t.TempDir()})
			if err := e.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // the first claim is under way
			if err := e.SetLimit(t.Context(), "global", 3); err != nil {
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
	couriertest.Virtual(t, func(t *testing.T, h *couriertest.Harness) {
		var claims atomic.Int64
		e := engine.New(storetest.Intercept(h.Store, func(ctx context.Context, c *storetest.Call, do func(context.Context) error) error {
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
		job, err := e.Define(t.Context(), h.Job(`{"name": "second", "steps": [{"type": "demo.second"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		for range 60 {
			if _, err := e.Enqueue(t.Context(), job.Name, nil); err != nil {
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
		_, err := h.Engine.Define(t.Context(), h.Job(`{"name": "stuck", "failure_policy": {"type": "retry_step", "max_retries": 1, "backoff_base_seconds": 1},
			"steps": [{"type": "demo.stuck", "timeout_seconds": 1}]}`))
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
		if x, err = h.Engine.Execution(t.Context(), x.ID); err != nil || x.State != courier.Queued {
			t.Errorf("it is %s, %v; want it queued while two attempts keep both slots", x.State, err)
		}
		close(release)
		synctest.Wait()
		if err := h.Engine.Cancel(t.Context(), x.ID, "test"); err != nil {
			t.Error(err)
		}
	})
}

// A stop during the last step leaves nothing to hand over.
func TestStopDuringTheLastStepCompletes(t *testing.T) {
	couriertest.Virtual(t, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.last", func(context.Context, *courier.Context, map[string]any) (map[string]any, error) {
			time.Sleep(time.Second)
			return nil, nil
		})
		_, err := h.Engine.Define(t.Context(), h.Job(`{"name": "one", "steps": [{"type": "demo.last"}]}`))
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
		if x, err = h.Engine.Execution(t.Context(), x.ID); err != nil || x.State != courier.Completed {
			t.Errorf("it is %s at %+v, %v; want it completed", x.State, x.Position, err)
		}
	})
}

// TestStartAndStopAtOnce starts and stops an engine from several goroutines:
// when Stop has returned and nobody starts it again, it claims nothing.
func TestStartAndStopAtOnce(t *testing.T) {
	couriertest.Virtual(t, func(t *testing.T, h *couriertest.Harness) {
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
		if _, err := e.Define(t.Context(), h.Job(`{"name": "a", "steps": [{"type": "demo.a"}]}`)); err != nil {
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
