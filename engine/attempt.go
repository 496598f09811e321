package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/hooks"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/engine/internal/repair"
	"github.com/courierhq/courier/engine/internal/reports"
	"github.com/courierhq/courier/engine/internal/stepcall"
	"github.com/courierhq/courier/engine/internal/steplog"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/secret"
)

// attempt executes one attempt of a step, within its timeouts.
func (r *run) attempt(step, n int, cleanup bool) stepcall.Outcome {
	spec, a := r.program.Tree.Spec(step), r.newAttempt(step)
	a.cleanup = cleanup
	defer a.scope.Close()
	a.template, a.buf = r.program.Template(step), r.caller.Config[:0]
	a.Timeout, a.Stall = a.typ.Timeout(), a.typ.Stall()
	if spec.Timeout != nil {
		a.Timeout = *spec.Timeout
	}
	if spec.StallTimeout != nil {
		a.Stall = *spec.StallTimeout
	}
	a.job = r.newContext(step, n, a)
	r.present.Store(a)
	r.shown.Store(0)
	if cleanup && n > 1 && !a.typ.CleansUp() {
		r.removeAttempts(a.job)
	}
	began := time.Now()
	o := a.execute()
	r.took = time.Since(began)
	a.finish(&o)
	if r.checkpoint.Kept, r.checkpoint.Cursor = nil, nil; !o.Abandoned { // such a step may still be at work on what the cursor points to
		r.checkpoint.Kept = reports.Kept(a.job, &r.checkpoint.Cursor)
	}
	return o
}

// removeAttempts removes what earlier attempts of a step left in the workspace. It is for
// types without a Cleanup. It removes nothing while an attempt that was cut off may still
// write there, and nothing in an execution with so many records that reading them for
// each attempt would take long.
func (r *run) removeAttempts(job *courier.Context) {
	const most = 20_000
	if r.e.slots.IsStuck(r.x.ID) || r.checkpoint.Seq() > most {
		return
	}
	var files []courier.File
	if s := r.earlier.Failed(job.Step(), job.Iteration()); s != nil {
		files = s.Files
	}
	err := r.e.work.RemoveAttempts(r.x.ID, job.Files().StepDir(), job.Attempt(), files, func() ([]string, error) {
		ctx, cancel := context.WithTimeout(r.lease.Context(), repair.MaxReading)
		defer cancel()
		return r.earlier.History().Kept(ctx, job.Step(), job.Iteration())
	})
	if err != nil {
		r.log.Warn("remove files that earlier attempts of the step left", "step", job.Step(), "type", job.Type(), "error", err)
	}
}

// render puts the values into the configuration, once all secrets that the execution has
// used are known. It belongs to the attempt, since a secret may take its time.
func (a *attempt) render(ctx context.Context) ([]byte, error) {
	if err := a.recall(ctx); err != nil {
		return nil, &stepcall.ConfigError{Err: err}
	}
	config, err := a.template.Render(a.buf, &a.scope, func(name, param string) (string, error) { return a.secret(ctx, name, param) })
	if err != nil {
		return nil, &stepcall.ConfigError{Err: a.run.configError(err)}
	}
	a.buf = config
	return config, nil
}

// recall asks for the secrets that earlier attempts have used, so that this one does not
// show them: it may read what those have written.
func (a *attempt) recall(ctx context.Context) error {
	r := a.run
	return r.secrets.Recall(ctx, courier.SecretRequest{Execution: r.x.ID, Job: r.x.Job}, func(use courier.SecretUse, err error) {
		a.job.Log().Warn("a secret that the execution has used is refused now; it can't be hidden any more",
			"secret", use.Name, "used_in_step", use.Step, "error", r.secrets.Message(err))
	})
}

// noteLost takes note of the secrets that the configuration of a step names whose worker was
// lost in it, if the execution may go on elsewhere.
func (r *run) noteLost(lost *courier.StepExecution) {
	if lost == nil || r.walk == nil || r.program.Types[lost.Step] == nil {
		return
	}
	a := r.newAttempt(lost.Step)
	defer a.scope.Close()
	_, _ = r.program.Template(lost.Step).Render(nil, &a.scope, func(name, param string) (string, error) {
		r.secrets.Lost(courier.SecretUse{Name: name, Version: r.x.Version, Step: lost.Step, ID: lost.ID, Type: lost.Type, Param: param})
		return "", nil
	})
}

// secret resolves a secret of the configuration. Param is the parameter whose value names
// it, if one does.
func (a *attempt) secret(ctx context.Context, name, param string) (string, error) {
	j := a.job
	return a.run.secrets.Resolve(ctx, courier.SecretRequest{
		Name: name, Execution: j.Execution(), Job: j.Job(), Version: a.run.x.Version,
		Step: j.Step(), ID: j.ID(), Type: j.Type(), DryRun: j.DryRun(), Param: param,
	})
}

// configError marks what repeating can't cure. A secret that can't be had now
// may be there later.
func (r *run) configError(err error) error {
	if _, ok := errors.AsType[*secret.Error](err); ok {
		return err
	}
	return courier.Permanent(err)
}

// newContext returns the step's view of its execution.
func (r *run) newContext(step, n int, a *attempt) *courier.Context {
	cfg := r.contextConfig(step, n, a, nil)
	cfg.Iteration, cfg.Cancelled = r.walk.Iteration(), a.cancelled
	cfg.Repeated = a.rollback || r.repeated(step, n)
	if kept := r.checkpoint.Kept.Next(&courier.StepExecution{Step: step, Iteration: cfg.Iteration, Attempt: n}); kept != nil {
		cfg.Cursor = kept.Cursor
	}
	a.reports.Begin(cfg.Cursor)
	if r.e.opt.Log != nil && cfg.Iteration != nil {
		cfg.Log = cfg.Log.With("iteration", courier.FormatIteration(cfg.Iteration))
	}
	if !a.rollback {
		cfg.Log = a.log.Open(cfg.Log, r.e.opt.KeepLog, r.secrets.Redactor)
	}
	return courier.NewContext(cfg)
}

// repeated reports whether a step of which attempt n is about to execute was
// started before in its iteration. Where a loop or the job was started again, attempts
// are counted anew, so the number alone does not say: the first pass may not have
// come as far.
func (r *run) repeated(step, n int) bool {
	if n > 1 || r.checkpoint.Continues {
		return true
	}
	if r.finish != nil {
		return false // each pass through the finally part is one of its own
	}
	if r.checkpoint.Base == 0 && r.x.Attempt == 1 {
		return false
	}
	executed, err := r.earlier.Executed(r.lease.Context(), step, r.walk.Iteration())
	if err != nil {
		r.log.Error("read the steps of a loop or job that was started again; its steps count as repeated", "error", err)
		return true
	}
	return executed
}

func (r *run) contextConfig(step, n int, a *attempt, unresolved []string) courier.ContextConfig {
	spec := r.program.Tree.Spec(step)
	cfg := courier.ContextConfig{
		Execution: r.x.ID, Job: r.x.Job, Version: r.x.Version,
		Step: step, ID: spec.ID, StepName: flow.StepName(step, r.x.Repairs), Type: r.program.Types[step].Key(),
		Attempt: n, EarlierStarts: r.checkpoint.Base, ExecutionAttempt: r.x.Attempt, Trace: r.x.Trace, Propagate: r.e.opt.Trace,
		Workspace: r.workspace(), Roots: r.e.opt.Roots,
		Values: &a.scope, Secrets: r.secrets.Resolve, Redactor: &r.secrets.Redactor.Redactor, Resources: r.res,
		OnProgress: a.progress, Unresolved: unresolved, MaxValue: r.e.opt.MaxValue,
	}
	if r.e.opt.Log != nil {
		cfg.Log = r.log.With("step", step, "type", cfg.Type, "attempt", n)
	}
	return cfg
}

// An attempt is one call of a step.
type attempt struct {
	stepcall.Call
	run       *run
	typ       *courier.StepType
	job       *courier.Context
	scope     program.Scope
	template  *flow.Template
	buf       []byte // for the rendered configuration
	log       steplog.Log
	reports   reports.Reports
	cleanup   bool
	rollback  bool
	cancelled bool // the rollback is that of a cancel
}

// newAttempt returns an attempt that sees the run's values.
func (r *run) newAttempt(step int) *attempt {
	typ, grace := r.e.isolated.Of(r.program.Types[step], r.program.Tree.Spec(step).Isolate)
	a := &attempt{run: r, typ: typ, Call: r.caller.Next(grace)}
	a.scope.Open(r.walk)
	return a
}

// execute runs the step in another goroutine and waits for it: until it
// returns, or until its context has ended and the grace period too.
func (a *attempt) execute() stepcall.Outcome {
	ctx, cancel := context.WithCancelCause(a.run.lease.Steps())
	defer cancel(nil)
	a.run.caller.Do(func() { a.call(func() (json.RawMessage, error) { return a.work(ctx) }) })
	o, returned := a.await(a.run.lease.Steps().Done(), cancel)
	if !returned {
		o = stepcall.Outcome{Err: context.Cause(ctx), Abandoned: true, Stack: a.StackIn(a.run.e.abandon(a))}
	}
	o.Judge(ctx)
	if !returned {
		o.Err = fmt.Errorf("%w; did not stop within %v, so it was cut off and keeps a slot until it returns", o.Err, a.Grace)
	}
	return o
}

// call sends the outcome of f, also if it panics or calls runtime.Goexit.
func (a *attempt) call(f func() (json.RawMessage, error)) {
	a.Run(f, func(what, stack string) {
		clean := a.run.secrets.Clean
		a.run.log.Error("step panicked", "type", a.typ.Key(), "panic", clean(what), "stack", clean(stack))
	})
}

// work is the attempt itself.
func (a *attempt) work(ctx context.Context) (json.RawMessage, error) {
	config, err := a.render(ctx)
	if err != nil {
		return nil, err
	}
	if a.cleanup {
		if err := a.typ.Cleanup(ctx, a.job, config); err != nil {
			return nil, fmt.Errorf("clean up after the last attempt: %w", err)
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx) // the attempt may be abandoned already
	}
	around := a.run.e.opt.Around
	if around == nil {
		return a.typ.Execute(ctx, a.job, config)
	}
	var outputs json.RawMessage
	err = around(ctx, a.job, func(ctx context.Context) (err error) {
		outputs, err = a.typ.Execute(ctx, a.job, config)
		return err
	})
	return outputs, err
}

// await waits for the outcome; see [stepcall.Call.Await].
func (a *attempt) await(ended <-chan struct{}, cancel context.CancelCauseFunc) (stepcall.Outcome, bool) {
	o, returned := a.Await(ended, cancel)
	if o.Exited {
		a.run.caller.Exited()
	}
	return o, returned
}

// finish takes the attempt's reports and closes what it had open.
func (a *attempt) finish(o *stepcall.Outcome) {
	r := a.job.Reports()
	o.Files, o.Events, o.Bytes = r.Files, r.Events, r.Bytes
	a.run.used = a.run.used || r.Workspace
	if err := a.job.Close(); err != nil && !o.Abandoned {
		a.run.log.Warn("close files of step", "error", err)
	}
	if !o.Abandoned {
		a.run.caller.Config = a.buf
	}
	o.Limit(a.run.e.opt.MaxOutput)
	o.RemoveSecrets(&a.run.secrets.Redactor.Redactor)
	o.Stack = a.run.secrets.Text(o.Stack, maxStack)
	o.Log = a.log.Close()
}

// maxStack is how many bytes of a stack are kept with a record: 16 KiB with the words
// that say that it was cut.
const maxStack = 16<<10 - 16

// abandon cuts a step that does not return off from its execution. Its slot
// stays taken until it returns. It returns the stacks of all goroutines.
func (e *Engine) abandon(a *attempt) string {
	r := a.run
	a.scope.Close()
	if err := a.job.Close(); err != nil {
		r.log.Warn("close files of step", "error", err)
	}
	stacks := string(stepcall.Stacks())
	stuck := StuckStep{
		Execution: r.x.ID, Step: a.job.Step(), Type: a.typ.Key(), Attempt: a.job.Attempt(),
		Stacks: []byte(r.secrets.Clean(stacks)),
	}
	r.log.Error("step does not return", "step", stuck.Step, "type", stuck.Type, "attempt", stuck.Attempt, "stacks", string(stuck.Stacks))
	r.caller.Abandon()
	r.closeResources()
	r.res = new(courier.Resources)
	e.slots.Stuck(r.x.ID)
	go func() {
		<-a.Done
		e.slots.Returned(r.x.ID)
	}()
	if f := e.opt.OnStuckStep; f != nil {
		hooks.Call(e.log, "stuck-step hook", func() { f(stuck) })
	}
	return stacks
}

// minProgress is the least time between two progress events of an attempt.
const minProgress = 100 * time.Millisecond

// progress takes note that the step is alive, and makes a few events a second
// of its reports.
func (a *attempt) progress(v courier.Progress) {
	at := time.Now()
	now := at.UnixNano()
	a.Progress(now)
	a.reports.Report(v, at)
	shown := a.run.shown.Load()
	if !a.run.e.observers.Wanted() || now-shown < int64(minProgress) && v.Done != v.Total || !a.run.shown.CompareAndSwap(shown, now) {
		return
	}
	ev := a.run.event(courier.EventStepProgress)
	ev.Step, ev.ID, ev.StepType, ev.Iteration, ev.Attempt = a.job.Step(), a.job.ID(), a.typ.Key(), a.job.Iteration(), a.job.Attempt()
	ev.Item, ev.ItemDone, ev.ItemTotal, ev.Bytes = a.run.secrets.Clean(v.Item), v.Done, v.Total, v.Bytes
	a.run.e.observers.Emit(ev)
}
