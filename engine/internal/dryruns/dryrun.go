// Package dryruns finds out whether a job or a chain could run, as far as that can be
// told without running it: it checks definitions and params, calls Validate of every
// step, and reports when schedules will start what was checked. It executes and writes
// nothing.
//
// Fields whose values are not known yet are left out and named. Steps with the same
// connection_id are validated in turn, and share what they keep, a failure too: ten steps with a
// wrong password would lock the account. The name of the field is the convention; there is no
// code for any connector here. A missing file is a problem unless an earlier step may make it.
package dryruns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine/dryrun"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/inputs"
	"github.com/courierhq/courier/internal/secret"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// withDefaults returns the options, of which nil means the defaults.
func withDefaults(o *dryrun.Options) dryrun.Options {
	var opt dryrun.Options
	if o != nil {
		opt = *o
	}
	if opt.Timeout <= 0 {
		opt.Timeout = 30 * time.Second
	}
	if opt.Parallel <= 0 {
		opt.Parallel = 8
	}
	if opt.Fires <= 0 {
		opt.Fires = 5
	}
	return opt
}

// Job makes a dry run of a job. What is wrong is in the report. The error is one of the
// store, or ctx's if that ends first. A nil opt means the defaults.
func (v *Service) Job(ctx context.Context, job courier.Job, opt *dryrun.Options) (dryrun.Report, error) {
	d := v.newRun(opt)
	found := d.findWorkers(ctx)
	r := d.job(ctx, job, params{given: d.opt.Params, complete: d.opt.Params != nil})
	d.validate(ctx)
	err := cmp.Or(found, d.schedules(ctx, store.Job, job.Name, &r.Schedules, &r.Warnings))
	r.Duration = time.Since(d.started)
	return *r, d.err(ctx, fmt.Sprintf("dry run of job %q", job.Name), err)
}

// Chain makes a dry run of a chain, as [Service.Job] does of a job.
func (v *Service) Chain(ctx context.Context, chain chain.Chain, opt *dryrun.Options) (dryrun.ChainReport, error) {
	d := v.newRun(opt)
	r := &dryrun.ChainReport{Chain: chain.Name, Version: chain.Version}
	err := d.findWorkers(ctx)
	if err == nil {
		err = d.chain(ctx, chain, r)
	}
	if err == nil {
		d.validate(ctx)
		err = d.schedules(ctx, store.Chain, chain.Name, &r.Schedules, &r.Warnings)
	}
	r.Duration = time.Since(d.started)
	return *r, d.err(ctx, fmt.Sprintf("dry run of chain %q", chain.Name), err)
}

// A run is a dry run in progress.
type run struct {
	*Service
	opt     dryrun.Options
	started time.Time
	secrets secret.Redactor // of all steps, since one may repeat what another has said
	queues  []*queue        // in the order of their first steps
	byKey   map[string]*queue
	target  *program.Program // of the job; nil for a chain
	workers []store.Worker   // that are present
}

func (v *Service) newRun(opt *dryrun.Options) *run {
	return &run{Service: v, opt: withDefaults(opt), started: time.Now(), byKey: make(map[string]*queue)}
}

// findWorkers reads the workers that are present, once for all jobs.
func (d *run) findWorkers(ctx context.Context) (err error) {
	w, _ := d.cfg.Roles.Workers() // without them no queue is doubtful
	d.workers, err = core.PresentWorkers(ctx, w)
	return err
}

// err returns the error of a dry run.
func (d *run) err(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// params are the parameters of a job in a dry run.
type params struct {
	given    map[string]any
	complete bool     // an execution must be possible with those that are given
	later    []string // those that have a value only when the job starts
	after    bool     // the job begins when other jobs have ended
}

// job checks a job and puts its steps on the list of those to validate.
func (d *run) job(ctx context.Context, job courier.Job, given params) *dryrun.Report {
	r := &dryrun.Report{Job: job.Name, Version: job.Version}
	version := job.Version
	checked, err := d.cfg.Checks.CheckJob(ctx, job)
	if bad, ok := errors.AsType[*courier.DefinitionError](err); ok {
		r.Problems = bad.Problems
		r.Steps = uncheckedSteps(job.Steps, bad.Problems)
		return r
	}
	if err != nil {
		r.Problems = []courier.Problem{{Step: -1, Message: err.Error()}}
		return r
	}
	p := program.Compile(checked.Job, version, checked.Tree, d.cfg.Registry)
	r.Warnings, d.target = checked.Warnings, p
	d.program(ctx, p, given, r)
	return r
}

// program puts the steps of a program on the list of those to validate.
func (d *run) program(ctx context.Context, p *program.Program, given params, r *dryrun.Report) {
	r.Warnings = append(r.Warnings, core.UnservedQueue(&p.Job, d.workers, d.cfg.Queues)...)
	merged, err := inputs.Params(p.Params, given.given, true, d.cfg.MaxParams)
	if err == nil && given.complete {
		err = d.engine.CheckExecution(ctx, p, &courier.EnqueueOptions{Params: given.given})
	}
	if err != nil {
		r.Problems = append(r.Problems, core.ParamProblems(err)...)
	}
	x := courier.Execution{ID: courier.ExecutionID(d.cfg.NewID()), Job: p.Job.Name, Version: p.Version, Params: merged, Attempt: 1}
	vals := program.NewValues(p, &x, "")
	vals.Unset("execution_id", "started_at", "workspace")
	r.Unknown, r.Params = unknownParams(p.Params, given), declaredParams(p.Params, given)
	known := vals.Params() // decoded now, since several goroutines will read it
	for _, name := range r.Unknown {
		delete(known, name)
	}
	for _, x := range r.Problems { // which would be told of steps too
		delete(known, strings.TrimPrefix(x.Field, "params."))
	}
	r.Steps = make([]dryrun.StepReport, 0, len(p.Types))
	paths := stepPaths(p.Tree)
	for i, t := range p.Types {
		if t == nil {
			continue
		}
		spec := p.Tree.Spec(i)
		s := dryrun.StepReport{Step: i, Path: paths[i], ID: spec.ID, Name: spec.Name, Type: t.Key(), State: dryrun.NotChecked}
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
func unknownParams(declared *flow.Params, given params) []string {
	unknown := slices.Clone(given.later)
	for _, name := range declared.Names() {
		d, _ := declared.Get(name)
		if v, ok := given.given[name]; d.Default == nil && (!ok || v == nil && d.Type != "") {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return slices.Compact(unknown)
}

// declaredParams are the params that have a type. Those that have a value only when the
// job starts count as given.
func declaredParams(declared *flow.Params, given params) []flow.DeclaredParam {
	all := make(map[string]any, len(given.given)+len(given.later))
	maps.Copy(all, given.given)
	for _, name := range given.later {
		all[name] = true
	}
	return declared.Declared(all)
}

// uncheckedSteps lists the steps of a job that can't run.
func uncheckedSteps(steps []courier.StepSpec, problems []courier.Problem) []dryrun.StepReport {
	list := make([]dryrun.StepReport, 0, len(steps))
	tree, err := flow.Parse(steps)
	var paths map[int]string
	if err == nil {
		paths = stepPaths(tree)
	}
	for i, spec := range steps {
		s := dryrun.StepReport{Step: i, Path: paths[i], ID: spec.ID, Name: spec.Name, Type: spec.Type, State: dryrun.NotChecked, Message: "the definition has problems; mend them first"}
		if s.Path == "" {
			s.Path = fmt.Sprint(i)
		}
		var found []string
		for _, p := range problems {
			if p.Step == i {
				p.Step = -1 // it stands beside the step
				found = append(found, p.String())
			}
		}
		if len(found) > 0 {
			s.State, s.Message = dryrun.Problem, text.Lines(found)
		}
		if !program.IsMarker(spec.Type) || len(found) > 0 {
			list = append(list, s)
		}
	}
	return list
}

// maxSchedules is how many schedules of a job or chain a report has.
const maxSchedules = 100

// schedules reports those that start a job or chain.
func (d *run) schedules(ctx context.Context, kind store.Kind, name string, list *[]schedule.Report, warnings *[]courier.Problem) error {
	if ctx.Err() != nil {
		return nil
	}
	var check func(params map[string]any) error
	if d.target != nil {
		check = func(params map[string]any) error {
			if err := d.engine.CheckExecution(ctx, d.target, &courier.EnqueueOptions{Params: params}); err != nil {
				return fmt.Errorf("it can't start this version: %w", err)
			}
			return nil
		}
	}
	reports, more, err := d.cfg.Schedules(ctx, kind, name, maxSchedules, d.opt.Fires, check)
	if err != nil {
		return err
	}
	*list = reports
	if more {
		*warnings = append(*warnings, courier.Problem{Step: -1, Field: "schedules", Message: fmt.Sprintf("there are more than %d; only the first are reported, by their names", maxSchedules)})
	}
	return nil
}

// stepPaths returns the paths of all entries that do work, and of markers, by
// index.
func stepPaths(t *flow.Tree) map[int]string {
	paths := make(map[int]string, t.Len())
	addPaths(paths, t.Root(), "")
	if last := t.Finally(); last != nil {
		addPaths(paths, last, "finally.")
	}
	return paths
}

func addPaths(paths map[int]string, list *flow.List, above string) {
	for _, n := range list.Nodes {
		own := above + strconv.Itoa(n.Index())
		paths[n.Index()] = own
		switch n := n.(type) {
		case *flow.ForEach:
			addPaths(paths, n.Body, own+".")
			if n.Rescue != nil {
				addPaths(paths, n.Rescue, own+".rescue.")
			}
		case *flow.Try:
			addPaths(paths, n.Body, own+".try.")
			addPaths(paths, n.Rescue, own+".rescue.")
		case *flow.If:
			addPaths(paths, n.Then, own+".then.")
			if n.Else != nil {
				addPaths(paths, n.Else, own+".else.")
			}
		}
	}
}
