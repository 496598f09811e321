package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// How River is set up: as its own benchmark does, and at its defaults.
var (
	riverTuned    = river.Config{FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond}
	riverDefaults = river.Config{}
)

type riverArgs struct {
	N int `json:"n"`
}

func (riverArgs) Kind() string { return "bench" }

// A riverWorker calls a function for every job.
type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	do func(n int)
}

func (w *riverWorker) Work(_ context.Context, job *river.Job[riverArgs]) error {
	w.do(job.Args.N)
	return nil
}

func migrateRiver(ctx context.Context, url string) error {
	pool, err := newPool(ctx, url, 2, nil)
	if err != nil {
		return err
	}
	defer pool.Close()
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: discard})
	if err != nil {
		return err
	}
	_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

var discard = slog.New(slog.DiscardHandler)

// newRiver returns a client that works on the default queue with so many
// workers, or only inserts if there are none.
func newRiver(pool *pgxpool.Pool, config river.Config, most int, do func(n int)) (*river.Client[pgx.Tx], error) {
	config.Logger = discard
	if most > 0 {
		config.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: most}}
		config.Workers = river.NewWorkers()
		river.AddWorker(config.Workers, &riverWorker{do: do})
	}
	return river.NewClient(riverpgxv5.New(pool), &config)
}

// A riverSystem runs loads of one step as jobs of River.
type riverSystem struct {
	db     *database
	pool   *pgxpool.Pool
	config river.Config
	at     int
}

func openRiver(config river.Config) func(context.Context, *database, load, *trips) (system, error) {
	return func(ctx context.Context, db *database, l load, t *trips) (system, error) {
		pool, err := newPool(ctx, db.url, 20, t)
		if err != nil {
			return nil, err
		}
		return &riverSystem{db: db, pool: pool, config: config, at: l.at}, nil
	}
}

func (s *riverSystem) close() { s.pool.Close() }

func riverBatch(n int) []river.InsertManyParams {
	list := make([]river.InsertManyParams, n)
	for i := range list {
		list[i].Args = riverArgs{N: i}
	}
	return list
}

func (s *riverSystem) fill(ctx context.Context, n int) error {
	client, err := newRiver(s.pool, s.config, 0, nil)
	if err != nil {
		return err
	}
	for n > 0 {
		batch := min(n, 5000)
		if _, err := client.InsertManyFast(ctx, riverBatch(batch)); err != nil {
			return err
		}
		n -= batch
	}
	return nil
}

func (s *riverSystem) run(ctx context.Context, n int) (ran, error) {
	count := newCountdown(n)
	client, err := newRiver(s.pool, s.config, s.at, func(int) { count.tick() })
	if err != nil {
		return ran{}, err
	}
	start := time.Now()
	if err := client.Start(ctx); err != nil {
		return ran{}, err
	}
	defer client.Stop(context.WithoutCancel(ctx))
	if err := count.wait(ctx); err != nil {
		return ran{}, err
	}
	err = s.db.drained(ctx, "select exists (select from river_job where state in ('available', 'running', 'retryable', 'scheduled'))")
	return since(start, n), err
}
