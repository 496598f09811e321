package program

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
)

// The values of a loop with on_item_failure: continue.
const (
	resultFailed      = "failed"
	resultFailedCount = "failed_count"
	resultCount       = "count"
)

var resultNames = []string{resultFailed, resultFailedCount, resultCount}

// What the value failed of a loop has at most.
const (
	maxFailedItems   = 1000
	maxFailedMessage = 200 // bytes of a message
)

// A FailedItem is an element of the value failed of a loop.
type FailedItem struct {
	Index   int    // in the list
	Step    string // that failed: its id, or its index if it has none
	Class   courier.Reason
	Message string
}

// A loopResult is what a loop that is over has as values.
type loopResult struct {
	count, failedCount int
	failed             func() []FailedItem // nil if it has none
	list               []any               // made when first asked for
}

// value returns a value of the loop; l may be nil.
func (l *loopResult) value(name string) (any, bool) {
	switch {
	case l == nil:
		return nil, false
	case name == resultCount:
		return number(l.count), true
	case name == resultFailedCount:
		return number(l.failedCount), true
	case name == resultFailed:
		return l.items(), true
	}
	return nil, false
}

// items returns the failed items as JSON values.
func (l *loopResult) items() []any {
	if l.list != nil {
		return l.list
	}
	l.list = []any{}
	if l.failed == nil || l.failedCount == 0 {
		return l.list
	}
	all := l.failed()
	for _, f := range all[:min(len(all), maxFailedItems)] {
		l.list = append(l.list, map[string]any{
			"index": number(f.Index), "step": f.Step, "class": string(f.Class), "message": cut(f.Message),
		})
	}
	return l.list
}

// cut shortens a message.
func cut(s string) string {
	if len(s) <= maxFailedMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxFailedMessage], "")
}

func number(n int) json.Number { return json.Number(strconv.Itoa(n)) }

// SetNull makes the outputs of the entries first to last read null, whatever their
// name: the item of a loop that they belong to has failed.
func (v *Values) SetNull(first, last int) {
	v.Forget(first, last)
	for i := first; i <= last; i++ {
		v.steps[i] = &outputs{null: true}
	}
}

// SetFailedItems sets the function that lists the failed items of a loop which has
// ended in this process, at most 1,000. It is called when a reference needs the list,
// once for each loop that has ended, and not for those without failed items.
func (v *Values) SetFailedItems(list func(marker int) []FailedItem) { v.failed = list }

// LoopEnded sets the values of a loop that is over. Its list of failed items comes from
// the function of SetFailedItems.
func (v *Values) LoopEnded(marker, count, failed int) {
	var list func() []FailedItem
	if v.failed != nil {
		list = func() []FailedItem { return v.failed(marker) }
	}
	v.SetLoop(marker, count, failed, list)
}

// SetLoop sets the values of a loop that is over. Failed lists its failed items; it is
// called when a reference needs them, once, and not if none has failed. Of the list the
// first 1,000 count.
func (v *Values) SetLoop(marker, count, failedCount int, failed func() []FailedItem) {
	if v.loops == nil {
		v.loops = make(map[int]*loopResult)
	}
	v.loops[marker] = &loopResult{count: count, failedCount: failedCount, failed: failed}
}

// SetChanges sets what operators have changed: parameters, and outputs of records that
// [Values.Restore] restores after this call. The indexes of steps are those of the
// program.
func (v *Values) SetChanges(changes []courier.ValueChange) { v.changes, v.params = changes, nil }

// Restore sets the outputs that are in scope at a position, by the records of the
// execution in any order, with the indexes of the program; see [flow.Tree.Scope] for
// which ones it needs. Of a step with several records that are in scope the one with
// the highest Seq counts. If the blocks of the job are broken, the execution can't
// have run further, and all records are in scope.
func (v *Values) Restore(records []courier.StepExecution, pos courier.Position) {
	t := v.program.Tree
	if t == nil {
		latest := make([]int64, len(v.steps))
		for i := range records {
			if r := &records[i]; r.Step >= 0 && r.Step < len(latest) && r.Seq >= latest[r.Step] {
				latest[r.Step] = r.Seq
				v.restore(r)
			}
		}
		return
	}
	var passes []courier.RepairPass
	if v.of.Repairs != nil {
		passes = v.of.Repairs.Passes
	}
	inScope, null := t.Scope(pos, records, passes)
	for _, r := range inScope {
		v.restore(r)
	}
	for _, marker := range null {
		if first, last := marker+1, t.End(marker)-1; first <= last {
			v.SetNull(first, last)
		}
	}
}

// restore sets the outputs of a record that is in scope, with what operators have
// changed of them. An operator who has skipped a step may have given it outputs; the
// others read null.
func (v *Values) restore(r *courier.StepExecution) {
	skipped := r.State == courier.StepSkipped && r.Outputs != nil
	if r.State != courier.StepCompleted && !skipped {
		v.steps[r.Step] = nil
		return
	}
	o := &outputs{raw: r.Outputs, null: skipped}
	for _, c := range v.changes {
		if c.Step == r.Step && r.Seq <= c.Seq && slices.Equal(c.Iteration, r.Iteration) {
			if o.changed == nil {
				o.changed = make(map[string]json.RawMessage)
			}
			o.changed[c.Name] = c.Value
		}
	}
	v.steps[r.Step] = o
}

// RefersToFailed reports whether a step or a marker refers to the list of failed items
// of a loop.
func (p *Program) RefersToFailed(marker int) bool { return p.failed[marker] }

// noteFailed takes note of the loops to whose lists of failed items something refers.
func (p *Program) noteFailed() {
	if p.Tree == nil || !p.Tree.HasItemPolicies() {
		return
	}
	for i := range p.Tree.Len() {
		for _, f := range p.Tree.Template(i).References() {
			if f.Ref.Name != resultFailed {
				continue
			}
			if marker, ok := p.Tree.Head(f.Ref.Head); ok && p.Tree.ItemPolicy(marker).Continue {
				if p.failed == nil {
					p.failed = make(map[int]bool)
				}
				p.failed[marker] = true
			}
		}
	}
}
