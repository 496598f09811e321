package repair

import (
	"context"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

// A Pass executes failed items again, one after the other; then the execution goes on
// behind them.
type Pass struct {
	Targets []Failure
	Then    courier.Position

	// History has read the failures, and does not read them again.
	History *History

	tree *flow.Tree
	left []courier.StepExecution // failures that are left besides the targets
}

// Current returns the last pass of the execution.
func (h *History) Current(ctx context.Context) (*Pass, error) {
	targets, err := h.Targets(ctx)
	if err != nil || len(targets) == 0 {
		return nil, err
	}
	left, err := h.left(ctx)
	passes := h.passes()
	return &Pass{Targets: targets, Then: passes[len(passes)-1].Then, History: h, tree: h.Tree, left: append(records(left), h.rescues()...)}, err
}

// Begin returns the repairs of the execution with a new pass, and the pass: for the Items,
// Rescued and Rescue of what, or for all failed items. The Seq of what is the number of the
// execution's last audit entry, and its Then is where the execution stands: at its end, or at
// a loop that was given up. The pass is nil if no such item has failed.
func (h *History) Begin(ctx context.Context, what courier.RepairPass) (*courier.Repairs, *Pass, error) {
	left, err := h.left(ctx)
	if err != nil {
		return nil, nil, err
	}
	what.Then = h.then(append(h.counted(left), h.again(&what)...), &what)
	targets := h.targetsOf(&what, left)
	if len(targets) == 0 {
		return nil, nil, nil
	}
	now, x := *h, *h.Execution
	x.Repairs = h.with(what)
	now.Execution = &x
	left = slices.DeleteFunc(left, func(f Failure) bool { return h.covers(&what, &f) })
	return x.Repairs, &Pass{Targets: targets, Then: what.Then, History: h, tree: h.Tree, left: append(records(left), now.rescues()...)}, nil
}

// then is where an execution goes on after its items: where it stands, or behind the
// first loop of which an item is repaired and that has after_repair: rerun.
func (h *History) then(left []Failure, pass *courier.RepairPass) courier.Position {
	for i := range left {
		f := &left[i]
		if !h.Tree.ItemPolicy(f.Item.Loop).Rerun || len(pass.Items)+len(pass.Rescued) > 0 && !contains(pass.Items, f.Item) && !contains(pass.Rescued, f.in(f.Loop())) {
			continue
		}
		d := depth(f.Position.Loops, f.Item.Loop)
		return courier.Position{Step: h.Tree.End(f.Item.Loop) + 1, Loops: slices.Clone(f.Position.Loops[:d-1])}
	}
	return pass.Then
}

// with returns the repairs of the execution and one more pass.
func (h *History) with(pass courier.RepairPass) *courier.Repairs {
	var repairs courier.Repairs
	if r := h.Execution.Repairs; r != nil {
		repairs = *r
	}
	repairs.Passes = append(slices.Clip(repairs.Passes), pass)
	return &repairs
}

// A Return is what an execution that goes back to an earlier position has then.
type Return struct {
	Repairs *courier.Repairs
	// Position is the earlier one, with the failed items of the open loops that are left.
	Position courier.Position
	// Failed is how many of the failed items are left, those before the position, and
	// Accepted how many of these are accepted.
	Failed, Accepted int
	// Rescued is how many items were rescued before the position. RescueFails says that the
	// execution fails at its end because of a rescue before it.
	Rescued     int
	RescueFails bool
}

// Back returns what an execution has that goes back to an earlier position. Seq is the
// number of its last audit entry.
func (h *History) Back(ctx context.Context, seq int64, from courier.Position) (Return, error) {
	back := *h
	x := *h.Execution
	x.Repairs = h.with(courier.RepairPass{Seq: seq, From: &from, Then: from})
	back.Execution = &x
	left, err := back.left(ctx)
	if err != nil {
		return Return{}, err
	}
	rescues := back.rescues()
	r := Return{Repairs: x.Repairs, Position: h.Tree.Recount(from, append(records(left), rescues...))}
	r.Failed, r.Accepted = back.Count(left, from)
	r.Rescued = len(h.Tree.RescuedItems(from, rescues, records(left)))
	r.RescueFails = slices.ContainsFunc(rescues, func(r courier.StepExecution) bool { return h.Tree.RescueFails(*r.Rescue) })
	return r, nil
}

// Count returns how many outermost items have failed at a position, and how many of those
// are accepted.
func (h *History) Count(left []Failure, at courier.Position) (failed, accepted int) {
	for _, f := range perItem(h.Tree, left, at) {
		failed++
		if h.Tree.Accepts(f.Item.Loop) {
			accepted++
		}
	}
	return failed, accepted
}

// Executes reports whether an entry may be executed in the pass, or when it is over.
func (p *Pass) Executes(entry int) bool {
	return entry >= p.Then.Step || slices.ContainsFunc(p.Targets, func(f Failure) bool {
		return f.Position.Step <= entry && entry < p.tree.End(f.Loop())
	})
}

// Record takes note of an attempt with which an item has failed since the pass began.
func (p *Pass) Record(r courier.StepExecution) { p.left = append(p.left, r) }

// Failed reports whether the outermost item of a target has failed again.
func (p *Pass) Failed(target int) bool {
	item := p.Targets[target].Item
	return slices.ContainsFunc(p.left, func(r courier.StepExecution) bool {
		return p.tree.Fails(&r, item.Loop) && slices.Equal(r.Iteration[:len(item.Iteration)], item.Iteration)
	})
}

// Counted reports whether the outermost item of a target counts as failed because of it, or of
// another target in it: not if an inner loop accepts what has failed.
func (p *Pass) Counted(target int) bool {
	item := p.Targets[target].Item
	return slices.ContainsFunc(p.Targets, func(f Failure) bool { return SameItem(f.Item, item) && p.tree.Fails(&f.Record, item.Loop) })
}

// Next returns the number of the target after one that is over, and whether the outermost
// item of that one is over. Targets in an item that was executed to its end, or that has
// failed again, are left out.
func (p *Pass) Next(target int) (next int, over bool) {
	for next = target + 1; next < len(p.Targets) && SameItem(p.Targets[target].Item, p.Targets[next].Item); next++ {
		r := &p.Targets[next].Record
		if !p.inItem(r, &p.Targets[target].Record) && !slices.ContainsFunc(p.left, func(f courier.StepExecution) bool { return p.inItem(r, &f) }) {
			return next, false
		}
	}
	return next, true
}

// inItem reports whether a record lies in the item that a failure has ended.
func (p *Pass) inItem(r, failure *courier.StepExecution) bool {
	if failure.FailedLoop == nil {
		return false // what was rescued has not ended its item
	}
	d := slices.Index(p.tree.Loops(r.Step), *failure.FailedLoop) + 1
	return d > 0 && slices.Equal(r.Iteration[:d], failure.Iteration[:d])
}

// Position returns where a target is executed, or where the execution goes on if
// there is no such target. The failed items of its loops are those that are left before
// it.
func (p *Pass) Position(target int) courier.Position {
	at := p.Then
	if target < len(p.Targets) {
		at = p.Targets[target].Position
	}
	return p.tree.Recount(at, p.left)
}
