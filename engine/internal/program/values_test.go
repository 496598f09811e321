package program

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
)

type m = map[string]any

// program compiles a job of step types that are not registered, in which the loop at 1
// has failed items.
func compile(t *testing.T) *Program {
	t.Helper()
	p := Compile(courier.Job{Name: "test", Steps: []courier.StepSpec{
		{ID: "list", Type: "a.b"},
		{ID: "each", Type: "flow.foreach", Config: m{"source": []any{1, 2, 3}, "on_item_failure": "continue"}},
		{ID: "get", Type: "a.b"},
		{ID: "put", Type: "a.b"},
		{Type: "flow.end"},
		{ID: "other", Type: "flow.foreach", Config: m{"source": []any{}, "on_item_failure": "continue"}},
		{Type: "flow.end"},
		{ID: "mail", Type: "a.b", Config: m{"body": "failed: ${context:each.failed} ${context:other.failed_count} ${context:list.failed}"}},
	}}, 1, nil, new(courier.Registry))
	if p.Tree == nil {
		t.Fatal(p.NotRunnable)
	}
	return p
}

func record(seq int64, step int, outputs string, iteration ...int) courier.StepExecution {
	r := courier.StepExecution{Seq: seq, Step: step, State: courier.StepCompleted, Iteration: iteration, Total: []int{3}[:len(iteration)]}
	if outputs != "" {
		r.Outputs = json.RawMessage(outputs)
	}
	return r
}

// read lists the values of some keys, with - for none.
func read(v *Values, keys ...string) string {
	var list []string
	for _, key := range keys {
		head, name, _ := strings.Cut(key, ".")
		x, ok := v.Value(head, name)
		if !ok {
			x = "-"
		}
		list = append(list, fmt.Sprint(x))
	}
	return strings.Join(list, " ")
}

func TestRestore(t *testing.T) {
	failed := record(11, 3, "", 2)
	failed.State, failed.FailedLoop = courier.StepFailed, new(int)
	*failed.FailedLoop = 1
	skipped := func(outputs string) courier.StepExecution {
		r := record(12, 3, outputs, 2)
		r.State, r.Reason = courier.StepSkipped, courier.ReasonError
		if outputs != "" {
			r.Reason = courier.ReasonOperator
		}
		return r
	}
	list := record(1, 0, `{"a": 1, "b": "x"}`)
	for _, c := range []struct {
		name    string
		records []courier.StepExecution
		changes []courier.ValueChange
		want    string // list.a, list.b, get.x, put.x
	}{
		{"plain", []courier.StepExecution{list, record(10, 2, `{"x": 5}`, 2), record(11, 3, `{"x": 6}`, 2)}, nil, "1 x 5 6"},
		{"the last item failed", []courier.StepExecution{failed, record(10, 2, `{"x": 5}`, 2), list}, nil, "1 x <nil> <nil>"},
		{"skipped by its policy", []courier.StepExecution{list, record(10, 2, `{"x": 5}`, 2), skipped("")}, nil, "1 x 5 -"},
		{"skipped by an operator", []courier.StepExecution{list, record(10, 2, `{"x": 5}`, 2), skipped("{}")}, nil, "1 x 5 <nil>"},
		{"skipped with outputs", []courier.StepExecution{list, record(10, 2, `{"x": 5}`, 2), skipped(`{"x": 7}`)}, nil, "1 x 5 7"},
		{
			"changed values",
			[]courier.StepExecution{list, record(10, 2, `{"x": 5}`, 2), record(30, 3, `{"x": 6}`, 2)},
			[]courier.ValueChange{
				{Seq: 20, Step: 0, Name: "a", Value: json.RawMessage("2")},
				{Seq: 20, Step: 0, Name: "b", Value: json.RawMessage(`"y"`)},
				{Seq: 21, Step: 0, Name: "b", Value: json.RawMessage(`["z"]`)},                  // a later change counts
				{Seq: 20, Step: 2, Iteration: []int{1}, Name: "x", Value: json.RawMessage("9")}, // another iteration
				{Seq: 20, Step: 3, Iteration: []int{2}, Name: "x", Value: json.RawMessage("9")}, // it has run again
				{Seq: 20, Step: -1, Name: "x", Value: json.RawMessage("9")},                     // a parameter
			},
			"2 [z] 5 6",
		},
		{"of a failed step", []courier.StepExecution{list, failed, record(10, 2, `{"x": 5}`, 2)}, []courier.ValueChange{{Seq: 20, Step: 3, Iteration: []int{2}, Name: "x", Value: json.RawMessage("9")}}, "1 x <nil> <nil>"},
	} {
		v := NewValues(compile(t), &courier.Execution{Params: json.RawMessage(`{"x": 1, "y": 2}`)}, "")
		v.SetChanges(c.changes)
		v.Restore(c.records, courier.Position{Step: 7})
		if got := read(v, "0.a", "0.b", "2.x", "3.x"); got != c.want {
			t.Errorf("%s: the values are %s, want %s", c.name, got, c.want)
		}
		want := "1 2"
		if len(c.changes) > 1 {
			want = "9 2"
		}
		if got := read(v, "params.x", "params.y"); got != want {
			t.Errorf("%s: the parameters are %s, want %s", c.name, got, want)
		}
	}

	// A pass has gone back.
	x := &courier.Execution{Repairs: &courier.Repairs{Passes: []courier.RepairPass{{Seq: 20, From: &courier.Position{Step: 1}, Then: courier.Position{Step: 1}}}}}
	v := NewValues(compile(t), x, "")
	v.Restore([]courier.StepExecution{list, record(10, 2, `{"x": 5}`, 2), record(30, 3, `{"x": 6}`, 2)}, courier.Position{Step: 7})
	if got := read(v, "0.a", "2.x", "3.x"); got != "1 - 6" {
		t.Errorf("after a pass, the values are %s", got)
	}
}

func TestRestoreWithBrokenBlocks(t *testing.T) {
	p := Compile(courier.Job{Name: "test", Steps: []courier.StepSpec{{Type: "a.b"}, {Type: "flow.end"}}}, 1, nil, new(courier.Registry))
	v := NewValues(p, &courier.Execution{}, "")
	v.Restore([]courier.StepExecution{record(5, 0, `{"x": 2}`), record(3, 0, `{"x": 1}`), record(9, 7, "")}, courier.Position{Step: 1})
	if got := read(v, "0.x"); got != "2" {
		t.Errorf("0.x is %s", got)
	}
}

func TestLoopResults(t *testing.T) {
	p := compile(t)
	if !p.RefersToFailed(1) || p.RefersToFailed(5) || p.RefersToFailed(0) {
		t.Errorf("RefersToFailed is %t, %t, %t", p.RefersToFailed(1), p.RefersToFailed(5), p.RefersToFailed(0))
	}
	asked := 0
	items := make([]courier.ItemFailure, 1200)
	for i := range items {
		items[i] = courier.ItemFailure{Index: i, Step: "get", Class: courier.ReasonInvalid, Message: strings.Repeat("é", 101) + "!"}
	}
	v := NewValues(p, &courier.Execution{}, "")
	v.SetFailedItems(func(marker int, outer []int) ([]courier.ItemFailure, int) {
		asked++
		return items, 5000
	})
	keys := []string{"1.count", "1.failed_count"}
	v.LoopEnded(1, nil, 9000, 5000, 0)
	if got := read(v, keys...); got != "9000 5000" || asked != 0 {
		t.Errorf("the values are %s, asked %d times", got, asked)
	}
	v.LoopEnded(1, nil, 9000, -1, -1) // an unknown number
	if got := read(v, keys...); got != "9000 5000" || asked != 1 {
		t.Errorf("the values are %s, asked %d times", got, asked)
	}
	for range 2 {
		x, ok := v.Value("1", "failed")
		list, _ := x.([]any)
		if !ok || len(list) != 1000 || asked != 1 {
			t.Fatalf("failed has %d items, asked %d times", len(list), asked)
		}
		last := list[999].(m)
		if last["index"] != json.Number("999") || last["step"] != "get" || last["class"] != "invalid" || last["message"] != strings.Repeat("é", 100) {
			t.Errorf("an item is %v", last)
		}
	}
	if got := read(v, "1.other"); got != "-" {
		t.Errorf("1.other is %s", got)
	}
	v.LoopEnded(5, nil, 0, 0, 0)
	if got := read(v, "5.failed", "5.failed_count", "5.count"); got != "[] 0 0" || asked != 1 {
		t.Errorf("without items, the values are %s, asked %d times", got, asked)
	}
	all := v.Snapshot()
	if all["each.failed_count"] != json.Number("5000") || all["1.count"] != json.Number("9000") || all["other.count"] != json.Number("0") {
		t.Errorf("Snapshot() = %v", all["each.failed_count"])
	}
	if keys := v.Keys(); !slices.Contains(keys, "1.failed") || !slices.Contains(keys, "5.count") {
		t.Errorf("Keys() = %v", keys)
	}
	v.Forget(1, 4)
	if got := read(v, "1.count", "5.count"); got != "- 0" {
		t.Errorf("after Forget, the values are %s", got)
	}
	v.SetNull(2, 3)
	if got := read(v, "2.anything", "3.x", "0.x"); got != "<nil> <nil> -" {
		t.Errorf("after SetNull, the values are %s", got)
	}

	v.SetLoop(1, 3, 1, func() []courier.ItemFailure {
		return []courier.ItemFailure{{Index: 2, Label: "a", Step: "3", Message: "x"}}
	})
	if got := read(v, "1.failed", "1.failed_count"); got != "[map[class: index:2 label:a message:x step:3]] 1" {
		t.Errorf("after SetLoop, the values are %s", got)
	}
	v = NewValues(p, &courier.Execution{}, "")
	v.LoopEnded(1, nil, 3, -1, -1) // nobody knows
	if got := read(v, "1.failed", "1.failed_count"); got != "[] 0" {
		t.Errorf("without a list, the values are %s", got)
	}
}

func TestFailedItemsOfRecords(t *testing.T) {
	p := compile(t)
	loop := 1
	named := record(4, 2, "", 2)
	named.ID, named.Reason, named.Error, named.FailedLoop, named.ItemLabels = "get", courier.ReasonIntegrity, "damaged", &loop, []string{"inv.csv"}
	plain := record(3, 3, "", 0)
	plain.FailedLoop = &loop
	first, n := p.FailedItems(1, nil, []courier.StepExecution{named, plain, record(5, 7, "")})
	if got := fmt.Sprint(first, n); got != "[{0 0 3  } {2 inv.csv get integrity damaged}] 2" {
		t.Errorf("FailedItems() = %s", got)
	}
}
