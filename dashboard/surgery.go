package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/jsontext"
)

// A resumePage resumes an execution with changes: what is wanted, then what that would do,
// then the deed.
type resumePage struct {
	X        courier.Execution
	Status   string
	Back     string // reference of the page of the execution
	Steps    []stepChoice
	Versions []int
	Items    []itemChoice
	Cut      string // of which items not all are listed
	Failed   string // the step that can be skipped
	Report   *resumeReport
	Sees     bool // the visitor may see values
}

type stepChoice struct {
	Value, Label string
	Chosen       bool
}

type itemChoice struct {
	Value, Label, Error string
	Chosen              bool
}

// A resumeReport says what a resume would do.
type resumeReport struct {
	engine.ResumeReport
	At    string   // where it goes on
	Again []string // completed steps that run again
	Runs  int      // how many steps may run
	Gone  []string // files that completed steps took away
	Text  string   // the configuration of the first step
}

// resumeBy returns the options of a plain resume.
func resumeBy(by courier.By) *engine.ResumeOptions { return &engine.ResumeOptions{By: by} }

// maxChoices is how many failed items can be chosen from.
const maxChoices = 200

func (c *call) resumePage() (any, error) {
	x := c.execution
	c.title = "Resume " + x.Job + " with changes"
	p := &resumePage{X: x, Status: x.Status(now()), Back: c.link("executions", string(x.ID)), Sees: c.SeesValues(c.ctx(), x.Job)}
	if !p.Sees {
		desk.HideValues(&p.X)
	}
	g, err := c.parsed(&x)
	if err != nil {
		return nil, err
	}
	tree := g.Tree
	for i := range min(x.Position.Step+1, tree.Len()) {
		s := tree.Spec(i)
		if t := strings.ToLower(s.Type); t == flow.TypeEnd || t == flow.TypeElse {
			continue
		}
		label := courier.StepLabel(i, s.ID, s.Type)
		if i == x.Position.Step {
			label += ", where it stands"
		}
		value := headOf(tree, i)
		p.Steps = append(p.Steps, stepChoice{value, label, c.form.Get("from") == value && value != ""})
	}
	slices.Reverse(p.Steps)
	versions, err := c.h.e.Jobs().Versions(c.ctx(), x.Job, engine.VersionFilter{Limit: 20})
	if err != nil {
		return nil, err
	}
	for i := range versions {
		if v := versions[i].Job.Version; v != x.Version {
			p.Versions = append(p.Versions, v)
		}
	}
	if f := x.Failure; f != nil && f.Step >= 0 && x.State == courier.Failed {
		p.Failed = courier.StepLabel(f.Step, f.ID, f.Type) + inIteration(f.Iteration)
	}
	if x.FailedItems > 0 {
		if err := c.itemChoices(p); err != nil {
			return nil, err
		}
	}
	if c.report != nil {
		p.Report = c.reportOf(tree, p.Sees)
	}
	return p, nil
}

func (c *call) itemChoices(p *resumePage) error {
	list, err := c.h.e.Executions().FailedItems(c.ctx(), c.execution.ID)
	if err != nil {
		return err
	}
	if len(list) > maxChoices {
		p.Cut = fmt.Sprintf("The first %s of %s failed items are listed.", format.Count(maxChoices), format.Count(len(list)))
		list = list[:maxChoices]
	}
	for i := range list {
		f := &list[i]
		value := itemValue(f.ItemPath)
		choice := itemChoice{Value: value, Label: fmt.Sprintf("item %s, at %s", courier.FormatIteration(f.ItemPath.Iteration), courier.StepLabel(f.Step, f.ID, f.Type)), Error: f.Error, Chosen: slices.Contains(c.form["item"], value)}
		if !p.Sees {
			choice.Error = desk.Hidden
		}
		p.Items = append(p.Items, choice)
	}
	return nil
}

// itemValue is a failed item as the value of a field: "3:1.0" for item 1.0 of the loop at 3.
func itemValue(i courier.ItemPath) string {
	return strconv.Itoa(i.Loop) + ":" + courier.FormatIteration(i.Iteration)
}

// itemOf reads what itemValue writes.
func itemOf(value string) (i courier.ItemPath, err error) {
	loop, path, _ := strings.Cut(value, ":")
	if i.Loop, err = strconv.Atoi(loop); err != nil {
		return i, err
	}
	for text := range strings.SplitSeq(path, ".") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return i, err
		}
		i.Iteration = append(i.Iteration, n)
	}
	return i, nil
}

// resumeOptions reads the form of the page.
func (c *call) resumeOptions() (*engine.ResumeOptions, error) {
	f := c.form
	o := &engine.ResumeOptions{By: c.by(), From: f.Get("from"), Force: f.Has("force"), Skip: f.Has("skip"), Elsewhere: f.Has("elsewhere")}
	var problems []string
	if v := f.Get("version"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			problems = append(problems, "The version must be a number from 1 on.")
		}
		o.Version = n
	}
	object := func(name, what string) map[string]any {
		text := strings.TrimSpace(f.Get(name))
		if text == "" {
			return nil
		}
		var m map[string]any
		if err := jsontext.DecodeStrict([]byte(text), &m); err != nil {
			problems = append(problems, fmt.Sprintf("%s must be a JSON object: %v", what, err))
		}
		return m
	}
	o.Set = object("set", "The changed values")
	o.Outputs = object("outputs", "The outputs of the skipped step")
	for _, v := range f["item"] {
		i, err := itemOf(v)
		if err != nil {
			problems = append(problems, "An item is none of this execution.")
			continue
		}
		o.Items = append(o.Items, i)
	}
	if len(problems) > 0 {
		p := problem.Invalid("The form has mistakes.")
		p.Problems = problems
		return nil, p
	}
	return o, nil
}

// tryResume says what the form would do.
func tryResume(ctx context.Context, c *call) (string, error) {
	o, err := c.resumeOptions()
	if err != nil {
		return "", err
	}
	r, err := c.h.e.DryRunResume(ctx, c.execution.ID, o)
	if err == nil {
		c.report = &r
	}
	return "", err
}

// resumeWith does what the form says.
func resumeWith(ctx context.Context, c *call) (string, error) {
	o, err := c.resumeOptions()
	if err != nil {
		return "", err
	}
	if _, err = c.h.e.Resume(ctx, c.execution.ID, o); err != nil {
		return "", err
	}
	return c.link("executions", string(c.execution.ID)), nil
}

// reportOf is the report of a dry run, as the visitor may see it.
func (c *call) reportOf(tree *flow.Tree, sees bool) *resumeReport {
	r := &resumeReport{ResumeReport: *c.report, Runs: len(c.report.Steps)}
	if !sees {
		r.Note, r.Config, r.ResumeReport.Values = "", nil, nil
	}
	if i := r.Position.Step; i < tree.Len() {
		s := tree.Spec(i)
		r.At = courier.StepLabel(i, s.ID, s.Type) + inIteration(r.Position.Iteration())
	}
	for _, s := range r.Steps {
		if s.Again {
			r.Again = append(r.Again, courier.StepLabel(s.Step, s.ID, s.Type))
		}
	}
	for _, f := range r.Consumed {
		if text := f.Path; sees {
			r.Gone = append(r.Gone, text+", by step "+strconv.Itoa(f.Step))
		} else {
			r.Gone = append(r.Gone, "a file, by step "+strconv.Itoa(f.Step))
		}
	}
	if text, err := json.MarshalIndent(r.Config, "", "  "); err == nil && r.Config != nil {
		r.Text = string(text)
	}
	return r
}

// A rerunPage starts an execution again, as a new one.
type rerunPage struct {
	X      courier.Execution
	Back   string
	Params string // those of the execution, as JSON
	Sees   bool
}

func (c *call) rerunPage() (any, error) {
	x := c.execution
	c.title = "Start " + x.Job + " again"
	p := &rerunPage{X: x, Back: c.link("executions", string(x.ID)), Sees: c.SeesValues(c.ctx(), x.Job)}
	if text, err := json.MarshalIndent(x.Params, "", "  "); p.Sees && err == nil && x.Params != nil {
		p.Params = string(text)
	}
	if !p.Sees {
		desk.HideValues(&p.X)
	}
	return p, nil
}

// rerun starts the execution again; the same form does it once.
func rerun(ctx context.Context, c *call) (string, error) {
	o := &engine.RerunOptions{By: c.by(), IdempotencyKey: c.formKey()}
	if v := c.form.Get("version"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			return "", problem.Invalid("The version must be a number from 1 on.")
		}
		o.Version = n
	}
	if text := strings.TrimSpace(c.form.Get("params")); text != "" {
		if err := jsontext.DecodeStrict([]byte(text), &o.Params); err != nil {
			return "", problem.Invalid("The parameters must be a JSON object: %v", err)
		}
	}
	x, err := c.h.e.Rerun(ctx, c.execution.ID, o)
	if err != nil {
		return "", err
	}
	return c.link("executions", string(x.ID)), nil
}
