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

// startChains starts the chain executions of firings, but for those that exist
// already.
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
	started, queues, refused, err := f.s.startUnused(ctx, tx, all)
	if err != nil {
		return err
	}
	for k, err := range refused {
		f.refused[of[k]] = err
	}
	if len(refused) > 0 {
		return errRefused
	}
	f.released = append(f.released, queues...)
	for k := range all {
		r := &f.results[of[k]]
		r.Chains = append(r.Chains, started[k])
	}
	return nil
}

// startUnused starts chain executions, but for those that exist already under
// their id or idempotency key: these are no conflict, whatever their params.
// Wrong says of some why they can't be started; then the transaction must not
// commit.
func (s *Store) startUnused(ctx context.Context, tx pgx.Tx, list []store.NewChainExecution) (started []store.StartedChain, queues []string, refused map[int]error, err error) {
	if started, err = s.startedBefore(ctx, tx, list); err != nil {
		return nil, nil, nil, err
	}
	refused = make(map[int]error)
	for i := range list {
		if c := &started[i].Execution; started[i].Existed {
			if c.Chain != list[i].Chain {
				refused[i] = courier.Errorf(courier.ErrConflict, "chain execution %s exists for chain %q", c.ID, c.Chain)
			}
			continue
		}
		results, released, err := s.startOne(ctx, tx, list[i])
		if a, ok := errors.AsType[contractError](err); ok {
			refused[i] = a.error
			continue
		}
		if err != nil {
			return nil, nil, nil, err
		}
		started[i] = results[0]
		queues = append(queues, released...)
	}
	slices.Sort(queues)
	return started, slices.Compact(queues), refused, nil
}

func (s *Store) startOne(ctx context.Context, tx pgx.Tx, n store.NewChainExecution) ([]store.StartedChain, []string, error) {
	plan, err := n.Plan()
	if err != nil {
		return nil, nil, contractError{err}
	}
	return s.startChains(ctx, tx, []store.NewChainExecution{n}, []*store.ChainPlan{plan})
}

// startedBefore returns those that exist already.
func (s *Store) startedBefore(ctx context.Context, tx pgx.Tx, list []store.NewChainExecution) ([]store.StartedChain, error) {
	found := make([]courier.ChainExecutionID, len(list))
	if err := s.existingChains(ctx, tx, list, make([]bool, len(list)), found); err != nil {
		return nil, err
	}
	ids := slices.DeleteFunc(slices.Clone(found), func(id courier.ChainExecutionID) bool { return id == "" })
	started := make([]store.StartedChain, len(list))
	if len(ids) == 0 {
		return started, nil
	}
	all, err := s.chainsByID(ctx, tx, ids)
	for i, id := range found {
		if c := all[id]; c != nil {
			started[i] = store.StartedChain{Execution: *c, Existed: true}
		}
	}
	return started, err
}

// cancelChains requests the cancel of the chain executions that have to make room, in
// the order of their ids.
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
		a := chainAsk{s: f.s, r: &requests[k], unended: true}
		err := a.carryOut(ctx, tx)
		if _, ok := errors.AsType[contractError](err); ok {
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
