package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/nearest"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/store"
)

// EnqueueOptions are the settings of a new execution. The zero value is the
// default.
type EnqueueOptions struct {
	Params         map[string]any // the values params.*; any that encoding/json can handle
	Priority       int16          // higher is claimed first
	Delay          time.Duration  // until it is due
	IdempotencyKey string         // unique per job; a used one returns the execution that used it
	LimitKeys      []string       // in addition to the job's
	Hold           bool           // creates it in the state created, until Release
	Version        int            // of the job; 0 means the latest
	Timeout        *time.Duration // of the whole execution, from its first claim after it was created or resumed; nil and 0 mean none
	By             courier.By     // who asks for it; [Engine.Prepare] keeps the actor alone
}

// Enqueue creates an execution of the named job for some engine to run, and
// returns it. Once Enqueue returned nil, the execution is durable in the store.
// With an idempotency key that was used before, it returns that execution,
// whatever its state, or [courier.ErrConflict] if it has other parameters. Where a
// dependency of the job that refuses is not met, nothing is created, and the error
// is a *[courier.DependencyError]. A nil opt means the defaults. If no worker that
// the store has seen lately serves the queue, Enqueue warns of it in Options.Log, once
// a minute for each queue.
func (e *Engine) Enqueue(ctx context.Context, job string, opt *EnqueueOptions) (courier.Execution, error) {
	x, err := e.enqueue(ctx, job, opt)
	if err == nil {
		e.warnOfUnserved(ctx, x)
	}
	return x, err
}

// enqueue is Enqueue without a look at who serves the queue.
func (e *Engine) enqueue(ctx context.Context, job string, opt *EnqueueOptions) (courier.Execution, error) {
	n, err := e.prepare(ctx, job, opt, true)
	if err != nil {
		return courier.Execution{}, fmt.Errorf("enqueue: %w", err)
	}
	got, err := e.create(ctx, []store.NewExecution{n})
	if errors.Is(err, store.ErrOutdated) {
		id := n.ID // it may have been created, by a call whose answer was lost
		if n, err = e.prepare(ctx, job, opt, false); err != nil {
			return courier.Execution{}, fmt.Errorf("enqueue: %w", err)
		}
		n.ID = id
		got, err = e.create(ctx, []store.NewExecution{n})
	}
	switch {
	case errors.Is(err, courier.ErrConflict), errors.Is(err, courier.ErrNotFound): // which name the job
		return courier.Execution{}, fmt.Errorf("enqueue: %w", err)
	case err != nil:
		return courier.Execution{}, fmt.Errorf("enqueue: job %q: %w", job, err)
	}
	if opt != nil {
		e.explained("execution", string(got[0].ID), "enqueued", opt.By, slog.String("job", job))
	}
	return got[0], nil
}

// EnqueueAll creates executions that [Engine.Prepare] made, of any jobs: all of
// them, in one call of the store, or none if it returns an error. It returns
// one execution for each of the list, in order; for an idempotency key that was
// used before, that is the execution that used it, as with [Engine.Enqueue]. The
// error [courier.ErrConflict] says that such a one has other parameters. The same
// list may be enqueued again, as after an error that leaves open whether it is
// in the store: no execution is created twice.
func (e *Engine) EnqueueAll(ctx context.Context, list []store.NewExecution) ([]courier.Execution, error) {
	got, err := e.create(ctx, list)
	if err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	e.warnOfUnserved(ctx, got...)
	return got, nil
}

// Prepare returns what [Engine.Enqueue] would create, and creates nothing. It is
// for [Engine.EnqueueAll], and for stores that create executions in a
// transaction of the caller's, such as EnqueueTx of package pgstore. The job and
// the options are checked as by Enqueue, and the latest version of the job is
// the latest now; for a version that is given, the store is asked but once. A
// nil opt means the defaults.
func (e *Engine) Prepare(ctx context.Context, job string, opt *EnqueueOptions) (store.NewExecution, error) {
	n, err := e.prepare(ctx, job, opt, false)
	if err != nil {
		return store.NewExecution{}, fmt.Errorf("prepare: %w", err)
	}
	return n, nil
}

// prepare makes an execution. Known says that the latest version that is known
// here will do, if it still is the latest when the execution is created.
func (e *Engine) prepare(ctx context.Context, job string, opt *EnqueueOptions, known bool) (store.NewExecution, error) {
	if opt == nil {
		opt = &EnqueueOptions{}
	}
	var p *program
	if known = known && opt.Version == 0; known {
		p = e.programs.latest(job)
		known = p != nil
	}
	if p == nil {
		var err error
		if p, err = e.program(ctx, job, opt.Version); err != nil {
			return store.NewExecution{}, err
		}
	}
	n, err := e.execution(p, courier.ExecutionID(e.ids.New()), opt)
	if err != nil {
		return store.NewExecution{}, fmt.Errorf("job %q: %w", job, err)
	}
	n.Latest = known
	return n, nil
}

// execution returns a new execution of a program.
func (e *Engine) execution(p *program, id courier.ExecutionID, opt *EnqueueOptions) (store.NewExecution, error) {
	if opt.Delay < 0 {
		return store.NewExecution{}, courier.Errorf(courier.ErrInvalid, "delay: %v is negative", opt.Delay)
	}
	if opt.Timeout != nil && *opt.Timeout < 0 {
		return store.NewExecution{}, courier.Errorf(courier.ErrInvalid, "timeout: %v is negative; 0 means none", *opt.Timeout)
	}
	if err := core.CheckText(core.Texts(opt.By, "IdempotencyKey", opt.IdempotencyKey)); err != nil {
		return store.NewExecution{}, err
	}
	params, err := e.mergeParams(p.job.Params, opt.Params)
	if err != nil {
		return store.NewExecution{}, err
	}
	n := store.NewExecution{
		ID: id, Job: p.job.Name, Version: p.version, StepTypes: p.keys,
		Queue: p.job.Queue, Priority: opt.Priority, Delay: opt.Delay, Hold: opt.Hold,
		IdempotencyKey: opt.IdempotencyKey, Params: params, JobLimit: p.job.Limit, By: opt.By.Actor, DependsOn: p.job.DependsOn,
	}
	if typ := p.firstType(); typ != "" {
		n.First = &courier.StepExecution{ID: p.job.Steps[0].ID, Type: typ}
	}
	if n.Queue == "" {
		n.Queue = courier.DefaultQueue
	}
	if opt.Timeout != nil {
		n.Timeout = *opt.Timeout
	}
	if n.LimitKeys, err = p.limitKeys(id, params, opt.LimitKeys); err != nil {
		return store.NewExecution{}, err
	}
	for _, key := range n.LimitKeys {
		if err := core.CheckText(map[string]string{"limit key": key}); err != nil {
			return store.NewExecution{}, err
		}
	}
	return n, nil
}

// create creates executions, all or none.
func (e *Engine) create(ctx context.Context, list []store.NewExecution) ([]courier.Execution, error) {
	var got []store.Enqueued
	ctx, cancel := context.WithTimeout(ctx, core.StoreTimeout)
	defer cancel()
	calls := core.CallTimeout{Parent: ctx, Awaited: true}
	defer calls.End()
	err := core.Retry(&calls, func(ctx context.Context) (err error) {
		got, err = e.store.Enqueue(ctx, list) // their ids make it safe to repeat
		return err
	})
	if err != nil {
		return nil, err
	}
	executions := make([]courier.Execution, len(got))
	for i := range got {
		executions[i] = got[i].Execution
	}
	return executions, nil
}

// mergeParams returns the JSON object of the parameters of an execution: the
// declared ones, overridden by what is given.
func (e *Engine) mergeParams(declared, given map[string]any) (json.RawMessage, error) {
	if len(given) == 0 && len(declared) == 0 {
		return nil, nil
	}
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, ok := declared[name]; !ok && declared != nil {
			names := slices.Sorted(maps.Keys(declared))
			unknown = append(unknown, fmt.Sprintf("params: unknown parameter %q; %s", name, nearest.DidYouMean(name, names)))
		}
	}
	if len(unknown) > 0 {
		return nil, courier.Errorf(courier.ErrInvalid, "%s", joinLines(unknown))
	}
	all := make(map[string]any, len(given)+len(declared))
	maps.Copy(all, declared)
	maps.Copy(all, given)
	raw, err := jsontext.Append(nil, all)
	if err != nil {
		return nil, courier.Errorf(courier.ErrInvalid, "params: %w", err)
	}
	if len(raw) > e.opt.MaxParams {
		return nil, fmt.Errorf("params: they have %d bytes, more than the %d of engine.Options.MaxParams; put them into a file and give its path, or raise the limit: %w",
			len(raw), e.opt.MaxParams, courier.ErrInvalid)
	}
	return raw, nil
}

func (p *program) limitKeys(id courier.ExecutionID, params json.RawMessage, more []string) ([]string, error) {
	if len(p.job.LimitKeys)+len(more) == 0 {
		return nil, nil
	}
	values := newValues(p, &courier.Execution{ID: id, Job: p.job.Name, Params: params, Attempt: 1}, "")
	for _, later := range []string{"started_at", "workspace", "attempt"} {
		delete(values.job, later) // known only when it runs
	}
	keys := slices.Clone(more)
	for i, text := range p.job.LimitKeys {
		key, err := flow.Expand(text, values)
		if err != nil {
			return nil, fmt.Errorf("limit_keys[%d]: %w", i, err)
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	keys = slices.DeleteFunc(slices.Compact(keys), func(k string) bool { return k == "" })
	return keys, nil
}
