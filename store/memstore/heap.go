package memstore

import (
	"cmp"
	"iter"
)

// A heap holds executions with the first one on top. An execution is in one
// heap at most, and has its heap and its index there.
type heap struct {
	list   []*execution
	before func(a, b *execution) bool
}

// inOrder is the order of claims: by priority, then due time, then id.
func inOrder(a, b *execution) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.DueAt.Compare(b.DueAt), cmp.Compare(a.ID, b.ID))
}

func claimedBefore(a, b *execution) bool { return inOrder(a, b) < 0 }

func dueBefore(a, b *execution) bool { return a.DueAt.Before(b.DueAt) }

func leaseEndsBefore(a, b *execution) bool { return a.LeaseExpiresAt.Before(b.LeaseExpiresAt) }

// top returns the first execution, or nil.
func (h *heap) top() *execution {
	if len(h.list) == 0 {
		return nil
	}
	return h.list[0]
}

func (h *heap) push(x *execution) {
	x.in, x.index = h, len(h.list)
	h.list = append(h.list, x)
	h.up(x.index)
}

// remove takes x out of the heap.
func (h *heap) remove(x *execution) {
	i, last := x.index, len(h.list)-1
	h.swap(i, last)
	h.list[last] = nil
	h.list = h.list[:last]
	x.in = nil
	if i < last {
		h.fix(i)
	}
}

// fix restores the order after the execution at i changed.
func (h *heap) fix(i int) {
	if !h.down(i) {
		h.up(i)
	}
}

func (h *heap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.before(h.list[i], h.list[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

// down reports whether the execution at i moved.
func (h *heap) down(i int) bool {
	start := i
	for {
		first := 2*i + 1
		if first >= len(h.list) {
			break
		}
		if second := first + 1; second < len(h.list) && h.before(h.list[second], h.list[first]) {
			first = second
		}
		if !h.before(h.list[first], h.list[i]) {
			break
		}
		h.swap(i, first)
		i = first
	}
	return i > start
}

func (h *heap) swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].index, h.list[j].index = i, j
}

// while yields, in no order, the executions for which ok holds, if it holds for
// each that comes before one of them.
func (h *heap) while(ok func(*execution) bool) iter.Seq[*execution] {
	return func(yield func(*execution) bool) {
		var walk func(i int) bool
		walk = func(i int) bool {
			if i >= len(h.list) || !ok(h.list[i]) {
				return true
			}
			return yield(h.list[i]) && walk(2*i+1) && walk(2*i+2)
		}
		walk(0)
	}
}
