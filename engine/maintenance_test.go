package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
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
	for every, perHour := range map[time.Duration]int{0: 60, 10 * time.Minute: 6, time.Second: 3600, 7 * time.Hour: 0} {
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

// TestMaintenanceIsTold: what fails is in the log once while it lasts, and in Health; it is
// tried again, and does not hurt the engine.
func TestMaintenanceIsTold(t *testing.T) {
	for name, do := range map[string]func(context.Context, courier.Maintenance) error{
		"failed of the disk":  func(context.Context, courier.Maintenance) error { return errors.New("failed of the disk") },
		"it panicked: oh":     func(context.Context, courier.Maintenance) error { panic("oh") },
		"runtime.Goexit":      func(context.Context, courier.Maintenance) error { runtime.Goexit(); return nil },
		"whose method Error ": func(context.Context, courier.Maintenance) error { return (*shy)(nil) },
		"has not returned for 10m0s": func(ctx context.Context, _ courier.Maintenance) error {
			select {
			case <-time.After(90 * time.Minute):
			case <-ctx.Done():
			}
			return nil
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
				k := maintained(h.Registry, 0)
				k.set(do)
				h.Start()
				time.Sleep(time.Hour)
				if n := strings.Count(h.Log(), "maintenance failed"); n != 1 {
					t.Errorf("the log has the failure %d times", n)
				}
				if !strings.Contains(h.Log(), name) || !strings.Contains(h.Log(), "step_type=demo.kept") || strings.Contains(name, "panic") != strings.Contains(h.Log(), "maintenance_test.go") {
					t.Errorf("the log does not have %q", name)
				}
				got := h.Engine.Health().Maintenance
				if len(got) != 1 || got[0].StepType != "demo.kept" || !strings.Contains(got[0].Error, name) || time.Since(got[0].Since) < 50*time.Minute {
					t.Errorf("health: %+v", got)
				}
				if name != "has not returned for 10m0s" {
					between(t, "calls in an hour", k.count(), 59, 62)
				}
				k.set(nil)
				time.Sleep(time.Hour)
				if got := h.Engine.Health().Maintenance; got != nil || strings.Count(h.Log(), "maintenance works again") != 1 {
					t.Errorf("after it has worked, health is %+v", got)
				}
				id := h.Enqueue(jobOf("demo.kept"), nil)
				h.Wait(id).RequireState(courier.Completed)
				k.set(do)
				time.Sleep(time.Hour)
				if n := strings.Count(h.Log(), "maintenance failed"); n != 2 {
					t.Errorf("the log has two failures %d times", n)
				}
			})
		})
	}
}

// TestMaintenanceThatHangs: a stop does not wait for ever for a maintainer that ignores the
// end of its context, and one that heeds it costs the stop no time.
func TestMaintenanceThatHangs(t *testing.T) {
	for heeds, most := range map[bool]time.Duration{true: 0, false: 10 * time.Second} {
		t.Run(fmt.Sprint(heeds), func(t *testing.T) {
			couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
				free := make(chan struct{})
				maintained(h.Registry, 0).set(func(ctx context.Context, _ courier.Maintenance) error {
					if heeds {
						<-ctx.Done()
						return context.Cause(ctx)
					}
					<-free
					return nil
				})
				h.Start()
				time.Sleep(time.Second)
				began := time.Now()
				if err := h.Engine.Stop(t.Context()); err != nil {
					t.Error(err)
				}
				if d := time.Since(began); d > most+time.Second {
					t.Errorf("the stop took %v", d)
				}
				if strings.Contains(h.Log(), "maintenance does not return") == heeds || strings.Contains(h.Log(), "maintenance failed") {
					t.Error("the log says something else")
				}
				close(free)
			})
		})
	}
}

// anonymous is a store that does not record workers.
type anonymous struct{ store.Store }

// TestMaintenanceInTurns: of several engines that have the step type one calls the maintainer
// in each period. One that fails or hangs takes a share of the periods and no more; one that
// is gone has none soon. Where nobody knows the others, each engine calls it.
func TestMaintenanceInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := couriertest.New(t, nil)
		start := func(s store.Store, name string) (*engine.Engine, *caretaker) {
			var reg courier.Registry
			k := maintained(&reg, 0)
			e := engine.New(s, &reg, &engine.Options{Worker: name, Workspace: t.TempDir()})
			if err := e.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { e.Stop(context.Background()) })
			return e, k
		}
		h.Stub("demo.b", nil)
		h.Start() // an engine without the step type takes no turn
		first, a := start(h.Store, "a")
		_, b := start(h.Store, "b")
		_, c := start(h.Store, "c")
		time.Sleep(5 * time.Minute)
		a.count()
		b.count()
		c.count()
		a.set(func(context.Context, courier.Maintenance) error { return errors.New("no disk") })
		time.Sleep(time.Hour)
		calls := []int{a.count(), b.count(), c.count()}
		between(t, fmt.Sprintf("all calls, %v", calls), calls[0]+calls[1]+calls[2], 58, 62)
		for _, n := range calls {
			between(t, "calls of an engine", n, 18, 22)
		}
		b.set(func(ctx context.Context, _ courier.Maintenance) error { <-ctx.Done(); return nil })
		if err := first.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		c.count()
		time.Sleep(time.Hour)
		between(t, "calls of one of two", c.count(), 28, 32)
		_, d := start(anonymous{h.Store}, "d")
		_, e := start(anonymous{h.Store}, "e")
		time.Sleep(time.Hour)
		between(t, "calls of one that is alone", d.count(), 59, 62)
		between(t, "calls of another one", e.count(), 59, 62)
	})
}

// TestMaintenanceWithoutStore: an engine that can't find out whose turn it is says so once.
func TestMaintenanceWithoutStore(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		s := &workersDown{Store: h.Store}
		k, log := maintained(h.Registry, 0), new(logbook)
		e := engine.New(s, h.Registry, &engine.Options{Log: log.logger(), Workspace: t.TempDir()})
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer e.Stop(context.Background())
		time.Sleep(time.Hour)
		between(t, "calls", k.count(), 0, 0)
		log.count(t, 1, "maintenance failed", "the other engines of the store can't be found", "out of reach")
		if got := e.Health().Maintenance; len(got) != 1 {
			t.Errorf("health: %+v", got)
		}
	})
}

// workersDown is a store that does not say who its workers are.
type workersDown struct{ *memstore.Store }

// Workers fails.
func (*workersDown) Workers(context.Context, time.Duration) ([]store.Worker, error) {
	return nil, errors.New("the store is out of reach")
}

// shy is an error whose method panics if it is nil.
type shy struct{ text string }

func (s *shy) Error() string { return s.text }
