package storewrap

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

var (
	_ schedule.Store = (*intercepted)(nil)
	_ schedule.Store = (*Faulty)(nil)
)

// schedulesOf returns the role of a store, or an error if the store does not have it.
func schedulesOf(s store.Store) (schedule.Store, error) {
	a, ok := s.(schedule.Store)
	switch behind := s.(type) {
	case *intercepted:
		if _, err := schedulesOf(behind.s); err != nil {
			return nil, err
		}
	case *Faulty:
		if _, err := schedulesOf(behind.Store); err != nil {
			return nil, err
		}
	case *eager:
		if _, err := schedulesOf(behind.Store); err != nil {
			return nil, err
		}
	}
	if ok {
		return a, nil
	}
	return nil, fmt.Errorf("%T keeps no schedules: %w", s, errors.ErrUnsupported)
}

// interceptSchedules is intercept for a call of a role that the wrapped store may not have.
func interceptSchedules[T any](ctx context.Context, i *intercepted, c *Call, call func(context.Context, schedule.Store) (T, error)) (T, error) {
	a, err := schedulesOf(i.s)
	if err != nil {
		var none T
		return none, err
	}
	return intercept(ctx, i, c, func(ctx context.Context) (T, error) { return call(ctx, a) })
}

// PutSchedule calls the wrapped store, as do the following methods.
func (i *intercepted) PutSchedule(ctx context.Context, s schedule.Record) (schedule.Record, error) {
	c := &Call{Method: "PutSchedule", Request: s}
	return interceptSchedules(ctx, i, c, func(ctx context.Context, a schedule.Store) (schedule.Record, error) { return a.PutSchedule(ctx, s) })
}

func (i *intercepted) RemoveSchedule(ctx context.Context, name string) error {
	_, err := interceptSchedules(ctx, i, &Call{Method: "RemoveSchedule", Request: name}, func(ctx context.Context, a schedule.Store) (struct{}, error) {
		return struct{}{}, a.RemoveSchedule(ctx, name)
	})
	return err
}

func (i *intercepted) Schedules(ctx context.Context, f schedule.Filter) (schedule.List, error) {
	c := &Call{Method: "Schedules", Request: f}
	return interceptSchedules(ctx, i, c, func(ctx context.Context, a schedule.Store) (schedule.List, error) { return a.Schedules(ctx, f) })
}

func (i *intercepted) DueSchedules(ctx context.Context, most int, lease time.Duration) (schedule.DueList, error) {
	c := &Call{Method: "DueSchedules"}
	return interceptSchedules(ctx, i, c, func(ctx context.Context, a schedule.Store) (schedule.DueList, error) {
		return a.DueSchedules(ctx, most, lease)
	})
}

func (i *intercepted) FireSchedules(ctx context.Context, list []schedule.Firing) ([]schedule.Fired, error) {
	c := &Call{Method: "FireSchedules", Request: list}
	return interceptSchedules(ctx, i, c, func(ctx context.Context, a schedule.Store) ([]schedule.Fired, error) {
		return a.FireSchedules(ctx, list)
	})
}

func (i *intercepted) AwaitSchedules(ctx context.Context, since uint64) error {
	_, err := interceptSchedules(ctx, i, &Call{Method: "AwaitSchedules", Request: since}, func(ctx context.Context, a schedule.Store) (struct{}, error) {
		return struct{}{}, a.AwaitSchedules(ctx, since)
	})
	return err
}

// schedules returns the role of the store that fails.
func (f *Faulty) schedules() (a schedule.Store, err error) { return schedulesOf(f.Store) }

// PutSchedule calls the wrapped store, except at the fault, as do the following methods.
func (f *Faulty) PutSchedule(ctx context.Context, s schedule.Record) (schedule.Record, error) {
	a, err := f.schedules()
	if err != nil {
		return schedule.Record{}, err
	}
	return a.PutSchedule(ctx, s)
}

// RemoveSchedule removes a schedule.
func (f *Faulty) RemoveSchedule(ctx context.Context, name string) error {
	a, err := f.schedules()
	if err != nil {
		return err
	}
	return a.RemoveSchedule(ctx, name)
}

// Schedules returns schedules.
func (f *Faulty) Schedules(ctx context.Context, filter schedule.Filter) (schedule.List, error) {
	a, err := f.schedules()
	if err != nil {
		return schedule.List{}, err
	}
	return a.Schedules(ctx, filter)
}

// DueSchedules leases schedules that are due.
func (f *Faulty) DueSchedules(ctx context.Context, most int, lease time.Duration) (schedule.DueList, error) {
	a, err := f.schedules()
	if err != nil {
		return schedule.DueList{}, err
	}
	return a.DueSchedules(ctx, most, lease)
}

// FireSchedules carries out firings.
func (f *Faulty) FireSchedules(ctx context.Context, list []schedule.Firing) ([]schedule.Fired, error) {
	a, err := f.schedules()
	if err != nil {
		return nil, err
	}
	return a.FireSchedules(ctx, list)
}

// AwaitSchedules waits for schedules to change.
func (f *Faulty) AwaitSchedules(ctx context.Context, since uint64) error {
	a, err := f.schedules()
	if err != nil {
		return err
	}
	return a.AwaitSchedules(ctx, since)
}
