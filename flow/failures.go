package flow

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/courierhq/courier"
)

// FailedItems returns the failed items of a loop, in order: for each item the record
// of the attempt that failed it. If an item failed because of an inner loop, that is
// the record of the first attempt that failed an item of the inner loop. Outer are
// the iterations of the loops around the loop. Failures are records with a
// FailedLoop, in any order.
func (t *Tree) FailedItems(marker int, outer []int, failures []courier.StepExecution) []courier.StepExecution {
	items := make(map[int]*courier.StepExecution)
	for i := range failures {
		r := &failures[i]
		if !startsWith(r.Iteration, outer) || !t.fails(r, marker, nil) {
			continue
		}
		index := r.Iteration[len(outer)]
		if b := items[index]; b == nil || t.tells(r, b, marker) {
			items[index] = r
		}
	}
	list := make([]courier.StepExecution, 0, len(items))
	for _, r := range items {
		list = append(list, *r)
	}
	slices.SortFunc(list, func(a, b courier.StepExecution) int {
		return cmp.Compare(a.Iteration[len(outer)], b.Iteration[len(outer)])
	})
	return list
}

// startsWith reports whether a path leads into an item of a loop in the iterations outer
// of the loops around it.
func startsWith(path, outer []int) bool {
	return len(path) > len(outer) && slices.Equal(path[:len(outer)], outer)
}

// tells reports whether a failure says more of a failed item than another one: that of
// the item itself, the last one, before those of inner loops, the first one.
func (t *Tree) tells(r, than *courier.StepExecution, marker int) bool {
	own, other := *r.FailedLoop == marker, *than.FailedLoop == marker
	if own != other {
		return own
	}
	return own == (r.Seq > than.Seq)
}

// Fails reports whether a failure in an item of a loop, or in a loop within that item,
// made the item fail. A failed item of an inner loop does not if the inner loop accepts
// failed items.
func (t *Tree) Fails(r *courier.StepExecution, marker int) bool { return t.fails(r, marker, nil) }

// FailsAt is Fails at a position: the failed items of an inner loop that is open there
// have not failed the item around it yet.
func (t *Tree) FailsAt(p courier.Position, r *courier.StepExecution, marker int) bool {
	return t.fails(r, marker, func(inner int) bool { return t.isOpen(p, r, inner) })
}

// fails reports whether a failure makes an item of a loop fail: it is that of the item
// itself, or of an item of an inner loop that does not accept failed items. Open
// reports whether a loop of that kind around the failure is not over yet; nil if all
// are.
func (t *Tree) fails(r *courier.StepExecution, marker int, open func(marker int) bool) bool {
	if r.FailedLoop == nil || len(r.Iteration) != len(t.Loops(r.Step)) {
		return false
	}
	at, ok := *r.FailedLoop, true
	for ok && at > marker {
		b := t.loopAt(at)
		if b == nil || b.policy == nil || b.policy.Complete || open != nil && open(at) {
			return false
		}
		if h, ok := t.Handler(at, courier.ReasonItems); ok && h.Rescue {
			return false // which the inner loop has come to
		}
		at, ok = t.policyAround(at)
	}
	return ok && at == marker && slices.Contains(t.Loops(r.Step), marker)
}

// policyAround returns the innermost loop with a policy around entry i.
func (t *Tree) policyAround(i int) (marker int, ok bool) {
	for at := t.loopOf(i); at >= 0; at = t.loopAround(t.blocks[at]) {
		if b := t.blocks[at]; b.policy != nil {
			return b.open, true
		}
	}
	return 0, false
}

// Recount returns p with new numbers of failed and rescued items of its open loops. Failures
// are the records with a FailedLoop or a Rescue that are left after repairs, in any order;
// those up to p count.
func (t *Tree) Recount(p courier.Position, failures []courier.StepExecution) courier.Position {
	p.Loops = slices.Clone(p.Loops)
	path := p.Iteration()
	var before []*courier.StepExecution
	for i := range failures {
		if at, ok := t.PositionOf(&failures[i]); ok && len(p.Loops) > 0 && Compare(at, p) <= 0 {
			before = append(before, &failures[i])
		}
	}
	for n := range p.Loops {
		l := &p.Loops[n]
		l.Failed, l.ItemFailed, l.Rescued = 0, false, 0
		if b := t.blocks[t.entries[l.Step].block]; p.Step != b.end {
			l.Rescue = b.inRescue(p.Step)
		}
		if !t.ItemPolicy(l.Step).Continue {
			continue
		}
		failed := make(map[int]bool)
		for _, r := range before {
			open := func(marker int) bool { return t.isOpen(p, r, marker) }
			if startsWith(r.Iteration, path[:n]) && t.fails(r, l.Step, open) {
				failed[r.Iteration[n]] = true
			}
		}
		l.Failed, l.ItemFailed = len(failed), failed[l.Index]
		for _, r := range t.RescuedItems(p, failures, failures) {
			if *r.Rescue == l.Step && startsWith(r.Iteration, path[:n]) {
				l.Rescued++
			}
		}
	}
	return p
}

// RescuedItems returns for each item of a loop that was rescued before a position the last of
// the records with which its rescue began, in their order. Failures are records with a
// FailedLoop: an item whose rescue has failed is not rescued.
func (t *Tree) RescuedItems(at courier.Position, rescues, failures []courier.StepExecution) []courier.StepExecution {
	last := make(map[string]int)
	var list []courier.StepExecution
	for i := range rescues {
		r := &rescues[i]
		if r.Rescue == nil || t.loopAt(*r.Rescue) == nil || !t.rescueEnded(at, r, failures) {
			continue
		}
		d := len(t.Loops(*r.Rescue)) + 1
		item := fmt.Sprint(*r.Rescue, r.Iteration[:d])
		if n, known := last[item]; known {
			list[n] = *r
			continue
		}
		last[item] = len(list)
		list = append(list, *r)
	}
	return list
}

// rescueEnded reports whether the rescue of the item of a loop that began with a record is
// over at a position, and has not failed.
func (t *Tree) rescueEnded(at courier.Position, r *courier.StepExecution, failures []courier.StepExecution) bool {
	d := len(t.Loops(*r.Rescue)) + 1
	pos, ok := t.PositionOf(r)
	if !ok || len(pos.Loops) < d {
		return false
	}
	end := courier.Position{Step: t.End(*r.Rescue), Loops: pos.Loops[:d]}
	if Compare(end, at) > 0 || Compare(end, at) == 0 && at.Loops[d-1].Rescue {
		return false
	}
	return !slices.ContainsFunc(failures, func(f courier.StepExecution) bool {
		return f.FailedLoop != nil && len(f.Iteration) >= d && slices.Equal(f.Iteration[:d], r.Iteration[:d]) && t.fails(&f, *r.Rescue, nil)
	})
}

// isOpen reports whether the loop with a marker in which a record was written is open
// at p.
func (t *Tree) isOpen(p courier.Position, r *courier.StepExecution, marker int) bool {
	n := slices.IndexFunc(p.Loops, func(l courier.LoopPosition) bool { return l.Step == marker })
	return n >= 0 && len(r.Iteration) >= n && slices.Equal(p.Iteration()[:n], r.Iteration[:n])
}
