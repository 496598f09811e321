package outline

import (
	"maps"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/store"
)

// A chosenItem is the iteration of a loop that the address of the page names, with the iterations
// of the loops around it.
type chosenItem struct {
	loop  int
	path  []int
	loops []int // the loop and those around it, outermost first
}

// readChosen reads the records of the iteration that the address names. Without one, and if the
// execution has failed because of its items, it reads the first failed item of each loop.
func (b *builder) readChosen() error {
	loop := b.in.Loop
	if loop < 0 {
		for _, ch := range b.firstFailed() {
			if err := b.choose(ch); err != nil {
				return err
			}
		}
		return nil
	}
	if loop >= b.tree.Len() || !strings.EqualFold(b.tree.Spec(loop).Type, flow.TypeForEach) {
		return problem.Invalid("loop in the address names no loop of the job.")
	}
	ch := &chosenItem{loop: loop, loops: append(slices.Clone(b.tree.Loops(loop)), loop)}
	var err error
	if ch.path, err = courier.ParseIteration(b.in.Item); err != nil {
		return problem.Invalid("item in the address must be the number of an item, such as 7, or 7.2 in a loop within a loop.")
	}
	if len(ch.path) != len(ch.loops) {
		return problem.Invalid("item in the address must have %d numbers with points between them: one for each loop.", len(ch.loops))
	}
	return b.choose(ch)
}

// firstFailed returns the first failed item of each loop that has one. Of nested loops it returns
// one item, of the first loop that has one. It is nil if the execution has not failed, or if it
// failed in an item that the rows show anyway.
func (b *builder) firstFailed() (list []*chosenItem) {
	if f := b.x.Failure; b.x.State != courier.Failed || f == nil || len(f.Iteration) > 0 {
		return nil
	}
	for _, loop := range slices.Sorted(maps.Keys(b.items)) {
		ch := &chosenItem{loop: loop, path: slices.MinFunc(b.items[loop], slices.Compare), loops: append(slices.Clone(b.tree.Loops(loop)), loop)}
		within := func(o *chosenItem) bool { return o.loops[0] == ch.loops[0] }
		if len(ch.path) == len(ch.loops) && !slices.ContainsFunc(list, within) {
			list = append(list, ch)
		}
	}
	return list
}

// chosenIn returns the chosen iteration within nested loops, the outermost first. It is nil if
// there is none.
func (b *builder) chosenIn(loops []int) *chosenItem {
	if len(loops) == 0 {
		return nil
	}
	return b.chosen[loops[0]]
}

// choose reads the records of an iteration.
func (b *builder) choose(ch *chosenItem) error {
	if b.chosen == nil {
		b.chosen, b.shown = make(map[int]*chosenItem), make(map[int][]courier.StepExecution)
	}
	b.chosen[ch.loops[0]] = ch
	for level := range ch.loops {
		if err := b.readItem(ch.loops[:level+1], ch.path[:level+1]); err != nil {
			return err
		}
	}
	return nil
}

// maxItemRecords is how many records are read of one iteration, and of one repair pass.
const maxItemRecords = 300

// readItem reads the records of an iteration: from its first one on, and those of the passes that
// have repaired items.
func (b *builder) readItem(loops, path []int) error {
	at := courier.Position{Step: loops[len(loops)-1] + 1}
	for i, l := range loops {
		at.Loops = append(at.Loops, courier.LoopPosition{Step: l, Index: path[i]})
	}
	first, err := b.seek(at)
	if err != nil {
		return err
	}
	from := []int64{first}
	if r := b.x.Repairs; r != nil {
		for _, p := range r.Passes {
			from = append(from, p.Seq)
		}
	}
	for _, after := range from {
		list, err := b.read.Records(store.StepFilter{Attempt: b.x.Attempt, After: after, Limit: maxItemRecords})
		if err != nil {
			return err
		}
		for i := range list {
			r := &list[i]
			known := slices.ContainsFunc(b.shown[r.Step], func(o courier.StepExecution) bool { return o.Seq == r.Seq })
			if within(r.Iteration, path) && slices.Contains(b.tree.Loops(r.Step), loops[len(loops)-1]) && !known {
				b.shown[r.Step] = append(b.shown[r.Step], *r)
			}
		}
	}
	return nil
}

// seek returns the number after which the records of a position, and of later positions, begin.
// Records are in the order of execution, except for repairs, which come later.
func (b *builder) seek(at courier.Position) (int64, error) {
	low, high := int64(0), b.x.Seq
	if r := b.x.Repairs; r != nil && len(r.Passes) > 0 {
		high = r.Passes[0].Seq
	}
	for low < high {
		mid := low + (high-low)/2
		list, err := b.read.Records(store.StepFilter{Attempt: b.x.Attempt, After: mid, Limit: 1})
		if err != nil {
			return 0, err
		}
		before := false
		if len(list) > 0 && list[0].Seq <= b.x.Seq {
			if p, ok := b.tree.PositionOf(&list[0]); ok {
				before = flow.Compare(p, at) < 0
			}
		}
		if before {
			low = list[0].Seq
		} else {
			high = mid
		}
	}
	return low, nil
}

// inChosen sets the state and the record of a row to those of the chosen iteration, if the row lies
// in its loops.
func (b *builder) inChosen(r *Row) {
	loops := b.tree.Loops(r.Step)
	ch := b.chosenIn(loops)
	if ch == nil {
		return
	}
	level := 0
	for level < len(loops) && level < len(ch.loops) && loops[level] == ch.loops[level] {
		level++
	}
	if b.isPresent(ch.path[:level]) {
		return
	}
	path := b.shownPath(loops)
	r.record = nil
	for i := range b.shown[r.Step] {
		if s := &b.shown[r.Step][i]; slices.Equal(s.Iteration, path) && (r.record == nil || s.Seq > r.record.Seq) {
			r.record = s
		}
	}
	last := b.lastIn(path)
	switch {
	case r.record != nil:
		r.State = string(r.record.State)
	case b.anyIn(r, path):
		r.State = string(flow.OutlineCompleted) // at least one step of the block has run
	case last != nil && (last.State != courier.StepFailed || r.Step < last.Step) && strings.EqualFold(r.Type, flow.TypeIf) && b.reached(r, path):
		r.State = string(flow.OutlineCompleted) // the condition was false
	case last == nil, last.State == courier.StepFailed && r.Step > last.Step && !b.otherBranch(r, last.Step):
		r.State = string(flow.OutlinePending)
	default:
		r.State = string(flow.OutlineNotTaken)
	}
}

// anyIn reports whether the iteration has a record of a step in the block that an entry begins.
func (b *builder) anyIn(r *Row, path []int) bool {
	end := b.tree.End(r.Step)
	if strings.EqualFold(r.Type, flow.TypeElse) || strings.EqualFold(r.Type, flow.TypeRescue) {
		end = b.tree.End(r.parent)
	}
	return b.anyBetween(r.Step, end, path)
}

// reached reports whether a condition in a past item was evaluated. It was if it lies in no branch,
// or in a branch of which a step has run.
func (b *builder) reached(r *Row, path []int) bool {
	block := r.parent
	if block < 0 || !strings.EqualFold(b.steps[block].Type, flow.TypeIf) {
		return true
	}
	first, end := block, b.tree.End(block)
	for i := block + 1; i < end; i++ {
		if b.steps[i].Parent == block && strings.EqualFold(b.steps[i].Type, flow.TypeElse) {
			if i < r.Step {
				first = i
			} else {
				end = i
			}
			break
		}
	}
	return b.anyBetween(first, end, path)
}

// anyBetween reports whether the iteration has a record of a step between two entries.
func (b *builder) anyBetween(first, end int, path []int) bool {
	for i := first + 1; i < end; i++ {
		if slices.ContainsFunc(b.shown[i], func(s courier.StepExecution) bool { return within(s.Iteration, path) }) {
			return true
		}
	}
	return false
}

// within reports whether an iteration is the iteration of path, or lies in it.
func within(iteration, path []int) bool {
	return len(iteration) >= len(path) && slices.Equal(iteration[:len(path)], path)
}

// lastIn returns the last record in an iteration. It is nil if there is none.
func (b *builder) lastIn(path []int) (last *courier.StepExecution) {
	for _, list := range b.shown {
		for i := range list {
			if within(list[i].Iteration, path) && (last == nil || list[i].Seq > last.Seq) {
				last = &list[i]
			}
		}
	}
	return last
}

// otherBranch reports whether an entry begins or lies in the other branch of a condition than an
// earlier step.
func (b *builder) otherBranch(r *Row, step int) bool {
	for at := r.Step; at >= 0; at = b.steps[at].Parent {
		block := b.steps[at].Parent
		if block < 0 || block > step || !strings.EqualFold(b.steps[block].Type, flow.TypeIf) {
			continue
		}
		for i := step + 1; i <= r.Step; i++ {
			if b.steps[i].Parent == block && strings.EqualFold(b.steps[i].Type, flow.TypeElse) {
				return true
			}
		}
	}
	return false
}

// isPresent reports whether the execution is in the iteration.
func (b *builder) isPresent(path []int) bool {
	return within(b.x.Position.Iteration(), path)
}

// shownPath returns the iterations that the rows show of nested loops, the outermost first: the
// ones that the address names, and then the present or the last ones.
func (b *builder) shownPath(loops []int) (path []int) {
	ch := b.chosenIn(loops)
	named := ch != nil // the iterations so far are the chosen ones
	for level, loop := range loops {
		at := 0
		switch now := b.x.Position.Iteration(); {
		case named && level < len(ch.loops) && ch.loops[level] == loop:
			at = ch.path[level]
		case named && level > 0 && !b.isPresent(path):
			at = b.lastItem(loop, path)
		case level < len(now) && level < len(b.x.Position.Loops) && b.x.Position.Loops[level].Step == loop:
			at = now[level]
		default:
			if s := b.steps[loop].Items; s != nil {
				at = max(0, s.Total-1)
			}
		}
		named = named && level < len(ch.loops) && ch.loops[level] == loop || named && level >= len(ch.loops)
		path = append(path, at)
	}
	return path
}

// lastItem returns the last item of a loop that has a record, within an iteration of the loops
// around it.
func (b *builder) lastItem(loop int, outer []int) (last int) {
	for i := loop + 1; i < b.tree.End(loop); i++ {
		for _, s := range b.shown[i] {
			if within(s.Iteration, outer) && len(s.Iteration) > len(outer) {
				last = max(last, s.Iteration[len(outer)])
			}
		}
	}
	return last
}
