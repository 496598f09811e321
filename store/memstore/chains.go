package memstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/store"
)

var _ chain.Store = (*Store)(nil)

// chains are the chain executions. The store's lock guards them.
type chains struct {
	all  map[courier.ChainExecutionID]*chainRecord
	ids  []courier.ChainExecutionID   // sorted
	used map[idempotency]*chainRecord // by chain and key
}

// A chainRecord is a chain execution.
type chainRecord struct {
	chain.Execution // without what the standing says
	chain.Progress
	plan     *chain.Plan
	was      chain.State          // when it was last evaluated
	events   int64                // how many there have been
	prepared []store.NewExecution // of each member
	latest   []*execution         // of each member; nil until it is released
}

// view returns the chain execution as callers see it.
func (c *chainRecord) view() chain.Execution {
	return c.plan.View(c.Execution, c.Progress, func(i int) *courier.Execution {
		if c.latest[i] == nil {
			return nil
		}
		return &c.latest[i].Execution
	})
}

func unknownChain(id courier.ChainExecutionID) error {
	return courier.Errorf(courier.ErrNotFound, "there is no chain execution %q", string(id))
}

// StartChains creates chain executions, all or none.
func (s *Store) StartChains(ctx context.Context, list []chain.NewExecution) ([]chain.Started, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.startChains(list, s.clock())
}

func (s *Store) startChains(list []chain.NewExecution, now time.Time) ([]chain.Started, error) {
	got, existed := make([]*chainRecord, len(list)), make([]bool, len(list))
	var added []*chainRecord
	for i := range list {
		c, existing, err := s.addChain(&list[i], now)
		if err != nil {
			for _, c := range added {
				s.forgetChain(c)
			}
			return nil, err
		}
		if got[i], existed[i] = c, existing; !existing {
			added = append(added, c)
		}
	}
	for _, c := range added {
		i, _ := slices.BinarySearch(s.chains.ids, c.ID)
		s.chains.ids = slices.Insert(s.chains.ids, i, c.ID)
		s.evaluate(c, now)
	}
	results := make([]chain.Started, len(list))
	for i, c := range got {
		results[i] = chain.Started{Execution: c.view(), Existed: existed[i]}
	}
	return results, nil
}

// addChain returns the chain execution of n, which it creates unless it exists, and
// whether it existed.
func (s *Store) addChain(n *chain.NewExecution, now time.Time) (c *chainRecord, existed bool, err error) {
	c = s.chains.all[n.ID]
	if c == nil && n.IdempotencyKey != "" {
		c = s.chains.used[keyOf(n.KeyScope, n.Chain, n.IdempotencyKey)]
	}
	if c != nil {
		return c, true, n.Conflict(&c.Execution)
	}
	if err := s.unknown(store.Chain, n.Chain, n.Version); err != nil {
		return nil, false, err
	}
	plan, err := n.Plan()
	if err != nil {
		return nil, false, err
	}
	c = &chainRecord{
		Execution: chain.Execution{
			ID: n.ID, Chain: n.Chain, Version: n.Version, Params: n.Params, CreatedAt: now,
			IdempotencyKey: n.IdempotencyKey, KeyScope: n.KeyScope, By: n.By, RerunOf: n.RerunOf, Labels: n.Labels, Trace: n.Trace,
		},
		Progress: plan.Begin(n.Hold), plan: plan,
		prepared: make([]store.NewExecution, len(n.Members)), latest: make([]*execution, len(n.Members)),
	}
	for i := range n.Members {
		x := n.Prepared(i)
		if err := s.unknown(store.Job, x.Job, x.Version); err != nil {
			return nil, false, fmt.Errorf("chain %q, member %q: %w", n.Chain, x.Member, err)
		}
		c.prepared[i] = x
	}
	if s.chains.all == nil {
		s.chains.all, s.chains.used = make(map[courier.ChainExecutionID]*chainRecord), make(map[idempotency]*chainRecord)
	}
	s.chains.all[c.ID] = c
	if n.IdempotencyKey != "" {
		s.chains.used[keyOf(n.KeyScope, n.Chain, n.IdempotencyKey)] = c
	}
	return c, false, nil
}

// forgetChain undoes addChain.
func (s *Store) forgetChain(c *chainRecord) {
	delete(s.chains.all, c.ID)
	if c.IdempotencyKey != "" {
		delete(s.chains.used, keyOf(c.KeyScope, c.Chain, c.IdempotencyKey))
	}
}

// evaluate brings a chain execution up to date with its members.
func (s *Store) evaluate(c *chainRecord, now time.Time) {
	next, release := c.plan.Evaluate(c.Progress)
	c.Progress = next
	for _, i := range release {
		s.releaseMember(c, i, now)
	}
	started := c.StartedAt.IsZero() && len(release) > 0
	if started {
		c.StartedAt = now
	}
	switch {
	case !next.State.Ended():
		c.EndedAt = time.Time{}
	case c.EndedAt.IsZero():
		c.EndedAt = now
	}
	if started || next.State != c.was {
		s.notifyChain(c, started, now)
	}
	c.was = next.State
}

// releaseMember creates the execution of a member.
func (s *Store) releaseMember(c *chainRecord, i int, now time.Time) {
	x := s.create(&c.prepared[i], now)
	c.latest[i] = x
	s.place(x)
	s.begin(x, now)
}

// moved updates the chain execution of which x is a member after a change of x's state.
func (s *Store) moved(x *execution, now time.Time) {
	c := s.chains.all[x.Chain]
	if c == nil {
		return
	}
	i := c.plan.Index(x.Member)
	c.Progress = c.Moved(i, x.State)
	s.evaluate(c, now)
}

// RequestChain carries out what an operator wants of a chain execution.
func (s *Store) RequestChain(ctx context.Context, r chain.Request) (chain.Execution, []courier.Execution, error) {
	if err := ctx.Err(); err != nil {
		return chain.Execution{}, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chains.all[r.Chain]
	if c == nil {
		return chain.Execution{}, nil, unknownChain(r.Chain)
	}
	asked, err := s.askChain(c, r, s.clock())
	if err != nil {
		return chain.Execution{}, nil, err
	}
	return c.view(), asked, nil
}

// askChain carries out a request to c, and returns the executions to which it made a
// request.
func (s *Store) askChain(c *chainRecord, r chain.Request, now time.Time) ([]courier.Execution, error) {
	d, err := c.plan.Decide(c.ID, c.Progress, r.Kind, func(i int) (*courier.Execution, bool) {
		return &c.latest[i].Execution, c.latest[i].expired(now)
	})
	if err == nil && len(d.Restarted) > 0 && len(r.IDs) != len(c.latest) {
		err = courier.Errorf(courier.ErrInvalid, "retry of chain execution %s: %d ids for %d members", c.ID, len(r.IDs), len(c.latest))
	}
	if err != nil {
		return nil, err
	}
	c.Progress = d.Next
	var asked []courier.Execution
	for _, a := range d.Requests {
		x := c.latest[a.Member]
		s.carryOut(x, a.Decision, store.Request{Execution: x.ID, Kind: a.Kind, By: r.By, Reason: r.Reason}, now)
		asked = append(asked, s.view(x))
	}
	for _, i := range d.Restarted {
		c.prepared[i].ID = r.IDs[i]
		s.releaseMember(c, i, now)
	}
	s.evaluate(c, now)
	return asked, nil
}

// ChainExecution returns a chain execution.
func (s *Store) ChainExecution(ctx context.Context, id courier.ChainExecutionID) (chain.Execution, error) {
	if err := ctx.Err(); err != nil {
		return chain.Execution{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.chains.all[id]; c != nil {
		return c.view(), nil
	}
	return chain.Execution{}, unknownChain(id)
}

// ChainExecutions returns a page of chain executions, newest first.
func (s *Store) ChainExecutions(ctx context.Context, f chain.Filter) ([]chain.Execution, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	limit := store.PageSize(f.Limit)
	s.mu.Lock()
	defer s.mu.Unlock()
	i := len(s.chains.ids)
	if f.Before != "" {
		i, _ = slices.BinarySearch(s.chains.ids, f.Before)
	}
	var list []chain.Execution
	for i--; i >= 0 && len(list) < limit; i-- {
		c := s.chains.all[s.chains.ids[i]]
		if (f.Chain == "" || c.Chain == f.Chain) && (len(f.States) == 0 || slices.Contains(f.States, c.Progress.State)) &&
			(f.RerunOf == "" || c.RerunOf == f.RerunOf) {
			x := c.view()
			x.Params = nil
			list = append(list, x)
		}
	}
	return list, nil
}
