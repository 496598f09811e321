package flow

import (
	"cmp"
	"slices"

	"github.com/courierhq/courier"
)

// InScope reports whether the outputs in the record s can be referred to at p. S is
// the latest record of its step. Its step must lie before p, in the finally part if p does and
// only then, and s must belong to the
// current iteration of the loops that are open at p, and to the last iteration of the
// loops that have ended. When an execution is continued at p, these are its values.
func (t *Tree) InScope(p courier.Position, s *courier.StepExecution) bool {
	if s.Step < 0 || s.Step >= len(t.steps) || s.Step >= p.Step || t.InFinally(s.Step) != t.InFinally(p.Step) {
		return false
	}
	loops := t.Loops(s.Step)
	if len(s.Iteration) != len(loops) {
		return false
	}
	for n, marker := range loops {
		switch {
		case n < len(p.Loops) && p.Loops[n].Step == marker:
			if s.Iteration[n] != p.Loops[n].Index {
				return false
			}
		case n < len(s.Total) && s.Iteration[n] != s.Total[n]-1:
			return false
		}
	}
	return true
}

// Scope returns which records of an execution are in scope at p: at most one record
// of each step, in the order of the steps. Null are the loops whose last item has
// failed, so that the outputs of all their steps are null.
//
// The records are in any order, and may be several of one step; of those in scope,
// the one with the highest Seq counts. They must include the latest record of each
// step, and the record with which the last item of a loop failed. Passes are the
// repairs of the execution. A record before a pass is out of scope if it is at or
// after the position where the pass goes on.
//
// If a record is older than that of an earlier step, it was written before a loop was
// started again, and the loop then took another branch: the record is out of scope.
// This does not hold if a pass began between the two records, because a pass executes
// an item again and keeps what follows the loop.
func (t *Tree) Scope(p courier.Position, records []courier.StepExecution, passes []courier.RepairPass) (inScope []*courier.StepExecution, null []int) {
	s := scoping{tree: t, at: p, passes: passes, newest: make(map[int]*courier.StepExecution)}
	for i := range records {
		if r := &records[i]; !s.undone(r) {
			s.noteItems(r)
			if t.InScope(p, r) && t.Works(r.Step) { // the record of a loop that was given up is newer than those in it
				inScope = append(inScope, r)
			}
		}
	}
	for marker, r := range s.newest {
		if r.FailedLoop != nil && *r.FailedLoop == marker {
			null = append(null, marker)
		}
	}
	slices.Sort(null)
	slices.SortFunc(inScope, func(a, b *courier.StepExecution) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(b.Seq, a.Seq))
	})
	inScope = slices.CompactFunc(inScope, func(a, b *courier.StepExecution) bool { return a.Step == b.Step })
	newest := make([]int64, len(passes)+1) // for each pass, and before the first one
	inScope = slices.DeleteFunc(inScope, func(r *courier.StepExecution) bool {
		of := &newest[s.passOf(r)]
		if r.Seq < *of {
			return true
		}
		*of = r.Seq
		return s.reads(null, r)
	})
	return inScope, null
}

// A scoping is what Scope needs.
type scoping struct {
	tree   *Tree
	at     courier.Position
	passes []courier.RepairPass
	newest map[int]*courier.StepExecution // of the item of a loop that is seen at the position, by marker
}

// undone reports whether a pass has gone back to before a record.
func (s *scoping) undone(r *courier.StepExecution) bool {
	if len(s.passes) == 0 {
		return false
	}
	at, ok := s.tree.PositionOf(r)
	return ok && slices.ContainsFunc(s.passes, func(p courier.RepairPass) bool {
		return r.Seq <= p.Seq && (Compare(at, p.Then) >= 0 || p.From != nil && Compare(at, *p.From) >= 0)
	})
}

// passOf is the number of passes that began before a record was written.
func (s *scoping) passOf(r *courier.StepExecution) (n int) {
	for i := range s.passes {
		if s.passes[i].Seq < r.Seq {
			n++
		}
	}
	return n
}

// noteItems takes note of a record for each loop around it whose item is the one that is
// seen at the position: the last one of a loop that is over, or the present one of a
// loop at whose flow.end the position is.
func (s *scoping) noteItems(r *courier.StepExecution) {
	if r.Step < 0 || r.Step >= len(s.tree.steps) || r.Step >= s.at.Step || s.tree.InFinally(r.Step) != s.tree.InFinally(s.at.Step) {
		return
	}
	loops := s.tree.Loops(r.Step)
	if len(r.Iteration) != len(loops) {
		return
	}
	for n, marker := range loops {
		open := n < len(s.at.Loops) && s.at.Loops[n].Step == marker
		switch {
		case open && r.Iteration[n] != s.at.Loops[n].Index:
			return
		case open && s.tree.End(marker) != s.at.Step:
			continue
		case !open && n < len(r.Total) && r.Iteration[n] != r.Total[n]-1:
			return
		}
		if b := s.newest[marker]; b == nil || b.Seq < r.Seq {
			s.newest[marker] = r
		}
	}
}

// reads reports whether a record lies in one of the loops.
func (s *scoping) reads(loops []int, r *courier.StepExecution) bool {
	return len(loops) > 0 && slices.ContainsFunc(s.tree.Loops(r.Step), func(marker int) bool {
		_, found := slices.BinarySearch(loops, marker)
		return found
	})
}

// PositionOf returns the position at which the step of a record ran. If the record
// does not fit the tree, ok is false.
func (t *Tree) PositionOf(r *courier.StepExecution) (p courier.Position, ok bool) {
	if r.Step < 0 || r.Step >= len(t.steps) {
		return p, false
	}
	loops := t.Loops(r.Step)
	if len(loops) != len(r.Iteration) {
		return p, false
	}
	p.Step = r.Step
	for n, marker := range loops {
		p.Loops = append(p.Loops, courier.LoopPosition{Step: marker, Index: r.Iteration[n]})
	}
	return p, true
}
