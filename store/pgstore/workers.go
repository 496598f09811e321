package pgstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// A workerRegistry says which workers of this process must be registered in the table workers with
// their next claim.
type workerRegistry struct {
	mu         sync.Mutex
	registered map[string]time.Time // when, by name
	left       atomic.Bool          // the last look found executions that the claim did not take
}

// due reports whether a worker has to be registered.
func (r *workerRegistry) due(worker string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.registered[worker]
	return !ok || time.Since(at) >= store.PresenceInterval
}

// workerRegistered records whether a claim has registered its worker, and whether it left
// executions. It returns err.
func (s *Store) workerRegistered(c *claim, err error) error {
	if err != nil || !c.register {
		return err
	}
	c.register = false
	r := &s.registry
	r.left.Store(c.left || c.skipsClaimed) // a claim that begins ahead does not read all running executions
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.registered == nil {
		r.registered = make(map[string]time.Time)
	}
	r.registered[c.Worker] = time.Now()
	return nil
}

var _ store.Workers = (*Store)(nil)

// Workers returns the workers that have claimed within age or hold a lease.
func (s *Store) Workers(ctx context.Context, age time.Duration) ([]store.Worker, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	ran, since := s.claims.runningNow().params()
	list, err := query(ctx, s.pool, scanWorker, s.sql("worker/list"), micros(age), ran, since, int64(store.MaxWorkers))
	if err != nil {
		return nil, failed("read the workers", err)
	}
	return list, nil
}

// Drain records that a worker claims nothing more. The next claim under its name is
// recorded almost at once.
func (s *Store) Drain(ctx context.Context, worker string) error {
	if err := s.checkOpen(ctx); err != nil {
		return err
	}
	err := repeat(ctx, func() error {
		_, err := s.pool.Exec(ctx, s.sql("worker/drain"), worker)
		return err
	})
	if err != nil {
		return failed(fmt.Sprintf("record that worker %q is draining", worker), err)
	}
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	delete(s.registry.registered, worker)
	return nil
}

// Stranded returns the executions that no present worker can take, in groups.
func (s *Store) Stranded(ctx context.Context, age time.Duration) ([]store.Stranded, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	ran, since := s.claims.runningNow().params()
	var workers []store.Worker
	groups, err := query(ctx, s.pool, func(rows pgx.Rows) (g store.Stranded, err error) {
		var oldest string
		var present *string // of the first group
		err = rows.Scan(&g.Queue, &g.Workspace, &g.StepTypes, &g.Lost, &g.Count, &oldest, &g.Since, &present)
		g.Oldest, g.Since = courier.ExecutionID(oldest), g.Since.UTC()
		if err == nil && present != nil {
			err = decode(present, &workers)
		}
		return g, err
	}, s.sql("worker/list_stranded"), micros(age), ran, since, int64(store.MaxSampled), int64(store.MaxWorkers))
	if err != nil {
		return nil, failed("read the executions that no worker can take", err)
	}
	return store.FindStranded(groups, workers), nil
}

func scanWorker(rows pgx.Rows) (w store.Worker, err error) {
	var started *time.Time
	err = rows.Scan(&w.Name, &w.Workspace, &w.Queues, &w.StepTypes, &w.Slots, &w.Version, &started, &w.SeenAt, &w.Draining)
	w.StartedAt, w.SeenAt = instant(started), w.SeenAt.UTC()
	return w, err
}
