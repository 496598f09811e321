package depot_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/lockedbuffer"
)

// A counted depot counts its listings of all files, and fails or panics if it is told to.
type counted struct {
	depot.Depot
	lists atomic.Int64
	fault atomic.Pointer[func() error]
}

func (c *counted) List(ctx context.Context, prefix string) ([]depot.Info, error) {
	if f := c.fault.Load(); f != nil {
		if err := (*f)(); err != nil {
			return nil, err
		}
	}
	if prefix == "" {
		c.lists.Add(1)
	}
	return c.Depot.List(ctx, prefix)
}

// ended executes a job of one step, which has an input and ends as it is told, and returns
// the key of the input.
func ended(t *testing.T, h *couriertest.Harness, d depot.Depot, fails bool) string {
	t.Helper()
	var fail error
	if fails {
		fail = errors.New("on purpose")
	}
	h.Stub("demo.end", func(context.Context, *courier.Context, map[string]any) (map[string]any, error) { return nil, fail })
	job := courier.Job{Name: "end", Steps: []courier.StepSpec{{Type: "demo.end"}}}
	id := h.Enqueue(job, nil)
	key := depot.InputKey(id, "a")
	p, err := d.Create(t.Context(), key)
	must(t, err)
	defer p.Close()
	_, err = p.Commit()
	must(t, err)
	if got := h.Wait(id).Execution.State; (got == courier.Failed) != fails {
		t.Fatalf("the execution is %s", got)
	}
	return key
}

// there reports whether a depot has the file of a key.
func there(t *testing.T, d depot.Depot, key string) bool {
	t.Helper()
	list, err := d.List(t.Context(), key)
	must(t, err)
	return len(list) == 1
}

// TestRetentionRunsByItself: a host that registers a depot and starts an engine has
// retention, as long as the engine is started.
func TestRetentionRunsByItself(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) depot.Depot{
		"directory": func(t *testing.T) depot.Depot { return openDir(t, 0) },
		"memory":    func(*testing.T) depot.Depot { return new(couriertest.Depot) },
	} {
		t.Run(name, func(t *testing.T) {
			couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
				d := open(t)
				depot.Register(h.Registry, d, nil)
				h.Start()
				completed, failed := ended(t, h, d, false), ended(t, h, d, true)
				keeps := func(after time.Duration, key string, want bool) {
					t.Helper()
					synctest.Wait()
					if got := there(t, d, key); got != want {
						t.Errorf("after %v there is a file: %v, want %v", after, got, want)
					}
				}
				const day = 24 * time.Hour
				time.Sleep(2*day - time.Minute)
				keeps(2*day, completed, true)
				time.Sleep(4 * time.Minute)
				keeps(2*day, completed, false)
				keeps(2*day, failed, true)
				id, _ := depot.SplitKey(completed)
				if _, removed, err := depot.Removed(t.Context(), d, id); !removed || err != nil || !strings.Contains(h.Log(), string(id)) {
					t.Errorf("removed is marked %v, %v; it must be in the engine's log too", removed, err)
				}
				must(t, h.Engine.Stop(t.Context()))
				time.Sleep(28*day - 10*time.Minute)
				h.Start()
				time.Sleep(4 * time.Minute)
				keeps(30*day, failed, true)
				time.Sleep(4 * time.Minute)
				keeps(30*day, failed, false)

				later := ended(t, h, d, false)
				must(t, h.Engine.Stop(t.Context()))
				time.Sleep(3 * day)
				keeps(3*day, later, true) // no engine is started
				h.Start()
				time.Sleep(time.Minute)
				keeps(3*day, later, false)
			})
		})
	}
}

// TestRegisteredOptions: the options of Register hold, and RetentionOf returns them. Options
// that can't be used are found when they are registered.
func TestRegisteredOptions(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		d := &counted{Depot: new(couriertest.Depot)}
		if got := depot.RetentionOf(h.Registry); got.Keep != 0 || got.Every != 0 {
			t.Errorf("without a depot: %+v", got)
		}
		log := new(lockedbuffer.Buffer)
		depot.Register(h.Registry, d, &depot.Retention{Keep: time.Hour, KeepFailed: -1, Every: 10 * time.Minute, Log: logger(log)})
		if got := depot.RetentionOf(h.Registry); got.Keep != time.Hour || got.KeepFailed != -1 {
			t.Errorf("registered: %+v", got)
		}
		h.Start()
		completed, failed := ended(t, h, d, false), ended(t, h, d, true)
		time.Sleep(100 * time.Minute)
		if there(t, d, completed) || !there(t, d, failed) || !strings.Contains(log.String(), "removed the files") {
			t.Error("the options do not hold")
		}
		if n := d.lists.Load(); n < 9 || n > 12 {
			t.Errorf("in 100 minutes there were %d looks", n)
		}
		h.Stub("depot.keep", nil)
		if got := depot.RetentionOf(h.Registry); got.Keep != 0 {
			t.Errorf("with a stub: %+v", got)
		}
	})
	defer func() {
		if p := fmt.Sprint(recover()); !strings.Contains(p, "Most is -1") || !strings.Contains(p, "Every is -1ns") {
			t.Errorf("bad options: %v", p)
		}
	}()
	depot.Register(new(courier.Registry), new(couriertest.Depot), &depot.Retention{Most: -1, Every: -1})
}

// TestRetentionOfEngines: engines on one store and one depot take turns, each with what it
// knows of the executions, and remove what is to go whichever of them are there.
func TestRetentionOfEngines(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		files := new(couriertest.Depot)
		depots := make([]*counted, 3)
		engines := make([]*engine.Engine, 3)
		for i := range depots {
			depots[i] = &counted{Depot: files}
			reg := new(courier.Registry)
			depot.Register(reg, depots[i], nil)
			engines[i] = engine.New(h.Store, reg, &engine.Options{Worker: fmt.Sprint("worker-", i), Workspace: t.TempDir()})
			must(t, engines[i].Start(t.Context()))
			t.Cleanup(func() { engines[i].Stop(context.Background()) })
		}
		h.Start() // executes the job
		looks := func() (n [3]int64) {
			for i, d := range depots {
				n[i] = d.lists.Swap(0)
			}
			return n
		}
		key := ended(t, h, files, false)
		time.Sleep(time.Hour)
		looks()
		time.Sleep(time.Hour)
		if n := looks(); n[0] < 18 || n[1] < 18 || n[2] < 18 || n[0]+n[1]+n[2] > 62 {
			t.Errorf("in an hour there were %v looks", n)
		}
		time.Sleep(45 * time.Hour)
		must(t, engines[1].Stop(t.Context()))
		if !there(t, files, key) {
			t.Error("the file is gone too early")
		}
		time.Sleep(time.Hour + 5*time.Minute)
		if there(t, files, key) {
			t.Error("the file is still there")
		}
		looks()
		time.Sleep(time.Hour)
		if n := looks(); n[0] < 28 || n[1] != 0 || n[2] < 28 || n[0]+n[2] > 62 {
			t.Errorf("after a stop there were %v looks in an hour", n)
		}
	})
}

// TestRetentionOfOneRegistry: engines of one process may share a registry, and so a depot.
func TestRetentionOfOneRegistry(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		d := &counted{Depot: new(couriertest.Depot)}
		depot.Register(h.Registry, d, nil)
		other := h.AddEngine(&engine.Options{Worker: "other"})
		must(t, other.Start(t.Context()))
		h.Start()
		key := ended(t, h, d, false)
		time.Sleep(48*time.Hour + 3*time.Minute)
		if n := d.lists.Load(); there(t, d, key) || n < 48*60-3 || n > 48*60+6 {
			t.Errorf("after 48 hours the file is there: %v, after %d looks", there(t, d, key), n)
		}
	})
}

// TestDepotThatFails: what is wrong with a depot is in the log once and in the health of the
// engine, and retention goes on when it works again.
func TestDepotThatFails(t *testing.T) {
	for name, fault := range map[string]func() error{
		"no such mount":         func() error { return errors.New("no such mount") },
		"it panicked: no mount": func() error { panic("no mount") },
	} {
		t.Run(name, func(t *testing.T) {
			couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
				d := &counted{Depot: new(couriertest.Depot)}
				depot.Register(h.Registry, d, nil)
				h.Start()
				key := ended(t, h, d, false)
				d.fault.Store(&fault)
				time.Sleep(72 * time.Hour)
				if n := strings.Count(h.Log(), name); n != 1 {
					t.Errorf("the log has %q %d times", name, n)
				}
				if got := h.Engine.Health().Maintenance; len(got) != 1 || got[0].StepType != "depot.keep" || !strings.Contains(got[0].Error, name) {
					t.Errorf("health: %+v", got)
				}
				d.fault.Store(nil)
				time.Sleep(3 * time.Minute)
				if got := h.Engine.Health().Maintenance; got != nil || there(t, d, key) {
					t.Errorf("health is %+v; the file is there: %v", got, there(t, d, key))
				}
			})
		})
	}
}

// TestUsage: engines report how full a depot with a limit is, and nothing of one without.
func TestUsage(t *testing.T) {
	for name, c := range map[string]struct {
		d    depot.Depot
		want bool
	}{"limited": {openDir(t, 1<<20), true}, "not limited": {openDir(t, 0), false}, "in memory": {new(couriertest.Depot), false}} {
		t.Run(name, func(t *testing.T) {
			h := couriertest.New(t, nil)
			depot.Register(h.Registry, c.d, nil)
			h.Start()
			p, err := c.d.Create(t.Context(), "00000000-0000-7000-8000-000000000000/in/a")
			if err == nil {
				_, err = p.Write(make([]byte, 10_000))
			}
			if err == nil {
				_, err = p.Commit()
			}
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			if err := h.Engine.Metrics().Write(t.Context(), &text); err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(text.String(), "\ncourier_depot_limit_bytes 1.048576e+06\n") && strings.Contains(text.String(), "\ncourier_depot_used_bytes "); got != c.want || strings.Contains(text.String(), "courier_depot_used_bytes 0\n") {
				t.Errorf("the metrics are\n%s", text.String())
			}
		})
	}
}
