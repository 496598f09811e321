package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

// An outcome is what became of one attempt of a step.
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
	typ, spec := r.program.types[step], r.program.tree.Spec(step)
	a := r.newAttempt(typ)
	a.cleanup = cleanup
	defer a.scope.end()
	a.template, a.buf = r.program.template(step), r.buf[:0]
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

func (r *run) contextConfig(step, n int, a *attempt, unresolved []string) courier.ContextConfig {
	spec := r.program.tree.Spec(step)
	cfg := courier.ContextConfig{
		Execution: r.x.ID, Job: r.x.Job, Version: r.x.Version,
		Step: step, ID: spec.ID, Type: r.program.types[step].Key(),
		Attempt: n, EarlierStarts: r.marks.Base, ExecutionAttempt: r.x.Attempt,
		Workspace: r.workspace(), Roots: r.e.opt.Roots,
		Values: &a.scope, Secrets: r.resolve, Redactor: &r.secrets.Redactor, Resources: r.res,
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
	scope          attemptScope
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
	a.scope.scope = r.walk
	return a
}

// execute runs the step in another goroutine and waits for it: until it
// returns, or until its context has ended and the grace period too.
func (a *attempt) execute() outcome {
	ctx, cancel := context.WithCancelCause(a.run.steps)
	defer cancel(nil)
	a.run.do(func() { a.call(func() (json.RawMessage, error) { return a.work(ctx) }) })
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

// do calls f in the goroutine that the run has for its steps. It lives from one
// attempt to the next, since growing a new stack costs more than most steps.
func (r *run) do(f func()) {
	if r.calls == nil {
		r.calls = make(chan func(), 1)
		go func(calls <-chan func()) {
			for f := range calls {
				growStack(stackNeeded - 1)
				f()
			}
		}(r.calls)
	}
	r.calls <- f
}

// stackNeeded is about the stack, in bytes, that decoding a configuration takes.
const stackNeeded = 5 << 10

// growStack has the stack of a goroutine grow while there is next to nothing on
// it. Each garbage collection halves that of one that waits, as they do between
// two steps, and to grow it deep in a decoder, where all frames have to be
// adjusted, took an eighth of the time of an engine whose steps do nothing. At is
// a place in the frame, which the compiler does not know, or there would be none.
//
//go:noinline
func growStack(at int) byte {
	var frame [stackNeeded]byte
	return frame[at]
}

// endCalls lets the goroutine of the steps end, as soon as it is free.
func (r *run) endCalls() {
	if r.calls != nil {
		close(r.calls)
		r.calls = nil
	}
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
		o.err = sound(o.err)
	}
	returned = true
}

// sound returns err if its methods can be called, as they will be outside of the
// step's goroutine; those of a nil pointer in an error often panic.
func sound(err error) (ok error) {
	defer func() {
		if p := recover(); p != nil {
			ok = fmt.Errorf("an error of type %T whose methods panic: %v", err, p)
		}
	}()
	_ = err.Error()
	errors.Is(err, errSound)
	_, _ = errors.AsType[*courier.ConfigError](err)
	return err
}

var errSound = errors.New("no error matches this")

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
	if at := panickedAt(); at != "" {
		what += ", at " + at
	}
	a.run.log.Error("step panicked", "type", a.typ.Key(), "panic", a.run.secrets.clean(what), "stack", a.run.secrets.clean(string(debug.Stack())))
	return outcome{err: errors.New(what), reason: courier.ReasonPanic, exited: p == nil}
}

// panickedAt is where the deferred call of a panic, or of runtime.Goexit, came from:
// a file, with the directory it is in, and a line. It is empty if that is unknown.
func panickedAt() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for began := false; ; {
		f, more := frames.Next()
		inRuntime := strings.HasPrefix(f.Function, "runtime.") || strings.HasPrefix(f.Function, "internal/runtime/")
		if began && !inRuntime && f.File != "" {
			dir, file := path.Split(filepath.ToSlash(f.File))
			return fmt.Sprintf("%s:%d", path.Join(path.Base(dir), file), f.Line)
		}
		began = began || f.Function == "runtime.gopanic" || f.Function == "runtime.Goexit"
		if !more {
			return ""
		}
	}
}

// await waits for the outcome: until the steps are told to end, and the grace
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
		a.run.calls = nil
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
	o.reason = courier.ReasonError
	cause := context.Cause(ctx)
	if t, ok := errors.AsType[*timeoutError](cause); ok {
		o.reason = t.reason
		if errors.Is(o.err, context.Canceled) || errors.Is(o.err, cause) {
			o.err = t
		} else {
			o.err = fmt.Errorf("%w; the step returned: %w", t, o.err)
		}
	}
	if _, ok := errors.AsType[*courier.ConfigError](o.err); ok {
		o.reason = courier.ReasonConfig
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
	a.scope.end()
	if err := a.job.Close(); err != nil {
		r.log.Warn("close files of step", "error", err)
	}
	stuck := StuckStep{
		Execution: r.x.ID, Step: a.job.Step(), Type: a.typ.Key(), Attempt: a.job.Attempt(),
		Stacks: []byte(r.secrets.clean(string(stacks()))),
	}
	r.log.Error("step does not return", "step", stuck.Step, "type", stuck.Type, "attempt", stuck.Attempt, "stacks", string(stuck.Stacks))
	r.buf, r.done = nil, nil // the step may still read the one and will send on the other
	r.endCalls()
	r.closeResources()
	r.res = new(courier.Resources)
	e.mu.Lock()
	e.zombies[r.x.ID]++
	e.mu.Unlock()
	go func() {
		<-a.done
		e.mu.Lock()
		if e.zombies[r.x.ID]--; e.zombies[r.x.ID] == 0 {
			delete(e.zombies, r.x.ID)
		}
		e.mu.Unlock()
		signal(e.freed)
	}()
	if f := e.opt.OnStuckStep; f != nil {
		e.tell(func() { f(stuck) })
	}
}

// maxHook is how long an execution waits for the host's stuck-step hook.
const maxHook = 5 * time.Second

// tell calls the stuck-step hook, in a goroutine of its own, since the execution
// must go on even if the hook does not return.
func (e *Engine) tell(hook func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.protect("stuck-step hook", hook)
	}()
	timer := time.NewTimer(maxHook)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		e.log.Error("stuck-step hook does not return")
	}
}

// protect calls a function of the host's and logs its panic.
func (e *Engine) protect(what string, f func()) {
	defer func() {
		if p := recover(); p != nil {
			e.log.Error(what+" panicked", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	f()
}

// stacks returns the stacks of all goroutines, as far as they fit.
func stacks() []byte {
	const most = 1 << 20
	buf := make([]byte, most)
	return buf[:runtime.Stack(buf, true)]
}
