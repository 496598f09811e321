package flow

import (
	"slices"

	"github.com/courierhq/courier"
)

// An OutlineState is the state of an entry of a job in an execution.
type OutlineState string

// The states of entries. A block is running from its start to its end, and fails with the
// execution.
const (
	OutlinePending   OutlineState = "pending"
	OutlineRunning   OutlineState = "running"
	OutlineCompleted OutlineState = "completed"
	OutlineFailed    OutlineState = "failed"
	OutlineSkipped   OutlineState = "skipped"
	OutlineNotTaken  OutlineState = "not_taken" // in a branch that was not taken, or in a loop without items
)

// An Outlined is an entry of a job with its state in an execution. In a loop it is the
// state in the present iteration, or in the last one if the loop has ended.
type Outlined struct {
	Step   int          `json:"step"`
	Parent int          `json:"parent"` // the index of the marker of the block around it; -1 for none
	Depth  int          `json:"depth"`  // how many blocks are around it
	ID     string       `json:"id,omitempty"`
	Type   string       `json:"type"`
	State  OutlineState `json:"state"`
	// Record is the latest record of a step in that iteration, without its outputs; nil if
	// there is none.
	Record *courier.StepExecution `json:"record,omitempty"`
	Items  *ItemStates            `json:"items,omitempty"` // of a flow.foreach that has begun
}

// ItemStates counts the iterations of a loop by state. Total is 0 until a step of the
// loop has ended or is running.
type ItemStates struct {
	Total     int `json:"total"`
	Pending   int `json:"pending"`
	Running   int `json:"running"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
	// Rescued are those that the loop's rescue has dealt with. For a loop that has ended it is
	// 0 if several loops of the job have a rescue.
	Rescued int `json:"rescued,omitempty"`
}

// Outline returns all entries of the list with their states, in order. Latest are the
// latest records of each step of the execution's present attempt, with indexes of this
// version. Counted has, for loops by index, the Failed that were not repaired; it is needed for
// loops that have ended, and while items are repaired. Of loops in the finally part it has what
// has Failed and was Rescued in the last pass through that.
func (t *Tree) Outline(x *courier.Execution, latest []courier.StepExecution, counted map[int]ItemStates) []Outlined {
	o := &outline{tree: t, x: x, pos: x.Position, state: x.State, counted: counted, records: make(map[int]*courier.StepExecution), list: make([]Outlined, len(t.steps))}
	if f := x.Finishing; f != nil {
		o.pos, o.state = f.Position, f.Outcome
	}
	for i := range latest {
		o.records[latest[i].Step] = &latest[i]
	}
	for i := range o.list {
		o.list[i] = Outlined{Step: i, Parent: -1, ID: t.steps[i].ID, Type: t.steps[i].Type, State: OutlinePending}
	}
	if r := x.Repairs; r != nil && len(r.Passes) > 0 {
		p := &r.Passes[len(r.Passes)-1]
		o.repairs = p.From == nil && Compare(o.pos, p.Then) < 0
	}
	at := phaseHere
	if o.state == courier.Completed {
		at = phasePassed
	}
	o.nodes(&t.root, at, -1, 0, nil)
	o.finally()
	return o.list
}

// finally sets the states of the finally part and of its marker. Records of an earlier pass
// through it don't count.
func (o *outline) finally() {
	if o.tree.finally < 0 {
		return
	}
	at, state := phaseAhead, OutlinePending
	o.repairs = false
	switch f := o.x.Finishing; {
	case f != nil:
		at, state = phaseHere, OutlineRunning
		o.pos, o.state = o.x.Position, o.x.State
		for i, r := range o.records {
			if o.tree.InFinally(i) && r.Seq <= f.Seq {
				delete(o.records, i)
			}
		}
	case o.x.State.Ended() && o.ran(o.tree.finally, o.tree.declared, nil):
		if at, state = phasePassed, OutlineCompleted; o.x.FinallyError != nil {
			state = OutlineFailed
		}
	case o.x.State.Ended():
		at, state = phaseDead, OutlineNotTaken
	}
	o.set(o.tree.finally, -1, 0, state)
	o.nodes(o.tree.last, at, -1, 0, nil)
}

// A phase is where a part of a job lies, as seen from the position.
type phase int

const (
	phaseAhead  phase = iota
	phaseHere         // the position is in it
	phasePassed       // all of it is over
	phaseDead         // it is not executed
)

type outline struct {
	tree    *Tree
	x       *courier.Execution
	pos     courier.Position // of the part that is looked at, and its state
	state   courier.State
	records map[int]*courier.StepExecution
	counted map[int]ItemStates
	repairs bool // failed items are executed again, so that the position says nothing of those before it
	list    []Outlined
}

// nodes sets the states of nodes that lie in a block, in an iteration of the loops around
// them.
func (o *outline) nodes(l *List, at phase, parent, depth int, iteration []int) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *Step:
			o.set(n.index, parent, depth, OutlinePending)
			o.step(n.index, o.phaseOf(at, n.index, n.index), iteration)
		case *If:
			o.branch(n, o.phaseOf(at, n.index, n.End), parent, depth, iteration)
		case *Try:
			o.try(n, o.phaseOf(at, n.index, n.End), parent, depth, iteration)
		case *ForEach:
			o.loop(n, o.phaseOf(at, n.index, n.End), parent, depth, iteration)
		}
	}
}

// phaseOf returns the phase of a node in a list.
func (o *outline) phaseOf(at phase, first, last int) phase {
	switch {
	case at != phaseHere:
		return at
	case last < o.pos.Step:
		return phasePassed
	case first > o.pos.Step || first == o.pos.Step && first < last:
		return phaseAhead // a block at which the execution stands has not begun
	}
	return phaseHere
}

func (o *outline) set(i, parent, depth int, s OutlineState) {
	e := &o.list[i]
	e.Parent, e.Depth, e.State = parent, depth, s
}

// step sets the state of a step.
func (o *outline) step(i int, at phase, iteration []int) {
	e := &o.list[i]
	r := o.records[i]
	if r != nil && !slices.Equal(r.Iteration, iteration) {
		r = nil
	}
	switch at {
	case phaseDead:
		e.State = OutlineNotTaken
		return
	case phasePassed:
		if e.State = OutlineNotTaken; r != nil {
			e.State = OutlineState(r.State)
		}
	case phaseHere:
		switch {
		case o.x.Current != nil && o.x.Current.Step == i:
			e.State = OutlineRunning
		case o.state.Ended() && r != nil && r.State == courier.StepFailed:
			e.State = OutlineFailed
		}
	}
	if r != nil && at != phaseAhead {
		record := *r
		record.Outputs = nil
		e.Record = &record
	}
}

// open is the state of a block that has begun and has not ended.
func (o *outline) open() OutlineState {
	if o.state == courier.Failed {
		return OutlineFailed
	}
	return OutlineRunning
}

// branch sets the states of a flow.if and of all in it.
func (o *outline) branch(n *If, at phase, parent, depth int, iteration []int) {
	els := n.End
	if n.Else != nil {
		els = o.tree.blocks[o.tree.entries[n.index].block].els
	}
	then, otherwise, state := at, at, OutlinePending
	switch at {
	case phaseDead:
		state = OutlineNotTaken
	case phasePassed, phaseHere:
		if state = OutlineCompleted; at == phaseHere {
			state = o.open()
		}
		inThen := o.ran(n.index, els, iteration)
		inElse := o.ran(els, n.End, iteration)
		if at == phaseHere && o.pos.Step < n.End {
			inThen, inElse = o.pos.Step <= els && els > n.index, o.pos.Step > els
		}
		if !inThen {
			then = phaseDead
		}
		if !inElse {
			otherwise = phaseDead
		}
	}
	o.set(n.index, parent, depth, state)
	o.set(n.End, n.index, depth, state)
	o.nodes(n.Then, then, n.index, depth+1, iteration)
	if n.Else != nil {
		s := state
		if otherwise == phaseDead {
			s = OutlineNotTaken
		}
		o.set(els, n.index, depth, s)
		o.nodes(n.Else, otherwise, n.index, depth+1, iteration)
	}
}

// try sets the states of a flow.try and of all in it.
func (o *outline) try(n *Try, at phase, parent, depth int, iteration []int) {
	state := OutlinePending
	switch at {
	case phaseDead:
		state = OutlineNotTaken
	case phasePassed:
		state = OutlineCompleted
	case phaseHere:
		state = o.open()
	}
	o.set(n.index, parent, depth, state)
	o.set(n.End, n.index, depth, state)
	o.nodes(n.Body, at, n.index, depth+1, iteration)
	o.rescue(n.index, n.Rescue, at, state, depth, iteration)
}

// rescue sets the states of the rescue of a block, and of its flow.rescue. State is that of
// the block.
func (o *outline) rescue(open int, l *List, at phase, state OutlineState, depth int, iteration []int) {
	b := o.tree.rescuing(open)
	if b == nil {
		return
	}
	over := at == phasePassed || at == phaseHere && o.pos.Step >= b.end
	switch {
	case over && !o.ran(b.els, b.end, iteration):
		at, state = phaseDead, OutlineNotTaken
	case at == phaseHere && o.pos.Step < b.els:
		state = OutlinePending // it is needed only if the body fails
	}
	o.set(b.els, open, depth, state)
	o.nodes(l, at, open, depth+1, iteration)
}

// ran reports whether a step between two entries has a record in an iteration.
func (o *outline) ran(after, before int, iteration []int) bool {
	for i := after + 1; i < before; i++ {
		if r := o.records[i]; r != nil && len(r.Iteration) >= len(iteration) && slices.Equal(r.Iteration[:len(iteration)], iteration) {
			return true
		}
	}
	return false
}

// loop sets the states of a flow.foreach and of all in it.
func (o *outline) loop(n *ForEach, at phase, parent, depth int, iteration []int) {
	state, inner := OutlinePending, []int(nil)
	level := len(iteration)
	switch at {
	case phaseDead:
		state = OutlineNotTaken
	case phaseHere:
		state = o.open()
		index := 0
		if level < len(o.pos.Loops) {
			index = o.pos.Loops[level].Index
		}
		inner = append(slices.Clone(iteration), index)
		o.list[n.index].Items = o.openItems(n, iteration, level, index)
	case phasePassed:
		state = OutlineCompleted
		last, total := o.extent(n, iteration)
		if last < 0 {
			at = phaseDead
		}
		inner = append(slices.Clone(iteration), last)
		failed := min(total, o.counted[n.index].Failed)
		rescued := min(total-failed, o.rescuedIn(n.index))
		o.list[n.index].Items = &ItemStates{Total: total, Completed: total - failed - rescued, Failed: failed, Rescued: rescued}
	}
	o.set(n.index, parent, depth, state)
	o.set(n.End, n.index, depth, state)
	o.nodes(n.Body, at, n.index, depth+1, inner)
	o.rescue(n.index, n.Rescue, at, state, depth, inner)
}

// rescuedIn is how many items of a loop that has ended were rescued, if it is known.
func (o *outline) rescuedIn(loop int) int {
	if o.tree.InFinally(loop) {
		return o.counted[loop].Rescued
	}
	of := -1
	for _, b := range o.tree.blocks {
		if b.kind == openForEach && b.rescue != nil && !o.tree.InFinally(b.open) {
			if of >= 0 {
				return 0
			}
			of = b.open
		}
	}
	if of != loop {
		return 0
	}
	return o.x.RescuedItems
}

// openItems counts the iterations of a loop in which the position is.
func (o *outline) openItems(n *ForEach, iteration []int, level, index int) *ItemStates {
	_, total := o.extent(n, iteration)
	s := &ItemStates{Total: total, Running: 1, Pending: max(0, total-index-1), Completed: index}
	if level < len(o.pos.Loops) {
		s.Failed, s.Rescued = o.pos.Loops[level].Failed, o.pos.Loops[level].Rescued
	}
	if o.repairs {
		s.Pending, s.Failed = 0, max(0, o.counted[n.index].Failed-1)
		s.Completed = total - 1
	}
	s.Completed = max(0, s.Completed-s.Failed-s.Rescued)
	if o.state == courier.Failed {
		s.Running, s.Failed = 0, s.Failed+1
	}
	return s
}

// extent returns the last iteration of a loop of which there is a record, -1 if there is
// none, and how many iterations the loop has, 0 if that is not known.
func (o *outline) extent(n *ForEach, iteration []int) (last, total int) {
	last = -1
	level := len(iteration)
	look := func(r *courier.StepExecution) {
		if len(r.Iteration) > level && len(r.Total) > level && slices.Equal(r.Iteration[:level], iteration) {
			last, total = max(last, r.Iteration[level]), max(total, r.Total[level])
		}
	}
	for i := n.index + 1; i < n.End; i++ {
		if r := o.records[i]; r != nil {
			look(r)
		}
	}
	if c := o.x.Current; c != nil && c.Step > n.index && c.Step < n.End {
		look(c)
	}
	return last, total
}
