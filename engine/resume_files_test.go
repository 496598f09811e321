package engine_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/courierhq/courier/store"
)

// filesJob leaves three files, removes one, and goes on; OUTCOME says how.
const filesJob = `{"name": "files", "steps": [
	{"type": "demo.write", "config": {"names": ["a", "b", "c"]}},
	{"type": "demo.remove", "config": {"name": "b"}},
	{"type": "demo.next"}, {"type": "demo.last"}]}`

// fileStubs registers the types of filesJob. What next does is for the caller.
func fileStubs(h *couriertest.Harness, next couriertest.StubFunc) {
	h.Stub("demo.write", func(_ ctx, job *courier.Context, cfg map[string]any) (map[string]any, error) {
		for _, name := range cfg["names"].([]any) {
			w, err := job.Files().Create(name.(string))
			if err != nil {
				return nil, err
			}
			w.WriteString("content of " + name.(string))
			if err := w.Commit(); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	h.Stub("demo.remove", func(_ ctx, job *courier.Context, cfg map[string]any) (map[string]any, error) {
		return nil, errors.Join(job.Files().Remove(cfg["name"].(string)), stepcontext.Of(job).Removed(cfg["name"].(string)))
	})
	h.Stub("demo.next", next)
	h.Stub("demo.last", nil)
}

// quiet waits until nothing moves any more. A worker takes a moment before it
// claims, for others to come.
func quiet() {
	time.Sleep(time.Millisecond)
	synctest.Wait()
}

// about reports whether two durations differ by no more than such moments.
func about(got, want time.Duration) bool { return (got - want).Abs() < 5*time.Millisecond }

// begin defines a job, enqueues it, and lets e run it until nothing moves.
func begin(t *testing.T, e *engine.Engine, job courier.Job, opt *courier.EnqueueOptions) courier.Execution {
	t.Helper()
	if _, err := e.Jobs().Define(t.Context(), job, nil); err != nil {
		t.Fatal(err)
	}
	x, err := e.Enqueue(t.Context(), job.Name, opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	quiet()
	x, err = e.Executions().Get(t.Context(), x.ID)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestWorkerPutsBackWhatLacksFiles resumes by an engine that can't see the
// files, so that the worker finds out that two are gone.
func TestWorkerPutsBackWhatLacksFiles(t *testing.T) {
	for _, state := range []courier.State{courier.Failed, courier.Paused} {
		couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
			dir := t.TempDir()
			worker := another(t, h, h.Store, dir)
			operator := engine.New(h.Store, h.Registry, &engine.Options{Workspace: t.TempDir(), WorkspaceID: "elsewhere"})
			calls := 0
			fileStubs(h, func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
				if calls++; calls > 1 {
					return nil, nil
				}
				if state == courier.Failed {
					return nil, errors.New("boom")
				}
				return nil, errOf(operator.Pause(t.Context(), job.Execution(), courier.By{Actor: "ops"}))
			})
			x := begin(t, worker, h.Job(filesJob), nil)
			if x.State != state {
				t.Fatalf("the execution is %s, want %s", x.State, state)
			}
			position, attempts := x.Position, x.StepAttempts
			tree := filepath.Join(dir, string(x.ID))
			for _, name := range []string{"a", "c"} {
				if err := os.Rename(filepath.Join(tree, name), filepath.Join(tree, name+".away")); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := operator.Resume(t.Context(), x.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); err != nil {
				t.Fatal(err)
			}
			quiet()
			x, _ = h.Engine.Executions().Get(t.Context(), x.ID)
			if x.State != state || !reflect.DeepEqual(x.Position, position) || x.StepAttempts != attempts {
				t.Errorf("after the resume: %s at %v after %d attempts, want %s at %v after %d", x.State, x.Position, x.StepAttempts, state, position, attempts)
			}
			if f := x.Failure; f == nil || f.Reason != courier.ReasonFiles || !strings.Contains(f.Message, "a (") || !strings.Contains(f.Message, "c (") || strings.Contains(f.Message, "b (") {
				t.Errorf("failure = %+v", f)
			}
			if calls != 1 {
				t.Errorf("%d calls before the files were there", calls)
			}
			os.Rename(filepath.Join(tree, "c.away"), filepath.Join(tree, "c"))
			if err := os.WriteFile(filepath.Join(tree, "a"), []byte("longer than it was"), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := worker.Resume(t.Context(), x.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); !errors.Is(err, courier.ErrConflict) || !strings.Contains(err.Error(), "a (has 18 bytes, was left with 12)") {
				t.Errorf("resume where the workspace is at hand: %v", err)
			}
			os.Rename(filepath.Join(tree, "a.away"), filepath.Join(tree, "a"))
			if _, err := worker.Resume(t.Context(), x.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); err != nil {
				t.Fatal(err)
			}
			r := h.Wait(x.ID).RequireState(courier.Completed)
			if r.Failure != nil {
				t.Errorf("the failure is still there: %v", r.Failure)
			}
			requireAudit(t, r)
		})
	}
}

// TestResumeIsStored lets a worker die between the claim of a resumed execution
// and its first step: the next one has to check the files all the same, and to
// start the loop over.
func TestResumeIsStored(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		dir := t.TempDir()
		one := another(t, h, h.Store, dir)
		calls := 0
		fileStubs(h, func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
			if calls++; calls == 2 {
				return nil, errors.New("boom")
			}
			return nil, nil
		})
		x := begin(t, one, h.Job(`{"name": "files", "steps": [{"type": "demo.write", "config": {"names": ["a"]}},
			{"type": "flow.foreach", "config": {"source": [1, 2, 3], "on_resume": "restart"}}, {"type": "demo.next"}, {"type": "flow.end"}]}`), nil)
		if err := one.Stop(t.Context()); err != nil || x.State != courier.Failed {
			t.Fatal(x.State, err)
		}
		claim := func() {
			t.Helper()
			got, err := h.Store.Claim(t.Context(), store.ClaimRequest{
				Worker: "dead", Workspace: "tree", StepTypes: h.Registry.Keys(), Queues: []string{courier.DefaultQueue}, Max: 1, Lease: 15 * time.Second,
			})
			if err != nil || len(got.List) != 1 {
				t.Fatal(len(got.List), err)
			}
			time.Sleep(time.Minute)
		}
		path := filepath.Join(dir, string(x.ID), "a")
		if _, err := one.Resume(t.Context(), x.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		claim()
		os.Rename(path, path+".away")
		if err := one.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		quiet()
		if x, _ = one.Executions().Get(t.Context(), x.ID); x.State != courier.Failed || x.Failure.Reason != courier.ReasonFiles || calls != 2 {
			t.Fatalf("%s, %v, %d calls", x.State, x.Failure, calls)
		}
		if err := one.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		os.Rename(path+".away", path)
		if _, err := one.Resume(t.Context(), x.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		claim()
		if err := one.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := h.Wait(x.ID).RequireState(courier.Completed)
		r.RequireTrace("0 demo.write completed", "2 demo.next[0] completed", "2 demo.next[1] failed",
			"2 demo.next[0] completed", "2 demo.next[1] completed", "2 demo.next[2] completed")
		requireAudit(t, r)
	})
}

// TestOnlyResumesAreResumes takes a file away while an execution that nobody
// resumed waits in the queue, after a failed attempt and after a stop: nothing
// is checked, and no loop starts over.
func TestOnlyResumesAreResumes(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		dir := t.TempDir()
		one, two := another(t, h, h.Store, dir), another(t, h, h.Store, dir)
		calls := 0
		fileStubs(h, func(c ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
			switch calls++; calls {
			case 2:
				return nil, errors.New("boom")
			case 4:
				<-c.Done()
				return nil, c.Err()
			}
			return nil, nil
		})
		x := begin(t, one, h.Job(`{"name": "files", "failure_policy": "retry_step", "steps": [{"type": "demo.write", "config": {"names": ["a"]}},
			{"type": "flow.foreach", "config": {"source": [1, 2, 3], "on_resume": "restart"}}, {"type": "demo.next"}, {"type": "flow.end"}]}`), nil)
		if x.Status(time.Now()) != "scheduled" {
			t.Fatalf("the execution is %s", x.Status(time.Now()))
		}
		if err := os.Remove(filepath.Join(dir, string(x.ID), "a")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if err := one.Stop(t.Context()); err != nil || calls != 4 {
			t.Fatalf("%d calls, %v", calls, err)
		}
		if err := two.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := h.Wait(x.ID).RequireState(courier.Completed)
		r.RequireTrace("0 demo.write completed", "2 demo.next[0] completed", "2 demo.next[1] failed", "2 demo.next[1]#2 completed", "2 demo.next[2] completed")
		if r.Resumed {
			t.Error("it counts as resumed")
		}
		requireAudit(t, r)
	})
}

// TestRestartKeepsTheFilesOfARetriedJob starts a loop at the head of the job
// over, in the second attempt of the job: that is no start of the job, and its
// files are still needed.
func TestRestartKeepsTheFilesOfARetriedJob(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		fails := 2
		h.Stub("demo.a", func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
			w, err := job.Files().Create(job.Files().Dir() + "/out")
			if err == nil {
				err = w.Commit()
			}
			if job.Iteration()[0] == 1 && fails > 0 {
				fails--
				return nil, errors.New("boom")
			}
			return nil, err
		})
		r := h.Run(h.Job(`{"name": "a", "failure_policy": {"type": "retry_job", "max_retries": 1}, "steps": [
			{"type": "flow.foreach", "config": {"source": ["x", "y"], "on_resume": "restart"}}, {"type": "demo.a"}, {"type": "flow.end"}]}`), nil).RequireState(courier.Failed)
		if r.Attempt != 2 {
			t.Fatalf("attempt %d", r.Attempt)
		}
		if err := errors.Join(errOf(h.Engine.Resume(t.Context(), r.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}})), h.Engine.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
		r = h.Wait(r.ID).RequireState(courier.Completed)
		if got := r.Trace()[4:]; !slices.Equal(got, []string{"1 demo.a[0] completed", "1 demo.a[1] completed"}) {
			t.Errorf("after the resume: %v", got)
		}
		requireAudit(t, r)
	})
}

// TestPutBackForgetsNothing cancels an execution that a resume put back: what
// its failed step began is still rolled back.
func TestPutBackForgetsNothing(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		dir := t.TempDir()
		worker := another(t, h, h.Store, dir)
		operator := engine.New(h.Store, h.Registry, &engine.Options{Workspace: t.TempDir(), WorkspaceID: "elsewhere"})
		rec := &recorder{fail: 1}
		courier.Register(h.Registry, "demo.rec", rec, nil)
		fileStubs(h, nil)
		x := begin(t, worker, h.Job(`{"name": "files", "steps": [{"type": "demo.write", "config": {"names": ["a"]}},
			{"type": "flow.foreach", "config": {"source": [1, 2], "on_resume": "restart"}}, {"type": "demo.rec"}, {"type": "flow.end"}]}`), nil)
		if err := os.Remove(filepath.Join(dir, string(x.ID), "a")); err != nil {
			t.Fatal(err)
		}
		if _, err := operator.Resume(t.Context(), x.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		quiet()
		if x, _ = h.Engine.Executions().Get(t.Context(), x.ID); x.State != courier.Failed || x.StepAttempts != 1 {
			t.Errorf("put back: %s after %d attempts of the step", x.State, x.StepAttempts)
		}
		rec.calls = nil
		if _, err := worker.Cancel(t.Context(), x.ID, &courier.CancelOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		if want := []string{"rollback cancelled"}; !slices.Equal(rec.calls, want) {
			t.Errorf("calls %v, want %v", rec.calls, want)
		}
	})
}

// TestRestartedMarkerCountsItsFailures lets a marker in a loop that starts over
// fail in both passes: each pass has its first attempt.
func TestRestartedMarkerCountsItsFailures(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.a", nil)
		r := h.Run(h.Job(`{"name": "a", "steps": [{"type": "flow.foreach", "config": {"source": ["x"], "on_resume": "restart"}}, {"type": "demo.a"},
			{"type": "flow.if", "config": {"left": "context:1.none", "operator": "equals", "right": 1}}, {"type": "flow.end"}, {"type": "flow.end"}]}`), nil).RequireState(courier.Failed)
		if err := errors.Join(errOf(h.Engine.Resume(t.Context(), r.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}})), h.Engine.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
		r = h.Wait(r.ID).RequireState(courier.Failed)
		r.RequireTrace("1 demo.a[0] completed", "2 flow.if[0] failed", "1 demo.a[0] completed", "2 flow.if[0] failed")
		requireAudit(t, r)
	})
}

// TestNoValuesOfTheFirstPass starts a loop over, takes another branch in the
// second pass, and lets another engine go on: what the branch of the first pass
// left is not seen, neither in the loop nor after it.
func TestNoValuesOfTheFirstPass(t *testing.T) {
	for _, where := range []int{5, 7} {
		couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
			dir := t.TempDir()
			one, two := another(t, h, h.Store, dir), another(t, h, h.Store, dir)
			pass, stopped := 1, false
			h.Stub("demo.which", func(ctx, *courier.Context, map[string]any) (map[string]any, error) { return m{"pass": pass}, nil })
			h.Stub("demo.left", couriertest.Returns(m{"of": "the first pass"}))
			h.Stub("demo.look", func(c ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
				if pass == 1 {
					return nil, errors.New("boom")
				}
				if v, ok := courier.TryGet[string](job, "3.of"); ok {
					t.Errorf("step %d sees what the branch of the first pass left: %s", job.Step(), v)
				}
				if job.Step() == where && !stopped {
					stopped = true
					<-c.Done()
					return nil, c.Err()
				}
				return nil, nil
			})
			x := begin(t, one, h.Job(`{"name": "a", "steps": [
				{"type": "flow.foreach", "config": {"source": ["x"], "on_resume": "restart"}},
				{"type": "demo.which"},
				{"type": "flow.if", "config": {"left": "context:1.pass", "operator": "equals", "right": 1}}, {"type": "demo.left"}, {"type": "flow.end"},
				{"type": "demo.look"},
				{"type": "flow.end"},
				{"type": "demo.look"}]}`), nil)
			pass = 2
			if _, err := one.Resume(t.Context(), x.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); err != nil {
				t.Fatal(err)
			}
			quiet()
			if err := errors.Join(one.Stop(t.Context()), two.Start(t.Context())); err != nil {
				t.Fatal(err)
			}
			r := h.Wait(x.ID).RequireState(courier.Completed).RequireNoValue("3.of")
			if !stopped {
				t.Error("the step was not interrupted")
			}
			requireAudit(t, r)
		})
	}
}

// TestResumeOfLoopBegunAgain loses a worker in a loop that a resume has started again, behind a
// step that had left a file of another size in place of that of the first time. The execution is
// paused before the step runs once more. A resume does not miss the file of the first time.
func TestResumeOfLoopBegunAgain(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		var calls []string
		fails := true
		mortal, dead := killable(h.Store)
		h.Stub("demo.do", func(c ctx, job *courier.Context, cfg map[string]any) (map[string]any, error) {
			name := cfg["name"].(string)
			calls = append(calls, name)
			if name == "b2" && fails {
				return nil, errors.New("boom")
			}
			if name[0] == 'b' {
				return nil, nil
			}
			f, err := job.Files().Create(name)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			if _, err := fmt.Fprint(f, fails); err != nil { // another size, later
				return nil, err
			}
			if err := f.Commit(); err != nil || fails || dead.Load() || len(calls) > 1 {
				return nil, err
			}
			dead.Store(true)
			<-c.Done()
			return nil, context.Cause(c)
		})
		options := func(worker string) *engine.Options {
			return &engine.Options{Worker: worker, Workspace: t.TempDir(), WorkspaceID: "disk"}
		}
		opt := options("one")
		one := engine.New(mortal, h.Registry, opt)
		x := begin(t, one, h.Job(`{"name": "again", "steps": [{"type": "flow.foreach", "config": {"source": ["1", "2"], "on_resume": "restart"}},
			{"type": "demo.do", "config": {"name": "a${context:loop.current_item}"}}, {"type": "demo.do", "config": {"name": "b${context:loop.current_item}"}}, {"type": "flow.end"}]}`), nil)
		time.Sleep(time.Second) // each call of that store takes a moment
		if x, _ = h.Engine.Executions().Get(t.Context(), x.ID); x.State != courier.Failed {
			t.Fatalf("it is %s", x.State)
		}
		calls, fails = nil, false
		by := courier.By{Actor: "ops"}
		if _, err := one.Resume(t.Context(), x.ID, &courier.ResumeOptions{By: by}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if _, err := h.Engine.Pause(t.Context(), x.ID, by); err != nil {
			t.Fatal(err)
		}
		two := engine.New(h.Store, h.Registry, &engine.Options{Worker: "two", Workspace: opt.Workspace, WorkspaceID: "disk"})
		if err := two.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer two.Stop(t.Context())
		time.Sleep(time.Minute)
		if x, _ = two.Executions().Get(t.Context(), x.ID); x.State != courier.Paused {
			t.Fatalf("after %s it is %s", calls, x.State)
		}
		if _, err := two.Resume(t.Context(), x.ID, &courier.ResumeOptions{By: by}); err != nil {
			t.Fatal(err)
		}
		h.Wait(x.ID).RequireState(courier.Completed)
		if got := strings.Join(calls, " "); got != "a1 a1 b1 a2 b2" {
			t.Errorf("called: %s", got)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_ = one.Stop(ended)
	})
}
