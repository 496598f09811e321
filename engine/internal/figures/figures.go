// Package figures reads what metrics show of the whole store.
package figures

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/internal/metrics"
	"github.com/courierhq/courier/store"
)

// How long figures are kept, so that many scrapers cost the store no more than one: counts of
// executions, and what takes longer to find out and changes rarely. Older ones are shown while
// they are read anew, unless they are very old: a scrape does not wait for the store.
const (
	keepCounts  = 5 * time.Second
	keepWorkers = 30 * time.Second
	veryOld     = time.Minute
)

// readTimeout is how long the store may take: scrapers wait for 10 seconds by default.
const readTimeout = 3 * time.Second

// A Service reads the figures of an engine's store. Its methods may be called by several
// goroutines.
type Service struct {
	roles  core.Roles
	queues []string
	log    *slog.Logger

	mu      sync.Mutex
	list    []metrics.Figure
	at      time.Time     // when they were read; zero if they never were
	reading chan struct{} // closed when the counts are read; nil if nobody reads

	// Of who reads.
	workers kept
	broken  bool // the last reading failed, which is in the log
}

// Kept figures were read at an instant.
type kept struct {
	at   time.Time
	list []metrics.Figure
}

// New returns the service of an engine that serves some queues.
func New(roles core.Roles, queues []string, log *slog.Logger) *Service {
	return &Service{roles: roles, queues: queues, log: log}
}

// Store returns the figures of the store as they were some seconds ago. Where the store lacks a
// role, and where it can't be reached, its figures are missing. It waits for the store only
// when it is called for the first time, or after a long time, at most until ctx ends.
func (s *Service) Store(ctx context.Context) []metrics.Figure {
	s.mu.Lock()
	age := time.Since(s.at)
	never := s.at.IsZero() || age >= veryOld
	if (never || age >= keepCounts) && s.reading == nil {
		s.reading = make(chan struct{})
		go s.read(s.reading)
	}
	reading := s.reading
	s.mu.Unlock()
	if never {
		select {
		case <-reading:
		case <-ctx.Done():
			return []metrics.Figure{{Metric: metrics.StoreReachable}}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// read reads the figures, and closes counted when the counts are there: those of workers take
// longer, and are there the next time.
func (s *Service) read(counted chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	counts, err := s.readCounts(ctx)
	if err != nil {
		s.workers = kept{} // what was read before does not stay
	}
	s.keep(counts, err)
	close(counted)
	if s.workers.at.IsZero() || time.Since(s.workers.at) >= keepWorkers {
		list, failed := s.readWorkers(ctx)
		if s.workers = (kept{time.Now(), list}); failed != nil && !errors.Is(failed, errors.ErrUnsupported) {
			s.workers.at = time.Time{}
			err = errors.Join(err, failed)
		}
		s.keep(counts, err)
	}
	if err != nil && !s.broken {
		s.log.Error("metrics lack the figures of the store", "error", err)
	}
	s.broken = err != nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = nil
}

// keep keeps what was read. Err says what is missing.
func (s *Service) keep(counts []metrics.Figure, err error) {
	reachable := metrics.Figure{Metric: metrics.StoreReachable, Value: 1}
	if err != nil {
		reachable.Value = 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list, s.at = slices.Concat([]metrics.Figure{reachable}, counts, s.workers.list), time.Now()
}

// together calls functions at the same time, and returns their errors but those of roles that
// the store lacks.
func together(calls ...func() error) []error {
	errs := make([]error, len(calls))
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(func() {
			if err := call(); !errors.Is(err, errors.ErrUnsupported) {
				errs[i] = err
			}
		})
	}
	all.Wait()
	return errs
}

func (s *Service) readCounts(ctx context.Context) (list []metrics.Figure, err error) {
	var c store.Census
	var st store.Stats
	var days []metrics.Figure
	var counted, measured bool
	err = errors.Join(together(
		func() error {
			o, err := s.roles.Overview()
			if err == nil {
				c, err = o.Census(ctx, store.DefaultCountLimit)
				counted = err == nil
			}
			return err
		},
		func() error {
			m, err := s.roles.Statistics()
			if err == nil {
				st, err = m.Stats(ctx, store.DefaultCountLimit)
				measured = err == nil
			}
			return err
		},
		func() error {
			x, err := s.roles.Expectations()
			if err == nil {
				days, err = expectedDays(ctx, x)
			}
			return err
		},
	)...)
	if counted {
		list = append(list, s.ofCensus(&c)...)
	}
	if measured {
		list = append(list, ofStats(&st)...)
	}
	list = append(list, days...)
	return list, err
}

func (s *Service) ofCensus(c *store.Census) (list []metrics.Figure) {
	add := func(m *metrics.Metric, value float64, labels ...string) {
		list = append(list, figure(m, value, labels...))
	}
	known := make(map[string]bool, len(c.Queues))
	for _, q := range c.Queues {
		known[q.Queue] = true
		add(metrics.QueueDepth, float64(q.Queued), q.Queue)
		add(metrics.QueueOldest, since(c.At, q.DueAt), q.Queue)
	}
	for _, q := range s.queues {
		if !known[q] {
			known[q] = true
			add(metrics.QueueDepth, 0, q)
			add(metrics.QueueOldest, 0, q)
		}
	}
	for _, j := range c.Jobs {
		add(metrics.RunActive, float64(j.Count), j.Name, metrics.Executing)
	}
	for state, n := range map[string]int{
		"created": c.Created, "waiting": c.Waiting, "running": c.Running, "lost": c.Lost, "paused": c.Paused, "failed": c.Failed,
	} {
		add(metrics.Executions, float64(n), state)
	}
	return list
}

// expectedDays counts the days of expectations whose files are not there.
func expectedDays(ctx context.Context, x expectation.Store) (list []metrics.Figure, err error) {
	const week = 7
	today := calendar.DateOf(time.Now().UTC())
	counts, err := x.CountArrivals(ctx, (today - week + 1).String(), (today + 1).String())
	if err != nil {
		return nil, err
	}
	for _, state := range []expectation.State{expectation.DueSoon, expectation.Missing, expectation.Incomplete} {
		list = append(list, figure(metrics.ExpectedDays, float64(counts[state]), string(state)))
	}
	return list, nil
}

func ofStats(st *store.Stats) []metrics.Figure {
	list := []metrics.Figure{
		figure(metrics.ScheduleLag, since(st.At, st.ScheduleDue)),
		figure(metrics.MonitorLag, since(st.At, st.MonitorDue)),
		figure(metrics.MonitorFailures, float64(st.MonitorsDegraded), "degraded"),
		figure(metrics.MonitorFailures, float64(st.MonitorsFailed), "failed"),
		figure(metrics.DeliveriesPending, float64(st.DeliveriesPending), "pending"),
		figure(metrics.DeliveriesPending, float64(st.DeliveriesFailed), "failed"),
		figure(metrics.DeliveryLag, since(st.At, st.DeliveryDue)),
	}
	d := st.Database
	if d == nil {
		return list
	}
	for _, t := range d.Tables {
		list = append(list, figure(metrics.TableRows, float64(t.Live), t.Name, "live"), figure(metrics.TableRows, float64(t.Dead), t.Name, "dead"))
	}
	return append(list,
		figure(metrics.XminAge, d.XminAge.Seconds()), figure(metrics.XminTransactions, float64(d.XminTransactions)),
		figure(metrics.Connections, float64(d.ConnectionsUsed), "used"), figure(metrics.Connections, float64(d.ConnectionsMax), "max"),
	)
}

func (s *Service) readWorkers(ctx context.Context) ([]metrics.Figure, error) {
	w, err := s.roles.Workers()
	if err != nil {
		return nil, err
	}
	var workers []store.Worker
	var stranded []store.Stranded
	if err := errors.Join(together(
		func() (err error) { workers, err = w.Workers(ctx, core.PresentFor); return err },
		func() (err error) { stranded, err = w.Stranded(ctx, core.PresentFor); return err },
	)...); err != nil {
		return nil, err
	}
	draining := 0
	for i := range workers {
		if workers[i].Draining {
			draining++
		}
	}
	by := map[store.StrandedReason]int{store.StrandedQueue: 0, store.StrandedWorkspace: 0, store.StrandedStepTypes: 0}
	for i := range stranded {
		by[stranded[i].Reason] += stranded[i].Count
	}
	list := []metrics.Figure{
		figure(metrics.Workers, float64(len(workers)-draining), "available"), figure(metrics.Workers, float64(draining), "draining"),
	}
	for reason, n := range by {
		list = append(list, figure(metrics.Stranded, float64(n), string(reason)))
	}
	return list, nil
}

func figure(m *metrics.Metric, value float64, labels ...string) metrics.Figure {
	f := metrics.Figure{Metric: m, Value: value}
	copy(f.Labels[:], labels)
	return f
}

// since is how long something has been due, in seconds; 0 if it is not.
func since(at, due time.Time) float64 {
	if due.IsZero() {
		return 0
	}
	return max(0, at.Sub(due).Seconds())
}
