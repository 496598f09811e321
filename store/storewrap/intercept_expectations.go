package storewrap

import (
	"context"

	"github.com/courierhq/courier/expectation"
)

// An expectations is the role Store of package expectation, under a name that none of its methods
// has.
type expectations interface{ expectation.Store }

// PutExpectation calls the wrapped store, as do the following methods.
func (i *intercepted) PutExpectation(ctx context.Context, p expectation.Put) (expectation.Record, error) {
	return interceptRole(ctx, i, &Call{Method: "PutExpectation", Request: p}, func(ctx context.Context, s expectation.Store) (expectation.Record, error) {
		return s.PutExpectation(ctx, p)
	})
}

func (i *intercepted) RemoveExpectation(ctx context.Context, name string) error {
	_, err := interceptRole(ctx, i, &Call{Method: "RemoveExpectation", Request: name}, func(ctx context.Context, s expectation.Store) (any, error) {
		return nil, s.RemoveExpectation(ctx, name)
	})
	return err
}

func (i *intercepted) Expectations(ctx context.Context, f expectation.Filter) (expectation.List, error) {
	return interceptRole(ctx, i, &Call{Method: "Expectations", Request: f}, func(ctx context.Context, s expectation.Store) (expectation.List, error) {
		return s.Expectations(ctx, f)
	})
}

func (i *intercepted) DueExpectations(ctx context.Context, r expectation.DueRequest) (expectation.DueList, error) {
	return interceptRole(ctx, i, &Call{Method: "DueExpectations", Request: r}, func(ctx context.Context, s expectation.Store) (expectation.DueList, error) {
		return s.DueExpectations(ctx, r)
	})
}

func (i *intercepted) RecordLooks(ctx context.Context, list []expectation.Look) ([]bool, error) {
	return interceptRole(ctx, i, &Call{Method: "RecordLooks", Request: list}, func(ctx context.Context, s expectation.Store) ([]bool, error) {
		return s.RecordLooks(ctx, list)
	})
}

func (i *intercepted) Arrivals(ctx context.Context, f expectation.ArrivalFilter) ([]expectation.Kept, error) {
	return interceptRole(ctx, i, &Call{Method: "Arrivals", Request: f}, func(ctx context.Context, s expectation.Store) ([]expectation.Kept, error) {
		return s.Arrivals(ctx, f)
	})
}

func (i *intercepted) CountArrivals(ctx context.Context, from, to string) (map[expectation.State]int, error) {
	return interceptRole(ctx, i, &Call{Method: "CountArrivals", Request: []string{from, to}}, func(ctx context.Context, s expectation.Store) (map[expectation.State]int, error) {
		return s.CountArrivals(ctx, from, to)
	})
}
