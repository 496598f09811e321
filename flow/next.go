package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/courierhq/courier/internal/jsontext"

	"github.com/courierhq/courier"
)

// Values are what a [Walk] needs of an execution's values.
type Values interface {
	// Value returns outputs of steps, with the step's index in decimal as head,
	// and params.*, job.*, chain.* and monitor.*. The walk never calls it for loop
	// variables and ids.
	courier.Scope
	// Forget removes the outputs of the entries first to last of the flat list,
	// because the iteration that they belong to has ended.
	Forget(first, last int)
	// SetNull makes the outputs of the entries first to last null, whatever their
	// names, until Forget is called for them. The item that they belong to has
	// failed.
	SetNull(first, last int)
	// LoopEnded says that a loop with on_item_failure: continue has ended, in the
	// iterations outer of the loops around it. It had count items, of which failed
	// have failed and rescued were rescued. These two are -1 if the walk began after the
	// loop; the numbers then follow from the records. From now on the marker has the values
	// failed, failed_count, rescued, rescued_count and count, until Forget is called for it.
	//
	// The value error of a flow.try or a flow.foreach, by the index of the marker, is that of
	// the attempt whose record has that Rescue, as [ErrorValue] has it. Who holds the values
	// sets it, until Forget is called for the marker.
	LoopEnded(marker int, outer []int, count, failed, rescued int)
}

// An EvalError says that a marker could not be evaluated: a reference has no value,
// or a value that can't be used. Values do not change, so a second evaluation at the
// same position gives the same error.
type EvalError struct {
	Step  int    // index of the marker
	Field string // of its configuration
	Err   error
	typ   string
}

// Error begins with the marker's type and the field.
func (e *EvalError) Error() string {
	return e.typ + ": " + e.Field + ": " + e.Err.Error()
}

// Unwrap returns what is wrong.
func (e *EvalError) Unwrap() error { return e.Err }

// A Walk follows one execution through a tree: [Walk.Next] goes to the next
// step that does work, [Walk.Advance] past it. It is the scope in which the
// references of that step have their values. A Walk must not be used by
// several goroutines at once.
type Walk struct {
	tree   *Tree
	values Values
	step   int
	loops  []frame
	match  matcher
	stop   func() error
	limit  int // of iterations; 0 means defaultIterations
	bound  int // the number of loops down to the one whose item is the last; 0 for none
	// failures and accepted are what TakeFailures returns.
	failures, accepted int
	// rescued and rejected are what TakeRescued returns.
	rescued  int
	rejected bool
	// inFinally says that the walk is in the finally part, and stoppedAt where it was before.
	inFinally bool
	stoppedAt courier.Position
}

// A frame is an open loop.
type frame struct {
	block *block
	items []any
	index int
	total int            // iterations of the loop, times those of the loops around it
	outer map[string]any // what loop.<depth> is; made when first asked for
	// failed is how many items have failed, and itemFailed whether the present one has.
	failed     int
	itemFailed bool
	rescued    int  // how many items were rescued
	rescue     bool // the present item is in its rescue, or at the end of it
}

// Walk returns a walk that stands at p. Loops that are open at p are entered again:
// their sources are evaluated. That gives the same lists as before, because values do
// not change; if it fails, the error is an *[EvalError]. Any other error says that p
// is no position of this tree.
//
// V must hold the values that were in scope at p; see [Tree.InScope]. Outputs of
// steps that the current iteration has not reached are dropped.
func (t *Tree) Walk(p courier.Position, v Values) (*Walk, error) {
	w := &Walk{tree: t, values: v}
	if err := w.Seek(p); err != nil {
		return nil, err
	}
	return w, nil
}

// Seek moves the walk to p, as if it were returned by [Tree.Walk]. A loop keeps its
// list if it is open both at p and where the walk stands, in the same iterations of
// the loops around it. The values must be those of p. The bound is removed. After an
// error the walk stands where it stood.
func (w *Walk) Seek(p courier.Position) error {
	t := w.tree
	loops := t.Loops(p.Step)
	if p.Step < 0 || p.Step > len(t.steps) || len(p.Loops) != len(loops) {
		return misfit(p)
	}
	former, kept := w.loops, w.shared(p)
	w.loops = make([]frame, 0, len(loops))
	for i, l := range p.Loops {
		b := t.blocks[t.entries[loops[i]].block]
		err := w.reopen(b, p, i, former[:kept])
		if err != nil {
			w.loops = former
			return err
		}
		f := &w.loops[i]
		f.failed, f.itemFailed, f.rescued, f.rescue = l.Failed, l.ItemFailed, l.Rescued, l.Rescue
		if p.Step != b.end {
			f.rescue = b.inRescue(p.Step)
		}
	}
	w.step, w.bound = p.Step, 0
	if len(w.loops) > 0 {
		if last := w.loops[0].block.end - 1; p.Step <= last {
			w.values.Forget(p.Step, last)
		}
	}
	return nil
}

// shared is the number of open loops whose lists are the same at p.
func (w *Walk) shared(p courier.Position) int {
	for i := range min(len(w.loops), len(p.Loops)) {
		if w.loops[i].block.open != p.Loops[i].Step {
			return i
		}
		if w.loops[i].index != p.Loops[i].Index {
			return i + 1
		}
	}
	return min(len(w.loops), len(p.Loops))
}

// reopen enters loop i of a position. Kept are frames whose lists are those of the
// position.
func (w *Walk) reopen(b *block, p courier.Position, i int, kept []frame) (err error) {
	l := p.Loops[i]
	if l.Step != b.open || l.Index < 0 || l.Failed < 0 || l.Rescued < 0 {
		return misfit(p)
	}
	var list []any
	if i < len(kept) {
		list = kept[i].items
	} else if list, err = w.source(b); err != nil {
		return err
	}
	if l.Index >= len(list) {
		return fmt.Errorf("%w: the loop of step %d has %d iterations", misfit(p), b.open, len(list))
	}
	w.open(b, list, l.Index)
	return nil
}

func misfit(p courier.Position) error {
	text, _ := json.Marshal(p)
	return fmt.Errorf("position %s does not fit the list of steps", text)
}

// Watch makes Next call stop from time to time while it evaluates very many markers
// without finding a step, or markers whose evaluation takes long. If stop returns an
// error, Next returns that error, and the walk stays at the marker that it has reached.
// Without Watch, a loop over millions of items whose steps are all in branches not taken
// can't be interrupted.
func (w *Walk) Watch(stop func() error) { w.stop = stop }

// Next goes from the current position to the next step that does work,
// evaluating the markers on the way, and returns its index, or the length of
// the list at the end. At a step it stays where it is. The error is an
// *[EvalError] if a marker can't be evaluated, a *[LoopError] if too many items
// of a loop have failed, or [ErrItemEnded]; the walk then stays at that marker.
func (w *Walk) Next() (int, error) {
	const often = 1 << 10
	for n := 1; w.step < len(w.tree.entries); n++ {
		e := w.tree.entries[w.step]
		if w.inFinally && w.step == w.tree.declared {
			w.step = len(w.tree.entries)
			break
		}
		if e.kind == work {
			break
		}
		if e.kind == toFinally {
			w.step = w.tree.declared // the outputs, if there are any
			continue
		}
		if w.stop != nil && (n%often == 0 || w.match.spent >= maxSpent) {
			w.match.spent = 0
			if err := w.stop(); err != nil {
				return w.step, err
			}
		}
		if err := w.pass(e.kind, w.tree.blocks[e.block]); err != nil {
			return w.step, err
		}
	}
	return w.step, nil
}

// pass goes past one marker.
func (w *Walk) pass(k kind, b *block) error {
	switch {
	case k == openForEach:
		return w.enter(b)
	case k == openIf:
		return w.choose(b)
	case k == end && b.kind == openForEach:
		return w.repeat(b)
	case k == openTry:
		w.step = b.open + 1
	case k == toRescue && b.kind == openForEach:
		w.step = b.end // the body is over, and has not failed
	default:
		w.step = b.end + 1 // the branch that was chosen is over
	}
	return nil
}

func (w *Walk) enter(b *block) error {
	list, err := w.source(b)
	if err != nil {
		return err
	}
	if len(list) == 0 || !b.works {
		w.forget(b)
		w.step = b.end + 1
		if b.policy != nil {
			w.values.LoopEnded(b.open, w.Iteration(), len(list), 0, 0)
		}
		return nil
	}
	if err := w.checkIterations(b, len(list)); err != nil {
		return err
	}
	w.forget(b)
	w.open(b, list, 0)
	w.step = b.open + 1
	return nil
}

// repeat goes to the next iteration of the innermost loop, or out of it.
func (w *Walk) repeat(b *block) error {
	top := &w.loops[len(w.loops)-1]
	w.endRescue(top)
	if len(w.loops) <= w.bound {
		return ErrItemEnded
	}
	if b.policy != nil {
		if err := w.exceeded(top); err != nil {
			return err
		}
	}
	if top.index+1 < len(top.items) {
		top.index, top.outer, top.itemFailed = top.index+1, nil, false
		w.forget(b)
		w.step = b.open + 1
		return nil
	}
	over := *top
	*top = frame{}
	w.loops = w.loops[:len(w.loops)-1]
	w.step = b.end + 1
	if b.policy != nil {
		w.leave(over)
	}
	return nil
}

// forget puts the outputs of a loop's body out of scope.
func (w *Walk) forget(b *block) {
	if first, last := b.open+1, b.end-1; first <= last {
		w.values.Forget(first, last)
	}
}

func (w *Walk) choose(b *block) error {
	holds, field, err := b.cond.eval(w, &w.match)
	switch {
	case err != nil:
		return &EvalError{Step: b.open, Field: field, Err: err, typ: TypeIf}
	case holds:
		w.step = b.open + 1
	case b.els >= 0:
		w.step = b.els + 1
	default:
		w.step = b.end + 1
	}
	return nil
}

// source evaluates the list of a loop.
func (w *Walk) source(b *block) ([]any, error) {
	v, err := b.source.eval(w)
	if text, ok := v.(string); ok {
		w.match.spent += 10 * len(text)
	}
	var list []any
	if err == nil {
		list, err = items(v)
	}
	if err != nil {
		return nil, &EvalError{Step: b.open, Field: fieldSource, Err: err, typ: TypeForEach}
	}
	return list, nil
}

// items returns the list that v is, or that it is the JSON text of. Null is
// the empty list, as Go writes a slice without elements.
func items(v any) ([]any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []any:
		return v, nil
	case string:
		parsed, err := jsontext.Parse([]byte(v))
		list, ok := parsed.([]any)
		if err == nil && ok {
			return list, nil
		}
		if !strings.HasPrefix(strings.TrimLeft(v, " \t\r\n"), "[") {
			err = nil // it was not meant as JSON
		}
		if err != nil {
			return nil, fmt.Errorf("is text that is not the JSON of a list: %w", err)
		}
		return nil, fmt.Errorf("is the text %q, not a list", shorten(v))
	case bool:
		return nil, fmt.Errorf("is %t, not a list", v)
	case json.Number:
		return nil, fmt.Errorf("is the number %s, not a list", shorten(v.String()))
	case map[string]any:
		return nil, errors.New("is an object, not a list")
	}
	return nil, fmt.Errorf("is a %T, not a list", v)
}

// Advance goes past the current step, which has completed or was skipped, or past the
// whole block of a marker that could not be evaluated. Anywhere else it does nothing.
func (w *Walk) Advance() {
	if w.step == len(w.tree.entries) {
		return
	}
	e := w.tree.entries[w.step]
	switch e.kind {
	case work:
		w.step++
	case openForEach:
		w.forget(w.tree.blocks[e.block])
		w.step = w.tree.blocks[e.block].end + 1
	case openIf, openTry:
		w.step = w.tree.blocks[e.block].end + 1
	}
}

// Position returns where the walk stands. The caller may keep it.
func (w *Walk) Position() courier.Position {
	p := courier.Position{Step: w.step}
	if len(w.loops) > 0 {
		p.Loops = make([]courier.LoopPosition, len(w.loops))
		for i := range w.loops {
			f := &w.loops[i]
			p.Loops[i] = courier.LoopPosition{Step: f.block.open, Index: f.index, Failed: f.failed, ItemFailed: f.itemFailed, Rescued: f.rescued, Rescue: f.rescue}
		}
	}
	return p
}

// Iteration returns the iteration of each open loop, outermost first; nil
// outside loops. The caller may keep it.
func (w *Walk) Iteration() []int {
	return w.each(func(f *frame) int { return f.index })
}

// Total returns how many iterations each open loop has, outermost first; nil
// outside loops. The caller may keep it.
func (w *Walk) Total() []int {
	return w.each(func(f *frame) int { return len(f.items) })
}

func (w *Walk) each(figure func(*frame) int) []int {
	if len(w.loops) == 0 {
		return nil
	}
	list := make([]int, len(w.loops))
	for i := range w.loops {
		list[i] = figure(&w.loops[i])
	}
	return list
}

// The heads of references that mean no step, and the loop variables.
const (
	headLoop   = "loop"
	headParams = "params"
	headJob    = "job"

	loopItem  = "current_item"
	loopIndex = "index"
	loopLabel = "label"
	loopError = "error" // in the rescue of a loop, and of a flow.try

	// The values of a loop with on_item_failure: continue, once it is over.
	loopFailed      = "failed"
	loopFailedCount = "failed_count"
	loopRescued     = "rescued"
	loopRescuedCnt  = "rescued_count"
	loopCount       = "count"
)

// Value returns the value called head.name: a loop variable, or one of the
// execution's values, where the id of a step means the same as its index.
//
// "loop.current_item", "loop.index" and "loop.label" belong to the innermost
// loop. While that is not the only one, "loop.<depth>" is an object with the
// "current_item", "index" and "label" of a loop around it, the outermost having
// depth 0. The caller must not change what is returned.
func (w *Walk) Value(head, name string) (any, bool) {
	switch head {
	case headLoop:
		return w.loop(name)
	case headParams, headJob, headChain, headMonitor:
	default:
		i, ok := parseIndex(head)
		if !ok {
			p, ok := w.tree.placeOf(head)
			if !ok {
				return nil, false
			}
			i, head = p.index, p.text
		}
		if w.inFinally && !w.tree.InFinally(i) {
			return w.valueBefore(i, head, name)
		}
		if b := w.tree.loopAt(i); b != nil && b.policy != nil {
			return w.result(b, head, name)
		}
		if b := w.tree.rescuing(i); b != nil && name == loopError {
			return w.tryError(b, head)
		}
	}
	return w.values.Value(head, name)
}

// loop returns a loop variable.
func (w *Walk) loop(name string) (any, bool) {
	if len(w.loops) == 0 {
		return nil, false
	}
	top := &w.loops[len(w.loops)-1]
	switch name {
	case loopItem:
		return top.items[top.index], true
	case loopIndex:
		return number(top.index), true
	case loopLabel:
		return w.shownLabel(len(w.loops) - 1), true
	case loopError:
		return w.errorOf(top.block)
	}
	depth, ok := parseIndex(name)
	if !ok || depth >= len(w.loops)-1 {
		return nil, false
	}
	f := &w.loops[depth]
	if f.outer == nil {
		f.outer = map[string]any{loopItem: f.items[f.index], loopIndex: number(f.index), loopLabel: w.shownLabel(depth)}
	}
	return f.outer, true
}

func number(n int) json.Number { return json.Number(strconv.Itoa(n)) }

// Keys returns the keys of all values in scope. The outputs of a step with an
// id are there under both its names.
func (w *Walk) Keys() []string {
	var keys []string
	if n := len(w.loops); n > 0 {
		keys = append(keys, headLoop+"."+loopItem, headLoop+"."+loopIndex, headLoop+"."+loopLabel)
		for i := range n - 1 {
			keys = append(keys, headLoop+"."+strconv.Itoa(i))
		}
	}
	for _, k := range w.values.Keys() {
		keys = append(keys, k)
		head, name, _ := strings.Cut(k, ".")
		if i, ok := parseIndex(head); ok && i < len(w.tree.steps) && w.tree.steps[i].ID != "" {
			keys = append(keys, w.tree.steps[i].ID+"."+name)
		}
	}
	return keys
}
