package flow

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
)

// Compare returns the order in which a walk reaches two positions: it is negative if a
// comes first, and 0 if both are at the same entry in the same iterations.
func Compare(a, b courier.Position) int {
	for n := 0; ; n++ {
		switch {
		case n < len(a.Loops) && n < len(b.Loops):
			x, y := a.Loops[n], b.Loops[n]
			if x.Step != y.Step {
				return sign(x.Step, y.Step)
			}
			if x.Index != y.Index {
				return sign(x.Index, y.Index)
			}
		case n < len(a.Loops): // b lies outside the loop, at its flow.foreach at the latest
			return -outside(b.Step, a.Loops[n].Step)
		case n < len(b.Loops):
			return outside(a.Step, b.Loops[n].Step)
		default:
			return sign(a.Step, b.Step)
		}
	}
}

// outside is the order of an entry outside a loop and what lies in it.
func outside(step, marker int) int {
	if step <= marker {
		return -1
	}
	return 1
}

func sign(a, b int) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// MapRecord returns a record with the indexes of the present version of the job, given
// the changes of version, and whether its step is in that version. The Version of the
// result is the one that the attempt ran with. The result shares its lists with r.
func MapRecord(r *courier.StepExecution, changes []courier.VersionChange) (courier.StepExecution, bool) {
	mapped, changed := *r, false
	for _, c := range changes {
		if r.Seq > c.Seq {
			mapped.Version = c.To
			continue
		}
		if !changed {
			mapped.Version, changed = c.From, true
		}
		var ok bool
		if mapped.Step, ok = mapIndex(mapped.Step, c.Steps); !ok {
			return mapped, false
		}
		if mapped.FailedLoop != nil {
			loop, ok := mapIndex(*mapped.FailedLoop, c.Steps)
			if !ok {
				return mapped, false
			}
			mapped.FailedLoop = &loop
		}
		if mapped.Rescue != nil {
			marker, ok := mapIndex(*mapped.Rescue, c.Steps)
			if !ok {
				return mapped, false
			}
			mapped.Rescue = &marker
		}
	}
	return mapped, true
}

// StepName returns a name of a step of the present version of the job for file names and
// keys: its index in the version with which the execution began. A step that a later
// version has added is named by its index there and the number of the audit entry after
// which that version applied. So a step keeps its name, and no two steps that an
// execution has ever had share a name. Repairs may be nil.
func StepName(step int, repairs *courier.Repairs) string {
	if repairs != nil {
		for _, c := range slices.Backward(repairs.Versions) {
			if c.Steps == nil {
				continue
			}
			before := slices.Index(c.Steps, step)
			if before < 0 {
				return fmt.Sprintf("%d.%d", step, c.Seq)
			}
			step = before
		}
	}
	return strconv.Itoa(step)
}

// mapIndex returns the index of a step after a change of the version.
func mapIndex(step int, steps []int) (int, bool) {
	if steps == nil {
		return step, true
	}
	if step < 0 || step >= len(steps) || steps[step] < 0 {
		return -1, false
	}
	return steps[step], true
}

// Depends reports whether the position p depends on a value: whether the list of a
// loop around p, or the condition of a branch around it, refers to the value. What
// names that loop or branch. Head is "params", or the id or the index of a step.
func Depends(t *Tree, p courier.Position, head, name string) (what string, ok bool) {
	step, isStep := -1, false
	if head != headParams {
		step, isStep = t.Head(head)
	}
	for _, b := range t.blocksAround(p.Step) {
		for _, ref := range t.Template(b.open).refs {
			if ref.Ref.Name != name || ref.Field == configLabel {
				continue // a label has no part in what is executed
			}
			same := ref.Ref.Head == head
			if isStep {
				j, found := t.Head(ref.Ref.Head)
				same = found && j == step
			}
			if !same {
				continue
			}
			if b.kind == openForEach {
				return "the list of " + t.label(b.open), true
			}
			return "the condition of " + t.label(b.open), true
		}
	}
	return "", false
}

// blocksAround are the blocks that entry i lies in, outermost first. The first marker of a
// block lies outside of it, the others inside.
func (t *Tree) blocksAround(i int) []*block {
	if i < 0 || i >= len(t.entries) {
		return nil
	}
	at := t.entries[i].block
	if t.entries[i].kind.opens() {
		at = t.blocks[at].parent
	}
	var list []*block
	for ; at >= 0; at = t.blocks[at].parent {
		list = append(list, t.blocks[at])
	}
	slices.Reverse(list)
	return list
}

// label names an entry in messages.
func (t *Tree) label(i int) string {
	s := &t.steps[i]
	return courier.StepLabel(i, s.ID, shorten(s.Type))
}

// inElse reports whether entry i of a block lies behind its flow.else.
func (b *block) inElse(i int) bool { return b.els >= 0 && i > b.els && i < b.end }

// Before returns the position of an earlier entry to which an execution that stands
// at p can go back. The entry is a step, a flow.if or a flow.foreach in the same
// loops and iterations, or outside them. Recorded reports whether a step has run
// there: an execution can't go back into a branch without a record. The error says
// what to do.
func (t *Tree) Before(from int, p courier.Position, recorded func(step int) bool) (courier.Position, error) {
	none := courier.Position{}
	switch {
	case from < 0 || from >= len(t.entries):
		return none, fmt.Errorf("there is no step %d; the last one is %d", from, len(t.entries)-1)
	case t.InFinally(from) || from == t.finally:
		return none, fmt.Errorf("%s belongs to the finally part, which runs after the other steps; give a step before it", t.label(from))
	case t.entries[from].kind != work && !t.entries[from].kind.opens():
		return none, fmt.Errorf("%s only ends a part of a block; give a step, or the first marker of a block", t.label(from))
	case from == p.Step:
		return none, fmt.Errorf("the execution is already at %s; resume it without From", t.label(from))
	case from > p.Step:
		return none, fmt.Errorf("%s is after the execution's position; give an earlier step", t.label(from))
	}
	around := t.Loops(from)
	for n, marker := range around {
		if n >= len(p.Loops) || p.Loops[n].Step != marker {
			return none, fmt.Errorf("%s lies in the loop of %s, which is over; give %s to run the whole loop again, or a step outside it", t.label(from), t.label(marker), t.label(marker))
		}
	}
	if err := t.checkBranches(from, p, recorded); err != nil {
		return none, err
	}
	return courier.Position{Step: from, Loops: slices.Clone(p.Loops[:len(around)])}, nil
}

// BackTo returns the last position to which an execution at position p can go back so
// that an entry runs again: that of the entry, or of a block around it; see
// [Tree.Before]. If it returns false, there is no such position, and only the whole list
// can run again.
func (t *Tree) BackTo(entry int, p courier.Position, recorded func(step int) bool) (courier.Position, bool) {
	if entry < 0 || entry >= len(t.entries) {
		return courier.Position{}, false
	}
	around := t.blocksAround(entry)
	for n := len(around); ; n-- {
		if pos, err := t.Before(entry, p, recorded); err == nil {
			return pos, true
		}
		if n == 0 {
			return courier.Position{}, false
		}
		entry = around[n-1].open
	}
}

// checkBranches returns an error if an entry lies in a branch that has not run.
func (t *Tree) checkBranches(from int, p courier.Position, recorded func(step int) bool) error {
	for _, b := range t.blocksAround(from) {
		if b.rescue != nil {
			if err := t.checkRescued(b, from, p, recorded); err != nil {
				return err
			}
		}
		if b.kind != openIf {
			continue
		}
		first, last := b.open+1, b.end
		switch {
		case b.inElse(from):
			first = b.els + 1
		case b.els >= 0:
			last = b.els
		}
		if first <= p.Step && p.Step <= last {
			continue // the execution stands in the branch
		}
		if b.open < p.Step && p.Step < b.end {
			return fmt.Errorf("%s lies in the other branch of %s; give that one to evaluate its condition again, or a step before it", t.label(from), t.label(b.open))
		}
		if !t.anyRecorded(first, last, recorded) {
			return fmt.Errorf("%s lies in a branch of %s that has not run; give that one to evaluate its condition again, or a step before it", t.label(from), t.label(b.open))
		}
	}
	return nil
}

func (t *Tree) anyRecorded(first, last int, recorded func(step int) bool) bool {
	for i := first; i < last; i++ {
		if recorded(i) {
			return true
		}
	}
	return false
}

// MapSteps maps the steps of one version of a job to those of another version, with which
// an execution at position p continues. Steps has the new index of each entry of the old
// version, or -1; it is nil if no index changes. Recorded reports whether the position
// depends on a record of a step.
//
// An entry is found by its id, if it has the same type, and by its index if no entry
// before it has moved. All steps that the position depends on must be found, in the
// same loops and in their order, and the blocks around the position must be the same.
// Reasons lists all reasons why the versions do not fit; if there are any, do not use
// steps.
func MapSteps(old, now *Tree, p courier.Position, recorded func(step int) bool) (steps []int, reasons []string) {
	m := mapping{old: old, now: now, at: p.Step, steps: make([]int, old.Len()), idsOfOld: old.allIDs()}
	m.match()
	m.checkPosition()
	m.checkRecorded(recorded)
	if len(m.reasons) > 0 {
		return nil, m.reasons
	}
	for i, j := range m.steps {
		if i != j {
			return m.steps, nil
		}
	}
	return nil, nil
}

// A mapping is what MapSteps finds.
type mapping struct {
	old, now *Tree
	at       int // where the execution stands
	steps    []int
	prefix   int // how many entries at the start are the same
	idsOfOld map[string]bool
	reasons  []string
}

func (m *mapping) reason(format string, args ...any) {
	m.reasons = append(m.reasons, fmt.Sprintf(format, args...))
}

func (t *Tree) allIDs() map[string]bool {
	all := make(map[string]bool)
	for i := range t.steps {
		if id := t.steps[i].ID; id != "" {
			all[id] = true
		}
	}
	return all
}

// match finds the entries of the old version in the new one.
func (m *mapping) match() {
	for m.prefix < min(m.old.Len(), m.now.Len()) && m.same(m.prefix) {
		m.prefix++
	}
	for i := range m.steps {
		m.steps[i] = m.find(i)
	}
	for i := range m.steps { // the other markers of a block follow from the first one
		b, at := m.old.markersOf(i)
		if b == nil || m.steps[i] >= 0 || m.steps[b.open] < 0 {
			continue
		}
		to := m.now.blocks[m.now.entries[m.steps[b.open]].block]
		if m.steps[i] = to.els; at == end {
			m.steps[i] = to.end
		}
	}
	if m.at < m.old.Len() && m.steps[m.at] < 0 {
		m.steps[m.at] = m.replaced()
	}
}

// markersOf returns the block of a flow.else, a flow.rescue or a flow.end, or nil.
func (t *Tree) markersOf(i int) (*block, kind) {
	if k := t.entries[i].kind; k == otherwise || k == toRescue || k == end {
		return t.blocks[t.entries[i].block], k
	}
	return nil, work
}

// same reports whether the entries of an index are the same in both versions, as far as
// they can be told apart.
func (m *mapping) same(i int) bool {
	a, b := &m.old.steps[i], &m.now.steps[i]
	if !strings.EqualFold(a.Type, b.Type) {
		return false
	}
	if a.ID == b.ID {
		return true
	}
	_, taken := m.now.placeOf(a.ID)
	return (a.ID == "" || !taken) && (b.ID == "" || !m.idsOfOld[b.ID]) && (a.ID == "" || b.ID == "")
}

// find returns where entry i of the old version is in the new one, or -1.
func (m *mapping) find(i int) int {
	s := &m.old.steps[i]
	if s.ID != "" {
		if to, ok := m.now.placeOf(s.ID); ok {
			if strings.EqualFold(m.now.steps[to.index].Type, s.Type) {
				return to.index
			}
			return -1
		}
	}
	if i < m.prefix {
		return i
	}
	return -1
}

// replaced returns the step that takes the place of the one at which the execution
// stands: that has to run yet, so it may be of another type.
func (m *mapping) replaced() int {
	s := &m.old.steps[m.at]
	if m.old.entries[m.at].kind != work {
		return -1
	}
	to := -1
	if place, ok := m.now.placeOf(s.ID); ok && s.ID != "" {
		to = place.index
	} else if m.at == m.prefix && m.at < m.now.Len() && !m.idsOfOld[m.now.steps[m.at].ID] {
		to = m.at
	}
	if to >= 0 && m.now.entries[to].kind != work {
		return -1
	}
	return to
}

// target is where the execution stands in the new version; ok is false if that is not
// known.
func (m *mapping) target() (int, bool) {
	if m.at >= m.old.Len() || m.at == m.old.finally {
		return m.now.Len(), true
	}
	return m.steps[m.at], m.steps[m.at] >= 0
}

// checkPosition checks the place where the execution stands, and the blocks around it.
func (m *mapping) checkPosition() {
	to, ok := m.target()
	if !ok {
		m.reason("%s, at which the execution stands, can't be told in it: %s", m.old.label(m.at), m.why(m.at))
		return
	}
	before, after := m.old.blocksAround(m.at), m.now.blocksAround(to)
	for n := range max(len(before), len(after)) {
		switch {
		case n >= len(after):
			m.reason("the execution stands in the block of %s, and there the new version has no such block", m.old.label(before[n].open))
		case n >= len(before):
			m.reason("the new version has the block of %s around the place where the execution stands", m.now.label(after[n].open))
		default:
			m.checkBlock(before[n], after[n], to)
		}
		if len(m.reasons) > 0 {
			return // blocks further in are others too
		}
	}
}

// checkBlock compares two blocks around the place where the execution stands.
func (m *mapping) checkBlock(a, b *block, to int) {
	label := m.old.label(a.open)
	differs := func(fields ...string) bool {
		return slices.ContainsFunc(fields, func(name string) bool {
			return !reflect.DeepEqual(m.old.Template(a.open).config[name], m.now.Template(b.open).config[name])
		})
	}
	switch {
	case a.kind != b.kind || m.steps[a.open] != b.open:
		m.reason("the execution stands in the block of %s, and in the new version in that of %s", label, m.now.label(b.open))
	case a.kind == openIf && a.inElse(m.at) != b.inElse(to):
		m.reason("the execution stands in one branch of %s, and in the new version in the other one", label)
	case a.kind != openIf && a.inElse(m.at) != b.inElse(to):
		m.reason("the execution stands in the body or in the rescue of %s, and in the new version in the other one", label)
	case a.kind == openIf && differs(fieldLeft, fieldOperator, fieldRight):
		m.reason("the condition of %s, in whose branch the execution stands, is another one", label)
	case a.kind == openForEach && differs(fieldSource):
		m.reason("the list of %s, in which the execution stands, is another one", label)
	case (a.policy == nil) != (b.policy == nil):
		m.reason("on_item_failure of %s, in which the execution stands, is another one", label)
	}
}

// checkRecorded checks the steps that the position depends on. One that lies behind it has run in
// an earlier item of a loop around it.
func (m *mapping) checkRecorded(recorded func(step int) bool) {
	at, known := m.target()
	last := -1
	for i := range m.old.Len() {
		if !recorded(i) {
			continue
		}
		to, label := m.steps[i], m.old.label(i)
		switch {
		case to < 0:
			m.reason("%s, which has run, can't be told in it: %s", label, m.why(i))
			continue
		case to < last || known && (i < m.at) != (to < at):
			m.reason("%s, which has run, is in another place of the order there", label)
		case !m.sameLoops(i, to):
			m.reason("%s, which has run, lies in other loops there", label)
		}
		last = max(last, to)
	}
}

// sameLoops reports whether two entries lie in the same loops.
func (m *mapping) sameLoops(i, to int) bool {
	return slices.EqualFunc(m.old.Loops(i), m.now.Loops(to), func(a, b int) bool { return m.steps[a] == b })
}

// why says why an entry can't be found.
func (m *mapping) why(i int) string {
	s := &m.old.steps[i]
	if s.ID == "" {
		return "it has no id, and entries before it have moved"
	}
	if to, ok := m.now.placeOf(s.ID); ok {
		return fmt.Sprintf("the id %q is that of %s", s.ID, m.now.label(to.index))
	}
	return fmt.Sprintf("no step has the id %q", s.ID)
}
