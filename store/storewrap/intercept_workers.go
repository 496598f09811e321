package storewrap

import (
	"context"
	"time"

	"github.com/courierhq/courier/store"
)

// A workers is the role Workers, under a name that none of its methods has.
type workers interface{ store.Workers }

// Workers calls the wrapped store, as do the following methods.
func (i *intercepted) Workers(ctx context.Context, age time.Duration) ([]store.Worker, error) {
	return interceptRole(ctx, i, &Call{Method: "Workers", Request: age}, func(ctx context.Context, w store.Workers) ([]store.Worker, error) {
		return w.Workers(ctx, age)
	})
}

func (i *intercepted) Drain(ctx context.Context, worker string) error {
	_, err := interceptRole(ctx, i, &Call{Method: "Drain", Request: worker}, func(ctx context.Context, w store.Workers) (any, error) {
		return nil, w.Drain(ctx, worker)
	})
	return err
}

func (i *intercepted) Stranded(ctx context.Context, age time.Duration) ([]store.Stranded, error) {
	return interceptRole(ctx, i, &Call{Method: "Stranded", Request: age}, func(ctx context.Context, w store.Workers) ([]store.Stranded, error) {
		return w.Stranded(ctx, age)
	})
}

func (i *intercepted) Overdue(ctx context.Context, limit int) (store.Overdue, error) {
	return interceptRole(ctx, i, &Call{Method: "Overdue", Request: limit}, func(ctx context.Context, d store.Deadlines) (store.Overdue, error) {
		return d.Overdue(ctx, limit)
	})
}

func (i *intercepted) StoreID(ctx context.Context) (string, error) {
	return interceptRole(ctx, i, &Call{Method: "StoreID"}, func(ctx context.Context, s store.Identity) (string, error) {
		return s.StoreID(ctx)
	})
}
