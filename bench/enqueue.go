package main

import (
	"context"
	"fmt"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// A producer enqueues executions of one step, which nobody runs.
type producer interface {
	one(ctx context.Context) error
	// many enqueues n in one call.
	many(ctx context.Context, n int) error
	// within enqueues one in a transaction of the caller's.
	within(ctx context.Context, tx pgx.Tx) error
	close()
}

// batch is how many executions are enqueued together.
const batch = 1000

// enqueue measures how many executions are enqueued in a second: one by one by
// one caller and by 16, many at a time, and one by one in transactions that
// also write a row of the caller's own.
func enqueue() []bench {
	var list []bench
	for _, p := range productions() {
		list = append(list, bench{
			name: p.name, figures: productionFigures, peers: p.peers,
			turn: func(ctx context.Context, h *harness, who string) ([]float64, error) {
				_, db, err := h.fresh(ctx, who)
				if err != nil {
					return nil, err
				}
				defer db.drop()
				rate, err := h.produce(ctx, db, who, p.how)
				return []float64{rate}, err
			},
		})
	}
	return list
}

var productionFigures = []figure{{unit: "executions/s"}}

// A production is a way to enqueue.
type production struct {
	name  string
	peers []string
	how   plan
}

// A plan returns what a producer is to do, by how many callers at once, and how
// many executions a call enqueues, which are batch where it is many.
type plan func(ctx context.Context, pool *pgxpool.Pool, p producer, batch int) (size, at int, call func(i int) error)

func productions() []production {
	single := func(at int) plan {
		return func(ctx context.Context, _ *pgxpool.Pool, p producer, _ int) (int, int, func(int) error) {
			return 1, at, func(int) error { return p.one(ctx) }
		}
	}
	return []production{
		{"enqueue-single", []string{"river", "dbos"}, single(1)},
		{"enqueue-single-16", []string{"river", "dbos"}, single(16)},
		{"enqueue-batch", []string{"river"}, func(ctx context.Context, _ *pgxpool.Pool, p producer, batch int) (int, int, func(int) error) {
			return batch, 1, func(int) error { return p.many(ctx, batch) }
		}},
		{"enqueue-tx", []string{"river", "dbos"}, func(ctx context.Context, pool *pgxpool.Pool, p producer, _ int) (int, int, func(int) error) {
			return 1, 1, func(i int) error {
				return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					if _, err := tx.Exec(ctx, "insert into orders (n) values ($1)", i); err != nil {
						return err
					}
					return p.within(ctx, tx)
				})
			}
		}},
	}
}

// produce returns how many executions a contestant enqueues in a second.
func (h *harness) produce(ctx context.Context, db *database, who string, how plan) (float64, error) {
	if _, err := db.pool.Exec(ctx, "create table if not exists orders (id bigint generated always as identity primary key, n bigint not null)"); err != nil {
		return 0, err
	}
	pool, err := newPool(ctx, db.url, 20, nil)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	p, err := newProducer(ctx, db, pool, who)
	if err != nil {
		return 0, err
	}
	defer p.close()
	size, at, call := how(ctx, pool, p, h.scaled(batch))
	rate := 0.0
	few := 10 * at
	if h.least {
		few = at
	}
	for n, warm := few, false; ; n, warm = max(2*n, int(rate*h.turn.Seconds()/float64(size)/2)), true {
		if err := db.settle(ctx); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := each(ctx, n, at, call); err != nil {
			return 0, err
		}
		spent := time.Since(start)
		db.waiting += n * size
		rate = float64(n*size) / spent.Seconds()
		if warm && spent > h.turn/4 {
			return rate, nil
		}
	}
}

// newProducer returns a producer in a database. The pool is for those that have
// none of their own.
func newProducer(ctx context.Context, db *database, pool *pgxpool.Pool, who string) (producer, error) {
	switch who {
	case courierName:
		nd, err := newNode(ctx, db.url, 0, nil)
		if err != nil {
			return nil, err
		}
		job, err := nd.define(ctx, 1, true)
		if err != nil {
			nd.close()
			return nil, err
		}
		return &courierProducer{nd, job}, nil
	case "river", "river-defaults":
		config := riverTuned
		if who == "river-defaults" {
			config = riverDefaults
		}
		client, err := newRiver(pool, config, 0, nil)
		return &riverProducer{client}, err
	case "dbos":
		client, err := dbos.NewClient(ctx, dbos.ClientConfig{AppName: "bench", SystemDBPool: pool, Logger: discard})
		return &dbosProducer{client}, err
	}
	return nil, fmt.Errorf("%s does not enqueue", who)
}

type courierProducer struct {
	*node
	job courier.Job
}

func (p *courierProducer) close() { _ = p.node.close() }

func (p *courierProducer) one(ctx context.Context) error { return p.numbered(ctx, 1) }

// numbered enqueues an execution whose step is told a number.
func (p *courierProducer) numbered(ctx context.Context, n int) error {
	_, err := p.engine.Enqueue(ctx, p.job.Name, &courier.EnqueueOptions{Params: map[string]any{"n": n}})
	return err
}

func (p *courierProducer) many(ctx context.Context, n int) error {
	list := make([]store.NewExecution, n)
	for i := range list {
		var err error
		if list[i], err = p.engine.Prepare(ctx, p.job.Name, &courier.EnqueueOptions{Version: p.job.Version}); err != nil {
			return err
		}
	}
	_, err := p.engine.EnqueueAll(ctx, list)
	return err
}

func (p *courierProducer) within(ctx context.Context, tx pgx.Tx) error {
	n, err := p.engine.Prepare(ctx, p.job.Name, &courier.EnqueueOptions{Version: p.job.Version})
	if err == nil {
		_, err = p.store.EnqueueTx(ctx, tx, []store.NewExecution{n})
	}
	return err
}

type riverProducer struct{ client *river.Client[pgx.Tx] }

func (p *riverProducer) close() {}

func (p *riverProducer) one(ctx context.Context) error { return p.numbered(ctx, 1) }

func (p *riverProducer) numbered(ctx context.Context, n int) error {
	_, err := p.client.Insert(ctx, riverArgs{N: n}, nil)
	return err
}

func (p *riverProducer) many(ctx context.Context, n int) error {
	_, err := p.client.InsertManyFast(ctx, riverBatch(n))
	return err
}

func (p *riverProducer) within(ctx context.Context, tx pgx.Tx) error {
	_, err := p.client.InsertTx(ctx, tx, riverArgs{N: 1}, nil)
	return err
}

type dbosProducer struct{ client dbos.Client }

func (p *dbosProducer) close() { _ = dbos.Shutdown(p.client, 10*time.Second) }

func (p *dbosProducer) one(context.Context) error {
	_, err := dbos.Enqueue[int](p.client, "bench", "dbosPipeline", 1)
	return err
}

func (p *dbosProducer) many(context.Context, int) error {
	return fmt.Errorf("dbos enqueues one by one")
}

func (p *dbosProducer) within(_ context.Context, tx pgx.Tx) error {
	_, err := dbos.Enqueue[int](p.client, "bench", "dbosPipeline", 1, dbos.WithEnqueueTransaction(tx))
	return err
}
