package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/courierhq/courier"
)

// A Report is the result of a dry run.
type Report struct {
	Job string
	// Warnings are what looks doubtful in the definition.
	Warnings []courier.Problem
	// Steps has an entry for each step, of both branches of each flow.if, in the
	// order of the list; markers have none.
	Steps []StepReport
}

// OK reports whether every step that could be validated is valid.
func (r *Report) OK() bool { return r.Err() == nil }

// Err joins the errors of all steps; nil if there are none.
func (r *Report) Err() error {
	var errs []error
	for _, s := range r.Steps {
		if s.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", courier.StepLabel(s.Step, s.ID, s.Type), s.Err))
		}
	}
	return errors.Join(errs...)
}

// String has a line for each step.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "dry run of job %q\n", r.Job)
	for _, w := range r.Warnings {
		fmt.Fprintf(&b, "  warning: %s\n", w)
	}
	for _, s := range r.Steps {
		state := "ok"
		switch {
		case s.Err != nil:
			state = s.Err.Error()
		case !s.Validated:
			state = "has nothing to validate"
		case len(s.Unresolved) > 0:
			state = "ok, as far as known before it runs (not " + strings.Join(s.Unresolved, ", ") + ")"
		}
		fmt.Fprintf(&b, "  %s: %s\n", courier.StepLabel(s.Step, s.ID, s.Type), state)
	}
	return b.String()
}

// A StepReport is the result of validating one step.
type StepReport struct {
	Step      int
	ID        string
	Type      string
	Validated bool // the step's type has a Validate, and it was called
	// Unresolved are the fields of the configuration that are known only when
	// the step runs.
	Unresolved []string
	Err        error
}

// DryRun checks a job as Define does and calls Validate of every step, on both
// branches of every flow.if, with what is known before anything runs. It saves
// and executes nothing. Its error is that of a definition that can't run; what
// the steps found is in the report.
func (e *Engine) DryRun(ctx context.Context, job courier.Job) (Report, error) {
	job, tree, warnings, err := e.check(job)
	if err != nil {
		return Report{}, err
	}
	p, err := compile(job, 0, tree, e.reg)
	if err != nil {
		return Report{}, fmt.Errorf("dry run of job %q: %w", job.Name, err)
	}
	report := Report{Job: job.Name, Warnings: warnings}
	params, err := mergeParams(p.job.Params, nil)
	if err != nil {
		return report, fmt.Errorf("dry run of job %q: %w", job.Name, err)
	}
	x := courier.Execution{ID: courier.ExecutionID(e.ids.New()), Job: job.Name, Params: params, Attempt: 1}
	r := &run{e: e, x: x, program: p, vals: newValues(p, &x, e.work.of(x.ID))}
	r.begin(ctx)
	defer e.work.remove(x.ID)
	defer r.closeResources()
	defer r.endCalls()
	defer r.lost(nil)
	for i, t := range p.types {
		if t != nil {
			report.Steps = append(report.Steps, r.validate(i))
		}
	}
	return report, nil
}

func (r *run) validate(step int) StepReport {
	spec, typ := r.program.tree.Spec(step), r.program.types[step]
	report := StepReport{Step: step, ID: spec.ID, Type: typ.Key(), Validated: typ.Validates()}
	if r.steps.Err() != nil {
		report.Err = context.Cause(r.steps)
		return report
	}
	a := r.newAttempt(typ)
	a.timeout, a.scope.scope = typ.Timeout(), r.vals
	if a.timeout <= 0 {
		a.timeout = courier.DefaultTimeout
	}
	defer a.scope.end()
	a.job = courier.NewContext(r.contextConfig(step, 1, a, nil)) // what the step is called in reports about it
	ctx, cancel := context.WithCancelCause(r.steps)
	defer cancel(nil)
	unresolved := new([]string)
	r.do(func() {
		a.call(func() (json.RawMessage, error) { return nil, a.validate(ctx, step, unresolved) })
	})
	o, returned := a.await(ctx, cancel)
	if returned {
		report.Unresolved = *unresolved
	} else {
		r.e.abandon(a)
		o.err = context.Cause(ctx)
	}
	if o = a.judge(ctx, o); o.err != nil {
		report.Err = errors.New(r.secrets.message(o.err))
	}
	return report
}

// validate calls the step's Validate with what is known of its configuration.
// Unresolved is set before the step is called.
func (a *attempt) validate(ctx context.Context, step int, unresolved *[]string) error {
	secret := func(name string) (string, error) { return a.run.secretFor(ctx, name) }
	config, missing, err := a.run.program.tree.Template(step).Partial(&a.scope, secret)
	*unresolved = missing
	if err != nil || !a.typ.Validates() {
		return err
	}
	job := courier.NewContext(a.run.contextConfig(step, 1, a, missing))
	defer job.Close()
	return a.typ.Validate(ctx, job, config)
}
