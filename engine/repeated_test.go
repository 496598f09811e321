package engine_test

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/stepcontext"
)

// In a loop that is started again, a step is repeated only in the iterations to
// which the first pass came: what it finds done elsewhere is not its own doing. Its
// attempts are counted anew, and its starts have numbers above all of the passes
// before, also where it never ran.
func TestRepeatedInRestartedLoop(t *testing.T) {
	h := couriertest.New(t, nil)
	var got []string
	fails := []int{4, 8, 10} // calls
	pass, before := 0, -1    // the number of passes, and of the starts before the last one
	f := func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
		if earlier := stepcontext.Of(job).StartNumber() - job.Attempt(); earlier > before {
			pass, before = pass+1, earlier
		} else if earlier < before {
			t.Errorf("start number %d in attempt %d, after a pass that began with %d", stepcontext.Of(job).StartNumber(), job.Attempt(), before+1)
		}
		got = append(got, fmt.Sprintf("%s%v %v %d %d", job.Type(), job.Iteration(), job.Repeated(), job.Attempt(), pass))
		if slices.Contains(fails, len(got)) {
			return nil, errors.New("boom")
		}
		return nil, nil
	}
	h.Stub("demo.a", f)
	h.Stub("demo.b", f)
	h.Stub("demo.c", f)
	r := h.Run(h.Job(`{"name": "a", "steps": [{"type": "flow.foreach", "config": {"source": ["x", "y", "z"], "on_resume": "restart"}},
		{"type": "demo.a"}, {"type": "demo.b"}, {"type": "flow.end"},
		{"type": "flow.foreach", "config": {"source": ["x"]}}, {"type": "demo.c"}, {"type": "flow.end"}]}`), nil).RequireState(courier.Failed)
	for i := range fails {
		if _, err := h.Engine.Resume(t.Context(), r.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if err := h.Engine.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		r = h.Wait(r.ID)
	}
	r.RequireState(courier.Completed)
	if want := []string{
		"demo.a[0] false 1 1", "demo.b[0] false 1 1", "demo.a[1] false 1 1", "demo.b[1] false 1 1", // fails
		"demo.a[0] true 1 2", "demo.b[0] true 1 2", "demo.a[1] true 1 2", "demo.b[1] true 1 2", // fails
		"demo.a[0] true 1 3", "demo.b[0] true 1 3", // fails
		"demo.a[0] true 1 4", "demo.b[0] true 1 4", "demo.a[1] true 1 4", "demo.b[1] true 1 4", "demo.a[2] false 1 4", "demo.b[2] false 1 4", "demo.c[0] false 1 4",
	}; !slices.Equal(got, want) {
		t.Errorf("the starts were\n%q\nwant\n%q", got, want)
	}
}

// TestRestartedLoopCountsAlikeEverywhere has a step in a loop that was started again
// fail twice: what the step reads, its records, the audit, the events, the failure
// and the log have one number.
func TestRestartedLoopCountsAlikeEverywhere(t *testing.T) {
	var events []int
	couriertest.Virtual(t, &engine.Options{Observers: []func(courier.Event){func(e courier.Event) {
		if e.Type == courier.EventStepStarted {
			events = append(events, e.Attempt)
		}
	}}}, func(t *testing.T, h *couriertest.Harness) {
		var read []int
		h.Stub("demo.a", func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
			read = append(read, job.Attempt())
			return nil, errBoom
		})
		r := h.Run(h.Job(`{"name": "a", "failure_policy": {"type": "retry_step", "max_retries": 1}, "steps": [
			{"type": "flow.foreach", "config": {"source": ["x"], "on_resume": "restart"}}, {"type": "demo.a"}, {"type": "flow.end"}]}`), nil).RequireState(courier.Failed)
		if err := errors.Join(errOf(h.Engine.Resume(t.Context(), r.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}})), h.Engine.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
		r = h.Wait(r.ID).RequireState(courier.Failed)
		quiet()
		want := []int{1, 2, 1, 2}
		var records, audited, lines []int
		for _, s := range r.Steps {
			records = append(records, s.Attempt)
		}
		for _, a := range r.Audit {
			if a.Step != nil && a.To == string(courier.StepRunning) {
				audited = append(audited, a.Attempt)
			}
		}
		for line := range strings.Lines(h.Log()) {
			if _, rest, ok := strings.Cut(line, `msg="step failed"`); ok {
				var n int
				_, rest, _ = strings.Cut(rest, "attempt=")
				if _, err := fmt.Sscan(rest, &n); err != nil {
					t.Error(err)
				}
				lines = append(lines, n)
			}
		}
		for what, got := range map[string][]int{"step": read, "records": records, "audit": audited, "events": events, "log": lines} {
			if !slices.Equal(got, want) {
				t.Errorf("%s: attempts %v, want %v", what, got, want)
			}
		}
		if r.Failure.Attempt != 2 || r.StepAttempts != 2 || r.EarlierStarts < 2 {
			t.Errorf("failure in attempt %d, %d attempts after %d earlier starts", r.Failure.Attempt, r.StepAttempts, r.EarlierStarts)
		}
	})
}

// TestCancelInRestartedLoopRollsBackTheAttempt cancels, without a worker, an
// execution that failed in a loop that was started again: what is rolled back has the
// directory and the side files of the attempt that failed, both of which the first
// pass did not have.
func TestCancelInRestartedLoopRollsBackTheAttempt(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		s := &placed{}
		courier.Register(h.Registry, "demo.placed", s, nil)
		r := h.Run(h.Job(`{"name": "a", "steps": [
			{"type": "flow.foreach", "config": {"source": ["x"], "on_resume": "restart"}}, {"type": "demo.placed"}, {"type": "flow.end"}]}`), nil).RequireState(courier.Failed)
		if err := errors.Join(errOf(h.Engine.Resume(t.Context(), r.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}})), h.Engine.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
		h.Wait(r.ID).RequireState(courier.Failed)
		s.rolledBack = nil
		if _, err := h.Engine.Cancel(t.Context(), r.ID, &courier.CancelOptions{By: courier.By{Actor: "ops"}}); err != nil {
			t.Fatal(err)
		}
		if len(s.executed) != 2 || path.Dir(s.executed[0]) == path.Dir(s.executed[1]) || path.Base(s.executed[0]) == path.Base(s.executed[1]) || !slices.Equal(s.rolledBack, s.executed[1:]) {
			t.Errorf("executed %q, rolled back %q, want the last one", s.executed, s.rolledBack)
		}
	})
}

// A placed step fails, and notes where its attempts write.
type placed struct{ executed, rolledBack []string }

func at(job *courier.Context) string {
	return path.Join(job.Files().Dir(), stepcontext.Of(job).SideName("a"))
}

func (s *placed) Execute(_ ctx, job *courier.Context, _ m) (m, error) {
	s.executed = append(s.executed, at(job))
	return nil, errBoom
}

func (s *placed) Rollback(_ ctx, job *courier.Context, _ m) error {
	s.rolledBack = append(s.rolledBack, at(job))
	if !job.Repeated() {
		return errors.New("not told that it was begun")
	}
	return nil
}
