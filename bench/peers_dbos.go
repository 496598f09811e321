package main

import (
	"context"
	"fmt"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool"
)

func migrateDBOS(ctx context.Context, url string) error {
	pool, err := newPool(ctx, url, 4, nil)
	if err != nil {
		return err
	}
	defer pool.Close()
	d, err := newDBOS(ctx, pool)
	if err != nil {
		return err
	}
	if err := dbos.Launch(d); err != nil {
		return err
	}
	return dbos.Shutdown(d, 10*time.Second)
}

func newDBOS(ctx context.Context, pool *pgxpool.Pool) (dbos.Context, error) {
	return dbos.NewContext(ctx, dbos.Config{
		AppName: "bench", SystemDBPool: pool, Logger: discard,
		ApplicationVersion: "1", ExecutorID: "bench",
	})
}

// dbosPool is the number of connections that DBOS makes where it is given a
// URL.
const dbosPool = 20

// dbosPipeline is a workflow of so many steps that do nothing.
func dbosPipeline(ctx dbos.Context, steps int) (int, error) {
	sum := 0
	for i := range steps {
		n, err := dbos.RunAsStep(ctx, func(context.Context) (int, error) { return i, nil }, dbos.WithStepName("nothing"))
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// A dbosSystem runs workflows directly, each by one of the callers, which
// suits DBOS best: its queues poll once a second. What runs directly can't be
// prepared, so that fill does nothing.
type dbosSystem struct {
	db   *database
	pool *pgxpool.Pool
	ctx  dbos.Context
	load load
}

func openDBOS(ctx context.Context, db *database, l load, t *trips) (system, error) {
	pool, err := newPool(ctx, db.url, dbosPool, t)
	if err != nil {
		return nil, err
	}
	d, err := newDBOS(ctx, pool)
	if err != nil {
		pool.Close()
		return nil, err
	}
	dbos.RegisterWorkflow(d, dbosPipeline)
	if err := dbos.Launch(d); err != nil {
		pool.Close()
		return nil, err
	}
	return &dbosSystem{db: db, pool: pool, ctx: d, load: l}, nil
}

func (s *dbosSystem) close() {
	_ = dbos.Shutdown(s.ctx, 10*time.Second)
	s.pool.Close()
}

func (s *dbosSystem) fill(context.Context, int) error { return nil }

func (s *dbosSystem) one() error {
	handle, err := dbos.RunWorkflow(s.ctx, dbosPipeline, s.load.steps)
	if err != nil {
		return err
	}
	_, err = handle.GetResult()
	return err
}

func (s *dbosSystem) run(ctx context.Context, n int) (ran, error) {
	start := time.Now()
	if err := each(ctx, n, s.load.at, func(int) error { return s.one() }); err != nil {
		return ran{}, fmt.Errorf("workflow: %w", err)
	}
	return since(start, n), nil
}
