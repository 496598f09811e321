package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// A load is pipelines of steps that do nothing.
type load struct {
	steps int // of each execution
	at    int // executions at once
}

// A system runs a load in a database of its own.
type system interface {
	// fill makes n executions ready to run, as far as the system can.
	fill(ctx context.Context, n int) error
	// run runs what fill has made, n executions, until the last one is completed
	// in the database.
	run(ctx context.Context, n int) (ran, error)
	close()
}

// A ran is how many executions were run in a time. What of a load was run in
// part, where it takes too long, counts in part.
type ran struct {
	executions float64
	spent      time.Duration
}

// since is what was run if all n executions since a time were.
func since(start time.Time, n int) ran { return ran{float64(n), time.Since(start)} }

func (r ran) rate() float64 { return r.executions / r.spent.Seconds() }

// A maker says how a system is set up.
type maker struct {
	template string // of the database; systems with the same tables share one
	migrate  func(ctx context.Context, url string) error
	open     func(ctx context.Context, db *database, l load, t *trips) (system, error)
}

// makers returns the systems by the names of contestants.
func makers() map[string]maker {
	return map[string]maker{
		courierName:      {"courier", migrateCourier, openCourier},
		"raw":            {"raw", migrateRaw(twoTables), openRaw(twoTables)},
		"raw-history":    {"raw-history", migrateRaw(oneHistory), openRaw(oneHistory)},
		"raw-history-2":  {"raw-history-2", migrateRaw(oneHistoryTwice), openRaw(oneHistoryTwice)},
		"river":          {"river", migrateRiver, openRiver(riverTuned)},
		"river-defaults": {"river", migrateRiver, openRiver(riverDefaults)},
		"dbos":           {"dbos", migrateDBOS, openDBOS},
		"go-workflows":   {"go-workflows", migrateWorkflows, openWorkflows},
	}
}

// fresh opens a database for a contestant, in which nothing has been done.
func (h *harness) fresh(ctx context.Context, who string) (maker, *database, error) {
	m, ok := makers()[who]
	if !ok {
		return m, nil, fmt.Errorf("there is no contestant %q", who)
	}
	db, err := h.srv.fresh(ctx, m.template, m.migrate)
	return m, db, err
}

// throughput measures how many executions per second a contestant completes
// with a load, in a fresh database.
func (h *harness) throughput(ctx context.Context, who string, l load) (float64, error) {
	m, db, err := h.fresh(ctx, who)
	if err != nil {
		return 0, err
	}
	defer db.drop()
	sys, err := m.open(ctx, db, l, nil)
	if err != nil {
		return 0, err
	}
	defer sys.close()
	return h.rate(ctx, db, sys, l, fmt.Sprint(who, l))
}

// rate measures the executions per second of a system that is open. Key is under
// which the rate is remembered.
func (h *harness) rate(ctx context.Context, db *database, sys system, l load, key string) (float64, error) {
	return h.steady(key, l.at, func(n int) (ran, error) {
		if err := sys.fill(ctx, n); err != nil {
			return ran{}, fmt.Errorf("fill: %w", err)
		}
		if err := db.settle(ctx); err != nil {
			return ran{}, err
		}
		return sys.run(ctx, n)
	})
}

// steady runs more and more executions, at least so many, and returns the rate of
// the first run that counts: one of half a turn at least, after another that warms
// the system up. The start of a run takes as long as hundreds of executions.
func (h *harness) steady(key string, least int, run func(n int) (ran, error)) (float64, error) {
	n := max(int(h.rates[key]*h.turn.Seconds()/8), least)
	for warm := false; ; warm = true {
		r, err := run(n)
		if err != nil {
			return 0, err
		}
		if warm && r.spent > h.turn/2 || r.spent > 2*h.turn { // too slow for another run
			h.rates[key] = r.rate()
			return r.rate(), nil
		}
		n = max(2*n, int(max(r.rate(), h.rates[key])*h.turn.Seconds()))
	}
}

// A countdown tells when the last of n steps or executions is done.
type countdown struct {
	left atomic.Int64
	done chan struct{}
}

func newCountdown(n int) *countdown {
	c := &countdown{done: make(chan struct{})}
	c.left.Store(int64(n))
	if n == 0 {
		close(c.done)
	}
	return c
}

func (c *countdown) tick() {
	if c.left.Add(-1) == 0 {
		close(c.done)
	}
}

// longest is how long is waited for work to be done.
const longest = 10 * time.Minute

// wait waits until all have ticked.
func (c *countdown) wait(ctx context.Context) error {
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(longest):
		return fmt.Errorf("%d are not done after %v", c.left.Load(), longest)
	}
}

// each calls f for 0 to n-1, at most at of them at once, and returns the first
// error.
func each(ctx context.Context, n, at int, f func(i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	ended := make(chan struct{})
	for range at {
		go func() {
			defer func() { ended <- struct{}{} }()
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := f(i); err != nil {
					cancel(err)
				}
			}
		}()
	}
	for range at {
		<-ended
	}
	return context.Cause(ctx)
}
