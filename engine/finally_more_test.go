package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/steps/file"
	"github.com/courierhq/courier/store"
)

const shortFinally = `{"name": "a", %s "steps": [{"id": "work", "type": "demo.do", "config": {"what": "work"}},
	{"type": "flow.finally"%s}, {"id": "tell", "type": "demo.do", "config": {"what": "tell"}}, {"type": "demo.do", "config": {"what": "tidy ${context:job.outcome}"}}]}`

// Whenever a worker is lost, the finally part runs to its end once, and the outcome is the one
// that was decided. The worker is lost before or after each of its writes in turn.
func TestFinallySurvivesWorkers(t *testing.T) {
	for outcome, fails := range map[courier.State]map[string]courier.Reason{
		courier.Completed: nil, courier.Failed: {"load": courier.ReasonInvalid}, courier.Cancelled: {"load": courier.ReasonInvalid},
	} {
		for at := range 20 {
			couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
				d := &doings{fails: fails}
				d.stub(h)
				job := h.Job(fmt.Sprintf(withFinally, ""))
				var meanwhile func(b *engine.Engine, id courier.ExecutionID)
				if outcome == courier.Cancelled { // while it waits for its retry
					job.FailurePolicy.BackoffBase = new(10 * time.Minute)
					job.FailurePolicy.BackoffMax = new(10 * time.Minute)
					meanwhile = func(b *engine.Engine, id courier.ExecutionID) {
						if _, err := b.Cancel(t.Context(), id, &courier.CancelOptions{By: courier.By{Actor: "ann"}}); err != nil {
							t.Fatal(err)
						}
					}
				}
				x, records := outlive(t, h, at, func(b *engine.Engine) courier.ExecutionID { return enqueue(t, b, job) }, meanwhile)
				if x.State != outcome || x.Finishing != nil || x.FinallyError != nil {
					t.Fatalf("%d: %s, want %s: %+v, %+v", at, x.State, outcome, x.Finishing, x.FinallyError)
				}
				want := map[string]int{"3 []": 1, "4 []": 1}
				if outcome == courier.Completed {
					want["1 []"] = 1
				}
				completed := completedIn(records)
				if n := completed["0 []"]; n == 1 || n == 0 && outcome != courier.Cancelled {
					want["0 []"] = 1
				}
				if !maps.Equal(completed, want) {
					t.Errorf("%s, %d: completed were %v, want %v", outcome, at, completed, want)
				}
			})
		}
	}
}

// The finally part has a time of its own, however long the execution may take.
func TestFinallyTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		job, marker string
		deeds       map[string]deed
		did         string
		state       courier.State
		failures    string // the reasons
		after       time.Duration
	}{
		"its own":    {"", `, "timeout_seconds": 60`, map[string]deed{"tell": until}, "work|tell", courier.Completed, "- timeout", time.Minute},
		"by default": {"", "", map[string]deed{"tell": until}, "work|tell", courier.Completed, "- timeout", 5 * time.Minute},
		"that of the execution does not count": {`"timeout_seconds": 5,`, "", map[string]deed{"tell": lasting(time.Minute)},
			"work|tell|tidy completed", courier.Completed, "- -", time.Minute},
		"of the execution": {`"timeout_seconds": 5,`, "", map[string]deed{"work": until}, "work|tell|tidy failed", courier.Failed, "execution_timeout -", 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
				w := &doings{deeds: c.deeds}
				id := w.begin(t, h, fmt.Sprintf(shortFinally, c.job, c.marker))
				h.Start()
				x, err := h.Engine.Wait(t.Context(), id)
				reason := func(f *courier.Failure) string {
					if f == nil {
						return "-"
					}
					return string(f.Reason)
				}
				if got := reason(x.Failure) + " " + reason(x.FinallyError); err != nil || x.State != c.state || w.did() != c.did || got != c.failures {
					t.Errorf("%s, %s, %s; %+v, %+v, %v", x.State, w.did(), got, x.Failure, x.FinallyError, err)
				}
				if took := x.EndedAt.Sub(x.StartedAt); took < c.after || took > c.after+30*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// What is asked of an execution while its finally part runs does not change its outcome.
func TestRequestsInFinally(t *testing.T) {
	for name, c := range map[string]struct {
		ask      func(ctx context.Context, e *engine.Engine, id courier.ExecutionID) error
		did      string
		finally  string // error
		last     string // what the audit says at the end
		requests courier.RequestKind
		refused  string
	}{
		"a pause": {func(ctx context.Context, e *engine.Engine, id courier.ExecutionID) error {
			return errOf(e.Pause(ctx, id, courier.By{Actor: "ann"}))
		}, "work|tell|tidy completed", "", "a pause that was asked for did not take effect, since the finally part has no place for one; by ann", courier.RequestPause, ""},
		"a cancel": {func(ctx context.Context, e *engine.Engine, id courier.ExecutionID) error {
			return errOf(e.Cancel(ctx, id, &courier.CancelOptions{By: courier.By{Actor: "ann"}}))
		}, "work|tell|tidy completed", "", "", "", "runs its finally part and will be completed, so it can't become cancelled; to end that part, cancel it without the finally part"},
		"a cancel of the part": {func(ctx context.Context, e *engine.Engine, id courier.ExecutionID) error {
			return errOf(e.Cancel(ctx, id, &courier.CancelOptions{WithoutFinally: true, By: courier.By{Actor: "ann", Reason: "enough"}}))
		}, "work|tell", `"ann" has ended the finally part by a cancel: enough`, `the finally part has failed: "ann" has ended the finally part by a cancel: enough`, courier.RequestAbort, ""},
		"a pause that is withdrawn": {func(ctx context.Context, e *engine.Engine, id courier.ExecutionID) error {
			return errors.Join(errOf(e.Pause(ctx, id, courier.By{Actor: "ann"})), errOf(e.Resume(ctx, id, nil)))
		}, "work|tell|tidy completed", "", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
				w := &doings{deeds: map[string]deed{"tell": lasting(time.Minute)}}
				id := w.begin(t, h, fmt.Sprintf(shortFinally, "", ""))
				var events []string
				defer h.Engine.Observe(func(e courier.Event) {
					if e.Type == courier.EventJobCompleted {
						events = append(events, e.FinallyError)
					}
				})()
				h.Start()
				time.Sleep(10 * time.Second)
				x := got(t, h, id)
				if x.Status(time.Now()) != "finishing" || x.Finishing.Outcome != courier.Completed {
					t.Fatalf("it is %s", x.Status(time.Now()))
				}
				err := c.ask(t.Context(), h.Engine, id)
				if c.refused != "" {
					if err == nil || !strings.Contains(err.Error(), c.refused) {
						t.Errorf("error %v", err)
					}
				} else if err != nil {
					t.Fatal(err)
				}
				if x = got(t, h, id); x.State == courier.Running && x.Request != c.requests {
					t.Errorf("the request is %q, want %q", x.Request, c.requests)
				}
				x, err = h.Engine.Wait(t.Context(), id)
				if err != nil || x.State != courier.Completed || failureText(x.FinallyError) != c.finally || w.did() != c.did {
					t.Errorf("%s, %s, %+v, %v", x.State, w.did(), x.FinallyError, err)
				}
				audit, err := h.Engine.Executions().Audit(t.Context(), id)
				if err != nil || audit[len(audit)-1].Error != c.last {
					t.Errorf("the audit ends with %+v, %v", audit[len(audit)-1], err)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if len(events) != 1 || events[0] != c.finally {
					t.Errorf("the events are %q", events)
				}
			})
		})
	}
}

// A second cancel ends the finally part of the first one.
func TestSecondCancelEndsFinally(t *testing.T) {
	for _, part := range []string{"work", "tell"} { // where the execution is at the second one
		couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
			stubborn := func(ctx context.Context, _ *courier.Context) error {
				<-ctx.Done()
				time.Sleep(3 * time.Second)
				return context.Cause(ctx)
			}
			w := &doings{deeds: map[string]deed{"work": stubborn, "tell": until}}
			id := w.begin(t, h, fmt.Sprintf(shortFinally, "", ""))
			h.Start()
			time.Sleep(10 * time.Second)
			for range 2 {
				if _, err := h.Engine.Cancel(t.Context(), id, &courier.CancelOptions{By: courier.By{Actor: "ann"}}); err != nil {
					t.Fatal(err)
				}
				if part == "tell" {
					time.Sleep(time.Minute)
				}
			}
			x, err := h.Engine.Wait(t.Context(), id)
			want := map[string]string{"work": "work", "tell": "work|tell"}[part]
			if err != nil || x.State != courier.Cancelled || w.did() != want || (x.FinallyError != nil) != (part == "tell") {
				t.Errorf("%s, %s, %+v, %v", x.State, w.did(), x.FinallyError, err)
			}
		})
	}
}

// An execution that has not begun, and one that has failed and is given up, run none. One with
// retry_job runs it once.
func TestFinallyRunsForEndsOnly(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		n := 0
		w := &doings{deeds: map[string]deed{"work": func(context.Context, *courier.Context) error {
			if n++; n < 3 {
				return errors.New("bad")
			}
			return nil
		}}}
		id := w.begin(t, h, fmt.Sprintf(shortFinally, `"failure_policy": {"type": "retry_job", "max_retries": 5, "backoff_base_seconds": 1},`, ""))
		if x, err := h.Engine.Cancel(t.Context(), id, &courier.CancelOptions{By: courier.By{}}); err != nil || x.State != courier.Cancelled || w.did() != "" {
			t.Errorf("never begun: %s, %s, %v", x.State, w.did(), err)
		}
		h.Start()
		x, err := h.Engine.Enqueue(t.Context(), "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		x, err = h.Engine.Wait(t.Context(), x.ID)
		if err != nil || x.State != courier.Completed || w.did() != "work|work|work|tell|tidy completed" {
			t.Errorf("%s, %s, %v", x.State, w.did(), err)
		}
		w.deeds["work"] = func(context.Context, *courier.Context) error { return courier.Permanent(errors.New("bad")) }
		x, err = h.Engine.Enqueue(t.Context(), "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		w.taken()
		x, err = h.Engine.Wait(t.Context(), x.ID)
		if err != nil || x.State != courier.Failed || w.did() != "work|tell|tidy failed" {
			t.Errorf("%s, %s, %v", x.State, w.did(), err)
		}
		if x, err = h.Engine.Cancel(t.Context(), x.ID, &courier.CancelOptions{By: courier.By{}}); err != nil || x.State != courier.Cancelled || w.did() != "work|tell|tidy failed" {
			t.Errorf("given up: %s, %s, %v", x.State, w.did(), err)
		}
	})
}

// Three workers that are lost in it end it, and a stop hands it over.
func TestFinallyIsHandedOn(t *testing.T) {
	for _, lost := range []bool{true, false} {
		couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
			w := &doings{deeds: map[string]deed{}}
			id := w.begin(t, h, fmt.Sprintf(shortFinally, "", `, "timeout_seconds": 3000`))
			dir := t.TempDir()
			var workers []*engine.Engine
			var kill []*atomic.Bool
			for i := range 4 {
				reached, dead := killable(h.Store)
				workers = append(workers, engine.New(reached, h.Registry, &engine.Options{Workspace: dir, Worker: fmt.Sprint("w", i), Grace: time.Second}))
				kill = append(kill, dead)
			}
			var at atomic.Int32
			w.deeds["tell"] = func(ctx context.Context, job *courier.Context) error {
				if !lost && at.Load() > 0 {
					return nil
				}
				kill[at.Load()].Store(lost)
				return until(ctx, job)
			}
			for i, e := range workers {
				at.Store(int32(i))
				if err := e.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if !lost {
					if err := e.Stop(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			x := got(t, h, id)
			want, message := "work|tell|tell|tidy completed", ""
			if lost {
				want, message = "work|tell|tell|tell", "3 workers were lost here in a row; the work itself may have ended them"
			}
			if x.State != courier.Completed || w.did() != want || failureText(x.FinallyError) != message {
				t.Errorf("lost %v: %s, %s, %+v", lost, x.State, w.did(), x.FinallyError)
			}
			for _, e := range workers {
				e.Stop(t.Context())
			}
		})
	}
}

// Outputs of the job are kept before the finally part, which sees what has failed and what was
// rescued.
func TestFinallySeesWhatWasDone(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		out := t.TempDir()
		h.Engine = h.AddEngine(&engine.Options{Roots: []string{out}})
		withPack(t, h)
		file.Register(h.Registry, nil)
		kept := ""
		w := &doings{deeds: map[string]deed{
			"b": func(context.Context, *courier.Context) error { return courier.Permanent(errors.New("b is bad")) },
			"look": func(context.Context, *courier.Context) error {
				list, err := filepath.Glob(out + "/*.txt")
				kept = fmt.Sprint(len(list))
				return err
			},
		}}
		text := strings.ReplaceAll(`{"name": "a", "outputs": [{"from": "context:pack.archive_path", "to": "DIR/"}], "result": "context:pack.archive_path", "steps": [
			{"id": "pack", "type": "demo.pack"},
			{"id": "one", "type": "flow.foreach", "config": {"source": ["a", "b"], "on_item_failure": "continue"}}, {"type": "demo.do", "config": {"what": "context:loop.current_item"}}, {"type": "flow.end"},
			{"type": "flow.foreach", "config": {"source": ["b", "c"]}}, {"type": "demo.do", "config": {"what": "context:loop.current_item"}}, {"type": "flow.rescue"}, {"type": "demo.do", "config": {"what": "aside"}}, {"type": "flow.end"},
			{"type": "flow.finally"},
			{"type": "demo.do", "config": {"what": "look"}},
			{"id": "each", "type": "flow.foreach", "config": {"source": "context:job.failed", "on_item_failure": "continue"}}, {"type": "demo.do", "config": {"what": "${context:loop.label} ${context:loop.current_item.message}"}}, {"type": "flow.end"},
			{"type": "demo.do", "config": {"what": "${context:job.outcome} ${context:job.error.class} ${context:job.rescued[0].label} ${context:one.failed_count} ${context:each.count} ${context:each.failed_count}"}}]}`, "DIR", filepath.ToSlash(out))
		w.stub(h)
		x, err := h.Engine.Run(t.Context(), h.Job(text), nil)
		if err == nil || x.State != courier.Failed || x.Failure.Reason != courier.ReasonItems || x.FinallyError != nil || kept != "1" || x.FailedItems != 1 || x.RescuedItems != 1 {
			t.Errorf("%s: %+v, %+v, %q files were kept, %d failed, %d rescued, %v", x.State, x.Failure, x.FinallyError, kept, x.FailedItems, x.RescuedItems, err)
		}
		if want := `a|b|b|aside|c|look|0 item "b" (index 1): b is bad|failed items_failed b 1 1 0`; w.did() != want {
			t.Errorf("done was\n%s, want\n%s", w.did(), want)
		}
		failed, err := h.Engine.Executions().FailedItems(t.Context(), x.ID)
		if err != nil || len(failed) != 1 || failed[0].Loop != 1 {
			t.Errorf("%+v, %v", failed, err)
		}
		os.RemoveAll(out)
	})
}

// Items of loops in the finally part that fail are its failure, and none of the execution.
func TestItemsOfFinally(t *testing.T) {
	h := couriertest.New(t, nil)
	w := &doings{deeds: map[string]deed{"y": func(context.Context, *courier.Context) error { return courier.Permanent(errors.New("bad")) }}}
	w.stub(h)
	r := h.Run(h.Job(`{"name": "a", "steps": [{"type": "demo.do", "config": {"what": "work"}}, {"type": "flow.finally"},
		{"id": "each", "type": "flow.foreach", "config": {"source": ["x", "y", "z"], "on_item_failure": "continue"}}, {"type": "demo.do", "config": {"what": "context:loop.current_item"}}, {"type": "flow.end"},
		{"type": "demo.do", "config": {"what": "${context:each.failed_count}"}}]}`), nil).RequireState(courier.Completed)
	x := got(t, h, r.ID)
	if w.did() != "work|x|y|z|1" || x.FailedItems != 0 || failureText(x.FinallyError) != "items of loops in the finally part have failed: 1" {
		t.Errorf("%s, %d failed items, %+v", w.did(), x.FailedItems, x.FinallyError)
	}
	if failed, err := h.Engine.Executions().FailedItems(t.Context(), r.ID); err != nil || len(failed) != 0 {
		t.Errorf("%+v, %v", failed, err)
	}
	list, err := h.Engine.Executions().List(t.Context(), store.Filter{FinallyError: true})
	if err != nil || len(list) != 1 {
		t.Errorf("%d in the list of those whose finally part has failed, %v", len(list), err)
	}
}

// The outline shows the finally part beside the end of the others, and a dry run validates it.
func TestOutlineOfFinally(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		w := &doings{deeds: map[string]deed{"work": func(context.Context, *courier.Context) error { return courier.Permanent(errors.New("bad")) }, "tell": lasting(time.Minute)}}
		id := w.begin(t, h, strings.Replace(fmt.Sprintf(shortFinally, "", ""), `{"type": "flow.finally"}`, `{"type": "demo.do", "config": {"what": "never"}}, {"type": "flow.finally"}`, 1))
		states := func() string {
			o, err := h.Engine.Executions().Outline(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			var list []string
			for _, s := range o.Steps {
				list = append(list, string(s.State))
			}
			return strings.Join(list, " ")
		}
		if got := states(); got != "pending pending pending pending pending" {
			t.Errorf("before: %s", got)
		}
		h.Start()
		time.Sleep(10 * time.Second)
		if got := states(); got != "failed pending running running pending" {
			t.Errorf("while it runs: %s", got)
		}
		if _, err := h.Engine.Wait(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if got := states(); got != "failed pending completed completed completed" {
			t.Errorf("in the end: %s", got)
		}
		report, err := h.Engine.Jobs().DryRun(t.Context(), h.Job(fmt.Sprintf(shortFinally, "", "")), nil)
		if err != nil || report.Err() != nil || len(report.Steps) != 3 || report.Steps[2].Path != "finally.3" {
			t.Errorf("%+v, %v, %v", report.Steps, report.Err(), err)
		}
		if _, err := h.Engine.DryRunResume(t.Context(), id, &courier.ResumeOptions{From: "tell"}); err == nil || !strings.Contains(err.Error(), "belongs to the finally part, which runs after the other steps") {
			t.Errorf("a resume from the finally part: %v", err)
		}
	})
}

// A finally part that waits needs a worker of its queue with its step types: explained is which
// one is missing, and a worker that has them takes it.
func TestExplainOfFinally(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		w := &doings{deeds: map[string]deed{"work": until}}
		id := w.begin(t, h, fmt.Sprintf(shortFinally, `"queue": "night",`, ""))
		dir := t.TempDir()
		worker := func(queue string) *engine.Engine {
			e := engine.New(h.Store, h.Registry, &engine.Options{Workspace: dir, Worker: "w-" + queue, Queues: []string{queue}, Grace: time.Second})
			if err := e.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			return e
		}
		first := worker("night")
		time.Sleep(time.Second)
		if _, err := h.Engine.Pause(t.Context(), id, courier.By{}); err != nil {
			t.Fatal(err)
		}
		if err := first.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		day := worker("day")
		time.Sleep(time.Minute)
		if _, err := h.Engine.Cancel(t.Context(), id, &courier.CancelOptions{By: courier.By{}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		why, err := h.Engine.Executions().Explain(t.Context(), id)
		texts := ""
		for _, b := range why.Because {
			texts += b.Text + "\n"
		}
		if err != nil || !strings.Contains(texts, `No worker serves the queue "night".`) {
			t.Errorf("explained %+v, %v", why, err)
		}
		again := worker("night")
		time.Sleep(2 * time.Minute)
		if x := got(t, h, id); x.State != courier.Cancelled || !strings.HasSuffix(w.did(), "tell|tidy cancelled") {
			t.Errorf("%s: %s, %+v", x.State, w.did(), x.FinallyError)
		}
		for _, e := range []*engine.Engine{day, again} {
			if err := e.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}
