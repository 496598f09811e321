package chain

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/inputs"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/store"
)

// Start creates an execution of the named chain, and releases the members without dependencies.
// The versions of all members' jobs are fixed now. When Start has returned nil, the chain
// execution is durable in the store. If the idempotency key was used before, Start returns that
// chain execution, whatever its state, or [courier.ErrConflict] if its parameters differ. A nil
// opt means the defaults.
func (v *Service) Start(ctx context.Context, chain string, opt *StartOptions) (Execution, error) {
	n, err := v.prepare(ctx, chain, opt)
	if err != nil {
		return Execution{}, fmt.Errorf("start chain: %w", err)
	}
	x, err := v.start(ctx, n)
	if err != nil {
		return Execution{}, fmt.Errorf("start chain %q: %w", chain, err)
	}
	if opt != nil {
		v.explained(&x, "started", opt.By)
	}
	return x, nil
}

// Rerun starts the chain of an earlier execution again, whatever its state. The new chain
// execution has the parameters of the earlier one, and its labels except [courier.LabelBy];
// parameters and labels of the options replace single ones. Everything else is as if the chain
// were started now. The field RerunOf of the new chain execution is the id of the earlier one. A
// nil opt means the defaults.
func (v *Service) Rerun(ctx context.Context, id courier.ChainExecutionID, opt *StartOptions) (Execution, error) {
	former, err := v.Execution(ctx, id)
	if err != nil {
		return former, fmt.Errorf("rerun: %w", err)
	}
	var o StartOptions
	if opt != nil {
		o = *opt
	}
	o.Params, o.Labels = inputs.RerunParams(former.Params, o.Params), inputs.RerunLabels(former.Labels, o.Labels)
	n, err := v.prepare(ctx, former.Chain, &o)
	if err != nil {
		return Execution{}, fmt.Errorf("rerun chain execution %s: %w", id, err)
	}
	n.RerunOf = id
	x, err := v.start(ctx, n)
	if err != nil {
		return Execution{}, fmt.Errorf("rerun chain execution %s: %w", id, err)
	}
	v.explained(&x, "started again", o.By)
	return x, nil
}

// explained logs a request on a chain execution if a reason was given, because the store records
// only the actor.
func (v *Service) explained(x *Execution, change string, by courier.By) {
	if by.Reason != "" {
		v.opt.Log.Info("chain execution "+change, "chain_execution", string(x.ID), "by", by, "chain", x.Chain)
	}
}

// Prepare returns what [Service.Start] would create, and creates nothing. A nil opt means the
// defaults.
func (v *Service) Prepare(ctx context.Context, chain string, opt *StartOptions) (NewExecution, error) {
	n, err := v.prepare(ctx, chain, opt)
	if err != nil {
		return NewExecution{}, fmt.Errorf("prepare chain: %w", err)
	}
	return n, nil
}

// start creates a chain execution.
func (v *Service) start(ctx context.Context, n NewExecution) (Execution, error) {
	s, err := v.opt.Store()
	if err != nil {
		return Execution{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, storecall.Timeout)
	defer cancel()
	calls := storecall.Calls{Parent: ctx, Awaited: true}
	defer calls.End()
	var got []Started
	err = storecall.Retry(&calls, func(ctx context.Context) (err error) {
		got, err = s.StartChains(ctx, []NewExecution{n}) // safe to repeat, because the ids are given
		return err
	})
	if err != nil {
		return Execution{}, err
	}
	v.opt.Written()
	v.Started(got)
	return got[0].Execution, nil
}

func (v *Service) prepare(ctx context.Context, name string, opt *StartOptions) (NewExecution, error) {
	if opt == nil {
		opt = &StartOptions{}
	}
	l, err := v.Load(ctx, name, opt.Version)
	if err != nil {
		return NewExecution{}, err
	}
	return l.NewExecution(ctx, opt)
}

// A Loaded is a version of a chain with the jobs of its members, in the versions that they had at
// one moment. It is for callers that start the chain together with a record of the store, such as
// the tick of a schedule.
type Loaded struct {
	Chain   Chain
	service *Service
	params  *flow.Params // of the chain
	jobs    []*Job       // of the members
}

// Load returns a version of a chain, or the latest for version 0.
func (v *Service) Load(ctx context.Context, name string, version int) (*Loaded, error) {
	c, err := v.Get(ctx, name, version)
	if err != nil {
		return nil, err
	}
	l := &Loaded{Chain: c, service: v, params: flow.ReadParams(c.Params), jobs: make([]*Job, len(c.Members))}
	latest := make(map[string]int) // all members that use the latest version of a job get the same one
	for i := range c.Members {
		m := &c.Members[i]
		version := m.Version
		if version == 0 {
			version = latest[m.Job]
		}
		j, err := v.opt.Job(ctx, m.Job, version)
		if err != nil {
			return nil, fmt.Errorf("chain %q, member %q: %w", name, m.Name, err)
		}
		if m.Version == 0 {
			latest[m.Job] = j.Version
		}
		l.jobs[i] = j
	}
	return l, nil
}

// NewExecution returns a new execution of the chain, for [Store.StartChains]. It ignores the
// version in the options. If parameters are wrong, also those of members, the error is a
// *[courier.ParamsError].
func (l *Loaded) NewExecution(ctx context.Context, opt *StartOptions) (NewExecution, error) {
	c, v := &l.Chain, l.service
	fail := func(err error) (NewExecution, error) { return NewExecution{}, fmt.Errorf("chain %q: %w", c.Name, err) }
	if err := text.Check(text.By(opt.By, "IdempotencyKey", opt.IdempotencyKey, "KeyScope", opt.KeyScope)); err != nil {
		return fail(err)
	}
	trace := opt.Trace
	if trace == "" {
		trace = v.opt.Trace(ctx)
	}
	if err := inputs.CheckLabels(opt.Labels, trace); err != nil {
		return fail(err)
	}
	params, err := inputs.Params(l.params, opt.Params, false, v.opt.MaxParams)
	if err != nil {
		return fail(err)
	}
	n := NewExecution{
		ID: courier.ChainExecutionID(v.opt.NewID()), Chain: c.Name, Version: c.Version, Params: params,
		IdempotencyKey: opt.IdempotencyKey, Hold: opt.Hold, By: opt.By.Actor, Trace: trace,
		Members: make([]NewMember, len(c.Members)),
	}
	if n.IdempotencyKey != "" {
		n.KeyScope = opt.KeyScope
	}
	if len(opt.Labels) > 0 {
		n.Labels = maps.Clone(opt.Labels)
	}
	given := jsontext.Object(params)
	var bad courier.ParamsError
	for i := range c.Members {
		m := &c.Members[i]
		x, err := m.newExecution(ctx, l.jobs[i], given, opt.By)
		if e, ok := errors.AsType[*courier.ParamsError](err); ok {
			for _, p := range e.Problems {
				p.Field = fmt.Sprintf("member %q: %s", m.Name, p.Field)
				bad.Problems = append(bad.Problems, p)
			}
			continue
		}
		if err != nil {
			return NewExecution{}, fmt.Errorf("chain %q, member %q: %w", c.Name, m.Name, err)
		}
		n.Members[i] = NewMember{Name: m.Name, DependsOn: m.DependsOn, Execution: x}
	}
	if len(bad.Problems) > 0 {
		return fail(&bad)
	}
	return n, nil
}

// newExecution returns the execution of a member. Given has the params of the chain.
func (m *Member) newExecution(ctx context.Context, j *Job, given map[string]any, by courier.By) (store.NewExecution, error) {
	params := make(map[string]any)
	for name, value := range given {
		if j.takes(name) {
			params[name] = value
		}
	}
	if len(m.Params) > 0 {
		template, _ := flow.Compile(m.Params)
		scope := make(courier.Values, len(given))
		for name, value := range given {
			scope["params."+name] = value
		}
		raw, err := template.Render(nil, scope, nil)
		if err != nil {
			return store.NewExecution{}, courier.Errorf(courier.ErrInvalid, "params: %w", err)
		}
		maps.Copy(params, jsontext.Object(raw))
	}
	return j.New(ctx, &courier.EnqueueOptions{Params: params, Priority: m.Priority, By: by})
}
