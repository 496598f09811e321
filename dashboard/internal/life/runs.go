package life

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/store"
)

// MaxRuns is the number of runs of a job, or of transfers, that are drawn.
const MaxRuns = 30

// Runs are the last executions of a job, or the last transfers with a connection.
type Runs struct {
	Noun   string // what one of them is
	LeadTo string // what a bar leads to
	Count  int
	Bars   template.HTML // one for each, the newest last, as a link
	// Median and P95 are durations of the completed runs, from the first start to the end. Half of
	// them took no longer than Median, and 95 of 100 no longer than P95. Completed is their number.
	// If it is 0, the durations are 0.
	Median, P95 time.Duration
	Completed   int
}

// A bar is the drawing of one run.
type bar struct {
	href, status string
	took         time.Duration
	completed    bool
	text         string // the text of its title after the status
}

// RunsOf returns the runs of executions at an instant. The executions are in descending order of
// their creation. Href returns the reference of an execution.
func RunsOf(list []courier.Execution, at time.Time, href func(courier.ExecutionID) string) Runs {
	bars := make([]bar, len(list))
	for i := range list {
		x := &list[i]
		b := bar{href: href(x.ID), status: x.Status(at), text: "not started"}
		if !x.StartedAt.IsZero() {
			end := x.EndedAt
			if end.IsZero() {
				end = at
			}
			b.took, b.completed = max(0, end.Sub(x.StartedAt)), x.State == courier.Completed
			b.text = format.Took(b.took)
		}
		b.text += ", " + instant(x.CreatedAt)
		bars[i] = b
	}
	return Runs{Noun: "run", LeadTo: "an execution"}.with(bars)
}

// A Shown is how the attempt of a transfer's step is shown.
type Shown struct {
	Href    string // of the attempt
	Job     string
	Message string // why it failed, in the form for the visitor
}

// TransfersOf returns the runs of transfers, which are in descending order of their ends.
func TransfersOf(list []store.Transfer, show func(*store.Transfer) Shown) Runs {
	bars := make([]bar, len(list))
	for i := range list {
		t, s := &list[i], show(&list[i])
		a := &t.Attempt
		b := bar{href: s.Href, status: string(a.State), took: max(0, a.EndedAt.Sub(a.StartedAt)), completed: a.State == courier.StepCompleted}
		if a.State == courier.StepPending {
			b.status = "interrupted"
		}
		b.text = format.Took(b.took)
		if t.Files > 0 {
			b.text += ", " + format.Plural(t.Files, "file")
		}
		if a.Bytes > 0 {
			b.text += ", " + format.Plural(a.Bytes, "byte")
		}
		b.text += fmt.Sprintf(", %s, job %q, %s%s", instant(a.StartedAt), format.Clip(80, s.Job), courier.StepLabel(a.Step, a.ID, a.Type), format.InItem(a.ItemLabels, a.Iteration))
		if s.Message != "" {
			b.text += ": " + format.Clip(200, s.Message)
		}
		bars[i] = b
	}
	return Runs{Noun: "transfer", LeadTo: "an attempt of a step"}.with(bars)
}

func instant(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" }

// with returns r with bars. The first bar is the newest.
func (r Runs) with(bars []bar) Runs {
	r.Count = len(bars)
	var completed []time.Duration
	var most time.Duration = 1
	for i := range bars {
		if most = max(most, bars[i].took); bars[i].completed {
			completed = append(completed, bars[i].took)
		}
	}
	slices.Sort(completed)
	if r.Completed = len(completed); r.Completed > 0 {
		r.Median, r.P95 = rank(completed, 50), rank(completed, 95)
	}
	const wide, high, least = 14, 56, 3
	var s strings.Builder
	fmt.Fprintf(&s, `<svg class="bars" viewBox="0 0 %d %d" width="%d" height="%d" role="group" aria-label="How long the last %s lasted, the newest last">`, len(bars)*wide, high, len(bars)*wide, high, format.Plural(len(bars), r.Noun))
	for i := range bars {
		b := &bars[len(bars)-1-i]
		h := least + int(float64(high-least)*float64(b.took)/float64(most))
		fmt.Fprintf(&s, `<a href="%s" tabindex="-1"><title>%s: %s</title><rect class="%s" x="%d" y="%d" width="%d" height="%d"/></a>`, template.HTMLEscapeString(b.href),
			format.Words(b.status), template.HTMLEscapeString(b.text), format.LookOf(b.status).Class, i*wide, high-h, wide-3, h)
	}
	s.WriteString("</svg>")
	r.Bars = template.HTML(s.String())
	return r
}

// rank returns the value that the given percentage of a sorted list does not exceed. The list is
// not empty.
func rank(list []time.Duration, percent int) time.Duration {
	return list[(len(list)*percent+99)/100-1]
}
