package dashboard

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/dashboard/internal/values"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/store"
)

// The number of entries on a page of each part.
const (
	attemptsPage = 50
	filesPage    = 50
	auditPage    = 100
	logPage      = 20
)

// after returns the sequence number after which a page of records begins.
func (c *call) after() (int64, error) {
	n, err := c.number("after", 0, 0, 1<<40)
	return int64(n), err
}

// pages are the references of the first and the next page of a list.
type pages struct{ First, Next string }

// pagesOf returns the references. Next is the number after which the next page begins, or 0 if
// there is none.
func (c *call) pagesOf(next int64) (p pages) {
	if c.query.Get("after") != "" {
		p.First = c.with("after", "")
	}
	if next > 0 {
		p.Next = c.with("after", strconv.FormatInt(next, 10))
	}
	return p
}

// recordsPage reads a page of records, and returns the number after which the next page begins.
func (c *call) recordsPage(f store.StepFilter, most int) ([]courier.StepExecution, int64, error) {
	var err error
	if f.After, err = c.after(); err != nil {
		return nil, 0, err
	}
	if step, err := c.number("step", -1, 0, 1<<20); err != nil {
		return nil, 0, err
	} else if step >= 0 {
		f.Step = &step
	}
	f.Limit = most + 1
	list, err := c.records(f)
	if err != nil || len(list) <= most {
		return list, 0, err
	}
	return list[:most], list[most-1].Seq, nil
}

// An attemptsTab lists the records of steps.
type attemptsTab struct {
	pages
	Rows  []attemptRow
	Views []navItem
	Step  string // the label of the selected step
	Item  string // the selected item of a loop
	All   string // reference of the attempts in all items
}

type attemptRow struct {
	courier.StepExecution
	Label string
	Took  time.Duration
	LogAt string // reference of its log
	At    target // the connection of a failed attempt
}

func (c *call) attempts(p *executionPage) error {
	t := &attemptsTab{}
	p.Attempts = t
	f := store.StepFilter{}
	state := c.query.Get("state")
	if state != "" {
		if !slices.Contains([]string{"completed", "failed", "skipped", "pending"}, state) {
			return problem.Invalid("state in the address must be completed, failed, skipped or pending.")
		}
		f.States = []courier.StepState{courier.StepState(state)}
	}
	if item := c.query.Get("item"); item != "" {
		loop, err := c.number("loop", -1, 0, 1<<20)
		if err != nil {
			return err
		}
		iteration, wrong := courier.ParseIteration(item)
		if wrong != nil || loop < 0 {
			return problem.Invalid("loop and item in the address must name an item of a loop, such as loop=1 and item=27.")
		}
		f.Item = &courier.ItemPath{Loop: loop, Iteration: iteration}
		t.Item, t.All = format.Item("", iteration), c.with("loop", "", "item", "", "after", "")
	}
	for _, v := range []struct{ label, state string }{{"All", ""}, {"Failed", "failed"}, {"Completed", "completed"}, {"Skipped", "skipped"}, {"Interrupted", "pending"}} {
		t.Views = append(t.Views, navItem{Label: v.label, Href: c.with("state", v.state, "after", ""), Current: v.state == state})
	}
	list, next, err := c.recordsPage(f, attemptsPage)
	if err != nil {
		return err
	}
	t.pages = c.pagesOf(next)
	for i := range list {
		s := &list[i]
		t.Rows = append(t.Rows, attemptRow{StepExecution: *s, Label: courier.StepLabel(s.Step, s.ID, s.Type), Took: lasted(s), LogAt: "?tab=log&seq=" + strconv.FormatInt(s.Seq, 10)})
		if s.State == courier.StepFailed {
			t.Rows[i].At = c.stepConnection(&c.execution, s.Step)
		}
	}
	if c.query.Get("step") != "" {
		t.Step = "step " + c.query.Get("step")
		if len(t.Rows) > 0 {
			t.Step = t.Rows[0].Label
		}
	}
	for i := range t.Rows {
		if r := &t.Rows[i]; f.Item != nil && len(r.ItemLabels) >= len(f.Item.Iteration) {
			t.Item = format.Item(r.ItemLabels[len(f.Item.Iteration)-1], f.Item.Iteration)
		}
	}
	return nil
}

// lasted returns how long an attempt lasted. It is negative if the attempt has not ended.
func lasted(s *courier.StepExecution) time.Duration {
	if s.EndedAt.IsZero() {
		return -1
	}
	return s.EndedAt.Sub(s.StartedAt)
}

// A filesTab lists the files that steps have reported.
type filesTab struct {
	pages
	Rows    []fileRow
	Servers bool // at least one of them is on a server
}

type fileRow struct {
	courier.File
	What   string // "received", "sent", "written" or "removed"
	Step   string
	Item   string
	At     time.Time
	Server target // its connection
	Span   int    // how many rows share the step and the instant of this row; 0 for the rows below the first
	seq    int64  // of the record
}

func (c *call) files(p *executionPage) error {
	list, next, err := c.recordsPage(store.StepFilter{Files: true}, filesPage)
	if err != nil {
		return err
	}
	t := &filesTab{pages: c.pagesOf(next)}
	p.Files = t
	for i := range list {
		s := &list[i]
		span := len(s.Files)
		for _, f := range s.Files {
			t.Rows = append(t.Rows, fileRow{File: f, What: fileWord(&f), Step: courier.StepLabel(s.Step, s.ID, s.Type), Item: courier.FormatIteration(s.Iteration), At: s.EndedAt, Server: c.connectionTarget(f.Connection), Span: span, seq: s.Seq})
			t.Servers, span = t.Servers || f.Connection != "", 0
		}
	}
	return nil
}

// fileWord says in a word what a step has done with a file.
func fileWord(f *courier.File) string {
	switch {
	case f.Removed:
		return "removed"
	case f.Received:
		return "received"
	case f.Connection != "":
		return "sent"
	}
	return "written"
}

// A logTab has the logs of steps.
type logTab struct {
	pages
	Rows []attemptRow
}

func (c *call) log(p *executionPage) error {
	f := store.StepFilter{Details: true}
	if c.query.Get("seq") != "" {
		seq, err := c.number("seq", 0, 1, 1<<40)
		if err != nil {
			return err
		}
		f.After, f.Limit = int64(seq)-1, 1
		list, err := c.records(f)
		if err != nil {
			return err
		}
		p.Log = &logTab{pages: pages{First: c.with("seq", "")}, Rows: logRows(list)}
		return nil
	}
	list, next, err := c.recordsPage(f, logPage)
	if err != nil {
		return err
	}
	p.Log = &logTab{pages: c.pagesOf(next), Rows: logRows(list)}
	return nil
}

// logRows returns the records that have a log, an error or a stack.
func logRows(list []courier.StepExecution) (rows []attemptRow) {
	for i := range list {
		if s := &list[i]; s.Log != "" || s.Stack != "" || s.Error != "" {
			rows = append(rows, attemptRow{StepExecution: *s, Label: courier.StepLabel(s.Step, s.ID, s.Type), Took: lasted(s)})
		}
	}
	return rows
}

// An auditTab lists the changes of state.
type auditTab struct {
	pages
	Rows []auditRow
}

type auditRow struct {
	courier.AuditEntry
	What string // the execution, or the step
}

func (c *call) audit(p *executionPage) error {
	after, err := c.after()
	if err != nil {
		return err
	}
	list, err := c.h.e.Executions().AuditPage(c.ctx(), store.AuditFilter{Execution: p.X.ID, After: after, Limit: auditPage + 1})
	if err != nil {
		return err
	}
	values := c.SeesValues(c.ctx(), p.X.Job)
	next := int64(0)
	if len(list) > auditPage {
		list = list[:auditPage]
		next = list[auditPage-1].Seq
	}
	t := &auditTab{pages: c.pagesOf(next)}
	p.Audit = t
	for _, a := range list {
		if !values {
			desk.HideEntry(&a)
		}
		what := "execution"
		if a.Step != nil {
			what = courier.StepLabel(*a.Step, a.ID, a.Type) + format.InItem(nil, a.Iteration)
		}
		t.Rows = append(t.Rows, auditRow{a, what})
	}
	return nil
}

// A valuesTab lists the values in scope.
type valuesTab struct {
	Rows []values.Row
	Gone string // why there are no values
}

func (c *call) values(p *executionPage) error {
	t := &valuesTab{}
	p.Values = t
	all, err := c.h.e.Executions().Values(c.ctx(), p.X.ID)
	if errors.Is(err, courier.ErrInvalid) {
		t.Gone = format.Sentence(err.Error())
		return nil
	} else if err != nil {
		return err
	}
	g, err := c.parsed(&p.X)
	if err != nil {
		return err
	}
	t.Rows, err = values.Rows(all, g.Tree, p.X.Repairs)
	return err
}
