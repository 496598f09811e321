package engine

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
)

// Validate is [core.Validation]'s for a dry run: it calls Validate of a step as an attempt
// calls Execute.
func (c coreAccess) Validate(ctx context.Context, v *core.StepValidation) core.StepValidated {
	r := &run{e: c.e, x: v.Execution, program: v.Program, vals: v.Values, secrets: &redactor{v.Secrets}}
	r.begin(ctx)
	defer r.goroutine.End()
	defer r.lost(nil)
	r.res = v.Resources
	a := r.newAttempt(v.Program.Types[v.Step])
	a.timeout = v.Timeout
	a.scope.Open(v.Values)
	defer a.scope.Close()
	a.job = courier.NewContext(r.validateConfig(v, a)) // for reports about the step, and its secrets
	unresolved, o := a.callValidate(v)
	return core.StepValidated{
		Unresolved: unresolved, Err: o.err, TimedOut: o.reason == courier.ReasonTimeout, Abandoned: o.abandoned, Resources: r.res,
	}
}

// callValidate calls the step's Validate with what is known of its configuration, and
// returns the fields that have a value only when the step runs.
func (a *attempt) callValidate(v *core.StepValidation) (unresolved []string, o outcome) {
	r := a.run
	ctx, cancel := context.WithCancelCause(r.steps)
	defer cancel(nil)
	found, cfg := new([]string), r.validateConfig(v, a)
	r.goroutine.Do(func() {
		a.call(func() (json.RawMessage, error) { return nil, a.validate(ctx, v.Step, found, cfg) })
	})
	o, returned := a.await(r.steps.Done(), cancel)
	if returned {
		return *found, a.judge(ctx, o)
	}
	r.e.abandon(a)
	o = a.judge(ctx, outcome{err: context.Cause(ctx)})
	o.abandoned = true
	return nil, o
}

// validate calls the step's Validate. Unresolved is set before the step is
// called.
func (a *attempt) validate(ctx context.Context, step int, unresolved *[]string, cfg courier.ContextConfig) error {
	config, missing, err := a.run.program.Template(step).Partial(&a.scope, func(name string) (string, error) {
		v, err := a.job.Secret(ctx, name)
		if e, ok := errors.AsType[*secretError](err); ok {
			return "", &plainSecretError{e}
		}
		return v, err
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

// A plainSecretError is a secretError in the place of the secret in a configuration, which
// already names it. It does not unwrap: the error of a secret that does not exist is no
// reason to count the step as not checked.
type plainSecretError struct{ *secretError }

func (e *plainSecretError) Error() string { return e.err.Error() }
func (e *plainSecretError) Unwrap() error { return nil }

// validateConfig is what Validate is given.
func (r *run) validateConfig(v *core.StepValidation, a *attempt) courier.ContextConfig {
	cfg := r.contextConfig(v.Step, 1, a, nil)
	cfg.DryRun, cfg.OnProgress = true, nil
	next := slog.Handler(slog.DiscardHandler)
	if cfg.Log != nil {
		next = cfg.Log.Handler()
	}
	cfg.Log = slog.New(v.Log(next))
	return cfg
}
