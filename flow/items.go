package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/courierhq/courier/internal/nearest"

	"github.com/courierhq/courier"
)

// An ItemPolicy says what happens when an item of a flow.foreach fails. The zero
// policy is that of a loop without on_item_failure: the execution fails.
type ItemPolicy struct {
	Continue    bool // the loop goes on with the next item
	MaxFailures int  // the most failed items; -1 means any number
	// MaxPercent is the highest percentage of the list that may fail, rounded down to
	// whole items; -1 means any. It is checked when the loop ends.
	MaxPercent int
	// Complete says that failed items are accepted: neither the execution nor the item
	// of a loop around this one fails because of them.
	Complete   bool
	ContinueOn []courier.Reason // classes that fail only the item, besides the usual ones; shared, not to be changed
	Rerun      bool             // after a repair of items, the steps after the loop run again
}

// stopping are the classes that end a loop unless its continue_on names them: they
// concern the partner or the machine, not the item.
var stopping = []courier.Reason{
	courier.ReasonConnection, courier.ReasonLogin, courier.ReasonQuota, courier.ReasonSpace, courier.ReasonSecret,
}

// Continues reports whether the loop goes on after an item that failed for a reason.
func (p ItemPolicy) Continues(class courier.Reason) bool {
	return p.Continue && (!slices.Contains(stopping, class) || slices.Contains(p.ContinueOn, class))
}

// ItemPolicy returns the policy of the flow.foreach at an index. For anything else it
// is the zero policy.
func (t *Tree) ItemPolicy(marker int) ItemPolicy {
	if b := t.loopAt(marker); b != nil && b.policy != nil {
		return *b.policy
	}
	return ItemPolicy{}
}

// HasItemPolicies reports whether a loop has on_item_failure: continue.
func (t *Tree) HasItemPolicies() bool {
	return slices.ContainsFunc(t.blocks, func(b *block) bool { return b.policy != nil })
}

// loopAt is the loop whose flow.foreach stands at an index, or nil.
func (t *Tree) loopAt(marker int) *block {
	if marker < 0 || marker >= len(t.entries) || t.entries[marker].kind != openForEach {
		return nil
	}
	return t.blocks[t.entries[marker].block]
}

// End returns the index of the flow.end of the block whose first marker is at an index; -1
// if there is none.
func (t *Tree) End(marker int) int {
	if marker < 0 || marker >= len(t.entries) || !t.entries[marker].kind.opens() {
		return -1
	}
	return t.blocks[t.entries[marker].block].end
}

// CountingLoop returns the loop whose items count as the failed items of an execution,
// for entry i: the outermost one around it that continues after failures of any class.
func (t *Tree) CountingLoop(i int) (marker int, ok bool) {
	for at := t.loopOf(i); at >= 0; at = t.loopAround(t.blocks[at]) {
		if b := t.blocks[at]; b.policy != nil {
			marker, ok = b.open, true
		}
	}
	return marker, ok
}

// EndedLoop returns the flow.foreach of the loop whose flow.end is entry i, since a failure
// there is a failure outside of the loop. For any other entry it returns i.
func (t *Tree) EndedLoop(i int) int {
	if i < len(t.entries) && t.entries[i].kind == end {
		if b := t.blocks[t.entries[i].block]; b.kind == openForEach {
			return b.open
		}
	}
	return i
}

// ErrItemEnded is returned by [Walk.Next] at the end of the item that [Walk.SetBound]
// has set as the bound.
var ErrItemEnded = errors.New("the item of the loop has ended")

// A LoopError says that more items of a loop have failed than its max_failures
// permits.
type LoopError struct {
	Step    int // index of the flow.foreach
	Failed  int // how many items have failed
	Count   int // how many items the list has
	Max     int // how many may fail; -1 if any number may, and the failure comes to a rescue
	Percent int // the percentage that Max is of the list; -1 if max_failures is a number
	Index   int // of the last item that was executed
}

// Error names the numbers, and says what to do.
func (e *LoopError) Error() string {
	verb := "have"
	if e.Failed == 1 {
		verb = "has"
	}
	s := fmt.Sprintf("%s: %d of %d items %s failed", TypeForEach, e.Failed, e.Count, verb)
	if e.Max < 0 && e.Percent < 0 {
		return s
	}
	s += ", and max_failures is "
	if e.Percent >= 0 {
		s += fmt.Sprintf("%d%%, which is %d", e.Percent, e.Max)
	} else {
		s += strconv.Itoa(e.Max)
	}
	if left := e.Count - 1 - e.Index; left > 0 {
		s += fmt.Sprintf("; the loop was given up at index %d, with %d items left", e.Index, left)
	}
	return s + "; when the cause is gone, resume the execution, which executes the failed items again first"
}

// exceeded returns a *[LoopError] if too many items of the innermost loop, which
// stands at its flow.end, have failed.
func (f *frame) exceeded() error {
	p, count := f.block.policy, len(f.items)
	e := LoopError{Step: f.block.open, Failed: f.failed, Count: count, Max: p.MaxFailures, Percent: -1, Index: f.index}
	switch {
	case p.MaxFailures >= 0 && f.failed > p.MaxFailures:
		return &e
	case p.MaxPercent >= 0 && f.index == count-1:
		e.Percent, e.Max = p.MaxPercent, int(int64(count)*int64(p.MaxPercent)/100)
		if f.failed > e.Max {
			return &e
		}
	}
	return nil
}

// FailItem ends the present item of an open loop as failed. The blocks in the item are
// left, the outputs of its steps read null, and the walk stands at the flow.end of the
// loop, where [Walk.Next] continues. If the loop is not open, it does nothing.
func (w *Walk) FailItem(marker int) {
	at := slices.IndexFunc(w.loops, func(f frame) bool { return f.block.open == marker })
	if at < 0 {
		return
	}
	clear(w.loops[at+1:])
	w.loops = w.loops[:at+1]
	f := &w.loops[at]
	w.step = f.block.end
	w.failed(f)
	w.endRescue(f)
	if first, last := f.block.open+1, f.block.end-1; first <= last {
		w.values.SetNull(first, last)
	}
}

// failed counts the present item of a loop as failed, once.
func (w *Walk) failed(f *frame) {
	if f.itemFailed {
		return
	}
	f.itemFailed = true
	f.failed++
	if at, ok := w.tree.CountingLoop(f.block.open); ok && at != f.block.open {
		return
	}
	w.failures++
	if w.tree.Accepts(f.block.open) {
		w.accepted++
	}
}

// endRescue counts the present item of a loop as rescued if it comes from its rescue.
func (w *Walk) endRescue(f *frame) {
	if !f.rescue {
		return
	}
	f.rescue = false
	w.values.Forget(f.block.open, f.block.open) // the error
	if f.itemFailed {
		return
	}
	f.rescued++
	w.rescued++
	w.rejected = w.rejected || f.block.rescue.fails
}

// leave ends a loop with a policy, which is the innermost one: its values are set, and
// if its failed items are not accepted, the item around it has failed too. The steps
// behind the loop run even so.
func (w *Walk) leave(f frame) {
	w.values.LoopEnded(f.block.open, w.Iteration(), len(f.items), f.failed, f.rescued)
	w.loops = append(w.loops, f)
	w.failAround(len(w.loops) - 1)
	w.loops = w.loops[:len(w.loops)-1]
}

// failAround has the item of the next loop with a policy around open loop i failed, if failed
// items of that loop fail it: the policy does not accept them, and no rescue takes them.
func (w *Walk) failAround(i int) {
	f := &w.loops[i]
	if f.block.policy == nil || f.failed == 0 || f.block.policy.Complete {
		return
	}
	if h, ok := w.tree.Handler(f.block.open, courier.ReasonItems); ok && h.Rescue {
		return
	}
	for i--; i >= 0; i-- {
		if outer := &w.loops[i]; outer.block.policy != nil {
			w.failed(outer)
			return
		}
	}
}

// TakeFailures returns how many items have failed since the last call, and how many
// of these are accepted. In loops within loops it counts the items of the outermost
// loop with a policy, each once.
func (w *Walk) TakeFailures() (failed, accepted int) {
	failed, accepted = w.failures, w.accepted
	w.failures, w.accepted = 0, 0
	return failed, accepted
}

// SetBound makes the walk end with the current item of an open loop: at the flow.end
// of that loop, or of a loop around it, [Walk.Next] returns [ErrItemEnded] and stays
// there. If marker is -1 or is no open loop, the bound is removed. [Walk.Seek] also
// removes it.
func (w *Walk) SetBound(marker int) {
	w.bound = 1 + slices.IndexFunc(w.loops, func(f frame) bool { return f.block.open == marker })
}

// Count returns how many items a loop had that has ended. It evaluates the source of
// the loop. The loops around it must be open.
func (w *Walk) Count(marker int) (int, error) {
	b := w.tree.loopAt(marker)
	if b == nil {
		return 0, fmt.Errorf("step %d is no %s", marker, TypeForEach)
	}
	before, ok := w.before(b)
	if !ok {
		return 0, fmt.Errorf("the loops around step %d are not open", marker)
	}
	list, err := before.source(b)
	return len(list), err
}

// before returns a walk that sees what the marker of a block saw when it was evaluated.
// It has no other use. If ok is false, the loops around the block are not open.
func (w *Walk) before(b *block) (before *Walk, ok bool) {
	markers := w.tree.Loops(b.open)
	if len(markers) > len(w.loops) {
		return nil, false
	}
	for i, m := range markers {
		if w.loops[i].block.open != m {
			return nil, false
		}
	}
	before = &Walk{tree: w.tree, values: w.values, step: b.open, loops: w.loops[:len(markers):len(markers)]}
	return before, true
}

// result returns a value of a loop with a policy. There is none before the loop is over,
// nor in another iteration of the loops around it. A walk that was taken up behind the
// loop counts the items when their number is first needed.
func (w *Walk) result(b *block, head, name string) (any, bool) {
	before, ok := w.before(b)
	if !ok || w.step <= b.end {
		return nil, false
	}
	if v, ok := w.values.Value(head, name); ok || !slices.Contains(loopResults, name) {
		return v, ok
	}
	list, err := before.source(b)
	if err != nil || !w.hasRun(b) {
		return nil, false
	}
	w.values.LoopEnded(b.open, before.Iteration(), len(list), -1, -1)
	return w.values.Value(head, name)
}

// hasRun reports whether a block that lies before the walk, in the same iteration of the
// same loops, has run to its end: all conditions around it led to it, and no body around it
// failed before.
func (w *Walk) hasRun(b *block) bool { return !w.stopped(b) && w.reached(b) }

// reached reports whether all conditions around a block led to it. The conditions still come
// to the same, since values don't change. Those further out are asked first, because the ones
// in a branch that was not taken may refer to what has not run either.
func (w *Walk) reached(b *block) bool {
	if b.parent < 0 {
		return true
	}
	outer := w.tree.blocks[b.parent]
	inElse := outer.inElse(b.open)
	around := outer.open < w.step && w.step < outer.end
	switch {
	case outer.kind == openForEach: // a loop that is open
		return true
	case around && outer.kind == openTry:
		return true
	case around:
		return inElse == outer.inElse(w.step)
	case !w.reached(outer):
		return false
	case outer.kind == openTry:
		_, failed := w.errorOf(outer)
		return failed || !inElse
	}
	before, ok := w.before(outer)
	if !ok {
		return false
	}
	holds, _, err := outer.cond.eval(before, &before.match)
	return err == nil && holds != inElse
}

// EndLoops calls [Values.LoopEnded] for all loops with on_item_failure: continue that
// have ended and whose values can be referred to at the position of the walk. A walk
// that began after such a loop does so otherwise only when a reference needs the
// values.
func (w *Walk) EndLoops() {
	for _, b := range w.tree.blocks {
		if b.policy != nil {
			w.result(b, strconv.Itoa(b.open), loopCount)
		}
	}
}

// The fields of a flow.foreach that are about failed items, and what they may be.
const (
	fieldOnItem      = "on_item_failure"
	fieldMaxFailures = "max_failures"
	fieldThen        = "then"
	fieldContinueOn  = "continue_on"
	fieldAfterRepair = "after_repair"
)

// itemFields are those that need on_item_failure: continue.
var itemFields = []string{fieldMaxFailures, fieldThen, fieldContinueOn, fieldAfterRepair}

// itemPolicy reads what the configuration of a flow.foreach says of failed items.
func (p *parser) itemPolicy(i int, t *Template, b *block) {
	goesOn := p.choice(i, t, fieldOnItem, "stop", "continue")
	policy := ItemPolicy{Continue: true, MaxFailures: -1, MaxPercent: -1}
	policy.Complete = p.choice(i, t, fieldThen, "fail", "complete")
	policy.Rerun = p.choice(i, t, fieldAfterRepair, "continue", "rerun")
	p.maxFailures(i, t, &policy)
	policy.ContinueOn = p.classes(i, t, fieldContinueOn, courier.ErrorClasses())
	if b.rescued = &policy; goesOn {
		b.policy = &policy
	}
}

// checkItemPolicy looks at what a flow.foreach says of failed items when it is known whether
// the loop has a rescue.
func (p *parser) checkItemPolicy(b *block) {
	t := p.tree.Template(b.open)
	text, given := t.config[fieldOnItem].(string)
	switch {
	case b.rescue != nil && given && text == "stop":
		p.problem(b.open, "config."+fieldOnItem, `is "stop", but the loop has a flow.rescue, step %d, and goes on with its next item; leave one of them out`, b.els)
	case b.rescue != nil:
		b.policy = b.rescued
	case b.policy != nil || given && text != "stop": // it is unknown what was meant
	default:
		for _, name := range itemFields {
			if v, given := t.config[name]; given && v != nil {
				p.problem(b.open, "config."+name, `has no effect without "on_item_failure": "continue" or a flow.rescue; add one of them, or remove it`)
			}
		}
	}
}

// choice reads a field that has one of two values, of which usual is the default, and
// reports whether it is the other one.
func (p *parser) choice(i int, t *Template, name, usual, other string) bool {
	v := t.config[name]
	text, isText := v.(string)
	switch {
	case v == nil || isText && text == usual:
	case isText && text == other:
		return true
	case isText && strings.Contains(text, contextPrefix):
		p.problem(i, "config."+name, "can't be a reference; it is %q, which is the default, or %q", usual, other)
	case isText && nearest.Name(text, []string{usual, other}) != "":
		p.problem(i, "config."+name, "unknown value %q; %s", shorten(text), nearest.DidYouMean(text, []string{usual, other}))
	default:
		p.problem(i, "config."+name, "must be %q, which is the default, or %q", usual, other)
	}
	return false
}

// maxFailures reads a number, or a percentage as text.
func (p *parser) maxFailures(i int, t *Template, policy *ItemPolicy) {
	switch v := t.config[fieldMaxFailures].(type) {
	case nil:
		return
	case json.Number:
		if n, ok := parseIndex(v.String()); ok {
			policy.MaxFailures = n
			return
		}
	case string:
		if digits, ok := strings.CutSuffix(v, "%"); ok {
			if n, ok := parseIndex(digits); ok && n <= 100 {
				policy.MaxPercent = n
				return
			}
		}
	}
	p.problem(i, "config."+fieldMaxFailures, `must be a whole number from 0, or a percentage of the list from "0%%" to "100%%", and no reference`)
}
