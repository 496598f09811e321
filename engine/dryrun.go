package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/flow"
)

// DryRunOptions are the settings of a dry run. The zero value is the default.
type DryRunOptions struct {
	// Params are those that an execution would be given, as for
	// [Engine.Enqueue] or [Chains.Start]. What is declared as null and not
	// given counts as not known.
	Params map[string]any
	// Timeout is the longest time for validating one step. 0 means 30 seconds.
	Timeout time.Duration
	// Parallel is how many steps are validated at a time. Those that use the same
	// connection are validated one after the other, whatever it is. 0 means 8.
	Parallel int
	// Jobs are taken by DryRunChain in place of the latest versions of those with
	// the same names, and need not be saved. DryRun does not use them.
	Jobs []courier.Job
	// Fires is how many times ahead the report tells of each schedule. 0 means 5.
	Fires int
}

func (o *DryRunOptions) withDefaults() DryRunOptions {
	var opt DryRunOptions
	if o != nil {
		opt = *o
	}
	setDefault(&opt.Timeout, 30*time.Second)
	setDefault(&opt.Parallel, 8)
	setDefault(&opt.Fires, 5)
	return opt
}

// DryRun finds out whether a job could run, as far as that can be told without
// running it: it checks the definition as Define does, calls Validate of every
// step, on both branches of every flow.if and inside of loops, with real
// connections and secrets, and looks when schedules will start the job. The job
// need not be saved; for one that is, take what [Jobs.Get] returns.
//
// Nothing is executed, and nothing is written: no execution is created, no
// version saved, no file or workspace made. What is known only at run time, such
// as the outputs of steps, the items of loops and params that are not given, is
// no mistake: the report says which fields of a step could not be looked at.
// Steps that use the same connection share it, and one that does not work is not
// tried again.
//
// Whatever is wrong is in the report; see [Report.Err]. DryRun's own error is
// that of a store that can't be read, or ctx's if that ends first; then the
// report has what was found so far. A nil opt means the defaults.
func (h Jobs) DryRun(ctx context.Context, job courier.Job, opt *DryRunOptions) (Report, error) {
	e := h.e
	d := e.newDryRun(opt)
	r := d.job(ctx, job, params{given: d.opt.Params, asked: d.opt.Params != nil})
	d.validate(ctx)
	err := d.schedules(ctx, &courier.Schedule{Job: job.Name}, &r.Schedules, &r.Warnings)
	r.Duration = time.Since(d.begun)
	return *r, d.ended(ctx, fmt.Sprintf("dry run of job %q", job.Name), err)
}

// DryRun is [Jobs.DryRun] for a chain: it checks the chain as [Chains.Define]
// does, and each member's job with the params that the member would give it. The
// chain need not be saved, nor its jobs if they are given by [DryRunOptions].Jobs;
// for a chain that is saved, take what [Chains.Get] returns. Params are those
// of the chain.
func (h Chains) DryRun(ctx context.Context, chain courier.Chain, opt *DryRunOptions) (ChainReport, error) {
	e := h.e
	d := e.newDryRun(opt)
	r := &ChainReport{Chain: chain.Name, Version: chain.Version}
	err := d.chain(ctx, chain, r)
	if err == nil {
		d.validate(ctx)
		err = d.schedules(ctx, &courier.Schedule{Chain: chain.Name}, &r.Schedules, &r.Warnings)
	}
	r.Duration = time.Since(d.begun)
	return *r, d.ended(ctx, fmt.Sprintf("dry run of chain %q", chain.Name), err)
}

// A dryRun is a dry run in progress.
type dryRun struct {
	e       *Engine
	checks  *Engine // checks definitions; of a chain, one that has what is not saved
	opt     DryRunOptions
	begun   time.Time
	secrets redactor // of all steps, since one may repeat what another has said
	lanes   []*lane  // in the order of their first steps
	byKey   map[string]*lane
	target  *program // of the job; nil for a chain
}

func (e *Engine) newDryRun(opt *DryRunOptions) *dryRun {
	return &dryRun{e: e, checks: e, opt: opt.withDefaults(), begun: time.Now(), byKey: make(map[string]*lane)}
}

// ended is the error of a dry run.
func (d *dryRun) ended(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// params are what a job is given in a dry run.
type params struct {
	given map[string]any
	asked bool     // somebody has given them, so they must do
	later []string // those that are known only when it starts
	after bool     // it begins when other jobs have ended
}

// job checks a job and puts its steps on the list of those to validate.
func (d *dryRun) job(ctx context.Context, job courier.Job, given params) *Report {
	r := &Report{Job: job.Name, Version: job.Version}
	version := job.Version
	job, tree, warnings, err := d.e.check(ctx, job)
	if bad, ok := errors.AsType[*courier.DefinitionError](err); ok {
		r.Problems = bad.Problems
		r.Steps = uncheckedSteps(job.Steps, bad.Problems)
		return r
	}
	if err != nil {
		r.Problems = []courier.Problem{{Step: -1, Message: err.Error()}}
		return r
	}
	p := compile(job, version, tree, d.e.reg)
	r.Warnings, d.target = warnings, p
	d.program(p, given, r)
	return r
}

// program puts the steps of a program on the list of those to validate.
func (d *dryRun) program(p *program, given params, r *Report) {
	bad := func(err error) {
		r.Problems = append(r.Problems, courier.Problem{Step: -1, Field: "params", Message: core.PlainMessage(err)})
	}
	merged, err := d.e.mergeParams(p.job.Params, given.given)
	if err == nil && given.asked {
		_, err = d.e.execution(p, "", &EnqueueOptions{Params: given.given})
	}
	if err != nil {
		bad(err)
	}
	x := courier.Execution{ID: courier.ExecutionID(d.e.ids.New()), Job: p.job.Name, Version: p.version, Params: merged, Attempt: 1}
	vals := newValues(p, &x, "")
	for _, later := range []string{"execution_id", "started_at", "workspace"} {
		delete(vals.job, later)
	}
	r.Unknown = unknownParams(p.job.Params, given)
	known := vals.paramMap() // made now, since several goroutines will read it
	for _, name := range r.Unknown {
		delete(known, name)
	}
	r.Steps = make([]StepReport, 0, len(p.types))
	paths := stepPaths(p.tree)
	for i, t := range p.types {
		if t == nil {
			continue
		}
		spec := p.tree.Spec(i)
		s := StepReport{Step: i, Path: paths[i], ID: spec.ID, Name: spec.Name, Type: t.Key(), State: NotChecked}
		if !t.Validates() {
			s.Message = "the step type has no Validate, so only its configuration was checked"
		}
		r.Steps = append(r.Steps, s)
	}
	for k := range r.Steps {
		d.add(&task{report: &r.Steps[k], x: x, program: p, vals: vals, mayCome: k > 0 || given.after})
	}
}

// unknownParams are the params whose values are not known before a start.
func unknownParams(declared map[string]any, given params) []string {
	unknown := slices.Clone(given.later)
	for name, v := range declared {
		if _, ok := given.given[name]; v == nil && !ok {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return slices.Compact(unknown)
}

// uncheckedSteps lists the steps of a job that can't run.
func uncheckedSteps(steps []courier.StepSpec, problems []courier.Problem) []StepReport {
	list := make([]StepReport, 0, len(steps))
	tree, err := flow.Parse(steps)
	var paths map[int]string
	if err == nil {
		paths = stepPaths(tree)
	}
	for i, spec := range steps {
		s := StepReport{Step: i, Path: paths[i], ID: spec.ID, Name: spec.Name, Type: spec.Type, State: NotChecked, Message: "the definition has problems; mend them first"}
		if s.Path == "" {
			s.Path = fmt.Sprint(i)
		}
		var found []string
		for _, p := range problems {
			if p.Step == i {
				found = append(found, inField(p))
			}
		}
		if len(found) > 0 {
			s.State, s.Message = CheckProblem, joinLines(found)
		}
		if !isMarker(spec.Type) || len(found) > 0 {
			list = append(list, s)
		}
	}
	return list
}

// inField is a problem of a step without the step.
func inField(p courier.Problem) string {
	p.Step = -1
	return p.String()
}
