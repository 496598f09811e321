package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
)

// A caretaker is a maintainer that notes its calls, and does what do says.
type caretaker struct {
	mu    sync.Mutex
	do    func(ctx context.Context, m courier.Maintenance) error
	calls []time.Time
}

func (k *caretaker) Maintain(ctx context.Context, m courier.Maintenance) error {
	k.mu.Lock()
	k.calls = append(k.calls, time.Now())
	do := k.do
	k.mu.Unlock()
	if do == nil {
		return nil
	}
	return do(ctx, m)
}

// set changes what the next calls do.
func (k *caretaker) set(do func(ctx context.Context, m courier.Maintenance) error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.do = do
}

// count returns how often it was called since the last count.
func (k *caretaker) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := len(k.calls)
	k.calls = nil
	return n
}

// maintained registers a step type with a maintainer, under two keys.
func maintained(r *courier.Registry, every time.Duration) *caretaker {
	k := new(caretaker)
	courier.Register(r, "demo.kept", idle{}, &courier.TypeOptions{Aliases: []string{"demo.old", "demo.a"}, Maintainer: k, MaintainEvery: every})
	return k
}

// between fails the test if n is outside of the bounds.
func between(t *testing.T, what string, n, least, most int) {
	t.Helper()
	if n < least || n > most {
		t.Errorf("%s: %d, want %d to %d", what, n, least, most)
	}
}

// TestMaintenance: a started engine calls a maintainer at once and in each period, and not
// before its start, nor after its stop.
func TestMaintenance(t *testing.T) {
	for every, perHour := range map[time.Duration]int{0: 60, 10 * time.Minute: 6} {
		t.Run(every.String(), func(t *testing.T) {
			couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
				k := maintained(h.Registry, every)
				id := h.Run(jobOf("demo.kept"), nil).Execution.ID
				k.set(func(_ context.Context, m courier.Maintenance) error {
					x, err := m.Execution(t.Context(), id)
					if _, e := m.Execution(t.Context(), "unknown"); err != nil || x.State != courier.Completed || !errors.Is(e, courier.ErrNotFound) {
						t.Errorf("the execution is %s, %v; another one: %v", x.State, err, e)
					}
					m.Log.Info("looked")
					return nil
				})
				time.Sleep(time.Hour)
				between(t, "calls before the start", k.count(), 0, 0)
				for range 2 {
					h.Start()
					synctest.Wait()
					between(t, "calls at the start", k.count(), 1, 1)
					time.Sleep(time.Hour)
					synctest.Wait()
					between(t, "calls in an hour", k.count(), max(perHour-1, 0), perHour+1)
					if err := h.Engine.Stop(t.Context()); err != nil {
						t.Fatal(err)
					}
					time.Sleep(10 * time.Hour)
					between(t, "calls after the stop", k.count(), 0, 0)
				}
				if !strings.Contains(h.Log(), "looked") {
					t.Error("the maintainer has not the engine's log")
				}
			})
		})
	}
}

// jobOf returns a job of one step.
func jobOf(typ string) courier.Job {
	return courier.Job{Name: "one", Steps: []courier.StepSpec{{Type: typ}}}
}

// TestMaintenanceIsTold: what fails is in the log of the engine and in Health, until it works, and
// does not hurt the engine.
func TestMaintenanceIsTold(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		k := maintained(h.Registry, 0)
		k.set(func(context.Context, courier.Maintenance) error { return errors.New("failed of the disk") })
		h.Start()
		time.Sleep(time.Hour)
		if !strings.Contains(h.Log(), "failed of the disk") || len(h.Engine.Health().Maintenance) != 1 {
			t.Errorf("health: %+v", h.Engine.Health().Maintenance)
		}
		id := h.Enqueue(jobOf("demo.kept"), nil)
		h.Wait(id).RequireState(courier.Completed)
		k.set(nil)
		time.Sleep(time.Hour)
		if got := h.Engine.Health().Maintenance; got != nil {
			t.Errorf("after it has worked, health is %+v", got)
		}
	})
}

// TestMaintenanceInTurns: of several engines that have the step type one calls the maintainer in
// each period, and one that was stopped has no turn.
func TestMaintenanceInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := couriertest.New(t, nil)
		start := func(name string) (*engine.Engine, *caretaker) {
			var reg courier.Registry
			k := maintained(&reg, 0)
			e := engine.New(h.Store, &reg, &engine.Options{Worker: name, Workspace: t.TempDir()})
			if err := e.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { e.Stop(context.Background()) })
			return e, k
		}
		h.Stub("demo.b", nil)
		h.Start() // an engine without the step type takes no turn
		first, a := start("a")
		_, b := start("b")
		_, c := start("c")
		time.Sleep(5 * time.Minute)
		a.count()
		b.count()
		c.count()
		time.Sleep(time.Hour)
		calls := []int{a.count(), b.count(), c.count()}
		between(t, fmt.Sprintf("all calls, %v", calls), calls[0]+calls[1]+calls[2], 58, 62)
		for _, n := range calls {
			between(t, "calls of an engine", n, 18, 22)
		}
		if err := first.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		c.count()
		time.Sleep(time.Hour)
		between(t, "calls of one of two", c.count(), 28, 32)
	})
}
