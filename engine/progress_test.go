package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storewrap"
)

// oneSecret resolves every name to the same secret.
func oneSecret(ctx, courier.SecretRequest) (string, error) { return "hunter22", nil }

// TestProgressIsSeenByOtherEngines looks at a transfer through an engine that does not
// execute it: while it moves, when it stalls, and when its step is over.
func TestProgressIsSeenByOtherEngines(t *testing.T) {
	couriertest.Virtual(t, &engine.Options{Secrets: oneSecret}, func(t *testing.T, h *couriertest.Harness) {
		const renewal = 5 * time.Second
		var sent, calls atomic.Int32
		s := storewrap.Intercept(h.Store, func(c ctx, call *storewrap.Call, do func(ctx) error) error {
			if r, ok := call.Request.(store.RenewRequest); ok {
				calls.Add(1)
				for _, l := range r.Leases {
					if l.Progress != nil {
						sent.Add(1)
					}
				}
			}
			return do(c)
		})
		worker := engine.New(s, h.Registry, &engine.Options{Workspace: t.TempDir(), Secrets: oneSecret})
		h.Stub("demo.move", func(c ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
			if _, err := job.Secret(c, "pw"); err != nil {
				return nil, err
			}
			job.Stage("transfer")
			for done := range int64(10) {
				job.Progress(done*100, 2000, "hunter22/a\x1b[2J"+strings.Repeat("b", 300))
				time.Sleep(time.Second)
			}
			time.Sleep(2 * time.Minute) // stalls
			return nil, nil
		})
		h.Stub("demo.quiet", func(ctx, *courier.Context, map[string]any) (map[string]any, error) {
			time.Sleep(2 * time.Minute)
			return nil, nil
		})
		job := h.Job(`{"name": "a", "steps": [{"type": "demo.move"}, {"type": "demo.quiet"}]}`)
		x := begin(t, worker, job, nil)
		look := func() *courier.Progress {
			t.Helper()
			x, err := h.Engine.Executions().Get(t.Context(), x.ID)
			if err != nil || x.Current == nil {
				t.Fatal(x.Current, err)
			}
			return x.Current.Progress
		}
		time.Sleep(renewal + time.Second)
		p := look()
		if p == nil || p.Done < 300 || p.Total != 2000 || p.Stage != "transfer" || time.Since(p.ChangedAt) > 2*renewal {
			t.Fatalf("after a renewal another engine sees %+v", p)
		}
		if len(p.Item) > 260 || strings.ContainsAny(p.Item, "\x1b") || strings.Contains(p.Item, "hunter22") || !strings.HasPrefix(p.Item, "[secret pw]/a\uFFFD[2Jbbb") {
			t.Errorf("the item is shown as %q", p.Item)
		}
		time.Sleep(2 * renewal)
		stalled := look()
		if stalled.Done != 900 {
			t.Fatalf("it has %d bytes, not 900", stalled.Done)
		}
		before := sent.Load()
		time.Sleep(time.Minute)
		if p := look(); *p != *stalled {
			t.Errorf("stalled at %+v, and a minute later %+v", stalled, p)
		}
		if d := time.Since(stalled.ChangedAt); d < time.Minute+renewal || d > time.Minute+3*renewal {
			t.Errorf("it stalls since %v", d)
		}
		if sent.Load() != before || calls.Load() < 12 {
			t.Errorf("of a transfer that stalls %d renewals of %d sent progress", sent.Load()-before, calls.Load())
		}
		time.Sleep(time.Minute)
		before = sent.Load()
		if p := look(); p != nil {
			t.Errorf("the next step has the progress %+v", p)
		}
		h.Wait(x.ID).RequireState(courier.Completed)
		if sent.Load() != before {
			t.Errorf("a step that reports nothing sent %d times", sent.Load()-before)
		}
	})
}

// A savingStep saves a cursor in each attempt, and notes down which one it was given.
type savingStep struct {
	mu  sync.Mutex
	got []string
	do  func(c ctx, job *courier.Context) error
}

func (s *savingStep) stub(c ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
	var cursor string
	if !job.Cursor(&cursor) {
		cursor = "none"
	}
	me := fmt.Sprintf("%d%v#%d.%d", job.Step(), job.Iteration(), job.ExecutionAttempt(), job.Attempt())
	s.mu.Lock()
	s.got = append(s.got, me+" "+cursor)
	s.mu.Unlock()
	if err := job.SaveCursor(me); err != nil {
		return nil, err
	}
	if s.do == nil {
		return nil, nil
	}
	return nil, s.do(c, job)
}

func (s *savingStep) require(t *testing.T, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.got, want) {
		t.Errorf("attempts with the cursors they were given:\n%q, want\n%q", s.got, want)
	}
}

// failsUpTo fails the attempts up to n of the first iteration of step 1 or 0.
func failsUpTo(n int) func(ctx, *courier.Context) error {
	return func(_ ctx, job *courier.Context) error {
		if job.Attempt()+10*(job.ExecutionAttempt()-1) <= n {
			return errBoom
		}
		return nil
	}
}

const savingJob = `{"name": "a", "failure_policy": %s, "steps": [{"type": "demo.save"}, {"type": "demo.save"}]}`

func TestCursorOutlastsAttempts(t *testing.T) {
	type test struct {
		name, policy string
		do           func(c ctx, job *courier.Context) error
		then         func(t *testing.T, h *couriertest.Harness, id courier.ExecutionID)
		want         []string
	}
	waitOnce := func(c ctx, job *courier.Context) error {
		if job.Repeated() {
			return nil
		}
		<-c.Done()
		return contextCause(c)
	}
	resume := func(opt *courier.ResumeOptions) func(t *testing.T, h *couriertest.Harness, id courier.ExecutionID) {
		return func(t *testing.T, h *couriertest.Harness, id courier.ExecutionID) {
			h.Wait(id).RequireState(courier.Failed)
			if _, err := h.Engine.Resume(t.Context(), id, opt); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []test{
		{name: "retry_step", policy: `{"type": "retry_step", "max_retries": 3}`, do: failsUpTo(2), want: []string{
			"0[]#1.1 none", "0[]#1.2 0[]#1.1", "0[]#1.3 0[]#1.2", "1[]#1.1 none", "1[]#1.2 1[]#1.1", "1[]#1.3 1[]#1.2",
		}},
		{name: "retry_job", policy: `{"type": "retry_job", "max_retries": 3}`, do: failsUpTo(1), want: []string{
			"0[]#1.1 none", "0[]#2.1 none", "1[]#2.1 none",
		}},
		{name: "skip", policy: `"skip_and_continue"`, do: failsUpTo(1), want: []string{"0[]#1.1 none", "1[]#1.1 none"}},
		{name: "failure and resume", policy: `"stop"`, do: failsUpTo(1), then: func(t *testing.T, h *couriertest.Harness, id courier.ExecutionID) {
			resume(nil)(t, h, id)
			resume(nil)(t, h, id)
		}, want: []string{"0[]#1.1 none", "0[]#1.2 0[]#1.1", "1[]#1.1 none", "1[]#1.2 1[]#1.1"}},
		{name: "resume with a change", policy: `"stop"`, do: func(c ctx, job *courier.Context) error {
			if job.Step() == 1 && job.Attempt() == 1 {
				return errBoom
			}
			return nil
		}, then: resume(&courier.ResumeOptions{From: "0"}), want: []string{
			"0[]#1.1 none", "1[]#1.1 none", "0[]#1.2 none", "1[]#1.2 none",
		}},
		{name: "pause", policy: `{"type": "retry_step", "max_retries": 1, "backoff_base_seconds": 60}`, do: failsUpTo(1), then: func(t *testing.T, h *couriertest.Harness, id courier.ExecutionID) {
			for range 2 {
				quiet()
				for _, request := range []func(context.Context, courier.ExecutionID, courier.By) (courier.Execution, error){
					h.Engine.Pause,
					func(c ctx, id courier.ExecutionID, by courier.By) (courier.Execution, error) {
						return h.Engine.Resume(c, id, &courier.ResumeOptions{By: by})
					},
				} {
					if _, err := request(t.Context(), id, courier.By{}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}, want: []string{"0[]#1.1 none", "0[]#1.2 0[]#1.1", "1[]#1.1 none", "1[]#1.2 1[]#1.1"}},
		{name: "stop", policy: `"stop"`, do: waitOnce, then: func(t *testing.T, h *couriertest.Harness, id courier.ExecutionID) {
			quiet()
			for range 2 {
				stopAndStart(t, h)
			}
		}, want: []string{"0[]#1.1 none", "0[]#1.1 0[]#1.1", "1[]#1.1 none", "1[]#1.1 1[]#1.1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
				s := &savingStep{do: c.do}
				h.Stub("demo.save", s.stub)
				h.Start()
				id := h.Enqueue(h.Job(fmt.Sprintf(savingJob, c.policy)), nil)
				if c.then != nil {
					c.then(t, h, id)
				}
				h.Wait(id).RequireState(courier.Completed)
				s.require(t, c.want...)
			})
		})
	}
}

// stopAndStart has the engine hand its executions over, to itself.
func stopAndStart(t *testing.T, h *couriertest.Harness) {
	t.Helper()
	if err := errors.Join(h.Engine.Stop(t.Context()), h.Engine.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	quiet()
}

// TestCursorOutlastsWorkers loses one worker after the other in the same attempt: each next
// one gets the cursor of the one before, also if that was lost before it has renewed its
// lease.
func TestCursorOutlastsWorkers(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		var starts atomic.Int32
		s := &savingStep{do: func(c ctx, job *courier.Context) error {
			if starts.Add(1) == 3 {
				return nil
			}
			<-c.Done()
			return contextCause(c)
		}}
		h.Stub("demo.save", s.stub)
		var x courier.Execution
		for i, life := range []time.Duration{6 * time.Second, time.Second} {
			killed, dead := killable(h.Store)
			e := engine.New(killed, h.Registry, &engine.Options{Workspace: t.TempDir(), Worker: fmt.Sprint("w", i)})
			if i == 0 {
				x = begin(t, e, h.Job(`{"name": "a", "steps": [{"type": "demo.save"}]}`), nil)
			} else if err := e.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			for int(starts.Load()) == i {
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(life)
			dead.Store(true)
			defer e.Stop(t.Context())
		}
		h.Start()
		h.Wait(x.ID).RequireState(courier.Completed)
		// The second one has not renewed its lease, so what it saved is lost.
		s.require(t, "0[]#1.1 none", "0[]#1.2 0[]#1.1", "0[]#1.3 0[]#1.1")
	})
}

// TestCursorStaysInItsIteration fails an item, whose cursor no other item and no second
// pass over the loop may get.
func TestCursorStaysInItsIteration(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		s := &savingStep{do: func(_ ctx, job *courier.Context) error {
			if job.Iteration()[0] == 0 && job.Attempt() < 3 {
				return errBoom
			}
			return nil
		}}
		h.Stub("demo.save", s.stub)
		h.Start()
		id := h.Enqueue(h.Job(`{"name": "a", "failure_policy": "stop", "steps": [
			{"type": "flow.foreach", "config": {"source": [1, 2, 3]}}, {"type": "demo.save", "failure_policy": {"type": "retry_step", "max_retries": 2}}, {"type": "flow.end"}]}`), nil)
		h.Wait(id).RequireState(courier.Completed)
		s.require(t, "1[0]#1.1 none", "1[0]#1.2 1[0]#1.1", "1[0]#1.3 1[0]#1.2", "1[1]#1.1 none", "1[2]#1.1 none")
	})
}

// TestCursorEndsWithThePass resumes an execution whose loop begins anew: the second pass
// over the first item gets no cursor of the first pass.
func TestCursorEndsWithThePass(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		var failed atomic.Bool
		s := &savingStep{do: func(ctx, *courier.Context) error {
			if failed.CompareAndSwap(false, true) {
				return errBoom
			}
			return nil
		}}
		h.Stub("demo.save", s.stub)
		h.Start()
		id := h.Enqueue(h.Job(`{"name": "a", "failure_policy": "stop", "steps": [
			{"type": "flow.foreach", "config": {"source": [1], "on_resume": "restart"}}, {"type": "demo.save"}, {"type": "flow.end"}]}`), nil)
		h.Wait(id).RequireState(courier.Failed)
		if _, err := h.Engine.Resume(t.Context(), id, nil); err != nil {
			t.Fatal(err)
		}
		h.Wait(id).RequireState(courier.Completed)
		s.require(t, "1[0]#1.1 none", "1[0]#1.1 none")
	})
}
