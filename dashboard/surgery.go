package dashboard

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/dashboard/internal/resumeform"
	"github.com/courierhq/courier/dashboard/internal/runform"
	"github.com/courierhq/courier/dashboard/internal/values"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/store"
)

// A resumePage resumes an execution with changes. First the visitor selects the changes, then the
// page shows their effect, then the form carries them out. A link that names a version or another
// host leads to the page with the effect.
type resumePage struct {
	X        courier.Execution
	Status   string
	Back     string // reference of the page of the execution
	Steps    []runform.Option
	Versions []int // other versions than the one of the execution
	Items    []itemChoice
	Rescued  []runform.Option // items that can run again
	Cut      string           // the lists of items that are incomplete
	Failed   string           // the step that can be skipped
	Report   *resumeform.Report
	Sees     bool // the visitor may see values
}

// An itemChoice is a failed item, and what to do with it.
type itemChoice struct {
	runform.Option
	Error                     string
	Accepted, Skipped, Rescue bool
	HasRescue                 bool // the item's loop has a rescue, or a loop in it around the failure has one
}

// resumeBy returns the options of a plain resume.
func resumeBy(by courier.By) *courier.ResumeOptions { return &courier.ResumeOptions{By: by} }

// maxChoices is the number of failed items to choose from.
const maxChoices = 200

func (c *call) resumePage() (any, error) {
	x := c.execution
	c.title = "Resume " + x.Job + " with changes"
	if c.form == nil {
		// A link fills in the form. If it names another version or host, the page shows the effect.
		c.form = c.query
		if c.form.Has("version") || c.form.Has("elsewhere") {
			_, c.failed = tryResume(c.ctx(), c)
		}
	}
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
		if t := strings.ToLower(s.Type); t == flow.TypeEnd || t == flow.TypeElse || t == flow.TypeRescue {
			continue
		}
		label := courier.StepLabel(i, s.ID, s.Type)
		if i == x.Position.Step {
			label += ", where it stopped"
		}
		value := values.Head(tree, i)
		p.Steps = append(p.Steps, runform.Option{Value: value, Label: label, Chosen: c.form.Get("from") == value && value != ""})
	}
	slices.Reverse(p.Steps)
	if p.Versions, err = c.versionsBut(x.Job, x.Version); err != nil {
		return nil, err
	}
	if f := x.Failure; f != nil && f.Step >= 0 && x.State == courier.Failed {
		p.Failed = courier.StepLabel(f.Step, f.ID, f.Type) + format.InItem(f.ItemLabels, f.Iteration)
	}
	if err := c.itemChoices(p, tree); err != nil {
		return nil, err
	}
	if c.report != nil {
		p.Report = resumeform.ReportOf(c.report, tree, p.Sees)
	}
	return p, nil
}

// maxVersionChoices is the number of versions of a job to choose from.
const maxVersionChoices = 20

// versionsBut returns the newest versions of a job, except one.
func (c *call) versionsBut(job string, but int) (list []int, err error) {
	versions, err := c.h.e.Jobs().Versions(c.ctx(), job, store.VersionFilter{Limit: maxVersionChoices})
	for i := range versions {
		if v := versions[i].Job.Version; v != but {
			list = append(list, v)
		}
	}
	return list, err
}

func (c *call) itemChoices(p *resumePage, tree *flow.Tree) error {
	x := &c.execution
	if x.RescuedItems > 0 {
		list, err := c.h.e.Executions().RescuedItems(c.ctx(), x.ID)
		if err != nil {
			return err
		}
		for i := range list[:min(len(list), maxChoices)] {
			f := &list[i]
			if !p.Sees {
				desk.HideItem(f)
			}
			value := resumeform.ItemValue(f.ItemPath)
			p.Rescued = append(p.Rescued, runform.Option{Value: value, Chosen: slices.Contains(c.form["item"], value), Label: format.Item(f.Label, f.Iteration)})
		}
	}
	if x.FailedItems == 0 {
		return nil
	}
	list, err := c.h.e.Executions().FailedItems(c.ctx(), x.ID)
	if err != nil {
		return err
	}
	if len(list) > maxChoices {
		p.Cut = fmt.Sprintf("The first %s of %s failed items are listed.", format.Count(maxChoices), format.Count(len(list)))
		list = list[:maxChoices]
	}
	for i := range list {
		f := &list[i]
		if !p.Sees {
			desk.HideItem(f)
		}
		value := resumeform.ItemValue(f.ItemPath)
		chosen := func(field string) bool { return slices.Contains(c.form[field], value) }
		p.Items = append(p.Items, itemChoice{
			Accepted: chosen("accept"), Skipped: chosen("skip-item"), Rescue: chosen("rescue"), HasRescue: hasRescue(tree, f), Error: f.Error,
			Option: runform.Option{Value: value, Chosen: chosen("item"), Label: format.Item(f.Label, f.Iteration) + ", at " + courier.StepLabel(f.Step, f.ID, f.Type)},
		})
	}
	return nil
}

// hasRescue reports whether a failed item can be rescued, according to its first failure.
func hasRescue(tree *flow.Tree, f *courier.FailedItem) bool {
	return slices.ContainsFunc(tree.Loops(f.Step), func(loop int) bool { return loop >= f.Loop && tree.Rescue(loop) >= 0 })
}

// resumeOptions returns the options in the form.
func (c *call) resumeOptions() (*courier.ResumeOptions, error) {
	o, err := resumeform.Read(c.form)
	if err == nil {
		o.By = c.by()
	}
	return o, err
}

// tryResume finds out what the resume in the form would do.
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

// resumeWith resumes the execution with the options in the form.
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

// A rerunPage starts an execution of a job or of a chain again, as a new execution.
type rerunPage struct {
	ID, Of   string // of is the job or the chain
	Version  int
	Back     string
	Params   string // the parameters of the execution, as JSON; empty if there are none, or they are hidden
	Latest   int    // version of the job or the chain
	Versions []int  // other versions to choose from
}

func (c *call) rerunPage() (any, error) {
	x := c.execution
	c.title = "Start " + x.Job + " again"
	p := &rerunPage{ID: string(x.ID), Of: x.Job, Version: x.Version, Back: c.link("executions", string(x.ID))}
	if c.SeesValues(c.ctx(), x.Job) && len(x.Params) > 0 {
		p.Params = format.IndentJSON(x.Params)
	}
	d, err := c.h.e.Jobs().Get(c.ctx(), x.Job, 0)
	if err != nil {
		return nil, err
	}
	p.Latest = d.Version
	p.Versions, err = c.versionsBut(x.Job, p.Latest)
	if x.Version != p.Latest && !slices.Contains(p.Versions, x.Version) {
		p.Versions = append(p.Versions, x.Version) // it is older than the others
	}
	return p, err
}

// rerun starts the execution again. The same form starts it only once.
func rerun(ctx context.Context, c *call) (string, error) {
	o := &engine.RerunOptions{By: c.by(), Labels: c.Labels(), IdempotencyKey: c.formKey()}
	var err error
	if o.Version, o.Params, err = c.changes(); err != nil {
		return "", err
	}
	start := &courier.EnqueueOptions{Version: o.Version}
	if err := c.MayStart(ctx, c.execution.Job, start); err != nil {
		return "", err
	}
	o.LimitKeys = start.LimitKeys
	x, err := c.h.e.Rerun(ctx, c.execution.ID, o)
	if err != nil {
		return "", err
	}
	return c.link("executions", string(x.ID)), nil
}

// changes returns the version and the parameters in the form of a rerun.
func (c *call) changes() (version int, params map[string]any, err error) {
	if v := c.form.Get("version"); v != "" {
		if version, err = strconv.Atoi(v); err != nil || version < 1 {
			return 0, nil, problem.Invalid("The version must be a whole number, at least 1.")
		}
	}
	if text := strings.TrimSpace(c.form.Get("params")); text != "" {
		if err := jsontext.DecodeStrict([]byte(text), &params); err != nil {
			return 0, nil, problem.Invalid("The parameters must be a JSON object: %v", err)
		}
	}
	return version, params, nil
}

// chainRerunPage is the form that starts an execution of a chain again.
func (c *call) chainRerunPage() (any, error) {
	x, err := c.ChainExecution(c.ctx(), c.r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	c.title = "Start " + format.Clip(120, x.Chain) + " again"
	p := &rerunPage{ID: string(x.ID), Of: x.Chain, Version: x.Version, Back: c.link("chain-executions", string(x.ID))}
	if c.SeesValues(c.ctx(), "") && len(x.Params) > len("{}") {
		p.Params = format.IndentJSON(x.Params)
	}
	latest, err := c.h.e.Chains().Get(c.ctx(), x.Chain, 0)
	if err != nil {
		return nil, err
	}
	if p.Latest = latest.Version; x.Version != p.Latest {
		p.Versions = []int{x.Version}
	}
	return p, nil
}

// rerunChain starts an execution of a chain again. The same form starts it only once.
func rerunChain(ctx context.Context, c *call) (string, error) {
	x, err := c.ChainExecution(ctx, c.r.PathValue("id"))
	if err != nil {
		return "", err
	}
	o := &chain.StartOptions{By: c.by(), Labels: c.Labels(), IdempotencyKey: c.formKey()}
	if o.Version, o.Params, err = c.changes(); err != nil {
		return "", err
	}
	if err := c.MaySetVersion(ctx, o.Version); err != nil {
		return "", err
	}
	x, err = c.h.e.Chains().Rerun(ctx, x.ID, o)
	return c.link("chain-executions", string(x.ID)), err
}
