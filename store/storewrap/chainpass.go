package storewrap

import (
	"context"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// chainless is the error of a wrapper whose store has not the role Chains.
func chainless(s store.Store) error { return fmt.Errorf("%T has not the role store.Chains", s) }

// StartChains is that of the store behind, as are the following methods.
func (i *intercepted) StartChains(ctx context.Context, list []store.NewChainExecution) ([]store.StartedChain, error) {
	s, ok := i.s.(store.Chains)
	if !ok {
		return nil, chainless(i.s)
	}
	return intercept(ctx, i, &Call{Method: "StartChains", Request: list}, func(ctx context.Context) ([]store.StartedChain, error) { return s.StartChains(ctx, list) })
}

// An askedChain is what RequestChain returns.
type askedChain struct {
	Chain courier.ChainExecution
	Asked []courier.Execution
}

func (i *intercepted) RequestChain(ctx context.Context, r store.ChainRequest) (courier.ChainExecution, []courier.Execution, error) {
	s, ok := i.s.(store.Chains)
	if !ok {
		return courier.ChainExecution{}, nil, chainless(i.s)
	}
	got, err := intercept(ctx, i, &Call{Method: "RequestChain", Request: r}, func(ctx context.Context) (a askedChain, err error) {
		a.Chain, a.Asked, err = s.RequestChain(ctx, r)
		return a, err
	})
	return got.Chain, got.Asked, err
}

func (i *intercepted) ChainExecution(ctx context.Context, id courier.ChainExecutionID) (courier.ChainExecution, error) {
	s, ok := i.s.(store.Chains)
	if !ok {
		return courier.ChainExecution{}, chainless(i.s)
	}
	return intercept(ctx, i, &Call{Method: "ChainExecution", Request: id}, func(ctx context.Context) (courier.ChainExecution, error) { return s.ChainExecution(ctx, id) })
}

func (i *intercepted) ChainExecutions(ctx context.Context, f store.ChainFilter) ([]courier.ChainExecution, error) {
	s, ok := i.s.(store.Chains)
	if !ok {
		return nil, chainless(i.s)
	}
	return intercept(ctx, i, &Call{Method: "ChainExecutions", Request: f}, func(ctx context.Context) ([]courier.ChainExecution, error) { return s.ChainExecutions(ctx, f) })
}
