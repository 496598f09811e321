package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// schedules measures how long it takes until 100,000 schedules that are due at
// once have all fired, what a look at the schedules costs with a million of them
// of which none is due, and how late ticks are on an idle system.
func schedules() []bench {
	return []bench{{
		name: "schedules-100k", figures: []figure{{unit: "s", less: true}}, once: true,
		turn: func(ctx context.Context, h *harness, _ string) ([]float64, error) {
			const many = 100_000
			return h.scheduled(ctx, func(nd *node, db *database) ([]float64, error) { return fireMany(ctx, nd, db, h.scaled(many)) })
		},
	}, {
		name: "schedules-1m-idle", figures: []figure{{unit: "ms", less: true}}, peers: []string{emptyTables},
		once: true,
		turn: func(ctx context.Context, h *harness, who string) ([]float64, error) {
			return h.scheduled(ctx, func(nd *node, db *database) ([]float64, error) {
				if who == courierName {
					if err := fillSchedules(ctx, nd, db, h.scaled(1_000_000), time.Hour); err != nil {
						return nil, err
					}
				}
				return h.repeated(func() ([]float64, error) { return lookOnce(ctx, nd) })
			})
		},
	}, {
		name: "tick-late", figures: []figure{{name: "p50", unit: "ms", less: true}, {name: "p99", unit: "ms", less: true}},
		turn: func(ctx context.Context, h *harness, _ string) ([]float64, error) {
			return h.scheduled(ctx, func(nd *node, _ *database) ([]float64, error) { return ticksLate(ctx, nd, 2*h.turn+2*time.Second) })
		},
	}}
}

// scheduled measures with a node in a fresh database, where the job to be
// scheduled is defined.
func (h *harness) scheduled(ctx context.Context, measure func(*node, *database) ([]float64, error)) ([]float64, error) {
	_, db, err := h.fresh(ctx, courierName)
	if err != nil {
		return nil, err
	}
	defer db.drop()
	nd, err := newNode(ctx, db.url, 0, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = nd.close() }()
	if _, err := nd.define(ctx, 1, false); err != nil {
		return nil, err
	}
	return measure(nd, db)
}

// fillSchedules makes n hourly schedules whose next tick comes after d: one by
// the engine, the others as its copies.
func fillSchedules(ctx context.Context, nd *node, db *database, n int, d time.Duration) error {
	_, err := nd.engine.Schedules().Set(ctx, schedule.Schedule{Name: "s0", Job: "nothing-1", Every: time.Hour}, courier.By{})
	if err != nil {
		return err
	}
	columns := "saved_at, revision, disabled, paused, waiting, consecutive_failures, reason, problem, last_fire_at, last_execution_id, open_execution_ids"
	for _, sql := range []string{
		fmt.Sprintf(`insert into courier.job_schedules (name, target, body, next_fire_at, due_at, %s)
			select 's' || n, target, replace(body, '"s0"', '"s' || n || '"'), at.at, at.at, %[1]s
			from courier.job_schedules, generate_series(1, %d) n, (select date_trunc('second', clock_timestamp()) + interval '%d milliseconds' as at) at`,
			columns, n-1, d.Milliseconds()),
		fmt.Sprintf("update courier.job_schedules set next_fire_at = o.next_fire_at, due_at = o.due_at from (select next_fire_at, due_at from courier.job_schedules where name = 's%d') o where name = 's0'", n-1),
	} {
		if _, err := db.pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("fill the schedules: %w", err)
		}
	}
	return db.settle(ctx)
}

// firings is a store that counts the executions that schedules start.
type firings struct {
	*pgstore.Store
	count *countdown
}

// FireSchedules counts what the store's Fire has created.
func (f *firings) FireSchedules(ctx context.Context, list []schedule.Firing) ([]schedule.Fired, error) {
	fired, err := f.Store.FireSchedules(ctx, list)
	for i := range fired {
		for range fired[i].Executions {
			f.count.tick()
		}
	}
	return fired, err
}

// fireMany returns the seconds until n schedules that are due at once have
// fired.
func fireMany(ctx context.Context, nd *node, db *database, n int) ([]float64, error) {
	if err := fillSchedules(ctx, nd, db, n, 0); err != nil {
		return nil, err
	}
	// An engine of its own, which serves a queue that is empty, so that only firing
	// is measured.
	seen := &firings{Store: nd.store, count: newCountdown(n)}
	e := engine.New(seen, nd.reg, &engine.Options{Workspace: nd.dir, Queues: []string{"none"}})
	start := time.Now()
	if err := e.Start(ctx); err != nil {
		return nil, err
	}
	defer func() { _ = e.Stop(context.WithoutCancel(ctx)) }()
	if err := seen.count.wait(ctx); err != nil {
		return nil, err
	}
	spent := time.Since(start)
	var fired int
	if err := db.pool.QueryRow(ctx, "select count(*) from courier.job_executions").Scan(&fired); err != nil {
		return nil, err
	}
	if fired != n {
		return nil, fmt.Errorf("%d executions of %d schedules", fired, n)
	}
	return []float64{spent.Seconds()}, nil
}

// lookOnce returns the milliseconds that a look takes while nothing is due.
func lookOnce(ctx context.Context, nd *node) ([]float64, error) {
	start := time.Now()
	d, err := nd.store.DueSchedules(ctx, 1000, time.Minute)
	if err == nil && len(d.List) > 0 {
		err = fmt.Errorf("%d schedules are due", len(d.List))
	}
	return []float64{milliseconds(time.Since(start))}, err
}

// ticksLate returns by how many milliseconds executions are created later than
// their ticks demand.
func ticksLate(ctx context.Context, nd *node, d time.Duration) ([]float64, error) {
	const many, jitter = 20, 900 * time.Millisecond
	for i := range many {
		s := schedule.Schedule{Name: fmt.Sprint("s", i), Job: "nothing-1", Every: time.Second, Jitter: jitter}
		if _, err := nd.engine.Schedules().Set(ctx, s, courier.By{}); err != nil {
			return nil, err
		}
	}
	if err := nd.engine.Start(ctx); err != nil {
		return nil, err
	}
	time.Sleep(d)
	if err := nd.engine.Stop(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	list, err := nd.store.Executions(ctx, store.Filter{Limit: 1000})
	if err != nil {
		return nil, err
	}
	var late []float64
	for _, x := range list {
		parts := strings.SplitN(x.IdempotencyKey, ":", 3)
		tick, err := time.Parse(time.RFC3339Nano, parts[len(parts)-1])
		if err != nil {
			return nil, err
		}
		late = append(late, milliseconds(x.CreatedAt.Sub(schedule.TickAt(parts[1], tick, jitter))))
	}
	if len(late) < many {
		return nil, fmt.Errorf("only %d ticks have fired", len(late))
	}
	return []float64{median(late), quantile(late, 0.99)}, nil
}
