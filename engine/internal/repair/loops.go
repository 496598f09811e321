package repair

import (
	"context"
	"slices"
	"strconv"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/flow"
)

// RestoreLoops sets the values of loops that are over where a walk stands. Vals are the
// values of the walk.
func (h *History) RestoreLoops(ctx context.Context, walk *flow.Walk, vals *program.Values) error {
	if !h.Tree.HasItemPolicies() {
		return nil
	}
	var left []Failure
	if h.Execution.FailedItems > 0 {
		var err error
		if left, err = h.Failures(ctx); err != nil {
			return err
		}
	}
	pos := walk.Position()
	for marker := range min(pos.Step, h.Tree.Len()) {
		if !h.Tree.ItemPolicy(marker).Continue || h.Tree.End(marker) >= pos.Step {
			continue
		}
		count, err := walk.Count(marker)
		if err != nil || count > 0 && !vals.HasAny(marker+1, h.Tree.End(marker)-1) {
			continue // it was in a branch that was not taken
		}
		failed := h.itemsOf(left, marker, walk.Iteration())
		vals.SetLoop(marker, count, len(failed), func() []program.FailedItem { return failed })
	}
	return nil
}

// FailedItems returns the failed items of a loop in the present iteration of the loops
// around it, at most 1,000.
func (h *History) FailedItems(ctx context.Context, marker int, iteration []int) ([]program.FailedItem, error) {
	left, err := h.Failures(ctx)
	return h.itemsOf(left, marker, iteration), err
}

// itemsOf returns the items of a loop that the failures belong to, each with its first
// failure.
func (h *History) itemsOf(left []Failure, marker int, iteration []int) []program.FailedItem {
	const most = 1000
	outer := len(h.Tree.Loops(marker))
	if len(iteration) < outer {
		return nil
	}
	var list []program.FailedItem
	for i := range left {
		f := &left[i]
		if !slices.ContainsFunc(f.Position.Loops, func(l courier.LoopPosition) bool { return l.Step == marker }) ||
			!slices.Equal(f.Record.Iteration[:outer], iteration[:outer]) || len(f.Record.Iteration) <= outer {
			continue
		}
		index := f.Record.Iteration[outer]
		if n := len(list); n > 0 && list[n-1].Index == index {
			continue
		}
		step := f.Record.ID
		if step == "" {
			step = strconv.Itoa(f.Record.Step)
		}
		if list = append(list, program.FailedItem{Index: index, Step: step, Class: f.Record.Reason, Message: f.Record.Error}); len(list) == most {
			break
		}
	}
	return list
}
