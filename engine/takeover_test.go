package engine_test

import (
	"errors"
	"fmt"
	"slices"
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
	"github.com/courierhq/courier/store/storewrap"
)

// killable is a store as a worker sees it that can be killed: afterwards none of
// its calls is carried out.
func killable(s store.Store) (store.Store, *atomic.Bool) {
	dead := new(atomic.Bool)
	return storewrap.Intercept(s, func(c ctx, call *storewrap.Call, do func(ctx) error) error {
		if dead.Load() {
			<-c.Done()
			return c.Err()
		}
		if call.Method == "Await" || call.Method == "AwaitSchedules" {
			return do(c)
		}
		time.Sleep(3 * time.Millisecond)
		if dead.Load() {
			return errors.New("killed")
		}
		return do(c)
	}), dead
}

// TestTakeoverWithin20Seconds kills a worker at many instants of its life, with
// another that was started at many others, and looks how long the execution
// stands still.
func TestTakeoverWithin20Seconds(t *testing.T) {
	const promised = 20 * time.Second
	dir, worst := t.TempDir(), time.Duration(0)
	for killed := 20 * time.Millisecond; killed < 12*time.Second; killed += 370 * time.Millisecond {
		for _, offset := range []time.Duration{0, 1300 * time.Millisecond, 2600 * time.Millisecond, 3900 * time.Millisecond} {
			couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
				var mu sync.Mutex
				var began []time.Time
				h.Stub("demo.a", func(c ctx, _ *courier.Context, _ map[string]any) (map[string]any, error) {
					mu.Lock()
					began = append(began, time.Now())
					mu.Unlock()
					select {
					case <-time.After(30 * time.Second):
						return nil, nil
					case <-c.Done():
						return nil, contextCause(c)
					}
				})
				s, dead := killable(h.Store)
				a := engine.New(s, h.Registry, &engine.Options{Workspace: dir, Worker: "a"})
				b := engine.New(h.Store, h.Registry, &engine.Options{Workspace: dir, Worker: "b"})
				if _, err := b.Jobs().Define(t.Context(), h.Job(`{"name": "a", "steps": [{"type": "demo.a"}]}`), nil); err != nil {
					t.Fatal(err)
				}
				x, err := b.Enqueue(t.Context(), "a", nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := a.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Millisecond) // a has it
				time.AfterFunc(killed-10*time.Millisecond, func() { dead.Store(true) })
				time.AfterFunc(offset, func() {
					if err := b.Start(t.Context()); err != nil {
						t.Error(err)
					}
				})
				died := time.Now().Add(killed - 10*time.Millisecond)
				r := h.Wait(x.ID).RequireState(courier.Completed)
				if len(began) != 2 || r.Steps[0].Reason != courier.ReasonWorkerLost || r.Steps[1].Worker != "b" {
					t.Fatalf("killed after %v: the step began at %v; records %+v", killed, began, r.Steps)
				}
				took := began[1].Sub(died)
				if worst = max(worst, took); took > promised {
					t.Errorf("killed after %v, the other started %v after it: taken over after %v", killed, offset, took)
				}
				requireAudit(t, r)
				done, cancel := contextWithCancel(t)
				cancel()
				if err := errors.Join(a.Stop(done), b.Stop(done)); err != nil {
					t.Error(err)
				}
			})
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("the longest took %v", worst)
}

// TestLateWriterIsFenced lets a worker sleep through its lease and then write.
func TestLateWriterIsFenced(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		var late []error
		asleep := storewrap.Intercept(h.Store, func(c ctx, call *storewrap.Call, do func(ctx) error) error {
			if call.Method == "Renew" {
				<-c.Done()
				return c.Err()
			}
			if x, ok := call.Request.(store.Transition); ok && len(x.Ended) > 0 {
				time.Sleep(time.Minute)
				err := do(t.Context()) // whatever the caller has decided meanwhile
				late = append(late, err)
				return err
			}
			return do(c)
		})
		h.Stub("demo.a", func(ctx, *courier.Context, map[string]any) (map[string]any, error) {
			time.Sleep(2 * time.Second)
			return nil, nil
		})
		var events []string
		slow := engine.New(asleep, h.Registry, &engine.Options{Workspace: t.TempDir(), Worker: "slow", Observers: []func(courier.Event){
			func(e courier.Event) { events = append(events, string(e.Type)) },
		}})
		if _, err := slow.Jobs().Define(t.Context(), h.Job(`{"name": "a", "steps": [{"type": "demo.a"}, {"type": "demo.a"}]}`), nil); err != nil {
			t.Fatal(err)
		}
		x, err := slow.Enqueue(t.Context(), "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := slow.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := h.Engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := h.Wait(x.ID).RequireState(courier.Completed).RequireTrace("0 demo.a failed", "0 demo.a#2 completed", "1 demo.a completed")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if len(late) != 1 || !errors.Is(late[0], courier.ErrLeaseLost) {
			t.Errorf("the late writes returned %v", late)
		}
		if got := fmt.Sprint(events); got != "[JobStarted StepStarted JobLost]" {
			t.Errorf("the loser told of %s", got)
		}
		if err := storetest.CheckExecution(t.Context(), h.Store, x.ID); err != nil {
			t.Error(err)
		}
		requireAudit(t, r)
		done, cancel := contextWithCancel(t)
		cancel()
		if err := slow.Stop(done); err != nil {
			t.Error(err)
		}
	})
}

// TestNothingIsClaimedWhileRenewalsFail counts claims in an outage that concerns
// renewals only, and in the minute after it.
func TestNothingIsClaimedWhileRenewalsFail(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		var down atomic.Bool
		var claims, renewals atomic.Int64
		s := storewrap.Intercept(h.Store, func(c ctx, call *storewrap.Call, do func(ctx) error) error {
			switch call.Method {
			case "Renew":
				if renewals.Add(1); down.Load() {
					return errors.New("the network is down")
				}
			case "Claim":
				claims.Add(1)
			}
			return do(c)
		})
		h.Stub("demo.a", func(c ctx, _ *courier.Context, _ map[string]any) (map[string]any, error) {
			<-c.Done()
			return nil, contextCause(c)
		})
		e := engine.New(s, h.Registry, &engine.Options{Workspace: t.TempDir()})
		if _, err := e.Jobs().Define(t.Context(), h.Job(`{"name": "a", "steps": [{"type": "demo.a", "timeout_seconds": 0}]}`), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Enqueue(t.Context(), "a", nil); err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		down.Store(true)
		time.Sleep(5 * time.Second) // the first renewal has failed
		claims.Store(0)
		renewals.Store(0)
		time.Sleep(5 * time.Second)
		if n := renewals.Load(); n < 8 || n > 11 {
			t.Errorf("%d renewals in 5 s; they should be tried every 0.5 s", n)
		}
		time.Sleep(5 * time.Minute)
		if n := claims.Load(); n != 0 {
			t.Errorf("%d claims while no lease could be renewed", n)
		}
		if n := renewals.Load(); n > 200 {
			t.Errorf("%d renewals in 5 min", n)
		}
		down.Store(false)
		time.Sleep(10 * time.Second)
		if claims.Load() == 0 {
			t.Error("no claims after the outage")
		}
		done, cancel := contextWithCancel(t)
		cancel()
		if err := e.Stop(done); err != nil {
			t.Error(err)
		}
	})
}

// TestWhatNoWorkerCanTakeStandsVisibly lets the only worker with the files of
// two executions disappear, one that it was running and one that waits.
func TestWhatNoWorkerCanTakeStandsVisibly(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.write", func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
			w, err := job.Files().Create("kept.txt")
			if err != nil {
				return nil, err
			}
			return nil, w.Commit()
		})
		var waits atomic.Bool
		waits.Store(true)
		h.Stub("demo.wait", func(c ctx, _ *courier.Context, _ map[string]any) (map[string]any, error) {
			if !waits.Load() {
				return nil, nil
			}
			<-c.Done()
			return nil, contextCause(c)
		})
		s, dead := killable(h.Store)
		opt := engine.Options{Workspace: t.TempDir(), WorkspaceID: "tree of the lost", Worker: "lost"}
		lost := engine.New(s, h.Registry, &opt)
		if _, err := lost.Jobs().Define(t.Context(), h.Job(`{"name": "a", "steps": [{"type": "demo.write"}, {"type": "demo.wait"}]}`), nil); err != nil {
			t.Fatal(err)
		}
		var ids [2]courier.ExecutionID
		for i := range ids {
			x, err := lost.Enqueue(t.Context(), "a", nil)
			if err != nil {
				t.Fatal(err)
			}
			ids[i] = x.ID
		}
		if err := lost.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if _, err := lost.Pause(t.Context(), ids[1], courier.By{Actor: "ops"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		dead.Store(true)
		done, cancel := contextWithCancel(t)
		cancel()
		if err := lost.Stop(done); err != nil {
			t.Fatal(err)
		}
		if err := h.Engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		// The second had asked for a pause; its worker is lost, so a resume by the
		// operator puts it into the queue.
		if err := errors.Join(errOf(h.Engine.Pause(t.Context(), ids[1], courier.By{Actor: "ops"})), errOf(h.Engine.Resume(t.Context(), ids[1], &courier.ResumeOptions{By: courier.By{Actor: "ops"}}))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		for i, want := range []string{"lost", "queued"} {
			x, err := h.Engine.Executions().Get(t.Context(), ids[i])
			if err != nil {
				t.Fatal(err)
			}
			if got := x.Status(time.Now()); got != want || x.Workspace != "tree of the lost" || x.Worker != "lost" || x.Queue != courier.DefaultQueue {
				t.Errorf("execution %d: %s, in %q, last with %q, queue %q", i, got, x.Workspace, x.Worker, x.Queue)
			}
		}
		// A worker with that tree comes back.
		waits.Store(false)
		again := opt
		again.Worker = "again"
		back := engine.New(h.Store, h.Registry, &again)
		if err := back.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			requireAudit(t, h.Wait(id).RequireState(courier.Completed))
		}
		if err := back.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}

// An engine that takes an execution over from itself, since it was told that
// its lease is lost, first waits for its own step: nothing may be undone beside
// it.
func TestTakeoverFromItselfWaitsForTheStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := couriertest.New(t, nil)
		rec := &recorder{fail: 1}
		rec.block = func(ctx) {
			time.Sleep(25 * time.Second)
			rec.calls = append(rec.calls, "returned")
		}
		courier.Register(h.Registry, "demo.rec", rec, nil)
		e := engine.New(storewrap.Intercept(h.Store, func(ctx ctx, c *storewrap.Call, do func(ctx) error) error {
			if c.Method == "Renew" {
				return nil // no lease is this engine's any more
			}
			return do(ctx)
		}), h.Registry, &engine.Options{Workspace: t.TempDir(), Grace: time.Minute})
		if _, err := e.Jobs().Define(t.Context(), h.Job(`{"name": "r", "steps": [{"type": "demo.rec"}]}`), nil); err != nil {
			t.Fatal(err)
		}
		timeout := 10 * time.Second
		x, err := e.Enqueue(t.Context(), "r", &courier.EnqueueOptions{Timeout: &timeout})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if x, _ = e.Executions().Get(t.Context(), x.ID); x.State != courier.Running {
			t.Errorf("while its step is at work it is %s", x.State)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if x, _ = e.Executions().Get(t.Context(), x.ID); x.State != courier.Failed {
			t.Errorf("it is %s, want failed by its timeout", x.State)
		}
		if want := []string{"execute", "returned", "rollback"}; !slices.Equal(rec.calls, want) {
			t.Errorf("calls %v, want %v", rec.calls, want)
		}
		if err := e.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
