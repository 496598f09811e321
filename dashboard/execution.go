package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/advice"
	"github.com/courierhq/courier/dashboard/internal/definition"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/dashboard/internal/resumeform"
	"github.com/courierhq/courier/dashboard/internal/versions"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/store"
)

// An executionPage is the page of one execution.
type executionPage struct {
	X        courier.Execution // as the visitor may see it
	Client   bool              // the visitor sees only its status
	Status   string
	Headline string // what it is doing, or why it does not go on
	Detail   string // details, such as the message of a failure
	At       target // the connection of the step that has failed
	Running  *runningStep
	Because  []advice.Cause
	Again    string // reference of the execution that this one repeats
	Job      string // reference of the job; empty if it has no page
	Chain    string // reference of the chain execution, likewise
	Origin   []origin
	Took     time.Duration // of one that has ended
	Links    []Link
	Last     bool            // it executes a step, and no step comes after it
	Can      map[string]bool // the actions that its state and the visitor's role permit
	Resume   string          // reference of the page that resumes it with changes
	Rerun    string
	Failed   []failedRow // the first failed items, of an execution that has stopped
	More     int         // further failed items
	Rescued  []failedRow // the first rescued items
	Others   int         // further rescued items
	Newer    int         // a version of the job that is newer than the version of a failed or queued execution
	Gone     bool        // it is lost, and no worker has its files
	Tabs     []navItem
	Tab      string

	Outline    *outlineTab
	Attempts   *attemptsTab
	Values     *valuesTab
	Files      *filesTab
	Log        *logTab
	Audit      *auditTab
	Definition string
	Flow       *definition.Flow // of the definition

	now time.Time
}

// A runningStep is the progress of the current step.
type runningStep struct {
	courier.Progress
	Percent int // of the item; -1 if not known
	Rate    int64
	Since   string
}

// A failedRow is a failed or rescued item of a loop.
type failedRow struct {
	Label, Step, Error string
	At                 target // the connection of the step
	Href               string // of the outline that shows the item
	Attempts           string // of the attempts in the item
	// References of the page that resumes the execution, with the item selected. Rescue is empty if
	// there is none.
	Again, Accept, Skip, Rescue string
}

// maxFailedRows is how many failed items the page lists. If there are more than maxFailedItems, it
// reads none.
const (
	maxFailedRows  = 20
	maxFailedItems = 1000
)

// failedItems lists the failed items, which need attention first, and the rescued items. While the
// execution runs, the outline lists them.
func (c *call) failedItems(p *executionPage, sees bool) (err error) {
	x := &p.X
	if x.State != courier.Failed && x.State != courier.Paused && x.State != courier.Completed {
		return nil
	}
	if p.Failed, p.More, err = c.itemRows(p, sees, x.FailedItems, c.h.e.Executions().FailedItems); err == nil {
		p.Rescued, p.Others, err = c.itemRows(p, sees, x.RescuedItems, c.h.e.Executions().RescuedItems)
	}
	return err
}

// itemRows reads a list of count items. It returns the first ones, and the number of the others.
func (c *call) itemRows(p *executionPage, sees bool, count int, read func(context.Context, courier.ExecutionID) ([]courier.FailedItem, error)) (rows []failedRow, more int, err error) {
	if count == 0 || count > maxFailedItems {
		return nil, 0, nil
	}
	list, err := read(c.ctx(), p.X.ID)
	if errors.Is(err, courier.ErrNotFound) || errors.Is(err, courier.ErrInvalid) {
		return nil, 0, nil // the job can't be read any more; the part of the page that needs it shows the error
	} else if err != nil {
		return nil, 0, err
	}
	v, err := c.parsed(&p.X)
	if err != nil || len(list) == 0 {
		return nil, 0, err
	}
	for i := range list[:min(len(list), maxFailedRows)] {
		f := &list[i]
		if !sees {
			desk.HideItem(f)
		}
		self, at := c.link("executions", string(p.X.ID)), url.Values{"loop": {strconv.Itoa(f.Loop)}, "item": {courier.FormatIteration(f.Iteration)}}
		with := func(field string) string {
			return p.Resume + "?" + url.Values{field: {resumeform.ItemValue(f.ItemPath)}}.Encode()
		}
		name, index := f.Label, f.Iteration[len(f.Iteration)-1]
		row := failedRow{
			Label: format.Item(name, f.Iteration), Step: courier.StepLabel(f.Step, f.ID, f.Type), Error: strings.TrimPrefix(f.Error, courier.FormatItem(name, index)+": "),
			At: c.stepConnection(&p.X, f.Step), Href: self + "?" + at.Encode(), Again: with("item"), Accept: with("accept"), Skip: with("skip-item"),
		}
		at.Set("tab", "attempts")
		if row.Attempts = self + "?" + at.Encode(); hasRescue(v.Tree, f) {
			row.Rescue = with("rescue")
		}
		rows = append(rows, row)
	}
	return rows, max(0, len(list)-maxFailedRows), nil
}

// executionTabs are the parts of the page of an execution. The first has no parameter.
var executionTabs = []struct{ name, label string }{
	{"", "Outline and timeline"}, {"attempts", "Attempts"}, {"values", "Values"}, {"files", "Files"}, {"log", "Log"}, {"audit", "Audit"}, {"definition", "Definition"},
}

func (c *call) executionPage() (any, error) {
	p := &executionPage{now: now(), Can: make(map[string]bool)}
	x := c.execution
	p.Client = !c.Can(c.ctx(), x.Job, access.RightSee)
	sees := c.SeesValues(c.ctx(), x.Job)
	if !sees {
		desk.HideValues(&x)
	}
	p.X, p.Status = x, x.Status(p.now)
	c.title = x.Job
	if x.State.Ended() && !x.EndedAt.IsZero() {
		p.Took = x.EndedAt.Sub(cmp.Or(x.StartedAt, x.CreatedAt))
	}
	if p.Client {
		if p.Status == "lost" {
			p.Status = string(courier.Running)
		}
		p.X = courier.Execution{ID: x.ID, Job: x.Job, State: x.State, CreatedAt: x.CreatedAt, StartedAt: x.StartedAt, EndedAt: x.EndedAt, Request: x.Request, HasFinally: x.HasFinally, Finishing: x.Finishing, Result: c.execution.Result, Failure: x.Failure}
		if err := c.explain(p); err != nil {
			return nil, err
		}
		return p, c.offer(p)
	}
	p.Origin = originOf(&x)
	if x.RerunOf != "" {
		p.Again = c.link("executions", string(x.RerunOf))
	}
	if c.hasPage("jobs/{name}") {
		p.Job = c.link("jobs", x.Job)
	}
	if x.Chain != "" && c.hasPage("chain-executions/{id}") {
		p.Chain = c.link("chain-executions", string(x.Chain))
	}
	if c.h.opt.Links != nil {
		p.Links = slices.DeleteFunc(slices.Clone(c.h.opt.Links(x)), func(l Link) bool { return !isWebLink(l.URL) || l.Text == "" })
	}
	if err := c.explain(p); err != nil {
		return nil, err
	}
	if p.headline(sees); p.Detail != "" {
		p.At = c.stepConnection(&x, x.Failure.Step)
	}
	if err := c.offer(p); err != nil {
		return nil, err
	}
	if err := c.failedItems(p, sees); err != nil {
		return nil, err
	}
	if x.State == courier.Running && x.Current != nil {
		if v, err := c.parsed(&x); err == nil { // the part of the page that needs it shows the error
			p.Last = isLast(v.Job.Steps, x.Current)
		}
	}
	return p, c.executionTab(p)
}

// isWebLink reports whether a link of the host leads to a web page.
func isWebLink(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "" || u.Scheme == "https" || u.Scheme == "http")
}

// explain adds the reasons why the execution does not go on. If the store can't give them, they are
// left out.
func (c *call) explain(p *executionPage) error {
	if p.X.State.Final() {
		return nil
	}
	e, err := c.Explain(c.ctx(), &c.execution)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	} else if err != nil {
		return err
	}
	p.Because = e.Because
	for i := range p.Because {
		cause := &p.Because[i]
		if cause.Kind == advice.Failed {
			cause.Text = "" // the text of the failure stands above it
		}
	}
	return nil
}

// headline says in a sentence what the execution is doing, or what its status is.
func (p *executionPage) headline(sees bool) {
	x := &p.X
	switch s := x.Current; {
	case x.State == courier.Running && s != nil:
		p.Headline = fmt.Sprintf("At %s%s, attempt %d, on worker %q.", courier.StepLabel(s.Step, s.ID, s.Type), format.InItem(s.ItemLabels, s.Iteration), s.Attempt, x.Worker)
		p.Running = &runningStep{Percent: -1, Since: s.StartedAt.UTC().Format(time.RFC3339)}
		if s.Progress != nil {
			p.Running.Progress = *s.Progress
			if s.Progress.Total > 0 {
				p.Running.Percent = int(min(100, s.Progress.Done*100/s.Progress.Total))
			}
			if took := p.now.Sub(s.StartedAt); took >= time.Second {
				p.Running.Rate = int64(float64(s.Progress.Bytes) / took.Seconds())
			}
		}
	case x.State == courier.Running:
		p.Headline = "It is between two steps."
	case x.Failure != nil && x.State != courier.Completed:
		p.Headline = "An attempt has failed. It waits for the next one."
		if x.State == courier.Failed {
			p.Headline = "It has failed. Resume or cancel it."
		}
		p.Detail = failureText(x.Failure)
	case x.State == courier.Completed:
		p.Headline = "It took " + format.Took(p.Took) + "."
		if n := x.FailedItems; n > 0 {
			p.Headline = fmt.Sprintf("It took %s. The job accepts that %s failed.", format.Took(p.Took), format.Plural(n, "item"))
		}
	case x.State == courier.Cancelled:
		p.Headline = "It was cancelled and can't be resumed."
	case x.State == courier.Paused:
		p.Headline = "It is paused until somebody resumes or cancels it."
	case x.State == courier.Created:
		p.Headline = "It starts when somebody releases it."
	default:
		p.Headline = "It is in the queue " + x.Queue + "."
	}
	if f := x.Finishing; f != nil {
		p.Headline = fmt.Sprintf("Its outcome is decided: %s. %s", f.Outcome, p.Headline)
		if x.Current == nil {
			p.Headline = fmt.Sprintf("Its outcome is decided: %s. Its finally part runs before it ends.", f.Outcome)
		}
	}
	if p.Status == "lost" && sees {
		p.Headline = fmt.Sprintf("Worker %q has lost it: its lease has ended.", x.Worker)
	}
}

// isLast reports whether no step can follow the current step, whatever the values are. It returns
// false for steps in loops and in branches with an else.
func isLast(steps []courier.StepSpec, s *courier.StepExecution) bool {
	return s != nil && len(s.Iteration) == 0 && s.Step < len(steps) &&
		!slices.ContainsFunc(steps[s.Step+1:], func(t courier.StepSpec) bool { return !strings.EqualFold(t.Type, flow.TypeEnd) })
}

// failureText returns the text of a failure.
func failureText(f *courier.Failure) string {
	if f.Step < 0 {
		return f.Message
	}
	return courier.StepLabel(f.Step, f.ID, f.Type) + format.InItem(f.ItemLabels, f.Iteration) + ": " + f.Message
}

// offer finds the actions that are possible with the execution.
func (c *call) offer(p *executionPage) error {
	s := p.X.State
	still := s == courier.Paused || s == courier.Failed
	can := func(name, op string, is bool) {
		if is && c.mayDo(op) {
			p.Can[name] = true
		}
	}
	cancelling := p.X.Request == courier.RequestCancel || p.X.Request == courier.RequestAbort
	finishing := p.X.Finishing != nil
	can("pause", "pauseExecution", (s == courier.Queued || s == courier.Running) && p.X.Request == "" && !finishing)
	can("cancel", "cancelExecution", !s.Final() && !cancelling && !finishing)
	runs := s == courier.Queued || s == courier.Running || s == courier.Paused
	can("abort", "cancelExecution", p.X.HasFinally && !p.X.StartedAt.IsZero() && runs && p.X.Request != courier.RequestAbort)
	can("release", "releaseExecution", s == courier.Created)
	can("resume", "resumeExecution", still || p.Status == "pausing")
	can("rerun", "rerunExecution", s.Ended())
	can("change", "resumeExecution", still || p.Status == "lost")
	if (s == courier.Queued || s == courier.Created) && !p.Client {
		return c.newer(p)
	}
	if !c.mayDo("resumeExecution") {
		return nil
	}
	p.Resume = c.link("executions", string(p.X.ID), "resume")
	p.Rerun = c.link("executions", string(p.X.ID), "rerun")
	p.Gone = p.Status == "lost" && slices.ContainsFunc(p.Because, func(b advice.Cause) bool { return b.Kind == advice.Workspace })
	if s != courier.Failed {
		return nil
	}
	return c.newer(p)
}

// newer finds out whether the job has a newer version than the execution.
func (c *call) newer(p *executionPage) error {
	latest, err := c.h.e.Jobs().Get(c.ctx(), p.X.Job, 0)
	if errors.Is(err, courier.ErrNotFound) {
		return nil // the job was removed
	}
	if err == nil && latest.Version > p.X.Version {
		p.Newer = latest.Version
	}
	return err
}

// executionTab reads the data of the selected part of the page.
func (c *call) executionTab(p *executionPage) (err error) {
	p.Tab = c.query.Get("tab")
	if !slices.ContainsFunc(executionTabs, func(t struct{ name, label string }) bool { return t.name == p.Tab }) {
		return problem.ErrNoPage
	}
	for _, t := range executionTabs {
		href := "?tab=" + t.name
		if t.name == "" {
			href = "?"
		}
		p.Tabs = append(p.Tabs, navItem{Label: t.label, Href: href, Current: t.name == p.Tab})
	}
	switch p.Tab {
	case "":
		return c.outline(p)
	case "audit":
		return c.audit(p)
	case "attempts":
		return c.attempts(p)
	case "definition":
		v, err := c.parsed(&p.X)
		if err != nil {
			return err
		}
		text, err := json.MarshalIndent(v.Job, "", "  ")
		p.Definition = string(text)
		shown := definition.FlowOf(&v.Job, c.h.e.Registry())
		p.Flow = &shown
		return err
	}
	if !c.SeesValues(c.ctx(), p.X.Job) {
		return &access.Error{Text: "this shows values, which you may not see: it needs the right values"}
	}
	switch p.Tab {
	case "values":
		return c.values(p)
	case "files":
		return c.files(p)
	}
	return c.log(p)
}

// parsed returns the job of the execution, and its tree.
func (c *call) parsed(x *courier.Execution) (*versions.Version, error) {
	return c.h.versions.Get(x.Job, x.Version, func() (courier.Job, error) { return c.h.e.Jobs().Get(c.ctx(), x.Job, x.Version) })
}

// records reads records of the execution in the form for the visitor. Their indexes are those of
// the present version of the execution.
func (c *call) records(f store.StepFilter) ([]courier.StepExecution, error) {
	f.Execution = c.execution.ID
	list, err := c.h.e.Executions().StepsPage(c.ctx(), f)
	if err != nil {
		return nil, err
	}
	sees := c.SeesValues(c.ctx(), c.execution.Job)
	var changes []courier.VersionChange
	if r := c.execution.Repairs; r != nil {
		changes = r.Versions
	}
	out := list[:0]
	for i := range list {
		r, ok := flow.MapRecord(&list[i], changes)
		if !ok {
			r = list[i]
		}
		if !sees {
			desk.HideStep(&r)
		}
		out = append(out, r)
	}
	return out, nil
}

// The actions of the page.
var executionActions = []action{
	{verb: "pause", op: "pauseExecution", do: ask("pause")},
	{verb: "cancel", op: "cancelExecution", do: ask("cancel")},
	{verb: "abort", op: "cancelExecution", do: ask("abort")},
	{verb: "release", op: "releaseExecution", do: ask("release")},
	{verb: "resume", op: "resumeExecution", do: ask("resume")},
}

// ask returns the function of an action that sends a request to the execution.
func ask(verb string) func(ctx context.Context, c *call) (string, error) {
	return func(ctx context.Context, c *call) (string, error) {
		var f func(context.Context, courier.ExecutionID, courier.By) (courier.Execution, error)
		switch e := c.h.e; verb {
		case "pause":
			f = e.Pause
		case "cancel", "abort":
			f = func(ctx context.Context, id courier.ExecutionID, by courier.By) (courier.Execution, error) {
				return e.Cancel(ctx, id, &courier.CancelOptions{By: by, WithoutFinally: verb == "abort"})
			}
		case "release":
			f = e.Release
		case "resume":
			f = func(ctx context.Context, id courier.ExecutionID, by courier.By) (courier.Execution, error) {
				return e.Resume(ctx, id, resumeBy(by))
			}
		}
		x, err := f(ctx, c.execution.ID, c.by())
		if err == nil {
			c.execution = x
		} else if now, again := c.h.e.Executions().Get(ctx, c.execution.ID); again == nil {
			c.execution = now // the page with the error shows the present state
		}
		return "", err
	}
}
