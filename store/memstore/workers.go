package memstore

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier/store"
)

// workers are the workers that have claimed lately.
type workers struct {
	seen map[string]*store.Worker // by name
	left bool                     // executions were left when a claim was last recorded
}

// forgetAfter is the time after its last claim at which a worker is removed.
const forgetAfter = 24 * time.Hour

// noted records a worker that has claimed, and reports whether executions were left.
func (s *Store) noted(c *claim) bool {
	r := &s.workers
	if c.only != nil {
		return r.left
	}
	if r.seen == nil {
		r.seen = make(map[string]*store.Worker)
	}
	if w := r.seen[c.Worker]; w != nil && !w.Draining && c.now.Sub(w.SeenAt) < store.PresenceInterval {
		return r.left
	}
	r.seen[c.Worker] = &store.Worker{
		Name: c.Worker, Workspace: c.Workspace, Queues: c.Queues, StepTypes: c.StepTypes,
		Slots: c.Slots, Version: c.Version, StartedAt: c.StartedAt, SeenAt: c.now,
	}
	r.left = s.leaves(c.now)
	for name, w := range r.seen {
		if c.now.Sub(w.SeenAt) >= forgetAfter {
			delete(r.seen, name)
		}
	}
	return r.left
}

// leaves reports whether something is queued, or runs with a lease that has ended.
func (s *Store) leaves(now time.Time) bool {
	for _, q := range s.queues {
		if len(q) > 0 {
			return true
		}
	}
	x := s.leases.top()
	return x != nil && x.expired(now)
}

// Workers returns the workers that are present.
func (s *Store) Workers(ctx context.Context, age time.Duration) ([]store.Worker, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.present(s.clock(), age), nil
}

// Drain records that a worker claims nothing more.
func (s *Store) Drain(ctx context.Context, worker string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.workers.seen[worker]; w != nil {
		w.Draining = true
	}
	return nil
}

func (s *Store) present(now time.Time, age time.Duration) []store.Worker {
	holds := make(map[string]bool)
	for _, x := range s.leases.list {
		if !x.expired(now) {
			holds[x.Worker] = true
		}
	}
	var list []store.Worker
	for _, w := range s.workers.seen {
		if now.Sub(w.SeenAt) < age || holds[w.Name] {
			list = append(list, *w)
		}
	}
	slices.SortFunc(list, func(a, b store.Worker) int { return strings.Compare(a.Name, b.Name) })
	return list[:min(len(list), store.MaxWorkers)]
}

// Stranded returns what no worker that is present can take.
func (s *Store) Stranded(ctx context.Context, age time.Duration) ([]store.Stranded, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	before := now.Add(-age)
	groups := make(map[string]*store.Stranded)
	add := func(x *execution, lost bool, since time.Time) {
		if since.After(before) {
			return
		}
		key := x.Queue + "\x00" + x.Workspace + "\x00" + strings.Join(x.types, "\x00")
		if lost {
			key = "lost\x00" + key
		}
		g := groups[key]
		if g == nil {
			g = &store.Stranded{Queue: x.Queue, Workspace: x.Workspace, StepTypes: x.types, Lost: lost}
			groups[key] = g
		}
		if g.Count++; g.Count == 1 || since.Before(g.Since) || since.Equal(g.Since) && x.ID < g.Oldest {
			g.Oldest, g.Since = x.ID, since
		}
	}
	for _, q := range s.queues {
		for _, c := range q {
			for _, h := range []*heap{&c.ready, &c.waiting} {
				for _, x := range h.list[:min(len(h.list), store.MaxSampled)] {
					add(x, false, x.DueAt)
				}
			}
		}
	}
	for x := range s.leases.while(func(x *execution) bool { return x.expired(now) }) {
		add(x, true, x.LeaseExpiresAt)
	}
	var list []store.Stranded
	for _, g := range groups {
		list = append(list, *g)
	}
	return store.FindStranded(list, s.present(now, age)), nil
}

var _ store.Workers = (*Store)(nil)
