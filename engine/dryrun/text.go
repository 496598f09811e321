package dryrun

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/schedule"
)

// String returns the report for people. Its last line is a summary.
func (r Report) String() string {
	var p printer
	p.line(0, "dry run of job %s", named(r.Job, r.Version))
	p.job(&r, 2)
	p.schedules(r.Schedules)
	var c count
	c.add(&r)
	p.summary(&c, len(scheduleErrors(r.Schedules)), "job", r.Duration)
	return p.b.String()
}

// WriteTo writes the result of String.
func (r Report) WriteTo(w io.Writer) (int64, error) { return strings.NewReader(r.String()).WriteTo(w) }

// String returns the report for people. Its last line is a summary.
func (r ChainReport) String() string {
	var p printer
	p.line(0, "dry run of chain %s", named(r.Chain, r.Version))
	p.problems(r.Problems, r.Warnings, r.Params, r.Unknown, 2)
	c := count{problems: len(r.Problems)}
	for i := range r.Members {
		m := &r.Members[i]
		p.line(2, "member %q: job %s%s", m.Member, named(m.Report.Job, m.Report.Version), after(m.DependsOn))
		p.job(&m.Report, 4)
		c.add(&m.Report)
	}
	p.schedules(r.Schedules)
	p.summary(&c, len(scheduleErrors(r.Schedules)), "chain", r.Duration)
	return p.b.String()
}

// WriteTo writes the result of String.
func (r ChainReport) WriteTo(w io.Writer) (int64, error) {
	return strings.NewReader(r.String()).WriteTo(w)
}

// named is a job or chain with its version.
func named(name string, version int) string {
	if version == 0 {
		return strconv.Quote(name)
	}
	return fmt.Sprintf("%q, version %d", name, version)
}

// after says on what a member depends.
func after(list []chain.Dependency) string {
	var names []string
	for _, d := range list {
		text := strconv.Quote(d.Member)
		switch {
		case d.RequiredStatus == courier.RequireAny:
			text += ", however it ends"
		case d.RunOnFailure:
			text += ", even if it fails"
		}
		names = append(names, text)
	}
	if len(names) == 0 {
		return ""
	}
	return ", after " + strings.Join(names, " and ")
}

// A count counts steps by their states, and problems that are of none.
type count struct {
	steps    map[State]int
	all      int
	problems int
}

func (c *count) add(r *Report) {
	if c.steps == nil {
		c.steps = make(map[State]int)
	}
	for i := range r.Steps {
		c.steps[r.Steps[i].State]++
		c.all++
	}
	for _, p := range r.Problems {
		if p.Step < 0 || len(r.Steps) == 0 {
			c.problems++
		}
	}
}

// A printer writes a report for people.
type printer struct{ b strings.Builder }

// line writes a line, and what it has of further lines below it.
func (p *printer) line(indent int, format string, args ...any) {
	text := strings.Split(printable(fmt.Sprintf(format, args...)), "\n")
	for i, s := range text {
		if i > 0 {
			s = "  " + strings.TrimSpace(s)
		}
		p.b.WriteString(strings.TrimRight(strings.Repeat(" ", indent)+s, " ") + "\n")
	}
}

// printable keeps what others have written from steering a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ReplaceAll(s, "\t", " "))
}

func (p *printer) problems(problems, warnings []courier.Problem, params []flow.DeclaredParam, unknown []string, indent int) {
	for _, x := range problems {
		p.line(indent, "problem: %s", x)
	}
	for _, x := range warnings {
		p.line(indent, "warning: %s", x)
	}
	for _, x := range params {
		state := x.State
		switch state {
		case "default":
			state += " " + jsontext.Text(x.Default)
		case "missing":
			state = "required, and not given"
		case "null":
			state = "not given"
		}
		if x.Doc != "" {
			state += "; " + x.Doc
		}
		p.line(indent, "param %s (%s): %s", x.Name, x.Type, text.Shorten(state, 500))
	}
	if len(unknown) > 0 {
		p.line(indent, "params that are not known: %s", strings.Join(unknown, ", "))
	}
}

// job writes what is found of a job, with a line for each step.
func (p *printer) job(r *Report, indent int) {
	general := slices.DeleteFunc(slices.Clone(r.Problems), func(x courier.Problem) bool { return x.Step >= 0 && len(r.Steps) > 0 })
	beside := make(map[int][]courier.Problem) // warnings of steps
	var other []courier.Problem
	for _, w := range r.Warnings {
		if slices.ContainsFunc(r.Steps, func(s StepReport) bool { return s.Step == w.Step }) {
			beside[w.Step] = append(beside[w.Step], w)
		} else {
			other = append(other, w)
		}
	}
	p.problems(general, other, r.Params, r.Unknown, indent)
	path, label := 0, 0
	for i := range r.Steps {
		path, label = max(path, width(r.Steps[i].Path)), max(label, width(r.Steps[i].label()))
	}
	for i := range r.Steps {
		s := &r.Steps[i]
		took := ""
		if s.Duration > 0 {
			took = shortly(s.Duration)
		}
		p.line(indent, "%s  %s  %-11s  %s", pad(s.Path, path), pad(s.label(), label), strings.ReplaceAll(string(s.State), "_", " "), took)
		if s.Message != "" {
			p.line(indent+4, "%s", s.Message)
		}
		for _, w := range beside[s.Step] {
			w.Step = -1 // it stands beside the step
			p.line(indent+4, "warning: %s", w)
		}
		if len(s.Unresolved) > 0 {
			p.line(indent+4, "known only when it runs: %s", strings.Join(s.Unresolved, ", "))
		}
		for _, n := range s.Notes {
			p.line(indent+4, "note: %s", n)
		}
	}
}

// label is a step's id and type.
func (s *StepReport) label() string {
	if s.ID == "" {
		return s.Type
	}
	return s.ID + " (" + s.Type + ")"
}

func width(s string) int { return utf8.RuneCountInString(s) }

func pad(s string, n int) string { return s + strings.Repeat(" ", n-width(s)) }

// shortly is a duration of three digits.
func shortly(d time.Duration) string {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= unit {
			return d.Round(max(unit/100, 1)).String()
		}
	}
	return d.String()
}

func (p *printer) schedules(list []schedule.Report) {
	for i := range list {
		s := &list[i]
		text := fmt.Sprintf("schedule %q", s.Schedule)
		if s.Words != "" {
			text += ": " + s.Words
		}
		if s.Zone != "" {
			text += ", " + s.Zone
		}
		p.line(2, "%s", text)
		if s.Reason != "" {
			p.line(6, "it does not fire: %s", s.Reason)
		}
		if s.Problem != "" {
			p.line(6, "problem: %s", s.Problem)
		}
		for _, t := range s.Next {
			p.line(6, "next: %s", t.Format("Mon 2006-01-02 15:04:05 MST"))
		}
		for _, n := range s.Notes {
			p.line(6, "note: %s", n)
		}
	}
}

// summary is the last line.
func (p *printer) summary(c *count, schedules int, what string, took time.Duration) {
	var parts []string
	for _, state := range []State{OK, Problem, NotChecked} {
		if n := c.steps[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(string(state), "_", " ")))
		}
	}
	line := text.Count(c.all, "step") + ": " + strings.Join(parts, ", ")
	if c.all == 0 {
		line = "no steps"
	}
	if n := c.problems; n > 0 {
		line += "; " + text.Count(n, "problem") + " of the definition or the params"
	}
	if schedules > 0 {
		line += "; " + text.Count(schedules, "schedule") + " with a problem"
	}
	verdict := "nothing is known that keeps the " + what + " from running"
	if c.problems+schedules+c.steps[Problem] > 0 {
		verdict = "the " + what + " needs work before it can run"
	}
	p.line(0, "%s; %s; %s; nothing was executed or written", line, shortly(took), verdict)
}
