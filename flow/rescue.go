package flow

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/nearest"
)

// A rescue is what a flow.rescue says.
type rescue struct {
	on, notOn []courier.Reason // classes that come to it, and that do not; nil means the default
	fails     bool             // rescued: fail
}

// The fields of a flow.rescue.
const (
	fieldRescueOn   = "rescue_on"
	fieldNoRescueOn = "no_rescue_on"
	fieldRescued    = "rescued"
)

// rescueClasses are the classes that come to a rescue: those of steps, and what a loop and a
// lost worker fail with.
func rescueClasses() []courier.Reason {
	return append(courier.ErrorClasses(), courier.ReasonItems, courier.ReasonWorkerLost)
}

// toRescue takes a flow.rescue into the tree.
func (p *parser) toRescue(i int) {
	r := p.rescueConfig(i)
	top := &p.open[len(p.open)-1]
	misplaced := func(format string, args ...any) {
		p.broken = true
		p.problem(i, "", format, args...)
	}
	var part **List
	switch n := top.node.(type) {
	case *ForEach:
		part = &n.Rescue
	case *Try:
		part = &n.Rescue
	case nil:
		misplaced("stands outside a flow.foreach and a flow.try; remove it, or put it between one of them and its flow.end")
		return
	default:
		misplaced("stands directly inside the %s of step %d, but belongs between a flow.foreach or a flow.try and its flow.end; is a flow.end missing before it?", p.typeOf(n), n.Index())
		return
	}
	b := p.tree.blocks[top.block]
	if *part != nil {
		misplaced("is the second flow.rescue of the %s of step %d, which has one at step %d; remove one of them", p.typeOf(top.node), b.open, b.els)
		return
	}
	*part = new(List)
	top.list = *part
	b.els, b.rescue = i, r
	if !b.works {
		p.problem(i, "", "nothing before it in the %s of step %d can fail, since there is no step; add the steps before it, or remove the block", p.typeOf(top.node), b.open)
	}
	b.works = false // until there is a step in the rescue
}

// checkRescue looks at the rescue of a block that ends at entry i.
func (p *parser) checkRescue(b *block, i int) {
	switch {
	case b.rescue != nil && !b.works && i < len(p.tree.steps):
		p.problem(b.els, "", "there is no step in it; add one that deals with the failure, or remove it")
	case b.kind == openTry && b.rescue == nil && i < len(p.tree.steps):
		p.problem(b.open, "", "has no flow.rescue; add one, and behind it the steps that deal with a failure, before the flow.end of step %d", i)
	}
	if b.rescue != nil {
		b.works = true // in the body; it was reported otherwise
	}
	if b.kind == openForEach {
		p.checkItemPolicy(b)
	}
}

// rescueConfig reads the configuration of a flow.rescue.
func (p *parser) rescueConfig(i int) *rescue {
	t := p.marker(i, []string{fieldRescueOn, fieldNoRescueOn, fieldRescued})
	r := &rescue{fails: p.choice(i, t, fieldRescued, "complete", "fail")}
	r.on, r.notOn = p.classes(i, t, fieldRescueOn, rescueClasses()), p.classes(i, t, fieldNoRescueOn, rescueClasses())
	for n, class := range r.notOn {
		if slices.Contains(r.on, class) {
			p.problem(i, fmt.Sprintf("config.%s[%d]", fieldNoRescueOn, n), "%q is in %s too; leave one of them out", class, fieldRescueOn)
		}
	}
	return r
}

// classes reads a list of error classes, of those that are known.
func (p *parser) classes(i int, t *Template, name string, known []courier.Reason) (classes []courier.Reason) {
	v := t.config[name]
	list, ok := v.([]any)
	if v != nil && !ok {
		p.problem(i, "config."+name, `must be a list of error classes, such as ["connection"]`)
	}
	for n, x := range list {
		class, ok := x.(string)
		switch {
		case !ok:
			p.problem(i, fmt.Sprintf("config.%s[%d]", name, n), `must be the name of an error class, such as "connection"`)
		case !slices.Contains(known, courier.Reason(class)):
			p.problem(i, fmt.Sprintf("config.%s[%d]", name, n), "unknown error class %q; %s", shorten(class), nearest.DidYouMean(class, known))
		default:
			classes = append(classes, courier.Reason(class))
		}
	}
	return classes
}

// inRescue reports whether entry i lies in the rescue of a block.
func (b *block) inRescue(i int) bool { return b.rescue != nil && b.inElse(i) }

// rescues reports whether a failure of a class in the body of a block comes to its rescue.
func (b *block) rescues(class courier.Reason) bool {
	r := b.rescue
	switch {
	case r == nil:
		return false
	case r.on != nil:
		return slices.Contains(r.on, class)
	case slices.Contains(r.notOn, class):
		return false
	}
	return b.kind == openTry || b.policy.Continues(class)
}

// A Handler is the block that handles a failure.
type Handler struct {
	Marker int  // of the loop or the flow.try
	Rescue bool // its rescue begins; otherwise the present item of the loop has failed
}

// Handler returns the block that handles a failure of entry i for a reason: the innermost block
// with a rescue for the reason, or the innermost loop that continues with its next item,
// whichever is further in. The first marker of a block lies outside of it. A failure in a rescue
// is not handled by the same rescue. If ok is false, the execution fails.
func (t *Tree) Handler(i int, class courier.Reason) (h Handler, ok bool) {
	for at := t.around(i); at >= 0; at = t.blocks[at].parent {
		b := t.blocks[at]
		switch {
		case b.rescue != nil && i < b.els && b.rescues(class):
			return Handler{b.open, true}, true
		case b.policy != nil && b.policy.Continues(class):
			return Handler{b.open, false}, true
		}
	}
	return Handler{}, false
}

// around is the innermost block that entry i lies in, or -1.
func (t *Tree) around(i int) int32 {
	if i < 0 || i >= len(t.entries) {
		return -1
	}
	at := t.entries[i].block
	if t.entries[i].kind.opens() {
		at = t.blocks[at].parent
	}
	return at
}

// Accepts reports whether failed items of a loop do not fail the execution, because its
// policy says so or because they are rescued.
func (t *Tree) Accepts(loop int) bool {
	if t.ItemPolicy(loop).Complete {
		return true
	}
	h, ok := t.Handler(loop, courier.ReasonItems)
	return ok && h.Rescue
}

// HasRescues reports whether there is a flow.rescue.
func (t *Tree) HasRescues() bool {
	return slices.ContainsFunc(t.blocks, func(b *block) bool { return b.rescue != nil })
}

// RescueFails reports whether the execution fails at its end because of a rescue of the block
// with a marker.
func (t *Tree) RescueFails(marker int) bool {
	b := t.rescuing(marker)
	return b != nil && b.rescue.fails
}

// InRescue returns the innermost block in whose rescue entry i lies; -1 if there is none.
func (t *Tree) InRescue(i int) (marker int) {
	for at := t.around(i); at >= 0; at = t.blocks[at].parent {
		if b := t.blocks[at]; b.inRescue(i) {
			return b.open
		}
	}
	return -1
}

// Rescue returns the index of the flow.rescue of the block with a marker; -1 if it has none.
func (t *Tree) Rescue(marker int) int {
	if b := t.rescuing(marker); b != nil {
		return b.els
	}
	return -1
}

// rescuing is the block with a rescue whose first marker stands at an index, or nil.
func (t *Tree) rescuing(marker int) *block {
	if marker < 0 || marker >= len(t.entries) || !t.entries[marker].kind.opens() {
		return nil
	}
	if b := t.blocks[t.entries[marker].block]; b.rescue != nil {
		return b
	}
	return nil
}

// rescueAround is the innermost block with a rescue around entry i, or nil.
func (t *Tree) rescueAround(i int) *block {
	for at := t.around(i); at >= 0; at = t.blocks[at].parent {
		if b := t.blocks[at]; b.rescue != nil {
			return b
		}
	}
	return nil
}

// Rescue begins the rescue of a block because its body has failed: the loops and blocks in
// the body are left, and the walk stands behind the flow.rescue. The outputs of the body stay,
// except those of inner loops that have not reached their last iteration. If the loop with the
// marker is not open, or the walk is not in the body, it does nothing. A bound in the body
// becomes the item that is rescued.
func (w *Walk) Rescue(marker int) {
	b := w.tree.rescuing(marker)
	if b == nil || len(w.loops) < b.depth || w.step <= b.open || w.step >= b.els {
		return
	}
	for i := len(w.loops) - 1; i >= b.depth; i-- {
		w.failAround(i) // an inner loop that is given up
	}
	for i := b.depth; i < len(w.loops); i++ {
		if f := &w.loops[i]; f.index != len(f.items)-1 {
			w.forget(f.block)
		}
	}
	clear(w.loops[b.depth:])
	w.loops = w.loops[:b.depth]
	w.bound = min(w.bound, b.depth)
	if b.kind == openForEach {
		top := &w.loops[b.depth-1]
		top.rescue, top.outer = true, nil
	} else {
		w.rejected = w.rejected || b.rescue.fails
	}
	w.step = b.els + 1
}

// CanRescue reports whether the rescue of a block may begin. It may not if the walk ends with an
// item inside of a flow.try: the steps behind the flow.try have run already when such an item is
// executed again.
func (w *Walk) CanRescue(marker int) bool {
	b := w.tree.rescuing(marker)
	return b != nil && (b.kind == openForEach || b.depth >= w.bound)
}

// TakeRescued returns how many items were rescued since the last call, and whether the
// execution fails at its end because of a rescue that began or an item that was rescued.
func (w *Walk) TakeRescued() (rescued int, fails bool) {
	rescued, fails = w.rescued, w.rejected
	w.rescued, w.rejected = 0, false
	return rescued, fails
}

// exceeded returns a *[LoopError] if the failed items of the innermost loop, which stands at
// its flow.end, end it: too many have failed, or it has ended, and its failure comes to a
// rescue.
func (w *Walk) exceeded(f *frame) error {
	if err := f.exceeded(); err != nil {
		return err
	}
	if f.failed == 0 || f.block.policy.Complete || f.index != len(f.items)-1 {
		return nil
	}
	if h, ok := w.tree.Handler(f.block.open, courier.ReasonItems); !ok || !h.Rescue {
		return nil
	}
	return &LoopError{Step: f.block.open, Failed: f.failed, Count: len(f.items), Max: -1, Percent: -1, Index: f.index}
}

// ErrorValue returns the value of loop.error, and of error of a flow.try: an object with the index
// of the step that has failed, its id and type, the class of the error, its message, and how
// many attempts there were. R is the record of the last one.
func ErrorValue(r *courier.StepExecution) map[string]any {
	return map[string]any{
		"step": number(r.Step), "id": r.ID, "type": r.Type, "class": string(r.Reason), "message": r.Error, "attempts": number(r.Attempt),
	}
}

// errorSchema is what is known of an [ErrorValue].
var errorSchema = &courier.Schema{Type: "object", Properties: []courier.Property{
	{Name: "step", Schema: &courier.Schema{Type: "integer"}},
	{Name: "id", Schema: &courier.Schema{Type: "string"}},
	{Name: "type", Schema: &courier.Schema{Type: "string"}},
	{Name: "class", Schema: &courier.Schema{Type: "string"}},
	{Name: "message", Schema: &courier.Schema{Type: "string"}},
	{Name: "attempts", Schema: &courier.Schema{Type: "integer"}},
}}

// errorOf is the value error of a block that the walk is in, or behind.
func (w *Walk) errorOf(b *block) (any, bool) {
	return w.values.Value(number(b.open).String(), loopError)
}

// tryError is the value error of a flow.try: there is none before the rescue of it, nor in
// another iteration of the loops around it.
func (w *Walk) tryError(b *block, head string) (any, bool) {
	if _, ok := w.before(b); !ok || b.kind != openTry || w.step <= b.els {
		return nil, false
	}
	if v, ok := w.values.Value(head, loopError); ok {
		return v, true
	}
	if w.step <= b.end || !w.hasRun(b) {
		return nil, false
	}
	return nil, true
}

// stopped reports whether the body of a block around b failed before b had come to its end. A
// loop that has failed because of its items has come there.
func (w *Walk) stopped(b *block) bool {
	for at := b.parent; at >= 0; at = w.tree.blocks[at].parent {
		outer := w.tree.blocks[at]
		if outer.rescue == nil || outer.inRescue(b.open) || w.step <= outer.els {
			continue
		}
		v, ok := w.errorOf(outer)
		if !ok {
			continue
		}
		e, _ := v.(map[string]any)
		digits, _ := e["step"].(json.Number)
		step, _ := parseIndex(digits.String())
		if step <= b.end && (step != b.open || e["class"] != string(courier.ReasonItems)) {
			return true
		}
	}
	return false
}

// tryResult checks a reference to the value of a flow.try.
func (u *use) tryResult(j int) *courier.Schema {
	b := u.tree.blocks[u.tree.entries[j].block]
	switch {
	case u.Ref.Name != loopError:
		u.problem("has no value: %s has no %q; it has error, which is null if nothing in it has failed", u.label(j), shorten(u.Ref.Name))
		return nil
	case !u.broken && u.step < b.els:
		u.problem("has a value only behind the flow.rescue of %s, step %d", u.label(j), b.els)
		return nil
	case !u.visible(j, b):
		return nil
	}
	return u.path(errorSchema, u.Ref.Name, u.Ref.Path)
}

// checkRescued returns an error if an execution that stands at p can't go back to an entry
// because of the rescue of a block around the entry: the entry was not executed.
func (t *Tree) checkRescued(b *block, from int, p courier.Position, recorded func(step int) bool) error {
	here := b.open < p.Step && p.Step < b.end
	switch {
	case b.inRescue(from):
		if here && b.inRescue(p.Step) || !here && t.anyRecorded(b.els+1, b.end, recorded) {
			return nil
		}
		return fmt.Errorf("%s lies in the rescue of %s, which has not run; give a step before it", t.label(from), t.label(b.open))
	case here && !b.inRescue(p.Step), t.anyRecorded(from, b.els, recorded):
		return nil
	}
	return fmt.Errorf("%s was not executed: the body of %s failed before it; give an earlier step", t.label(from), t.label(b.open))
}

// Rescued returns, for each block whose value error is in scope at p, the record with which
// its body has failed, by the index of the marker. Records and passes are those of
// [Tree.Scope].
func (t *Tree) Rescued(p courier.Position, records []courier.StepExecution, passes []courier.RepairPass) map[int]*courier.StepExecution {
	var list map[int]*courier.StepExecution
	s := scoping{tree: t, at: p, passes: passes}
	for i := range records {
		r := &records[i]
		if r.Rescue == nil {
			continue
		}
		b := t.rescuing(*r.Rescue)
		if b == nil || r.Step <= b.open || r.Step >= b.els || !t.sees(p, b, r) || s.undone(r) {
			continue
		}
		if of := list[b.open]; of == nil || of.Seq < r.Seq {
			if list == nil {
				list = make(map[int]*courier.StepExecution)
			}
			list[b.open] = r
		}
	}
	return list
}

// sees reports whether the value error of a block, by a record, is in scope at p.
func (t *Tree) sees(p courier.Position, b *block, r *courier.StepExecution) bool {
	if len(p.Loops) < b.depth || len(r.Iteration) < b.depth || p.Step <= b.els || t.InFinally(p.Step) != t.InFinally(r.Step) {
		return false
	}
	for n, l := range p.Loops[:b.depth] {
		if l.Index != r.Iteration[n] || l.Step != t.Loops(r.Step)[n] {
			return false
		}
	}
	if b.kind == openForEach {
		return p.Step < b.end || p.Step == b.end && p.Loops[b.depth-1].Rescue
	}
	return true
}
