package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/history"
	"github.com/courierhq/courier/engine/internal/hooks"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/engine/internal/stepcall"
	"github.com/courierhq/courier/flow"
)

// An outcome is the result of one attempt of a step.
type outcome struct {
	outputs json.RawMessage
	err     error
	reason  courier.Reason
	// abandoned says that the step had not returned when the grace period was
	// over.
	abandoned bool
	files     []courier.File
	bytes     int64
	exited    bool // the step ended its goroutine by runtime.Goexit
}

// attempt executes one attempt of a step, within its timeouts.
func (r *run) attempt(step, n int, cleanup bool) outcome {
	typ, spec := r.program.Types[step], r.program.Tree.Spec(step)
	a := r.newAttempt(typ)
	a.cleanup = cleanup
	defer a.scope.Close()
	a.template, a.buf = r.program.Template(step), r.buf[:0]
	a.timeout, a.stall = typ.Timeout(), typ.Stall()
	if spec.Timeout != nil {
		a.timeout = *spec.Timeout
	}
	if spec.StallTimeout != nil {
		a.stall = *spec.StallTimeout
	}
	a.job = r.newContext(step, n, a)
	r.began = time.Now()
	o := a.execute()
	r.took = time.Since(r.began)
	a.finish(&o)
	return o
}

// render puts the values into the configuration. It belongs to the attempt,
// since a secret may take its time.
func (a *attempt) render(ctx context.Context) ([]byte, error) {
	config, err := a.template.Render(a.buf, &a.scope, func(name string) (string, error) { return a.job.Secret(ctx, name) })
	if err != nil {
		return nil, &renderError{a.run.configError(err)}
	}
	a.buf = config
	return config, nil
}

// A renderError says that a configuration could not be resolved.
type renderError struct{ err error }

func (e *renderError) Error() string { return e.err.Error() }
func (e *renderError) Unwrap() error { return e.err }

// configError marks what repeating can't cure. A secret that can't be had now
// may be there later.
func (r *run) configError(err error) error {
	if _, ok := errors.AsType[*secretError](err); ok {
		return err
	}
	return courier.Permanent(err)
}

// newContext returns the step's view of its execution.
func (r *run) newContext(step, n int, a *attempt) *courier.Context {
	cfg := r.contextConfig(step, n, a, nil)
	cfg.Iteration, cfg.Cancelled = r.walk.Iteration(), a.cancelled
	cfg.Repeated = a.rollback || r.repeated(step, n)
	if r.e.opt.Log != nil && cfg.Iteration != nil {
		cfg.Log = cfg.Log.With("iteration", courier.FormatIteration(cfg.Iteration))
	}
	return courier.NewContext(cfg)
}

// repeated reports whether a step of which attempt n is about to execute was
// started before in its iteration. Where a loop or the job was started again, attempts
// are counted anew, so the number alone does not say: the first pass may not have
// come as far. A record of the step in its iteration is then one of an earlier pass, for
// a pass comes to each step of an iteration once.
func (r *run) repeated(step, n int) bool {
	if n > 1 || r.handed {
		return true
	}
	if r.marks.Base == 0 && r.x.Attempt == 1 {
		return false
	}
	if r.former == nil {
		ctx, cancel := context.WithTimeout(r.lease, maxReading)
		defer cancel()
		former, err := history.Places(ctx, r.e.store, r.x.ID)
		if err != nil {
			r.log.Error("read the steps of a loop or job that was started again; its steps count as repeated", "error", err)
			return true
		}
		r.former = former
	}
	return r.former[history.Place(step, r.walk.Iteration())]
}

func (r *run) contextConfig(step, n int, a *attempt, unresolved []string) courier.ContextConfig {
	spec := r.program.Tree.Spec(step)
	cfg := courier.ContextConfig{
		Execution: r.x.ID, Job: r.x.Job, Version: r.x.Version,
		Step: step, ID: spec.ID, Type: r.program.Types[step].Key(),
		Attempt: n, EarlierStarts: r.marks.Base, ExecutionAttempt: r.x.Attempt,
		Workspace: r.workspace(), Roots: r.e.opt.Roots,
		Values: &a.scope, Secrets: r.resolve, Redactor: &r.secrets.Redactor.Redactor, Resources: r.res,
		OnProgress: a.progress, Unresolved: unresolved, MaxValue: r.e.opt.MaxValue,
	}
	if r.e.opt.Log != nil {
		cfg.Log = r.log.With("step", step, "type", cfg.Type, "attempt", n)
	}
	return cfg
}

// An attempt is one call of a step.
type attempt struct {
	run            *run
	typ            *courier.StepType
	job            *courier.Context
	scope          program.Scope
	done           chan outcome
	template       *flow.Template
	buf            []byte // for the rendered configuration
	cleanup        bool
	rollback       bool
	cancelled      bool // the rollback is that of a cancel
	timeout, stall time.Duration
	active         atomic.Int64 // when the step last reported progress, in Unix nanoseconds
	shown          atomic.Int64 // when the last progress event was emitted
}

// newAttempt returns an attempt that sees the run's values. Its channel serves
// one attempt after the other, until one is abandoned.
func (r *run) newAttempt(typ *courier.StepType) *attempt {
	if r.done == nil {
		r.done = make(chan outcome, 1)
	}
	a := &attempt{run: r, typ: typ, done: r.done}
	a.scope.Open(r.walk)
	return a
}

// execute runs the step in another goroutine and waits for it: until it
// returns, or until its context has ended and the grace period too.
func (a *attempt) execute() outcome {
	ctx, cancel := context.WithCancelCause(a.run.steps)
	defer cancel(nil)
	a.run.goroutine.Do(func() { a.call(func() (json.RawMessage, error) { return a.work(ctx) }) })
	o, returned := a.await(a.run.steps.Done(), cancel)
	if returned {
		return a.judge(ctx, o)
	}
	a.run.e.abandon(a)
	o = a.judge(ctx, outcome{err: context.Cause(ctx)})
	o.err = fmt.Errorf("%w; did not stop within %v, so it was cut off and keeps a slot until it returns", o.err, a.run.e.opt.Grace)
	o.abandoned = true
	return o
}

// call sends the outcome of f, also if it panics or calls runtime.Goexit.
func (a *attempt) call(f func() (json.RawMessage, error)) {
	var o outcome
	returned := false
	defer func() {
		if !returned {
			o = a.panicked(recover())
		}
		a.done <- o
	}()
	if o.outputs, o.err = f(); o.err != nil {
		o.err = stepcall.SafeError(o.err)
	}
	returned = true
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

// panicked makes a failure of a panic; p is nil for runtime.Goexit.
func (a *attempt) panicked(p any) outcome {
	what := fmt.Sprintf("panic: %v", p)
	if p == nil {
		what = "the step called runtime.Goexit"
	}
	if at := stepcall.PanickedAt(); at != "" {
		what += ", at " + at
	}
	a.run.log.Error("step panicked", "type", a.typ.Key(), "panic", a.run.secrets.Clean(what), "stack", a.run.secrets.Clean(string(debug.Stack())))
	return outcome{err: errors.New(what), reason: courier.ReasonPanic, exited: p == nil}
}

// await waits for the outcome: until the context of the steps has ended, and the grace
// period is over, or until a timeout fires, when it cancels the step's context.
func (a *attempt) await(ended <-chan struct{}, cancel context.CancelCauseFunc) (outcome, bool) {
	var expired <-chan time.Time
	start := time.Now()
	a.active.Store(start.UnixNano())
	if first := a.next(0, 0); first > 0 {
		expired = a.run.startTimer(first)
		defer a.run.timer.Stop()
	}
	for {
		select {
		case o := <-a.done:
			return a.received(o), true
		case <-ended:
			return a.grace()
		case <-expired:
			running, idle := time.Since(start), time.Since(time.Unix(0, a.active.Load()))
			switch {
			case a.timeout > 0 && running >= a.timeout:
				cancel(&timeoutError{fmt.Sprintf("timed out after %v", a.timeout), courier.ReasonTimeout})
				return a.grace()
			case a.stall > 0 && idle >= a.stall:
				cancel(&timeoutError{fmt.Sprintf("stalled: no progress for %v", a.stall), courier.ReasonStalled})
				return a.grace()
			default:
				a.run.timer.Reset(a.next(running, idle))
			}
		}
	}
}

// next is the time until one of the timeouts can fire; 0 if there is none.
func (a *attempt) next(running, idle time.Duration) time.Duration {
	switch {
	case a.timeout <= 0 && a.stall <= 0:
		return 0
	case a.stall <= 0:
		return max(1, a.timeout-running)
	case a.timeout <= 0:
		return max(1, a.stall-idle)
	}
	return max(1, min(a.timeout-running, a.stall-idle))
}

// grace waits for a step whose context has ended.
func (a *attempt) grace() (outcome, bool) {
	expired := a.run.startTimer(a.run.e.opt.Grace)
	defer a.run.timer.Stop()
	select {
	case o := <-a.done:
		return a.received(o), true
	case <-expired:
		return outcome{}, false
	}
}

// received takes note if the step took its goroutine with it.
func (a *attempt) received(o outcome) outcome {
	if o.exited {
		a.run.goroutine.Exited()
	}
	return o
}

// startTimer starts the timer that the attempts of a run share.
func (r *run) startTimer(d time.Duration) <-chan time.Time {
	if r.timer == nil {
		r.timer = time.NewTimer(d)
	} else {
		r.timer.Reset(d)
	}
	return r.timer.C
}

// A timeoutError is the cause with which a timeout ends a step's context.
type timeoutError struct {
	text   string
	reason courier.Reason
}

func (e *timeoutError) Error() string { return e.text }

// Is reports whether target is [courier.ErrTimeout].
func (e *timeoutError) Is(target error) bool { return target == courier.ErrTimeout }

// judge gives a failed outcome its reason. A step that returned its result in
// spite of an ended context has completed.
func (a *attempt) judge(ctx context.Context, o outcome) outcome {
	if o.err == nil || o.reason != "" {
		return o
	}
	o.reason = courier.ClassOf(o.err)
	cause := context.Cause(ctx)
	if t, ok := errors.AsType[*timeoutError](cause); ok {
		o.reason = t.reason
		if errors.Is(o.err, context.Canceled) || errors.Is(o.err, cause) {
			o.err = t
		} else {
			o.err = fmt.Errorf("%w; the step returned: %w", t, o.err)
		}
	}
	if _, ok := errors.AsType[*renderError](o.err); ok && o.reason == courier.ReasonError {
		o.reason = courier.ReasonConfig
	}
	return o
}

// finish takes the attempt's reports and closes what it had open.
func (a *attempt) finish(o *outcome) {
	o.bytes = a.job.Bytes()
	o.files = a.job.Files()
	if o.abandoned {
		o.files = slices.Clone(o.files) // the step may still report
	}
	a.run.used = a.run.used || a.job.UsedWorkspace()
	if err := a.job.Close(); err != nil && !o.abandoned {
		a.run.log.Warn("close files of step", "error", err)
	}
	if !o.abandoned {
		a.run.buf = a.buf
	}
	if err := a.run.e.tooLarge(o); err != nil {
		o.outputs, o.files = nil, nil
		if o.err == nil {
			o.err, o.reason = courier.Permanent(err), courier.ReasonError
		}
	}
	a.run.secrets.clear(o)
}

// abandon cuts a step that does not return off from its execution. Its slot
// stays taken until it returns.
func (e *Engine) abandon(a *attempt) {
	r := a.run
	a.scope.Close()
	if err := a.job.Close(); err != nil {
		r.log.Warn("close files of step", "error", err)
	}
	stuck := StuckStep{
		Execution: r.x.ID, Step: a.job.Step(), Type: a.typ.Key(), Attempt: a.job.Attempt(),
		Stacks: []byte(r.secrets.Clean(string(stepcall.Stacks()))),
	}
	r.log.Error("step does not return", "step", stuck.Step, "type", stuck.Type, "attempt", stuck.Attempt, "stacks", string(stuck.Stacks))
	r.buf, r.done = nil, nil // the step may still read the one and will send on the other
	r.goroutine.End()
	r.closeResources()
	r.res = new(courier.Resources)
	e.slots.Stuck(r.x.ID)
	go func() {
		<-a.done
		e.slots.Returned(r.x.ID)
	}()
	if f := e.opt.OnStuckStep; f != nil {
		hooks.Call(e.log, "stuck-step hook", func() { f(stuck) })
	}
}
