package outline

import (
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/flow"
)

// loop fills the row of a loop.
func (b *builder) loop(r *Row, s *flow.Outlined) {
	if s.Items == nil || s.Items.Total == 0 {
		return
	}
	l := &Loop{Total: s.Items.Total}
	r.Loop = l
	outer := b.shownPath(b.tree.Loops(r.Step))
	marks := b.marks(r.Step, outer, s)
	marks.label = func(item int) string { return b.labelOf(r.Step, append(slices.Clone(outer), item)) }
	l.Failed = len(marks.failed)
	if l.Summary = fmt.Sprintf("%s of %s items done", format.Count(marks.done()), format.Count(l.Total)); l.Failed > 0 {
		l.Failed = max(l.Failed, s.Items.Failed)
		l.Summary += ", " + l.failed()
		l.FirstFailed = b.itemHref(r.Step, outer, marks.failed[0])
	}
	if n := s.Items.Rescued; n > 0 {
		l.Summary += ", " + format.Count(n) + " rescued"
	}
	at := b.shownPath(append(slices.Clone(b.tree.Loops(r.Step)), r.Step))[len(outer)]
	if ch := b.chosenIn(append(slices.Clone(b.tree.Loops(r.Step)), r.Step)); ch != nil && slices.Contains(ch.loops, r.Step) && !b.x.State.Ended() && (at != marks.present || len(outer) > 0) {
		l.Present = b.in.Links.Present
	}
	at = min(max(at, 0), l.Total-1)
	l.Item = courier.FormatIteration(append(slices.Clone(outer), at))
	l.Label = marks.label(at)
	if at > 0 {
		l.Previous = b.itemHref(r.Step, outer, at-1)
	}
	if at < l.Total-1 && at < marks.present {
		l.Next = b.itemHref(r.Step, outer, at+1)
	}
	l.Ticks = marks.ticks(b.itemHref(r.Step, outer, -1), r.Step)
}

// failed returns the number of failed items in words.
func (l *Loop) failed() string { return format.Count(l.Failed) + " failed" }

// itemHref returns the reference of the page that shows an item. If the item is negative, the
// reference lacks it, and a caller adds one.
func (b *builder) itemHref(loop int, outer []int, item int) string {
	path := ""
	for _, n := range outer {
		path += strconv.Itoa(n) + "."
	}
	if item >= 0 {
		path += strconv.Itoa(item)
	}
	return b.in.Links.Item(loop, path)
}

// An itemMarks has the states of the items of a loop.
type itemMarks struct {
	total   int
	present int   // the item in which the execution is; total-1 if the loop has ended
	ended   bool  // the loop has
	failed  []int // in order
	label   func(item int) string
}

func (b *builder) marks(loop int, outer []int, s *flow.Outlined) itemMarks {
	m := itemMarks{total: s.Items.Total, present: s.Items.Total - 1, ended: s.State != flow.OutlineRunning && s.State != flow.OutlineFailed}
	now := b.x.Position.Iteration()
	if level := len(outer); level < len(now) && slices.Equal(now[:level], outer) && level < len(b.x.Position.Loops) && b.x.Position.Loops[level].Step == loop {
		m.present = now[level]
	} else if len(outer) > 0 && !b.isPresent(outer) {
		m.ended = true
	}
	for _, path := range b.items[loop] {
		if n := len(path) - 1; n == len(outer) && slices.Equal(path[:n], outer) && path[n] < m.total {
			m.failed = append(m.failed, path[n])
		}
	}
	slices.Sort(m.failed)
	m.failed = slices.Compact(m.failed)
	return m
}

// done returns the number of items that were executed without failure.
func (m *itemMarks) done() int {
	n := m.present
	if m.ended {
		n = m.total
	}
	i, _ := slices.BinarySearch(m.failed, n)
	return n - i
}

// state returns the worst state in a range of items.
func (m *itemMarks) state(first, last int) string {
	i, _ := slices.BinarySearch(m.failed, first)
	switch {
	case i < len(m.failed) && m.failed[i] <= last:
		return "failed"
	case m.ended || last < m.present:
		return "completed"
	case first <= m.present:
		return "running"
	}
	return "pending"
}

// The limits of the ticks of a loop.
const (
	maxTicks = 200
	maxRuns  = 20 // ticks without failure that are links
)

// A tick is a range of items.
type tick struct {
	first, last int
	state       string
}

// ticks draws the items as at most maxTicks ticks, those with a failure first. Each failed tick is
// a link, and so is each run of other ticks in the same state.
func (m *itemMarks) ticks(href string, loop int) template.HTML {
	size := (m.total + maxTicks - 1) / maxTicks
	var bad, good []tick
	for first := 0; first < m.total; first += size {
		t := tick{first: first, last: min(first+size, m.total) - 1}
		if t.state = m.state(t.first, t.last); t.state == "failed" {
			bad = append(bad, t)
		} else {
			good = append(good, t)
		}
	}
	b := &strings.Builder{}
	n := len(bad) + len(good)
	fmt.Fprintf(b, `<svg class="ticks" viewBox="0 0 %d 14" width="%d" height="14" preserveAspectRatio="none" role="group" aria-label="%s items, %s failed"><g>`, n*5, n*5, format.Count(m.total), format.Count(len(m.failed)))
	href = template.HTMLEscapeString(href)
	x := 0
	for _, t := range bad {
		i, _ := slices.BinarySearch(m.failed, t.first)
		x = drawTicks(b, href, t, m.failed[i], m.label(m.failed[i]), x, 1)
	}
	run := max(1, (len(good)+maxRuns-1)/maxRuns)
	for i := 0; i < len(good); {
		t, k := good[i], i+1
		for k < len(good) && k-i < run && good[k].state == t.state {
			t.last = good[k].last
			k++
		}
		label := ""
		if t.state != "pending" {
			if label = m.label(t.first); label != "" && t.last > t.first {
				label = format.Clip(38, label) + " to " + format.Clip(38, m.label(t.last))
			}
		}
		x = drawTicks(b, href, t, t.first, label, x, k-i)
		i = k
	}
	b.WriteString("</g></svg>")
	return template.HTML(b.String())
}

// drawTicks draws n ticks of one state from x on, as a link to an item, and returns where the next
// ones begin. The label is empty if the item has none. Ticks of pending items are not a link.
func drawTicks(b *strings.Builder, href string, t tick, item int, label string, x, n int) int {
	class := format.LookOf(t.state).Class
	if t.state != "pending" {
		fmt.Fprintf(b, `<a href="%s%d" tabindex="-1"><title>`, href, item)
		if label != "" {
			b.WriteString(template.HTMLEscapeString(format.Clip(80, label)) + ", ")
		}
		if b.WriteString("index " + strconv.Itoa(t.first)); t.last > t.first {
			b.WriteString(" to " + strconv.Itoa(t.last))
		}
		b.WriteString(": " + t.state + "</title>")
	}
	fmt.Fprintf(b, `<path class="%s" d="M%d 7h%d"/>`, class, x, n*5-1)
	if t.state != "pending" {
		b.WriteString("</a>")
	}
	return x + n*5
}
