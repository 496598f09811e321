package engine_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/stepcontext"
)

// closer notes that it was closed.
type closer struct{ closed atomic.Bool }

// Close closes it.
func (c *closer) Close() error {
	c.closed.Store(true)
	return nil
}

// TestStuckStepIsFenced lets the first attempt of a step ignore its timeout for
// an hour, and then do everything that a step can do, while the second attempt
// runs and after it.
func TestStuckStepIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stuck []engine.StuckStep
		var told time.Duration
		var progress, dirs []string
		start := time.Now()
		h := couriertest.New(t, &engine.Options{
			OnStuckStep: func(s engine.StuckStep) { stuck, told = append(stuck, s), time.Since(start) },
			Observers: []func(courier.Event){func(e courier.Event) {
				if e.Type == courier.EventStepProgress {
					progress = append(progress, fmt.Sprintf("%d: %d", e.Attempt, e.Bytes))
				}
			}},
		})
		var kept []*closer
		h.Stub("demo.stuck", func(c ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
			dirs = append(dirs, job.Files().Dir())
			conn, err := courier.Keep(c, job, "conn", func(ctx) (*closer, error) {
				kept = append(kept, new(closer))
				return kept[len(kept)-1], nil
			})
			if err != nil || conn.closed.Load() {
				t.Errorf("attempt %d: %v", job.Attempt(), err)
			}
			if job.Attempt() == 2 {
				time.Sleep(2 * time.Second)
				return m{"from": 2}, job.Files().Wrote(writeFile(t, job, "second"))
			}
			name := writeFile(t, job, "first")
			f, err := job.Files().Open(name)
			if err != nil {
				t.Error(err)
			}
			defer f.Close()
			job.Progress(100, 1000, "item")
			ignoreContextForAnHour()
			if !conn.closed.Load() {
				t.Error("the connection of the step that was cut off is open")
			}
			for what, err := range map[string]error{
				"Create":   errorOf(job.Files().Create("late")),
				"Open":     errorOf(job.Files().Open(name)),
				"Stat":     errorOf(job.Files().Stat(name)),
				"MkdirAll": job.Files().MkdirAll("late"),
				"Remove":   job.Files().Remove(name),
				"Keep":     errorOf(courier.Keep(c, job, "late", func(ctx) (*closer, error) { return new(closer), nil })),
				"Get":      errorOf(courier.Get[string](job, "job.name")),
			} {
				if err == nil {
					t.Errorf("%s works for a step that was cut off", what)
				}
			}
			job.Set("late", true)
			job.Files().Wrote("late")
			stepcontext.Of(job).Removed(name)
			job.Progress(1000, 1000, "item")
			return m{"from": 1}, nil
		})
		h.Stub("demo.next", func(ctx, *courier.Context, map[string]any) (map[string]any, error) {
			time.Sleep(2 * time.Hour) // the first attempt returns meanwhile
			return nil, nil
		})
		r := h.Run(h.Job(`{"name": "s", "failure_policy": {"type": "retry_step", "jitter": false}, "steps": [{"type": "demo.stuck", "timeout_seconds": 3}, {"type": "demo.next", "timeout_seconds": 0}]}`), nil)
		r.RequireState(courier.Completed).RequireTrace("0 demo.stuck failed", "0 demo.stuck#2 completed", "1 demo.next completed")
		r.RequireValue("0.from", 2).RequireNoValue("0.late")
		first := r.Steps[0]
		if first.Error != "timed out after 3s; did not stop within 10s, so it was cut off and keeps a slot until it returns" ||
			first.Reason != courier.ReasonTimeout || first.EndedAt.Sub(first.StartedAt) != 13*time.Second ||
			first.Bytes != 100 || len(first.Files) != 1 || first.Files[0].Removed {
			t.Errorf("record of the first attempt: %+v", first)
		}
		if d := r.Steps[1].StartedAt.Sub(first.EndedAt); d != time.Second {
			t.Errorf("the retry came after %v", d)
		}
		if !slices.Equal(dirs, []string{"0/1", "0/2"}) || len(kept) != 2 || !slices.Equal(progress, []string{"1: 100"}) {
			t.Errorf("directories %v, %d connections, progress %v", dirs, len(kept), progress)
		}
		if len(stuck) != 1 || told != 13*time.Second {
			t.Fatalf("told %d times, after %v", len(stuck), told)
		}
		s := stuck[0]
		if s.Execution != r.ID || s.Step != 0 || s.Type != "demo.stuck" || s.Attempt != 1 || !strings.Contains(string(s.Stacks), "ignoreContextForAnHour") {
			t.Errorf("stuck step %s, %d, %s, %d\n%s", s.Execution, s.Step, s.Type, s.Attempt, s.Stacks)
		}
		requireAudit(t, r)
	})
}

// ignoreContextForAnHour is called so because a dump shows it.
//
//go:noinline
func ignoreContextForAnHour() { time.Sleep(time.Hour) }

func errorOf[T any](_ T, err error) error { return err }

// writeFile makes a file in the attempt's directory.
func writeFile(t *testing.T, job *courier.Context, name string) string {
	name = job.Files().Dir() + "/" + name
	w, err := job.Files().Create(name)
	if err == nil {
		err = w.Commit()
	}
	if err != nil {
		t.Error(err)
	}
	return name
}

// TestStuckStepKeepsItsSlot lets an engine with one slot cut a step off.
func TestStuckStepKeepsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := couriertest.New(t, &engine.Options{Slots: 1})
		stuck := 0
		h.Stub("demo.stuck", func(ctx, *courier.Context, map[string]any) (map[string]any, error) {
			if stuck++; stuck == 1 {
				time.Sleep(time.Hour)
			}
			return nil, nil
		})
		start := time.Now()
		x := begin(t, h.Engine, h.Job(`{"name": "s", "steps": [{"type": "demo.stuck", "timeout_seconds": 2}]}`), nil)
		y, err := h.Engine.Enqueue(t.Context(), "s", nil)
		if err != nil {
			t.Fatal(err)
		}
		h.Wait(x.ID).RequireState(courier.Failed)
		if r := h.Wait(y.ID).RequireState(courier.Completed); !about(r.StartedAt.Sub(start), time.Hour) {
			t.Errorf("the slot was free after %v", r.StartedAt.Sub(start))
		}
	})
}

// TestStuckStepHook has hooks that don't do what they should: the execution goes
// on all the same.
func TestStuckStepHook(t *testing.T) {
	for name, test := range map[string]struct {
		hook func()
		took time.Duration
	}{
		"panics": {func() { panic("hook") }, 11 * time.Second},
		"exits":  {runtime.Goexit, 11 * time.Second},
		"hangs":  {func() { time.Sleep(24 * time.Hour) }, 16 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := couriertest.New(t, &engine.Options{OnStuckStep: func(engine.StuckStep) { test.hook() }})
				h.Stub("demo.stuck", func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
					time.Sleep(11 * time.Second)
					time.Sleep(time.Millisecond) // now it was cut off
					if _, err := job.Files().Create("late"); !errors.Is(err, os.ErrClosed) {
						t.Errorf("Create: %v", err)
					}
					return nil, nil
				})
				r := h.Run(h.Job(`{"name": "s", "steps": [{"type": "demo.stuck", "timeout_seconds": 1}]}`), nil).RequireState(courier.Failed)
				if d := r.EndedAt.Sub(r.StartedAt); d != test.took {
					t.Errorf("took %v, want %v", d, test.took)
				}
				time.Sleep(48 * time.Hour)
			})
		})
	}
}

// TestGracePeriod lets a step go on for less than the grace period after its
// timeout.
func TestGracePeriod(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		state courier.State
		want  string
	}{
		"an error of its own": {errBoom, courier.Failed, "timed out after 2s; the step returned: boom"},
		"its context's error": {nil, courier.Failed, "timed out after 2s"},
		"a result":            {nil, courier.Completed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := couriertest.New(t, &engine.Options{OnStuckStep: func(engine.StuckStep) { t.Error("it is no stuck step") }})
				h.Stub("demo.late", func(c ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
					<-c.Done()
					if !errors.Is(contextCause(c), courier.ErrTimeout) {
						t.Errorf("cause = %v", contextCause(c))
					}
					time.Sleep(10*time.Second - time.Nanosecond)
					job.Progress(7, 7, "item")
					if test.want == "" {
						return m{"x": 1}, nil
					}
					if test.err == nil {
						return nil, c.Err()
					}
					return nil, test.err
				})
				r := h.Run(h.Job(`{"name": "s", "steps": [{"type": "demo.late", "timeout_seconds": 2}]}`), nil).RequireState(test.state)
				if s := r.Steps[0]; s.Error != test.want || s.Bytes != 7 || s.EndedAt.Sub(s.StartedAt) < 11*time.Second {
					t.Errorf("record %+v", s)
				}
				if test.state == courier.Failed && (r.Failure.Reason != courier.ReasonTimeout || !errors.Is(r.Err, courier.ErrTimeout)) {
					t.Errorf("failure %+v, error %v", r.Failure, r.Err)
				}
				requireAudit(t, r)
			})
		})
	}
}

// TestStallAndTimeout runs a step that reports progress at certain instants,
// under both timeouts.
func TestStallAndTimeout(t *testing.T) {
	for name, test := range map[string]struct {
		reports, pause time.Duration // how long and how often it reports
		want           string
		reason         courier.Reason
		took           time.Duration
	}{
		"reports always":   {4 * time.Minute, 60*time.Second - 1, "", "", 0},
		"stops reporting":  {100 * time.Second, 20 * time.Second, "stalled: no progress for 1m0s", courier.ReasonStalled, 160 * time.Second},
		"never reports":    {0, time.Hour, "stalled: no progress for 1m0s", courier.ReasonStalled, time.Minute},
		"takes too long":   {time.Hour, time.Second, "timed out after 5m0s", courier.ReasonTimeout, 5 * time.Minute},
		"is too slow":      {time.Hour, 61 * time.Second, "stalled: no progress for 1m0s", courier.ReasonStalled, time.Minute},
		"both at one time": {240 * time.Second, 240 * time.Second / 7, "timed out after 5m0s", courier.ReasonTimeout, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
				courier.RegisterFunc(h.Registry, "demo.bytes", func(c ctx, job *courier.Context, _ struct{}) (struct{}, error) {
					for start := time.Now(); time.Since(start) < test.reports; {
						select {
						case <-time.After(test.pause):
							job.Progress(1, -1, "item")
						case <-c.Done():
							return struct{}{}, c.Err()
						}
					}
					if test.want != "" {
						<-c.Done()
					}
					return struct{}{}, c.Err()
				}, &courier.TypeOptions{Timeout: new(5 * time.Minute), Stall: new(time.Minute)})
				r := h.Run(h.Job(`{"name": "s", "steps": [{"type": "demo.bytes"}]}`), nil)
				s := r.Steps[0]
				if test.want == "" {
					r.RequireState(courier.Completed)
				} else if took := s.EndedAt.Sub(s.StartedAt).Round(time.Millisecond); s.Error != test.want || s.Reason != test.reason || took != test.took {
					t.Errorf("%s: %q after %v, want %q after %v", s.Reason, s.Error, took, test.want, test.took)
				}
			})
		})
	}
}

// timed enqueues a job of two steps with a timeout of a minute, of which the
// second is in the caller's hands.
func timed(t *testing.T, h *couriertest.Harness, e *engine.Engine, s *tidy, policy string, delay time.Duration) courier.Execution {
	t.Helper()
	h.Stub("demo.a", nil)
	courier.Register(h.Registry, "demo.tidy", s, &courier.TypeOptions{Timeout: new(time.Duration(0))})
	job := h.Job(tidyJob(policy))
	job.Steps[1].Timeout = nil
	return begin(t, e, job, &courier.EnqueueOptions{Timeout: new(time.Minute), Delay: delay})
}

func sleepOrEnd(c ctx, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-c.Done():
		return c.Err()
	}
}

// requireTimedOut asserts that an execution failed by its own timeout, so long
// after an instant.
func requireTimedOut(t *testing.T, r *couriertest.Result, since time.Time, want time.Duration) {
	t.Helper()
	r.RequireState(courier.Failed).RequireError("longer than its timeout of 1m0s")
	if got := r.EndedAt.Sub(since); !about(got, want) || r.Failure.Reason != courier.ReasonExecution {
		t.Errorf("failed after %v, want %v; %+v", got, want, r.Failure)
	}
	requireAudit(t, r)
}

// TestExecutionTimeoutDoesNotCountTheQueue enqueues with a delay above the
// timeout.
func TestExecutionTimeoutDoesNotCountTheQueue(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		s := &tidy{execute: func(c ctx, _ *courier.Context) error { return sleepOrEnd(c, 59*time.Second) }}
		x := timed(t, h, h.Engine, s, `"stop"`, time.Hour)
		h.Wait(x.ID).RequireState(courier.Completed)
	})
}

// TestExecutionTimeoutDuringBackoff lets the timeout pass while the execution
// waits for a retry: it fails when it is claimed for that, and what its last
// attempt began is rolled back.
func TestExecutionTimeoutDuringBackoff(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		s := &tidy{fails: 1}
		start := time.Now()
		x := timed(t, h, h.Engine, s, `{"type": "retry_step", "backoff_base_seconds": 90, "backoff_max_seconds": 90, "jitter": false}`, 0)
		r := h.Wait(x.ID)
		requireTimedOut(t, r, start, 90*time.Second)
		r.RequireTrace("0 demo.a completed", "1 demo.tidy failed")
		s.require(t, "execute 1", "rollback 1")
		// A resume begins a new minute, and goes on from the step that failed.
		if _, err := h.Engine.Resume(t.Context(), x.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		h.Wait(x.ID).RequireState(courier.Completed)
		s.require(t, "cleanup 2", "execute 2")
	})
}

// TestExecutionTimeoutAndPauses pauses for longer than the timeout, and resumes:
// a new minute begins.
func TestExecutionTimeoutAndPauses(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		s := &tidy{execute: func(c ctx, job *courier.Context) error { return sleepOrEnd(c, 2*time.Hour) }}
		h.Stub("demo.pauses", func(c ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
			return nil, errors.Join(errOf(h.Engine.Pause(t.Context(), job.Execution(), courier.By{Actor: "ops"})), sleepOrEnd(c, 50*time.Second))
		})
		courier.Register(h.Registry, "demo.tidy", s, &courier.TypeOptions{Timeout: new(time.Duration(0))})
		x := begin(t, h.Engine, h.Job(`{"name": "a", "steps": [{"type": "demo.pauses"}, {"type": "demo.tidy"}]}`), &courier.EnqueueOptions{Timeout: new(time.Minute)})
		time.Sleep(time.Hour)
		if x, _ = h.Engine.Executions().Get(t.Context(), x.ID); x.State != courier.Paused {
			t.Fatalf("the execution is %s", x.State)
		}
		resumed := time.Now()
		if _, err := h.Engine.Resume(t.Context(), x.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		requireTimedOut(t, h.Wait(x.ID), resumed, time.Minute)
		s.require(t, "execute 1", "rollback 1")
	})
}

// TestExecutionTimeoutGoesOnAfterAStop hands an execution over after 40 seconds
// of its minute.
func TestExecutionTimeoutGoesOnAfterAStop(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		dir := t.TempDir()
		one, two := another(t, h, h.Store, dir), another(t, h, h.Store, dir)
		s := &tidy{execute: func(c ctx, _ *courier.Context) error { return sleepOrEnd(c, time.Hour) }}
		start := time.Now()
		x := timed(t, h, one, s, `"retry_step"`, 0)
		time.Sleep(10 * time.Second)
		if err := one.Stop(t.Context()); err != nil || !about(time.Since(start), 40*time.Second) {
			t.Fatalf("Stop: %v after %v", err, time.Since(start))
		}
		if err := two.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := h.Wait(x.ID)
		requireTimedOut(t, r, start, time.Minute)
		r.RequireTrace("0 demo.a completed", "1 demo.tidy failed")
		s.require(t, "execute 1", "cleanup 1", "execute 1", "rollback 1")
	})
}

// TestExecutionTimeoutOfAStuckStep lets the execution's timeout meet a step that
// does not listen.
func TestExecutionTimeoutOfAStuckStep(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		s := &tidy{execute: func(ctx, *courier.Context) error { time.Sleep(time.Hour); return nil }}
		start := time.Now()
		x := timed(t, h, h.Engine, s, `"retry_step"`, 0)
		r := h.Wait(x.ID).RequireError("did not stop within 10s")
		requireTimedOut(t, r, start, 70*time.Second)
		s.require(t, "execute 1")
		time.Sleep(2 * time.Hour)
	})
}

// A sluggish step cleans up for longer than it may.
type sluggish struct {
	mu    sync.Mutex
	calls []string
}

func (s *sluggish) note(call string, attempt int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprint(call, " ", attempt))
}

func (s *sluggish) Execute(_ ctx, job *courier.Context, _ struct{}) (struct{}, error) {
	s.note("execute", job.Attempt())
	if job.Attempt() == 1 {
		return struct{}{}, errors.New("boom")
	}
	return struct{}{}, nil
}

func (s *sluggish) Cleanup(_ ctx, job *courier.Context, _ struct{}) error {
	s.note("cleanup", job.Attempt())
	if job.Attempt() == 2 {
		time.Sleep(time.Minute)
	}
	return nil
}

func (s *sluggish) Rollback(ctx, *courier.Context, struct{}) error { return nil }

// An attempt that was cut off during its Cleanup does not go on to Execute when
// that returns at last.
func TestNoExecuteAfterACleanupThatWasCutOff(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		s := new(sluggish)
		courier.Register(h.Registry, "demo.sluggish", s, nil)
		h.Run(h.Job(`{"name": "s", "failure_policy": {"type": "retry_step", "max_retries": 3}, "steps": [{"type": "demo.sluggish", "timeout_seconds": 1}]}`), nil).
			RequireState(courier.Completed)
		time.Sleep(time.Hour)
		if want := []string{"execute 1", "cleanup 2", "cleanup 3", "execute 3"}; !slices.Equal(s.calls, want) {
			t.Errorf("calls %v, want %v", s.calls, want)
		}
	})
}
