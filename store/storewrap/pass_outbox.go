package storewrap

import (
	"context"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store"
)

// The wrappers have the role of an outbox, whether or not the wrapped store has it. If it does not,
// every call is an error.
var (
	_ notify.Store = (*intercepted)(nil)
	_ notify.Store = (*eager)(nil)
	_ notify.Store = (*Faulty)(nil)
)

// outboxOf returns the role of a store, or an error if the store does not have it.
func outboxOf(s store.Store) (notify.Store, error) {
	if o, ok := s.(notify.Store); ok {
		return o, nil
	}
	return nil, fmt.Errorf("the wrapped store %T is not a notify.Store: %w", s, courier.ErrInvalid)
}

// outbox intercepts a call of the role that returns a T.
func outbox[T any](ctx context.Context, i *intercepted, c *Call, call func(context.Context, notify.Store) (T, error)) (T, error) {
	return intercept(ctx, i, c, func(ctx context.Context) (v T, err error) {
		o, err := outboxOf(i.s)
		if err != nil {
			return v, err
		}
		return call(ctx, o)
	})
}

func (i *intercepted) PutSubscription(ctx context.Context, s notify.Record) error {
	_, err := outbox(ctx, i, &Call{Method: "PutSubscription", Request: s}, func(ctx context.Context, o notify.Store) (struct{}, error) {
		return struct{}{}, o.PutSubscription(ctx, s)
	})
	return err
}

func (i *intercepted) RemoveSubscription(ctx context.Context, name string) error {
	_, err := outbox(ctx, i, &Call{Method: "RemoveSubscription", Request: name}, func(ctx context.Context, o notify.Store) (struct{}, error) {
		return struct{}{}, o.RemoveSubscription(ctx, name)
	})
	return err
}

func (i *intercepted) Subscriptions(ctx context.Context, f notify.Filter) ([]notify.Record, error) {
	return outbox(ctx, i, &Call{Method: "Subscriptions", Request: f}, func(ctx context.Context, o notify.Store) ([]notify.Record, error) {
		return o.Subscriptions(ctx, f)
	})
}

func (i *intercepted) DueDeliveries(ctx context.Context, r notify.DueRequest) (notify.DueList, error) {
	return outbox(ctx, i, &Call{Method: "DueDeliveries", Request: r}, func(ctx context.Context, o notify.Store) (notify.DueList, error) {
		return o.DueDeliveries(ctx, r)
	})
}

func (i *intercepted) RecordDeliveries(ctx context.Context, list []notify.Outcome) error {
	_, err := outbox(ctx, i, &Call{Method: "RecordDeliveries", Request: list}, func(ctx context.Context, o notify.Store) (struct{}, error) {
		return struct{}{}, o.RecordDeliveries(ctx, list)
	})
	return err
}

func (i *intercepted) Deliveries(ctx context.Context, f notify.DeliveryFilter) ([]notify.Delivery, error) {
	return outbox(ctx, i, &Call{Method: "Deliveries", Request: f}, func(ctx context.Context, o notify.Store) ([]notify.Delivery, error) {
		return o.Deliveries(ctx, f)
	})
}

func (i *intercepted) ReplayDeliveries(ctx context.Context, subscription string, events []string) (int, error) {
	return outbox(ctx, i, &Call{Method: "ReplayDeliveries", Request: events}, func(ctx context.Context, o notify.Store) (int, error) {
		return o.ReplayDeliveries(ctx, subscription, events)
	})
}
