package engine_test

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
)

// outage is a store whose renewals fail while it is down.
type outage struct {
	store.Store
	down atomic.Bool
}

func (o *outage) Renew(c ctx, r store.RenewRequest) ([]store.Renewed, error) {
	if o.down.Load() {
		return nil, errors.New("the network is down")
	}
	return o.Store.Renew(c, r)
}

func TestClaimsGoOnAfterAnOutage(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		s := &outage{Store: h.Store}
		h.Stub("demo.a", func(c ctx, _ *courier.Context, _ map[string]any) (map[string]any, error) {
			select {
			case <-c.Done():
				return nil, c.Err()
			case <-time.After(time.Minute):
				return nil, nil
			}
		})
		e := engine.New(s, h.Registry, &engine.Options{Workspace: t.TempDir()})
		if _, err := e.Jobs().Define(t.Context(), h.Job(`{"name": "a", "steps": [{"type": "demo.a"}]}`), nil); err != nil {
			t.Fatal(err)
		}
		x, err := e.Enqueue(t.Context(), "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		s.down.Store(true)
		time.Sleep(time.Minute) // the run is lost, and nothing may be claimed
		if x, _ = h.Engine.Executions().Get(t.Context(), x.ID); x.Status(time.Now()) != "lost" {
			t.Errorf("during the outage the execution is %s", x.Status(time.Now()))
		}
		s.down.Store(false)
		h.Wait(x.ID).RequireState(courier.Completed)
		if err := e.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestDryRunWithRequiredFieldsOfLaterValues(t *testing.T) {
	h := typed(t)
	courier.Register(h.Registry, "demo.v", &probe{}, nil)
	report, err := h.Engine.Jobs().DryRun(t.Context(), h.Job(`{"name": "d", "steps": [{"type": "demo.get"}, {"type": "demo.v", "config": {"path": "context:0.path"}}]}`), nil)
	if err != nil || !report.OK() || !slices.Equal(report.Steps[1].Unresolved, []string{"path"}) {
		t.Errorf("%v\n%s", err, &report)
	}
}

func TestRestartedLoopUsesNoDirectoryTwice(t *testing.T) {
	h := couriertest.New(t, nil)
	seen := make(map[string]bool)
	calls := 0
	f := func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
		if dir := job.Files().Dir(); seen[dir] {
			t.Errorf("%s is used twice", dir)
		} else {
			seen[dir] = true
		}
		note := path.Join(job.Files().StepDir(), "note")
		if _, err := job.Files().Stat(note); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s of the first pass is seen in the second: %v", note, err)
		}
		w, err := job.Files().Create(note)
		if err != nil {
			return nil, err
		}
		if err := w.Commit(); err != nil {
			return nil, err
		}
		if calls++; calls == 4 {
			return nil, errors.New("boom")
		}
		return nil, nil
	}
	h.Stub("demo.a", f)
	h.Stub("demo.b", f)
	h.Stub("demo.c", f)
	r := h.Run(h.Job(`{"name": "a", "steps": [{"type": "flow.foreach", "config": {"source": ["x", "y", "z"], "on_resume": "restart"}},
		{"type": "demo.a"}, {"type": "demo.b"}, {"type": "flow.end"}, {"type": "demo.c"}]}`), nil).RequireState(courier.Failed)
	if _, err := h.Engine.Resume(t.Context(), r.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); err != nil {
		t.Fatal(err)
	}
	if err := h.Engine.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r = h.Wait(r.ID).RequireState(courier.Completed)
	if got := r.Trace()[4:]; !slices.Equal(got, []string{
		"1 demo.a[0] completed", "2 demo.b[0] completed", "1 demo.a[1] completed", "2 demo.b[1] completed",
		"1 demo.a[2] completed", "2 demo.b[2] completed", "4 demo.c completed",
	}) {
		t.Errorf("second pass: %v", got)
	}
	requireAudit(t, r)
}

// TestPauseMeetsRetryOfTheJob pauses while the step runs whose failure would
// start the job over.
func TestPauseMeetsRetryOfTheJob(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		rec := &recorder{fail: 1, block: func(ctx) { time.Sleep(time.Second) }}
		courier.Register(h.Registry, "demo.rec", rec, nil)
		if _, err := h.Engine.Jobs().Define(t.Context(), h.Job(`{"name": "r", "failure_policy": "retry_job", "steps": [{"type": "demo.rec"}]}`), nil); err != nil {
			t.Fatal(err)
		}
		if err := h.Engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		x, err := h.Engine.Enqueue(t.Context(), "r", nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second / 2)
		if _, err := h.Engine.Pause(t.Context(), x.ID, courier.By{Actor: "ops"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if x, _ = h.Engine.Executions().Get(t.Context(), x.ID); x.State != courier.Paused || x.StepAttempts != 1 {
			t.Fatalf("%s with %d attempts of the step", x.State, x.StepAttempts)
		}
		if _, err := h.Engine.Resume(t.Context(), x.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		h.Wait(x.ID).RequireState(courier.Completed).RequireTrace("0 demo.rec failed", "0 demo.rec#2 completed")
		if want := []string{"execute", "cleanup", "execute"}; !slices.Equal(rec.calls, want) {
			t.Errorf("calls %v, want %v", rec.calls, want)
		}
	})
}

func TestCancelRollsBackWhatAStopInterrupted(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		rec := &recorder{block: func(c ctx) { <-c.Done() }, fail: 1}
		courier.Register(h.Registry, "demo.rec", rec, nil)
		if _, err := h.Engine.Jobs().Define(t.Context(), h.Job(`{"name": "r", "steps": [{"type": "demo.rec"}]}`), nil); err != nil {
			t.Fatal(err)
		}
		if err := h.Engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		x, err := h.Engine.Enqueue(t.Context(), "r", nil)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		done, cancel := contextWithCancel(t)
		cancel()
		if err := h.Engine.Stop(done); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Engine.Cancel(t.Context(), x.ID, &courier.CancelOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		if want := []string{"execute", "rollback cancelled"}; !slices.Equal(rec.calls, want) {
			t.Errorf("calls %v, want %v", rec.calls, want)
		}
	})
}

func TestCancelRollsBackTheStepOfALostWorker(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		rec := &recorder{}
		courier.Register(h.Registry, "demo.rec", rec, nil)
		if _, err := h.Engine.Jobs().Define(t.Context(), h.Job(`{"name": "r", "steps": [{"type": "demo.rec"}]}`), nil); err != nil {
			t.Fatal(err)
		}
		x, err := h.Engine.Enqueue(t.Context(), "r", nil)
		if err != nil {
			t.Fatal(err)
		}
		c := claimDead(t, h, x.ID)
		err = h.Store.Apply(t.Context(), store.Transition{
			Execution: x.ID, Lease: c.Token, Seq: c.Seq + 1, To: courier.Running, Counters: store.Counters{Attempts: 1},
			Start: &courier.StepExecution{Type: "demo.rec", Attempt: 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Engine.Cancel(t.Context(), x.ID, &courier.CancelOptions{By: courier.By{Actor: "ops"}}); err != nil { // while the lease lasts
			t.Fatal(err)
		}
		if err := h.Engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := h.Wait(x.ID).RequireState(courier.Cancelled)
		if want := []string{"rollback cancelled"}; !slices.Equal(rec.calls, want) {
			t.Errorf("calls %v, want %v", rec.calls, want)
		}
		requireAudit(t, r)
	})
}

func TestOneSecretWithinAnother(t *testing.T) {
	for range 20 {
		h := couriertest.New(t, &engine.Options{Secrets: func(_ ctx, q courier.SecretRequest) (string, error) {
			return map[string]string{"short": "pass", "long": "passphrase-x", "middle": "passphrase"}[q.Name], nil
		}})
		h.Stub("demo.a", func(_ ctx, _ *courier.Context, cfg map[string]any) (map[string]any, error) {
			return nil, fmt.Errorf("%v", cfg)
		})
		r := h.Run(h.Job(`{"name": "s", "steps": [{"type": "demo.a", "config": {"a": "secret:short", "b": "secret:long", "c": "secret:middle"}}]}`), nil)
		if text := r.Failure.Message; strings.Contains(text, "pass") || strings.Contains(text, "phrase") {
			t.Fatalf("leaked: %s", text)
		}
	}
}

func TestTextThatNoStoreCanKeepIsRefused(t *testing.T) {
	h := typed(t)
	if _, err := h.Engine.Jobs().Define(t.Context(), courier.Job{Name: "a", Steps: nopStepsOf("demo.get", 1)}, nil); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"a\x00b", "caf\xe9", strings.Repeat("x", 2000)} {
		for _, opt := range []courier.EnqueueOptions{{By: courier.By{Actor: bad}}, {IdempotencyKey: bad}, {LimitKeys: []string{bad}}} {
			if _, err := h.Engine.Enqueue(t.Context(), "a", &opt); !errors.Is(err, courier.ErrInvalid) {
				t.Errorf("Enqueue with %.20q: %v", bad, err)
			}
		}
		if _, err := h.Engine.Pause(t.Context(), "x", courier.By{Actor: bad}); !errors.Is(err, courier.ErrInvalid) {
			t.Errorf("Pause by %.20q: %v", bad, err)
		}
	}
}

func TestLimitKeysAreKnownBeforeTheStart(t *testing.T) {
	h := typed(t)
	job := courier.Job{Name: "a", Params: m{"p": "acme"}, LimitKeys: []string{"${context:params.p}-${context:job.name}"}, Steps: nopStepsOf("demo.get", 1)}
	if _, err := h.Engine.Jobs().Define(t.Context(), job, nil); err != nil {
		t.Fatal(err)
	}
	x, err := h.Engine.Enqueue(t.Context(), "a", &courier.EnqueueOptions{LimitKeys: []string{"more", "more"}})
	if err != nil || !slices.Equal(x.LimitKeys, []string{"acme-a", "more"}) {
		t.Errorf("limit keys %v, %v", x.LimitKeys, err)
	}
	job.LimitKeys = []string{"${context:job.started_at}"}
	if _, err := h.Engine.Jobs().Define(t.Context(), job, nil); !errors.Is(err, courier.ErrInvalid) {
		t.Errorf("a limit key of the start: %v", err)
	}
}

func TestNumbersOfAnyKeepTheirDigits(t *testing.T) {
	h := couriertest.New(t, nil)
	var direct any
	h.Stub("demo.a", func(_ ctx, job *courier.Context, cfg map[string]any) (map[string]any, error) {
		direct, _ = courier.Get[any](job, "params.n")
		return m{"n": cfg["n"]}, nil
	})
	h.Run(h.Job(`{"name": "n", "params": {"n": 9007199254740993}, "steps": [{"type": "demo.a", "config": {"n": "context:params.n"}}]}`), nil).
		RequireState(courier.Completed).RequireValue("0.n", uint64(9007199254740993))
	if fmt.Sprint(direct) != "9007199254740993" {
		t.Errorf("Get[any] = %v", direct)
	}
}

// TestStepWithoutTimeoutsIsCancelled ends the context of a step for which no
// timer runs.
func TestStepWithoutTimeoutsIsCancelled(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.a", func(c ctx, _ *courier.Context, _ map[string]any) (map[string]any, error) {
			<-c.Done()
			time.Sleep(time.Second)
			return nil, c.Err()
		})
		go func() {
			time.Sleep(time.Minute)
			list, _ := h.Engine.Executions().List(t.Context(), storeFilter{})
			if _, err := h.Engine.Cancel(t.Context(), list[0].ID, &courier.CancelOptions{By: courier.By{Actor: "ops"}}); err != nil {
				t.Error(err)
			}
		}()
		h.Run(h.Job(`{"name": "a", "steps": [{"type": "demo.a", "timeout_seconds": 0}]}`), nil).RequireState(courier.Cancelled)
	})
}

// claimsFail is a store whose claims fail, and counts them.
type claimsFail struct {
	store.Store
	n atomic.Int64
}

func (s *claimsFail) Claim(ctx, store.ClaimRequest) (store.Claims, error) {
	s.n.Add(1)
	return store.Claims{}, errors.New("the network is down")
}

func TestRunDoesNotSpinWhenClaimsFail(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		s := &claimsFail{Store: h.Store}
		h.Stub("demo.a", nil)
		e := engine.New(s, h.Registry, &engine.Options{Workspace: t.TempDir()})
		c, cancel := contextWithCancel(t)
		time.AfterFunc(time.Minute, cancel)
		if _, err := e.Run(c, h.Job(`{"name": "a", "steps": [{"type": "demo.a"}]}`), nil); err == nil {
			t.Error("Run succeeded")
		}
		if n := s.n.Load(); n > 20 {
			t.Errorf("%d claims in a minute", n)
		}
	})
}

// leavesClaims is a store that gives an execution to whoever asks for any, as if another
// worker were always quicker than Run.
type leavesClaims struct{ store.Store }

func (s leavesClaims) Claim(ctx ctx, r store.ClaimRequest) (store.Claims, error) {
	if r.Only != nil {
		time.Sleep(10 * time.Millisecond) // meanwhile the execution ends
		r.Max = 0
	}
	return s.Store.Claim(ctx, r)
}

// TestRunReturnsWhenAnotherWorkerIsQuicker: Run returns as soon as the execution has ended,
// also if a worker of this engine, or of another, has claimed it.
func TestRunReturnsWhenAnotherWorkerIsQuicker(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.a", nil)
		if err := h.Engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		job := h.Job(`{"name": "a", "steps": [{"type": "demo.a"}]}`)
		own := engine.New(leavesClaims{h.Store}, h.Registry, &engine.Options{Workspace: t.TempDir()})
		if err := own.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, e := range map[string]*engine.Engine{"its own": own, "another's": engine.New(leavesClaims{h.Store}, h.Registry, &engine.Options{Workspace: t.TempDir()})} {
			start := time.Now()
			x, err := e.Run(t.Context(), job, nil)
			if err != nil || x.State != courier.Completed {
				t.Fatal(x.State, err)
			}
			if took := time.Since(start); took > time.Second {
				t.Errorf("%s worker has the execution: Run took %v", name, took)
			}
		}
		if err := own.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestWithdrawnPauseDoesNotPause lets the worker learn of a pause by a renewal,
// and not of its withdrawal.
func TestWithdrawnPauseDoesNotPause(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		id, open := startThree(t, h)
		operator := engine.New(h.Store, h.Registry, &engine.Options{Workspace: t.TempDir()})
		if _, err := operator.Pause(t.Context(), id, courier.By{Actor: "ops"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second) // a renewal
		if _, err := operator.Resume(t.Context(), id, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		close(open)
		time.Sleep(time.Minute)
		x, _ := h.Engine.Executions().Get(t.Context(), id)
		if x.State != courier.Completed {
			t.Errorf("the pause was withdrawn, but the execution is %s", x.State)
		}
	})
}

func TestSecretsThatHangOrPanic(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, _ *couriertest.Harness) {
		h := couriertest.New(t, &engine.Options{Secrets: func(c ctx, q courier.SecretRequest) (string, error) {
			if q.Name == "panics" {
				panic("vault")
			}
			<-c.Done()
			return "", c.Err()
		}})
		h.Stub("demo.a", nil)
		start := time.Now()
		h.Run(h.Job(`{"name": "a", "steps": [{"type": "demo.a", "timeout_seconds": 2, "config": {"x": "secret:hangs"}}]}`), nil).
			RequireState(courier.Failed).RequireError("timed out after 2s")
		if d := time.Since(start); d > 3*time.Second {
			t.Errorf("took %v", d)
		}
		h.Run(h.Job(`{"name": "b", "steps": [{"type": "demo.a", "config": {"x": "secret:panics"}}]}`), nil).
			RequireState(courier.Failed).RequireError("panic: vault")
	})
}

func TestNoRollbackWhileTheStepIsStillRunning(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		rec := &recorder{block: func(ctx) { time.Sleep(time.Hour) }}
		courier.Register(h.Registry, "demo.rec", rec, nil)
		r := h.Run(h.Job(`{"name": "a", "steps": [{"type": "demo.rec", "timeout_seconds": 1}]}`), nil).RequireState(courier.Failed)
		if _, err := h.Engine.Cancel(t.Context(), r.ID, &courier.CancelOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		if err := h.Engine.Stop(t.Context()); err != nil {
			t.Errorf("Stop of an engine that was not started: %v", err)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if want := []string{"execute"}; !slices.Equal(rec.calls, want) {
			t.Errorf("calls %v, want %v", rec.calls, want)
		}
	})
}

func TestScopesOfLimitsAreText(t *testing.T) {
	h := couriertest.New(t, nil)
	for _, scope := range []string{"key:\x00", "job:\xff"} {
		if err := h.Engine.Limits().Set(t.Context(), scope, 1, courier.By{}); !errors.Is(err, courier.ErrInvalid) {
			t.Errorf("SetLimit(%q): %v", scope, err)
		}
	}
	if _, err := h.Engine.Jobs().Define(t.Context(), courier.Job{Name: "none"}, nil); err == nil || !strings.Contains(err.Error(), "at least one") {
		t.Errorf("a job without steps: %v", err)
	}
}
