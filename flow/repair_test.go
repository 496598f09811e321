package flow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

func TestMapRecord(t *testing.T) {
	changes := []courier.VersionChange{
		{Seq: 10, From: 1, To: 2, Steps: []int{0, 2, 3, -1, 1}},
		{Seq: 20, From: 2, To: 3},
		{Seq: 30, From: 3, To: 5, Steps: []int{1, -1, 0, 4}},
	}
	for _, c := range []struct {
		seq        int64
		step, loop int
		want       string // version, step, loop
	}{
		{5, 0, -1, "1 1 -1"},
		{5, 1, 0, "1 0 1"},
		{10, 2, 1, "1 4 0"},
		{5, 3, -1, ""}, // not in version 2
		{5, 4, -1, ""}, // not in version 5
		{5, 9, -1, ""},
		{5, 2, 3, ""}, // its loop is gone
		{15, 3, -1, "2 4 -1"},
		{25, 0, 3, "3 1 4"},
		{31, 7, 6, "5 7 6"},
	} {
		r := courier.StepExecution{Seq: c.seq, Step: c.step}
		if c.loop >= 0 {
			r.FailedLoop = &c.loop
		}
		got, ok := flow.MapRecord(&r, changes)
		text := ""
		if ok {
			loop := -1
			if got.FailedLoop != nil {
				loop = *got.FailedLoop
			}
			text = fmt.Sprint(got.Version, got.Step, loop)
		}
		if text != c.want || r.Step != c.step || r.Version != 0 || r.FailedLoop != nil && *r.FailedLoop != c.loop {
			t.Errorf("MapRecord(%d, step %d, loop %d) = %q, %t, want %q", c.seq, c.step, c.loop, text, ok, c.want)
		}
	}
	if got, ok := flow.MapRecord(&courier.StepExecution{Seq: 3, Step: 7}, nil); !ok || got.Step != 7 || got.Version != 0 {
		t.Errorf("without changes, MapRecord() = %+v, %t", got, ok)
	}
}

func TestDepends(t *testing.T) {
	tree := parse(t,
		named("list", do("a.b")), // 0
		named("each", with("flow.foreach", m{"source": []any{"context:list.files", "context:params.more"}, "label": "${context:params.name}"})), // 1
		when("${context:params.day}-x", "equals", "context:0.day"),                                                                              // 2
		do("a.b"), // 3
		otherwise, // 4
		do("a.b"), // 5
		end,       // 6
		end,       // 7
		when("context:params.late", "exists", nil), // 8
		do("a.b"), // 9
		end)       // 10
	in := func(step int) courier.Position {
		return courier.Position{Step: step, Loops: []courier.LoopPosition{{Step: 1}}}
	}
	const list, cond = `the list of step 1 "each" (flow.foreach)`, "the condition of step 2 (flow.if)"
	for _, c := range []struct {
		p          courier.Position
		head, name string
		want       string
	}{
		{in(3), "list", "files", list},
		{in(3), "0", "files", list},
		{in(3), "params", "more", list},
		{in(3), "params", "day", cond},
		{in(5), "list", "day", cond},
		{in(3), "params", "files", ""},
		{in(3), "params", "name", ""}, // a label has no part in what is executed
		{in(3), "list", "more", ""},
		{in(3), "3", "files", ""},
		{in(3), "nobody", "files", ""},
		{in(2), "params", "day", ""}, // it is asked when the execution goes on
		{in(7), "params", "day", ""},
		{in(7), "params", "more", list},
		{courier.Position{Step: 1}, "params", "more", ""},
		{courier.Position{Step: 9}, "params", "more", ""},
		{courier.Position{Step: 9}, "params", "late", "the condition of step 8 (flow.if)"},
		{courier.Position{Step: 11}, "params", "late", ""},
	} {
		if got, ok := flow.Depends(tree, c.p, c.head, c.name); got != c.want || ok != (c.want != "") {
			t.Errorf("Depends(%v, %s.%s) = %q, %t, want %q", c.p, c.head, c.name, got, ok, c.want)
		}
	}
}

func TestBefore(t *testing.T) {
	tree := parse(t,
		do("a.b"),                // 0
		when(1, "equals", 1),     // 1
		do("a.b"),                // 2
		otherwise,                // 3
		do("a.b"),                // 4
		when(1, "equals", 1),     // 5
		do("a.b"),                // 6
		end,                      // 7
		end,                      // 8
		forEach([]any{1, 2}),     // 9
		do("a.b"),                // 10
		when(1, "equals", 1),     // 11
		do("a.b"),                // 12
		do("a.b"),                // 13
		end,                      // 14
		forEach([]any{1}),        // 15
		do("a.b"),                // 16
		end,                      // 17
		do("a.b"),                // 18
		end,                      // 19
		named("last", do("a.b"))) // 20
	in := func(step int) courier.Position {
		return courier.Position{Step: step, Loops: []courier.LoopPosition{{Step: 9, Index: 1, Failed: 1}}}
	}
	deep := courier.Position{Step: 16, Loops: []courier.LoopPosition{{Step: 9, Index: 1}, {Step: 15, Index: 0}}}
	for _, c := range []struct {
		from     int
		p        courier.Position
		recorded []int
		want     string // a position, or part of an error
	}{
		{0, courier.Position{Step: 20}, nil, "{0 []}"},
		{9, courier.Position{Step: 20}, nil, "{9 []}"}, // the whole loop
		{1, courier.Position{Step: 20}, nil, "{1 []}"}, // with its condition
		{2, courier.Position{Step: 20}, []int{2}, "{2 []}"},
		{2, courier.Position{Step: 20}, []int{4}, "step 2 (a.b) lies in a branch of step 1 (flow.if) that has not run; give that one to evaluate its condition again, or a step before it"},
		{5, courier.Position{Step: 20}, []int{4}, "{5 []}"},
		{5, courier.Position{Step: 20}, []int{6}, "{5 []}"},
		{6, courier.Position{Step: 20}, []int{4}, "step 6 (a.b) lies in a branch of step 5 (flow.if) that has not run"},
		{4, courier.Position{Step: 6}, nil, "{4 []}"},
		{5, courier.Position{Step: 6}, nil, "{5 []}"},
		{2, courier.Position{Step: 6}, []int{2}, "step 2 (a.b) lies in the other branch of step 1 (flow.if); give that one"},
		{10, in(18), nil, "{10 [{9 1 1 false}]}"},
		{12, in(13), nil, "{12 [{9 1 1 false}]}"},
		{12, in(18), []int{13}, "{12 [{9 1 1 false}]}"},
		{15, in(18), nil, "{15 [{9 1 1 false}]}"},
		{0, in(18), nil, "{0 []}"},
		{16, in(18), nil, "step 16 (a.b) lies in the loop of step 15 (flow.foreach), which is over; give step 15 (flow.foreach) to run the whole loop again, or a step outside it"},
		{10, courier.Position{Step: 20}, nil, "step 10 (a.b) lies in the loop of step 9 (flow.foreach), which is over"},
		{10, deep, nil, "{10 [{9 1 0 false}]}"},
		{15, deep, nil, "{15 [{9 1 0 false}]}"},
		{16, deep, nil, "the execution is already at step 16 (a.b); resume it without From"},
		{18, deep, nil, "step 18 (a.b) is after the execution's position; give an earlier step"},
		{8, courier.Position{Step: 20}, nil, "step 8 (flow.end) only ends a part of a block; give a step, or the first marker of a block"},
		{3, courier.Position{Step: 20}, nil, "step 3 (flow.else) only ends a part of a block"},
		{21, courier.Position{Step: 20}, nil, "there is no step 21; the last one is 20"},
		{-1, courier.Position{Step: 20}, nil, "there is no step -1"},
		{20, courier.Position{Step: 21}, nil, "{20 []}"},
	} {
		got, err := tree.Before(c.from, c.p, func(step int) bool { return slices.Contains(c.recorded, step) })
		if text := strings.ReplaceAll(fmt.Sprint(got), " 0 false}", "}"); err == nil && text != c.want || err != nil && (!strings.Contains(err.Error(), c.want) || c.want[0] == '{') {
			t.Errorf("Before(%d, %v) = %s, %v, want %s", c.from, c.p, text, err, c.want)
		}
		if err == nil {
			walk(t, tree, got, values{})
		}
	}
}

// TestStepName names steps whose index has changed.
func TestStepName(t *testing.T) {
	changes := []courier.VersionChange{
		{Seq: 5, From: 1, To: 2, Steps: []int{1, 2, 3}},      // one is added before
		{Seq: 8, From: 2, To: 3},                             // nothing moves; one may be added at the end
		{Seq: 12, From: 3, To: 4, Steps: []int{-1, 0, 2, 3}}, // the first one goes, another comes
		{Seq: 20, From: 4, To: 5, Steps: []int{1, 2, 3, 4}},
	}
	for _, test := range []struct {
		changes int
		want    string
	}{
		{0, "0 1 2"}, {1, "0.5 0 1 2"}, {2, "0.5 0 1 2 4.5"}, {3, "0 1.12 1 2"}, {4, "0.20 0 1.12 1 2"},
	} {
		var got []string
		for i := range strings.Fields(test.want) {
			got = append(got, flow.StepName(i, &courier.Repairs{Versions: changes[:test.changes]}))
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("after %d changes steps are named %v, want %s", test.changes, got, test.want)
		}
	}
	if got := flow.StepName(3, nil); got != "3" {
		t.Errorf("without repairs step 3 is named %q", got)
	}
}

func TestMapSteps(t *testing.T) {
	a, b, x := named("a", do("t.a")), named("b", do("t.b")), do("t.x")
	loop := named("loop", forEach([]any{1, 2}))
	type steps = []courier.StepSpec
	in := func(step, loop int) courier.Position {
		return courier.Position{Step: step, Loops: []courier.LoopPosition{{Step: loop, Index: 1}}}
	}
	for _, c := range []struct {
		name     string
		old, now steps
		p        courier.Position
		recorded []int
		want     string // the map, or the reasons
	}{
		{"the same", steps{a, x, b}, steps{a, x, b}, courier.Position{Step: 2}, []int{0, 1}, "[]"},
		{"more at the end", steps{a, x}, steps{a, x, b}, courier.Position{Step: 2}, []int{0, 1}, "[]"},
		{"another configuration", steps{a, x}, steps{a, with("t.x", m{"y": 1})}, courier.Position{Step: 1}, []int{0}, "[]"},
		{"a step before", steps{a, b}, steps{x, a, b}, courier.Position{Step: 1}, []int{0}, "[1 2]"},
		{"a step in between", steps{a, b}, steps{a, x, x, b}, courier.Position{Step: 1}, []int{0}, "[0 3]"},
		{"a step without a record is gone", steps{x, a, b}, steps{a, b}, courier.Position{Step: 2}, []int{1}, "[-1 0 1]"},
		{"letter case of a type", steps{a, x}, steps{named("a", do("T.A")), x}, courier.Position{Step: 1}, []int{0}, "[]"},
		{"an id is added", steps{x, a}, steps{named("x", do("t.x")), a}, courier.Position{Step: 1}, []int{0}, "[]"},
		{"an id is taken away", steps{a, b}, steps{do("t.a"), b}, courier.Position{Step: 1}, []int{0}, "[]"},
		{"the failed step is of another type", steps{a, x, b}, steps{a, do("t.y"), b}, courier.Position{Step: 1}, []int{0}, "[]"},
		{"the failed step is of another type, by its id", steps{a, b}, steps{x, a, named("b", do("t.y"))}, courier.Position{Step: 1}, []int{0}, "[1 2]"},

		{"a step with a record is gone", steps{a, b}, steps{b}, courier.Position{Step: 1}, []int{0}, `step 0 "a" (t.a), which has run, can't be told in it: no step has the id "a"`},
		{"its type is another one", steps{a, b}, steps{named("a", do("t.x")), b}, courier.Position{Step: 1}, []int{0}, `step 0 "a" (t.a), which has run, can't be told in it: the id "a" is that of step 0 "a" (t.x)`},
		{"one without an id has moved", steps{x, b}, steps{a, x, b}, courier.Position{Step: 1}, []int{0}, "step 0 (t.x), which has run, can't be told in it: it has no id, and entries before it have moved"},
		{"the present step is gone", steps{a, b}, steps{a}, courier.Position{Step: 1}, []int{0}, `step 1 "b" (t.b), at which the execution stands, can't be told in it: no step has the id "b"`},
		{"all reasons", steps{a, x, b}, steps{x}, courier.Position{Step: 2}, []int{0, 1}, `step 2 "b" (t.b), at which the execution stands, can't be told in it: no step has the id "b"; step 0 "a" (t.a), which has run, can't be told in it: no step has the id "a"; step 1 (t.x), which has run, can't be told in it: it has no id, and entries before it have moved`},
		{"another order", steps{a, b, x}, steps{b, a, x}, courier.Position{Step: 3}, []int{0, 1}, `step 1 "b" (t.b), which has run, is in another place of the order there`},
		{"behind the present step", steps{a, b}, steps{b, a}, courier.Position{Step: 1}, []int{0}, `step 0 "a" (t.a), which has run, is in another place of the order there`},

		{"in a loop", steps{loop, a, b, end}, steps{x, loop, a, x, b, end, x}, in(2, 0), []int{1}, "[1 2 4 5]"},
		{"at its end", steps{loop, a, end, x}, steps{x, loop, a, end}, in(2, 0), []int{1}, "[1 2 3 -1]"},
		{"behind it", steps{loop, a, end, b}, steps{x, loop, a, end, b}, courier.Position{Step: 3}, []int{1}, "[1 2 3 4]"},
		{"another list", steps{loop, a, end}, steps{named("loop", forEach([]any{1, 3})), a, end}, in(1, 0), nil, `the list of step 0 "loop" (flow.foreach), in which the execution stands, is another one`},
		{"another maximum", steps{each([]any{1}, m{"max_failures": 1}), a, end}, steps{each([]any{1}, m{"max_failures": 5}), a, end}, courier.Position{Step: 1, Loops: []courier.LoopPosition{{}}}, nil, "[]"},
		{"another policy", steps{loop, a, end}, steps{named("loop", each([]any{1, 2}, nil)), a, end}, in(1, 0), nil, `on_item_failure of step 0 "loop" (flow.foreach), in which the execution stands, is another one`},
		{"another list of a loop that is over", steps{loop, a, end, b}, steps{named("loop", forEach([]any{1, 3})), a, end, b}, courier.Position{Step: 3}, []int{1}, "[]"},
		{"no loop", steps{loop, a, end}, steps{a}, in(1, 0), nil, `the execution stands in the block of step 0 "loop" (flow.foreach), and there the new version has no such block`},
		{"a loop more", steps{a}, steps{loop, a, end}, courier.Position{Step: 0}, nil, `the new version has the block of step 0 "loop" (flow.foreach) around the place where the execution stands`},
		{"another loop", steps{loop, a, end}, steps{named("other", forEach([]any{1, 2})), a, end}, in(1, 0), nil, `the execution stands in the block of step 0 "loop" (flow.foreach), and in the new version in that of step 0 "other" (flow.foreach)`},
		{"a record behind it in the loop", steps{loop, a, b, end}, steps{x, loop, x, a, b, end}, in(1, 0), []int{2}, "[1 3 4 5]"},
		{"a record behind it is gone", steps{loop, a, b, end}, steps{loop, a, end}, in(1, 0), []int{2}, `step 2 "b" (t.b), which has run, can't be told in it: no step has the id "b"`},
		{"a record behind it comes before", steps{loop, a, b, end}, steps{loop, b, a, end}, in(1, 0), []int{2}, `step 2 "b" (t.b), which has run, is in another place of the order there`},
		{"a record in no loop now", steps{loop, a, end, b}, steps{a, loop, end, b}, courier.Position{Step: 3}, []int{1}, `step 1 "a" (t.a), which has run, lies in other loops there`},

		{"in a branch", steps{when(1, "equals", 1), a, otherwise, b, end}, steps{when(1, "equals", 1), a, x, otherwise, b, end}, courier.Position{Step: 3}, nil, "[0 1 3 4 5]"},
		{"in the other branch", steps{when(1, "equals", 1), a, otherwise, b, end}, steps{when(1, "equals", 1), b, otherwise, a, end}, courier.Position{Step: 3}, nil, "the execution stands in one branch of step 0 (flow.if), and in the new version in the other one"},
		{"another condition", steps{when(1, "equals", 1), a, end}, steps{when(1, "equals", 2), a, end}, courier.Position{Step: 1}, nil, "the condition of step 0 (flow.if), in whose branch the execution stands, is another one"},
		{"another kind of block", steps{named("x", when(1, "equals", 1)), a, end}, steps{named("x", forEach([]any{1})), a, end}, courier.Position{Step: 1}, nil, `the execution stands in the block of step 0 "x" (flow.if), and in the new version in that of step 0 "x" (flow.foreach)`},
		{"a marker in place of the step", steps{a, x}, steps{a, when(1, "equals", 1), end}, courier.Position{Step: 1}, nil, "step 1 (t.x), at which the execution stands, can't be told in it: it has no id, and entries before it have moved"},
	} {
		old, now := parse(t, c.old...), parse(t, c.now...)
		got, reasons := flow.MapSteps(old, now, c.p, func(step int) bool { return slices.Contains(c.recorded, step) })
		text := fmt.Sprint(got)
		if len(reasons) > 0 {
			text = strings.Join(reasons, "; ")
		}
		if text != c.want {
			t.Errorf("%s: MapSteps() =\n%s\nwant\n%s", c.name, text, c.want)
		}
	}
}
