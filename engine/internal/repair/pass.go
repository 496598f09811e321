package repair

import (
	"context"
	"slices"

	"github.com/courierhq/courier"
)

// A Pass executes failed items again, one after the other; then the execution goes on
// behind them.
type Pass struct {
	Targets []Failure
	Then    courier.Position
}

// Current returns the last pass of the execution.
func (h *History) Current(ctx context.Context) (*Pass, error) {
	targets, err := h.Targets(ctx)
	if err != nil || len(targets) == 0 {
		return nil, err
	}
	passes := h.passes()
	return &Pass{Targets: targets, Then: passes[len(passes)-1].Then}, nil
}

// Begin returns the repairs of the execution with a new pass for items, or for all
// failed ones, and the pass. Seq is the number of the execution's last audit entry, and
// at is where the execution stands: at its end, or at a loop that was given up. The
// pass is nil if no such item has failed.
func (h *History) Begin(ctx context.Context, items []courier.ItemPath, seq int64, at courier.Position) (*courier.Repairs, *Pass, error) {
	left, err := h.Failures(ctx)
	if err != nil {
		return nil, nil, err
	}
	pass := courier.RepairPass{Seq: seq, Items: items, Then: h.then(left, items, at)}
	targets := h.targetsOf(&pass, left)
	if len(targets) == 0 {
		return nil, nil, nil
	}
	return h.with(pass), &Pass{Targets: targets, Then: pass.Then}, nil
}

// then is where an execution goes on after its items: where it stands, or behind the
// first loop of which an item is repaired and that has after_repair: rerun.
func (h *History) then(left []Failure, items []courier.ItemPath, at courier.Position) courier.Position {
	for i := range left {
		f := &left[i]
		if !h.Tree.ItemPolicy(f.Item.Loop).Rerun || len(items) > 0 && !slices.ContainsFunc(items, func(i courier.ItemPath) bool { return SameItem(i, f.Item) }) {
			continue
		}
		d := depth(f.Position.Loops, f.Item.Loop)
		return courier.Position{Step: h.Tree.End(f.Item.Loop) + 1, Loops: slices.Clone(f.Position.Loops[:d-1])}
	}
	return at
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
	r := Return{Repairs: x.Repairs, Position: h.Tree.Recount(from, records(left))}
	r.Failed, r.Accepted = back.Count(back.counted(left))
	return r, nil
}

// Count returns how many outermost items the failures belong to, and how many of those
// are accepted.
func (h *History) Count(left []Failure) (failed, accepted int) {
	for i := range left {
		if i > 0 && SameItem(left[i-1].Item, left[i].Item) {
			continue // they are in the order of a walk
		}
		failed++
		if h.Tree.ItemPolicy(left[i].Item.Loop).Complete {
			accepted++
		}
	}
	return failed, accepted
}

// Last reports whether target number i, from 0, is the last one of its outermost item.
func (p *Pass) Last(i int) bool {
	return i+1 == len(p.Targets) || !SameItem(p.Targets[i].Item, p.Targets[i+1].Item)
}

// Position returns where target number i is executed, or where the execution goes on if
// there is no such target. At is where the execution stands. The number of failed items
// of the loop that the execution goes on in is carried along.
func (p *Pass) Position(i int, at courier.Position) courier.Position {
	pos := p.Then
	if i < len(p.Targets) {
		pos = p.Targets[i].Position
	}
	pos.Loops = slices.Clone(pos.Loops)
	d := len(p.Then.Loops)
	if d == 0 || !p.shares(pos, d) {
		return pos
	}
	pos.Loops[d-1].Failed = p.Then.Loops[d-1].Failed
	if p.shares(at, d) {
		pos.Loops[d-1].Failed = at.Loops[d-1].Failed
	}
	return pos
}

// shares reports whether a position lies in the loop, d deep, that the execution goes on
// in.
func (p *Pass) shares(pos courier.Position, d int) bool {
	return len(pos.Loops) >= d && pos.Loops[d-1].Step == p.Then.Loops[d-1].Step && samePath(pos.Loops[:d-1], p.Then.Loops[:d-1])
}

// Carried is the index of the loop in the position's loops whose number of failed items
// an item of it that is repaired lowers; -1 if there is none.
func (p *Pass) Carried(at courier.Position) int {
	if d := len(p.Then.Loops); d > 0 && p.shares(at, d) {
		return d - 1
	}
	return -1
}
