package flow

import (
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/nearest"
)

// loopResults are the values that a loop with on_item_failure: continue has when it is
// over.
var loopResults = []string{loopFailed, loopFailedCount, loopRescued, loopRescuedCnt, loopCount}

// failedItem is what is known of an element of a loop's failed.
var failedItem = &courier.Schema{Type: "object", Properties: []courier.Property{
	{Name: "index", Schema: &courier.Schema{Type: "integer"}},
	{Name: "label", Schema: &courier.Schema{Type: "string"}},
	{Name: "step", Schema: &courier.Schema{Type: "string"}},
	{Name: "class", Schema: &courier.Schema{Type: "string"}},
	{Name: "message", Schema: &courier.Schema{Type: "string"}},
}}

// sameIteration reports whether all loops around a loop are around the reference too.
func (u *use) sameIteration(b *block) bool {
	at := u.tree.loopAround(b)
	return at < 0 || u.tree.blocks[at].open < u.step && u.step < u.tree.blocks[at].end
}

// visible reports whether the value of a block, whose marker is entry j, is there for the step:
// in the present iteration of the loops around the block, and in its branch. It adds the problem
// otherwise.
func (u *use) visible(j int, b *block) bool {
	if !u.broken && !u.sameIteration(b) {
		around := u.tree.blocks[u.tree.loopAround(b)]
		u.problem("has a value only in the present iteration of the loop of %s, in which %s lies; %s lies behind that", u.label(around.open), u.label(j), u.label(u.step))
		return false
	}
	return u.reaches(j, b.parent)
}

// loopResult checks a reference to a value of a loop with on_item_failure: continue.
func (u *use) loopResult(j int) *courier.Schema {
	b := u.tree.loopAt(j)
	switch {
	case !slices.Contains(loopResults, u.Ref.Name):
		u.problem("has no value: %s has no %q; %s", u.label(j), shorten(u.Ref.Name), nearest.DidYouMean(u.Ref.Name, loopResults))
		return nil
	case !u.broken && u.step < b.end:
		u.problem("has a value only when the loop of %s is over, which is behind its flow.end, step %d", u.label(j), b.end)
		return nil
	case !u.visible(j, b):
		return nil
	}
	s := &courier.Schema{Type: "integer"}
	if u.Ref.Name == loopFailed || u.Ref.Name == loopRescued {
		s = &courier.Schema{Type: "array", Items: failedItem}
	}
	return u.path(s, u.Ref.Name, u.Ref.Path)
}
