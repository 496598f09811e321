package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/store"
)

var _ expectation.Store = (*Store)(nil)

// expected holds the expectations.
type expected struct {
	all      map[string]*awaited
	revision int64 // the last that any has got
}

// An awaited is an expectation with its lease and its arrivals.
type awaited struct {
	expectation.Record
	leased   time.Time // until when; zero if it is not
	arrivals map[string]expectation.Kept
}

// wait sets when the expectation is due, and gives it a revision that none has had.
func (a *awaited) wait(e *expected, now time.Time, after time.Duration) {
	e.revision++
	a.Revision, a.leased, a.Due = e.revision, time.Time{}, time.Time{}
	if after >= 0 {
		a.Due = now.Add(after.Truncate(time.Microsecond))
	}
	a.SeenFrom = a.SeenFrom.UTC().Truncate(time.Microsecond)
}

// PutExpectation creates an expectation or replaces one.
func (s *Store) PutExpectation(ctx context.Context, p expectation.Put) (expectation.Record, error) {
	if err := ctx.Err(); err != nil {
		return expectation.Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.expected.all[p.Name]
	switch {
	case a == nil && p.Revision != 0:
		return expectation.Record{}, courier.Errorf(courier.ErrConflict, "expectation %q: it no longer exists", p.Name)
	case a != nil && p.Revision != a.Revision:
		return expectation.Record{}, courier.Errorf(courier.ErrConflict, "expectation %q: somebody else has changed it", p.Name)
	case a == nil:
		a = &awaited{arrivals: make(map[string]expectation.Kept)}
		if s.expected.all == nil {
			s.expected.all = make(map[string]*awaited)
		}
		s.expected.all[p.Name] = a
	}
	now := s.clock()
	a.Record = p.Record
	a.SavedAt = now
	a.wait(&s.expected, now, p.After)
	if name := monitor.LookName(p.Name); p.Monitor != name {
		delete(s.monitors.all, name)
	} else if p.Look != nil {
		s.monitors.put(p.Look, now)
	}
	s.schedules.notifyChanged()
	return a.Record, nil
}

// RemoveExpectation removes an expectation and its arrivals.
func (s *Store) RemoveExpectation(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expected.all[name] == nil {
		return courier.Errorf(courier.ErrNotFound, "there is no expectation %q", name)
	}
	delete(s.expected.all, name)
	delete(s.monitors.all, monitor.LookName(name))
	return nil
}

// Expectations returns expectations in the order of their names.
func (s *Store) Expectations(ctx context.Context, f expectation.Filter) (expectation.List, error) {
	if err := ctx.Err(); err != nil {
		return expectation.List{}, err
	}
	if f.Limit <= 0 {
		f.Limit = page
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := expectation.List{Now: s.clock()}
	for _, name := range slices.Sorted(maps.Keys(s.expected.all)) {
		if a := s.expected.all[name]; f.Match(&a.Record) && len(l.List) < f.Limit {
			l.List = append(l.List, a.Record)
		}
	}
	return l, nil
}

// DueExpectations leases expectations that are due.
func (s *Store) DueExpectations(ctx context.Context, r expectation.DueRequest) (expectation.DueList, error) {
	if err := ctx.Err(); err != nil {
		return expectation.DueList{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := expectation.DueList{Now: s.clock()}
	var due []*awaited
	var next time.Time
	for _, a := range s.expected.all {
		at := a.Due
		if a.leased.After(at) {
			at = a.leased
		}
		switch {
		case a.Due.IsZero():
		case !at.After(d.Now):
			due = append(due, a)
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	slices.SortFunc(due, func(a, b *awaited) int { return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Name, b.Name)) })
	switch {
	case len(due) > r.Max:
		due, d.Next = due[:r.Max], time.Microsecond
	case !next.IsZero():
		d.Next = next.Sub(d.Now)
	}
	for _, a := range due {
		a.leased = d.Now.Add(r.Lease)
		d.List = append(d.List, s.toLook(a))
	}
	return d, nil
}

// toLook returns what an engine needs to check an expectation.
func (s *Store) toLook(a *awaited) expectation.Due {
	d := expectation.Due{Record: a.Record}
	for _, date := range slices.Sorted(maps.Keys(a.arrivals)) {
		if date >= a.ArrivalsFrom {
			d.Arrivals = append(d.Arrivals, a.arrivals[date])
		}
	}
	if m := s.monitors.all[a.Monitor]; m != nil {
		d.Watch = &expectation.Watch{Body: m.Body, Health: m.Health}
		for _, f := range m.seen {
			if !f.Since.Before(a.SeenFrom) && strings.HasPrefix(f.Name, a.Prefix) {
				d.Seen = append(d.Seen, f)
			}
		}
		slices.SortFunc(d.Seen, func(a, b monitor.SeenFile) int {
			return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Name, b.Name))
		})
		d.Seen = d.Seen[:min(len(d.Seen), expectation.MaxSeen)]
	}
	if t := s.trails[store.TrailFile]; a.Job != "" && t != nil {
		prefix := store.TrailName(a.Prefix)
		from, _ := slices.BinarySearch(t.values, prefix)
		for ; from < len(t.values) && strings.HasPrefix(t.values[from], prefix); from++ {
			for _, e := range t.entries[t.values[from]] {
				d.Received = append(d.Received, s.received(a, e)...)
			}
		}
		slices.SortFunc(d.Received, func(a, b expectation.Received) int {
			return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Execution, b.Execution), cmp.Compare(a.Seq, b.Seq), strings.Compare(a.Path, b.Path))
		})
		d.Received = d.Received[:min(len(d.Received), expectation.MaxSeen)]
	}
	return d
}

// received returns the files of an entry of the trail that an expectation may have expected.
func (s *Store) received(a *awaited, e store.TrailEntry) (list []expectation.Received) {
	x := s.executions[e.Execution]
	if x == nil || x.Job != a.Job || x.CreatedAt.Before(a.SeenFrom.AddDate(0, 0, -7)) {
		return nil
	}
	i := firstFrom(x.steps, e.Seq)
	if i == len(x.steps) || x.steps[i].Seq != e.Seq || x.steps[i].EndedAt.Before(a.SeenFrom) {
		return nil
	}
	for _, f := range x.steps[i].Files {
		if f.Received && store.TrailName(f.Path) == e.Value {
			list = append(list, expectation.Received{Path: f.Path, Size: f.Size, At: x.steps[i].EndedAt, Execution: x.ID, Seq: e.Seq})
		}
	}
	return list
}

// RecordLooks writes looks.
func (s *Store) RecordLooks(ctx context.Context, list []expectation.Look) ([]bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	done := make([]bool, len(list))
	for i := range list {
		l := &list[i]
		a := s.expected.all[l.Expectation]
		if a == nil || a.Revision != l.Revision {
			continue
		}
		done[i] = true
		a.Progress = l.Progress
		a.wait(&s.expected, now, l.After)
		for _, k := range l.Arrivals {
			if was, ok := a.arrivals[k.Date]; ok {
				k.ID = was.ID
			}
			a.arrivals[k.Date] = k
		}
		for date := range a.arrivals {
			if date < l.Forget {
				delete(a.arrivals, date)
			}
		}
		for k := range l.Events {
			s.keepExpected(&l.Events[k], now)
		}
	}
	return done, nil
}

// Arrivals returns a page of arrivals.
func (s *Store) Arrivals(ctx context.Context, f expectation.ArrivalFilter) ([]expectation.Kept, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if f.Limit <= 0 {
		f.Limit = page
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	names := f.Expectations
	if names == nil {
		names = slices.Collect(maps.Keys(s.expected.all))
	}
	var list []expectation.Kept
	for _, name := range names {
		a := s.expected.all[name]
		if a == nil {
			continue
		}
		if k, ok := a.arrivals[f.From]; ok && f.From == f.To {
			if f.Match(&k) {
				list = append(list, k)
			}
			continue
		}
		for _, k := range a.arrivals {
			if f.Match(&k) {
				list = append(list, k)
			}
		}
	}
	slices.SortFunc(list, func(a, b expectation.Kept) int {
		return cmp.Or(strings.Compare(b.Date, a.Date), strings.Compare(a.Expectation, b.Expectation))
	})
	return list[:min(len(list), f.Limit)], nil
}

// CountArrivals counts arrivals by their states.
func (s *Store) CountArrivals(ctx context.Context, from, to string) (map[expectation.State]int, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := make(map[expectation.State]int)
	for _, a := range s.expected.all {
		if from == to {
			if k, ok := a.arrivals[from]; ok {
				n[k.State]++
			}
			continue
		}
		for _, k := range a.arrivals {
			if k.Date >= from && k.Date <= to {
				n[k.State]++
			}
		}
	}
	return n, nil
}
