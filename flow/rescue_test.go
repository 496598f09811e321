package flow_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

var (
	try    = do("flow.try")
	rescue = do("flow.rescue")
)

func TestRescueProblems(t *testing.T) {
	loop := forEach([]any{1})
	for name, c := range map[string]struct {
		steps []courier.StepSpec
		want  []string
	}{
		"outside":         {[]courier.StepSpec{do("a.b"), rescue}, []string{"step 1 (flow.rescue): stands outside a flow.foreach and a flow.try; remove it, or put it between one of them and its flow.end"}},
		"in a branch":     {[]courier.StepSpec{when(1, "equals", 1), do("a.b"), rescue, do("a.b"), end}, []string{"step 2 (flow.rescue): stands directly inside the flow.if of step 0, but belongs between a flow.foreach or a flow.try and its flow.end; is a flow.end missing before it?"}},
		"twice":           {[]courier.StepSpec{try, do("a.b"), rescue, do("a.b"), rescue, do("a.b"), end}, []string{"step 4 (flow.rescue): is the second flow.rescue of the flow.try of step 0, which has one at step 2; remove one of them"}},
		"else in a try":   {[]courier.StepSpec{try, do("a.b"), otherwise, do("a.b"), rescue, do("a.b"), end}, []string{"step 2 (flow.else): stands directly inside the flow.try of step 0, but belongs between a flow.if and its flow.end; is a flow.end missing before it?"}},
		"empty":           {[]courier.StepSpec{loop, do("a.b"), rescue, end}, []string{"step 2 (flow.rescue): there is no step in it; add one that deals with the failure, or remove it"}},
		"empty body":      {[]courier.StepSpec{try, rescue, do("a.b"), end}, []string{"step 1 (flow.rescue): nothing before it in the flow.try of step 0 can fail, since there is no step; add the steps before it, or remove the block"}},
		"try without":     {[]courier.StepSpec{try, do("a.b"), end}, []string{"step 0 (flow.try): has no flow.rescue; add one, and behind it the steps that deal with a failure, before the flow.end of step 2"}},
		"never closed":    {[]courier.StepSpec{try, do("a.b"), rescue}, []string{"step 0 (flow.try): no flow.end closes it; add one after the last step that belongs to it"}},
		"loop that stops": {[]courier.StepSpec{with("flow.foreach", m{"source": []any{1}, "on_item_failure": "stop"}), do("a.b"), rescue, do("a.b"), end}, []string{`step 0 (flow.foreach): config.on_item_failure: is "stop", but the loop has a flow.rescue, step 2, and goes on with its next item; leave one of them out`}},
		"configuration": {[]courier.StepSpec{with("flow.try", m{"a": 1}), do("a.b"), with("flow.rescue", m{"rescue_on": []any{"conection", "invalid"}, "no_rescue_on": []any{"invalid"}, "rescued": "fails"}), do("a.b"), end}, []string{
			`step 0 (flow.try): config: unknown field "a"; a flow.try has no configuration`,
			`step 2 (flow.rescue): config.no_rescue_on[0]: "invalid" is in rescue_on too; leave one of them out`,
			`step 2 (flow.rescue): config.rescue_on[0]: unknown error class "conection"; did you mean "connection"?`,
			`step 2 (flow.rescue): config.rescued: unknown value "fails"; did you mean "fail"?`,
		}},
		"right": {[]courier.StepSpec{with("flow.foreach", m{"source": []any{1}, "max_failures": 1}), try, do("a.b"), rescue, do("a.b"), end, with("flow.rescue", m{"rescue_on": []any{"items_failed", "worker_lost"}, "rescued": "fail"}), do("a.b"), end}, nil},
	} {
		_, err := flow.Parse(c.steps)
		var got []string
		if e, ok := errors.AsType[*flow.ParseError](err); ok {
			got = texts(e.Problems)
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
	}
}

// blocks has a loop with a rescue, and in it a try and a loop.
var blocks = []courier.StepSpec{
	with("flow.foreach", m{"source": []any{"a", "b"}}), // 0
	do("a.b"), // 1
	try,       // 2
	do("a.b"), // 3
	with("flow.rescue", m{"no_rescue_on": []any{"invalid"}}), // 4
	do("a.b"),             // 5
	end,                   // 6
	forEach([]any{"x"}),   // 7
	do("a.b"),             // 8
	end,                   // 9
	rescue,                // 10
	do("a.b"),             // 11
	try,                   // 12
	do("a.b"),             // 13
	rescue,                // 14
	do("a.b"),             // 15
	end,                   // 16
	end,                   // 17
	try,                   // 18
	each([]any{"x"}, nil), // 19
	do("a.b"),             // 20
	end,                   // 21
	rescue,                // 22
	do("a.b"),             // 23
	end,                   // 24
	do("a.b"),             // 25
}

func TestHandler(t *testing.T) {
	tree := parse(t, blocks...)
	for _, c := range []struct {
		step  int
		class courier.Reason
		want  string
	}{
		{1, courier.ReasonError, "{0 true} true"},
		{1, courier.ReasonConnection, "{0 false} false"}, // it ends the loop
		{3, courier.ReasonConnection, "{2 true} true"},   // every class comes to a try
		{3, courier.ReasonInvalid, "{0 true} true"},      // but that
		{5, courier.ReasonError, "{0 true} true"},        // in the rescue of the try
		{5, courier.ReasonLogin, "{0 false} false"},
		{8, courier.ReasonWorkerLost, "{0 true} true"},
		{7, courier.ReasonConfig, "{0 true} true"},
		{11, courier.ReasonError, "{0 false} true"}, // in the rescue of the item, which fails
		{11, courier.ReasonConnection, "{0 false} false"},
		{13, courier.ReasonConnection, "{12 true} true"},
		{15, courier.ReasonError, "{0 false} true"},
		{20, courier.ReasonError, "{19 false} true"},
		{20, courier.ReasonConnection, "{18 true} true"},
		{19, courier.ReasonItems, "{18 true} true"},
		{23, courier.ReasonError, "{0 false} false"},
		{25, courier.ReasonError, "{0 false} false"},
	} {
		h, ok := tree.Handler(c.step, c.class)
		if got := fmt.Sprint(h, ok); got != c.want {
			t.Errorf("Handler(%d, %s) = %s, want %s", c.step, c.class, got, c.want)
		}
	}
	for step, want := range map[int]int{1: -1, 5: 2, 11: 0, 12: 0, 13: 0, 15: 12, 23: 18, 25: -1} {
		if got := tree.InRescue(step); got != want {
			t.Errorf("InRescue(%d) = %d, want %d", step, got, want)
		}
	}
	if !tree.Accepts(19) || tree.Accepts(0) || !tree.HasRescues() || tree.Rescue(0) != 10 || tree.Rescue(19) != -1 || tree.RescueFails(0) {
		t.Error("Accepts, HasRescues, Rescue or RescueFails is wrong")
	}
}

// errorValues are values that have the error of a block, as the engine sets it.
type errorValues struct{ values }

func (v errorValues) fail(w *flow.Walk, marker, step int) {
	v.values[fmt.Sprintf("%d.error", marker)] = m{"step": json.Number(fmt.Sprint(step)), "message": "why"}
	w.Rescue(marker)
}

// TestRescue follows a walk whose steps fail at chosen places.
func TestRescue(t *testing.T) {
	for name, c := range map[string]struct {
		fails map[string]int // the marker, by step and iteration
		want  string
		ended string // rescued items, failed ones
	}{
		"nothing fails":    {nil, "1[0] 3[0] 8[0 0] 1[1] 3[1] 8[1 0] 20[0] 25[]", "0 0"},
		"the body":         {map[string]int{"1[0]": 0}, "1[0] 11[0] 13[0] 1[1] 3[1] 8[1 0] 20[0] 25[]", "1 0"},
		"an inner loop":    {map[string]int{"8[1 0]": 0}, "1[0] 3[0] 8[0 0] 1[1] 3[1] 8[1 0] 11[1] 13[1] 20[0] 25[]", "1 0"},
		"a try in it":      {map[string]int{"3[0]": 2}, "1[0] 3[0] 5[0] 8[0 0] 1[1] 3[1] 8[1 0] 20[0] 25[]", "0 0"},
		"rescue of a try":  {map[string]int{"3[0]": 2, "5[0]": 0}, "1[0] 3[0] 5[0] 11[0] 13[0] 1[1] 3[1] 8[1 0] 20[0] 25[]", "1 0"},
		"try in a rescue":  {map[string]int{"1[0]": 0, "13[0]": 12}, "1[0] 11[0] 13[0] 15[0] 1[1] 3[1] 8[1 0] 20[0] 25[]", "1 0"},
		"all items":        {map[string]int{"1[0]": 0, "1[1]": 0}, "1[0] 11[0] 13[0] 1[1] 11[1] 13[1] 20[0] 25[]", "2 0"},
		"the last block":   {map[string]int{"20[0]": 18}, "1[0] 3[0] 8[0 0] 1[1] 3[1] 8[1 0] 20[0] 23[] 25[]", "0 0"},
		"a rescue":         {map[string]int{"1[0]": 0, "11[0]": -1}, "1[0] 11[0] 1[1] 3[1] 8[1 0] 20[0] 25[]", "0 1"},
		"try, in a rescue": {map[string]int{"1[1]": 0, "13[1]": 12, "15[1]": -1}, "1[0] 3[0] 8[0 0] 1[1] 11[1] 13[1] 15[1] 20[0] 25[]", "0 1"},
	} {
		tree := parse(t, blocks...)
		v := errorValues{values{}}
		w := walk(t, tree, courier.Position{}, v)
		var seen []string
		rescued, failed := 0, 0
		for {
			step, err := w.Next()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if step == tree.Len() {
				break
			}
			if again := walk(t, tree, w.Position(), v); !reflect.DeepEqual(again.Position(), w.Position()) {
				t.Errorf("%s: a walk at %v stands at %v", name, w.Position(), again.Position())
			}
			at := fmt.Sprint(step, w.Iteration())
			seen = append(seen, strings.Replace(at, " ", "", 1))
			switch marker, fails := c.fails[seen[len(seen)-1]]; {
			case fails && marker < 0:
				w.FailItem(0)
			case fails:
				v.fail(w, marker, step)
			default:
				w.Advance()
			}
			n, _ := w.TakeRescued()
			f, _ := w.TakeFailures()
			rescued, failed = rescued+n, failed+f
		}
		n, _ := w.TakeRescued()
		if got := strings.Join(seen, " "); got != c.want {
			t.Errorf("%s: executed\n%s, want\n%s", name, got, c.want)
		}
		if got := fmt.Sprint(rescued+n, failed); got != c.ended {
			t.Errorf("%s: %s items were rescued and failed, want %s", name, got, c.ended)
		}
	}
}

// An inner loop that has ended with failed items comes to the rescue, and fails nothing else.
func TestInnerLoopComesToTheRescue(t *testing.T) {
	tree := parse(t, named("outer", forEach([]any{"a"})), named("inner", each([]any{"x", "y"}, nil)), do("a.b"), end, do("a.b"), rescue, do("a.b"), end, do("a.b"))
	w := walk(t, tree, courier.Position{}, values{})
	for range 2 {
		if _, err := w.Next(); err != nil {
			t.Fatal(err)
		}
		w.FailItem(1)
	}
	for range 2 { // the same again
		_, err := w.Next()
		if e, ok := errors.AsType[*flow.LoopError](err); !ok || e.Error() != "flow.foreach: 2 of 2 items have failed" || e.Step != 1 {
			t.Fatalf("Next() = %v", err)
		}
		w = walk(t, tree, w.Position(), values{})
	}
	w.Rescue(0)
	if step, err := w.Next(); step != 6 || err != nil {
		t.Fatalf("Next() = %d, %v, want 6", step, err)
	}
	loop := 1
	inner := courier.StepExecution{Seq: 3, Step: 2, Iteration: []int{0, 1}, State: courier.StepFailed, FailedLoop: &loop}
	if tree.Fails(&inner, 0) || !tree.Fails(&inner, 1) {
		t.Error("what the inner loop has come to fails the item of the outer one")
	}
	outer := 0
	began := courier.StepExecution{Seq: 5, Step: 1, Iteration: []int{0}, State: courier.StepFailed, Rescue: &outer}
	records := []courier.StepExecution{inner, began}
	at := w.Position()
	if got := tree.Rescued(at, records, nil); len(got) != 1 || got[0].Seq != 5 {
		t.Errorf("Rescued = %v", got)
	}
	if got := tree.RescuedItems(at, records, nil); len(got) != 0 {
		t.Errorf("in the rescue, the rescued items are %v", got)
	}
	behind := courier.Position{Step: 8}
	if got := tree.RescuedItems(behind, records, nil); len(got) != 1 || got[0].Seq != 5 {
		t.Errorf("behind the loop, the rescued items are %v", got)
	}
	if got := tree.RescuedItems(behind, records, []courier.StepExecution{{Seq: 7, Step: 6, Iteration: []int{0}, FailedLoop: &outer}}); len(got) != 0 {
		t.Errorf("after the rescue has failed, the rescued items are %v", got)
	}
	if got := tree.Rescued(behind, records, nil); len(got) != 0 {
		t.Errorf("behind the loop, Rescued = %v", got)
	}
}

// The error of a try is null if nothing has failed, and has no value before.
func TestErrorOfATry(t *testing.T) {
	tree := parse(t, named("t", try), when(1, "equals", 2), named("each", each([]any{1}, nil)), do("a.b"), end, end, named("work", do("a.b")), named("late", each([]any{1}, nil)), do("a.b"), end, rescue, do("a.b"), end, do("a.b"))
	v := errorValues{values{}}
	w := walk(t, tree, courier.Position{}, v)
	if step, err := w.Next(); step != 6 || err != nil {
		t.Fatalf("Next() = %d, %v", step, err)
	}
	if x, ok := w.Value("t", "error"); ok {
		t.Errorf("in the body, the error is %v", x)
	}
	good := walk(t, tree, courier.Position{Step: 13}, values{})
	if x, ok := good.Value("t", "error"); x != nil || !ok {
		t.Errorf("behind the block, the error is %v, %t", x, ok)
	}
	if x, ok := good.Value("late", "count"); !ok || x != num(1) {
		t.Errorf("behind the block, late.count is %v, %t", x, ok)
	}
	if x, ok := good.Value("each", "count"); ok {
		t.Errorf("behind the block, each.count is %v", x)
	}
	v.fail(w, 0, 6)
	for _, step := range []int{11, 13} {
		if got, err := w.Next(); got != step || err != nil {
			t.Fatalf("Next() = %d, %v", got, err)
		}
		if x, ok := w.Value("t", "error"); !ok || x.(m)["message"] != "why" {
			t.Errorf("at %d the error is %v, %t", step, x, ok)
		}
		if x, ok := w.Value("late", "count"); ok {
			t.Errorf("at %d, late.count is %v", step, x)
		}
		w.Advance()
	}
}

func TestCheckRescues(t *testing.T) {
	job := courier.Job{FailurePolicy: courier.FailurePolicy{Type: courier.RetryJob}, Steps: []courier.StepSpec{
		named("t", try),    // 0
		named("a", list()), // 1
		rescue,             // 2
		named("b", list()), // 3
		del(m{"x": "context:a.file_count", "e": "context:t.error.message", "f": "context:t.error.mesage", "l": "context:loop.error"}), // 4
		end, // 5
		named("each", forEach("context:a.file_list")),                  // 6
		named("c", list()),                                             // 7
		del(m{"x": "context:loop.error.message", "y": "context:t.er"}), // 8
		rescue, // 9
		del(m{"x": "context:loop.error.message", "y": "context:c.file_count", "z": "context:loop.error.clas"}), // 10
		end, // 11
		del(m{"b": "context:b.file_count", "c": "context:each.rescued_count", "d": "context:each.rescued[0].label", "e": "context:t.error"}), // 12
	}}
	problems, warnings := check(t, job)
	const policy = `failure_policy: is "retry_job", that of the job, but the step lies in the `
	expect(t, "problems", problems, []string{
		policy + "block of step 0", policy + "block of step 0",
		policy + "block of step 0",
		`"t.error.mesage" has no value: error has no .mesage; did you mean "message"?`, `"loop.error" has a value only inside a flow.foreach`,
		policy + "loop of step 6", policy + "loop of step 6",
		`"loop.error.message" has a value only in the rescue of the loop, behind its flow.rescue`,
		`"t.er" has no value: step 0 "t" (flow.try) has no "er"; it has error`,
		policy + "loop of step 6",
		`"loop.error.clas" has no value: error has no .clas; did you mean "class"?`,
	})
	expect(t, "warnings", warnings, []string{
		`"a.file_count" has a value only if step 1 "a" (sftp.list) has run, which depends on where the body of step 0 "t" (flow.try) has failed`,
		`"a.file_list" has a value only if step 1 "a" (sftp.list) has run, which depends on where the body of step 0 "t" (flow.try) has failed, if it has`,
		`"c.file_count" has a value only if step 7 "c" (sftp.list) has run, which depends on where the body of step 6 "each" (flow.foreach) has failed`,
		`"b.file_count" has a value only if step 3 "b" (sftp.list) has run, which depends on whether the body of step 0 "t" (flow.try) has failed`,
	})
}
