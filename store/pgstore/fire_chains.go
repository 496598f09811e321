package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// startChains starts the chain executions of firings, but for those whose
// idempotency key is used.
func (f *firings) startChains(ctx context.Context, tx pgx.Tx, valid []int) error {
	var all []store.NewChainExecution
	var of []int // the firing of each
	for _, i := range valid {
		for _, n := range f.list[i].Chains {
			all, of = append(all, n), append(of, i)
		}
	}
	if len(all) == 0 {
		return nil
	}
	started, err := f.existingChains(ctx, tx, all)
	if err != nil {
		return err
	}
	bad := false
	for k := range all {
		if started[k].Existed {
			continue
		}
		results, queues, err := f.startChain(ctx, tx, all[k])
		if a, ok := errors.AsType[answer](err); ok {
			f.wrong[of[k]], bad = a.error, true
			continue
		}
		if err != nil {
			return err
		}
		started[k] = results[0]
		f.released = append(f.released, queues...)
	}
	if bad {
		return errWrong
	}
	for k := range all {
		r := &f.results[of[k]]
		r.Chains = append(r.Chains, started[k])
	}
	return nil
}

func (f *firings) startChain(ctx context.Context, tx pgx.Tx, n store.NewChainExecution) ([]store.StartedChain, []string, error) {
	plan, err := n.Plan()
	if err != nil {
		return nil, nil, answer{err}
	}
	return f.s.startChains(ctx, tx, []store.NewChainExecution{n}, []*store.ChainPlan{plan})
}

// existingChains returns those that exist already.
func (f *firings) existingChains(ctx context.Context, tx pgx.Tx, list []store.NewChainExecution) ([]store.StartedChain, error) {
	found := make([]courier.ChainExecutionID, len(list))
	if err := f.s.existingChains(ctx, tx, list, make([]bool, len(list)), found); err != nil {
		return nil, err
	}
	ids := slices.DeleteFunc(slices.Clone(found), func(id courier.ChainExecutionID) bool { return id == "" })
	started := make([]store.StartedChain, len(list))
	if len(ids) == 0 {
		return started, nil
	}
	all, err := f.s.chainsByID(ctx, tx, ids)
	for i, id := range found {
		if c := all[id]; c != nil {
			started[i] = store.StartedChain{Execution: *c, Existed: true}
		}
	}
	return started, err
}

// cancelChains asks for the chain executions that have to make room to be
// cancelled, in the order of their ids.
func (f *firings) cancelChains(ctx context.Context, tx pgx.Tx, valid []int, locked map[string]lockedSchedule) error {
	var requests []store.ChainRequest
	for _, i := range valid {
		if locked[f.list[i].Schedule].kind != store.Chain {
			continue
		}
		for _, id := range f.list[i].Cancel {
			requests = append(requests, store.ChainRequest{Chain: courier.ChainExecutionID(id), Kind: courier.RequestCancel, By: f.list[i].By})
		}
	}
	slices.SortFunc(requests, func(a, b store.ChainRequest) int { return cmp.Compare(a.Chain, b.Chain) })
	for k := range requests {
		a := chainAsk{s: f.s, r: &requests[k]}
		err := a.carryOut(ctx, tx)
		if _, ok := errors.AsType[answer](err); ok {
			continue // it is gone, or over
		}
		if err != nil {
			return fmt.Errorf("cancel chain execution %s: %w", requests[k].Chain, err)
		}
		f.freed = f.freed || a.freed
		f.released = append(f.released, a.queues...)
	}
	return nil
}
