package flow

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/courierhq/courier"
)

// Next does what one call of [Walk.Next] does, as a pure function: it returns the
// position of the next step that does work, at or after p. If there is none, it
// returns the end and false. It evaluates the sources of the loops that are open at p
// in each call, so use a [Walk] to follow an execution. When it enters an iteration,
// it ignores earlier outputs of that loop's steps in conditions. It does not remove
// them from v; the caller does, see [Tree.InScope].
func (t *Tree) Next(p courier.Position, v courier.Scope) (courier.Position, bool, error) {
	w, err := t.Walk(p, &masked{Scope: v})
	if err != nil {
		return p, false, err
	}
	step, err := w.Next()
	return w.Position(), err == nil && step < t.Len(), err
}

// masked is a scope in which the outputs of some steps can't be seen.
type masked struct {
	courier.Scope
	spans []span                 // in order, without overlaps
	loops map[int]map[string]any // of the loops that have ended
}

// A span is the entries first to last.
type span struct{ first, last int }

// find returns the place of the first span that does not end before i.
func (m *masked) find(i int) (at int) {
	at, _ = slices.BinarySearchFunc(m.spans, i, func(s span, i int) int { return cmp.Compare(s.last, i) })
	return at
}

// Forget hides outputs.
func (m *masked) Forget(first, last int) {
	maps.DeleteFunc(m.loops, func(marker int, _ map[string]any) bool { return first <= marker && marker <= last })
	from := m.find(first)
	if from < len(m.spans) && m.spans[from].first <= first && last <= m.spans[from].last {
		return
	}
	to := from
	for ; to < len(m.spans) && m.spans[to].first <= last; to++ {
		first, last = min(first, m.spans[to].first), max(last, m.spans[to].last)
	}
	m.spans = slices.Replace(m.spans, from, to, span{first, last})
}

// SetNull hides outputs too: a pure step fails no items.
func (m *masked) SetNull(first, last int) { m.Forget(first, last) }

// LoopEnded shows how many items the loop had.
func (m *masked) LoopEnded(marker int, _ []int, count, failed, rescued int) {
	if m.loops == nil {
		m.loops = make(map[int]map[string]any)
	}
	m.loops[marker] = map[string]any{loopCount: number(count)}
	if failed >= 0 {
		m.loops[marker][loopFailedCount] = number(failed)
	}
}

func (m *masked) hides(head string) bool {
	i, ok := parseIndex(head)
	if !ok {
		return false
	}
	at := m.find(i)
	return at < len(m.spans) && m.spans[at].first <= i
}

// Value returns what is not hidden.
func (m *masked) Value(head, name string) (any, bool) {
	if i, ok := parseIndex(head); ok {
		if v, ok := m.loops[i][name]; ok {
			return v, true
		}
	}
	if m.hides(head) {
		return nil, false
	}
	return m.Scope.Value(head, name)
}

// Keys returns what is not hidden.
func (m *masked) Keys() []string {
	return slices.DeleteFunc(slices.Clone(m.Scope.Keys()), func(key string) bool {
		head, _, _ := strings.Cut(key, ".")
		return m.hides(head)
	})
}
