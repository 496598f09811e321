package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/store"
)

var _ monitor.Store = (*Store)(nil)

// monitors holds the monitors.
type monitors struct {
	all      map[string]*watch
	revision int64 // the last that any has got
}

// A watch is a monitor with its lease and its files.
type watch struct {
	monitor.Record
	leased time.Time // until when; zero if it is not
	seen   map[string]monitor.SeenFile
}

// revise returns a revision that no monitor has had.
func (m *monitors) revise() int64 {
	m.revision++
	return m.revision
}

// wait sets when the monitor is due.
func (m *watch) wait(now time.Time, after time.Duration) {
	m.leased, m.Due = time.Time{}, time.Time{}
	if after >= 0 {
		m.Due = now.Add(after.Truncate(time.Microsecond))
	}
}

// PutMonitor creates a monitor or replaces one.
func (s *Store) PutMonitor(ctx context.Context, p monitor.Put) (monitor.Record, error) {
	if err := ctx.Err(); err != nil {
		return monitor.Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.monitors.all[p.Name]
	switch {
	case m == nil && p.Revision != 0:
		return monitor.Record{}, courier.Errorf(courier.ErrConflict, "monitor %q: it no longer exists", p.Name)
	case m != nil && p.Revision != m.Revision:
		return monitor.Record{}, courier.Errorf(courier.ErrConflict, "monitor %q: somebody else has changed it", p.Name)
	}
	m = s.monitors.put(&p, s.clock())
	s.schedules.notifyChanged()
	return m.Record, nil
}

// put saves a monitor.
func (all *monitors) put(p *monitor.Put, now time.Time) *watch {
	m := all.all[p.Name]
	if m == nil {
		m = &watch{}
		if all.all == nil {
			all.all = make(map[string]*watch)
		}
		all.all[p.Name] = m
	}
	m.Record = p.Record
	m.SavedAt, m.Revision = now, all.revise()
	m.wait(now, p.After)
	if m.seen == nil || p.Forget {
		m.seen = make(map[string]monitor.SeenFile)
	}
	return m
}

// RemoveMonitor removes a monitor and what it has seen.
func (s *Store) RemoveMonitor(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.monitors.all[name] == nil {
		return courier.Errorf(courier.ErrNotFound, "there is no monitor %q", name)
	}
	delete(s.monitors.all, name)
	return nil
}

// Monitors returns monitors in the order of their names.
func (s *Store) Monitors(ctx context.Context, f monitor.Filter) ([]monitor.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if f.Limit <= 0 {
		f.Limit = page
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []monitor.Record
	for _, name := range slices.Sorted(maps.Keys(s.monitors.all)) {
		if name > f.After && (f.Name == "" || f.Name == name) && len(list) < f.Limit {
			list = append(list, s.monitors.all[name].Record)
		}
	}
	return list, nil
}

// DueMonitors leases monitors that are due.
func (s *Store) DueMonitors(ctx context.Context, r monitor.DueRequest) (monitor.DueList, error) {
	if err := ctx.Err(); err != nil {
		return monitor.DueList{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := monitor.DueList{Now: s.clock()}
	var due []*watch
	var next time.Time
	for _, m := range s.monitors.all {
		at := m.Due
		if m.leased.After(at) {
			at = m.leased
		} else if slices.Contains(r.Early, m.Name) && !m.leased.After(d.Now) && at.After(d.Now) {
			at = d.Now
		}
		switch {
		case m.Due.IsZero() || !slices.Contains(r.Listers, m.Lister):
		case !at.After(d.Now):
			due = append(due, m)
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	slices.SortFunc(due, func(a, b *watch) int { return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Name, b.Name)) })
	switch {
	case len(due) > r.Max:
		due, d.Next = due[:r.Max], time.Microsecond
	case !next.IsZero():
		d.Next = next.Sub(d.Now)
	}
	for _, m := range due {
		m.leased = d.Now.Add(r.Lease)
		d.List = append(d.List, m.Record)
	}
	return d, nil
}

// RecordPoll writes the result of a poll.
func (s *Store) RecordPoll(ctx context.Context, r monitor.PollResult) (monitor.Recorded, error) {
	if err := ctx.Err(); err != nil {
		return monitor.Recorded{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.monitors.all[r.Monitor]
	if m == nil || m.Revision != r.Revision {
		return monitor.Recorded{}, nil
	}
	for i := range r.Executions {
		_, there, err := s.find(&r.Executions[i])
		if err == nil && !there {
			err = s.refused(&r.Executions[i], r.Executions)
		}
		if err != nil {
			return monitor.Recorded{}, err
		}
	}
	now := s.clock()
	done := monitor.Recorded{Done: true}
	var err error
	if done.Chains, err = s.fireChains(r.Chains, now); err != nil {
		return monitor.Recorded{}, err
	}
	r.Changed = slices.Clone(r.Changed)
	for i := range done.Chains {
		r.Replace(courier.ExecutionID(r.Chains[i].ID), courier.ExecutionID(done.Chains[i].Execution.ID))
	}
	for i := range r.Executions {
		n := &r.Executions[i]
		x, existed, _ := s.find(n)
		if !existed {
			x = s.create(n, now)
			s.place(x)
			s.begin(x, now)
		} else if x.ID != n.ID {
			r.Replace(n.ID, x.ID)
		}
		done.Executions = append(done.Executions, store.Enqueued{Execution: s.view(x), Existed: existed})
	}
	for i := range r.Changed {
		f := r.Changed[i]
		for _, t := range []*time.Time{&f.Modified, &f.Since, &f.MissingSince, &f.HandedModified, &f.HandedAt} {
			if !t.IsZero() {
				*t = t.UTC().Truncate(time.Microsecond)
			}
		}
		m.seen[f.Name] = f
	}
	for _, name := range r.Removed {
		delete(m.seen, name)
	}
	m.Status = r.Status
	m.Revision = s.monitors.revise()
	m.wait(now, r.After)
	done.Revision = m.Revision
	return done, nil
}

// SeenFiles returns what a monitor has seen, in the order of the names.
func (s *Store) SeenFiles(ctx context.Context, f monitor.SeenFilter) ([]monitor.SeenFile, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if f.Limit <= 0 {
		f.Limit = page
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.monitors.all[f.Monitor]
	if m == nil {
		return nil, nil
	}
	var list []monitor.SeenFile
	for _, name := range slices.Sorted(maps.Keys(m.seen)) {
		if name > f.After && len(list) < f.Limit {
			list = append(list, m.seen[name])
		}
	}
	return list, nil
}
