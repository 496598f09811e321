package storewrap

import (
	"context"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/store"
)

// chainless is the error of a wrapper whose store does not have the role.
func chainless(s store.Store) error { return fmt.Errorf("%T does not have the role chain.Store", s) }

// StartChains calls the wrapped store, as do the following methods.
func (i *intercepted) StartChains(ctx context.Context, list []chain.NewExecution) ([]chain.Started, error) {
	s, ok := i.s.(chain.Store)
	if !ok {
		return nil, chainless(i.s)
	}
	return intercept(ctx, i, &Call{Method: "StartChains", Request: list}, func(ctx context.Context) ([]chain.Started, error) { return s.StartChains(ctx, list) })
}

// An askedChain is the result of RequestChain.
type askedChain struct {
	Chain chain.Execution
	Asked []courier.Execution
}

func (i *intercepted) RequestChain(ctx context.Context, r chain.Request) (chain.Execution, []courier.Execution, error) {
	s, ok := i.s.(chain.Store)
	if !ok {
		return chain.Execution{}, nil, chainless(i.s)
	}
	got, err := intercept(ctx, i, &Call{Method: "RequestChain", Request: r}, func(ctx context.Context) (a askedChain, err error) {
		a.Chain, a.Asked, err = s.RequestChain(ctx, r)
		return a, err
	})
	return got.Chain, got.Asked, err
}

func (i *intercepted) ChainExecution(ctx context.Context, id courier.ChainExecutionID) (chain.Execution, error) {
	s, ok := i.s.(chain.Store)
	if !ok {
		return chain.Execution{}, chainless(i.s)
	}
	return intercept(ctx, i, &Call{Method: "ChainExecution", Request: id}, func(ctx context.Context) (chain.Execution, error) { return s.ChainExecution(ctx, id) })
}

func (i *intercepted) ChainExecutions(ctx context.Context, f chain.Filter) ([]chain.Execution, error) {
	s, ok := i.s.(chain.Store)
	if !ok {
		return nil, chainless(i.s)
	}
	return intercept(ctx, i, &Call{Method: "ChainExecutions", Request: f}, func(ctx context.Context) ([]chain.Execution, error) { return s.ChainExecutions(ctx, f) })
}
