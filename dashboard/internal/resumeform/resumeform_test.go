package resumeform

import (
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

// A report says how many steps may run, and that those of loops run for each item.
func TestRuns(t *testing.T) {
	spec := func(typ string) courier.StepSpec { return courier.StepSpec{Type: typ} }
	loop := spec(flow.TypeForEach)
	loop.Config = map[string]any{"source": []any{1, 2}}
	tree, err := flow.Parse([]courier.StepSpec{spec("a"), loop, spec("b"), spec("c"), spec(flow.TypeEnd), spec("d")})
	if err != nil {
		t.Fatal(err)
	}
	in := courier.Position{Step: 3, Loops: []courier.LoopPosition{{Step: 1, Index: 2}}}
	for _, c := range []struct {
		at    courier.Position
		steps []int
		want  string
	}{
		{courier.Position{Step: 5}, []int{5}, "1 step"},
		{courier.Position{Step: 6}, nil, "0 steps"},
		{courier.Position{}, []int{0, 2, 3, 5}, "4 steps, 2 of them for each remaining item of a loop"},
		{in, []int{2, 3, 5}, "3 steps, 2 of them for each remaining item of a loop; the loop continues with item 2"},
		{in, []int{3}, "1 step, for each remaining item of a loop; the loop continues with item 2"},
	} {
		r := &courier.ResumeReport{Position: c.at}
		for _, s := range c.steps {
			r.Steps = append(r.Steps, courier.ResumedStep{Step: s})
		}
		if got := runs(r, tree); got != c.want {
			t.Errorf("at %v: %q, want %q", c.at, got, c.want)
		}
	}
}

// A report that goes on behind the last step of a loop or a branch says which step that is.
func TestAtTheEnd(t *testing.T) {
	tree, err := flow.Parse([]courier.StepSpec{
		{Type: flow.TypeForEach, Config: map[string]any{"source": []any{1, 2}}}, {Type: flow.TypeIf, Config: map[string]any{"left": 1, "operator": "exists"}}, {Type: "a", ID: "send"}, {Type: flow.TypeEnd}, {Type: flow.TypeEnd},
	})
	if err != nil {
		t.Fatal(err)
	}
	for step, want := range map[int]string{2: `step 2 "send" (a) at index 1`, 3: `the end of step 2 "send" (a) at index 1`, 4: `the end of step 2 "send" (a) at index 1`} {
		at := courier.Position{Step: step, Loops: []courier.LoopPosition{{Step: 0, Index: 1}}}
		if got := ReportOf(&courier.ResumeReport{Position: at}, tree, true).At; got != want {
			t.Errorf("at step %d: %q, want %q", step, got, want)
		}
	}
}
