package engine

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine/dryrun"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/dryruns"
	"github.com/courierhq/courier/engine/internal/stepcall"
)

// DryRun finds out whether a job could run, as far as that is possible without
// running it. It checks the definition as Define does; it calls Validate of every
// step, on both branches of every flow.if and inside of loops, with real connections
// and secrets; and it reports when schedules will start the job. The job need not be saved;
// for a saved job, pass the result of [Jobs.Get].
//
// Nothing is executed, and nothing is written: no execution, no version, no file and no
// workspace. Values that are known only at run time, such as the outputs of steps, the items
// of loops and params that are not given, are not mistakes: the report lists the fields of a
// step that could not be checked. Steps with the same connection share it. A connection that
// fails is not tried again.
//
// All mistakes are in the report; see [dryrun.Report.Err]. DryRun itself returns an error
// only if the store can't be read, or if ctx ends first; the report then has the findings so
// far. A nil opt means the defaults.
func (h Jobs) DryRun(ctx context.Context, job courier.Job, opt *dryrun.Options) (dryrun.Report, error) {
	return h.e.dryRuns.Job(ctx, job, opt)
}

// DryRunChain is [Jobs.DryRun] for a chain: it checks the chain as the method Define of a
// [chain.Service] does, and the job of each member with the params that the member gives it.
// The chain need not be saved, and neither need its jobs if [dryrun.Options].Jobs has them.
// For a saved chain, pass the result of the service's method Get. The params in opt are those
// of the chain.
func (e *Engine) DryRunChain(ctx context.Context, c chain.Chain, opt *dryrun.Options) (dryrun.ChainReport, error) {
	return e.dryRuns.Chain(ctx, c, opt)
}

// Validate calls Validate of a step for a dry run, as an attempt calls Execute.
func (c access) Validate(ctx context.Context, v *dryruns.StepValidation) dryruns.StepValidated {
	r := &run{e: c.e, x: v.Execution, program: v.Program, vals: v.Values}
	r.begin(ctx, v.Secrets)
	defer r.caller.End()
	defer r.lease.Close()
	r.res = v.Resources
	a := r.newAttempt(v.Step)
	a.Timeout = v.Timeout
	a.scope.Open(v.Values)
	defer a.scope.Close()
	a.job = courier.NewContext(r.validateConfig(v, a)) // for reports about the step, and its secrets
	unresolved, o := a.callValidate(v)
	return dryruns.StepValidated{
		Unresolved: unresolved, Err: o.Err, TimedOut: o.Reason == courier.ReasonTimeout, Abandoned: o.Abandoned, Resources: r.res,
	}
}

// callValidate calls the step's Validate with what is known of its configuration, and
// returns the fields that have a value only when the step runs.
func (a *attempt) callValidate(v *dryruns.StepValidation) (unresolved []string, o stepcall.Outcome) {
	r := a.run
	ctx, cancel := context.WithCancelCause(r.lease.Steps())
	defer cancel(nil)
	found, cfg := new([]string), r.validateConfig(v, a)
	r.caller.Do(func() {
		a.call(func() (json.RawMessage, error) { return nil, a.validate(ctx, v.Step, found, cfg) })
	})
	o, returned := a.await(r.lease.Steps().Done(), cancel)
	if !returned {
		r.e.abandon(a)
		o = stepcall.Outcome{Err: context.Cause(ctx), Abandoned: true}
	} else {
		unresolved = *found
	}
	o.Judge(ctx)
	return unresolved, o
}

// validate calls the step's Validate. Unresolved is set before the step is
// called.
func (a *attempt) validate(ctx context.Context, step int, unresolved *[]string, cfg courier.ContextConfig) error {
	config, missing, err := a.run.program.Template(step).Partial(&a.scope, func(name, param string) (string, error) {
		v, err := a.secret(ctx, name, param)
		return v, core.PlainSecretError(err)
	})
	*unresolved = missing
	if err != nil {
		return err
	}
	cfg.Unresolved = missing
	job := courier.NewContext(cfg)
	defer job.Close()
	return a.typ.Validate(ctx, job, config)
}

// validateConfig is what Validate is given.
func (r *run) validateConfig(v *dryruns.StepValidation, a *attempt) courier.ContextConfig {
	cfg := r.contextConfig(v.Step, 1, a, nil)
	cfg.DryRun, cfg.OnProgress = true, nil
	next := slog.Handler(slog.DiscardHandler)
	if cfg.Log != nil {
		next = cfg.Log.Handler()
	}
	cfg.Log = slog.New(v.Log(next))
	return cfg
}
