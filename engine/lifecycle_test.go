package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
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

// recorder is a step that notes which of its abilities were called, and fails
// as often as it is told to.
type recorder struct {
	calls []string
	fail  int
	block func(ctx)
}

func (r *recorder) note(what string, job *courier.Context) {
	if job.Cancelled() {
		what += " cancelled"
	}
	r.calls = append(r.calls, what)
}

func (r *recorder) Execute(c ctx, job *courier.Context, _ struct{}) (struct{}, error) {
	r.note("execute", job)
	if r.block != nil {
		r.block(c)
	}
	if r.fail > 0 {
		r.fail--
		return struct{}{}, errors.New("boom")
	}
	return struct{}{}, nil
}

func (r *recorder) Cleanup(_ ctx, job *courier.Context, _ struct{}) error {
	r.note("cleanup", job)
	return nil
}

func (r *recorder) Rollback(_ ctx, job *courier.Context, _ struct{}) error {
	r.note("rollback", job)
	return nil
}

const recordedJob = `{"name": "r", "failure_policy": {"type": "retry_step", "max_retries": 1}, "steps": [{"type": "demo.rec"}]}`

func TestCleanupAndRollback(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		rec := &recorder{fail: 2}
		courier.Register(h.Registry, "demo.rec", rec, nil)
		r := h.Run(h.Job(recordedJob), nil).RequireState(courier.Failed)
		if want := []string{"execute", "cleanup", "execute", "rollback"}; !reflect.DeepEqual(rec.calls, want) {
			t.Errorf("calls %v, want %v", rec.calls, want)
		}
		rec.calls, rec.fail = nil, 1
		if _, err := h.Engine.Resume(t.Context(), r.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		if err := h.Engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		// The budget of retries is fresh: one more failure is survived.
		h.Wait(r.ID).RequireState(courier.Completed).RequireTrace("0 demo.rec failed", "0 demo.rec#2 failed", "0 demo.rec#3 failed", "0 demo.rec#4 completed")
		if want := []string{"cleanup", "execute", "cleanup", "execute"}; !reflect.DeepEqual(rec.calls, want) {
			t.Errorf("calls after the resume %v, want %v", rec.calls, want)
		}
	})
}

func TestCancelRollsBack(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		rec := &recorder{fail: 2}
		courier.Register(h.Registry, "demo.rec", rec, nil)
		r := h.Run(h.Job(recordedJob), nil).RequireState(courier.Failed)
		rec.calls = nil
		if _, err := h.Engine.Cancel(t.Context(), r.ID, &courier.CancelOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		if want := []string{"rollback cancelled"}; !reflect.DeepEqual(rec.calls, want) {
			t.Errorf("cancel of a failed execution called %v, want %v", rec.calls, want)
		}

		rec.calls, rec.block = nil, func(c ctx) { <-c.Done() }
		rec.fail = 1
		go func() {
			time.Sleep(time.Second)
			list, _ := h.Engine.Executions().List(t.Context(), storeFilter{States: []courier.State{courier.Running}})
			if _, err := h.Engine.Cancel(t.Context(), list[0].ID, &courier.CancelOptions{By: courier.By{Actor: "ops"}}); err != nil {
				t.Error(err)
			}
		}()
		h.Run(h.Job(recordedJob), nil).RequireState(courier.Cancelled)
		if want := []string{"execute", "rollback cancelled"}; !reflect.DeepEqual(rec.calls, want) {
			t.Errorf("cancel of a running execution called %v, want %v", rec.calls, want)
		}
	})
}

func TestCancelRemovesTheWorkspaceOfAFailedExecution(t *testing.T) {
	dir := t.TempDir()
	h := couriertest.New(t, &engine.Options{Workspace: dir})
	h.Stub("demo.a", func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
		w, err := job.Files().Create("left.txt")
		if err == nil {
			err = w.Commit()
		}
		return nil, errors.Join(err, errors.New("boom"))
	})
	r := h.Run(h.Job(`{"name": "a", "steps": [{"type": "demo.a"}]}`), nil).RequireState(courier.Failed)
	if _, err := os.Stat(filepath.Join(dir, string(r.ID), "left.txt")); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Engine.Cancel(t.Context(), r.ID, &courier.CancelOptions{By: courier.By{Actor: "ops"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, string(r.ID))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the workspace is still there: %v", err)
	}
}

func TestRetryJobStartsWithAnEmptyWorkspace(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.a", func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
			if _, err := job.Files().Stat("left.txt"); err == nil {
				return nil, courier.Permanent(errors.New("a file of the first attempt is there"))
			}
			w, err := job.Files().Create("left.txt")
			if err != nil {
				return nil, err
			}
			return m{"dir": job.Files().Dir()}, w.Commit()
		})
		h.Stub("demo.b", couriertest.Fails(errors.New("boom")))
		r := h.Run(h.Job(`{"name": "a", "failure_policy": "retry_job", "steps": [{"type": "demo.a"}, {"type": "demo.b"}]}`), nil)
		r.RequireState(courier.Completed).RequireValue("0.dir", "again-2/0/1")
		if r.Attempt != 2 || r.Steps[2].ExecutionAttempt != 2 || r.Steps[0].ExecutionAttempt != 1 {
			t.Errorf("attempt %d, records %+v", r.Attempt, r.Steps)
		}
		requireAudit(t, r)
	})
}

func TestResumeRestartsTheLoopIfTheMarkerSaysSo(t *testing.T) {
	for mode, want := range map[string][]string{
		"continue": {"1 demo.a[0] completed", "1 demo.a[1] failed", "1 demo.a[1]#2 completed"},
		"restart":  {"1 demo.a[0] completed", "1 demo.a[1] failed", "1 demo.a[0]#2 completed", "1 demo.a[1] completed"},
	} {
		h := couriertest.New(t, nil)
		calls := 0
		h.Stub("demo.a", func(ctx, *courier.Context, map[string]any) (map[string]any, error) {
			if calls++; calls == 2 {
				return nil, errors.New("boom")
			}
			return nil, nil
		})
		r := h.Run(h.Job(`{"name": "a", "steps": [{"type": "flow.foreach", "config": {"source": ["x", "y"], "on_resume": "`+mode+`"}}, {"type": "demo.a"}, {"type": "flow.end"}]}`), nil)
		r.RequireState(courier.Failed)
		if _, err := h.Engine.Resume(t.Context(), r.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		if err := h.Engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		r = h.Wait(r.ID).RequireState(courier.Completed)
		got := r.Trace()
		if mode == "restart" { // which attempt number a restarted iteration has is not promised
			for i := range got {
				got[i], want[i] = strings.ReplaceAll(got[i], "#2", ""), strings.ReplaceAll(want[i], "#2", "")
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", mode, got, want)
		}
		requireAudit(t, r)
	}
}

func TestSkippedStepsInLoopsAndBranches(t *testing.T) {
	h := couriertest.New(t, nil)
	stubs := loopStubs(h, func(typ string, job *courier.Context) error {
		if typ == "demo.get" && job.Iteration()[0] == 1 || typ == "demo.small" && job.Iteration()[0] == 0 {
			return errors.New("boom")
		}
		return nil
	})
	job := h.Job(loopJob)
	job.FailurePolicy.Type = courier.SkipAndContinue
	r := h.Run(job, nil).RequireState(courier.Completed)
	r.RequireTrace(
		"0 demo.list completed",
		"2 demo.get[0] completed", "6 demo.small[0] skipped",
		"2 demo.get[1] skipped", "4 demo.big[1] skipped", // its input is missing: never the file of iteration 0
		"2 demo.get[2] completed", "6 demo.small[2] completed",
		"9 demo.last completed")
	if len(stubs["big"].Calls()) != 0 {
		t.Errorf("demo.big got a file of another iteration: %v", stubs["big"].Calls())
	}
	if !strings.Contains(r.Steps[3].Error, "boom") {
		t.Errorf("a skipped step lost its error: %+v", r.Steps[3])
	}
	requireAudit(t, r)
}

func TestPauseIsWithdrawnByResume(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		id, open := startThree(t, h)
		if err := errors.Join(errOf(h.Engine.Pause(t.Context(), id, courier.By{Actor: "ops"})), errOf(h.Engine.Resume(t.Context(), id, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}))); err != nil {
			t.Fatal(err)
		}
		close(open)
		requireAudit(t, h.Wait(id).RequireState(courier.Completed))
	})
}

func TestPauseDuringBackoff(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.a", couriertest.Fails(errors.New("boom")))
		if _, err := h.Engine.Jobs().Define(t.Context(), h.Job(`{"name": "a", "failure_policy": {"type": "retry_step", "backoff_base_seconds": 60}, "steps": [{"type": "demo.a"}]}`), nil); err != nil {
			t.Fatal(err)
		}
		if err := h.Engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		x, err := h.Engine.Enqueue(t.Context(), "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if x, _ = h.Engine.Executions().Get(t.Context(), x.ID); x.Status(time.Now()) != "scheduled" || x.Failure == nil {
			t.Fatalf("during backoff: %s, %v", x.Status(time.Now()), x.Failure)
		}
		if _, err := h.Engine.Pause(t.Context(), x.ID, courier.By{Actor: "ops"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if x, _ = h.Engine.Executions().Get(t.Context(), x.ID); x.State != courier.Paused {
			t.Fatalf("paused during backoff, but %s", x.State)
		}
		if _, err := h.Engine.Resume(t.Context(), x.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		requireAudit(t, h.Wait(x.ID).RequireState(courier.Completed).RequireTrace("0 demo.a failed", "0 demo.a#2 completed"))
	})
}

func TestThreeLostWorkersFailTheExecution(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		a := h.Stub("demo.a", nil)
		if _, err := h.Engine.Jobs().Define(t.Context(), h.Job(`{"name": "a", "steps": [{"type": "demo.a"}]}`), nil); err != nil {
			t.Fatal(err)
		}
		x, err := h.Engine.Enqueue(t.Context(), "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			claimDead(t, h, x.ID)
			time.Sleep(16 * time.Second)
		}
		if err := h.Engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := h.Wait(x.ID).RequireState(courier.Failed).RequireError("3 workers were lost")
		if r.Failure.Reason != courier.ReasonWorkerLost || len(a.Calls()) != 0 {
			t.Errorf("reason %s, calls %v", r.Failure.Reason, a.Calls())
		}
		requireAudit(t, r)
		if _, err := h.Engine.Resume(t.Context(), x.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		h.Wait(x.ID).RequireState(courier.Completed)
	})
}

func TestWatchdogEndsTheStepBeforeTheLeaseEnds(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		broken := &brokenRenew{Store: h.Store}
		var ended time.Duration
		start := time.Now()
		courier.RegisterFunc(h.Registry, "demo.wait", func(c ctx, _ *courier.Context, _ struct{}) (struct{}, error) {
			<-c.Done()
			if ended == 0 {
				ended = time.Since(start)
				if !errors.Is(contextCause(c), courier.ErrLeaseLost) {
					t.Errorf("cause = %v", contextCause(c))
				}
			}
			return struct{}{}, c.Err()
		}, nil)
		e := engine.New(broken, h.Registry, &engine.Options{Workspace: t.TempDir(), Poll: time.Hour})
		if _, err := e.Jobs().Define(t.Context(), h.Job(`{"name": "a", "steps": [{"type": "demo.wait"}]}`), nil); err != nil {
			t.Fatal(err)
		}
		x, err := e.Enqueue(t.Context(), "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(14 * time.Second)
		synctest.Wait()
		if ended == 0 || ended >= 15*time.Second {
			t.Errorf("the step ended after %v, the lease lasts 15 s", ended)
		}
		if steps, _ := h.Engine.Executions().Steps(t.Context(), x.ID); len(steps) != 0 {
			t.Errorf("the loser wrote %v", steps)
		}
		if err := e.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestResumeSeesNoValuesOfEarlierIterations interrupts the second iteration,
// in which the branch of the first was not taken.
func TestResumeSeesNoValuesOfEarlierIterations(t *testing.T) {
	h := couriertest.New(t, nil)
	h.Stub("demo.a", couriertest.Returns(m{"file": "of the first"}))
	failed := false
	h.Stub("demo.b", func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
		if job.Iteration()[0] == 1 && !failed {
			failed = true
			return nil, errors.New("boom")
		}
		return nil, nil
	})
	stale := h.Stub("demo.stale", nil)
	r := h.Run(h.Job(`{"name": "s", "steps": [
		{"type": "flow.foreach", "config": {"source": [1, 2]}},
		{"type": "flow.if", "config": {"left": "context:loop.current_item", "operator": "equals", "right": 1}},
		{"type": "demo.a"}, {"type": "flow.end"},
		{"type": "demo.b"},
		{"type": "flow.if", "config": {"left": "context:2.file", "operator": "exists"}},
		{"type": "flow.if", "config": {"left": "context:loop.index", "operator": "equals", "right": 1}},
		{"type": "demo.stale"}, {"type": "flow.end"}, {"type": "flow.end"},
		{"type": "flow.end"}]}`), nil).RequireState(courier.Failed)
	if _, err := h.Engine.Resume(t.Context(), r.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); err != nil {
		t.Fatal(err)
	}
	if err := h.Engine.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.Wait(r.ID).RequireState(courier.Completed)
	if len(stale.Calls()) != 0 {
		t.Error("after the resume the second iteration saw the file of the first")
	}
}

// TestAbandonedStepCannotAnswerForTheNext lets a step that was cut off return
// while the next one runs.
func TestAbandonedStepCannotAnswerForTheNext(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.stuck", func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
			time.Sleep(30 * time.Second) // its timeout is 1 s, and the grace period 10 s
			if _, err := job.Files().Create("late.txt"); !errors.Is(err, os.ErrClosed) {
				t.Errorf("the abandoned step could still write: %v", err)
			}
			if s := stepcontext.Of(job).Snapshot(); len(s) != 0 {
				t.Errorf("the abandoned step still sees values: %v", s)
			}
			return m{"from": "stuck"}, nil
		})
		h.Stub("demo.next", func(ctx, *courier.Context, map[string]any) (map[string]any, error) {
			time.Sleep(time.Minute)
			return m{"from": "next"}, nil
		})
		r := h.Run(h.Job(`{"name": "s", "failure_policy": "skip_and_continue", "steps": [{"type": "demo.stuck", "timeout_seconds": 1}, {"type": "demo.next"}]}`), nil)
		r.RequireState(courier.Completed).RequireTrace("0 demo.stuck skipped", "1 demo.next completed").RequireValue("1.from", "next")
		requireAudit(t, r)
	})
}

func TestExecutionTimeoutUnderThePolicyStop(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		rec := &recorder{fail: 1, block: func(c ctx) { <-c.Done() }}
		courier.Register(h.Registry, "demo.rec", rec, nil)
		r := h.RunWith(h.Job(`{"name": "r", "steps": [{"type": "demo.rec"}]}`), &courier.EnqueueOptions{Timeout: new(time.Second)})
		r.RequireState(courier.Failed).RequireError("timeout of 1s")
		if r.Failure.Reason != courier.ReasonExecution || !slices.Contains(rec.calls, "rollback") {
			t.Errorf("reason %s, calls %v", r.Failure.Reason, rec.calls)
		}
	})
}
