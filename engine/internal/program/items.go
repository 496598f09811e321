package program

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

// The values of a loop with on_item_failure: continue, and of what a rescue is for.
const (
	resultFailed       = "failed"
	resultFailedCount  = "failed_count"
	resultRescued      = "rescued"
	resultRescuedCount = "rescued_count"
	resultCount        = "count"
	resultError        = "error"
)

var resultNames = []string{resultFailed, resultFailedCount, resultRescued, resultRescuedCount, resultCount}

// What the value failed of a loop has at most.
const (
	maxFailedItems   = 1000
	maxFailedMessage = 200 // bytes of a message
)

// A loopResult is what a loop that is over has as values.
type loopResult struct {
	count           int
	failed, rescued itemList
}

// An itemList lists items of a loop that is over.
type itemList struct {
	count int // -1 if it is not known yet
	// read lists the items, and says how many there are; nil if there are none.
	read func() ([]courier.ItemFailure, int)
	list []any // made when first asked for
}

// value returns a value of the loop; l may be nil.
func (l *loopResult) value(name string) (any, bool) {
	switch {
	case l == nil:
	case name == resultCount:
		return number(l.count), true
	case name == resultFailedCount:
		return l.failed.number(), true
	case name == resultFailed:
		return l.failed.values(), true
	case name == resultRescuedCount:
		return l.rescued.number(), true
	case name == resultRescued:
		return l.rescued.values(), true
	}
	return nil, false
}

func (l *itemList) number() json.Number {
	if l.count < 0 {
		l.values()
	}
	return number(l.count)
}

// values lists the items as JSON values.
func (l *itemList) values() []any {
	if l.list != nil {
		return l.list
	}
	l.list = []any{}
	if l.read == nil || l.count == 0 {
		l.count = max(0, l.count)
		return l.list
	}
	all, n := l.read()
	if l.count < 0 {
		l.count = n
	}
	for _, f := range all[:min(len(all), maxFailedItems)] {
		l.list = append(l.list, map[string]any{
			"index": number(f.Index), "label": f.Label, "step": f.Step, "class": string(f.Class), "message": cut(f.Message),
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

// SetFailedItems sets the function that lists the failed items of a loop that is over,
// in the iterations outer of the loops around it: the first 1,000, and how many there
// are. It is called when a reference needs them, once for each time that the loop has
// ended, and not if none has failed. It may be called while a step's configuration is
// made, in the goroutine of that.
func (v *Values) SetFailedItems(list func(marker int, outer []int) (first []courier.ItemFailure, count int)) {
	v.failed = list
}

// SetRescuedItems is SetFailedItems for items that were rescued.
func (v *Values) SetRescuedItems(list func(marker int, outer []int) (first []courier.ItemFailure, count int)) {
	v.rescued = list
}

// SetError sets the value error of the block whose rescue a record leads to; see
// [flow.ErrorValue].
func (v *Values) SetError(r *courier.StepExecution) {
	if v.errors == nil {
		v.errors = make(map[int]map[string]any)
	}
	v.errors[*r.Rescue] = flow.ErrorValue(r)
}

// LoopEnded sets the values of a loop that is over. Its items are listed by the functions of
// SetFailedItems and SetRescuedItems; a number of -1 is the one that they return.
func (v *Values) LoopEnded(marker int, outer []int, count, failed, rescued int) {
	of := func(count int, list func(int, []int) ([]courier.ItemFailure, int)) itemList {
		l := itemList{count: count}
		if list != nil {
			l.read = func() ([]courier.ItemFailure, int) { return list(marker, outer) }
		}
		return l
	}
	v.setLoop(marker, &loopResult{count: count, failed: of(failed, v.failed), rescued: of(rescued, v.rescued)})
}

// SetLoop sets the values of a loop that is over. Failed lists its failed items; it is
// called when a reference needs them, once, and not if none has failed. Of the list the
// first 1,000 count.
func (v *Values) SetLoop(marker, count, failedCount int, failed func() []courier.ItemFailure) {
	l := &loopResult{count: count, failed: itemList{count: failedCount}}
	if failed != nil {
		l.failed.read = func() ([]courier.ItemFailure, int) { return failed(), failedCount }
	}
	v.setLoop(marker, l)
}

func (v *Values) setLoop(marker int, l *loopResult) {
	if v.loops == nil {
		v.loops = make(map[int]*loopResult)
	}
	v.loops[marker] = l
}

// FailedItems returns the first 1,000 failed items of a loop in some iterations of the
// loops around it, and how many there are. Failures are the records with which items
// failed that were not executed again since.
func (p *Program) FailedItems(marker int, outer []int, failures []courier.StepExecution) (first []courier.ItemFailure, count int) {
	records := p.Tree.FailedItems(marker, outer, failures)
	for i := range records[:min(len(records), maxFailedItems)] {
		first = append(first, ItemFailure(&records[i], len(outer)))
	}
	return first, len(records)
}

// ItemFailure says of a record with which an item has failed which item that was: the one of
// the loop at a depth, from 0, among those around the step.
func ItemFailure(r *courier.StepExecution, depth int) courier.ItemFailure {
	f := courier.ItemFailure{Index: r.Iteration[depth], Label: courier.IndexLabel(r.Iteration[:depth+1]), Step: r.ID, Class: r.Reason, Message: cut(r.Error)}
	if depth < len(r.ItemLabels) {
		f.Label = r.ItemLabels[depth]
	}
	if f.Step == "" {
		f.Step = strconv.Itoa(r.Step)
	}
	return f
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
	v.restoreAll(records, pos, passes)
}

// restoreAll restores the records that are in scope at a position.
func (v *Values) restoreAll(records []courier.StepExecution, pos courier.Position, passes []courier.RepairPass) {
	t := v.program.Tree
	inScope, null := t.Scope(pos, records, passes)
	for _, r := range inScope {
		v.restore(r)
	}
	for _, r := range t.Rescued(pos, records, passes) {
		v.SetError(r)
	}
	for _, marker := range null {
		if first, last := marker+1, t.End(marker)-1; first <= last {
			v.SetNull(first, last)
		}
	}
}

// restore sets the outputs of a record that is in scope, with what operators have
// changed of them. An operator who has skipped a step may have given it outputs; the
// others read null. Outputs of a failed attempt are for those who read its record.
func (v *Values) restore(r *courier.StepExecution) {
	skipped := r.State == courier.StepSkipped && r.Reason == courier.ReasonOperator && r.Outputs != nil
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

// RescuedItems is FailedItems for items that were rescued. Rescues are the records that led
// to that.
func (p *Program) RescuedItems(marker int, outer []int, rescues []courier.StepExecution) (first []courier.ItemFailure, count int) {
	for i := range rescues {
		if r := &rescues[i]; *r.Rescue == marker && slices.Equal(r.Iteration[:min(len(outer), len(r.Iteration))], outer) && len(r.Iteration) > len(outer) {
			if count++; len(first) < maxFailedItems {
				first = append(first, ItemFailure(r, len(outer)))
			}
		}
	}
	return first, count
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
			if f.Ref.Name != resultFailed && f.Ref.Name != resultRescued {
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
