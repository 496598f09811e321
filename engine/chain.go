package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/internal/nearest"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/store"
)

// ChainOptions are the settings of a new chain execution. The zero value is the
// default.
type ChainOptions struct {
	Params         map[string]any // the values params.*; any that encoding/json can handle
	Version        int            // of the chain; 0 means the latest
	IdempotencyKey string         // unique per chain; a used one returns the chain execution that used it
	Hold           bool           // creates it in the state pending, until [Chains.Release]
	By             courier.By     // who asks for it; [Chains.Prepare] keeps the actor alone
}

// Get returns a version of a chain; version 0 means the latest. The error of
// a chain that isn't there matches [courier.ErrNotFound] and names the nearest.
func (h Chains) Get(ctx context.Context, name string, version int) (courier.Chain, error) {
	e := h.e
	d, err := e.store.Load(ctx, store.Chain, name, version)
	if errors.Is(err, courier.ErrNotFound) {
		return courier.Chain{}, e.unknownChain(ctx, name, version)
	}
	if err != nil {
		return courier.Chain{}, fmt.Errorf("load chain %q: %w", name, err)
	}
	return readChain(&d)
}

// List returns a page of the latest versions of chains, in byte order of their
// names. The kind in the filter does not count.
func (h Chains) List(ctx context.Context, f store.DefinitionFilter) ([]DefinedChain, error) {
	f.Kind = store.Chain
	list, err := h.e.store.List(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("chains: %w", err)
	}
	return definedChains(list)
}

// Versions returns a page of the versions of a chain, the newest first. The error
// of a chain that isn't there matches [courier.ErrNotFound].
func (h Chains) Versions(ctx context.Context, name string, f VersionFilter) ([]DefinedChain, error) {
	list, err := h.e.versions(ctx, store.Chain, name, f)
	if errors.Is(err, courier.ErrNotFound) {
		return nil, h.e.unknownChain(ctx, name, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("versions of chain %q: %w", name, err)
	}
	return definedChains(list)
}

// definedChains returns definitions of chains as users see them.
func definedChains(list []store.Definition) ([]DefinedChain, error) {
	chains := make([]DefinedChain, len(list))
	for i := range list {
		d := &list[i]
		c, err := readChain(d)
		if err != nil {
			return nil, err
		}
		chains[i] = DefinedChain{Chain: c, SavedBy: d.By, SavedAt: d.SavedAt}
	}
	return chains, nil
}

// readChain returns the chain of a definition.
func readChain(d *store.Definition) (c courier.Chain, err error) {
	if err := json.Unmarshal(d.Body, &c); err != nil {
		return courier.Chain{}, fmt.Errorf("load chain %q version %d: %w", d.Name, d.Version, err)
	}
	c.Version = d.Version
	return c, nil
}

func (e *Engine) unknownChain(ctx context.Context, name string, version int) error {
	if version != 0 {
		if d, err := e.store.Load(ctx, store.Chain, name, 0); err == nil {
			return courier.Errorf(courier.ErrNotFound, "chain %q has no version %d; the latest is %d", name, version, d.Version)
		}
	}
	var names []string
	list, _ := e.store.List(ctx, store.DefinitionFilter{Kind: store.Chain})
	for _, d := range list {
		names = append(names, d.Name)
	}
	return courier.Errorf(courier.ErrNotFound, "there is no chain %q; %s", name, nearest.DidYouMean(name, names))
}

// Start creates an execution of the named chain and releases the members
// that depend on no other, for some engine to run. The versions of all members'
// jobs are those of this moment, whatever is saved later. Once Start
// returned nil, the chain execution is durable in the store. With an idempotency
// key that was used before, it returns that chain execution, whatever its state,
// or [courier.ErrConflict] if it has other parameters. A nil opt means the
// defaults.
func (h Chains) Start(ctx context.Context, chain string, opt *ChainOptions) (courier.ChainExecution, error) {
	e := h.e
	n, err := e.prepareChain(ctx, chain, opt)
	if err != nil {
		return courier.ChainExecution{}, fmt.Errorf("start chain: %w", err)
	}
	got, err := e.startChains(ctx, []store.NewChainExecution{n})
	if err != nil {
		return courier.ChainExecution{}, fmt.Errorf("start chain %q: %w", chain, err)
	}
	if opt != nil {
		e.explained("chain execution", string(got[0].ID), "started", opt.By, slog.String("chain", chain))
	}
	return got[0], nil
}

// Prepare returns what [Chains.Start] would create, and creates
// nothing. A nil opt means the defaults.
func (h Chains) Prepare(ctx context.Context, chain string, opt *ChainOptions) (store.NewChainExecution, error) {
	e := h.e
	n, err := e.prepareChain(ctx, chain, opt)
	if err != nil {
		return store.NewChainExecution{}, fmt.Errorf("prepare chain: %w", err)
	}
	return n, nil
}

func (e *Engine) startChains(ctx context.Context, list []store.NewChainExecution) ([]courier.ChainExecution, error) {
	chains, err := e.chains()
	if err != nil {
		return nil, err
	}
	var got []store.StartedChain
	ctx, cancel := context.WithTimeout(ctx, core.StoreTimeout)
	defer cancel()
	calls := core.CallTimeout{Parent: ctx, Awaited: true}
	defer calls.End()
	err = core.Retry(&calls, func(ctx context.Context) (err error) {
		got, err = chains.StartChains(ctx, list) // their ids make it safe to repeat
		return err
	})
	if err != nil {
		return nil, err
	}
	e.notifications.Wake()
	started := make([]courier.ChainExecution, len(got))
	for i := range got {
		started[i] = got[i].Execution
	}
	return started, nil
}

func (e *Engine) prepareChain(ctx context.Context, name string, opt *ChainOptions) (store.NewChainExecution, error) {
	if opt == nil {
		opt = &ChainOptions{}
	}
	c, err := e.loadChain(ctx, name, opt.Version)
	if err != nil {
		return store.NewChainExecution{}, err
	}
	return e.newChain(c, opt)
}

// A loadedChain is a chain with the programs of its members, whose versions are
// those of one moment.
type loadedChain struct {
	courier.Chain
	programs []*program
}

// loadChain returns a version of a chain; 0 means the latest.
func (e *Engine) loadChain(ctx context.Context, name string, version int) (*loadedChain, error) {
	c, err := e.Chains().Get(ctx, name, version)
	if err != nil {
		return nil, err
	}
	l := &loadedChain{c, make([]*program, len(c.Members))}
	latest := make(map[string]int) // one version of a job for all members that ask for its latest
	for i := range c.Members {
		m := &c.Members[i]
		version := m.Version
		if version == 0 {
			version = latest[m.Job]
		}
		p, err := e.program(ctx, m.Job, version)
		if err != nil {
			return nil, fmt.Errorf("chain %q, member %q: %w", name, m.Name, err)
		}
		if m.Version == 0 {
			latest[m.Job] = p.version
		}
		l.programs[i] = p
	}
	return l, nil
}

// newChain returns a new execution of a chain. Options' version does not count.
func (e *Engine) newChain(c *loadedChain, opt *ChainOptions) (store.NewChainExecution, error) {
	var none store.NewChainExecution
	if err := core.CheckText(core.Texts(opt.By, "IdempotencyKey", opt.IdempotencyKey)); err != nil {
		return none, fmt.Errorf("chain %q: %w", c.Name, err)
	}
	params, err := e.mergeParams(c.Params, opt.Params)
	if err != nil {
		return none, fmt.Errorf("chain %q: %w", c.Name, err)
	}
	n := store.NewChainExecution{
		ID: courier.ChainExecutionID(e.ids.New()), Chain: c.Name, Version: c.Version, Params: params,
		IdempotencyKey: opt.IdempotencyKey, Hold: opt.Hold, By: opt.By.Actor,
		Members: make([]store.NewMember, len(c.Members)),
	}
	given := object(params)
	for i := range c.Members {
		m := &c.Members[i]
		x, err := e.memberExecution(m, c.programs[i], given, opt.By)
		if err != nil {
			return none, fmt.Errorf("chain %q, member %q: %w", c.Name, m.Name, err)
		}
		n.Members[i] = store.NewMember{Name: m.Name, DependsOn: m.DependsOn, Execution: x}
	}
	return n, nil
}

// memberExecution returns the execution of a member. Given are the params of the
// chain.
func (e *Engine) memberExecution(m *courier.ChainMember, p *program, given map[string]any, by courier.By) (store.NewExecution, error) {
	params := make(map[string]any)
	for name, v := range given {
		if _, declared := p.job.Params[name]; declared || p.job.Params == nil {
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
		maps.Copy(params, object(raw))
	}
	return e.execution(p, courier.ExecutionID(e.ids.New()), &EnqueueOptions{Params: params, Priority: m.Priority, By: by})
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
