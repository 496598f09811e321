package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/flow"
)

// outlineOf returns the outline as text: a letter for each entry, and the counts of loops.
func outlineOf(t *testing.T, e *engine.Engine, id courier.ExecutionID) string {
	t.Helper()
	o, err := e.Executions().Outline(context.WithoutCancel(t.Context()), id)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	letters := map[flow.OutlineState]string{
		flow.OutlinePending: "p", flow.OutlineRunning: "R", flow.OutlineCompleted: "c", flow.OutlineFailed: "F", flow.OutlineSkipped: "s", flow.OutlineNotTaken: "-",
	}
	for i, s := range o.Steps {
		if s.Step != i {
			t.Errorf("entry %d is called %d", i, s.Step)
		}
		b.WriteString(letters[s.State])
		if n := s.Items; n != nil {
			fmt.Fprintf(&b, "(%d:%d/%d/%d/%d)", n.Total, n.Pending, n.Running, n.Completed, n.Failed)
		}
		if s.Record != nil && s.Record.Outputs != nil {
			t.Errorf("entry %d has outputs", i)
		}
	}
	return b.String()
}

// TestOutline takes the outline whenever a step runs, in branches, loops and loops in
// loops, and when all has ended.
func TestOutline(t *testing.T) {
	step := func(id string) courier.StepSpec { return courier.StepSpec{ID: id, Type: "demo.a"} }
	marker := func(typ string, config map[string]any) courier.StepSpec {
		return courier.StepSpec{Type: typ, Config: config}
	}
	when := func(left, right any) courier.StepSpec {
		return marker("flow.if", map[string]any{"left": left, "operator": "equals", "right": right})
	}
	each := func(n int) courier.StepSpec {
		list := make([]any, n)
		for i := range list {
			list[i] = i
		}
		return marker("flow.foreach", map[string]any{"source": list})
	}
	end, otherwise := marker("flow.end", nil), marker("flow.else", nil)
	for name, test := range map[string]struct {
		steps []courier.StepSpec
		want  []string
	}{
		"steps": {[]courier.StepSpec{step("a"), step("b"), step("c")}, []string{"Rpp", "cRp", "ccR", "ccc"}},
		"branch": {
			[]courier.StepSpec{step("a"), when(1, 1), step("b"), step("c"), otherwise, step("d"), end, step("e")},
			//        a i b c | d e
			[]string{"Rppppppp", "cRRp--Rp", "cRcR--Rp", "cccc--cR", "cccc--cc"},
		},
		"other branch": {
			[]courier.StepSpec{step("a"), when(1, 2), step("b"), otherwise, step("c"), step("d"), end},
			[]string{"Rpppppp", "cR-RRpR", "cR-RcRR", "cc-cccc"},
		},
		"no branch": {[]courier.StepSpec{when(1, 2), step("b"), end, step("c")}, []string{"c-cR", "c-cc"}},
		"loop": {
			[]courier.StepSpec{step("a"), each(3), step("b"), step("c"), end, step("d")},
			[]string{
				"Rppppp",
				"cR(3:2/1/0/0)RpRp", "cR(3:2/1/0/0)cRRp",
				"cR(3:1/1/1/0)RpRp", "cR(3:1/1/1/0)cRRp",
				"cR(3:0/1/2/0)RpRp", "cR(3:0/1/2/0)cRRp",
				"cc(3:0/0/3/0)cccR", "cc(3:0/0/3/0)cccc",
			},
		},
		"loop without items": {[]courier.StepSpec{each(0), step("b"), end, step("c")}, []string{"c(0:0/0/0/0)-cR", "c(0:0/0/0/0)-cc"}},
		"branch in a loop": {
			[]courier.StepSpec{each(2), when("context:loop.index", 0), step("b"), otherwise, step("c"), end, end},
			[]string{"R(2:1/1/0/0)RR--RR", "R(2:0/1/1/0)R-RRRR", "c(2:0/0/2/0)c-cccc"},
		},
		"loop in a loop": {
			[]courier.StepSpec{each(2), step("a"), each(2), step("b"), end, end, step("c")},
			[]string{
				"R(2:1/1/0/0)RpppRp", "R(2:1/1/0/0)cR(2:1/1/0/0)RRRp", "R(2:1/1/0/0)cR(2:0/1/1/0)RRRp",
				"R(2:0/1/1/0)RpppRp", "R(2:0/1/1/0)cR(2:1/1/0/0)RRRp", "R(2:0/1/1/0)cR(2:0/1/1/0)RRRp",
				"c(2:0/0/2/0)cc(2:0/0/2/0)cccR", "c(2:0/0/2/0)cc(2:0/0/2/0)cccc",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := couriertest.New(t, nil)
			var got []string
			h.Stub("demo.a", func(_ context.Context, job *courier.Context, _ map[string]any) (map[string]any, error) {
				got = append(got, outlineOf(t, h.Engine, job.Execution()))
				return map[string]any{"x": 1}, nil
			})
			x, err := h.Engine.Run(t.Context(), courier.Job{Name: "job", Steps: test.steps}, nil)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, outlineOf(t, h.Engine, x.ID))
			if g, w := strings.Join(got, "\n"), strings.Join(test.want, "\n"); g != w {
				t.Errorf("got\n%s\nwant\n%s", g, w)
			}
		})
	}
}

// TestOutlineOfFailures has a step that fails, one that is skipped, and items of a loop
// that fail and are repaired.
func TestOutlineOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := couriertest.New(t, nil)
		broken := map[string]bool{"bad": true, "1": true, "3": true}
		var repaired []string
		h.Stub("demo.a", func(_ context.Context, job *courier.Context, config map[string]any) (map[string]any, error) {
			what := fmt.Sprint(config["what"])
			if broken[what] {
				return nil, courier.Permanent(errors.New("broken"))
			}
			if len(broken) == 0 {
				repaired = append(repaired, outlineOf(t, h.Engine, job.Execution()))
			}
			return nil, nil
		})
		step := func(what any) courier.StepSpec {
			return courier.StepSpec{Type: "demo.a", Config: map[string]any{"what": what}}
		}
		skip := step("bad")
		skip.FailurePolicy.Type = courier.SkipAndContinue
		run := func(steps ...courier.StepSpec) courier.Execution {
			t.Helper()
			x, _ := h.Engine.Run(t.Context(), courier.Job{Name: "job", Steps: steps}, nil)
			return x
		}
		see := func(what string, x courier.Execution, want string) {
			t.Helper()
			if got := outlineOf(t, h.Engine, x.ID); got != want {
				t.Errorf("%s: %s, want %s; the execution is %s", what, got, want, x.State)
			}
		}
		see("failed", run(step("good"), step("bad"), step("good")), "cFp")
		see("skipped", run(skip, step("good")), "sc")
		each := courier.StepSpec{Type: "flow.foreach", Config: map[string]any{"source": []any{0, 1, 2, 3}}}
		end := courier.StepSpec{Type: "flow.end"}
		see("in a loop", run(each, step("context:loop.current_item"), end), "F(4:2/0/1/1)FF")
		each.Config["on_item_failure"] = "continue"
		x := run(each, step("context:loop.current_item"), end, step("good"))
		see("items", x, "c(4:0/0/2/2)Fcc")
		clear(broken)
		if _, err := h.Engine.Resume(t.Context(), x.ID, nil); err != nil {
			t.Fatal(err)
		}
		h.Start()
		x, err := h.Engine.Wait(t.Context(), x.ID)
		if err != nil || x.State != courier.Completed {
			t.Fatalf("%s, %v", x.State, err)
		}
		see("repaired", x, "c(4:0/0/4/0)ccc")
		if got, want := strings.Join(repaired, " "), "R(4:0/1/2/1)RRp R(4:0/1/3/0)RRp"; got != want {
			t.Errorf("while items were repaired: %s, want %s", got, want)
		}
		if _, err := h.Engine.Executions().Outline(t.Context(), "nobody"); !errors.Is(err, courier.ErrNotFound) || !strings.HasPrefix(err.Error(), "outline: ") {
			t.Errorf("of none: %v", err)
		}
	})
}

// TestOutlineOfLoopsInFinally counts the items of loops in the finally part that have failed or
// were rescued: those of the last pass through it.
func TestOutlineOfLoopsInFinally(t *testing.T) {
	h := couriertest.New(t, nil)
	d := &doings{fails: map[string]courier.Reason{"work": courier.ReasonError, "x": courier.ReasonInvalid, "y": courier.ReasonInvalid, "p": courier.ReasonInvalid}}
	d.stub(h)
	r := h.Run(h.Job(`{"name": "a", "steps": [{"type": "demo.do", "config": {"what": "work"}}, {"type": "flow.finally", "failure_policy": "stop"},
		{"type": "flow.foreach", "config": {"source": ["x", "y", "z"], "on_item_failure": "continue"}}, {"type": "demo.do", "config": {"what": "context:loop.current_item"}}, {"type": "flow.end"},
		{"type": "flow.foreach", "config": {"source": ["p", "q", "r"]}}, {"type": "demo.do", "config": {"what": "context:loop.current_item"}},
		{"type": "flow.rescue"}, {"type": "demo.do", "config": {"what": "aside"}}, {"type": "flow.end"}]}`), nil).RequireState(courier.Failed)
	see := func(failed, rescued string) {
		t.Helper()
		o, err := h.Engine.Executions().Outline(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		for loop, want := range map[int]string{2: failed, 5: rescued} {
			if n := o.Steps[loop].Items; n == nil || fmt.Sprint(n.Completed, " ", n.Failed, " ", n.Rescued) != want {
				t.Errorf("the items of the loop at %d are %+v, want %s", loop, n, want)
			}
		}
	}
	see("1 2 0", "2 0 1")
	d.set(map[string]courier.Reason{"z": courier.ReasonInvalid, "q": courier.ReasonInvalid, "r": courier.ReasonInvalid})
	h.Start()
	if _, err := h.Engine.Resume(t.Context(), r.ID, nil); err != nil {
		t.Fatal(err)
	}
	h.Wait(r.ID).RequireState(courier.Completed)
	see("2 1 0", "1 0 2")
}

// TestOutlineOfSettledItems counts failed items that an operator has accepted or skipped as done.
func TestOutlineOfSettledItems(t *testing.T) {
	h := couriertest.New(t, nil)
	d := &doings{fails: map[string]courier.Reason{"load-x": courier.ReasonInvalid, "load-z": courier.ReasonInvalid}}
	d.stub(h)
	r := h.Run(h.Job(fmt.Sprintf(acceptJob, "")), nil).RequireState(courier.Failed)
	if got, want := outlineOf(t, h.Engine, r.ID), "c(4:0/0/2/2)F-cc"; got != want {
		t.Errorf("before: %s, want %s", got, want)
	}
	h.Start()
	if _, err := h.Engine.Resume(t.Context(), r.ID, &courier.ResumeOptions{SkipItems: itemsOf(1), Accept: itemsOf(3), By: mend}); err != nil {
		t.Fatal(err)
	}
	h.Wait(r.ID).RequireState(courier.Completed)
	if got, want := outlineOf(t, h.Engine, r.ID), "c(4:0/0/4/0)F-cc"; got != want {
		t.Errorf("in the end: %s, want %s", got, want)
	}
}
