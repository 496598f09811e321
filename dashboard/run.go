package dashboard

import (
	"context"
	"net/url"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/dashboard/internal/report"
	"github.com/courierhq/courier/dashboard/internal/runform"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/desk"
)

// A runPage is the form that starts a job or a chain.
type runPage struct {
	Kind, Back string // Back is empty if the visitor may not see the job
	Version    int    // the version to start; 0 for the latest
	Params     []runform.Field
	Settings   []runform.Field
	Rest       []string // problems that belong to no field
	Dry        bool     // the visitor may make a dry run
	Report     *report.View
}

func (c *call) run() (any, error) {
	d, err := c.toRun()
	if err != nil {
		return nil, err
	}
	p := &runPage{Kind: c.page.kind()}
	if c.query.Get("version") != "" {
		p.Version = *d.Version()
	}
	c.title = "Run " + format.Clip(80, *d.Name())
	sees := c.may(access.RightSee)
	if sees {
		p.Back = c.link(p.Kind+"s", *d.Name())
	}
	p.Dry = c.mayDo(c.dryRunOp())
	p.Params, p.Settings = runform.Params(flow.ReadParams(paramsOf(&d)), c.form, sees), runform.Settings(p.Kind, c.form)
	if r, ok := c.found.(*report.View); ok {
		p.Report = r
		r.Problems = runform.Place(p.Params, p.Settings, r.Problems)
		return p, nil
	}
	problems := desk.ProblemsOf(c.failed)
	for _, rest := range runform.Place(p.Params, p.Settings, problems) {
		p.Rest = append(p.Rest, rest.String())
	}
	c.placed = len(problems) > 0
	return p, nil
}

// toRun returns the version that the address names, or the latest one.
func (c *call) toRun() (desk.Defined, error) {
	version, err := c.number("version", 0, 1, 1<<30)
	if err != nil {
		return desk.Defined{}, err
	}
	return c.version(version)
}

// runOptions returns the options in the form.
func (c *call) runOptions(d *desk.Defined, dry bool) (*courier.EnqueueOptions, error) {
	o, err := runform.Read(flow.ReadParams(paramsOf(d)), c.form, c.may(access.RightSee), dry)
	if err != nil {
		return nil, err
	}
	o.By, o.Labels[courier.LabelBy] = c.by(), c.ID
	if c.query.Get("version") != "" {
		o.Version = *d.Version()
	}
	if c.form.Get("key") != "" {
		o.IdempotencyKey = "page/" + url.PathEscape(c.ID) + "/" + c.formID()
	}
	return o, nil
}

// start starts the job or the chain with the options in the form.
func start(ctx context.Context, c *call) (string, error) {
	d, err := c.toRun()
	if err != nil {
		return "", err
	}
	o, err := c.runOptions(&d, false)
	if err != nil {
		return "", err
	}
	if _, ok := d.Definition.(*chain.Chain); ok {
		if err := c.MaySetVersion(ctx, o.Version); err != nil {
			return "", err
		}
		x, err := c.h.e.Chains().Start(ctx, *d.Name(), &chain.StartOptions{
			Params: o.Params, Version: o.Version, IdempotencyKey: o.IdempotencyKey, Hold: o.Hold, By: o.By, Labels: o.Labels,
		})
		return c.link("chain-executions", string(x.ID)), err
	}
	if err := c.MayStart(ctx, *d.Name(), o); err != nil {
		return "", err
	}
	x, err := c.h.e.Enqueue(ctx, *d.Name(), o)
	return c.link("executions", string(x.ID)), err
}

// tryRun makes a dry run of the job or the chain with the options in the form.
func tryRun(_ context.Context, c *call) (string, error) {
	d, err := c.toRun()
	if err != nil {
		return "", err
	}
	o, err := c.runOptions(&d, true)
	if err != nil {
		return "", err
	}
	r, err := c.dryRun(&d, o.Params)
	if err == nil {
		c.found = r
	}
	return "", err
}
