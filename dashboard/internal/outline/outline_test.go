package outline_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/outline"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/store"
)

// began is when the executions of the tests were started.
var began = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)

// records are those of an execution, with its values.
type records struct {
	list   []courier.StepExecution
	values courier.Values
	failed []courier.FailedItem
}

func (r *records) Records(f store.StepFilter) (page []courier.StepExecution, err error) {
	for _, s := range r.list {
		failed := len(f.States) == 0 || slices.Contains(f.States, s.State)
		if s.Seq > f.After && failed && (!f.FailedItems || s.FailedLoop != nil) && (f.Limit == 0 || len(page) < f.Limit) {
			page = append(page, s)
		}
	}
	return page, nil
}
func (r *records) FailedItems() ([]courier.FailedItem, error) { return r.failed, nil }
func (r *records) Values() (courier.Values, error)            { return r.values, nil }

// job has a step, a loop with a condition in it, and a step.
var job = []courier.StepSpec{
	{ID: "list", Type: "demo.list"},
	{Type: "flow.foreach", Config: map[string]any{"source": "context:list.files"}},
	{ID: "get", Type: "demo.get"},
	{Type: "flow.if", Config: map[string]any{"left": "context:get.size", "operator": "greater_than", "right": 0}},
	{ID: "put", Type: "demo.put"},
	{Type: "flow.end"}, {Type: "flow.end"},
	{ID: "last", Type: "demo.last"},
}

// rec is the record of a step, which took a second and ended a second after the record before it.
func rec(seq int64, step int, state courier.StepState, outputs string, iteration ...int) courier.StepExecution {
	at := began.Add(time.Duration(seq) * time.Second)
	s := courier.StepExecution{Seq: seq, Step: step, ID: job[step].ID, Type: job[step].Type, Iteration: iteration, Attempt: 1, ExecutionAttempt: 1, State: state, StartedAt: at.Add(-time.Second), EndedAt: at}
	if iteration != nil {
		s.Total = []int{3}
	}
	if outputs != "" {
		s.Outputs = json.RawMessage(outputs)
	}
	return s
}

// makeOf returns the outline of an execution.
func makeOf(t *testing.T, x *courier.Execution, r *records, loop int, item string) (*outline.View, error) {
	t.Helper()
	return makeOfSteps(t, job, x, r, loop, item)
}

func makeOfSteps(t *testing.T, steps []courier.StepSpec, x *courier.Execution, r *records, loop int, item string) (*outline.View, error) {
	t.Helper()
	tree, err := flow.Parse(steps)
	if err != nil {
		t.Fatal(err)
	}
	x.Attempt, x.StartedAt = 1, began
	latest := make(map[int]courier.StepExecution)
	counted := make(map[int]flow.ItemStates)
	for _, s := range r.list {
		if latest[s.Step] = s; s.FailedLoop != nil {
			counted[*s.FailedLoop] = flow.ItemStates{Failed: counted[*s.FailedLoop].Failed + 1}
		}
		x.Seq = s.Seq
	}
	var list []courier.StepExecution
	for _, s := range latest {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b courier.StepExecution) int { return int(a.Seq - b.Seq) })
	return outline.New(&outline.Input{
		Execution: x, Tree: tree, Steps: tree.Outline(x, list, counted), Loop: loop, Item: item, Now: began.Add(time.Minute),
		Links: outline.Links{Attempts: func(step, _ int, item string) string {
			return strings.TrimSuffix(fmt.Sprint("/a/", step, "/", item), "/")
		}, Item: func(loop int, item string) string { return fmt.Sprint("/i/", loop, "/", item) }, Present: "/now"},
	}, r)
}

// rows are the rows of an outline in words.
func rows(v *outline.View) string {
	var list []string
	for _, r := range v.Rows {
		text := fmt.Sprintf("%s%d %s", strings.Repeat("-", len(r.Rails)), r.Step, r.State)
		if r.Decided != "" {
			text += " (" + r.Decided + ")"
		}
		if l := r.Loop; l != nil {
			text += fmt.Sprintf(" (%s; item %s, %s < > %s, failed %s)", l.Summary, l.Item, l.Previous, l.Next, l.FirstFailed)
		}
		list = append(list, text)
	}
	return strings.Join(list, "\n")
}

// threeItems are the records of a loop of three items: the second one is empty, and the third one
// failed in put.
func threeItems() *records {
	return &records{
		list: []courier.StepExecution{
			rec(1, 0, courier.StepCompleted, `{"files":["a","b","c"]}`),
			rec(2, 2, courier.StepCompleted, `{"size":5}`, 0), rec(3, 4, courier.StepCompleted, "", 0),
			rec(4, 2, courier.StepCompleted, `{"size":0}`, 1),
			rec(5, 2, courier.StepCompleted, `{"size":7}`, 2), rec(6, 4, courier.StepFailed, "", 2),
		},
		values: courier.Values{"list.files": []any{"a", "b", "c"}, "get.size": json.Number("7"), "loop.index": json.Number("2")},
	}
}

// stopped is an execution that failed in the third item.
func stopped() *courier.Execution {
	return &courier.Execution{
		State: courier.Failed, EndedAt: began.Add(6 * time.Second), Failure: &courier.Failure{Step: 4, Iteration: []int{2}, Attempt: 1},
		Position: courier.Position{Step: 4, Loops: []courier.LoopPosition{{Step: 1, Index: 2}}},
	}
}

// TestItems: the rows of a loop show the present item, or the one that was chosen: its records, and
// what decided its conditions.
func TestItems(t *testing.T) {
	for item, want := range map[string]string{
		"": `0 completed
1 failed (2 of 3 items done, 1 failed; item 2, /i/1/1 < > , failed /i/1/2)
-2 completed
-3 failed (7 greater than 0 is true)
--4 failed
7 not_run`,
		"0": `0 completed
1 failed (2 of 3 items done, 1 failed; item 0,  < > /i/1/1, failed /i/1/2)
-2 completed
-3 completed (5 greater than 0 is true)
--4 completed
7 not_run`,
		"1": `0 completed
1 failed (2 of 3 items done, 1 failed; item 1, /i/1/0 < > /i/1/2, failed /i/1/2)
-2 completed
-3 completed (0 greater than 0 is false)
--4 not_taken
7 not_run`,
	} {
		loop := 1
		if item == "" {
			loop = -1
		}
		v, err := makeOf(t, stopped(), threeItems(), loop, item)
		if err != nil {
			t.Fatal(err)
		}
		if got := rows(v); got != want {
			t.Errorf("item %q:\n%s\nwant\n%s", item, got, want)
		}
	}
}

// TestEachFailedLoop: of an execution that has failed by its items, each loop shows the first of its
// failed items.
func TestEachFailedLoop(t *testing.T) {
	loop := courier.StepSpec{Type: "flow.foreach", Config: map[string]any{"source": []any{"a", "b", "c"}, "on_item_failure": "continue"}}
	steps := []courier.StepSpec{loop, {ID: "get", Type: "demo.get"}, {Type: "flow.end"}, loop, {ID: "put", Type: "demo.put"}, {Type: "flow.end"}}
	r := &records{}
	for i, failed := range []bool{true, false, true, false, true, false} {
		s := rec(int64(i+1), 0, courier.StepCompleted, "", i%3)
		if s.Step, s.ID, s.Type = 1+i/3*3, steps[1+i/3*3].ID, steps[1+i/3*3].Type; failed {
			s.State, s.FailedLoop = courier.StepFailed, new(i/3*3)
			r.failed = append(r.failed, courier.FailedItem{ItemPath: courier.ItemPath{Loop: i / 3 * 3, Iteration: s.Iteration}, Step: s.Step})
		}
		r.list = append(r.list, s)
	}
	x := &courier.Execution{State: courier.Failed, EndedAt: began.Add(6 * time.Second), FailedItems: 3, Failure: &courier.Failure{Step: -1, Reason: courier.ReasonItems}, Position: courier.Position{Step: 6}}
	v, err := makeOfSteps(t, steps, x, r, -1, "")
	if err != nil {
		t.Fatal(err)
	}
	for row, want := range map[int]string{0: "0", 2: "1"} {
		if got := v.Rows[row].Loop.Item; got != want || v.Rows[row+1].State != "failed" {
			t.Errorf("the loop at row %d shows item %s, and not %s, of which the step has %s:\n%s", row, got, want, v.Rows[row+1].State, rows(v))
		}
	}
}

// TestHiddenValues: who may not see values sees what a condition came to, and no value.
func TestHiddenValues(t *testing.T) {
	r := threeItems()
	r.values = nil
	v, err := makeOf(t, stopped(), r, -1, "")
	if err != nil || v.Rows[3].Decided != "is true" || v.Rows[3].Text != "if get.size greater than 0" || v.Rows[1].Text != "for each item of list.files" {
		t.Errorf("%+v, %v", v.Rows[3], err)
	}
}

// TestAddress: an address that names no item of a loop is the visitor's mistake.
func TestAddress(t *testing.T) {
	for _, c := range []struct {
		loop int
		item string
	}{{0, "1"}, {3, "1"}, {99, "1"}, {1, ""}, {1, "x"}, {1, "-1"}, {1, "0.0"}, {1, "99999999999"}} {
		_, err := makeOf(t, stopped(), threeItems(), c.loop, c.item)
		if p, ok := errors.AsType[*problem.Error](err); !ok || p.Status != http.StatusBadRequest {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if v, err := makeOf(t, stopped(), threeItems(), 1, "50"); err != nil || v.Rows[1].Loop.Item != "2" {
		t.Errorf("an item that is not there: %v", err)
	}
}

// TestTimeline: each step that ended has a bar, in the order of time, and the timeline shows the time
// from the first to the last.
func TestTimeline(t *testing.T) {
	v, err := makeOf(t, stopped(), threeItems(), -1, "")
	if err != nil || !v.From.Equal(began) || !v.To.Equal(began.Add(6*time.Second)) || v.Span != 6*time.Second {
		t.Errorf("%v to %v, %v, %v", v.From, v.To, v.Span, err)
	}
	for i, want := range map[int]string{0: `x="0.0" width="166.7"`, 2: `x="666.7" width="166.7"`, 4: `x="833.3" width="166.7"`} {
		if !strings.Contains(string(v.Rows[i].Bar), want) {
			t.Errorf("row %d: %s", i, v.Rows[i].Bar)
		}
	}
	if v.Rows[5].Bar != "" {
		t.Errorf("a step that was not executed has a bar: %s", v.Rows[5].Bar)
	}
	if n := strings.Count(string(v.Rows[1].Loop.Ticks), "<path"); n != 3 || !strings.Contains(string(v.Rows[1].Loop.Ticks), `title>c, index 2: failed</title><path class="bad" d="M0 `) { // what has failed comes first
		t.Errorf("%d ticks: %s", n, v.Rows[1].Loop.Ticks)
	}
	nothing, err := makeOf(t, &courier.Execution{State: courier.Queued}, &records{}, -1, "")
	if err != nil || !nothing.From.IsZero() || strings.Contains(rows(nothing), "not_run") {
		t.Errorf("%v\n%s", err, rows(nothing))
	}
}

// TestWaits: a step whose next attempt is due later waits for it.
func TestWaits(t *testing.T) {
	x := &courier.Execution{State: courier.Queued, Failure: &courier.Failure{Step: 0, Attempt: 1}}
	v, err := makeOf(t, x, &records{list: []courier.StepExecution{rec(1, 0, courier.StepFailed, "")}}, -1, "")
	if err != nil || v.Rows[0].State != "retrying" || v.Rows[0].Word != "waits for attempt 2" || v.Rows[5].State != "pending" {
		t.Errorf("%v\n%s", err, rows(v))
	}
}
