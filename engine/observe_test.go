package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
)

// An eventbook collects events.
type eventbook struct {
	mu   sync.Mutex
	list []string
}

func (l *eventbook) hear(ev courier.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	what := string(ev.Type)
	if ev.Chain != "" {
		what += " " + ev.Chain
	}
	l.list = append(l.list, what)
}

// take returns the events so far that begin with a text, and forgets all.
func (l *eventbook) take(prefix string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := slices.DeleteFunc(l.list, func(s string) bool { return !strings.HasPrefix(s, prefix) })
	l.list = nil
	return list
}

// TestObserveAfterNew adds observers to an engine that runs, and removes them.
func TestObserveAfterNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := couriertest.New(t, nil)
		h.Stub("demo.a", nil)
		h.Start()
		job := courier.Job{Name: "job", Steps: []courier.StepSpec{{Type: "demo.a"}}}
		run := func() {
			t.Helper()
			if _, err := h.Engine.Run(t.Context(), job, nil); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		run()
		var a, b eventbook
		stopA, stopB := h.Engine.Observe(a.hear), h.Engine.Observe(b.hear)
		run()
		want := []string{"JobStarted", "StepStarted", "StepCompleted", "JobCompleted"}
		if x, y := a.take(""), b.take(""); !slices.Equal(x, want) || !slices.Equal(y, want) {
			t.Errorf("events %q and %q, want %q", x, y, want)
		}
		stopA()
		stopA()
		run()
		if x, y := a.take(""), b.take(""); len(x) != 0 || !slices.Equal(y, want) {
			t.Errorf("after a stop: events %q and %q", x, y)
		}
		stopB()
		run()
		if y := b.take(""); len(y) != 0 {
			t.Errorf("after both stops: %q", y)
		}
	})
}

// TestObserversAreToldOfChains runs a chain that completes, and one that fails, is
// retried, and fails again. Two engines share the work; each event comes to the one whose
// call committed it.
func TestObserversAreToldOfChains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := couriertest.New(t, nil)
		h.Stub("demo.a", nil)
		h.Stub("demo.bad", func(context.Context, *courier.Context, map[string]any) (map[string]any, error) {
			return nil, courier.Permanent(errors.New("bad"))
		})
		front := engine.New(h.Store, nil, &engine.Options{Workspace: t.TempDir()})
		var atFront, atWorker eventbook
		defer front.Observe(atFront.hear)()
		defer h.Engine.Observe(atWorker.hear)()
		h.Start()
		for _, name := range []string{"a", "bad"} {
			if _, err := h.Engine.Jobs().Define(t.Context(), courier.Job{Name: name, Steps: []courier.StepSpec{{Type: "demo." + name}}}, nil); err != nil {
				t.Fatal(err)
			}
		}
		for name, members := range map[string][]chain.Member{
			"good": {{Job: "a"}, {Job: "a", Name: "again", DependsOn: []chain.Dependency{{Member: "a"}}}},
			"poor": {{Job: "bad"}},
		} {
			if _, err := h.Engine.Chains().Define(t.Context(), chain.Chain{Name: name, Members: members}, nil); err != nil {
				t.Fatal(err)
			}
		}
		see := func(what string, front, worker []string) {
			t.Helper()
			synctest.Wait()
			if f, w := atFront.take("Chain"), atWorker.take("Chain"); !slices.Equal(f, front) || !slices.Equal(w, worker) {
				t.Errorf("%s: the front end was told %q, the worker %q; want %q and %q", what, f, w, front, worker)
			}
		}
		wait := func(id courier.ChainExecutionID, err error) {
			t.Helper()
			if err == nil {
				_, err = front.Chains().Wait(t.Context(), id)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		good, err := front.Chains().Start(t.Context(), "good", nil)
		wait(good.ID, err)
		see("good", []string{"ChainStarted good"}, []string{"ChainCompleted good"})
		poor, err := front.Chains().Start(t.Context(), "poor", nil)
		wait(poor.ID, err)
		see("poor", []string{"ChainStarted poor"}, []string{"ChainFailed poor"})
		_, err = front.Chains().Retry(t.Context(), poor.ID, courier.By{})
		wait(poor.ID, err)
		see("poor again", nil, []string{"ChainFailed poor"})
	})
}

// TestWaitForACondition waits until an execution has passed a step, until it is paused,
// and for a condition that never holds.
func TestWaitForACondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := couriertest.New(t, nil)
		h.Stub("demo.slow", func(ctx context.Context, _ *courier.Context, _ map[string]any) (map[string]any, error) {
			time.Sleep(10 * time.Second)
			return nil, nil
		})
		h.Start()
		job := courier.Job{Name: "job", Steps: []courier.StepSpec{{Type: "demo.slow"}, {Type: "demo.slow"}, {Type: "demo.slow"}}}
		if _, err := h.Engine.Jobs().Define(t.Context(), job, nil); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		x, err := h.Engine.Enqueue(t.Context(), "job", nil)
		if err != nil {
			t.Fatal(err)
		}
		at := func(what string, want time.Duration, done func(*courier.Execution) bool) {
			t.Helper()
			got, err := h.Engine.Executions().WaitFor(t.Context(), x.ID, done)
			if took := time.Since(began); err != nil || took < want || took > want+time.Second {
				t.Errorf("%s: %v after %v, want after %v; %s at step %d", what, err, took, want, got.State, got.Position.Step)
			}
		}
		at("passed a step", 10*time.Second, func(x *courier.Execution) bool { return x.Position.Step > 0 })
		if _, err := h.Engine.Pause(t.Context(), x.ID, courier.By{Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		at("paused", 20*time.Second, func(x *courier.Execution) bool { return x.State == courier.Paused })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		got, err := h.Engine.Executions().WaitFor(ctx, x.ID, func(*courier.Execution) bool { return false })
		if !errors.Is(err, context.DeadlineExceeded) || got.State != courier.Paused {
			t.Errorf("for ever: %v, %s", err, got.State)
		}
		if _, err := h.Engine.Executions().WaitFor(t.Context(), "nobody", func(*courier.Execution) bool { return true }); !errors.Is(err, courier.ErrNotFound) {
			t.Errorf("of none: %v", err)
		}
	})
}
