package dashboard

import (
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/store"
)

// A chosenItem is the iteration that the address of the page names: of a loop, with those of
// the loops around it.
type chosenItem struct {
	loop  int
	path  []int
	loops []int // the loop and those around it, outermost first
}

// readChosen reads the records of the iteration that the address names.
func (b *outlineBuilder) readChosen() error {
	loop, err := b.c.number("loop", -1, 0, 1<<20)
	if err != nil || loop < 0 {
		return err
	}
	if loop >= b.tree.Len() || !strings.EqualFold(b.tree.Spec(loop).Type, flow.TypeForEach) {
		return invalid("loop in the address names no loop of the job.")
	}
	ch := &chosenItem{loop: loop, loops: append(slices.Clone(b.tree.Loops(loop)), loop)}
	for text := range strings.SplitSeq(b.c.query.Get("item"), ".") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > 1<<30 {
			return invalid("item in the address must be the number of an item, such as 7, or 7.2 in a loop within a loop.")
		}
		ch.path = append(ch.path, n)
	}
	if len(ch.path) != len(ch.loops) {
		return invalid("item in the address must have %d numbers with points between them: one for each loop.", len(ch.loops))
	}
	b.chosen, b.shown = ch, make(map[int][]courier.StepExecution)
	for level := range ch.loops {
		if err := b.readItem(ch.loops[:level+1], ch.path[:level+1]); err != nil {
			return err
		}
	}
	return nil
}

// maxItemRecords is how many records of one iteration are read, and of one repair pass.
const maxItemRecords = 300

// readItem reads records of an iteration: from its first one on, and of the passes that have
// repaired items.
func (b *outlineBuilder) readItem(loops, path []int) error {
	at := courier.Position{Step: loops[len(loops)-1] + 1}
	for i, l := range loops {
		at.Loops = append(at.Loops, courier.LoopPosition{Step: l, Index: path[i]})
	}
	first, err := b.seek(at)
	if err != nil {
		return err
	}
	from := []int64{first}
	if r := b.x.Repairs; r != nil {
		for _, p := range r.Passes {
			from = append(from, p.Seq)
		}
	}
	for _, after := range from {
		list, err := b.c.records(store.StepFilter{Attempt: b.x.Attempt, After: after, Limit: maxItemRecords})
		if err != nil {
			return err
		}
		for i := range list {
			r := &list[i]
			known := slices.ContainsFunc(b.shown[r.Step], func(o courier.StepExecution) bool { return o.Seq == r.Seq })
			if len(r.Iteration) >= len(path) && slices.Equal(r.Iteration[:len(path)], path) && slices.Contains(b.tree.Loops(r.Step), loops[len(loops)-1]) && !known {
				b.shown[r.Step] = append(b.shown[r.Step], *r)
			}
		}
	}
	return nil
}

// seek returns the number behind which the records of a position and what comes after it
// begin. Records are in the order of the walk, but for repairs, which come later.
func (b *outlineBuilder) seek(at courier.Position) (int64, error) {
	low, high := int64(0), b.x.Seq
	if r := b.x.Repairs; r != nil && len(r.Passes) > 0 {
		high = r.Passes[0].Seq
	}
	for low < high {
		mid := low + (high-low)/2
		list, err := b.c.records(store.StepFilter{Attempt: b.x.Attempt, After: mid, Limit: 1})
		if err != nil {
			return 0, err
		}
		before := false
		if len(list) > 0 && list[0].Seq <= b.x.Seq {
			if p, ok := b.tree.PositionOf(&list[0]); ok {
				before = flow.Compare(p, at) < 0
			}
		}
		if before {
			low = list[0].Seq
		} else {
			high = mid
		}
	}
	return low, nil
}

// inChosen sets the state and the record of a row to those of the iteration that the address
// names, if the row lies in its loops.
func (b *outlineBuilder) inChosen(r *outlineRow) {
	if b.chosen == nil {
		return
	}
	loops := b.tree.Loops(r.Step)
	level := 0
	for level < len(loops) && level < len(b.chosen.loops) && loops[level] == b.chosen.loops[level] {
		level++
	}
	if level == 0 || b.isPresent(b.chosen.path[:level]) {
		return
	}
	path := b.chosen.path[:level]
	r.record = nil
	for i := range b.shown[r.Step] {
		if s := &b.shown[r.Step][i]; slices.Equal(s.Iteration[:min(level, len(s.Iteration))], path) && (r.record == nil || s.Seq > r.record.Seq) {
			r.record = s
		}
	}
	switch {
	case r.record != nil:
		r.State = string(r.record.State)
	case b.anyIn(r.Step, path):
		r.State = string(flow.OutlineCompleted) // a block of which a step has run
	case len(b.shown) == 0 || b.lastFailed(path):
		r.State = string(flow.OutlinePending)
	default:
		r.State = string(flow.OutlineNotTaken)
	}
}

// anyIn reports whether a step in the block that an entry begins has a record in the
// iteration.
func (b *outlineBuilder) anyIn(entry int, path []int) bool {
	end := b.tree.End(entry)
	for i := entry + 1; i < end; i++ {
		if slices.ContainsFunc(b.shown[i], func(s courier.StepExecution) bool {
			return slices.Equal(s.Iteration[:min(len(path), len(s.Iteration))], path)
		}) {
			return true
		}
	}
	return false
}

// lastFailed reports whether the last record of the iteration is that of a failure, behind
// which nothing has run.
func (b *outlineBuilder) lastFailed(path []int) bool {
	var last *courier.StepExecution
	for _, list := range b.shown {
		for i := range list {
			if slices.Equal(list[i].Iteration[:min(len(path), len(list[i].Iteration))], path) && (last == nil || list[i].Seq > last.Seq) {
				last = &list[i]
			}
		}
	}
	return last != nil && last.State == courier.StepFailed
}

// isPresent reports whether an iteration is that in which the execution is.
func (b *outlineBuilder) isPresent(path []int) bool {
	now := b.x.Position.Iteration()
	return len(now) >= len(path) && slices.Equal(now[:len(path)], path)
}

// scope are the values that a condition has seen, as far as they are still there: in a past
// iteration the outputs of its own records.
func (b *outlineBuilder) scope(r *outlineRow) courier.Values {
	if b.chosen == nil || len(b.tree.Loops(r.Step)) == 0 {
		return b.values
	}
	s := make(courier.Values, len(b.values))
	for key, v := range b.values {
		if !strings.HasPrefix(key, "loop.") {
			s[key] = v
		}
	}
	for step, list := range b.shown {
		for i := range list {
			outputs, err := decodeObject(list[i].Outputs)
			if err != nil {
				continue
			}
			for name, v := range outputs {
				s[strconv.Itoa(step)+"."+name] = v
				if id := list[i].ID; id != "" {
					s[id+"."+name] = v
				}
			}
		}
	}
	return s
}

// loop fills the row of a loop.
func (b *outlineBuilder) loop(r *outlineRow, s *flow.Outlined) {
	if s.Items == nil || s.Items.Total == 0 {
		return
	}
	l := &loopRow{Total: s.Items.Total}
	r.Loop = l
	outer := b.shownPath(b.tree.Loops(r.Step))
	marks := b.marks(r.Step, outer, s)
	l.Failed = len(marks.failed)
	present := marks.present
	if l.Summary = fmt.Sprintf("%s of %s items done", count(marks.done()), count(l.Total)); l.Failed > 0 {
		l.Summary += ", " + count(max(l.Failed, s.Items.Failed)) + " failed"
		l.FirstFailed = b.itemHref(r.Step, outer, marks.failed[0])
	}
	at := present
	if ch := b.chosen; ch != nil && slices.Contains(ch.loops, r.Step) {
		at = ch.path[slices.Index(ch.loops, r.Step)]
		if at != present || len(outer) > 0 {
			l.Present = b.c.with("loop", "", "item", "")
		}
	}
	at = min(max(at, 0), l.Total-1)
	l.Item = courier.FormatIteration(append(slices.Clone(outer), at))
	if at > 0 {
		l.Previous = b.itemHref(r.Step, outer, at-1)
	}
	if at < l.Total-1 && at < marks.present {
		l.Next = b.itemHref(r.Step, outer, at+1)
	}
	l.Ticks = marks.ticks(b.itemHref(r.Step, outer, -1), r.Step)
}

// shownPath are the iterations of loops that the rows show.
func (b *outlineBuilder) shownPath(loops []int) (path []int) {
	for level, loop := range loops {
		at := 0
		if now := b.x.Position.Iteration(); level < len(now) {
			at = now[level]
		} else if s := b.steps[loop].Items; s != nil {
			at = max(0, s.Total-1)
		}
		if b.chosen != nil && level < len(b.chosen.loops) && b.chosen.loops[level] == loop {
			at = b.chosen.path[level]
		}
		path = append(path, at)
	}
	return path
}

// itemHref is the reference of the page that shows an item; without the item itself if it is
// negative.
func (b *outlineBuilder) itemHref(loop int, outer []int, item int) string {
	path := ""
	for _, n := range outer {
		path += strconv.Itoa(n) + "."
	}
	axis := ""
	if a := b.c.query.Get("axis"); a == "work" {
		axis = "axis=work&"
	}
	href := "?" + axis + "loop=" + strconv.Itoa(loop) + "&item=" + path
	if item >= 0 {
		href += strconv.Itoa(item)
	}
	return href
}

// An itemMarks says of the items of a loop how they stand.
type itemMarks struct {
	total   int
	present int   // the item in which the execution is; total-1 if the loop has ended
	ended   bool  // the loop has
	failed  []int // in order
}

func (b *outlineBuilder) marks(loop int, outer []int, s *flow.Outlined) itemMarks {
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

// done is how many items have been executed without failure.
func (m *itemMarks) done() int {
	n := m.present
	if m.ended {
		n = m.total
	}
	i, _ := slices.BinarySearch(m.failed, n)
	return n - i
}

// state is the worst state of a range of items.
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

// Ticks of a loop.
const (
	maxTicks = 200
	maxRuns  = 20 // links among the ticks that have not failed
)

// A tick is a range of items.
type tick struct {
	first, last int
	state       string
}

// ticks draws the items: at most maxTicks, those with a failure first. Each of these is a
// link, and so is each run of others that are alike.
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
	fmt.Fprintf(b, `<svg class="ticks" viewBox="0 0 %d 14" width="%d" height="14" preserveAspectRatio="none" role="img" aria-label="%s items, %s failed"><g>`, n*5, n*5, count(m.total), count(len(m.failed)))
	href = template.HTMLEscapeString(href)
	x := 0
	for _, t := range bad {
		i, _ := slices.BinarySearch(m.failed, t.first)
		x = drawTicks(b, href, t, m.failed[i], x, 1)
	}
	run := max(1, (len(good)+maxRuns-1)/maxRuns)
	for i := 0; i < len(good); {
		t, k := good[i], i+1
		for k < len(good) && k-i < run && good[k].state == t.state {
			t.last = good[k].last
			k++
		}
		x = drawTicks(b, href, t, t.first, x, k-i)
		i = k
	}
	b.WriteString("</g></svg>")
	return template.HTML(b.String())
}

// drawTicks draws n ticks of one state from x on, as a link to an item, and returns where the
// next ones begin. A pending item has nothing to be seen.
func drawTicks(b *strings.Builder, href string, t tick, item, x, n int) int {
	class := looks[t.state].class
	if t.state != "pending" {
		fmt.Fprintf(b, `<a href="%s%d" tabindex="-1"><title>`, href, item)
		if b.WriteString("item " + strconv.Itoa(t.first)); t.last > t.first {
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

// hideRecord is [desk.HideStep] of a record that may be nil.
func hideRecord(r *courier.StepExecution) {
	if r != nil {
		desk.HideStep(r)
	}
}
