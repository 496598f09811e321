package engine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/stepcontext"
)

var errBoom = errors.New("boom")

// failing registers a step type that fails at once, and notes when it was called.
func failing(h *couriertest.Harness, typ string) *[]time.Time {
	calls := new([]time.Time)
	h.Stub(typ, func(ctx, *courier.Context, map[string]any) (map[string]any, error) {
		*calls = append(*calls, time.Now())
		return nil, errBoom
	})
	return calls
}

// TestBackoffIsExact lets a step fail more than a thousand times, and asserts the
// instant of every attempt.
func TestBackoffIsExact(t *testing.T) {
	for _, test := range []struct {
		name      string
		policy    courier.Policy
		base, max time.Duration
		retries   int
		delay     func(n int) time.Duration
	}{
		{"defaults", courier.RetryStep, time.Second, time.Minute, 8, func(n int) time.Duration {
			return []time.Duration{1, 2, 4, 8, 16, 32, 60, 60}[n] * time.Second
		}},
		{"beyond 64 bits", courier.RetryStep, time.Millisecond, 5 * time.Second, 1005, func(n int) time.Duration {
			if n >= 13 { // 2^13 ms are more than 5 s
				return 5 * time.Second
			}
			return time.Millisecond << n
		}},
		{"base above the most", courier.RetryStep, time.Hour, 9 * time.Second, 70, func(int) time.Duration { return 9 * time.Second }},
		{"none", courier.RetryStep, 0, time.Minute, 70, func(int) time.Duration { return 0 }},
		{"of the job", courier.RetryJob, 3 * time.Second, 20 * time.Second, 70, func(n int) time.Duration {
			return min(3*time.Second<<min(n, 20), 20*time.Second)
		}},
	} {
		for _, started := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, started %v", test.name, started), func(t *testing.T) {
				couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
					calls := failing(h, "demo.a")
					job := courier.Job{Name: "a", Steps: []courier.StepSpec{{Type: "demo.a"}}}
					job.FailurePolicy = courier.FailurePolicy{Type: test.policy, MaxRetries: &test.retries, BackoffBase: &test.base, BackoffMax: &test.max, Jitter: courier.JitterNone}
					var r *couriertest.Result
					if started {
						r = h.Wait(begin(t, h.Engine, job, nil).ID)
					} else {
						r = h.Run(job, nil)
					}
					r.RequireState(courier.Failed)
					if len(*calls) != test.retries+1 || len(r.Steps) != test.retries+1 {
						t.Fatalf("%d calls and %d records, want %d", len(*calls), len(r.Steps), test.retries+1)
					}
					for n := range test.retries {
						if got, want := (*calls)[n+1].Sub((*calls)[n]), test.delay(n); got != want && (want > 0 || !about(got, want)) {
							t.Errorf("retry %d came after %v, want %v", n, got, want)
						}
					}
					for i, s := range r.Steps {
						attempt, ofJob := i+1, 1
						if test.policy == courier.RetryJob {
							attempt, ofJob = 1, i+1
						}
						if at := (*calls)[i]; !s.StartedAt.Equal(at) || !s.EndedAt.Equal(at) || s.State != courier.StepFailed || s.Error != "boom" || s.Attempt != attempt || s.ExecutionAttempt != ofJob {
							t.Errorf("record %d: %+v", i, s)
						}
					}
					requireAudit(t, r)
				})
			})
		}
	}
}

// TestFailureIsToldOnce counts the events of an execution that fails in the end.
func TestFailureIsToldOnce(t *testing.T) {
	for policy, want := range map[string]string{
		`{"type": "retry_step", "max_retries": 2}`: "JobStarted StepStarted#1 StepFailed#1 StepStarted#2 StepFailed#2 StepStarted#3 StepFailed#3 JobFailed#3",
		`{"type": "retry_job", "max_retries": 2}`:  "JobStarted StepStarted#1 StepFailed#1 StepStarted#1 StepFailed#1 StepStarted#1 StepFailed#1 JobFailed#1",
		`"stop"`: "JobStarted StepStarted#1 StepFailed#1 JobFailed#1",
	} {
		synctest.Test(t, func(t *testing.T) {
			var got []string
			h := couriertest.New(t, &engine.Options{Observers: []func(courier.Event){func(e courier.Event) {
				name := string(e.Type)
				if e.Step >= 0 {
					name += fmt.Sprintf("#%d", e.Attempt)
				} else if e.Type == courier.EventJobFailed && !strings.Contains(e.Error, "boom") {
					t.Errorf("event %+v", e)
				}
				got = append(got, name)
			}}})
			failing(h, "demo.a")
			h.Run(h.Job(`{"name": "a", "failure_policy": `+policy+`, "steps": [{"type": "demo.a"}]}`), nil).RequireState(courier.Failed)
			if s := strings.Join(got, " "); s != want {
				t.Errorf("%s: events %s, want %s", policy, s, want)
			}
		})
	}
}

// TestBudgetOfRetries lets steps fail as often as each may: the budget is that
// of one step in one iteration.
func TestBudgetOfRetries(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		failed := make(map[string]int)
		h.Stub("demo.a", func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
			if key := fmt.Sprint(job.Step(), job.Iteration()); failed[key] < 2 {
				failed[key]++
				return nil, errBoom
			}
			return nil, nil
		})
		r := h.Run(h.Job(`{"name": "a", "failure_policy": {"type": "retry_step", "max_retries": 2}, "steps": [{"type": "demo.a"},
			{"type": "flow.foreach", "config": {"source": [1, 2]}}, {"type": "demo.a"}, {"type": "flow.end"}, {"type": "demo.a"}]}`), nil).RequireState(courier.Completed)
		want := []string{}
		for _, step := range []string{"0 demo.a", "2 demo.a[0]", "2 demo.a[1]", "4 demo.a"} {
			want = append(want, step+" failed", step+"#2 failed", step+"#3 completed")
		}
		r.RequireTrace(want...)
		requireAudit(t, r)
	})
}

// tidy is a step that fails until it is told not to, and notes every call of
// its abilities with the attempt's number.
type tidy struct {
	calls   []string
	fails   int
	execute func(c ctx, job *courier.Context) error
	cleanup func(c ctx, job *courier.Context) error
}

func (s *tidy) note(what string, job *courier.Context) {
	if job.Cancelled() {
		what += " cancelled"
	}
	s.calls = append(s.calls, fmt.Sprintf("%s %d", what, job.Attempt()))
}

func (s *tidy) Execute(c ctx, job *courier.Context, _ struct{}) (struct{}, error) {
	s.note("execute", job)
	if s.execute != nil {
		return struct{}{}, s.execute(c, job)
	}
	if s.fails > 0 {
		s.fails--
		return struct{}{}, errBoom
	}
	return struct{}{}, nil
}

func (s *tidy) Cleanup(c ctx, job *courier.Context, _ struct{}) error {
	s.note("cleanup", job)
	if s.cleanup != nil {
		return s.cleanup(c, job)
	}
	return nil
}

func (s *tidy) Rollback(_ ctx, job *courier.Context, _ struct{}) error {
	s.note("rollback", job)
	return nil
}

func (s *tidy) require(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(s.calls, want) {
		t.Errorf("calls %q, want %q", s.calls, want)
	}
	s.calls = nil
}

func tidyJob(policy string) string {
	return `{"name": "tidy", "failure_policy": ` + policy + `, "steps": [{"type": "demo.a"}, {"type": "demo.tidy", "timeout_seconds": 45}]}`
}

func TestCleanupIsPartOfTheAttempt(t *testing.T) {
	for name, test := range map[string]struct {
		cleanup func(c ctx, job *courier.Context) error
		want    string
		reason  courier.Reason
	}{
		"fails":  {func(ctx, *courier.Context) error { return errBoom }, "clean up after the last attempt: boom", courier.ReasonError},
		"panics": {func(ctx, *courier.Context) error { panic("bang") }, "panic: bang", courier.ReasonPanic},
		"hangs":  {func(c ctx, _ *courier.Context) error { <-c.Done(); return c.Err() }, "timed out after 45s", courier.ReasonTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
				h.Stub("demo.a", nil)
				s := &tidy{fails: 1, cleanup: test.cleanup}
				courier.Register(h.Registry, "demo.tidy", s, nil)
				r := h.Run(h.Job(tidyJob(`{"type": "retry_step", "max_retries": 1}`)), nil).RequireState(courier.Failed).RequireError(test.want)
				s.require(t, "execute 1", "cleanup 2", "rollback 2")
				if rec := r.Steps[2]; rec.Attempt != 2 || rec.Reason != test.reason {
					t.Errorf("record %+v", rec)
				}
				requireAudit(t, r)
			})
		})
	}
}

// TestCleanupAfterAnInterruption stops the engine in the middle of a step: the
// next one goes on with the same attempt, and cleans up first.
func TestCleanupAfterAnInterruption(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		dir := t.TempDir()
		one, two := another(t, h, h.Store, dir), another(t, h, h.Store, dir)
		h.Stub("demo.a", nil)
		s := &tidy{execute: func(c ctx, _ *courier.Context) error { <-c.Done(); return c.Err() }}
		courier.Register(h.Registry, "demo.tidy", s, nil)
		x := begin(t, one, h.Job(tidyJob(`{"type": "retry_step", "max_retries": 0}`)), nil)
		if err := one.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.execute = nil
		if err := errors.Join(errOf(two.Pause(t.Context(), x.ID, courier.By{Actor: "ops"})), errOf(two.Resume(t.Context(), x.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}})), two.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
		r := h.Wait(x.ID).RequireState(courier.Completed).RequireTrace("0 demo.a completed", "1 demo.tidy completed")
		s.require(t, "execute 1", "cleanup 1", "execute 1")
		requireAudit(t, r)
	})
}

// TestNoCleanupWithoutAnAttempt pauses before the first attempt of a step.
func TestNoCleanupWithoutAnAttempt(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.a", func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
			return nil, errOf(h.Engine.Pause(t.Context(), job.Execution(), courier.By{Actor: "ops"}))
		})
		s := new(tidy)
		courier.Register(h.Registry, "demo.tidy", s, nil)
		x := begin(t, h.Engine, h.Job(tidyJob(`"stop"`)), nil)
		if x.State != courier.Paused || x.StepAttempts != 0 {
			t.Fatalf("%s after %d attempts", x.State, x.StepAttempts)
		}
		if _, err := h.Engine.Resume(t.Context(), x.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		h.Wait(x.ID).RequireState(courier.Completed)
		s.require(t, "execute 1")
	})
}

// TestStopDuringBackoff stops the engine while an execution waits for a retry:
// another one makes it, when it is due.
func TestStopDuringBackoff(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		dir := t.TempDir()
		one, two := another(t, h, h.Store, dir), another(t, h, h.Store, dir)
		h.Stub("demo.a", nil)
		s, begun := &tidy{fails: 1}, time.Now()
		courier.Register(h.Registry, "demo.tidy", s, nil)
		x := begin(t, one, h.Job(tidyJob(`{"type": "retry_step", "backoff_base_seconds": 60, "jitter": false}`)), nil)
		time.Sleep(10 * time.Second)
		asked := time.Now()
		if err := one.Stop(t.Context()); err != nil || !about(time.Since(asked), 0) {
			t.Errorf("Stop: %v after %v", err, time.Since(asked))
		}
		if err := two.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := h.Wait(x.ID).RequireState(courier.Completed).RequireTrace("0 demo.a completed", "1 demo.tidy failed", "1 demo.tidy#2 completed")
		if got := r.Steps[2].StartedAt.Sub(begun); got != time.Minute {
			t.Errorf("the retry came after %v, want 1 m", got)
		}
		s.require(t, "execute 1", "cleanup 2", "execute 2")
		requireAudit(t, r)
	})
}

func TestCancelDuringBackoff(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		dir := t.TempDir()
		e := another(t, h, h.Store, dir)
		h.Stub("demo.a", func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
			w, err := job.Files().Create("out")
			if err == nil {
				err = w.Commit()
			}
			return nil, err
		})
		s := &tidy{fails: 1}
		courier.Register(h.Registry, "demo.tidy", s, nil)
		x := begin(t, e, h.Job(tidyJob(`{"type": "retry_step", "backoff_base_seconds": 60, "jitter": false}`)), nil)
		if _, err := e.Cancel(t.Context(), x.ID, &courier.CancelOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		r := h.Wait(x.ID).RequireState(courier.Cancelled)
		s.require(t, "execute 1", "rollback cancelled 1")
		if _, err := os.Stat(filepath.Join(dir, string(x.ID))); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the workspace is still there: %v", err)
		}
		time.Sleep(time.Hour)
		s.require(t)
		requireAudit(t, r)
	})
}

// TestPauseDuringBackoffGivesAFreshBudget pauses during the last backoff.
func TestPauseDuringBackoffGivesAFreshBudget(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.a", nil)
		s := &tidy{fails: 5}
		courier.Register(h.Registry, "demo.tidy", s, nil)
		x := begin(t, h.Engine, h.Job(tidyJob(`{"type": "retry_step", "max_retries": 2, "backoff_base_seconds": 10, "jitter": false}`)), nil)
		time.Sleep(15 * time.Second) // the second retry comes after 30 s
		if _, err := h.Engine.Pause(t.Context(), x.ID, courier.By{Actor: "ops"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		resumed := time.Now()
		if _, err := h.Engine.Resume(t.Context(), x.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		r := h.Wait(x.ID).RequireState(courier.Failed)
		r.RequireTrace("0 demo.a completed", "1 demo.tidy failed", "1 demo.tidy#2 failed", "1 demo.tidy#3 failed", "1 demo.tidy#4 failed", "1 demo.tidy#5 failed")
		for i, want := range []time.Duration{0, 10 * time.Second, 30 * time.Second} {
			if got := r.Steps[3+i].StartedAt.Sub(resumed); !about(got, want) {
				t.Errorf("attempt %d began %v after the resume, want %v", 3+i, got, want)
			}
		}
		requireAudit(t, r)
	})
}

func TestPermanentEndsRetries(t *testing.T) {
	wrapped := fmt.Errorf("upload: %w", courier.Permanent(errBoom))
	for _, policy := range []string{`{"type": "retry_step", "jitter": false}`, `{"type": "retry_job", "jitter": false}`} {
		couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
			h.Stub("demo.a", couriertest.Fails(errBoom, wrapped))
			start := time.Now()
			r := h.Run(h.Job(`{"name": "a", "failure_policy": `+policy+`, "steps": [{"type": "demo.a"}]}`), nil).RequireState(courier.Failed)
			if len(r.Steps) != 2 || !about(time.Since(start), time.Second) || !errors.Is(r.Err, errBoom) {
				t.Errorf("%s: %v after %v, %v", policy, r.Trace(), time.Since(start), r.Err)
			}
		})
	}
}

// TestRetryJob fails in a loop in the first and second attempt of a job, for
// good, and resumes it.
func TestRetryJob(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		dir := t.TempDir()
		e := another(t, h, h.Store, dir)
		fails := 2
		var dirs []string
		h.Stub("demo.a", func(_ ctx, job *courier.Context, cfg map[string]any) (map[string]any, error) {
			if _, err := job.Files().Stat("left"); !errors.Is(err, os.ErrNotExist) || len(stepcontext.Of(job).Snapshot()) != 5 {
				t.Errorf("the attempt begins with %v, and a file: %v", stepcontext.Of(job).Snapshot(), err)
			}
			w, err := job.Files().Create("left")
			if err == nil {
				err = w.Commit()
			}
			return m{"attempt": cfg["n"]}, err
		})
		h.Stub("demo.b", func(_ ctx, job *courier.Context, cfg map[string]any) (map[string]any, error) {
			dirs = append(dirs, job.Files().Dir())
			if job.Iteration()[0] == 1 && fails > 0 {
				fails--
				return nil, errBoom
			}
			return m{"n": cfg["n"]}, nil
		})
		x := begin(t, e, h.Job(`{"name": "a", "failure_policy": {"type": "retry_job", "max_retries": 1, "backoff_base_seconds": 7, "jitter": false}, "steps": [
			{"type": "demo.a", "config": {"n": "context:job.attempt"}}, {"type": "flow.foreach", "config": {"source": [1, 2]}},
			{"type": "demo.b", "config": {"n": "context:0.attempt"}}, {"type": "flow.end"}]}`), nil)
		if x.Status(time.Now()) != "scheduled" || x.Attempt != 2 || x.Position.Step != 0 || x.Failure == nil {
			t.Fatalf("during the backoff: %s, attempt %d at %v, %v", x.Status(time.Now()), x.Attempt, x.Position, x.Failure)
		}
		r := h.Wait(x.ID).RequireState(courier.Failed).RequireValue("0.attempt", 2)
		first := []string{"0 demo.a completed", "2 demo.b[0] completed", "2 demo.b[1] failed"}
		r.RequireTrace(slices.Concat(first, first)...)
		if r.Steps[2].ExecutionAttempt != 1 || r.Steps[3].ExecutionAttempt != 2 || r.Steps[3].StartedAt.Sub(r.Steps[2].EndedAt) != 7*time.Second {
			t.Errorf("records %+v", r.Steps)
		}
		if _, err := os.Stat(filepath.Join(dir, string(x.ID), "left")); err != nil {
			t.Errorf("a failed execution keeps its files: %v", err)
		}
		fails = 1
		if _, err := e.Resume(t.Context(), x.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		// The budget is fresh: one more failure starts the job over once more.
		r = h.Wait(x.ID).RequireState(courier.Completed).RequireValue("2.n", 3)
		r.RequireTrace(slices.Concat(first, first, []string{"2 demo.b[1]#2 failed", "0 demo.a completed", "2 demo.b[0] completed", "2 demo.b[1] completed"})...)
		if want := []string{"2/0/1", "2/1/1", "again-2/2/0/1", "again-2/2/1/1", "again-2/2/1/2", "again-3/2/0/1", "again-3/2/1/1"}; !slices.Equal(dirs, want) {
			t.Errorf("directories %v, want %v", dirs, want)
		}
		if r.Attempt != 3 {
			t.Errorf("attempt %d", r.Attempt)
		}
		requireAudit(t, r)
	})
}

// TestPauseBetweenAttemptsOfTheJob resumes in the backoff of a retry of the job.
func TestPauseBetweenAttemptsOfTheJob(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.a", couriertest.Returns(m{"x": 1}))
		h.Stub("demo.b", couriertest.Fails(errBoom))
		x := begin(t, h.Engine, h.Job(`{"name": "a", "failure_policy": {"type": "retry_job", "backoff_base_seconds": 60}, "steps": [{"type": "demo.a"}, {"type": "demo.b"}]}`), nil)
		if err := errors.Join(errOf(h.Engine.Pause(t.Context(), x.ID, courier.By{Actor: "ops"})), errOf(h.Engine.Resume(t.Context(), x.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}))); err != nil {
			t.Fatal(err)
		}
		quiet()
		r := h.Wait(x.ID).RequireState(courier.Completed).RequireTrace("0 demo.a completed", "1 demo.b failed", "0 demo.a completed", "1 demo.b completed")
		if r.Attempt != 2 || !about(r.EndedAt.Sub(r.CreatedAt), 0) {
			t.Errorf("attempt %d after %v", r.Attempt, r.EndedAt.Sub(r.CreatedAt))
		}
		requireAudit(t, r)
	})
}

// TestSkipAndContinue skips steps and markers, at the ends of loops and
// branches, and everywhere the execution goes on behind them.
func TestSkipAndContinue(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		rolled := &tidy{execute: func(ctx, *courier.Context) error { return courier.Permanent(errBoom) }}
		courier.Register(h.Registry, "demo.bad", rolled, nil)
		good := h.Stub("demo.good", couriertest.Returns(m{"x": 1}))
		start := time.Now()
		r := h.Run(h.Job(`{"name": "skip", "failure_policy": "skip_and_continue", "steps": [
			{"type": "demo.bad"},
			{"type": "flow.foreach", "config": {"source": [1, 2]}},
				{"type": "flow.if", "config": {"left": "context:loop.index", "operator": "equals", "right": 0}},
					{"type": "demo.bad"},
				{"type": "flow.else"},
					{"type": "flow.foreach", "config": {"source": "context:0.none"}}, {"type": "demo.good"}, {"type": "flow.end"},
					{"type": "demo.bad"},
				{"type": "flow.end"},
				{"type": "flow.if", "config": {"left": "context:3.none", "operator": "equals", "right": 1}}, {"type": "demo.good"}, {"type": "flow.else"}, {"type": "demo.good"}, {"type": "flow.end"},
				{"type": "demo.good"},
				{"type": "demo.bad"},
			{"type": "flow.end"},
			{"type": "demo.bad"}]}`), nil).RequireState(courier.Completed)
		r.RequireTrace("0 demo.bad skipped",
			"3 demo.bad[0] skipped", "10 flow.if[0] skipped", "15 demo.good[0] completed", "16 demo.bad[0] skipped",
			"5 flow.foreach[1] skipped", "8 demo.bad[1] skipped", "10 flow.if[1] skipped", "15 demo.good[1] completed", "16 demo.bad[1] skipped",
			"18 demo.bad skipped")
		if d := time.Since(start); d != 0 || r.Err != nil || r.Failure != nil || len(good.Calls()) != 2 {
			t.Errorf("took %v, %v, %v, %d calls", d, r.Err, r.Failure, len(good.Calls()))
		}
		for _, s := range r.Steps {
			if s.State == courier.StepSkipped && s.Error == "" {
				t.Errorf("a skipped step lost its error: %+v", s)
			}
		}
		rolled.require(t, "execute 1", "rollback 1", "execute 1", "rollback 1", "execute 1", "rollback 1",
			"execute 1", "rollback 1", "execute 1", "rollback 1", "execute 1", "rollback 1")
		requireAudit(t, r)
	})
}

// TestOutputsOfFailedAttemptsAreNoValues lets an attempt set values and fail.
func TestOutputsOfFailedAttemptsAreNoValues(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		courier.RegisterFunc(h.Registry, "demo.a", func(_ ctx, job *courier.Context, _ struct{}) (m, error) {
			if job.Attempt() == 1 {
				return m{"failed": true}, errors.Join(job.Set("early", true), errBoom)
			}
			return m{"good": true}, nil
		}, nil)
		r := h.Run(h.Job(`{"name": "a", "failure_policy": "retry_step", "steps": [{"type": "demo.a"}]}`), nil).RequireState(courier.Completed)
		r.RequireValue("0.good", true).RequireNoValue("0.failed").RequireNoValue("0.early")
		if len(r.Steps[0].Outputs) != 0 {
			t.Errorf("the failed attempt has outputs: %s", r.Steps[0].Outputs)
		}
	})
}
