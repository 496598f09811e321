package main

import (
	"context"
	"fmt"
	"time"

	"github.com/courierhq/courier"
)

// latency measures one execution of ten steps on an idle system: from the call
// that enqueues it until its caller knows that it is completed, and what of
// that is work, from the claim on.
func latency() []bench {
	return []bench{{
		name: latencyName, figures: latencyFigures, peers: []string{bareCommits, "dbos"},
		turn: func(ctx context.Context, h *harness, who string) ([]float64, error) {
			switch who {
			case courierName:
				_, db, err := h.fresh(ctx, who)
				if err != nil {
					return nil, err
				}
				defer db.drop()
				return h.courierLatency(ctx, db)
			case bareCommits:
				ms, err := h.commits(ctx, 10)
				return []float64{ms, ms}, err
			}
			ms, err := h.dbosLatency(ctx)
			return []float64{ms, ms}, err
		},
	}}
}

const latencyName = "latency-10x1"

var latencyFigures = []figure{{unit: "ms", less: true}, {name: "from-claim", unit: "ms", less: true}}

// repeated calls f again and again during a turn, after a few calls that don't
// count, and returns the median of what it returns.
func (h *harness) repeated(f func() ([]float64, error)) ([]float64, error) {
	var all [][]float64
	least, cold := 25, 10
	if h.least {
		least, cold = 2, 1
	}
	start := time.Now()
	for i := 0; i < least || time.Since(start) < h.turn/2; i++ {
		v, err := f()
		if err != nil {
			return nil, err
		}
		if i >= cold {
			all = append(all, v)
		}
	}
	middle := make([]float64, len(all[0]))
	for i := range middle {
		middle[i] = column(all, i)
	}
	return middle, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (h *harness) courierLatency(ctx context.Context, db *database) ([]float64, error) {
	nd, err := newNode(ctx, db.url, 0, nil)
	if err != nil {
		return nil, err
	}
	defer nd.close()
	job, err := nd.define(ctx, 10, false)
	if err != nil {
		return nil, err
	}
	if err := nd.engine.Start(ctx); err != nil {
		return nil, err
	}
	return h.repeated(func() ([]float64, error) {
		start := time.Now()
		x, err := nd.engine.Enqueue(ctx, job.Name, nil)
		if err == nil {
			x, err = nd.engine.Wait(ctx, x.ID)
		}
		total := time.Since(start)
		if err != nil {
			return nil, err
		}
		if x.State != courier.Completed || x.StartedAt.IsZero() {
			return nil, fmt.Errorf("execution %s is %s", x.ID, x.State)
		}
		return []float64{milliseconds(total), milliseconds(x.EndedAt.Sub(x.StartedAt))}, nil
	})
}

// commits returns the milliseconds that n commits take, each of an update of
// one small row.
func (h *harness) commits(ctx context.Context, n int) (float64, error) {
	db, err := h.srv.fresh(ctx, "raw", migrateRaw(twoTables))
	if err != nil {
		return 0, err
	}
	defer db.drop()
	if _, err := db.pool.Exec(ctx, "create table counter (id int primary key, n bigint not null)"); err != nil {
		return 0, err
	}
	if _, err := db.pool.Exec(ctx, "insert into counter values (1, 0)"); err != nil {
		return 0, err
	}
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	v, err := h.repeated(func() ([]float64, error) {
		start := time.Now()
		for range n {
			if _, err := conn.Exec(ctx, "update counter set n = n + 1 where id = $1", 1); err != nil {
				return nil, err
			}
		}
		return []float64{milliseconds(time.Since(start))}, nil
	})
	if err != nil {
		return 0, err
	}
	return v[0], nil
}

func (h *harness) dbosLatency(ctx context.Context) (float64, error) {
	m, db, err := h.fresh(ctx, "dbos")
	if err != nil {
		return 0, err
	}
	defer db.drop()
	sys, err := m.open(ctx, db, load{steps: 10, at: 1}, nil)
	if err != nil {
		return 0, err
	}
	defer sys.close()
	v, err := h.repeated(func() ([]float64, error) {
		r, err := sys.run(ctx, 1)
		return []float64{milliseconds(r.spent)}, err
	})
	if err != nil {
		return 0, err
	}
	return v[0], nil
}
