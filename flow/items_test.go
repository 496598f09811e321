package flow_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

// each is a flow.foreach with a policy.
func each(source any, more m) courier.StepSpec {
	config := m{"source": source, "on_item_failure": "continue"}
	for name, v := range more {
		config[name] = v
	}
	return with("flow.foreach", config)
}

func TestItemPolicy(t *testing.T) {
	classes := []any{"connection", "login"}
	for _, c := range []struct {
		config m
		want   flow.ItemPolicy
	}{
		{m{}, flow.ItemPolicy{}},
		{m{"on_item_failure": "stop"}, flow.ItemPolicy{}},
		{m{"on_item_failure": nil, "max_failures": nil, "then": nil}, flow.ItemPolicy{}},
		{m{"on_item_failure": "continue"}, flow.ItemPolicy{Continue: true, MaxFailures: -1, MaxPercent: -1}},
		{m{"on_item_failure": "continue", "max_failures": 0}, flow.ItemPolicy{Continue: true, MaxPercent: -1}},
		{m{"on_item_failure": "continue", "max_failures": "0%"}, flow.ItemPolicy{Continue: true, MaxFailures: -1}},
		{
			m{"on_item_failure": "continue", "max_failures": "10%", "then": "complete", "continue_on": classes, "after_repair": "rerun"},
			flow.ItemPolicy{Continue: true, MaxFailures: -1, MaxPercent: 10, Complete: true, ContinueOn: []courier.Reason{"connection", "login"}, Rerun: true},
		},
		{m{"on_item_failure": "continue", "then": "fail", "after_repair": "continue", "continue_on": []any{}}, flow.ItemPolicy{Continue: true, MaxFailures: -1, MaxPercent: -1}},
	} {
		c.config["source"] = "[1]"
		tree := parse(t, with("flow.foreach", c.config), do("a.b"), end)
		if got := tree.ItemPolicy(0); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", c.want) || tree.HasItemPolicies() != got.Continue {
			t.Errorf("%v: ItemPolicy() = %+v, want %+v", c.config, got, c.want)
		}
		for _, i := range []int{-1, 1, 2, 3} {
			if got := tree.ItemPolicy(i); got.Continue {
				t.Errorf("ItemPolicy(%d) = %+v", i, got)
			}
		}
	}
	usual := flow.ItemPolicy{Continue: true}
	chosen := flow.ItemPolicy{Continue: true, ContinueOn: []courier.Reason{courier.ReasonConnection}}
	for _, class := range append(courier.ErrorClasses(), courier.ReasonWorkerLost, courier.ReasonItems) {
		stops := strings.Contains(" connection login quota space secret ", " "+string(class)+" ")
		if usual.Continues(class) == stops || chosen.Continues(class) == (stops && class != courier.ReasonConnection) || (flow.ItemPolicy{}).Continues(class) {
			t.Errorf("Continues(%s) = %t, %t", class, usual.Continues(class), chosen.Continues(class))
		}
	}
}

func TestItemPolicyProblems(t *testing.T) {
	const (
		most  = `config.max_failures: must be a whole number from 0, or a percentage of the list from "0%" to "100%", and no reference`
		alone = `has no effect without "on_item_failure": "continue" or a flow.rescue; add one of them, or remove it`
	)
	for _, c := range []struct {
		config m
		want   []string
	}{
		{m{"on_item_failure": "continu"}, []string{`config.on_item_failure: unknown value "continu"; did you mean "continue"?`}},
		{m{"on_item_failure": "skip", "then": "complete"}, []string{`config.on_item_failure: must be "stop", which is the default, or "continue"`}},
		{m{"on_item_failure": "context:params.x"}, []string{`config.on_item_failure: can't be a reference; it is "stop", which is the default, or "continue"`}},
		{m{"on_item_failure": true}, []string{`config.on_item_failure: must be "stop", which is the default, or "continue"`}},
		{m{"max_failures": 3, "then": "fail", "continue_on": []any{"login"}, "after_repair": "rerun"}, []string{
			"config.max_failures: " + alone, "config.then: " + alone, "config.continue_on: " + alone, "config.after_repair: " + alone,
		}},
		{m{"on_item_failure": "stop", "then": "complete"}, []string{"config.then: " + alone}},
		{m{"on_item_failure": "continue", "max_failures": -1}, []string{most}},
		{m{"on_item_failure": "continue", "max_failures": 1.5}, []string{most}},
		{m{"on_item_failure": "continue", "max_failures": "10"}, []string{most}},
		{m{"on_item_failure": "continue", "max_failures": "101%"}, []string{most}},
		{m{"on_item_failure": "continue", "max_failures": "-1%"}, []string{most}},
		{m{"on_item_failure": "continue", "max_failures": "context:params.n"}, []string{most}},
		{m{"on_item_failure": "continue", "max_failures": []any{}}, []string{most}},
		{m{"on_item_failure": "continue", "then": "completed", "after_repair": "restart"}, []string{
			`config.then: unknown value "completed"; did you mean "complete"?`,
			`config.after_repair: must be "continue", which is the default, or "rerun"`,
		}},
		{m{"on_item_failure": "continue", "continue_on": "login"}, []string{`config.continue_on: must be a list of error classes, such as ["connection"]`}},
		{m{"on_item_failure": "continue", "continue_on": []any{"conection", 1, "worker_lost"}}, []string{
			`config.continue_on[0]: unknown error class "conection"; did you mean "connection"?`,
			`config.continue_on[1]: must be the name of an error class, such as "connection"`,
			`config.continue_on[2]: unknown error class "worker_lost"; known are connection, login, timeout, stalled, not_found, exists, permission, quota, space, integrity, invalid, secret and 4 more`,
		}},
		{m{"on_item_failur": "continue"}, []string{`config: unknown field "on_item_failur"; did you mean "on_item_failure"?`}},
	} {
		c.config["source"] = "[1]"
		_, err := flow.Parse([]courier.StepSpec{with("flow.foreach", c.config), do("a.b"), end})
		var got []string
		if e, ok := errors.AsType[*flow.ParseError](err); ok {
			for _, p := range e.Problems {
				got = append(got, p.Field+": "+p.Message)
			}
		}
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%v:\n got %q\nwant %q", c.config, got, c.want)
		}
	}
}

// nested has a loop that goes on, in it one that stops, and in that one that goes on
// unless connections fail, which the outermost one permits.
var nested = []courier.StepSpec{
	each([]any{"a", "b"}, m{"continue_on": []any{"connection"}}), // 0
	forEach([]any{"c", "d"}),                                     // 1
	do("a.b"),                                                    // 2
	each([]any{"e", "f", "g"}, m{"max_failures": 1}),             // 3
	do("a.b"), // 4
	end,       // 5
	do("a.b"), // 6
	end,       // 7
	do("a.b"), // 8
	end,       // 9
	do("a.b"), // 10
}

// continuingLoop returns the loop that goes on with its next item after a failure.
func continuingLoop(t *flow.Tree, i int, class courier.Reason) (marker int, ok bool) {
	h, ok := t.Handler(i, class)
	return h.Marker, ok && !h.Rescue
}

func TestContinuingLoop(t *testing.T) {
	tree := parse(t, nested...)
	for _, c := range []struct {
		i        int
		class    courier.Reason
		want     string
		counting string
	}{
		{4, "invalid", "3 true", "0 true"},
		{5, "invalid", "3 true", "0 true"},
		{4, "connection", "0 true", "0 true"},
		{4, "login", "0 false", "0 true"},
		{3, "items_failed", "0 true", "0 true"}, // the marker lies outside its loop
		{2, "invalid", "0 true", "0 true"},
		{0, "invalid", "0 false", "0 false"},
		{10, "invalid", "0 false", "0 false"},
		{11, "invalid", "0 false", "0 false"},
		{-1, "invalid", "0 false", "0 false"},
	} {
		if got := fmt.Sprint(continuingLoop(tree, c.i, c.class)); got != c.want {
			t.Errorf("Handler(%d, %s) = %s, want %s", c.i, c.class, got, c.want)
		}
		if got := fmt.Sprint(tree.CountingLoop(c.i)); got != c.counting {
			t.Errorf("CountingLoop(%d) = %s, want %s", c.i, got, c.counting)
		}
	}
	for marker, want := range map[int]int{0: 9, 1: 7, 3: 5, 4: -1, 5: -1, -1: -1, 11: -1} {
		if got := tree.End(marker); got != want {
			t.Errorf("End(%d) = %d, want %d", marker, got, want)
		}
	}
}

// play walks from p. Steps fail as plan says, by index and iteration: "4 0,0,1" with a
// class.
func play(t *testing.T, tree *flow.Tree, p courier.Position, v flow.Values, plan map[string]courier.Reason) (list []string, w *flow.Walk) {
	t.Helper()
	w = walk(t, tree, p, v)
	for {
		step, err := w.Next()
		if e, ok := errors.AsType[*flow.LoopError](err); ok {
			list = append(list, fmt.Sprintf("%v at %d", err, w.Position().Step))
			loop, ok := continuingLoop(tree, e.Step, courier.ReasonItems)
			if !ok {
				return list, w
			}
			w.FailItem(loop)
			continue
		}
		if err != nil {
			t.Fatalf("Next after %q: %v", list, err)
		}
		if step == tree.Len() {
			return list, w
		}
		at := strings.TrimSpace(strings.Trim(strings.ReplaceAll(fmt.Sprint(step, " ", w.Iteration()), "[", ""), "]"))
		if class, fails := plan[at]; fails {
			loop, ok := continuingLoop(tree, step, class)
			if !ok {
				return append(list, at+" ends"), w
			}
			list = append(list, fmt.Sprintf("%s fails %d", at, loop))
			w.FailItem(loop)
			continue
		}
		list = append(list, at)
		w.Advance()
	}
}

func TestFailItem(t *testing.T) {
	tree := parse(t, nested...)
	for _, c := range []struct {
		plan             map[string]courier.Reason
		want             string
		failed, accepted int
	}{
		// The innermost loop takes the failure; what follows it in the item runs, but the
		// outermost item has failed.
		{map[string]courier.Reason{"4 0 0 1": "invalid"}, "2 0 0; 4 0 0 0; 4 0 0 1 fails 3; 4 0 0 2; 6 0 0; 2 0 1; 4 0 1 0; 4 0 1 1; 4 0 1 2; 6 0 1; 8 0; 2 1 0", 1, 0},
		// A class that it does not take fails the item further out.
		{map[string]courier.Reason{"4 0 0 1": "connection"}, "2 0 0; 4 0 0 0; 4 0 0 1 fails 0; 2 1 0", 1, 0},
		{map[string]courier.Reason{"4 0 0 1": "login"}, "2 0 0; 4 0 0 0; 4 0 0 1 ends", 0, 0},
		// A loop in between that stops.
		{map[string]courier.Reason{"2 0 1": "invalid"}, "2 0 0; 4 0 0 0; 4 0 0 1; 4 0 0 2; 6 0 0; 2 0 1 fails 0; 2 1 0", 1, 0},
		// More than max_failures. The item counts once.
		{map[string]courier.Reason{"4 0 0 0": "invalid", "4 0 0 1": "invalid"}, "2 0 0; 4 0 0 0 fails 3; 4 0 0 1 fails 3; flow.foreach: 2 of 3 items have failed, and max_failures is 1; the loop was given up at index 1, with 1 items left; when the cause is gone, resume the execution, which executes the failed items again first at 5; 2 1 0", 1, 0},
		{map[string]courier.Reason{"4 0 0 0": "invalid", "4 0 1 0": "invalid", "8 0": "invalid", "8 1": "invalid"}, "2 0 0; 4 0 0 0 fails 3; 4 0 0 1; 4 0 0 2; 6 0 0; 2 0 1; 4 0 1 0 fails 3; 4 0 1 1; 4 0 1 2; 6 0 1; 8 0 fails 0; 2 1 0", 2, 0},
	} {
		got, w := play(t, tree, courier.Position{}, values{}, c.plan)
		if s := strings.Join(got, "; "); !strings.HasPrefix(s, c.want) {
			t.Errorf("%v:\n got %s\nwant %s", c.plan, s, c.want)
		}
		if failed, accepted := w.TakeFailures(); failed != c.failed || accepted != c.accepted {
			t.Errorf("%v: TakeFailures() = %d, %d, want %d, %d", c.plan, failed, accepted, c.failed, c.accepted)
		}
		if failed, accepted := w.TakeFailures(); failed != 0 || accepted != 0 {
			t.Errorf("TakeFailures() again = %d, %d", failed, accepted)
		}
	}
	w := walk(t, tree, courier.Position{}, values{})
	w.FailItem(0)
	if p := w.Position(); !p.Equal(courier.Position{}) {
		t.Errorf("FailItem of a loop that is not open goes to %v", p)
	}
}

func TestAcceptedItems(t *testing.T) {
	inner := each("[1,2]", m{"then": "complete"})
	for _, c := range []struct {
		outer            courier.StepSpec
		failed, accepted int
	}{
		{each("[1,2]", m{"then": "complete"}), 1, 1}, // an item of the outer loop, for the step in it
		{each("[1,2]", nil), 1, 0},
		{forEach("[1,2]"), 1, 1}, // the inner one counts
	} {
		tree := parse(t, c.outer, inner, do("a.b"), end, do("a.b"), end)
		plan := map[string]courier.Reason{"2 0 1": "invalid"}
		if c.outer.Config["on_item_failure"] != nil {
			plan["4 1"] = "invalid"
		}
		_, w := play(t, tree, courier.Position{}, values{}, plan)
		if failed, accepted := w.TakeFailures(); failed != c.failed || accepted != c.accepted {
			t.Errorf("%v: TakeFailures() = %d, %d, want %d, %d", c.outer.Config, failed, accepted, c.failed, c.accepted)
		}
	}
}

func TestMaxFailures(t *testing.T) {
	list := make([]any, 10)
	for _, c := range []struct {
		most   any
		failed int
		given  int // the index with which the loop is given up; -1 for none
	}{
		{nil, 10, -1},
		{0, 0, -1}, {0, 1, 0}, {3, 3, -1}, {3, 4, 3}, {9, 10, 9}, {10, 10, -1},
		{"0%", 0, -1}, {"0%", 1, 9}, {"30%", 3, -1}, {"30%", 4, 9}, {"39%", 3, -1}, {"39%", 4, 9}, {"9%", 1, 9}, {"100%", 10, -1},
	} {
		tree := parse(t, each(list, m{"max_failures": c.most}), do("a.b"), end)
		plan := map[string]courier.Reason{}
		for i := range c.failed {
			plan[fmt.Sprintf("1 %d", i)] = "error"
		}
		v := values{}
		got, w := play(t, tree, courier.Position{}, v, plan)
		p := w.Position()
		if c.given < 0 {
			if p.Step != 3 || v["0.failed_count"] != num(c.failed) || v["0.count"] != num(10) {
				t.Errorf("max_failures %v, %d failed: the walk ends at %v with %v", c.most, c.failed, p, v)
			}
			continue
		}
		if p.Step != 2 || p.Loops[0].Index != c.given || p.Loops[0].Failed != c.failed || v["0.count"] != nil {
			t.Errorf("max_failures %v, %d failed: the walk ends at %+v with %v:\n%s", c.most, c.failed, p, v, got[len(got)-1])
		}
		// It is given up again when it is taken up there.
		if _, err := walk(t, tree, p, values{}).Next(); err == nil || !strings.HasPrefix(err.Error(), "flow.foreach: ") {
			t.Errorf("Next() = %v", err)
		}
		// With one that is good now, it goes on.
		p.Loops[0].Failed--
		if _, err := walk(t, tree, p, values{}).Next(); err != nil {
			t.Errorf("after a repair, Next() = %v", err)
		}
	}
	err := &flow.LoopError{Step: 3, Failed: 1, Count: 5, Max: 0, Percent: 10, Index: 4}
	if want := "flow.foreach: 1 of 5 items has failed, and max_failures is 10%, which is 0; when the cause is gone, resume the execution, which executes the failed items again first"; err.Error() != want {
		t.Errorf("Error() = %s, want %s", err, want)
	}
}

func TestValuesOfLoops(t *testing.T) {
	tree := parse(t,
		each([]any{1, 2}, nil), do("a.b"), end, // 0-2
		each([]any{}, nil), do("a.b"), end, // 3-5
		each([]any{1, 2, 3}, nil), end, // 6-7: nothing to do
		forEach([]any{1}), do("a.b"), end, // 8-10: no policy
		do("a.b")) // 11
	r := &recorder{values: values{"1.x": 1}}
	got, _ := play(t, tree, courier.Position{}, r, map[string]courier.Reason{"1 1": "error"})
	if s := strings.Join(got, "; "); s != "1 0; 1 1 fails 0; 9 0; 11" {
		t.Errorf("the walk is %s", s)
	}
	if want := "1-1 1-1 null 1-1 loop 0[]: 1 of 2 4-4 loop 3[]: 0 of 0 loop 6[]: 0 of 3 9-9"; strings.Join(r.forgotten, " ") != want {
		t.Errorf("the values are told %q, want %q", r.forgotten, want)
	}
	if v, ok := r.Value("1", "x"); v != nil || !ok {
		t.Errorf("1.x is %v, %t, want null", v, ok)
	}
}

// TestValuesOfLoopsAfterAnInterruption takes an execution up behind loops.
func TestValuesOfLoopsAfterAnInterruption(t *testing.T) {
	list := []any{"a", "b", "c"}
	tree := parse(t,
		named("first", each(list, nil)), do("a.b"), end, // 0-2
		when("context:first.failed_count", "equals", 0), // 3
		named("then", each(list, nil)), do("a.b"), end,  // 4-6
		otherwise,                                         // 7
		named("else", each([]any{}, nil)), do("a.b"), end, // 8-10
		end,                  // 11
		forEach([]any{1, 2}), // 12
		named("in", each("context:params.list", nil)), do("a.b"), end, // 13-15
		forEach("context:in.list"), do("a.b"), end, // 16-18
		do("a.b"), // 19
		end,       // 20
		do("a.b")) // 21
	in := func(step, index int) courier.Position {
		return courier.Position{Step: step, Loops: []courier.LoopPosition{{Step: 12, Index: index}}}
	}
	for _, c := range []struct {
		p      courier.Position
		failed int // of the first loop
		want   string
	}{
		{courier.Position{Step: 0}, 0, ""},
		{courier.Position{Step: 3}, 0, "first=3"},
		{courier.Position{Step: 12}, 0, "first=3 then=3"},
		{courier.Position{Step: 12}, 1, "first=3 else=0"},
		{courier.Position{Step: 11}, 1, "first=3 else=0"},
		{courier.Position{Step: 7}, 0, "first=3 then=3"}, // the branch is over
		{in(13, 0), 0, "first=3 then=3"},
		{in(19, 1), 1, "first=3 else=0 in=2"},
		{courier.Position{Step: 21}, 0, "first=3 then=3"}, // that of the inner one was one of an iteration
	} {
		v := loopValues{values{"params.list": []any{1, 2}, "first": c.failed}}
		w := walk(t, tree, c.p, v)
		for _, force := range []bool{false, true} {
			var got []string
			for _, id := range []string{"first", "then", "else", "in"} {
				if n, ok := w.Value(id, "count"); ok {
					got = append(got, fmt.Sprintf("%s=%v", id, n))
				}
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("at %v with %d failed, the values are %s, want %s", c.p, c.failed, s, c.want)
			}
			if force {
				w = walk(t, tree, c.p, v)
				w.EndLoops()
			}
		}
		if n, err := w.Count(0); n != 3 || err != nil {
			t.Errorf("Count(0) = %d, %v", n, err)
		}
		if _, ok := w.Value("first", "other"); ok {
			t.Error("first.other has a value")
		}
	}
	w := walk(t, tree, in(19, 1), loopValues{values{"params.list": []any{1, 2}}})
	if n, err := w.Count(13); n != 2 || err != nil {
		t.Errorf("Count(13) = %d, %v", n, err)
	}
	for _, marker := range []int{-1, 1, 3} {
		if _, err := w.Count(marker); err == nil {
			t.Errorf("Count(%d) has no error", marker)
		}
	}
	w = walk(t, tree, courier.Position{Step: 21}, loopValues{values{}})
	if _, err := w.Count(13); err == nil {
		t.Error("Count of an inner loop has no error outside")
	}
}

// loopValues know how many items of the first loop have failed.
type loopValues struct{ values }

func (v loopValues) LoopEnded(marker int, outer []int, count, failed, rescued int) {
	if failed < 0 {
		failed, _ = v.values["first"].(int)
	}
	v.values.LoopEnded(marker, outer, count, failed, rescued)
}

func TestTreeNextKnowsLoops(t *testing.T) {
	tree := parse(t, named("each", each("[1,2]", nil)), do("a.b"), end, when("context:each.count", "equals", 2), do("a.b"), end)
	last := courier.Position{Step: 2, Loops: []courier.LoopPosition{{Step: 0, Index: 1}}}
	for _, p := range []courier.Position{last, {Step: 3}} {
		if got, more, err := tree.Next(p, courier.Values{}); err != nil || !more || got.Step != 4 {
			t.Errorf("Next(%v) = %v, %t, %v", p, got, more, err)
		}
	}
}

func TestSeek(t *testing.T) {
	tree := parse(t, nested...)
	at := func(step int, loops ...courier.LoopPosition) courier.Position {
		return courier.Position{Step: step, Loops: loops}
	}
	l := func(step, index int) courier.LoopPosition { return courier.LoopPosition{Step: step, Index: index} }
	w := walk(t, tree, courier.Position{}, values{})
	for _, p := range []courier.Position{
		at(4, l(0, 0), l(1, 0), l(3, 2)),
		at(4, l(0, 0), l(1, 0), courier.LoopPosition{Step: 3, Index: 0, Failed: 1, ItemFailed: true}),
		at(6, l(0, 1), courier.LoopPosition{Step: 1, Index: 1, Failed: 2}),
		at(10),
		at(8, l(0, 1)),
		at(11),
		at(0),
	} {
		if err := w.Seek(p); err != nil || !w.Position().Equal(p) {
			t.Fatalf("Seek(%+v) = %v, the walk stands at %+v", p, err, w.Position())
		}
		for _, wrong := range []courier.Position{at(-1), at(12), at(4), at(2, l(0, 2), l(1, 0)), at(2, l(0, 0), l(1, -1)), at(2, l(1, 0), l(0, 0)), at(8, courier.LoopPosition{Step: 0, Failed: -1})} {
			if err := w.Seek(wrong); err == nil || !w.Position().Equal(p) {
				t.Errorf("Seek(%+v) = %v, the walk stands at %+v, want %+v", wrong, err, w.Position(), p)
			}
		}
	}
}

// counting counts how often the list of a loop is asked for.
type counting struct {
	values
	asked *int
}

func (c counting) Value(head, name string) (any, bool) {
	*c.asked++
	return c.values.Value(head, name)
}

func TestSeekKeepsLists(t *testing.T) {
	list := make([]any, 1000)
	asked := 0
	tree := parse(t, each("context:params.list", nil), forEach("context:params.list"), do("a.b"), end, do("a.b"), end)
	w := walk(t, tree, courier.Position{Step: 4, Loops: []courier.LoopPosition{{Step: 0, Index: 5}}}, counting{values{"params.list": list}, &asked})
	for _, c := range []struct {
		outer, inner, want int
	}{{6, -1, 0}, {999, -1, 0}, {3, 7, 1}, {3, 8, 0}, {3, -1, 0}, {3, 9, 1}, {4, 9, 1}, {4, 9, 0}} {
		p := courier.Position{Step: 4, Loops: []courier.LoopPosition{{Step: 0, Index: c.outer}}}
		if c.inner >= 0 {
			p = courier.Position{Step: 2, Loops: append(p.Loops, courier.LoopPosition{Step: 1, Index: c.inner})}
		}
		asked = 0
		if err := w.Seek(p); err != nil || !w.Position().Equal(p) || asked != c.want {
			t.Errorf("Seek(%v) = %v; the list was asked for %d times, want %d", p, err, asked, c.want)
		}
		if n, _ := w.Value("loop", "index"); n != num(max(c.inner, 0)) && c.inner >= 0 {
			t.Errorf("loop.index is %v", n)
		}
		if c.inner >= 0 {
			if o, _ := w.Value("loop", "0"); o.(m)["index"] != num(c.outer) {
				t.Errorf("loop.0 is %v", o)
			}
		}
	}
}

func TestSetBound(t *testing.T) {
	tree := parse(t, nested...)
	p := courier.Position{Step: 4, Loops: []courier.LoopPosition{{Step: 0}, {Step: 1, Index: 1}, {Step: 3, Index: 1}}}
	for _, c := range []struct {
		bound int
		fail  int // the loop whose item fails; -1 for none
		want  int
	}{{3, -1, 5}, {1, -1, 7}, {0, -1, 9}, {3, 3, 5}, {3, 0, 9}, {1, 0, 9}, {1, 3, 7}, {9, -1, 11}, {-1, -1, 11}} {
		w := walk(t, tree, p, values{})
		w.SetBound(c.bound)
		if c.fail >= 0 {
			w.FailItem(c.fail)
		}
		var err error
		for step := 0; err == nil && step < tree.Len(); w.Advance() {
			step, err = w.Next()
		}
		if got := w.Position().Step; got != c.want || (err == nil) != (c.want == 11) || err != nil && err != flow.ErrItemEnded {
			t.Errorf("bound %d, failed %d: the walk ends at %d with %v, want %d", c.bound, c.fail, got, err, c.want)
		}
		if err != nil {
			if _, again := w.Next(); again != flow.ErrItemEnded {
				t.Errorf("Next() again = %v", again)
			}
			w.SetBound(-1)
			if _, err := w.Next(); err != nil {
				t.Errorf("without the bound, Next() = %v", err)
			}
		}
	}
	// Seek removes it.
	w := walk(t, tree, p, values{})
	w.SetBound(3)
	if err := w.Seek(courier.Position{Step: 5, Loops: p.Loops}); err != nil {
		t.Fatal(err)
	}
	if step, err := w.Next(); step != 4 || err != nil {
		t.Errorf("after Seek, Next() = %d, %v", step, err)
	}
}

func TestFailedItems(t *testing.T) {
	tree := parse(t, nested...)
	fail := func(seq int64, step, loop int, iteration ...int) courier.StepExecution {
		return courier.StepExecution{Seq: seq, Step: step, Iteration: iteration, FailedLoop: &loop, State: courier.StepFailed}
	}
	failures := []courier.StepExecution{
		fail(4, 8, 0, 1),        // item 1 itself
		fail(1, 4, 3, 0, 0, 1),  // item 0 by an inner loop
		fail(2, 4, 3, 0, 1, 2),  // again
		fail(3, 4, 3, 1, 0, 0),  // item 1 too
		{Seq: 9, Step: 10},      // no failure of an item
		fail(5, 4, 3, 0, 0),     // does not fit the tree
		fail(6, 8, 3, 0),        // neither
		fail(7, 4, 4, 0, 0, 0),  // nor this
		fail(8, 4, 99, 0, 0, 0), // nor this
	}
	for _, c := range []struct {
		marker int
		outer  []int
		want   string
	}{
		{0, nil, "[1 4]"}, // by Seq: the first of item 0, that of item 1 itself
		{3, []int{0, 0}, "[1]"},
		{3, []int{0, 1}, "[2]"},
		{3, []int{1, 1}, "[]"},
		{1, []int{0}, "[]"},
		{2, nil, "[]"},
	} {
		var seqs []int64
		for _, r := range tree.FailedItems(c.marker, c.outer, failures) {
			seqs = append(seqs, r.Seq)
		}
		if got := fmt.Sprint(seqs); got != c.want {
			t.Errorf("FailedItems(%d, %v) = %s, want %s", c.marker, c.outer, got, c.want)
		}
	}

	// Of an open loop, the item around it has not failed yet.
	l := func(step, index int) courier.LoopPosition { return courier.LoopPosition{Step: step, Index: index} }
	for _, c := range []struct {
		p    courier.Position
		want string
	}{
		{courier.Position{Step: 4, Loops: []courier.LoopPosition{l(0, 0), l(1, 0), l(3, 2)}}, "[{0 0 0 false} {1 0 0 false} {3 2 1 false}]"},
		{courier.Position{Step: 4, Loops: []courier.LoopPosition{l(0, 0), l(1, 0), l(3, 1)}}, "[{0 0 0 false} {1 0 0 false} {3 1 1 true}]"},
		{courier.Position{Step: 4, Loops: []courier.LoopPosition{l(0, 0), l(1, 1), l(3, 0)}}, "[{0 0 1 true} {1 1 0 false} {3 0 0 false}]"},
		{courier.Position{Step: 6, Loops: []courier.LoopPosition{l(0, 0), l(1, 0)}}, "[{0 0 1 true} {1 0 0 false}]"},
		{courier.Position{Step: 8, Loops: []courier.LoopPosition{l(0, 1)}}, "[{0 1 2 true}]"},
		{courier.Position{Step: 10}, "[]"},
	} {
		if got := strings.ReplaceAll(fmt.Sprint(tree.Recount(c.p, failures).Loops), " 0 false}", "}"); got != c.want {
			t.Errorf("Recount(%v) = %s, want %s", c.p, got, c.want)
		}
	}
}
