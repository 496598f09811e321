package repair

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/history"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/store"
)

// maxCountedItems is how many records of failed items are counted by loop.
const maxCountedItems = 1000

// Overview returns the latest record of each step in the present attempt, with the
// indexes of the present version, and what [flow.Tree.Outline] needs of the items of loops.
func (h *History) Overview(ctx context.Context) (latest []courier.StepExecution, counted map[int]flow.ItemStates, err error) {
	all, err := h.latest(ctx, 0)
	if err != nil {
		return nil, nil, err
	}
	for i := range all {
		if r, ok := flow.MapRecord(&all[i], h.changes()); ok {
			latest = append(latest, r)
		}
	}
	store.SetVersions(h.Execution, latest)
	failed, err := h.failedByLoop(ctx)
	if err != nil {
		return nil, nil, err
	}
	counted = make(map[int]flow.ItemStates)
	for loop, n := range failed {
		counted[loop] = flow.ItemStates{Failed: n}
	}
	return latest, counted, h.countFinally(ctx, counted)
}

// countFinally counts the items of loops in the finally part that have failed or were rescued
// in the last pass through that, by loop.
func (h *History) countFinally(ctx context.Context, counted map[int]flow.ItemStates) error {
	x := h.Execution
	if x.Finishing == nil && !x.State.Ended() {
		return nil
	}
	for loop := range h.counting(true) {
		last, err := h.lastBegun(ctx, loop)
		if err != nil {
			return err
		}
		if last == 0 {
			continue
		}
		part := History{Archive: h.Archive, Tree: h.Tree, Execution: x, Finally: last}
		all, err := part.all(ctx)
		if err != nil {
			return err
		}
		failed := make(map[string]bool)
		for i := range all {
			if f := &all[i]; f.Item.Loop == loop && h.Tree.Fails(&f.Record, loop) {
				failed[history.Place(loop, f.Item.Iteration)] = true
			}
		}
		counts := flow.ItemStates{Failed: len(failed)}
		end := courier.Position{Step: h.Tree.Len()} // behind all that has a record
		for _, r := range h.Tree.RescuedItems(end, part.rescues(), records(all)) {
			if *r.Rescue == loop {
				counts.Rescued++
			}
		}
		counted[loop] = counts
	}
	return nil
}

// lastBegun is a number below those of the records of a loop in the last pass through the
// finally part, and not below those of the pass before; 0 if no item of the loop has begun.
func (h *History) lastBegun(ctx context.Context, loop int) (seq int64, err error) {
	if f := h.Execution.Finishing; f != nil {
		return f.Seq, nil
	}
	first := courier.ItemPath{Loop: loop, Iteration: make([]int, len(h.Tree.Loops(loop))+1)}
	var before courier.StepExecution
	filter := store.StepFilter{Item: &first, ItemEnd: h.Tree.End(loop), Brief: true}
	err = h.each(ctx, filter, func(r *courier.StepExecution) {
		at, _ := h.Tree.PositionOf(r)
		was, _ := h.Tree.PositionOf(&before)
		if c := flow.Compare(at, was); seq == 0 || c < 0 || c == 0 && r.Attempt <= before.Attempt {
			seq = r.Seq - 1
		}
		before = *r
	})
	return seq, err
}

// counting are the loops whose items count as failed, of the finally part or of the steps before.
func (h *History) counting(inFinally bool) map[int]bool {
	counting := make(map[int]bool)
	for i := range h.Tree.Len() {
		if marker, ok := h.Tree.CountingLoop(i); ok && h.Tree.InFinally(i) == inFinally {
			counting[marker] = true
		}
	}
	return counting
}

// failedByLoop counts the items that have failed and were not repaired, by loop.
func (h *History) failedByLoop(ctx context.Context) (map[int]int, error) {
	x := h.Execution
	if x.FailedItems == 0 {
		return nil, nil
	}
	counting := h.counting(false)
	failed := make(map[int]int)
	if len(counting) == 1 {
		for loop := range counting {
			failed[loop] = x.FailedItems
		}
		return failed, nil
	}
	if x.FailedItems <= maxCountedItems {
		left, err := h.Failures(ctx)
		for i := range left {
			failed[left[i].Item.Loop]++
		}
		return failed, err
	}
	page, err := h.Archive.Steps(ctx, store.StepFilter{Execution: x.ID, Attempt: x.Attempt, FailedItems: true, Limit: maxCountedItems})
	for i := range page {
		if r, ok := flow.MapRecord(&page[i], h.changes()); ok && r.FailedLoop != nil && !h.Tree.InFinally(r.Step) {
			failed[*r.FailedLoop]++
		}
	}
	return failed, err
}
