package storewrap

import (
	"context"
	"errors"
	"fmt"

	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/store"
)

var (
	_ monitor.Store = (*intercepted)(nil)
	_ monitor.Store = (*Faulty)(nil)
)

// monitorsOf returns the role of a store, or an error if the store does not have it.
func monitorsOf(s store.Store) (monitor.Store, error) {
	switch behind := s.(type) {
	case *intercepted:
		if _, err := monitorsOf(behind.s); err != nil {
			return nil, err
		}
	case *Faulty:
		if _, err := monitorsOf(behind.Store); err != nil {
			return nil, err
		}
	}
	if m, ok := s.(monitor.Store); ok {
		return m, nil
	}
	return nil, fmt.Errorf("%T keeps no monitors: %w", s, errors.ErrUnsupported)
}

// interceptMonitors is intercept for a call of a role that the wrapped store may not have.
func interceptMonitors[T any](ctx context.Context, i *intercepted, c *Call, call func(context.Context, monitor.Store) (T, error)) (T, error) {
	m, err := monitorsOf(i.s)
	if err != nil {
		var none T
		return none, err
	}
	return intercept(ctx, i, c, func(ctx context.Context) (T, error) { return call(ctx, m) })
}

// PutMonitor calls the wrapped store, as do the following methods.
func (i *intercepted) PutMonitor(ctx context.Context, p monitor.Put) (monitor.Record, error) {
	c := &Call{Method: "PutMonitor", Request: p}
	return interceptMonitors(ctx, i, c, func(ctx context.Context, m monitor.Store) (monitor.Record, error) { return m.PutMonitor(ctx, p) })
}

func (i *intercepted) RemoveMonitor(ctx context.Context, name string) error {
	c := &Call{Method: "RemoveMonitor", Request: name}
	_, err := interceptMonitors(ctx, i, c, func(ctx context.Context, m monitor.Store) (struct{}, error) {
		return struct{}{}, m.RemoveMonitor(ctx, name)
	})
	return err
}

func (i *intercepted) Monitors(ctx context.Context, f monitor.Filter) ([]monitor.Record, error) {
	c := &Call{Method: "Monitors", Request: f}
	return interceptMonitors(ctx, i, c, func(ctx context.Context, m monitor.Store) ([]monitor.Record, error) { return m.Monitors(ctx, f) })
}

func (i *intercepted) DueMonitors(ctx context.Context, r monitor.DueRequest) (monitor.DueList, error) {
	c := &Call{Method: "DueMonitors", Request: r}
	return interceptMonitors(ctx, i, c, func(ctx context.Context, m monitor.Store) (monitor.DueList, error) { return m.DueMonitors(ctx, r) })
}

func (i *intercepted) RecordPoll(ctx context.Context, r monitor.PollResult) (monitor.Recorded, error) {
	c := &Call{Method: "RecordPoll", Request: r}
	return interceptMonitors(ctx, i, c, func(ctx context.Context, m monitor.Store) (monitor.Recorded, error) { return m.RecordPoll(ctx, r) })
}

func (i *intercepted) SeenFiles(ctx context.Context, f monitor.SeenFilter) ([]monitor.SeenFile, error) {
	c := &Call{Method: "SeenFiles", Request: f}
	return interceptMonitors(ctx, i, c, func(ctx context.Context, m monitor.Store) ([]monitor.SeenFile, error) { return m.SeenFiles(ctx, f) })
}

// monitors returns the role of the store that fails. Its calls are counted and fail like all
// others.
func (f *Faulty) monitors() (monitor.Store, error) { return monitorsOf(f.Store) }

// PutMonitor calls the wrapped store, except at the fault, as do the following methods.
func (f *Faulty) PutMonitor(ctx context.Context, p monitor.Put) (monitor.Record, error) {
	m, err := f.monitors()
	if err != nil {
		return monitor.Record{}, err
	}
	return m.PutMonitor(ctx, p)
}

// RemoveMonitor removes a monitor.
func (f *Faulty) RemoveMonitor(ctx context.Context, name string) error {
	m, err := f.monitors()
	if err != nil {
		return err
	}
	return m.RemoveMonitor(ctx, name)
}

// Monitors returns monitors.
func (f *Faulty) Monitors(ctx context.Context, filter monitor.Filter) ([]monitor.Record, error) {
	m, err := f.monitors()
	if err != nil {
		return nil, err
	}
	return m.Monitors(ctx, filter)
}

// DueMonitors leases monitors that are due.
func (f *Faulty) DueMonitors(ctx context.Context, r monitor.DueRequest) (monitor.DueList, error) {
	m, err := f.monitors()
	if err != nil {
		return monitor.DueList{}, err
	}
	return m.DueMonitors(ctx, r)
}

// RecordPoll writes the result of a poll.
func (f *Faulty) RecordPoll(ctx context.Context, r monitor.PollResult) (monitor.Recorded, error) {
	m, err := f.monitors()
	if err != nil {
		return monitor.Recorded{}, err
	}
	return m.RecordPoll(ctx, r)
}

// SeenFiles returns the files that a monitor has seen.
func (f *Faulty) SeenFiles(ctx context.Context, filter monitor.SeenFilter) ([]monitor.SeenFile, error) {
	m, err := f.monitors()
	if err != nil {
		return nil, err
	}
	return m.SeenFiles(ctx, filter)
}
