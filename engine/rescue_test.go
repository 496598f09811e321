package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/steps/job"
	"github.com/courierhq/courier/store"
)

const quarantine = `{"name": "a", "params": {"files": ["x", "y", "z"]}, "failure_policy": {"type": "retry_step", "max_retries": 1, "backoff_base_seconds": 0.001}, "steps": [
	{"id": "each", "type": "flow.foreach", "config": {"source": "context:params.files"}},
	{"id": "get", "type": "demo.do", "config": {"what": "get-${context:loop.label}"}},
	{"id": "load", "type": "demo.do", "config": {"what": "load-${context:loop.label}"}},
	{"type": "flow.rescue", "config": %s},
	{"id": "aside", "type": "demo.do", "config": {"what": "aside-${context:loop.label}"}},
	{"id": "tell", "type": "demo.do", "config": {"what": "tell-${context:loop.label}: ${context:loop.error.id} ${context:loop.error.class} ${context:loop.error.message} ${context:loop.error.attempts} ${context:get.out}"}},
	{"type": "flow.end"},
	{"id": "report", "type": "demo.do", "config": {"what": "report ${context:each.failed_count} ${context:each.rescued_count} ${context:each.rescued}"}}]}`

// An item whose body fails is rescued, and the loop goes on.
func TestRescue(t *testing.T) {
	const rescued = `[{"class":"invalid","index":1,"label":"y","message":"load-y is bad","step":"load"}]`
	for name, c := range map[string]struct {
		config  string
		fails   map[string]courier.Reason
		want    string
		state   courier.State
		failure string
		counts  string // failed, rescued
	}{
		"one item": {
			"{}", map[string]courier.Reason{"load-y": courier.ReasonInvalid},
			"get-x load-x get-y load-y load-y aside-y tell-y: load invalid load-y is bad 2 of get-y get-z load-z report 0 1 " + rescued, courier.Completed, "", "0 1",
		},
		"that fails the execution": {
			`{"rescued": "fail"}`, map[string]courier.Reason{"load-y": courier.ReasonInvalid},
			"get-x load-x get-y load-y load-y aside-y tell-y: load invalid load-y is bad 2 of get-y get-z load-z report 0 1 " + rescued, courier.Failed,
			"items_rescued 1 item was rescued, and the job says that the execution fails then; a resume completes it, and runs none of them again", "0 1",
		},
		"a partner that is down": {
			"{}", map[string]courier.Reason{"load-y": courier.ReasonConnection},
			"get-x load-x get-y load-y load-y", courier.Failed, "connection load-y is bad", "0 0",
		},
		"that is to be rescued": {
			`{"rescue_on": ["connection"]}`, map[string]courier.Reason{"load-x": courier.ReasonConnection, "load-z": courier.ReasonInvalid},
			"get-x load-x load-x aside-x tell-x: load connection load-x is bad 2 of get-x get-y load-y get-z load-z load-z " +
				`report 1 1 [{"class":"connection","index":0,"label":"x","message":"load-x is bad","step":"load"}]`, courier.Failed,
			`items_failed 1 item failed: item "z" (index 2): load-z is bad; a resume executes the failed items again`, "1 1",
		},
		"a rescue that fails": {
			"{}", map[string]courier.Reason{"load-y": courier.ReasonInvalid, "aside-y": courier.ReasonExists},
			"get-x load-x get-y load-y load-y aside-y aside-y get-z load-z report 1 0 []", courier.Failed,
			`items_failed 1 item failed: item "y" (index 1): aside-y is bad; in the rescue for: load-y is bad; a resume executes the failed items again`, "1 0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := couriertest.New(t, nil)
			d := &doings{fails: c.fails}
			d.stub(h)
			r := h.Run(h.Job(fmt.Sprintf(quarantine, c.config)), nil).RequireState(c.state)
			if got := d.taken(); got != c.want {
				t.Errorf("done was\n%s, want\n%s", got, c.want)
			}
			x, err := h.Engine.Executions().Get(t.Context(), r.ID)
			if err != nil {
				t.Fatal(err)
			}
			failure := ""
			if x.Failure != nil {
				failure = string(x.Failure.Reason) + " " + x.Failure.Message
			}
			if failure != c.failure || fmt.Sprint(x.FailedItems, x.RescuedItems) != c.counts {
				t.Errorf("the failure is %q, want %q; failed and rescued are %d %d, want %s", failure, c.failure, x.FailedItems, x.RescuedItems, c.counts)
			}
			list, err := h.Engine.Executions().StepsPage(t.Context(), store.StepFilter{Execution: r.ID, FailedItems: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range list {
				if s.Rescue != nil && (*s.Rescue != 0 || s.FailedLoop != nil || len(s.ItemLabels) != 1) || s.Step == 4 && s.Error != `item "y" (index 1): aside-y is bad; in the rescue for: load-y is bad` {
					t.Errorf("a record is %+v", s)
				}
			}
		})
	}
}

// A plain resume runs no rescued item again, and goes on in a rescue where that has failed.
func TestResumeOfARescue(t *testing.T) {
	h := couriertest.New(t, nil)
	d := &doings{fails: map[string]courier.Reason{"load-x": courier.ReasonInvalid, "load-y": courier.ReasonInvalid, "aside-y": courier.ReasonExists}}
	d.stub(h)
	r := h.Run(h.Job(fmt.Sprintf(quarantine, `{"rescued": "fail"}`)), nil).RequireState(courier.Failed)
	d.taken()
	h.Start()
	resume := func(want courier.State, counts, did string) {
		t.Helper()
		if _, err := h.Engine.Resume(t.Context(), r.ID, nil); err != nil {
			t.Fatal(err)
		}
		h.Wait(r.ID).RequireState(want)
		x, err := h.Engine.Executions().Get(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(x.FailedItems, " ", x.RescuedItems); got != counts {
			t.Errorf("failed and rescued are %s, want %s", got, counts)
		}
		if got := d.taken(); got != did {
			t.Errorf("done was\n%s, want\n%s", got, did)
		}
	}
	resume(courier.Failed, "1 1", "aside-y aside-y")
	d.set(nil)
	resume(courier.Failed, "0 2", "aside-y tell-y: load invalid load-y is bad 2 of get-y")
	resume(courier.Completed, "0 2", "")
}

// The first failure in a try leads to its rescue; then what follows runs.
func TestTry(t *testing.T) {
	const text = `{"name": "a", "steps": [
		{"id": "t", "type": "flow.try"},
		{"id": "one", "type": "demo.do", "config": {"what": "one"}},
		{"id": "each", "type": "flow.foreach", "config": {"source": ["x", "y"], "on_item_failure": "continue"}},
		{"type": "demo.do", "config": {"what": "item-${context:loop.label}"}},
		{"type": "flow.end"},
		{"id": "two", "type": "demo.do", "config": {"what": "two"}},
		{"type": "flow.rescue"},
		{"id": "mend", "type": "demo.do", "config": {"what": "mend ${context:t.error.type} ${context:t.error.class}"}},
		{"type": "flow.end"},
		{"type": "flow.if", "config": {"left": "context:t.error", "operator": "exists"}},
		{"id": "after", "type": "demo.do", "config": {"what": "after ${context:t.error.message}"}},
		{"type": "flow.end"}]}`
	for name, c := range map[string]struct {
		fails map[string]courier.Reason
		want  string
		state courier.State
	}{
		"nothing":       {nil, "one item-x item-y two", courier.Completed},
		"a step":        {map[string]courier.Reason{"one": courier.ReasonConnection}, "one mend demo.do connection after one is bad", courier.Completed},
		"the last step": {map[string]courier.Reason{"two": courier.ReasonError}, "one item-x item-y two mend demo.do error after two is bad", courier.Completed},
		"an inner loop": {map[string]courier.Reason{"item-x": courier.ReasonError}, "one item-x item-y mend flow.foreach items_failed after flow.foreach: 1 of 2 items has failed", courier.Completed},
		"the rescue":    {map[string]courier.Reason{"one": courier.ReasonError, "mend demo.do error": courier.ReasonError}, "one mend demo.do error", courier.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			h := couriertest.New(t, nil)
			d := &doings{fails: c.fails}
			d.stub(h)
			r := h.Run(h.Job(text), nil).RequireState(c.state)
			if got := d.taken(); got != c.want {
				t.Errorf("done was\n%s, want\n%s", got, c.want)
			}
			if x, err := h.Engine.Executions().Get(t.Context(), r.ID); name == "the rescue" && (err != nil || x.Failure.Message != "mend demo.do error is bad; in the rescue for: one is bad") {
				t.Errorf("%+v, %v", x.Failure, err)
			}
		})
	}
}

// Whenever a worker is lost, each good item is completed once, and each bad one rescued once.
// The worker is lost before or after each of its writes in turn.
func TestRescueSurvivesWorkers(t *testing.T) {
	for at := range 32 {
		couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
			d := &doings{fails: map[string]courier.Reason{"load-y": courier.ReasonInvalid}}
			d.stub(h)
			x, records := outlive(t, h, at, func(b *engine.Engine) courier.ExecutionID {
				return enqueue(t, b, h.Job(fmt.Sprintf(quarantine, "{}")))
			}, nil)
			rescues := slices.DeleteFunc(slices.Clone(records), func(r courier.StepExecution) bool { return r.Rescue == nil })
			requireRescuedOnce(t, at, &x, records, d, "tell-y: load invalid load-y is bad")
			if len(rescues) != 1 {
				t.Errorf("%d: %d rescues began", at, len(rescues))
			}
		})
	}
}

// requireRescuedOnce checks that of the items of the quarantine job the bad one was rescued once,
// with what the rescue tells, and that all others were completed once.
func requireRescuedOnce(t *testing.T, at int, x *courier.Execution, records []courier.StepExecution, d *doings, told string) {
	t.Helper()
	if x.State != courier.Completed || x.RescuedItems != 1 || x.FailedItems != 0 {
		t.Fatalf("%d: %s, %d items were rescued and %d failed, %+v", at, x.State, x.RescuedItems, x.FailedItems, x.Failure)
	}
	want := map[string]int{"1 [0]": 1, "2 [0]": 1, "1 [1]": 1, "4 [1]": 1, "5 [1]": 1, "1 [2]": 1, "2 [2]": 1, "7 []": 1}
	if completed := completedIn(records); !maps.Equal(completed, want) {
		t.Errorf("%d: completed were %v, want %v", at, completed, want)
	}
	if !strings.Contains(d.taken(), told) {
		t.Errorf("%d: the rescue does not know the error", at)
	}
}

// An undone step fails, and notes that it is rolled back.
type undone struct{ note func(string) }

func (u undone) Execute(context.Context, *courier.Context, struct{}) (struct{}, error) {
	u.note("execute")
	return struct{}{}, errors.New("is bad")
}

func (u undone) Rollback(context.Context, *courier.Context, struct{}) error {
	u.note("roll-back")
	return nil
}

// The step that failed for good is rolled back before its rescue begins.
func TestRollbackComesBeforeTheRescue(t *testing.T) {
	h := couriertest.New(t, nil)
	d := &doings{}
	d.stub(h)
	note := func(what string) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.done = append(d.done, what)
	}
	courier.Register(h.Registry, "demo.undone", undone{note}, nil)
	for _, block := range []string{`{"type": "flow.try"}`, `{"type": "flow.foreach", "config": {"source": ["x"]}}`} {
		h.Run(h.Job(`{"name": "a", "steps": [`+block+`, {"type": "demo.undone"}, {"type": "flow.rescue"}, {"type": "demo.do", "config": {"what": "rescue"}}, {"type": "flow.end"}]}`), nil).RequireState(courier.Completed)
		if got, want := d.taken(), "execute roll-back rescue"; got != want {
			t.Errorf("%s: done was %s, want %s", block, got, want)
		}
	}
}

// What has lost three workers comes to the rescue.
func TestLostWorkersComeToTheRescue(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		lost := 0
		var kill func()
		d := &doings{deeds: map[string]deed{"load-y": func(ctx context.Context, job *courier.Context) error {
			lost++
			kill()
			return until(ctx, job)
		}}}
		id := d.begin(t, h, fmt.Sprintf(quarantine, "{}"))
		dir := t.TempDir()
		for i := range 4 {
			s, dead := killable(h.Store)
			kill = func() { dead.Store(true) }
			e := engine.New(s, h.Registry, &engine.Options{Workspace: dir, Worker: fmt.Sprint("w", i), Grace: time.Second})
			if err := e.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			e.Stop(t.Context())
		}
		if now := got(t, h, id); now.State != courier.Completed || now.RescuedItems != 1 {
			t.Errorf("%s, %d items were rescued, %v", now.State, now.RescuedItems, now.Failure)
		}
		if got := d.taken(); lost != 3 || !strings.Contains(got, "load-y load-y load-y aside-y tell-y: load worker_lost") || !strings.HasSuffix(got, "get-z load-z report 0 1 "+
			`[{"class":"worker_lost","index":1,"label":"y","message":"worker \"w2\" was lost","step":"load"}]`) {
			t.Errorf("%d workers were lost; done was %s", lost, got)
		}
	})
}

// A pause in a rescue goes on in it, and a cancel ends it; neither comes to a rescue.
func TestRequestsInARescue(t *testing.T) {
	for _, cancels := range []bool{false, true} {
		couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
			d := &doings{
				fails: map[string]courier.Reason{"load-y": courier.ReasonInvalid}, deeds: map[string]deed{"aside-y": lasting(time.Minute)},
			}
			id := d.begin(t, h, fmt.Sprintf(quarantine, "{}"))
			h.Start()
			time.Sleep(30 * time.Second)
			if cancels {
				if _, err := h.Engine.Cancel(t.Context(), id, &courier.CancelOptions{By: courier.By{}}); err != nil {
					t.Fatal(err)
				}
				r := h.Wait(id).RequireState(courier.Cancelled)
				if got := d.taken(); !strings.HasSuffix(got, "aside-y") || r.RescuedItems != 0 {
					t.Errorf("done was %s, %d items were rescued", got, r.RescuedItems)
				}
				return
			}
			if _, err := h.Engine.Pause(t.Context(), id, courier.By{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			now, err := h.Engine.Executions().Get(t.Context(), id)
			if err != nil || now.State != courier.Paused || now.Position.Step != 5 || !now.Position.Loops[0].Rescue {
				t.Fatalf("%s at %+v, %v", now.State, now.Position, err)
			}
			d.taken()
			if _, err := h.Engine.Resume(t.Context(), id, nil); err != nil {
				t.Fatal(err)
			}
			r := h.Wait(id).RequireState(courier.Completed)
			if got := d.taken(); !strings.HasPrefix(got, "tell-y: load invalid load-y is bad 2 of get-y get-z load-z report 0 1 ") || r.RescuedItems != 1 {
				t.Errorf("done was %s, %d items were rescued", got, r.RescuedItems)
			}
		})
	}
}

// An operator goes back from a rescue to the body, or to before the loop: the item is executed
// anew, and counts once.
func TestBackFromARescue(t *testing.T) {
	for from, want := range map[string]string{
		"get":  "get-y load-y get-z load-z report 0 0 []",
		"each": "get-x load-x get-y load-y get-z load-z report 0 0 []",
		"load": "load-y get-z load-z report 0 0 []",
	} {
		h := couriertest.New(t, nil)
		d := &doings{fails: map[string]courier.Reason{"load-y": courier.ReasonInvalid, "aside-y": courier.ReasonConnection}}
		d.stub(h)
		r := h.Run(h.Job(fmt.Sprintf(quarantine, "{}")), nil).RequireState(courier.Failed)
		d.taken()
		d.set(nil)
		h.Start()
		if _, err := h.Engine.Resume(t.Context(), r.ID, &courier.ResumeOptions{From: from, By: courier.By{Actor: "ann", Reason: "mended"}}); err != nil {
			t.Fatal(err)
		}
		got := h.Wait(r.ID).RequireState(courier.Completed)
		if did := d.taken(); did != want || got.RescuedItems != 0 {
			t.Errorf("from %s: done was\n%s, want\n%s; %d items were rescued", from, did, want, got.RescuedItems)
		}
	}
}

// A dry run validates bodies and rescues.
func TestDryRunOfRescues(t *testing.T) {
	h := couriertest.New(t, nil)
	(&doings{}).stub(h)
	report, err := h.Engine.Jobs().DryRun(t.Context(), h.Job(`{"name": "a", "steps": [
		{"id": "t", "type": "flow.try"}, {"type": "demo.do"}, {"type": "flow.rescue"}, {"type": "demo.do", "config": {"what": "context:t.error.message"}}, {"type": "flow.end"},
		{"type": "flow.foreach", "config": {"source": ["x"]}}, {"type": "demo.do"}, {"type": "flow.rescue"}, {"type": "demo.do", "config": {"what": "context:loop.error.message"}}, {"type": "flow.end"}]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range report.Steps {
		got = append(got, s.Path)
	}
	if want := "0.try.1 0.rescue.3 5.6 5.rescue.8"; strings.Join(got, " ") != want || report.Err() != nil {
		t.Errorf("the steps are %q, want %q; %v", got, want, report.Err())
	}
}

// The outline says which part of a block has run.
func TestOutlineOfRescues(t *testing.T) {
	h := couriertest.New(t, nil)
	d := &doings{fails: map[string]courier.Reason{"load-y": courier.ReasonInvalid}}
	d.stub(h)
	for files, want := range map[string]string{
		`["x", "y"]`: "completed completed failed completed completed completed completed completed {2 0 0 1 0 1}",
		`["y", "x"]`: "completed completed completed not_taken not_taken not_taken completed completed {2 0 0 1 0 1}",
		`["x"]`:      "completed completed completed not_taken not_taken not_taken completed completed {1 0 0 1 0 0}",
	} {
		r := h.Run(h.Job(strings.Replace(fmt.Sprintf(quarantine, "{}"), `["x", "y", "z"]`, files, 1)), nil).RequireState(courier.Completed)
		o, err := h.Engine.Executions().Outline(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range o.Steps {
			got = append(got, string(s.State))
		}
		if got := fmt.Sprint(strings.Join(got, " "), " ", *o.Steps[0].Items); got != want {
			t.Errorf("%s: the states are\n%s, want\n%s", files, got, want)
		}
	}
}

// A step that is skipped has not failed, so no rescue begins.
func TestSkippedStepsComeToNoRescue(t *testing.T) {
	h := couriertest.New(t, nil)
	d := &doings{fails: map[string]courier.Reason{"one": courier.ReasonError}}
	d.stub(h)
	r := h.Run(h.Job(`{"name": "a", "steps": [{"id": "t", "type": "flow.try"},
		{"type": "demo.do", "failure_policy": "skip_and_continue", "config": {"what": "one"}}, {"type": "demo.do", "config": {"what": "two"}},
		{"type": "flow.rescue"}, {"type": "demo.do", "config": {"what": "rescue"}}, {"type": "flow.end"}, {"type": "demo.do", "config": {"what": "error ${context:t.error}"}}]}`), nil)
	if r.RequireState(courier.Completed); d.taken() != "one two error " {
		t.Error("a rescue has begun")
	}
}

// A loop that starts again rescues its items again, and counts them once.
func TestRescueInALoopThatStartsAgain(t *testing.T) {
	h := couriertest.New(t, nil)
	d := &doings{fails: map[string]courier.Reason{"load-x": courier.ReasonInvalid, "load-y": courier.ReasonConnection}}
	d.stub(h)
	job := h.Job(strings.Replace(fmt.Sprintf(quarantine, "{}"), `"context:params.files"`, `"context:params.files", "on_resume": "restart"`, 1))
	r := h.Run(job, nil).RequireState(courier.Failed)
	if got := d.taken(); r.RescuedItems != 1 || !strings.HasSuffix(got, "get-y load-y load-y") {
		t.Fatalf("%d items were rescued; done was %s", r.RescuedItems, got)
	}
	d.set(map[string]courier.Reason{"load-x": courier.ReasonInvalid})
	h.Start()
	if _, err := h.Engine.Resume(t.Context(), r.ID, nil); err != nil {
		t.Fatal(err)
	}
	got := h.Wait(r.ID).RequireState(courier.Completed)
	const want = `get-x load-x load-x aside-x tell-x: load invalid load-x is bad 2 of get-x get-y load-y get-z load-z report 0 1 [{"class":"invalid","index":0,"label":"x","message":"load-x is bad","step":"load"}]`
	if did := d.taken(); did != want || got.RescuedItems != 1 {
		t.Errorf("%d items were rescued; done was\n%s, want\n%s", got.RescuedItems, did, want)
	}
}

// What fails in a body comes to its rescue, whatever it is: a marker, a step that fails on
// purpose, an inner loop, and a configuration that an item makes wrong.
func TestWhatComesToTheRescue(t *testing.T) {
	const do = `{"type": "demo.do", "config": {"what": "%s"}}`
	for name, c := range map[string]struct{ body, want string }{
		"a condition": {
			`{"type": "flow.if", "config": {"left": "x", "operator": "regex", "right": "context:loop.current_item"}}, ` + fmt.Sprintf(do, "then") + `, {"type": "flow.end"}`,
			"1 flow.if config",
		},
		"a step that fails on purpose": {`{"type": "job.fail", "config": {"message": "no", "class": "not_found"}}`, "1 job.fail not_found"},
		"items of an inner loop": {
			`{"type": "flow.foreach", "config": {"source": ["bad"], "on_item_failure": "continue"}}, ` + fmt.Sprintf(do, "context:loop.current_item") + `, {"type": "flow.end"}`,
			"bad 1 flow.foreach items_failed",
		},
		"the list of an inner loop": {
			`{"type": "flow.foreach", "config": {"source": "context:loop.current_item"}}, ` + fmt.Sprintf(do, "item") + `, {"type": "flow.end"}`,
			"1 flow.foreach config",
		},
		"a configuration": {fmt.Sprintf(do, "${context:loop.current_item.no}"), "1 demo.do config"},
	} {
		t.Run(name, func(t *testing.T) {
			h := couriertest.New(t, nil)
			job.Register(h.Registry)
			d := &doings{fails: map[string]courier.Reason{"bad": courier.ReasonInvalid}}
			d.stub(h)
			r := h.Run(h.Job(`{"name": "a", "params": {"files": ["("]}, "steps": [{"type": "flow.foreach", "config": {"source": "context:params.files"}}, `+c.body+
				`, {"type": "flow.rescue"}, `+fmt.Sprintf(do, "${context:loop.error.step} ${context:loop.error.type} ${context:loop.error.class}")+`, {"type": "flow.end"}]}`), nil).RequireState(courier.Completed)
			if did := d.taken(); did != c.want || r.RescuedItems != 1 {
				t.Errorf("done was %q, want %q; %d items were rescued", did, c.want, r.RescuedItems)
			}
		})
	}
}

// The timeout of the execution and a stop of the worker come to no rescue.
func TestTimeoutComesToNoRescue(t *testing.T) {
	const text = `{"name": "a", "timeout_seconds": 90, "steps": [{"type": "flow.try"}, {"type": "demo.do", "config": {"what": "work"}}, {"type": "flow.rescue"}, {"type": "demo.do", "config": {"what": "rescue"}}, {"type": "flow.end"}]}`
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		d := &doings{deeds: map[string]deed{"work": until}}
		id := d.begin(t, h, text)
		dir := t.TempDir()
		for i := range 2 {
			e := engine.New(h.Store, h.Registry, &engine.Options{Workspace: dir, Worker: fmt.Sprint("w", i), Grace: time.Second})
			if err := e.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			done, cancel := context.WithCancel(t.Context())
			cancel()
			if err := e.Stop(done); err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		if x := got(t, h, id); x.State != courier.Failed || x.Failure.Reason != courier.ReasonExecution || d.did() != "work|work" {
			t.Errorf("it is %s, %+v; done was %s", x.State, x.Failure, d.did())
		}
	})
}
