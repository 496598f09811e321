package flow_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

func num(n int) json.Number { return json.Number(fmt.Sprint(n)) }

func walk(t testing.TB, tree *flow.Tree, p courier.Position, v flow.Values) *flow.Walk {
	t.Helper()
	w, err := tree.Walk(p, v)
	if err != nil {
		t.Fatalf("Walk(%v): %v", p, err)
	}
	return w
}

// trace runs a walk to its end and lists the steps, with their iterations.
func trace(t testing.TB, w *flow.Walk, each func(step int)) []string {
	t.Helper()
	var list []string
	for {
		step, err := w.Next()
		if err != nil {
			t.Fatalf("Next after %v: %v", list, err)
		}
		if again, err := w.Next(); again != step || err != nil {
			t.Fatalf("Next is %d, then %d, %v", step, again, err)
		}
		p := w.Position()
		if p.Step != step || !slices.Equal(p.Iteration(), w.Iteration()) {
			t.Fatalf("Position() = %v at step %d, iteration %v", p, step, w.Iteration())
		}
		list = append(list, strings.TrimSpace(fmt.Sprint(step, " ", courier.FormatIteration(w.Iteration()))))
		if p.Loops == nil && w.Total() == nil && w.Iteration() == nil && len(list) > 1<<20 {
			t.Fatal("the walk does not end")
		}
		if each != nil {
			each(step)
		}
		w.Advance()
		if after := w.Position(); after.Equal(p) {
			return list
		}
	}
}

func TestWalk(t *testing.T) {
	files := []any{m{"name": "a", "size": num(10)}, m{"name": "b", "size": num(2_000_000)}}
	for _, c := range []struct {
		name  string
		steps []courier.StepSpec
		want  string
	}{
		{"nothing", nil, "0"},
		{"steps", []courier.StepSpec{do("a.b"), do("a.b")}, "0,1,2"},
		{"a loop with branches", spec, "0,2 0,6 0,2 1,4 1,9,10"},
		{"empty list", []courier.StepSpec{forEach("[]"), do("a.b"), end, do("a.b")}, "3,4"},
		{"null list", []courier.StepSpec{forEach("context:params.null"), do("a.b"), end}, "3"},
		{"list of steps in text", []courier.StepSpec{forEach(`["context:params.one", 2]`), do("a.b"), end}, "1 0,1 1,3"},
		{"literal list", []courier.StepSpec{forEach([]any{"context:params.one", 2, m{"x": "${context:params.one}"}}), do("a.b"), end}, "1 0,1 1,1 2,3"},
		{"text of a list", []courier.StepSpec{forEach("context:params.text"), do("a.b"), end}, "1 0,1 1,3"},
		{"loops in loops", []courier.StepSpec{forEach("[[1,2],[],[3]]"), forEach("context:loop.current_item"), do("a.b"), end, do("a.b"), end},
			"2 0.0,2 0.1,4 0,4 1,2 2.0,4 2,6"},
		{"if", []courier.StepSpec{when(1, "equals", 1), do("a.b"), end, when(1, "equals", 2), do("a.b"), end}, "1,6"},
		{"else", []courier.StepSpec{when(1, "equals", 2), do("a.b"), otherwise, do("a.b"), end, when(1, "equals", 1), otherwise, do("a.b"), end}, "3,9"},
		{"markers in any case", []courier.StepSpec{with("Flow.IF", m{"left": 1, "operator": "EQUALS", "right": "1"}), do("a.b"), do("flow.Else"), do("a.b"), do("FLOW.END")}, "1,5"},
		{"loop without steps", []courier.StepSpec{forEach("[1,2]"), forEach("[1,2]"), end, when(1, "equals", 1), end, end, do("a.b")}, "6,7"},
		{"outer variables", []courier.StepSpec{
			forEach("[1,2]"), forEach("[1,2]"), forEach("[1,2]"),
			when("context:loop.0.index", "equals", "${context:loop.1.current_item}"), do("a.b"), end,
			end, end, end}, "4 1.0.0,4 1.0.1,9"},
		{"item of a literal", []courier.StepSpec{forEach([]any{m{"a": []any{"x"}}}), when("context:loop.current_item.a[0]", "equals", "X"), do("a.b"), end, end}, "2 0,5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := values{"params.one": num(1), "params.text": `[1, {"a": 2}]`, "params.null": nil}
			w := walk(t, parse(t, c.steps...), courier.Position{}, v)
			got := trace(t, w, func(step int) { v[fmt.Sprint(step, ".file_list")] = files })
			if got := strings.Join(got, ","); got != c.want {
				t.Errorf("the walk is %s, want %s", got, c.want)
			}
		})
	}
}

func TestLoopVariables(t *testing.T) {
	tree := parse(t, named("outer", forEach([]any{"a", "b"})), forEach([]any{"c", nil}), named("work", do("a.b")), end, end, do("a.b"))
	v := values{"params.day": "Monday", "job.name": "x"}
	w := walk(t, tree, courier.Position{}, v)
	if _, ok := w.Value("loop", "index"); ok {
		t.Error("there is a loop.index outside loops")
	}
	var seen []string
	for {
		step, err := w.Next()
		if err != nil {
			t.Fatal(err)
		}
		if step == 5 {
			break
		}
		item, ok := w.Value("loop", "current_item")
		index, _ := w.Value("loop", "index")
		outer, _ := w.Value("loop", "0")
		again, _ := w.Value("loop", "0")
		if !ok || !reflect.DeepEqual(outer, again) {
			t.Errorf("loop.current_item, %t; loop.0 = %v, then %v", ok, outer, again)
		}
		seen = append(seen, fmt.Sprintf("%v %v %v", item, index, outer))
		for _, name := range []string{"1", "2", "00", "item", ""} {
			if v, ok := w.Value("loop", name); ok {
				t.Errorf("loop.%s = %v", name, v)
			}
		}
		v["2.file"] = "f"
		if got, ok := w.Value("work", "file"); got != "f" || !ok {
			t.Errorf("work.file = %v, %t", got, ok)
		}
		want := []string{"loop.current_item", "loop.index", "loop.label", "loop.0", "2.file", "work.file", "job.name", "params.day"}
		if got := w.Keys(); !slices.Equal(got, want) {
			t.Errorf("Keys() = %v, want %v", got, want)
		}
		w.Advance()
	}
	want := "c 0 map[current_item:a index:0 label:a];<nil> 1 map[current_item:a index:0 label:a];c 0 map[current_item:b index:1 label:b];<nil> 1 map[current_item:b index:1 label:b]"
	if got := strings.Join(seen, ";"); got != want {
		t.Errorf("the variables are\n%s\nwant\n%s", got, want)
	}
	if _, ok := w.Value("loop", "current_item"); ok {
		t.Error("there is a loop.current_item after the loop")
	}
	if got, _ := w.Value("params", "day"); got != "Monday" {
		t.Errorf("params.day = %v", got)
	}
}

// recorder is a scope that remembers what it was asked.
type recorder struct {
	values
	asked     []string
	forgotten []string
}

func (r *recorder) Value(head, name string) (any, bool) {
	r.asked = append(r.asked, head+"."+name)
	return r.values.Value(head, name)
}

func (r *recorder) Forget(first, last int) {
	r.forgotten = append(r.forgotten, fmt.Sprintf("%d-%d", first, last))
	r.values.Forget(first, last)
}

func (r *recorder) SetNull(first, last int) {
	r.forgotten = append(r.forgotten, fmt.Sprintf("null %d-%d", first, last))
	r.values.SetNull(first, last)
}

func (r *recorder) LoopEnded(marker int, outer []int, count, failed, rescued int) {
	r.forgotten = append(r.forgotten, fmt.Sprintf("loop %d%v: %d of %d", marker, outer, failed, count))
	r.values.LoopEnded(marker, outer, count, failed, rescued)
}

func TestValuesSeeIndexes(t *testing.T) {
	tree := parse(t, named("get", do("a.b")), named("get-2", do("a.b")))
	r := &recorder{values: values{"1.x": "y"}}
	w := walk(t, tree, courier.Position{}, r)
	for _, head := range []string{"get", "get-2", "0", "params", "job", "loop", "chain", "nobody", "01", "+1"} {
		w.Value(head, "x")
	}
	if want := []string{"0.x", "1.x", "0.x", "params.x", "job.x", "chain.x"}; !slices.Equal(r.asked, want) {
		t.Errorf("Values were asked for %v, want %v", r.asked, want)
	}
}

func TestForget(t *testing.T) {
	tree := parse(t, do("a.b"), forEach("[1,2]"), do("a.b"), when("context:4.x", "exists", nil), do("a.b"), end, end, forEach("[]"), do("a.b"), end)
	r := &recorder{values: values{"0.x": 1, "2.x": 1, "4.x": 1, "8.x": 1}}
	w := walk(t, tree, courier.Position{Step: 1}, r)
	if got := trace(t, w, func(step int) { r.values["4.x"] = "old" }); fmt.Sprint(got) != "[2 0 4 0 2 1 4 1 10]" {
		// Step 4 finds what step 2's turn has put there, not what was there before.
		t.Errorf("the walk is %v", got)
	}
	if want := []string{"2-5", "2-5", "8-8"}; !slices.Equal(r.forgotten, want) {
		t.Errorf("forgotten is %v, want %v", r.forgotten, want)
	}
	if _, ok := r.values["0.x"]; !ok {
		t.Error("0.x is forgotten")
	}

	// A stale output of the iteration before must not be seen.
	r = &recorder{values: values{}}
	w = walk(t, tree, courier.Position{Step: 1}, r)
	got := trace(t, w, func(step int) {
		if step == 2 && r.values["seen"] == nil {
			r.values["seen"], r.values["4.x"] = true, "first"
		}
	})
	if fmt.Sprint(got) != "[2 0 4 0 2 1 10]" {
		t.Errorf("the walk is %v", got)
	}
}

func TestForgetOnResume(t *testing.T) {
	tree := parse(t, forEach("[1,2,3]"), do("a.b"), do("a.b"), end)
	r := &recorder{values: values{"1.x": 1, "2.x": "of the iteration before"}}
	walk(t, tree, courier.Position{Step: 2, Loops: []courier.LoopPosition{{Step: 0, Index: 1}}}, r)
	if _, stale := r.values["2.x"]; stale || r.values["1.x"] == nil {
		t.Errorf("the values are %v", r.values)
	}
}

func TestPositions(t *testing.T) {
	tree := parse(t, when(1, "equals", 2), do("a.b"), otherwise, do("a.b"), end, forEach("[1,2]"), do("a.b"), end)
	in := func(step, index int) courier.Position {
		return courier.Position{Step: step, Loops: []courier.LoopPosition{{Step: 5, Index: index}}}
	}
	for _, c := range []struct {
		p    courier.Position
		want string
	}{
		{courier.Position{Step: 1}, "1,6 0,6 1,8"}, // the branch was chosen, whatever the condition says now
		{courier.Position{Step: 2}, "6 0,6 1,8"},
		{courier.Position{Step: 3}, "3,6 0,6 1,8"},
		{courier.Position{Step: 4}, "6 0,6 1,8"},
		{courier.Position{Step: 5}, "6 0,6 1,8"},
		{in(6, 1), "6 1,8"},
		{in(7, 0), "6 1,8"},
		{in(7, 1), "8"},
		{courier.Position{Step: 8}, "8"},
	} {
		w := walk(t, tree, c.p, values{})
		if !w.Position().Equal(c.p) {
			t.Errorf("Walk(%v) stands at %v", c.p, w.Position())
		}
		if got := strings.Join(trace(t, w, nil), ","); got != c.want {
			t.Errorf("from %v the walk is %s, want %s", c.p, got, c.want)
		}
	}
	for _, p := range []courier.Position{
		{Step: -1}, {Step: 9}, {Step: 6}, {Step: 7}, in(8, 0), in(5, 0), in(6, 2), in(6, -1),
		{Step: 6, Loops: []courier.LoopPosition{{Step: 4}}},
		{Step: 6, Loops: []courier.LoopPosition{{Step: 5}, {Step: 5}}},
	} {
		if _, err := tree.Walk(p, values{}); err == nil || !strings.HasPrefix(err.Error(), "position {") {
			t.Errorf("Walk(%v) = %v, want an error", p, err)
		}
		if _, _, err := tree.Next(p, values{}); err == nil {
			t.Errorf("Next(%v) has no error", p)
		}
	}
}

func TestEvalErrors(t *testing.T) {
	for _, c := range []struct {
		marker courier.StepSpec
		want   string
	}{
		{when("context:0.size", "equals", 1), `flow.if: left: "0.size" has no value here; did you mean "0.sizes"?`},
		{when(1, "equals", "${context:get.size}!"), `flow.if: right: "get.size" has no value here; did you mean "get.sizes"?`},
		{when(1, "equals", []any{"context:0.size"}), `flow.if: right: config.right[0]: "0.size" has no value here; did you mean "0.sizes"?`},
		{when("context:loop.current_item", "equals", 1), `flow.if: left: "loop.current_item" has no value here; known are 0.sizes, get.sizes, params.bad`},
		{when("x", "regex", "context:params.bad"), "flow.if: right: is not a valid regular expression: missing closing ): `(`"},
		{when("context:0.sizes", "contains", "context:0.sizes[7]"), `flow.if: right: "0.sizes[7]" has no value: 0.sizes has no [7]; it is a list of 1`},
		{forEach("context:params.bad"), `flow.foreach: source: is the text "(", not a list`},
		{forEach("context:0.none"), `flow.foreach: source: "0.none" has no value here; known are 0.sizes`},
		{forEach([]any{"context:0.none"}), `flow.foreach: source: config.source[0]: "0.none" has no value here; known are 0.sizes`},
	} {
		tree := parse(t, named("get", do("a.b")), c.marker, do("a.b"), end, do("a.b"))
		v := values{"0.sizes": []any{num(1)}, "params.bad": "("}
		w := walk(t, tree, courier.Position{Step: 1}, v)
		for range 2 {
			step, err := w.Next()
			var ee *flow.EvalError
			if !errors.As(err, &ee) || ee.Step != 1 || step != 1 || errors.Unwrap(err) != ee.Err || err.Error() != c.want {
				t.Errorf("Next() = %d, %v, want %s", step, err, c.want)
			}
		}
		if p := w.Position(); p.Step != 1 {
			t.Errorf("the walk went on to %v", p)
		}
		if _, _, err := tree.Next(courier.Position{Step: 1}, v); err == nil || err.Error() != c.want {
			t.Errorf("Tree.Next() = %v, want %s", err, c.want)
		}
		w.Advance()
		if step, err := w.Next(); step != 4 || err != nil {
			t.Errorf("after Advance, Next() = %d, %v, want 4", step, err)
		}
	}

	tree := parse(t, forEach("context:params.list"), do("a.b"), end)
	p := courier.Position{Step: 1, Loops: []courier.LoopPosition{{Step: 0, Index: 0}}}
	var ee *flow.EvalError
	if _, err := tree.Walk(p, values{}); !errors.As(err, &ee) {
		t.Errorf("Walk() = %v, want an *EvalError", err)
	}
	if _, err := tree.Walk(p, values{"params.list": []any{}}); err == nil || !strings.Contains(err.Error(), "has 0 iterations") {
		t.Errorf("Walk() = %v", err)
	}
	w := walk(t, tree, courier.Position{}, values{"params.list": []string{"odd"}})
	if _, err := w.Next(); err == nil || !strings.HasSuffix(err.Error(), "is a []string, not a list") {
		t.Errorf("Next() = %v", err)
	}
}

func TestLoopsWithoutSteps(t *testing.T) {
	// 2^60 iterations in which there is nothing to do.
	steps := append(slices.Repeat([]courier.StepSpec{forEach("[1,2]")}, 60), slices.Repeat([]courier.StepSpec{end}, 60)...)
	if got := trace(t, walk(t, parse(t, steps...), courier.Position{}, values{}), nil); fmt.Sprint(got) != "[120]" {
		t.Errorf("the walk is %v", got)
	}
}

func TestListIsFixedAtEntry(t *testing.T) {
	tree := parse(t, forEach("context:params.list"), do("a.b"), end)
	v := values{"params.list": []any{1, 2}}
	w := walk(t, tree, courier.Position{}, v)
	got := trace(t, w, func(int) { v["params.list"] = []any{} })
	if fmt.Sprint(got) != "[1 0 1 1 3]" {
		t.Errorf("the walk is %v", got)
	}
}

func TestAdvanceElsewhere(t *testing.T) {
	tree := parse(t, when(1, "equals", 1), do("a.b"), otherwise, do("a.b"), end, do("a.b"))
	for _, step := range []int{2, 4, 6} {
		w := walk(t, tree, courier.Position{Step: step}, values{})
		w.Advance()
		if got := w.Position().Step; got != step {
			t.Errorf("Advance goes from entry %d to %d", step, got)
		}
	}
}

func TestWatch(t *testing.T) {
	list := make([]any, 100_000)
	tree := parse(t, forEach("context:params.list"), when(1, "equals", 2), do("a.b"), end, end)
	w := walk(t, tree, courier.Position{}, values{"params.list": list})
	stopped := errors.New("stopped")
	asked := 0
	w.Watch(func() error {
		if asked++; asked == 3 {
			return stopped
		}
		return nil
	})
	if _, err := w.Next(); err != stopped {
		t.Fatalf("Next() = %v, want %v", err, stopped)
	}
	p := w.Position()
	if len(p.Loops) != 1 || p.Loops[0].Index < 100 || p.Loops[0].Index > 10_000 {
		t.Errorf("the walk stands at %v", p)
	}
	if step, err := w.Next(); step != 5 || err != nil {
		t.Errorf("Next() = %d, %v, want 5", step, err)
	}
}

func TestTreeNext(t *testing.T) {
	tree := parse(t, forEach("context:params.list"), do("a.b"), when("context:1.x", "exists", nil), do("a.b"), end, end)
	v := courier.Values{"params.list": []any{"a", "b"}, "1.x": "stale", "job.name": "x"}
	before := maps.Clone(v)
	in := func(step, index int) courier.Position {
		return courier.Position{Step: step, Loops: []courier.LoopPosition{{Step: 0, Index: index}}}
	}
	for _, c := range []struct {
		p, want courier.Position
		more    bool
	}{
		{courier.Position{}, in(1, 0), true},
		{in(1, 0), in(1, 0), true},
		{in(2, 0), in(3, 0), true}, // the output of step 1 in this iteration
		{in(4, 0), in(1, 1), true},
		{in(5, 1), courier.Position{Step: 6}, false},
		{courier.Position{Step: 6}, courier.Position{Step: 6}, false},
	} {
		got, more, err := tree.Next(c.p, v)
		if err != nil || more != c.more || !got.Equal(c.want) {
			t.Errorf("Next(%v) = %v, %t, %v, want %v, %t", c.p, got, more, err, c.want, c.more)
		}
	}
	if !maps.EqualFunc(v, before, func(a, b any) bool { return reflect.DeepEqual(a, b) }) {
		t.Errorf("Next changed the values to %v", v)
	}
}

func TestTreeNextHidesOutputs(t *testing.T) {
	// Each position is followed by loops without a body that runs; what they
	// contain is out of scope for the condition at the end.
	steps := []courier.StepSpec{do("a.b")}
	for range 3 {
		steps = append(steps, forEach("[]"), do("a.b"), forEach("[1]"), do("a.b"), end, end)
	}
	for i := range len(steps) {
		tail := []courier.StepSpec{when(fmt.Sprintf("context:%d.x", i), "exists", nil), do("a.b"), end}
		tree := parse(t, append(slices.Clone(steps), tail...)...)
		v := courier.Values{}
		for j := range steps {
			v[fmt.Sprintf("%d.x", j)] = "stale"
		}
		got, more, err := tree.Next(courier.Position{Step: 1}, v)
		inside := i > 0 && (i-1)%6 != 0 && (i-1)%6 != 5
		if err != nil || more != !inside {
			t.Errorf("step %d: Next() = %v, %t, %v", i, got, more, err)
		}
	}
	// A missing value is explained by what is not hidden.
	tree := parse(t, do("a.b"), forEach("[]"), do("a.b"), end, when("context:0.y", "equals", 1), end)
	_, _, err := tree.Next(courier.Position{Step: 1}, courier.Values{"0.x": 1, "2.y": 1})
	if want := `flow.if: left: "0.y" has no value here; did you mean "0.x"?`; err == nil || err.Error() != want {
		t.Errorf("Next() = %v, want %s", err, want)
	}
}
