package dashboard

import (
	"context"
	"net/url"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/dashboard/internal/runform"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/desk"
)

// A jobRunPage is the form that starts a job.
type jobRunPage struct {
	Name, Back string // Back is empty for who may not see the job
	Version    int    // that is started; 0 for the latest
	Params     []runform.Field
	Settings   []runform.Field
	Rest       []string // problems that belong to no field
	Dry        bool     // the visitor may try it
	Report     *reportView
}

func (c *call) jobRun() (any, error) {
	job, err := c.jobToRun()
	if err != nil {
		return nil, err
	}
	p := &jobRunPage{Name: job.Name}
	if c.query.Get("version") != "" {
		p.Version = job.Version
	}
	c.title = "Run " + format.Clip(80, job.Name)
	sees := c.may(desk.Viewer)
	if sees {
		p.Back = c.link("jobs", job.Name)
	}
	p.Dry = c.may(desk.Operator) && c.SeesValues(c.ctx(), job.Name)
	p.Params, p.Settings = runform.Params(flow.ReadParams(job.Params), c.form, sees), runform.Settings(c.form)
	problems := problem.List(c.failed)
	if r, ok := c.found.(*engine.Report); ok {
		problems = r.Problems
		shown := *r
		shown.Problems = runform.Place(p.Params, p.Settings, problems)
		p.Report = reportOf(&shown)
		p.Report.OK = r.OK()
		return p, nil
	}
	for _, rest := range runform.Place(p.Params, p.Settings, problems) {
		p.Rest = append(p.Rest, rest.String())
	}
	c.placed = len(problems) > 0
	return p, nil
}

// jobToRun is the version of the job that the address names, or the latest one.
func (c *call) jobToRun() (courier.Job, error) {
	version, err := c.number("version", 0, 1, 1<<30)
	if err != nil {
		return courier.Job{}, err
	}
	return c.jobVersion(c.r.PathValue("name"), version)
}

// runOptions returns the options that the form says.
func (c *call) runOptions(job *courier.Job, dry bool) (*engine.EnqueueOptions, error) {
	o, err := runform.Read(flow.ReadParams(job.Params), c.form, c.may(desk.Viewer), dry)
	if err != nil {
		return nil, err
	}
	o.By, o.Labels[desk.LabelBy] = c.by(), c.ID
	if c.query.Get("version") != "" {
		o.Version = job.Version
	}
	if c.form.Get("key") != "" {
		o.IdempotencyKey = "page/" + url.PathEscape(c.ID) + "/" + c.formID()
	}
	return o, nil
}

// startJob starts the job with what the form says.
func startJob(ctx context.Context, c *call) (string, error) {
	job, err := c.jobToRun()
	if err != nil {
		return "", err
	}
	o, err := c.runOptions(&job, false)
	if err != nil {
		return "", err
	}
	x, err := c.h.e.Enqueue(ctx, job.Name, o)
	if err != nil {
		return "", err
	}
	return c.link("executions", string(x.ID)), nil
}

// tryJob finds out whether the job could run with what the form says.
func tryJob(_ context.Context, c *call) (string, error) {
	if err := c.needValues(); err != nil {
		return "", err
	}
	job, err := c.jobToRun()
	if err != nil {
		return "", err
	}
	o, err := c.runOptions(&job, true)
	if err != nil {
		return "", err
	}
	r, err := c.dryRun(job, o.Params)
	if err != nil {
		return "", err
	}
	c.found = r
	return "", nil
}
