package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
)

// history measures it all again, with millions of finished executions in the
// tables, against that with none, and how long a claim takes then.
func history() []bench {
	var list []bench
	for _, size := range []struct {
		name string
		n    int
	}{{"1m", 1_000_000}, {"5m", 5_000_000}} {
		measured := func(name string, figures []figure, turn func(ctx context.Context, h *harness, db *database, key string) ([]float64, error)) bench {
			name = "history-" + size.name + "-" + name
			return bench{
				name: name, figures: figures, peers: []string{emptyTables},
				turn: func(ctx context.Context, h *harness, who string) ([]float64, error) {
					db, err := h.withPast(ctx, who, h.scaled(size.n))
					if err != nil {
						return nil, err
					}
					if who == emptyTables {
						defer db.drop()
					} else {
						for _, f := range figures {
							h.notes[fullName(name, f)] = fmt.Sprintf("%d finished executions", h.past.n)
						}
					}
					return turn(ctx, h, db, name+who)
				},
			}
		}
		pipelines := func(l load, per float64) func(context.Context, *harness, *database, string) ([]float64, error) {
			return func(ctx context.Context, h *harness, db *database, key string) ([]float64, error) {
				sys, err := openCourier(ctx, db, l, nil)
				if err != nil {
					return nil, err
				}
				defer sys.close()
				rate, err := h.rate(ctx, db, sys, l, key)
				return []float64{rate * per}, err
			}
		}
		for _, at := range []int{1, 16, 64, 256} {
			list = append(list, measured(fmt.Sprintf("steps-10x%d", at), []figure{{unit: "steps/s"}}, pipelines(load{10, at}, 10)))
		}
		for _, at := range []int{1, 16, 64, 100, 256} {
			list = append(list, measured(fmt.Sprintf("executions-1x%d", at), []figure{{unit: "executions/s"}}, pipelines(load{1, at}, 1)))
		}
		list = append(list, measured("claim-p99", []figure{{unit: "ms", less: true}},
			func(ctx context.Context, h *harness, db *database, _ string) ([]float64, error) {
				ms, err := h.claims(ctx, db)
				return []float64{ms}, err
			}))
		for _, m := range measures() {
			list = append(list, measured(m.name, m.figures,
				func(ctx context.Context, h *harness, db *database, _ string) ([]float64, error) {
					return m.of(ctx, h, db)
				}))
		}
	}
	return list
}

// A past is a database in which many executions have finished.
type past struct {
	db    *database
	model courier.ExecutionID // whose records are copied
	n     int
}

// withPast returns the database in which so many executions have finished, which
// stays, or a fresh one for those who want empty tables.
func (h *harness) withPast(ctx context.Context, who string, n int) (*database, error) {
	if who == emptyTables {
		_, db, err := h.fresh(ctx, courierName)
		return db, err
	}
	if h.past == nil {
		_, db, err := h.fresh(ctx, courierName)
		if err != nil {
			return nil, err
		}
		h.past = &past{db: db}
		if h.past.model, err = oneFinished(ctx, db); err != nil {
			return nil, err
		}
	}
	return h.past.db, h.fillPast(ctx, n)
}

// oneFinished runs an execution of one step to its end.
func oneFinished(ctx context.Context, db *database) (courier.ExecutionID, error) {
	nd, err := newNode(ctx, db.url, 1, nil)
	if err != nil {
		return "", err
	}
	job := courier.Job{Name: "past", Steps: []courier.StepSpec{{Type: "bench.nothing", Config: map[string]any{"n": 1}}}}
	x, err := nd.engine.Run(ctx, job, nil)
	return x.ID, errors.Join(err, nd.close())
}

// maxFilling is how long the filling may take where time is short.
const maxFilling = 15 * time.Second

// fillPast copies what the first execution left until n have finished, or as
// many as there is time for. The ids and instants lie before those of what is
// measured.
func (h *harness) fillPast(ctx context.Context, n int) error {
	const chunk = 50_000
	p := h.past
	if p.n >= n || p.n > 0 && h.quick {
		return nil
	}
	start := time.Now()
	defer func() { h.filled += time.Since(start) }()
	for p.n < n && (!h.quick || time.Since(start) < maxFilling) {
		var parts sync.WaitGroup
		tables := []string{"job_executions", "execution_history"}
		errs := make([]error, 2)
		for i, list := range [][]string{tables[:1], tables[1:]} {
			parts.Go(func() {
				for _, table := range list {
					errs[i] = errors.Join(errs[i], p.copy(ctx, table, p.n+1, min(p.n+chunk, n)))
				}
			})
		}
		parts.Wait()
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("fill the tables: %w", err)
		}
		if p.n = min(p.n+chunk, n); p.n%500_000 == 0 {
			h.say("history: %d executions after %.0f s", p.n, time.Since(start).Seconds())
		}
	}
	// Sessions tell the server what they have written at their end at the latest.
	// What it learns after it has cleaned up makes it clean up once more, beside what
	// is measured.
	p.db.pool.Reset()
	_, err := p.db.pool.Exec(ctx, "vacuum analyze")
	h.say("history: %d executions after %.0f s, vacuumed", p.n, time.Since(start).Seconds())
	return errors.Join(err, p.db.settle(ctx))
}

// copy inserts the rows of a table that belong to the model again, for the
// executions of the numbers from to to.
func (p *past) copy(ctx context.Context, table string, from, to int) error {
	rows, err := p.db.pool.Query(ctx, `select column_name::text, data_type::text from information_schema.columns
		where table_schema = 'courier' and table_name = $1 and is_generated = 'NEVER' order by ordinal_position`, table)
	if err != nil {
		return err
	}
	type column struct{ Name, Type string }
	columns, err := pgx.CollectRows(rows, pgx.RowToStructByPos[column])
	if err != nil {
		return err
	}
	key := "execution_id"
	if slices.ContainsFunc(columns, func(c column) bool { return c.Name == "id" }) {
		key = "id"
	}
	var names, values []string
	for _, c := range columns {
		value := "m." + c.Name
		switch {
		case c.Name == key:
			value = "i.id"
		case strings.HasPrefix(c.Type, "timestamp"):
			value += " - i.ago"
		}
		names, values = append(names, c.Name), append(values, value)
	}
	sql := fmt.Sprintf(`insert into courier.%s (%s) select %s from (%s) i
		cross join (select * from courier.%[1]s where %[5]s = $3::uuid) m`, table, strings.Join(names, ", "), strings.Join(values, ", "), pastIDs, key)
	tx, err := p.db.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if _, err := tx.Exec(ctx, "set local synchronous_commit = off"); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, sql, from, to, string(p.model)); err != nil {
		return fmt.Errorf("%s: %w", table, err)
	}
	return tx.Commit(ctx)
}

// pastIDs makes the ids of executions, of version 7 and of the year 2020, and how
// long ago they were.
const pastIDs = `select (lpad(to_hex(1600000000000 + i), 12, '0') || '70008000000000000000')::uuid as id,
	(5000001 - i) * interval '1 second' as ago from generate_series($1::int, $2::int) i offset 0`

// claims returns the 99th percentile of the milliseconds that a claim takes in
// an engine that gets 500 executions a second.
func (h *harness) claims(ctx context.Context, db *database) (float64, error) {
	const perSecond, together = 500, 5
	nd, err := newNode(ctx, db.url, 0, nil)
	if err != nil {
		return 0, err
	}
	defer nd.close()
	job, err := nd.define(ctx, 1, false)
	if err != nil {
		return 0, err
	}
	var mu sync.Mutex
	var times []float64 // ms
	note := func(spent time.Duration) {
		mu.Lock()
		times = append(times, milliseconds(spent))
		mu.Unlock()
	}
	nd.claimed.Store(&note)
	n := max(int(perSecond/together*h.turn.Seconds())*2, 5)
	count := nd.awaits(n * together)
	if err := db.settle(ctx); err != nil {
		return 0, err
	}
	if err := nd.engine.Start(ctx); err != nil {
		return 0, err
	}
	next := time.Now()
	for range n {
		next = next.Add(time.Second * together / perSecond)
		time.Sleep(time.Until(next))
		if err := nd.fill(ctx, job, together); err != nil {
			return 0, err
		}
	}
	if err := count.wait(ctx); err != nil {
		return 0, err
	}
	mu.Lock()
	defer mu.Unlock()
	return quantile(times[len(times)/5:], 0.99), nil // without those that warmed it up
}
