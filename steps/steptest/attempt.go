package steptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier"
)

// The causes that end contexts, operations and attempts.
var (
	errInterrupted = fmt.Errorf("steptest: the worker is about to end: %w", courier.ErrStopped)
	errCutOff      = fmt.Errorf("steptest: the attempt hangs: %w", courier.ErrTimeout)
	errTooLong     = fmt.Errorf("steptest: the attempt takes too long: %w", courier.ErrTimeout)
	errFault       = errors.New("steptest: input/output error")
	errPanic       = errors.New("steptest: panic in the middle")
)

const (
	tooLong = 2 * time.Minute // for an attempt that nothing disturbs
	late    = 24 * time.Hour  // virtual; after that nothing ends by itself
)

// An attempt is one call of a step, in a goroutine of its own.
type attempt struct {
	w      *World
	number int
	job    *courier.Context
	probe  *probe
	ctx    context.Context
	cancel context.CancelCauseFunc

	id       string        // of the goroutine
	stopped  chan struct{} // closed when the context has ended
	stopOnce sync.Once
	stuck    chan struct{} // closed when the attempt hangs
	release  chan struct{} // closed to let it go on
	done     chan struct{} // closed when it has returned

	out      json.RawMessage
	err      error
	panicked bool
	trace    string // of a panic that is not the instrument's
	cleaned  bool   // Cleanup is over
}

// newAttempt makes an attempt that act disturbs at place at, counting from 1; 0 means no
// disturbance.
func (w *World) newAttempt(number, at int, act disturbance, cancelled bool) *attempt {
	a := &attempt{
		w: w, number: number,
		stopped: make(chan struct{}), stuck: make(chan struct{}), release: make(chan struct{}), done: make(chan struct{}),
	}
	a.probe = &probe{at: at, packages: w.c.Packages, act: func(p *place) error { return act(a, p) }}
	ctx, cancel := context.WithCancelCause(context.Background())
	a.ctx, a.cancel = watched{ctx, a.probe}, cancel
	defer func() { w.begun = true }()
	var cursor json.RawMessage
	if w.job != nil {
		w.job.Cursor(&cursor)
	}
	a.job = courier.NewContext(courier.ContextConfig{
		Cursor: cursor, Execution: execution, Job: "steptest", Version: 1, Step: step, Type: w.typ.Key(), Attempt: number, ExecutionAttempt: w.again,
		Workspace: w.Work, Roots: w.Roots, Values: w.Values, Resources: w.kept, Cancelled: cancelled, Repeated: w.begun,
		Secrets: func(ctx context.Context, r courier.SecretRequest) (string, error) {
			if err := a.probe.reach(secret, func() string { return fmt.Sprintf("secret %q", r.Name) }); err != nil {
				return "", err
			}
			if w.Secrets == nil {
				return "", fmt.Errorf("secret %q: the world has none; set World.Secrets in Setup", r.Name)
			}
			return w.Secrets(ctx, r)
		},
		OnProgress: func(p courier.Progress) {
			a.probe.reach(progress, func() string {
				return fmt.Sprintf("progress of %q, %d of %d", strings.TrimPrefix(p.Item, w.Dir), p.Done, p.Total)
			})
		},
		OnFile: func(operation, name string) error {
			return a.probe.reach(file, func() string { return fmt.Sprintf("%s %q", operation, strings.TrimPrefix(name, w.Dir)) })
		},
	})
	w.job = a.job
	w.probe.Store(a.probe) // an outside system may be at work already, for an attempt before
	return a
}

// start calls f in the attempt's goroutine.
func (a *attempt) start(f func() error) {
	go func() {
		defer close(a.done)
		pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("steptest", a.w.goLabel)))
		a.id = goroutine()
		defer func() {
			if p := recover(); p != nil {
				a.panicked, a.err = true, fmt.Errorf("panic: %v", p)
				if p != errPanic {
					a.trace = string(debug.Stack())
				}
			}
		}()
		a.err = f()
	}()
}

// execute does what an engine does: unless it is the first attempt, it calls Cleanup or its
// substitute, and then Execute. It calls between, if not nil, between the two.
func (a *attempt) execute(cleanup bool, between func()) {
	before := a.w.executed
	a.w.executed = a
	if before != nil && before.failed() {
		a.w.removed = a.w.removed || slices.ContainsFunc(before.job.Reports().Files, func(f courier.File) bool { return f.Removed })
	}
	a.start(func() (err error) {
		if cleanup {
			if err := a.cleanUp(before); err != nil {
				return err
			}
		}
		a.cleaned = true
		if between != nil {
			between()
		}
		a.out, err = a.w.typ.Execute(a.ctx, a.job, a.w.config)
		return err
	})
}

// rollback does what an engine does when the policy gives up.
func (a *attempt) rollback() {
	a.start(func() error { return a.w.typ.Rollback(a.ctx, a.job, a.w.config) })
}

// stop ends the attempt's context.
func (a *attempt) stop(cause error) {
	a.stopOnce.Do(func() {
		a.cancel(cause)
		close(a.stopped)
	})
}

// wait waits until the attempt has returned, or hangs as intended. It reports false if neither
// happened in time.
func (a *attempt) wait() bool {
	long := time.NewTimer(tooLong)
	defer long.Stop()
	select {
	case <-a.done:
		return true
	case <-a.stuck:
		return true
	case <-a.stopped:
	case <-long.C:
		a.stop(errTooLong)
	}
	return a.gone()
}

// gone waits for the end of an attempt whose context has ended. It reports false if the attempt
// does not end in time.
func (a *attempt) gone() bool {
	soon := time.NewTimer(a.w.c.Return)
	defer soon.Stop()
	select {
	case <-a.done:
		return true
	case <-soon.C:
	}
	further := a.w.c.Return
	if a.w.c.Virtual {
		further = late
	}
	select { // it may only be late, and then it is not left behind
	case <-a.done:
	case <-time.After(further):
	}
	return false
}

// close releases what a returned attempt kept open, or closes the files of an attempt that has
// not returned.
func (a *attempt) close() {
	a.job.Close()
	a.cancel(nil)
}

// A disturbance is what happens to an attempt at a place, in its goroutine.
type disturbance func(a *attempt, p *place) error

func interrupted(a *attempt, _ *place) error {
	a.stop(errInterrupted)
	return nil
}

func failing(_ *attempt, p *place) error {
	operation, name, _ := strings.Cut(p.what, " ")
	return &fs.PathError{Op: operation, Path: strings.Trim(name, `"`), Err: errFault}
}

// panicking panics only if the attempt recovers, as an engine does: a panic in a goroutine that
// the step itself started ends the process.
func panicking(a *attempt, _ *place) error {
	if goroutine() == a.id {
		panic(errPanic)
	}
	a.stop(errInterrupted)
	return nil
}

func hanging(a *attempt, _ *place) error {
	close(a.stuck)
	<-a.release
	return nil
}
