package chains

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/inputs"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/store"
)

// Start creates an execution of the named chain and releases the members
// that depend on no other, for some engine to run. The versions of all members'
// jobs are those of this moment, whatever is saved later. Once Start
// returned nil, the chain execution is durable in the store. With an idempotency
// key that was used before, it returns that chain execution, whatever its state,
// or [courier.ErrConflict] if it has other parameters. A nil opt means the
// defaults.
func (v *Service) Start(ctx context.Context, chain string, opt *courier.ChainOptions) (courier.ChainExecution, error) {
	n, err := v.prepare(ctx, chain, opt)
	if err != nil {
		return courier.ChainExecution{}, fmt.Errorf("start chain: %w", err)
	}
	got, err := v.start(ctx, []store.NewChainExecution{n})
	if err != nil {
		return courier.ChainExecution{}, fmt.Errorf("start chain %q: %w", chain, err)
	}
	if opt != nil {
		core.Explained(v.cfg.Log, "chain execution", string(got[0].ID), "started", opt.By, slog.String("chain", chain))
	}
	return got[0], nil
}

// Rerun starts a chain again with the parameters of a former execution of it, in place of
// which those of the options count.
func (v *Service) Rerun(ctx context.Context, id courier.ChainExecutionID, opt courier.ChainOptions) (courier.ChainExecution, error) {
	former, err := v.Execution(ctx, id)
	if err != nil {
		return former, fmt.Errorf("rerun: %w", err)
	}
	opt.Params, opt.Labels = inputs.RerunParams(former.Params, opt.Params), inputs.RerunLabels(former.Labels, opt.Labels)
	n, err := v.prepare(ctx, former.Chain, &opt)
	if err != nil {
		return courier.ChainExecution{}, fmt.Errorf("rerun chain execution %s: %w", id, err)
	}
	n.RerunOf = id
	got, err := v.start(ctx, []store.NewChainExecution{n})
	if err != nil {
		return courier.ChainExecution{}, fmt.Errorf("rerun chain execution %s: %w", id, err)
	}
	core.Explained(v.cfg.Log, "chain execution", string(got[0].ID), "started again", opt.By, slog.String("chain", former.Chain))
	return got[0], nil
}

// Prepare returns what [Service.Start] would create, and creates
// nothing. A nil opt means the defaults.
func (v *Service) Prepare(ctx context.Context, chain string, opt *courier.ChainOptions) (store.NewChainExecution, error) {
	n, err := v.prepare(ctx, chain, opt)
	if err != nil {
		return store.NewChainExecution{}, fmt.Errorf("prepare chain: %w", err)
	}
	return n, nil
}

func (v *Service) start(ctx context.Context, list []store.NewChainExecution) ([]courier.ChainExecution, error) {
	chains, err := v.cfg.Roles.Chains()
	if err != nil {
		return nil, err
	}
	var got []store.StartedChain
	ctx, cancel := context.WithTimeout(ctx, storecall.Timeout)
	defer cancel()
	calls := storecall.Calls{Parent: ctx, Awaited: true}
	defer calls.End()
	err = storecall.Retry(&calls, func(ctx context.Context) (err error) {
		got, err = chains.StartChains(ctx, list) // their ids make it safe to repeat
		return err
	})
	if err != nil {
		return nil, err
	}
	v.cfg.WakeNotifications()
	started := make([]courier.ChainExecution, len(got))
	for i := range got {
		started[i] = got[i].Execution
		v.Moved(&started[i], !got[i].Existed)
	}
	return started, nil
}

func (v *Service) prepare(ctx context.Context, name string, opt *courier.ChainOptions) (store.NewChainExecution, error) {
	if opt == nil {
		opt = &courier.ChainOptions{}
	}
	c, err := v.Load(ctx, name, opt.Version)
	if err != nil {
		return store.NewChainExecution{}, err
	}
	return v.New(ctx, c, opt)
}

// A Chain is a version of a chain with the programs of its members, in the versions of
// one moment.
type Chain struct {
	courier.Chain
	params   *flow.Params
	programs []*program.Program
}

// Load returns a version of a chain; 0 means the latest.
func (v *Service) Load(ctx context.Context, name string, version int) (*Chain, error) {
	c, err := v.cfg.Chain(ctx, name, version)
	if err != nil {
		return nil, err
	}
	l := &Chain{c, flow.ReadParams(c.Params), make([]*program.Program, len(c.Members))}
	latest := make(map[string]int) // one version of a job for all members that ask for its latest
	for i := range c.Members {
		m := &c.Members[i]
		version := m.Version
		if version == 0 {
			version = latest[m.Job]
		}
		p, err := v.cfg.Programs.Load(ctx, m.Job, version)
		if err != nil {
			return nil, fmt.Errorf("chain %q, member %q: %w", name, m.Name, err)
		}
		if m.Version == 0 {
			latest[m.Job] = p.Version
		}
		l.programs[i] = p
	}
	return l, nil
}

// New returns a new execution of a chain. It does not use the version of the options.
func (v *Service) New(ctx context.Context, c *Chain, opt *courier.ChainOptions) (store.NewChainExecution, error) {
	var none store.NewChainExecution
	if err := text.Check(text.By(opt.By, "IdempotencyKey", opt.IdempotencyKey)); err != nil {
		return none, fmt.Errorf("chain %q: %w", c.Name, err)
	}
	trace := opt.Trace
	if trace == "" {
		trace = v.engine.Trace(ctx)
	}
	if err := inputs.CheckLabels(opt.Labels, trace); err != nil {
		return none, fmt.Errorf("chain %q: %w", c.Name, err)
	}
	params, err := inputs.Params(c.params, opt.Params, false, v.cfg.MaxParams)
	if err != nil {
		return none, fmt.Errorf("chain %q: %w", c.Name, err)
	}
	n := store.NewChainExecution{
		ID: courier.ChainExecutionID(v.cfg.NewID()), Chain: c.Name, Version: c.Version, Params: params,
		IdempotencyKey: opt.IdempotencyKey, Hold: opt.Hold, By: opt.By.Actor, Trace: trace,
		Members: make([]store.NewMember, len(c.Members)),
	}
	if len(opt.Labels) > 0 {
		n.Labels = maps.Clone(opt.Labels)
	}
	given := jsontext.Object(params)
	var bad courier.ParamsError
	for i := range c.Members {
		m := &c.Members[i]
		x, err := v.memberExecution(ctx, m, c.programs[i], given, opt.By)
		if e, ok := errors.AsType[*courier.ParamsError](err); ok {
			for _, p := range e.Problems {
				p.Field = fmt.Sprintf("member %q: %s", m.Name, p.Field)
				bad.Problems = append(bad.Problems, p)
			}
			continue
		}
		if err != nil {
			return none, fmt.Errorf("chain %q, member %q: %w", c.Name, m.Name, err)
		}
		n.Members[i] = store.NewMember{Name: m.Name, DependsOn: m.DependsOn, Execution: x}
	}
	if len(bad.Problems) > 0 {
		return none, fmt.Errorf("chain %q: %w", c.Name, &bad)
	}
	return n, nil
}

// memberExecution returns the execution of a member. Given are the params of the
// chain.
func (v *Service) memberExecution(ctx context.Context, m *courier.ChainMember, p *program.Program, given map[string]any, by courier.By) (store.NewExecution, error) {
	params := make(map[string]any)
	for name, v := range given {
		if _, declared := p.Job.Params[name]; declared || p.Job.Params == nil {
			params[name] = v
		}
	}
	if len(m.Params) > 0 {
		template, _ := flow.Compile(m.Params)
		scope := make(courier.Values, len(given))
		for name, v := range given {
			scope["params."+name] = v
		}
		raw, err := template.Render(nil, scope, nil)
		if err != nil {
			return store.NewExecution{}, courier.Errorf(courier.ErrInvalid, "params: %w", err)
		}
		maps.Copy(params, jsontext.Object(raw))
	}
	return v.engine.NewExecution(ctx, p, &courier.EnqueueOptions{Params: params, Priority: m.Priority, By: by})
}
