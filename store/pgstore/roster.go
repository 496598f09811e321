package pgstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// A roster is what the store remembers of the workers that claim through it.
type roster struct {
	mu    sync.Mutex
	noted map[string]time.Time // when each was noted last, by name
	left  atomic.Bool          // something was left when that was looked at last
}

// due reports whether a worker is to be noted.
func (r *roster) due(worker string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.noted[worker]
	return !ok || time.Since(at) >= store.NotedEvery
}

// noting takes note of what a general claim has found, if it was to note its
// worker. It returns err.
func (s *Store) noting(c *claim, err error) error {
	if err != nil || !c.noted {
		return err
	}
	c.noted = false
	r := &s.roster
	r.left.Store(c.left || c.ahead) // a claim that begins ahead does not see all that runs
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.noted == nil {
		r.noted = make(map[string]time.Time)
	}
	r.noted[c.Worker] = time.Now()
	return nil
}

var _ store.Roster = (*Store)(nil)

// Workers returns the workers that are present.
func (s *Store) Workers(ctx context.Context, age time.Duration) ([]store.Worker, error) {
	if err := s.begun(ctx); err != nil {
		return nil, err
	}
	list, err := query(ctx, s.pool, scanWorker, s.q.workers, micros(age), int64(store.MostWorkers))
	if err != nil {
		return nil, failed("read the workers", err)
	}
	return list, nil
}

// Stranded returns what no worker that is present can take.
func (s *Store) Stranded(ctx context.Context, age time.Duration) ([]store.Stranded, error) {
	workers, err := s.Workers(ctx, age)
	if err != nil {
		return nil, err
	}
	groups, err := query(ctx, s.pool, scanStranded, s.q.stranded, micros(age), int64(store.MostSampled))
	if err != nil {
		return nil, failed("read what no worker takes", err)
	}
	return store.FindStranded(groups, workers), nil
}

func scanWorker(rows pgx.Rows) (w store.Worker, err error) {
	err = rows.Scan(&w.Name, &w.Workspace, &w.Queues, &w.StepTypes, &w.SeenAt)
	w.SeenAt = w.SeenAt.UTC()
	return w, err
}

func scanStranded(rows pgx.Rows) (g store.Stranded, err error) {
	var oldest string
	err = rows.Scan(&g.Queue, &g.Workspace, &g.StepTypes, &g.Lost, &g.Count, &oldest, &g.Since)
	g.Oldest, g.Since = courier.ExecutionID(oldest), g.Since.UTC()
	return g, err
}
