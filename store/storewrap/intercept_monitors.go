package storewrap

import (
	"context"
	"errors"
	"fmt"

	"github.com/courierhq/courier/store"
)

var (
	_ store.Monitors = (*intercepted)(nil)
	_ store.Monitors = (*Faulty)(nil)
)

// monitorsOf returns the role of a store. One that has not got it refuses all.
func monitorsOf(s store.Store) (store.Monitors, error) {
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
	if m, ok := s.(store.Monitors); ok {
		return m, nil
	}
	return nil, fmt.Errorf("%T keeps no monitors: %w", s, errors.ErrUnsupported)
}

// interceptMonitors is intercept for a call of a role that the store behind may
// not have.
func interceptMonitors[T any](ctx context.Context, i *intercepted, c *Call, call func(context.Context, store.Monitors) (T, error)) (T, error) {
	m, err := monitorsOf(i.s)
	if err != nil {
		var none T
		return none, err
	}
	return intercept(ctx, i, c, func(ctx context.Context) (T, error) { return call(ctx, m) })
}

// PutMonitor is that of the store behind, as are the following methods.
func (i *intercepted) PutMonitor(ctx context.Context, p store.MonitorPut) (store.Monitor, error) {
	c := &Call{Method: "PutMonitor", Request: p}
	return interceptMonitors(ctx, i, c, func(ctx context.Context, m store.Monitors) (store.Monitor, error) { return m.PutMonitor(ctx, p) })
}

func (i *intercepted) RemoveMonitor(ctx context.Context, name string) error {
	c := &Call{Method: "RemoveMonitor", Request: name}
	_, err := interceptMonitors(ctx, i, c, func(ctx context.Context, m store.Monitors) (struct{}, error) {
		return struct{}{}, m.RemoveMonitor(ctx, name)
	})
	return err
}

func (i *intercepted) Monitors(ctx context.Context, f store.MonitorFilter) ([]store.Monitor, error) {
	c := &Call{Method: "Monitors", Request: f}
	return interceptMonitors(ctx, i, c, func(ctx context.Context, m store.Monitors) ([]store.Monitor, error) { return m.Monitors(ctx, f) })
}

func (i *intercepted) DueMonitors(ctx context.Context, r store.DueRequest) (store.DueMonitors, error) {
	c := &Call{Method: "DueMonitors", Request: r}
	return interceptMonitors(ctx, i, c, func(ctx context.Context, m store.Monitors) (store.DueMonitors, error) { return m.DueMonitors(ctx, r) })
}

func (i *intercepted) Record(ctx context.Context, r store.MonitorRecord) (store.Recorded, error) {
	c := &Call{Method: "Record", Request: r}
	return interceptMonitors(ctx, i, c, func(ctx context.Context, m store.Monitors) (store.Recorded, error) { return m.Record(ctx, r) })
}

func (i *intercepted) Seen(ctx context.Context, f store.SeenFilter) ([]store.SeenFile, error) {
	c := &Call{Method: "Seen", Request: f}
	return interceptMonitors(ctx, i, c, func(ctx context.Context, m store.Monitors) ([]store.SeenFile, error) { return m.Seen(ctx, f) })
}

// monitors returns the role of the store that fails, which counts and fails its
// calls as all others.
func (f *Faulty) monitors() (store.Monitors, error) { return monitorsOf(f.Store) }

// PutMonitor is that of the store behind, as are the following methods, but for
// the fault.
func (f *Faulty) PutMonitor(ctx context.Context, p store.MonitorPut) (store.Monitor, error) {
	m, err := f.monitors()
	if err != nil {
		return store.Monitor{}, err
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
func (f *Faulty) Monitors(ctx context.Context, filter store.MonitorFilter) ([]store.Monitor, error) {
	m, err := f.monitors()
	if err != nil {
		return nil, err
	}
	return m.Monitors(ctx, filter)
}

// DueMonitors leases monitors that are due.
func (f *Faulty) DueMonitors(ctx context.Context, r store.DueRequest) (store.DueMonitors, error) {
	m, err := f.monitors()
	if err != nil {
		return store.DueMonitors{}, err
	}
	return m.DueMonitors(ctx, r)
}

// Record writes the outcome of a look.
func (f *Faulty) Record(ctx context.Context, r store.MonitorRecord) (store.Recorded, error) {
	m, err := f.monitors()
	if err != nil {
		return store.Recorded{}, err
	}
	return m.Record(ctx, r)
}

// Seen returns what a monitor has seen.
func (f *Faulty) Seen(ctx context.Context, filter store.SeenFilter) ([]store.SeenFile, error) {
	m, err := f.monitors()
	if err != nil {
		return nil, err
	}
	return m.Seen(ctx, filter)
}
