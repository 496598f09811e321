package life

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/format"
)

// MaxRuns is how many runs of a job are drawn.
const MaxRuns = 30

// Runs are the last executions of a job.
type Runs struct {
	Count int
	Bars  template.HTML // one for each, the newest last, as a link
	// Median and P95 are how long the completed ones of them lasted, from the first start to the
	// end: half of them no longer than Median, and 95 of 100 no longer than P95. Completed counts
	// them; without any the times are 0.
	Median, P95 time.Duration
	Completed   int
	Mixed       bool // of several jobs, whose times are not compared
}

// RunsOf returns what is shown of executions at an instant. They are in falling order of their
// creation; href returns the reference of one.
func RunsOf(list []courier.Execution, at time.Time, href func(courier.ExecutionID) string) Runs {
	r := Runs{Count: len(list)}
	var completed []time.Duration
	lasted := make([]time.Duration, len(list))
	var most time.Duration = 1
	for i := range list {
		if x := &list[i]; !x.StartedAt.IsZero() {
			end := x.EndedAt
			if end.IsZero() {
				end = at
			}
			lasted[i] = max(0, end.Sub(x.StartedAt))
			most = max(most, lasted[i])
			if x.State == courier.Completed {
				completed = append(completed, lasted[i])
			}
		}
	}
	slices.Sort(completed)
	if r.Completed = len(completed); r.Completed > 0 {
		r.Median, r.P95 = rank(completed, 50), rank(completed, 95)
	}
	const wide, high, least = 14, 56, 3
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="bars" viewBox="0 0 %d %d" width="%d" height="%d" role="group" aria-label="How long the last %s lasted, the newest last">`, len(list)*wide, high, len(list)*wide, high, format.Plural(len(list), "run"))
	for i := range list {
		x := &list[len(list)-1-i]
		status, took := x.Status(at), lasted[len(list)-1-i]
		h := least + int(float64(high-least)*float64(took)/float64(most))
		text := "not started"
		if !x.StartedAt.IsZero() {
			text = format.Took(took)
		}
		fmt.Fprintf(&b, `<a href="%s" tabindex="-1"><title>%s: %s, %s UTC</title><rect class="%s" x="%d" y="%d" width="%d" height="%d"/></a>`, template.HTMLEscapeString(href(x.ID)),
			format.Words(status), template.HTMLEscapeString(text), x.CreatedAt.UTC().Format("2006-01-02 15:04:05"), format.LookOf(status).Class, i*wide, high-h, wide-3, h)
	}
	b.WriteString("</svg>")
	r.Bars = template.HTML(b.String())
	return r
}

// rank returns the value that so many of a hundred do not exceed, of a sorted list that is not
// empty.
func rank(list []time.Duration, percent int) time.Duration {
	return list[(len(list)*percent+99)/100-1]
}
