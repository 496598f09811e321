package chaos

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/courierhq/courier"
)

// A corruption makes a history one that cannot have happened, in the place of
// one of its operations; it reports false where it can't be sure to.
type corruption struct {
	name string
	do   func(h *histories, o *operation) bool
}

// histories is one history that is being corrupted. Its operations are copies.
type histories struct{ list []*operation }

var corruptions = []corruption{
	{"an acknowledged write is missing", func(h *histories, o *operation) bool {
		return h.written(o) && h.drop(o)
	}},
	{"an acknowledged write was refused", func(h *histories, o *operation) bool {
		if !h.written(o) {
			return false
		}
		o.Error = leaseLost
		return true
	}},
	{"two writes were made in the other order", func(h *histories, o *operation) bool {
		next := h.next(o)
		if !h.written(o) || next == nil || !h.written(next) {
			return false
		}
		o.Call, o.Return, next.Call, next.Return = next.Call, next.Return, o.Call, o.Return
		return true
	}},
	{"a claim is missing", func(h *histories, o *operation) bool {
		return o.Method == "Claim" && h.used(o) && h.drop(o)
	}},
	{"a claim has another number", func(h *histories, o *operation) bool {
		o.Told.Seq++
		return o.Method == "Claim" && h.used(o) // one that was never answered may have come later
	}},
	{"a claim started nothing", func(h *histories, o *operation) bool {
		was := o.Told.Started
		o.Told.Started = false
		return o.Method == "Claim" && was && h.used(o)
	}},
	{"a claim has another token", func(h *histories, o *operation) bool {
		if o.Method != "Claim" || !h.used(o) {
			return false
		}
		o.Told.Token += "x"
		return true
	}},
	{"a lease was taken over before its end", func(h *histories, o *operation) bool {
		if o.Method != "Claim" {
			return false
		}
		for _, before := range h.list {
			// With a number two higher than the last of the lease before.
			last := before.Told.Seq
			if before.Told.Started {
				last++
			}
			if before.Method == "Claim" && last == o.Told.Seq-2 {
				o.Since = before.Since + int64(before.Lease)/2
				return true
			}
		}
		return false
	}},
	{"a creation is missing", func(h *histories, o *operation) bool {
		return o.Method == "Enqueue" && o.Error == noError && !o.Told.Existed && h.alone(o) && h.drop(o)
	}},
	{"a request that took effect was refused", func(_ *histories, o *operation) bool {
		if o.Method != "Request" || o.Error != noError || o.Told.State == courier.Running {
			return false
		}
		o.Error = refused
		return true
	}},
	{"a request completed the execution", func(_ *histories, o *operation) bool {
		o.Told.State = courier.Completed
		return o.Method == "Request" && o.Error == noError
	}},
	{"a lease that was held could not be renewed", func(h *histories, o *operation) bool {
		if o.Method != "Renew" || o.Error != noError || !slices.ContainsFunc(h.list, func(a *operation) bool {
			return h.written(a) && a.Asked.Token == o.Asked.Token && a.Call > o.Return
		}) {
			return false
		}
		o.Error = leaseLost
		return true
	}},
	{"somebody saw another state", func(_ *histories, o *operation) bool {
		o.Told.State = courier.Created
		return o.Method == "Execution" && o.Error == noError
	}},
	{"one entry more in the end", func(_ *histories, o *operation) bool {
		o.Told.Seq++
		return o.Method == final
	}},
	{"another state in the end", func(_ *histories, o *operation) bool {
		o.Told.State = courier.Paused
		return o.Method == final
	}},
}

func (h *histories) drop(o *operation) bool {
	h.list = slices.DeleteFunc(h.list, func(a *operation) bool { return a == o })
	return true
}

// alone reports whether no other call wanted the same.
func (h *histories) alone(o *operation) bool {
	n := 0
	for _, a := range h.list {
		if a.Method == o.Method && a.Asked == o.Asked {
			n++
		}
	}
	return n == 1
}

// written reports whether o is a transition of which somebody was told that it
// was written, and that no other call can have written.
func (h *histories) written(o *operation) bool {
	return o.Method == "Apply" && o.Error == noError && h.alone(o)
}

// used reports whether something was written under the lease that o claimed.
func (h *histories) used(o *operation) bool {
	return slices.ContainsFunc(h.list, func(a *operation) bool { return h.written(a) && a.Asked.Token == o.Told.Token })
}

// next returns the transition that was written after o under the same lease,
// when o had returned.
func (h *histories) next(o *operation) *operation {
	var later []*operation
	for _, a := range h.list {
		if a.Method == "Apply" && a.Asked.Token == o.Asked.Token && a.Asked.Seq > o.Asked.Seq && a.Call > o.Return {
			later = append(later, a)
		}
	}
	if len(later) == 0 {
		return nil
	}
	return slices.MinFunc(later, func(a, b *operation) int { return cmp.Compare(a.Asked.Seq, b.Asked.Seq) })
}

// corrupt checks that histories which were found good are found bad when they
// are corrupted. Those in which a request was never answered are left out, for
// it may explain a lot.
func (c *evidence) corrupt(t *testing.T) {
	t.Helper()
	begun := time.Now()
	var ids []courier.ExecutionID
	for id, list := range c.histories {
		if !slices.ContainsFunc(list, func(o *operation) bool { return o.Method == "Request" && o.Error == mayHave }) {
			ids = append(ids, id)
		}
	}
	const each = 10
	made := 0
	for _, how := range corruptions {
		n := 0
		for _, at := range c.anywhere(ids) {
			var h histories
			for _, o := range c.histories[at.id] {
				h.list = append(h.list, new(*o))
			}
			o := h.list[at.index]
			if !how.do(&h, o) {
				continue
			}
			if linear(at.id, h.list) == nil {
				t.Errorf("a corrupted history was accepted: %s, by the %s of %s:\n%s", how.name, o.Method, o.Process, tell(h.list))
			}
			if n++; n == each {
				break
			}
		}
		if n == 0 {
			t.Errorf("no history could be corrupted: %s", how.name)
		}
		made += n
	}
	if made < 100 {
		t.Errorf("only %d histories were corrupted", made)
	}
	t.Logf("%d corrupted histories checked in %v", made, time.Since(begun).Round(time.Millisecond))
}

// A position is that of an operation in a history.
type position struct {
	id    courier.ExecutionID
	index int
}

// anywhere returns all positions in the histories of some executions, in random order.
func (c *evidence) anywhere(ids []courier.ExecutionID) []position {
	var all []position
	for _, id := range ids {
		for i := range c.histories[id] {
			all = append(all, position{id, i})
		}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}
