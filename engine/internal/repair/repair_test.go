package repair_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/engine/internal/repair"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/store"
)

// records are an archive of one execution's steps, which counts how often it is read.
type records struct {
	store.Archive
	list  []courier.StepExecution
	err   error
	reads int
}

func (a *records) Steps(_ context.Context, f store.StepFilter) (page []courier.StepExecution, err error) {
	a.reads++
	for _, s := range a.list {
		if s.Seq > f.After && (!f.FailedItems || s.FailedLoop != nil) && (f.Attempt == 0 || s.ExecutionAttempt == f.Attempt) && len(page) < 2 {
			page = append(page, s)
		}
	}
	return page, a.err
}

// add adds the record of an attempt, which has failed the item of a loop if that is not
// negative.
func (a *records) add(step, loop int, iteration ...int) {
	s := courier.StepExecution{
		Seq: int64(2 * (len(a.list) + 1)), Step: step, Type: "t", Iteration: iteration, Attempt: 1, ExecutionAttempt: 1, State: courier.StepCompleted,
	}
	if loop >= 0 {
		s.State, s.FailedLoop, s.Error = courier.StepFailed, &loop, fmt.Sprint("failed in ", iteration)
	}
	a.list = append(a.list, s)
}

func parse(t *testing.T, steps ...courier.StepSpec) *flow.Tree {
	t.Helper()
	tree, err := flow.Parse(steps)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// loop is a loop that goes on after an item that has failed, with more settings.
func loop(id, source string, more map[string]any) courier.StepSpec {
	config := map[string]any{"source": "context:" + source, "on_item_failure": "continue"}
	maps.Copy(config, more)
	return courier.StepSpec{ID: id, Type: "flow.foreach", Config: config}
}

func step(id string) courier.StepSpec { return courier.StepSpec{ID: id, Type: "t"} }

var end = courier.StepSpec{Type: "flow.end"}

// oneLoop is a loop with two steps: list 0, loop 1, get 2, load 3, end 4, report 5.
func oneLoop(t *testing.T, more map[string]any) *flow.Tree {
	return parse(t, step("list"), loop("each", "list.files", more), step("get"), step("load"), end, step("report"))
}

// nested is a loop in a loop: list 0, outer 1, open 2, inner 3, load 4, end 5, shut 6, end 7.
func nested(t *testing.T) *flow.Tree {
	return parse(t, step("list"), loop("outer", "list.dirs", nil), step("open"), loop("inner", "open.files", nil), step("load"), end, step("shut"), end)
}

func earlier(a *records, tree *flow.Tree, x *courier.Execution) *repair.Earlier {
	x.ID, x.Attempt = "x", 1
	return &repair.Earlier{Archive: a, Tree: tree, Execution: x}
}

// at shows positions, such as "3[0] 2[1 0]".
func at(list []repair.Failure) string {
	var all []string
	for _, f := range list {
		all = append(all, fmt.Sprintf("%d%v", f.Position.Step, f.Position.Iteration()))
	}
	return strings.Join(all, " ")
}

// TestPass repairs the failed items of a loop by two passes: each goes through what has failed
// in the order of the items, and what the first one has executed again does not count any
// more.
func TestPass(t *testing.T) {
	a, tree, x := new(records), oneLoop(t, nil), new(courier.Execution)
	a.add(0, -1)
	a.add(3, 1, 4)
	a.add(2, 1, 0)
	a.add(3, 1, 2)
	behind := courier.Position{Step: 5}
	e := earlier(a, tree, x)
	repairs, err := e.Begin(t.Context(), 8, behind)
	if err != nil || repairs == nil || x.Repairs != repairs || len(repairs.Passes) != 1 {
		t.Fatalf("%+v, %v", repairs, err)
	}
	if got := at(e.Pass.Targets); got != "2[0] 3[2] 3[4]" {
		t.Errorf("it executes %s", got)
	}
	if p := e.Pass.Position(3); p.Step != 5 || e.Pass.Position(1).Step != 3 {
		t.Errorf("behind the items it goes on at %+v", p)
	}
	for i, want := range []int{1, 2, 3} {
		if next, over := e.Pass.Next(i); next != want || !over {
			t.Errorf("after target %d comes %d, the item is over: %v", i, next, over)
		}
	}
	if again, err := e.Begin(t.Context(), 9, behind); again != nil || err != nil {
		t.Errorf("one claim begins two passes: %+v, %v", again, err)
	}

	a.add(3, 1, 2) // fails again
	failed := a.list[len(a.list)-1]
	e.Pass.Record(failed)
	if e.Pass.Failed(0) || !e.Pass.Failed(1) || e.Pass.Failed(2) {
		t.Error("another item than the second one has failed again")
	}
	left, err := e.History().Failures(t.Context())
	if err != nil || at(left) != "3[2]" {
		t.Errorf("left is %s, %v", at(left), err)
	}
	later := earlier(a, tree, x) // another worker
	if err := later.Restore(t.Context(), nil, nil, 4, courier.Position{}); err == nil || !strings.Contains(err.Error(), "number 4") {
		t.Errorf("a fourth target: %v", err)
	}
	targets, err := later.History().Targets(t.Context())
	if err != nil || at(targets) != "2[0] 3[2] 3[4]" {
		t.Errorf("another worker finds the targets %s, %v", at(targets), err)
	}
	if _, err = later.Begin(t.Context(), 12, behind); err != nil || at(later.Pass.Targets) != "3[2]" {
		t.Errorf("the second pass executes %s, %v", at(later.Pass.Targets), err)
	}
}

// TestNothingToRepair checks that no pass begins where nothing has failed, and that an error
// of the store is not taken for that.
func TestNothingToRepair(t *testing.T) {
	a, x := new(records), new(courier.Execution)
	a.add(0, -1)
	e := earlier(a, oneLoop(t, nil), x)
	if repairs, err := e.Begin(t.Context(), 2, courier.Position{Step: 5}); repairs != nil || err != nil || x.Repairs != nil || e.Pass != nil {
		t.Errorf("%+v, %v", repairs, err)
	}
	a.err = courier.ErrNotFound // one that the contract names, which isn't tried again
	if _, err := earlier(a, oneLoop(t, nil), x).Begin(t.Context(), 2, courier.Position{Step: 5}); err == nil {
		t.Error("an error of the store is lost")
	}
}

// TestAfterRepair checks where an execution goes on behind its items: where it stood, or
// behind a loop of which the steps that follow are to run again.
func TestAfterRepair(t *testing.T) {
	for after, want := range map[string]int{"continue": 6, "rerun": 5} {
		a := new(records)
		a.add(3, 1, 0)
		e := earlier(a, oneLoop(t, map[string]any{"after_repair": after}), new(courier.Execution))
		repairs, err := e.Begin(t.Context(), 2, courier.Position{Step: 6})
		if err != nil || repairs.Passes[0].Then.Step != want {
			t.Errorf("%q: it goes on at %+v, %v", after, repairs, err)
		}
	}
}

// TestNestedItems checks which items of a loop in a loop are executed again, and that they
// belong to one item of the outer loop.
func TestNestedItems(t *testing.T) {
	a, tree := new(records), nested(t)
	a.add(4, 3, 0, 1)
	a.add(4, 3, 0, 3)
	a.add(6, 1, 1) // the outer item itself
	e := earlier(a, tree, new(courier.Execution))
	failed, err := e.History().Failures(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	items := repair.FailedItems(tree, failed, courier.Position{Step: 8})
	if len(items) != 2 || items[0].FailedSeq != 2 || items[1].FailedSeq != 6 {
		t.Errorf("the outer items that count as failed are %+v", items)
	}
	if _, err := e.Begin(t.Context(), 6, courier.Position{Step: 8}); err != nil {
		t.Fatal(err)
	}
	if got := at(e.Pass.Targets); got != "4[0 1] 4[0 3] 6[1]" {
		t.Errorf("it executes %s", got)
	}
	for i, want := range []struct {
		next int
		over bool
	}{{1, false}, {2, true}, {3, true}} {
		if next, over := e.Pass.Next(i); next != want.next || over != want.over {
			t.Errorf("after target %d comes %d, the outer item is over: %v; want %+v", i, next, over, want)
		}
	}
	// An inner item that fails the rest of its outer item leaves nothing to do there.
	again := a.list[2]
	again.Iteration, again.FailedLoop = []int{0}, new(int)
	*again.FailedLoop = 1
	e.Pass.Record(again)
	if next, over := e.Pass.Next(0); next != 2 || !over {
		t.Errorf("in an outer item that has failed, target %d comes next, over: %v", next, over)
	}
}

// TestBack checks that failed items behind the position to which an execution goes back do
// not count any more, and that the first ones do.
func TestBack(t *testing.T) {
	a, tree := new(records), oneLoop(t, map[string]any{"then": "complete"})
	a.add(3, 1, 0)
	a.add(3, 1, 5)
	e := earlier(a, tree, new(courier.Execution))
	for index, want := range map[int]int{0: 0, 3: 1, 6: 2} {
		back, err := e.History().Back(t.Context(), 4, courier.Position{Step: 2, Loops: []courier.LoopPosition{{Step: 1, Index: index}}})
		if err != nil || back.Failed != want || back.Accepted != want || back.Position.Loops[0].Failed != want {
			t.Errorf("back to item %d: %+v, %v; want %d failed", index, back, err, want)
		}
	}
}

// TestExecuted checks what tells that a step was executed before, where attempts are counted
// anew: any record of it in its iteration. The records are read once.
func TestExecuted(t *testing.T) {
	a := new(records)
	a.add(2, -1, 0)
	a.add(3, 1, 0)
	a.add(2, -1, 1)
	e := earlier(a, oneLoop(t, nil), new(courier.Execution))
	for _, c := range []struct {
		step, index int
		want        bool
	}{{2, 0, true}, {3, 0, true}, {2, 1, true}, {3, 1, false}, {2, 2, false}} {
		if got, err := e.Executed(t.Context(), c.step, []int{c.index}); err != nil || got != c.want {
			t.Errorf("step %d of item %d: %v, %v", c.step, c.index, got, err)
		}
	}
	reads := a.reads
	if e.Executed(t.Context(), 2, []int{0}); a.reads != reads {
		t.Error("the records are read again")
	}
	a.err = courier.ErrNotFound
	if _, err := earlier(a, oneLoop(t, nil), new(courier.Execution)).Executed(t.Context(), 2, []int{0}); err == nil {
		t.Error("an error of the store is lost")
	}
}

// TestLastAttempt checks that the attempts of an execution that was repaired count on from
// those before, and those of another one do not.
func TestLastAttempt(t *testing.T) {
	latest := []courier.StepExecution{{Step: 3, Iteration: []int{1}, Attempt: 4, State: courier.StepFailed}, {Step: 5, Attempt: 2, State: courier.StepCompleted}}
	for _, repairs := range []*courier.Repairs{nil, new(courier.Repairs)} {
		e := earlier(new(records), oneLoop(t, nil), &courier.Execution{Repairs: repairs})
		e.Claimed(latest)
		if s := e.Failed(3, []int{1}); s == nil || s.Attempt != 4 || e.Failed(5, nil) != nil {
			t.Errorf("the failed record is %+v", s)
		}
		vals := newValues(t)
		if err := e.Restore(t.Context(), vals, slices.Clone(latest), 0, courier.Position{Step: 6}); err != nil {
			t.Fatal(err)
		}
		want := 0
		if repairs != nil {
			want = 4
		}
		if got := e.LastAttempt(3, []int{1}); got != want || e.LastAttempt(3, []int{0}) != 0 {
			t.Errorf("repairs %v: attempt %d, want %d", repairs, got, want)
		}
	}
}

// newValues are those of a job with the steps of oneLoop.
func newValues(t *testing.T) *program.Values {
	return program.NewValues(&program.Program{Tree: oneLoop(t, nil), Types: make([]*courier.StepType, 6)}, new(courier.Execution), "")
}

// The failure of an execution with failed items says how many they are, and which is the last.
func TestItemsFailure(t *testing.T) {
	for _, c := range []struct {
		failed, rejected int
		last, want       string
	}{
		{1, 1, `item "b.csv" (index 1): is bad`, `1 item failed: item "b.csv" (index 1): is bad; a resume executes the failed items again`},
		{3, 2, `item 7: is bad`, `3 items failed; the last is item 7: is bad; a resume executes the failed items again`},
		{1, 0, `item "b.csv" (index 1): is bad`, `1 item failed, which the job accepts: item "b.csv" (index 1): is bad`},
		{3, 0, `item 7: is bad`, `3 items failed, which the job accepts; the last is item 7: is bad`},
		{3, 3, "", `3 items failed; a resume executes the failed items again`},
	} {
		if f := repair.ItemsFailure(c.failed, c.rejected, c.last); f.Message != c.want {
			t.Errorf("%d failed, %d rejected: %q, want %q", c.failed, c.rejected, f.Message, c.want)
		}
	}
	if f := repair.ItemsFailure(0, 0, "item 7: is bad"); f != nil {
		t.Errorf("nothing has failed: %+v", f)
	}
}
