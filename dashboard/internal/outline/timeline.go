package outline

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/flow"
)

// A bar is a time in which an entry was executed.
type bar struct {
	row      *Row
	from, to time.Time
	class    string
}

// timeline draws the bars of the rows, either by clock or by work. By work leaves out the time in
// which no step was executed.
func (b *builder) timeline() {
	bars := b.bars()
	if len(bars) == 0 {
		return
	}
	first, last := bars[0].from, bars[0].to
	for _, bar := range bars {
		if bar.from.Before(first) {
			first = bar.from
		}
		if bar.to.After(last) {
			last = bar.to
		}
	}
	place := func(t time.Time) time.Duration { return t.Sub(first) }
	if b.in.ByWork {
		place = worked(bars)
	}
	b.out.From, b.out.To, b.out.Span = first, last, place(last)
	for row, list := range byRow(bars) {
		row.Bar = draw(list, place, max(b.out.Span, 1))
	}
}

// bars returns the bars of all rows. The bar of a loop begins when the entry before it ended, and
// ends with the last record in the loop.
func (b *builder) bars() (list []bar) {
	before := b.x.StartedAt
	ends := make(map[int]time.Time) // of loops
	for i := range b.steps {
		if r := b.steps[i].Record; r != nil {
			for _, loop := range b.tree.Loops(i) {
				if r.EndedAt.After(ends[loop]) {
					ends[loop] = r.EndedAt
				}
			}
		}
	}
	for _, r := range b.out.Rows {
		switch {
		case r.Dim:
		case strings.EqualFold(r.Type, flow.TypeForEach):
			to := ends[r.Step]
			if r.State == string(flow.OutlineRunning) {
				to = b.in.Now
			}
			if r.Loop != nil && len(b.tree.Loops(r.Step)) == 0 && to.After(before) && !before.IsZero() {
				list = append(list, bar{r, before, to, "loop"})
			}
		case r.State == string(flow.OutlineRunning) && !r.Began.IsZero():
			list = append(list, b.attempts(r, b.x.Current.Iteration, math.MaxInt64)...)
			list = append(list, bar{r, r.Began, b.in.Now, format.LookOf("running").Class})
		case r.Ended:
			list = append(list, b.attempts(r, r.record.Iteration, r.record.Seq)...)
			list = append(list, bar{r, r.record.StartedAt, r.record.EndedAt, format.LookOf(string(r.record.State)).Class})
			before = r.record.EndedAt
		}
	}
	return list
}

// attempts returns the bars of the failed attempts of a step in an iteration, before the record
// with the given number.
func (b *builder) attempts(r *Row, iteration []int, before int64) (list []bar) {
	for i := range b.failed {
		f := &b.failed[i]
		if f.Step == r.Step && f.Seq < before && slices.Equal(f.Iteration, iteration) {
			list = append(list, bar{r, f.StartedAt, f.EndedAt, format.LookOf("failed").Class})
		}
	}
	return list
}

func byRow(bars []bar) map[*Row][]bar {
	m := make(map[*Row][]bar)
	for _, b := range bars {
		m[b.row] = append(m[b.row], b)
	}
	return m
}

// worked returns a function that returns how much time was worked before an instant.
func worked(bars []bar) func(time.Time) time.Duration {
	sorted := slices.SortedFunc(slices.Values(bars), func(a, b bar) int { return a.from.Compare(b.from) })
	var busy []bar // without overlaps
	for _, b := range sorted {
		if n := len(busy); n > 0 && !b.from.After(busy[n-1].to) {
			if b.to.After(busy[n-1].to) {
				busy[n-1].to = b.to
			}
			continue
		}
		busy = append(busy, b)
	}
	return func(t time.Time) (sum time.Duration) {
		for _, b := range busy {
			if !t.After(b.from) {
				break
			}
			sum += min(t.Sub(b.from), b.to.Sub(b.from))
		}
		return sum
	}
}

// draw draws bars on a field of 1000 by 10. Even the shortest bar is visible.
func draw(list []bar, place func(time.Time) time.Duration, span time.Duration) template.HTML {
	var s strings.Builder
	s.WriteString(`<svg class="bar" viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">`)
	for _, b := range list {
		x := float64(place(b.from)) / float64(span) * 1000
		w := max(float64(place(b.to))/float64(span)*1000-x, 4)
		fmt.Fprintf(&s, `<rect class="%s" x="%.1f" width="%.1f" height="10"/>`, b.class, min(x, 996), w)
	}
	s.WriteString("</svg>")
	return template.HTML(s.String())
}
