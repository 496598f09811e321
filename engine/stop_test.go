package engine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store/storewrap"
)

// manyJob is what a hundred executions run.
const manyJob = `{"name": "many", "steps": [{"type": "demo.a"}, {"type": "demo.wait", "timeout_seconds": 0}, {"type": "demo.c"}]}`

// enqueueMany makes an engine run a hundred executions of manyJob at once, whose
// second step is wait, and returns them when all are in it.
func enqueueMany(t *testing.T, h *couriertest.Harness, e *engine.Engine, wait couriertest.StubFunc) []courier.ExecutionID {
	t.Helper()
	const many = 100
	h.Stub("demo.a", nil)
	entered := make(chan struct{}, 2*many)
	h.Stub("demo.wait", func(c ctx, job *courier.Context, cfg map[string]any) (map[string]any, error) {
		entered <- struct{}{}
		return wait(c, job, cfg)
	})
	h.Stub("demo.c", nil)
	if err := e.Limits().Set(t.Context(), "global", 0, courier.By{}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Jobs().Define(t.Context(), h.Job(manyJob), nil); err != nil {
		t.Fatal(err)
	}
	ids := make([]courier.ExecutionID, many)
	for i := range ids {
		x, err := e.Enqueue(t.Context(), "many", nil)
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = x.ID
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range ids {
		<-entered
	}
	return ids
}

// requireHandedOver asserts that executions are in the queue again, within a
// second after their steps returned, and that another engine completes them
// without using up an attempt.
func requireHandedOver(t *testing.T, h *couriertest.Harness, ids []courier.ExecutionID, returned *sync.Map, second string) {
	t.Helper()
	for _, id := range ids {
		audit, err := h.Engine.Executions().Audit(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		last := audit[len(audit)-1]
		at, _ := returned.Load(id)
		if last.To != string(courier.Queued) || last.Step != nil || last.At.Sub(at.(time.Time)) > time.Second {
			t.Fatalf("%s: the last entry is %+v, %v after its step returned", id, last, last.At.Sub(at.(time.Time)))
		}
	}
	other := engine.New(h.Store, h.Registry, &engine.Options{Workspace: t.TempDir(), Slots: len(ids)})
	if err := other.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		r := h.Wait(id).RequireState(courier.Completed).RequireTrace("0 demo.a completed", second, "2 demo.c completed")
		requireAudit(t, r)
	}
	if err := other.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestStopHandsAHundredOver stops an engine with a hundred running executions,
// whose steps return one after the other, or when they are interrupted, or not
// at all.
func TestStopHandsAHundredOver(t *testing.T) {
	const soft, grace = 30 * time.Second, 10 * time.Second
	for _, test := range []struct {
		name   string
		wait   func(c ctx, n int) error
		took   time.Duration
		stuck  bool
		second string
	}{
		{"by themselves", func(c ctx, n int) error { return sleepOrEnd(c, time.Duration(n)*soft/101) }, 100 * soft / 101, false, "1 demo.wait completed"},
		{"when interrupted", func(c ctx, n int) error {
			<-c.Done()
			time.Sleep(time.Duration(n) * 50 * time.Millisecond)
			return c.Err()
		}, soft + 5*time.Second, false, "1 demo.wait completed"},
		{"never", func(ctx, int) error { time.Sleep(time.Hour); return errBoom }, soft + grace, true, "1 demo.wait#2 completed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
				var calls atomic.Int64
				var returned sync.Map
				e := engine.New(h.Store, h.Registry, &engine.Options{Workspace: t.TempDir(), Slots: 100})
				ids := enqueueMany(t, h, e, func(c ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
					n := int(calls.Add(1))
					if n > 100 {
						return nil, nil
					}
					err := test.wait(c, n)
					if !test.stuck {
						returned.Store(job.Execution(), time.Now())
					}
					return nil, err
				})
				start := time.Now()
				err := e.Stop(t.Context())
				if d := time.Since(start); d < test.took || d > test.took+time.Second {
					t.Errorf("Stop took %v, want %v", d, test.took)
				}
				if test.stuck != (err != nil) {
					t.Errorf("Stop: %v", err)
				}
				for _, id := range ids {
					if test.stuck {
						returned.Store(id, start.Add(soft+grace))
						if !strings.Contains(err.Error(), string(id)) {
							t.Errorf("the error does not name %s: %v", id, err)
						}
					}
				}
				requireHandedOver(t, h, ids, &returned, test.second)
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

// TestStopHandsOverWithinASecond measures in real time how long a hundred
// executions take from the return of the last step to the end of the stop.
func TestStopHandsOverWithinASecond(t *testing.T) {
	h := couriertest.New(t, nil)
	e := engine.New(h.Store, h.Registry, &engine.Options{Workspace: t.TempDir(), Slots: 100})
	var returned sync.Map
	var calls, last atomic.Int64
	ids := enqueueMany(t, h, e, func(c ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
		if calls.Add(1) > 100 {
			return nil, nil
		}
		<-c.Done()
		now := time.Now()
		returned.Store(job.Execution(), now)
		last.Store(now.UnixNano())
		return nil, c.Err()
	})
	c, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Stop(c); err != nil {
		t.Error(err)
	}
	d := time.Since(time.Unix(0, last.Load()))
	t.Logf("%d executions were handed over %v after the last step returned", len(ids), d)
	if d > time.Second {
		t.Errorf("the stop ended %v after the last step returned", d)
	}
	requireHandedOver(t, h, ids, &returned, "1 demo.wait completed")
}

// interrupted starts an engine with one execution and returns it in the middle
// of its second step, which waits for the end of its context and fails.
func interrupted(t *testing.T, h *couriertest.Harness, e *engine.Engine, policy string) (courier.Execution, *tidy) {
	t.Helper()
	h.Stub("demo.a", func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
		return m{"file": writeFile(t, job, "out")}, nil
	})
	s := &tidy{execute: func(c ctx, _ *courier.Context) error { <-c.Done(); return errBoom }}
	courier.Register(h.Registry, "demo.tidy", s, &courier.TypeOptions{Timeout: new(time.Duration(0))})
	job := h.Job(tidyJob(policy))
	job.Steps[1].Timeout = nil
	return begin(t, e, job, nil), s
}

// TestStopTwice stops a second time while the first stop waits, with less
// patience, and once more afterwards.
func TestStopTwice(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		e := another(t, h, h.Store, t.TempDir())
		x, _ := interrupted(t, h, e, `"stop"`)
		start := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := e.Stop(t.Context()); err != nil || !about(time.Since(start), 5*time.Second) {
				t.Errorf("the first stop: %v after %v", err, time.Since(start))
			}
		})
		wg.Go(func() {
			time.Sleep(time.Second)
			c, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			if err := e.Stop(c); err != nil || !about(time.Since(start), 5*time.Second) {
				t.Errorf("the second stop: %v after %v", err, time.Since(start))
			}
		})
		time.Sleep(2 * time.Second)
		if err := e.Start(t.Context()); err == nil {
			t.Error("an engine that is stopping can be started")
		}
		wg.Wait()
		if err := e.Stop(t.Context()); err != nil || !about(time.Since(start), 5*time.Second) {
			t.Errorf("a stop of an engine that has stopped: %v after %v", err, time.Since(start))
		}
		if x, _ = h.Engine.Executions().Get(t.Context(), x.ID); x.State != courier.Queued || x.Current != nil {
			t.Errorf("the execution is %s", x.State)
		}
	})
}

// TestEndOfContextHandsOver ends the context that Start was given, in the middle
// of a step.
func TestEndOfContextHandsOver(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		dir := t.TempDir()
		one, two := another(t, h, h.Store, dir), another(t, h, h.Store, dir)
		x, s := interrupted(t, h, two, `"stop"`)
		if err := two.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		c, cancel := contextWithCancel(t)
		if err := one.Start(c); err != nil {
			t.Fatal(err)
		}
		quiet()
		cancel()
		time.Sleep(29 * time.Second)
		if x, _ = h.Engine.Executions().Get(t.Context(), x.ID); x.State != courier.Running {
			t.Errorf("before the soft stop is over, it is %s", x.State)
		}
		time.Sleep(time.Second)
		quiet()
		if x, _ = h.Engine.Executions().Get(t.Context(), x.ID); x.State != courier.Queued {
			t.Errorf("after the soft stop it is %s", x.State)
		}
		s.execute = nil
		if err := one.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		requireAudit(t, h.Wait(x.ID).RequireState(courier.Completed).RequireTrace("0 demo.a completed", "1 demo.tidy completed"))
	})
}

// TestStopsUseNoAttempt stops in the middle of a step again and again, under a
// policy that allows one retry: after that, it still does.
func TestStopsUseNoAttempt(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		dir := t.TempDir()
		e := another(t, h, h.Store, dir)
		x, s := interrupted(t, h, e, `{"type": "retry_step", "max_retries": 1}`)
		want := []string{"execute 1"}
		for range 5 {
			if err := e.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			x, _ = h.Engine.Executions().Get(t.Context(), x.ID)
			if x.State != courier.Queued || x.Workspace != "tree" || x.Position.Step != 1 || x.Failure != nil || x.DueAt.After(time.Now()) {
				t.Fatalf("after the stop: %+v", x)
			}
			if _, err := os.Stat(filepath.Join(dir, string(x.ID), "0", "1", "out")); err != nil {
				t.Fatal(err)
			}
			foreign := engine.New(h.Store, h.Registry, &engine.Options{Workspace: t.TempDir(), WorkspaceID: "elsewhere"})
			if err := foreign.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			quiet()
			if err := errors.Join(foreign.Stop(t.Context()), e.Start(t.Context())); err != nil {
				t.Fatal(err)
			}
			quiet()
			want = append(want, "cleanup 1", "execute 1")
		}
		s.require(t, want...)
		if err := e.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.execute, s.fails = nil, 1
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		requireAudit(t, h.Wait(x.ID).RequireState(courier.Completed).RequireTrace("0 demo.a completed", "1 demo.tidy failed", "1 demo.tidy#2 completed"))
	})
}

// TestStopMeetsRequests stops while a pause or a cancel is pending of which the
// engine has not heard: it learns of it when it hands over.
func TestStopMeetsRequests(t *testing.T) {
	for _, state := range []courier.State{courier.Paused, courier.Cancelled} {
		couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
			dir := t.TempDir()
			e := another(t, h, h.Store, dir)
			x, s := interrupted(t, h, e, `"stop"`)
			operator := engine.New(h.Store, h.Registry, &engine.Options{Workspace: t.TempDir(), WorkspaceID: "elsewhere"})
			time.Sleep(time.Second)
			var wg sync.WaitGroup
			wg.Go(func() {
				time.Sleep(29500 * time.Millisecond) // the next renewal comes when the stop is over
				var err error
				if by := (courier.By{Actor: "ops"}); state == courier.Cancelled {
					_, err = operator.Cancel(t.Context(), x.ID, &courier.CancelOptions{By: by})
				} else {
					_, err = operator.Pause(t.Context(), x.ID, by)
				}
				if err != nil {
					t.Error(err)
				}
			})
			if err := e.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			want := []string{"execute 1"}
			if state == courier.Cancelled {
				want = append(want, "rollback cancelled 1")
			}
			s.require(t, want...)
			if x, _ = h.Engine.Executions().Get(t.Context(), x.ID); x.State != state {
				t.Fatalf("the execution is %s, want %s", x.State, state)
			}
			_, err := os.Stat(filepath.Join(dir, string(x.ID)))
			if kept := err == nil; kept != (state == courier.Paused) {
				t.Errorf("%s: workspace: %v", state, err)
			}
			if state == courier.Cancelled {
				return
			}
			s.execute = nil
			if err := errors.Join(errOf(e.Resume(t.Context(), x.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}})), e.Start(t.Context())); err != nil {
				t.Fatal(err)
			}
			requireAudit(t, h.Wait(x.ID).RequireState(courier.Completed).RequireTrace("0 demo.a completed", "1 demo.tidy completed"))
			s.require(t, "cleanup 1", "execute 1")
		})
	}
}

// TestStopDuringAClaim stops while a claim is under way: what it brings is
// handed over untouched, and nothing more is claimed.
func TestStopDuringAClaim(t *testing.T) {
	for range 10 {
		couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
			a := h.Stub("demo.a", nil)
			claims := 0
			s := storewrap.Intercept(h.Store, func(c ctx, call *storewrap.Call, do func(ctx) error) error {
				if call.Method == "Claim" {
					claims++
					time.Sleep(2 * time.Second)
					defer time.Sleep(time.Second)
				}
				return do(c)
			})
			e := another(t, h, s, t.TempDir())
			x := begin(t, e, h.Job(`{"name": "a", "steps": [{"type": "demo.a"}]}`), nil)
			start := time.Now()
			if err := e.Stop(t.Context()); err != nil || !about(time.Since(start), 3*time.Second) {
				t.Errorf("Stop: %v after %v", err, time.Since(start))
			}
			if x, _ = h.Engine.Executions().Get(t.Context(), x.ID); x.State != courier.Queued || x.StartedAt.IsZero() || len(a.Calls()) != 0 {
				t.Errorf("the execution is %s, %d calls", x.State, len(a.Calls()))
			}
			if claims != 1 {
				t.Errorf("%d claims", claims)
			}
			if err := another(t, h, h.Store, t.TempDir()).Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			requireAudit(t, h.Wait(x.ID).RequireState(courier.Completed))
		})
	}
}

// TestStopDuringAnOutageOfClaims stops while claims fail, and while one hangs.
func TestStopDuringAnOutageOfClaims(t *testing.T) {
	for name, test := range map[string]struct {
		claim func(c ctx) error
		took  time.Duration
	}{
		"fail": {func(ctx) error { return errBoom }, 0},
		"hang": {func(c ctx) error { <-c.Done(); return c.Err() }, 9 * time.Second}, // a claim may take 10 s
	} {
		couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
			h.Stub("demo.a", nil)
			s := storewrap.Intercept(h.Store, func(c ctx, call *storewrap.Call, do func(ctx) error) error {
				if call.Method == "Claim" {
					return test.claim(c)
				}
				return do(c)
			})
			e := another(t, h, s, t.TempDir())
			x := begin(t, e, h.Job(`{"name": "a", "steps": [{"type": "demo.a"}]}`), nil)
			time.Sleep(time.Second)
			start := time.Now()
			if err := e.Stop(t.Context()); err != nil || !about(time.Since(start), test.took) {
				t.Errorf("%s: Stop: %v after %v, want %v", name, err, time.Since(start), test.took)
			}
			if x.State != courier.Queued {
				t.Errorf("the execution is %s", x.State)
			}
		})
	}
}

// TestStopWhileTheStoreIsAway stops while the store answers nothing, or only
// with errors: the stop ends all the same, and the execution is taken over when
// its lease has ended.
func TestStopWhileTheStoreIsAway(t *testing.T) {
	hang := func(c ctx) error { <-c.Done(); return c.Err() }
	fail := func(ctx) error { return errBoom }
	const soft, lease = 30 * time.Second, 15 * time.Second
	for _, test := range []struct {
		name    string
		methods string
		f       func(ctx) error
		most    time.Duration // after the soft stop
		forGood bool
	}{
		// Renewals go on, so nothing but the stop ends the lease.
		{"Apply hangs", "Apply", hang, 10*time.Second + lease*4/5 + 10*time.Second, true},
		{"Apply fails", "Apply", fail, lease*4/5 + time.Second, true},
		// The watchdog ends the lease.
		{"all hang", "Apply Renew Claim Await", hang, lease * 4 / 5, true},
		{"all fail", "Apply Renew Claim Await", fail, lease * 4 / 5, true},
		// One call is lost, and the next one succeeds.
		{"one call hangs", "Apply", hang, 10*time.Second + 20*time.Millisecond, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
				var down atomic.Bool
				s := storewrap.Intercept(h.Store, func(c ctx, call *storewrap.Call, do func(ctx) error) error {
					if !down.Load() || !slices.Contains(strings.Fields(test.methods), call.Method) {
						return do(c)
					}
					down.Store(test.forGood)
					return test.f(c)
				})
				dir := t.TempDir()
				one, two := another(t, h, s, dir), another(t, h, h.Store, dir)
				x, step := interrupted(t, h, one, `"stop"`)
				go func() {
					time.Sleep(soft - time.Millisecond)
					down.Store(true)
				}()
				start := time.Now()
				if err := one.Stop(t.Context()); err != nil {
					t.Error(err)
				}
				took := time.Since(start)
				if took < soft || took > soft+test.most {
					t.Errorf("Stop took %v, want at most %v", took, soft+test.most)
				}
				t.Logf("Stop took %v", took)
				x, _ = h.Engine.Executions().Get(t.Context(), x.ID)
				if want := map[bool]courier.State{true: courier.Running, false: courier.Queued}[test.forGood]; x.State != want {
					t.Errorf("the execution is %s, want %s", x.State, want)
				}
				step.execute = nil
				if err := two.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				stopped := time.Now()
				r := h.Wait(x.ID).RequireState(courier.Completed)
				if d := time.Since(stopped); d > lease+5*time.Second {
					t.Errorf("taken over %v after the stop", d)
				}
				requireAudit(t, r)
			})
		})
	}
}

// TestStopLeavesRunAlone stops the worker of an engine while Run executes one
// job in its own goroutine, and waits for another that the worker executes.
func TestStopLeavesRunAlone(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.own", func(c ctx, _ *courier.Context, _ map[string]any) (map[string]any, error) {
			return nil, sleepOrEnd(c, 4*time.Minute)
		})
		e := another(t, h, h.Store, t.TempDir())
		var wg sync.WaitGroup
		run := func(job courier.Job) {
			if x, err := e.Run(t.Context(), job, nil); err != nil || x.State != courier.Completed {
				t.Errorf("Run of %s: %s, %v", job.Name, x.State, err)
			}
		}
		start := time.Now()
		wg.Go(func() { run(h.Job(`{"name": "own", "steps": [{"type": "demo.own"}]}`)) })
		quiet() // it is claimed by Run
		_, s := interrupted(t, h, e, `"stop"`)
		wg.Go(func() { run(h.Job(`{"name": "late", "queue": "late", "steps": [{"type": "demo.own"}]}`)) })
		quiet()
		if err := e.Stop(t.Context()); err != nil || !about(time.Since(start), 30*time.Second) {
			t.Errorf("Stop: %v after %v", err, time.Since(start))
		}
		s.require(t, "execute 1")
		wg.Wait()
		if d := time.Since(start); !about(d, 4*time.Minute) {
			t.Errorf("the runs took %v", d)
		}
	})
}

// TestRunTakesUpWhatTheWorkerHandsOver waits in Run for an execution that the
// same engine's worker has, and stops the worker.
func TestRunTakesUpWhatTheWorkerHandsOver(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		e := another(t, h, h.Store, t.TempDir())
		calls := 0
		h.Stub("demo.a", func(c ctx, _ *courier.Context, _ map[string]any) (map[string]any, error) {
			if calls++; calls == 1 {
				<-c.Done()
				return nil, c.Err()
			}
			return nil, nil
		})
		job := h.Job(`{"name": "a", "steps": [{"type": "demo.a"}]}`)
		opt := &courier.EnqueueOptions{IdempotencyKey: "k"}
		x := begin(t, e, job, opt)
		var wg sync.WaitGroup
		wg.Go(func() {
			got, err := e.Run(t.Context(), job, opt)
			if err != nil || got.State != courier.Completed || got.ID != x.ID {
				t.Errorf("Run: %s is %s, %v", got.ID, got.State, err)
			}
		})
		quiet()
		if err := e.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if calls != 2 {
			t.Errorf("%d calls", calls)
		}
	})
}

// TestStopCutsOff stops while a step neither listens nor returns, and lets
// another engine go on at once.
func TestStopCutsOff(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		dir := t.TempDir()
		one, two := another(t, h, h.Store, dir), another(t, h, h.Store, dir)
		var dirs []string
		x, s := interrupted(t, h, one, `"stop"`)
		if err := one.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.calls = nil
		s.execute = func(c ctx, job *courier.Context) error {
			dirs = append(dirs, job.Files().Dir())
			if len(dirs) > 1 {
				return nil
			}
			time.Sleep(time.Hour)
			if _, err := job.Files().Create("late"); err == nil {
				t.Error("a step that was cut off can write")
			}
			return nil
		}
		if err := one.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		quiet()
		start := time.Now()
		if err := one.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), string(x.ID)) || !about(time.Since(start), 40*time.Second) {
			t.Errorf("Stop: %v after %v", err, time.Since(start))
		}
		if err := two.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := h.Wait(x.ID).RequireState(courier.Completed).RequireTrace("0 demo.a completed", "1 demo.tidy#2 completed")
		if !slices.Equal(dirs, []string{"1/1", "1/2"}) || !about(r.EndedAt.Sub(start), 40*time.Second) {
			t.Errorf("directories %v, ended after %v", dirs, r.EndedAt.Sub(start))
		}
		s.require(t, "cleanup 1", "execute 1", "cleanup 2", "execute 2")
		requireAudit(t, r)
		time.Sleep(2 * time.Hour)
		if err := one.Stop(t.Context()); err != nil {
			t.Errorf("a stop after the step has returned: %v", err)
		}
	})
}
