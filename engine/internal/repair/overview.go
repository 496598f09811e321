package repair

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/store"
)

// maxCountedItems is how many records of failed items are counted by loop.
const maxCountedItems = 1000

// Overview returns the latest record of each step in the present attempt, with the
// indexes of the present version, and how many items of loops have failed, by loop.
func (h *History) Overview(ctx context.Context) (latest []courier.StepExecution, failed map[int]int, err error) {
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
	failed, err = h.failedByLoop(ctx)
	return latest, failed, err
}

// failedByLoop counts the items that have failed and were not repaired, by loop.
func (h *History) failedByLoop(ctx context.Context) (map[int]int, error) {
	x := h.Execution
	if x.FailedItems == 0 {
		return nil, nil
	}
	counting := make(map[int]bool)
	for i := range h.Tree.Len() {
		if marker, ok := h.Tree.CountingLoop(i); ok && !h.Tree.InFinally(i) {
			counting[marker] = true
		}
	}
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
