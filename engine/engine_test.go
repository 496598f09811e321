package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storetest"
)

type m = map[string]any

// requireAudit asserts that the audit is complete: numbered without gaps, and
// each state following from the one before.
func requireAudit(t *testing.T, r *couriertest.Result) {
	t.Helper()
	if err := storetest.CheckAudit(r.Audit); err != nil {
		t.Errorf("audit: %v", err)
	}
}

func TestRunReturnsTypedValues(t *testing.T) {
	type config struct {
		Name  string `json:"name" courier:"required"`
		Times int    `json:"times" default:"2"`
	}
	type output struct {
		Text string `json:"text"`
		None string `json:"none,omitempty"`
	}
	h := couriertest.New(t, nil)
	courier.RegisterFunc(h.Registry, "demo.greet", func(_ context.Context, job *courier.Context, cfg config) (output, error) {
		return output{Text: strings.Repeat(cfg.Name, cfg.Times)}, job.Set("big", uint64(1<<63+1))
	}, &courier.TypeOptions{Sets: []string{"big"}})
	echo := h.Stub("demo.echo", nil)
	r := h.Run(h.Job(`{"name": "greet", "params": {"who": "Ada"}, "steps": [
		{"id": "hi", "type": "demo.greet", "config": {"name": "context:params.who"}},
		{"type": "demo.echo", "config": {"text": "<${context:hi.text}> ${context:0.big} $${x}", "big": "context:0.big", "none": "context:hi.none", "job": "context:job.name"}}]}`), nil)
	r.RequireState(courier.Completed).RequireValue("0.text", "AdaAda").RequireValue("hi.big", uint64(1<<63+1))
	r.RequireTrace("0 demo.greet completed", "1 demo.echo completed")
	want := m{"text": "<AdaAda> 9223372036854775809 ${x}", "big": json.Number("9223372036854775809"), "none": nil, "job": "greet"}
	if got := echo.Calls()[0].Config; !reflect.DeepEqual(got, want) {
		t.Errorf("config = %v, want %v", got, want)
	}
	requireAudit(t, r)
}

const loopJob = `{"name": "loop", "steps": [
	{"id": "list", "type": "demo.list"},
	{"type": "flow.foreach", "config": {"source": "context:list.items"}},
	{"id": "get", "type": "demo.get", "config": {"name": "context:loop.current_item.name", "index": "context:loop.index"}},
	{"type": "flow.if", "config": {"left": "context:loop.current_item.size", "operator": "greater_than", "right": 10}},
	{"type": "demo.big", "config": {"file": "context:get.file"}},
	{"type": "flow.else"},
	{"type": "demo.small", "config": {"file": "context:get.file"}},
	{"type": "flow.end"},
	{"type": "flow.end"},
	{"id": "last", "type": "demo.last", "config": {"file": "context:get.file"}}]}`

// loopStubs registers the types of loopJob; fail may make one of them fail.
func loopStubs(h *couriertest.Harness, fail func(typ string, c *courier.Context) error) map[string]*couriertest.Stub {
	stubs := make(map[string]*couriertest.Stub)
	for _, name := range []string{"list", "get", "big", "small", "last"} {
		typ := "demo." + name
		stubs[name] = h.Stub(typ, func(_ context.Context, job *courier.Context, cfg map[string]any) (map[string]any, error) {
			if fail != nil {
				if err := fail(typ, job); err != nil {
					return nil, err
				}
			}
			switch name {
			case "list":
				return m{"items": []m{{"name": "a", "size": 5}, {"name": "b", "size": 50}, {"name": "c", "size": 7}}}, nil
			case "get":
				return m{"file": "file-" + cfg["name"].(string)}, nil
			}
			return nil, nil
		})
	}
	return stubs
}

var loopTrace = []string{
	"0 demo.list completed",
	"2 demo.get[0] completed", "6 demo.small[0] completed",
	"2 demo.get[1] completed", "4 demo.big[1] completed",
	"2 demo.get[2] completed", "6 demo.small[2] completed",
	"9 demo.last completed",
}

func TestLoopsAndBranches(t *testing.T) {
	h := couriertest.New(t, nil)
	stubs := loopStubs(h, nil)
	r := h.Run(h.Job(loopJob), nil).RequireState(courier.Completed).RequireTrace(loopTrace...)
	if got := stubs["last"].Calls()[0].Config["file"]; got != "file-c" {
		t.Errorf("after the loop the last iteration's file is %v", got)
	}
	if c := stubs["big"].Calls(); len(c) != 1 || c[0].Config["file"] != "file-b" {
		t.Errorf("big got %v", c)
	}
	if s := r.Steps[3]; !reflect.DeepEqual(s.Iteration, []int{1}) || !reflect.DeepEqual(s.Total, []int{3}) || *s.IterationIndex() != 1 {
		t.Errorf("record = %+v", s)
	}
	requireAudit(t, r)
}

// TestResumeAtEveryStep fails each step once, and checks after the resume that
// no completed step ran again.
func TestResumeAtEveryStep(t *testing.T) {
	for n := range loopTrace {
		h := couriertest.New(t, nil)
		calls := 0
		loopStubs(h, func(string, *courier.Context) error {
			if calls++; calls == n+1 {
				return errors.New("boom")
			}
			return nil
		})
		r := h.Run(h.Job(loopJob), nil).RequireState(courier.Failed).RequireError("boom")
		failed := strings.TrimSuffix(loopTrace[n], " completed")
		r.RequireTrace(append(append([]string(nil), loopTrace[:n]...), failed+" failed")...)
		// Another engine on the same store goes on.
		other := engine.New(h.Store, h.Registry, &engine.Options{Workspace: t.TempDir()})
		if _, err := other.Resume(t.Context(), r.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		if err := other.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		r = h.Wait(r.ID).RequireState(courier.Completed)
		other.Stop(t.Context())
		want := append(append([]string(nil), loopTrace[:n]...), failed+" failed", failed+"#2 completed")
		r.RequireTrace(append(want, loopTrace[n+1:]...)...)
		requireAudit(t, r)
	}
}

func TestFailurePolicies(t *testing.T) {
	boom := errors.New("boom")
	for _, test := range []struct {
		name, policy string
		errs         []error
		state        courier.State
		trace        []string
		elapsed      time.Duration
	}{
		{"stop", `"stop"`, []error{boom}, courier.Failed, []string{"0 demo.a completed", "1 demo.b failed"}, 0},
		{"retry", `{"type": "retry_step", "jitter": false}`, []error{boom, boom}, courier.Completed,
			[]string{"0 demo.a completed", "1 demo.b failed", "1 demo.b#2 failed", "1 demo.b#3 completed", "2 demo.c completed"}, 3 * time.Second},
		{"retries used up", `{"type": "retry_step", "max_retries": 1, "backoff_base_seconds": 90, "jitter": false}`, []error{boom, boom}, courier.Failed,
			[]string{"0 demo.a completed", "1 demo.b failed", "1 demo.b#2 failed"}, time.Minute},
		{"permanent", `"retry_step"`, []error{courier.Permanent(boom)}, courier.Failed, []string{"0 demo.a completed", "1 demo.b failed"}, 0},
		{"retry job", `{"type": "retry_job", "jitter": false}`, []error{boom}, courier.Completed,
			[]string{"0 demo.a completed", "1 demo.b failed", "0 demo.a completed", "1 demo.b completed", "2 demo.c completed"}, time.Second},
		{"skip", `"skip_and_continue"`, []error{boom}, courier.Completed,
			[]string{"0 demo.a completed", "1 demo.b skipped", "2 demo.c completed"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
				h.Stub("demo.a", nil)
				h.Stub("demo.b", couriertest.Fails(test.errs...))
				h.Stub("demo.c", nil)
				start := time.Now()
				r := h.Run(h.Job(`{"name": "p", "failure_policy": `+test.policy+`, "steps": [{"type": "demo.a"}, {"type": "demo.b"}, {"type": "demo.c"}]}`), nil)
				r.RequireState(test.state).RequireTrace(test.trace...)
				if d := time.Since(start); d < test.elapsed || d > test.elapsed+time.Second/2 {
					t.Errorf("took %v, want %v", d, test.elapsed)
				}
				if test.state == courier.Failed {
					if step, ok := errors.AsType[*courier.StepError](r.Err); !ok || step.Step != 1 || !errors.Is(r.Err, boom) {
						t.Errorf("error = %#v", r.Err)
					}
				}
				requireAudit(t, r)
			})
		})
	}
}

func TestTimeouts(t *testing.T) {
	listens := func(ctx context.Context, _ *courier.Context, _ map[string]any) (map[string]any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	stalls := func(ctx context.Context, job *courier.Context, _ map[string]any) (map[string]any, error) {
		for i := range 5 {
			time.Sleep(40 * time.Second)
			job.Progress(int64(i+1), 100, "file")
		}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	late := func(context.Context, *courier.Context, map[string]any) (map[string]any, error) {
		time.Sleep(time.Hour)
		return nil, nil
	}
	for _, test := range []struct {
		name, spec string
		f          couriertest.StubFunc
		want       string
		reason     courier.Reason
		elapsed    time.Duration
	}{
		{"default", ``, listens, "timed out after 5m0s", courier.ReasonTimeout, 5 * time.Minute},
		{"own", `, "timeout_seconds": 1.5`, listens, "timed out after 1.5s", courier.ReasonTimeout, 1500 * time.Millisecond},
		{"stall", `, "timeout_seconds": 0, "stall_timeout_seconds": 60`, stalls, "no progress for 1m0s", courier.ReasonStalled, 260 * time.Second},
		{"ignores its context", `, "timeout_seconds": 2`, late, "timed out after 2s; did not stop within 10s", courier.ReasonTimeout, 12 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stuck []engine.StuckStep
				h := couriertest.New(t, &engine.Options{OnStuckStep: func(s engine.StuckStep) { stuck = append(stuck, s) }})
				h.Stub("demo.slow", test.f)
				start := time.Now()
				r := h.Run(h.Job(`{"name": "t", "steps": [{"type": "demo.slow"`+test.spec+`}]}`), nil)
				if d := time.Since(start); d != test.elapsed {
					t.Errorf("took %v, want %v", d, test.elapsed)
				}
				r.RequireState(courier.Failed).RequireError(test.want)
				if r.Failure.Reason != test.reason || r.Steps[0].Reason != test.reason {
					t.Errorf("reason = %q, %q, want %q", r.Failure.Reason, r.Steps[0].Reason, test.reason)
				}
				if ignored := strings.Contains(test.want, "did not stop"); ignored != (len(stuck) == 1) {
					t.Errorf("stuck steps: %v", stuck)
				}
				requireAudit(t, r)
				time.Sleep(2 * time.Hour) // the abandoned step returns
			})
		})
	}
}

func TestExecutionTimeout(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.step", func(ctx context.Context, _ *courier.Context, _ map[string]any) (map[string]any, error) {
			select {
			case <-time.After(20 * time.Second):
				return nil, errors.New("boom")
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		})
		limit := 90 * time.Second
		start := time.Now()
		r := h.RunWith(h.Job(`{"name": "t", "failure_policy": {"type": "retry_step", "max_retries": 100}, "steps": [{"type": "demo.step"}]}`), &courier.EnqueueOptions{Timeout: &limit})
		r.RequireState(courier.Failed).RequireError("longer than its timeout of 1m30s")
		if d := time.Since(start); d < limit || d > limit+20*time.Second || r.Failure.Reason != courier.ReasonExecution {
			t.Errorf("took %v, reason %s", d, r.Failure.Reason)
		}
		requireAudit(t, r)
	})
}

func TestPanicsAreFailures(t *testing.T) {
	for name, f := range map[string]couriertest.StubFunc{
		"panic: bang": func(context.Context, *courier.Context, map[string]any) (map[string]any, error) { panic("bang") },
		"runtime.Goexit": func(context.Context, *courier.Context, map[string]any) (map[string]any, error) {
			runtime.Goexit()
			return nil, nil
		},
		"index out of range": func(_ context.Context, _ *courier.Context, c map[string]any) (map[string]any, error) {
			return nil, []error{}[len(c)]
		},
	} {
		h := couriertest.New(t, nil)
		h.Stub("demo.bad", f)
		h.Stub("demo.good", nil)
		r := h.Run(h.Job(`{"name": "p", "steps": [{"type": "demo.bad"}]}`), nil).RequireState(courier.Failed).RequireError(name)
		if r.Failure.Reason != courier.ReasonPanic || !strings.Contains(h.Log(), "engine_test.go") {
			t.Errorf("reason %q; log without the stack: %s", r.Failure.Reason, h.Log())
		}
		h.Run(h.Job(`{"name": "q", "steps": [{"type": "demo.good"}]}`), nil).RequireState(courier.Completed)
	}
}

func TestHoldAndRelease(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		s := h.Stub("demo.a", nil)
		if _, err := h.Engine.Jobs().Define(t.Context(), h.Job(`{"name": "a", "steps": [{"type": "demo.a"}]}`), nil); err != nil {
			t.Fatal(err)
		}
		if err := h.Engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		x, err := h.Engine.Enqueue(t.Context(), "a", &courier.EnqueueOptions{Hold: true})
		if err != nil || x.State != courier.Created {
			t.Fatal(x.State, err)
		}
		time.Sleep(time.Hour)
		if _, err := h.Engine.Resume(t.Context(), x.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); !errors.Is(err, courier.ErrConflict) {
			t.Errorf("Resume of a held execution: %v", err)
		}
		if len(s.Calls()) != 0 {
			t.Fatal("a held execution ran")
		}
		if _, err := h.Engine.Release(t.Context(), x.ID, courier.By{Actor: "ops"}); err != nil {
			t.Fatal(err)
		}
		requireAudit(t, h.Wait(x.ID).RequireState(courier.Completed))
	})
}

// gate is a stub that waits until it is let go.
func gate() (couriertest.StubFunc, chan struct{}, chan struct{}) {
	entered, open := make(chan struct{}, 100), make(chan struct{})
	return func(ctx context.Context, _ *courier.Context, _ map[string]any) (map[string]any, error) {
		entered <- struct{}{}
		select {
		case <-open:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}, entered, open
}

const threeSteps = `{"name": "three", "steps": [{"type": "demo.a"}, {"type": "demo.gate"}, {"type": "demo.c"}]}`

func startThree(t *testing.T, h *couriertest.Harness) (courier.ExecutionID, chan struct{}) {
	t.Helper()
	f, entered, open := gate()
	h.Stub("demo.a", nil)
	h.Stub("demo.gate", f)
	h.Stub("demo.c", nil)
	if _, err := h.Engine.Jobs().Define(t.Context(), h.Job(threeSteps), nil); err != nil {
		t.Fatal(err)
	}
	if err := h.Engine.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	x, err := h.Engine.Enqueue(t.Context(), "three", &courier.EnqueueOptions{By: courier.By{Actor: "me"}})
	if err != nil {
		t.Fatal(err)
	}
	<-entered
	return x.ID, open
}

func TestPauseTakesEffectBeforeTheNextStep(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		id, open := startThree(t, h)
		if _, err := h.Engine.Pause(t.Context(), id, courier.By{Actor: "ops"}); err != nil {
			t.Fatal(err)
		}
		x, _ := h.Engine.Executions().Get(t.Context(), id)
		if got := x.Status(time.Now()); got != "pausing" {
			t.Errorf("status = %s", got)
		}
		close(open)
		synctest.Wait()
		x, _ = h.Engine.Executions().Get(t.Context(), id)
		if x.State != courier.Paused || x.Position.Step != 2 {
			t.Fatalf("after the step: %s at %v", x.State, x.Position)
		}
		time.Sleep(time.Hour)
		if _, err := h.Engine.Resume(t.Context(), id, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		r := h.Wait(id).RequireState(courier.Completed)
		r.RequireTrace("0 demo.a completed", "1 demo.gate completed", "2 demo.c completed")
		requireAudit(t, r)
	})
}

func TestCancelReachesTheRunningStep(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		id, _ := startThree(t, h)
		if _, err := h.Engine.Cancel(t.Context(), id, &courier.CancelOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		r := h.Wait(id).RequireState(courier.Cancelled)
		r.RequireTrace("0 demo.a completed", "1 demo.gate failed")
		if r.Steps[1].Reason != courier.ReasonCancelled {
			t.Errorf("record: %+v", r.Steps[1])
		}
		if last := r.Audit[len(r.Audit)-1]; last.By != "ops" || last.To != "cancelled" {
			t.Errorf("audit ends with %+v", last)
		}
		requireAudit(t, r)
		_, err := h.Engine.Cancel(t.Context(), id, &courier.CancelOptions{By: courier.By{Actor: "ops"}})
		if te, ok := errors.AsType[*courier.TransitionError](err); !ok || te.From != courier.Cancelled {
			t.Errorf("a second cancel: %v", err)
		}
	})
}

func TestStopHandsOver(t *testing.T) {
	for _, soft := range []bool{true, false} {
		couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
			id, open := startThree(t, h)
			stopped := make(chan error, 1)
			ctx, cancel := context.WithCancel(t.Context())
			go func() { stopped <- h.Engine.Stop(ctx) }()
			synctest.Wait()
			want := []string{"0 demo.a completed", "1 demo.gate completed", "2 demo.c completed"}
			if soft {
				close(open)
			} else {
				cancel()
			}
			if err := <-stopped; err != nil {
				t.Error(err)
			}
			cancel()
			x, _ := h.Engine.Executions().Get(t.Context(), id)
			if x.State != courier.Queued || x.Current != nil {
				t.Fatalf("after the stop: %s, %v", x.State, x.Current)
			}
			if !soft {
				close(open)
			}
			start := time.Now()
			if err := h.Engine.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			r := h.Wait(id).RequireState(courier.Completed).RequireTrace(want...)
			if d := time.Since(start); d > time.Second {
				t.Errorf("taken up after %v", d)
			}
			requireAudit(t, r)
		})
	}
}

func TestEndOfStartContextIsAStop(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		ctx, cancel := context.WithCancel(t.Context())
		if err := h.Engine.Start(ctx); err != nil {
			t.Fatal(err)
		}
		if err := h.Engine.Start(ctx); err == nil {
			t.Error("a second Start succeeded")
		}
		cancel()
		synctest.Wait()
		if err := h.Engine.Start(t.Context()); err != nil {
			t.Errorf("Start after the end of the first: %v", err)
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		f, entered, open := gate()
		h.Stub("demo.gate", f)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-entered; cancel() }()
		x, err := h.Engine.Run(ctx, h.Job(`{"name": "g", "steps": [{"type": "demo.gate"}]}`), nil)
		if !errors.Is(err, context.Canceled) || x.State != courier.Queued {
			t.Fatalf("Run = %s, %v", x.State, err)
		}
		close(open)
		if err := h.Engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.Wait(x.ID).RequireState(courier.Completed).RequireTrace("0 demo.gate completed")
	})
}

func TestLostWorkerIsTakenOver(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.a", nil)
		if _, err := h.Engine.Jobs().Define(t.Context(), h.Job(`{"name": "a", "steps": [{"type": "demo.a"}]}`), nil); err != nil {
			t.Fatal(err)
		}
		x, err := h.Engine.Enqueue(t.Context(), "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		claimDead(t, h, x.ID)
		if err := h.Engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		r := h.Wait(x.ID).RequireState(courier.Completed)
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("taken over after %v, promised are 20 s", d)
		}
		requireAudit(t, r)
	})
}

func TestWorkspaceIsKeptWhileNeeded(t *testing.T) {
	dir := t.TempDir()
	h := couriertest.New(t, &engine.Options{Workspace: dir})
	fail := errors.New("boom")
	h.Stub("demo.write", func(_ context.Context, job *courier.Context, _ map[string]any) (map[string]any, error) {
		w, err := job.Files().Create(job.Files().Dir() + "/out.txt")
		if err != nil {
			return nil, err
		}
		defer w.Close()
		w.WriteString("hello")
		return m{"file": job.Files().Dir() + "/out.txt"}, w.Commit()
	})
	h.Stub("demo.read", func(_ context.Context, job *courier.Context, cfg map[string]any) (map[string]any, error) {
		if err := fail; err != nil {
			fail = nil
			return nil, err
		}
		b, err := job.Files().Open(cfg["file"].(string))
		if err == nil {
			b.Close()
		}
		return nil, err
	})
	job := h.Job(`{"name": "w", "steps": [{"type": "demo.write"}, {"type": "demo.read", "config": {"file": "context:0.file"}}]}`)
	r := h.Run(job, nil).RequireState(courier.Failed).RequireValue("0.file", "0/1/out.txt")
	path := filepath.Join(dir, string(r.ID), "0", "1", "out.txt")
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("a failed execution lost its files: %v", err)
	}
	if r.DiskBytes != 5 || len(r.Steps[0].Files) != 1 {
		t.Errorf("disk use %d, files %v", r.DiskBytes, r.Steps[0].Files)
	}
	os.Rename(path, path+".away")
	if _, err := h.Engine.Resume(t.Context(), r.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); !errors.Is(err, courier.ErrConflict) || !strings.Contains(err.Error(), "0/1/out.txt") {
		t.Errorf("resume without the file: %v", err)
	}
	os.Rename(path+".away", path)
	if _, err := h.Engine.Resume(t.Context(), r.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); err != nil {
		t.Fatal(err)
	}
	if err := h.Engine.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.Wait(r.ID).RequireState(courier.Completed) // the harness checks that the files are gone
}

func TestExecutionsKeepTheirVersion(t *testing.T) {
	h := couriertest.New(t, nil)
	s := h.Stub("demo.a", nil)
	define := func(v string) courier.Job {
		job, err := h.Engine.Jobs().Define(t.Context(), h.Job(`{"name": "a", "steps": [{"type": "demo.a", "config": {"v": "`+v+`"}}]}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		return job.Job
	}
	if a, again := define("one"), define("one"); a.Version != 1 || again.Version != 1 {
		t.Errorf("versions %d, %d of equal definitions, want 1, 1", a.Version, again.Version)
	}
	x, err := h.Engine.Enqueue(t.Context(), "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	if two := define("two"); two.Version != 2 {
		t.Errorf("version %d, want 2", two.Version)
	}
	if err := h.Engine.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.Wait(x.ID).RequireState(courier.Completed)
	y, err := h.Engine.Enqueue(t.Context(), "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	h.Wait(y.ID).RequireState(courier.Completed)
	if one, two := s.Calls()[0].Config["v"], s.Calls()[1].Config["v"]; one != "one" || two != "two" {
		t.Errorf("ran with %v and %v", one, two)
	}
}

func TestSecretsAreNeverStored(t *testing.T) {
	const canary = "hunter2-canary"
	var events []courier.Event
	h := couriertest.New(t, &engine.Options{
		Secrets:   func(context.Context, courier.SecretRequest) (string, error) { return canary, nil },
		Observers: []func(courier.Event){func(e courier.Event) { events = append(events, e) }},
	})
	s := h.Stub("demo.fail", func(_ context.Context, job *courier.Context, cfg map[string]any) (map[string]any, error) {
		job.Log().With("a", cfg["password"]).WithGroup("g").Warn("try "+cfg["password"].(string), "cfg", cfg, "err", errors.New(cfg["password"].(string)))
		return nil, errors.New("login with " + cfg["password"].(string) + " refused")
	})
	h.Stub("demo.leak", func(_ context.Context, _ *courier.Context, cfg map[string]any) (map[string]any, error) {
		return m{"p": "x" + cfg["password"].(string)}, nil
	})
	for _, typ := range []string{"demo.fail", "demo.leak"} {
		r := h.Run(h.Job(`{"name": "s", "steps": [{"type": "`+typ+`", "config": {"password": "secret:db"}}]}`), nil).RequireState(courier.Failed)
		dump, _ := jsontext.Append(nil, []any{r.Execution, r.Steps, r.Audit, r.Values, events})
		if strings.Contains(string(dump)+h.Log()+r.Err.Error(), canary) {
			t.Errorf("%s: the secret is in %s %s %v", typ, dump, h.Log(), r.Err)
		}
	}
	if got := s.Calls()[0].Config["password"]; got != canary {
		t.Errorf("the step got %v", got)
	}
}

func TestIdempotencyKey(t *testing.T) {
	h := couriertest.New(t, nil)
	h.Stub("demo.a", nil)
	job := h.Job(`{"name": "a", "params": {"day": 1}, "steps": [{"type": "demo.a"}]}`)
	first := h.RunWith(job, &courier.EnqueueOptions{IdempotencyKey: "k"})
	if again := h.RunWith(job, &courier.EnqueueOptions{IdempotencyKey: "k"}); again.ID != first.ID {
		t.Errorf("a second execution %s", again.ID)
	}
	_, err := h.Engine.Enqueue(t.Context(), "a", &courier.EnqueueOptions{IdempotencyKey: "k", Params: m{"day": 2}})
	if !errors.Is(err, courier.ErrConflict) {
		t.Errorf("other params: %v", err)
	}
	alone, err := h.Engine.Enqueue(t.Context(), "a", &courier.EnqueueOptions{IdempotencyKey: "k", KeyAlone: true, Params: m{"day": 2}})
	if err != nil || alone.ID != first.ID || string(alone.Params) != string(first.Params) {
		t.Errorf("other params with KeyAlone: %s of %s, %v", alone.ID, first.ID, err)
	}
	_, err = h.Engine.Enqueue(t.Context(), "a", &courier.EnqueueOptions{Params: m{"dya": 2}})
	if !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), `did you mean "day"?`) {
		t.Errorf("an undeclared parameter: %v", err)
	}
	_, err = h.Engine.Enqueue(t.Context(), "b", nil)
	if !errors.Is(err, courier.ErrNotFound) || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("an unknown job: %v", err)
	}
}

func TestLimits(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		running, most := 0, 0
		h.Stub("demo.a", func(context.Context, *courier.Context, map[string]any) (map[string]any, error) {
			if running++; running > most {
				most = running
			}
			time.Sleep(time.Second)
			running--
			return nil, nil
		})
		if err := h.Engine.Limits().Set(t.Context(), "global", 1, courier.By{}); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Engine.Jobs().Define(t.Context(), h.Job(`{"name": "a", "steps": [{"type": "demo.a"}]}`), nil); err != nil {
			t.Fatal(err)
		}
		if err := h.Engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		var ids []courier.ExecutionID
		for range 10 {
			x, err := h.Engine.Enqueue(t.Context(), "a", nil)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, x.ID)
		}
		for _, id := range ids {
			h.Wait(id).RequireState(courier.Completed)
		}
		if most != 1 {
			t.Errorf("%d ran at once", most)
		}
	})
	e := engine.New(memstore.New(), new(courier.Registry), nil)
	for _, scope := range []string{"jobs:x", "job:", "x"} {
		if err := e.Limits().Set(t.Context(), scope, 1, courier.By{}); !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), `"key:PREFIX*"`) {
			t.Errorf("SetLimit(%q): %v", scope, err)
		}
	}
	if err := e.Limits().Set(t.Context(), "global", -1, courier.By{}); !errors.Is(err, courier.ErrInvalid) {
		t.Errorf("a negative limit: %v", err)
	}
}

func TestEventsFollowTheAudit(t *testing.T) {
	var got []string
	h := couriertest.New(t, &engine.Options{Observers: []func(courier.Event){
		func(courier.Event) { panic("observer") },
		func(e courier.Event) {
			name := string(e.Type)
			if e.Step >= 0 {
				name += " " + e.StepType
			}
			got = append(got, name)
		},
	}})
	h.Stub("demo.a", nil)
	h.Stub("demo.b", couriertest.Fails(errors.New("boom")))
	h.Run(h.Job(`{"name": "e", "failure_policy": {"type": "retry_step", "backoff_base_seconds": 0}, "steps": [{"type": "demo.a"}, {"type": "demo.b"}]}`), nil).RequireState(courier.Completed)
	want := []string{
		"JobStarted", "StepStarted demo.a", "StepCompleted demo.a", "StepStarted demo.b", "StepFailed demo.b",
		"StepStarted demo.b", "StepCompleted demo.b", "JobCompleted",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
	if h.Engine.Metrics().Dropped() != 0 {
		t.Errorf("dropped %d", h.Engine.Metrics().Dropped())
	}
}

func TestAround(t *testing.T) {
	var seen []string
	boom := errors.New("boom")
	h := couriertest.New(t, &engine.Options{Around: func(ctx context.Context, job *courier.Context, next func(context.Context) error) error {
		seen = append(seen, job.Type())
		if job.Step() == 1 {
			return boom
		}
		return next(ctx)
	}})
	h.Stub("demo.a", couriertest.Returns(m{"x": 1}))
	b := h.Stub("demo.b", nil)
	r := h.Run(h.Job(`{"name": "a", "steps": [{"type": "demo.a"}, {"type": "demo.b"}]}`), nil)
	r.RequireState(courier.Failed).RequireValue("0.x", 1).RequireError("boom")
	if len(b.Calls()) != 0 || !reflect.DeepEqual(seen, []string{"demo.a", "demo.b"}) {
		t.Errorf("seen %v, calls %v", seen, b.Calls())
	}
}

// errOf is the error of a call whose other result does not matter.
func errOf[T any](_ T, err error) error { return err }
