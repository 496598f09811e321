package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store/storetest"
	"github.com/courierhq/courier/store/storewrap"
)

// A place is a state in which a request finds an execution of placeJob.
type place struct {
	name string
	// reach brings the execution there and returns its id.
	reach func(t *testing.T, h *couriertest.Harness) courier.ExecutionID
	// within is how long a request may take to have its effect.
	within time.Duration
	// pauses says whether a pause is allowed.
	pauses bool
}

// The step waits a minute, or for its context; it fails if the parameter says so.
const placeJob = `{"name": "place", "failure_policy": {"type": "retry_step", "max_retries": 1, "backoff_base_seconds": 600, "backoff_max_seconds": 600},
	"params": {"mode": "waits"}, "steps": [{"type": "flow.foreach", "config": {"source": [1, 2, 3]}}, {"type": "demo.place", "config": {"mode": "context:params.mode"}}, {"type": "flow.end"}]}`

func placeStep(c ctx, _ *courier.Context, cfg map[string]any) (map[string]any, error) {
	switch cfg["mode"] {
	case "fails":
		return nil, errors.New("boom")
	case "fails for good":
		return nil, courier.Permanent(errors.New("boom"))
	}
	select {
	case <-c.Done():
		return nil, contextCause(c)
	case <-time.After(time.Minute):
		return nil, nil
	}
}

// enqueuePlace enqueues placeJob, with a worker at hand or not.
func enqueuePlace(t *testing.T, h *couriertest.Harness, start bool, mode string, opt courier.EnqueueOptions) courier.ExecutionID {
	t.Helper()
	if start {
		if err := h.Engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	opt.Params = m{"mode": mode}
	x, err := h.Engine.Enqueue(t.Context(), "place", &opt)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Second)
	return x.ID
}

var places = []place{
	{"created", func(t *testing.T, h *couriertest.Harness) courier.ExecutionID {
		return enqueuePlace(t, h, true, "waits", courier.EnqueueOptions{Hold: true})
	}, 0, false},
	{"queued", func(t *testing.T, h *couriertest.Harness) courier.ExecutionID {
		return enqueuePlace(t, h, false, "waits", courier.EnqueueOptions{})
	}, 0, true},
	{"scheduled", func(t *testing.T, h *couriertest.Harness) courier.ExecutionID {
		return enqueuePlace(t, h, true, "waits", courier.EnqueueOptions{Delay: time.Hour})
	}, 0, true},
	{"scheduled", func(t *testing.T, h *couriertest.Harness) courier.ExecutionID { // backing off
		return enqueuePlace(t, h, true, "fails", courier.EnqueueOptions{})
	}, 0, true},
	{"running", func(t *testing.T, h *couriertest.Harness) courier.ExecutionID {
		return enqueuePlace(t, h, true, "waits", courier.EnqueueOptions{})
	}, 5 * time.Second, true},
	{"running", func(t *testing.T, h *couriertest.Harness) courier.ExecutionID { // in a later iteration
		id := enqueuePlace(t, h, true, "waits", courier.EnqueueOptions{})
		time.Sleep(time.Minute)
		return id
	}, 5 * time.Second, true},
	{"paused", func(t *testing.T, h *couriertest.Harness) courier.ExecutionID {
		id := enqueuePlace(t, h, false, "waits", courier.EnqueueOptions{})
		if _, err := h.Engine.Pause(t.Context(), id, courier.By{Actor: "ops"}); err != nil {
			t.Fatal(err)
		}
		return id
	}, 0, false},
	{"failed", func(t *testing.T, h *couriertest.Harness) courier.ExecutionID {
		return enqueuePlace(t, h, true, "fails for good", courier.EnqueueOptions{})
	}, 0, false},
	{"lost", func(t *testing.T, h *couriertest.Harness) courier.ExecutionID {
		id := enqueuePlace(t, h, false, "waits", courier.EnqueueOptions{})
		claimDead(t, h, id)
		time.Sleep(16 * time.Second)
		return id
	}, 0, true},
}

// TestRequestsReachEveryState makes requests on another engine than the one
// that works.
func TestRequestsReachEveryState(t *testing.T) {
	for i, p := range places {
		for _, kind := range []courier.RequestKind{courier.RequestCancel, courier.RequestPause} {
			couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
				h.Stub("demo.place", placeStep)
				if _, err := h.Engine.Jobs().Define(t.Context(), h.Job(placeJob), nil); err != nil {
					t.Fatal(err)
				}
				id := p.reach(t, h)
				x, _ := h.Engine.Executions().Get(t.Context(), id)
				if got := x.Status(time.Now()); got != p.name {
					t.Fatalf("place %d: the execution is %s, want %s", i, got, p.name)
				}
				want, within := courier.Cancelled, p.within
				if kind == courier.RequestPause {
					if want = courier.Paused; within > 0 {
						within = time.Minute // the step ends first
					}
				}
				operator := engine.New(h.Store, h.Registry, &engine.Options{Workspace: t.TempDir()})
				_, err := request(operator, kind)(t.Context(), id, courier.By{Actor: "ops"})
				if kind == courier.RequestPause && !p.pauses {
					if _, ok := errors.AsType[*courier.TransitionError](err); !ok {
						t.Errorf("%s %s: %v", kind, p.name, err)
					}
					return
				}
				if err != nil {
					t.Fatalf("%s %s: %v", kind, p.name, err)
				}
				time.Sleep(within)
				synctest.Wait()
				if x, _ = h.Engine.Executions().Get(t.Context(), id); x.State != want {
					t.Errorf("%v after the %s of what was %s it is %s", within, kind, p.name, x.Status(time.Now()))
				}
				if p.name == "lost" { // whoever comes later leaves it alone
					if err := h.Engine.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Hour)
				if x, _ = h.Engine.Executions().Get(t.Context(), id); x.State != want {
					t.Errorf("an hour after the %s of what was %s it is %s", kind, p.name, x.State)
				}
				if err := storetest.CheckExecution(t.Context(), h.Store, id); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestCancelUndoesWhatCameMeanwhile lets the step begin, use the workspace and
// fail while the cancel is on its way to the store.
func TestCancelUndoesWhatCameMeanwhile(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		rec := &recorder{fail: 1}
		courier.Register(h.Registry, "demo.rec", rec, nil)
		dir := t.TempDir()
		opt := engine.Options{Workspace: dir, Around: func(c ctx, job *courier.Context, next func(ctx) error) error {
			w, err := job.Files().Create("left.txt")
			if err != nil {
				return err
			}
			return errors.Join(w.Commit(), next(c))
		}}
		worker := engine.New(h.Store, h.Registry, &opt)
		operator := engine.New(storewrap.Intercept(h.Store, func(c ctx, call *storewrap.Call, do func(ctx) error) error {
			if call.Method == "Request" {
				time.Sleep(10 * time.Second)
			}
			return do(c)
		}), h.Registry, &opt)
		if _, err := worker.Jobs().Define(t.Context(), h.Job(`{"name": "r", "steps": [{"type": "demo.rec"}]}`), nil); err != nil {
			t.Fatal(err)
		}
		x, err := worker.Enqueue(t.Context(), "r", nil)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() {
			if err := worker.Start(t.Context()); err != nil {
				t.Error(err)
			}
		})
		if _, err := operator.Cancel(t.Context(), x.ID, &courier.CancelOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		h.Wait(x.ID).RequireState(courier.Cancelled)
		if want := []string{"execute", "rollback", "rollback cancelled"}; !slices.Equal(rec.calls, want) {
			t.Errorf("calls %v, want %v", rec.calls, want)
		}
		if _, err := os.Stat(filepath.Join(dir, string(x.ID))); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the workspace is still there: %v", err)
		}
		if err := worker.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestCancelWaitsForTheStepThatLostItsLease cancels on the engine whose step
// takes its time to return after the lease was lost.
func TestCancelWaitsForTheStepThatLostItsLease(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		s := &outage{Store: h.Store}
		returned := false
		rec := &recorder{block: func(c ctx) {
			<-c.Done()
			time.Sleep(8 * time.Second)
			returned = true
		}, fail: 1}
		courier.Register(h.Registry, "demo.rec", rec, nil)
		e := engine.New(s, h.Registry, &engine.Options{Workspace: t.TempDir()})
		if _, err := e.Jobs().Define(t.Context(), h.Job(`{"name": "r", "steps": [{"type": "demo.rec"}]}`), nil); err != nil {
			t.Fatal(err)
		}
		x, err := e.Enqueue(t.Context(), "r", nil)
		if err != nil {
			t.Fatal(err)
		}
		s.down.Store(true)
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(16 * time.Second) // the watchdog has fired, the lease has ended
		if _, err := e.Cancel(t.Context(), x.ID, &courier.CancelOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		if want := []string{"execute", "rollback cancelled"}; !returned || !slices.Equal(rec.calls, want) {
			t.Errorf("calls %v, want %v; the step returned before: %v", rec.calls, want, returned)
		}
		s.down.Store(false)
		h.Wait(x.ID).RequireState(courier.Cancelled)
		if err := e.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestCancelOfWhatAnotherTreeHolds cancels on an engine that can't reach the
// files; they are swept by the one that can.
func TestCancelOfWhatAnotherTreeHolds(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		dir := t.TempDir()
		h.Stub("demo.a", func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
			w, err := job.Files().Create("left.txt")
			if err == nil {
				err = w.Commit()
			}
			return nil, errors.Join(err, errors.New("boom"))
		})
		owner := engine.New(h.Store, h.Registry, &engine.Options{Workspace: dir})
		x, _ := owner.Run(t.Context(), h.Job(`{"name": "a", "steps": [{"type": "demo.a"}]}`), nil)
		if _, err := h.Engine.Cancel(t.Context(), x.ID, &courier.CancelOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, string(x.ID))
		if _, err := os.Stat(path); err != nil {
			t.Fatal(err)
		}
		age(t, path, 8*24*time.Hour)
		if err := owner.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the owner has not swept it: %v", err)
		}
		if err := owner.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// age makes a directory look as if nothing had changed in it for so long.
func age(t *testing.T, path string, d time.Duration) {
	t.Helper()
	at := time.Now().Add(-d)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}
