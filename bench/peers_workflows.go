package main

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/postgres"
	"github.com/cschleiden/go-workflows/client"
	"github.com/cschleiden/go-workflows/worker"
	"github.com/cschleiden/go-workflows/workflow"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

func openSQL(url string, t *trips) (*sql.DB, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	t.count(config)
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(100) // as in its own benchmark
	return db, nil
}

func migrateWorkflows(_ context.Context, url string) (err error) {
	db, err := openSQL(url, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	defer func() {
		if p := recover(); p != nil { // its way to report errors
			err = fmt.Errorf("%v", p)
		}
	}()
	return postgres.NewPostgresBackendWithDB(db, postgres.WithApplyMigrations(true)).Close()
}

// A workflowsSystem runs go-workflows with the settings of its own benchmark,
// except that it polls a hundred times a second, not five.
type workflowsSystem struct {
	db     *database
	sql    *sql.DB
	client *client.Client
	load   load
	made   atomic.Int64
	steps  atomic.Int64  // executed
	ended  chan struct{} // an execution has run its last step; nobody may be waiting
	stop   func()
}

func openWorkflows(ctx context.Context, db *database, l load, t *trips) (system, error) {
	pool, err := openSQL(db.url, t)
	if err != nil {
		return nil, err
	}
	b := postgres.NewPostgresBackendWithDB(pool, postgres.WithBackendOptions(backend.WithLogger(discard)))
	s := &workflowsSystem{db: db, sql: pool, client: client.New(b), load: l, ended: make(chan struct{}, l.at)}
	options := worker.DefaultOptions
	options.WorkflowExecutorCacheSize = max(128, 2*l.at)
	options.WorkflowPollingInterval, options.ActivityPollingInterval = 10*time.Millisecond, 10*time.Millisecond
	w := worker.New(b, &options)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = func() {
		cancel()
		_ = w.WaitForCompletion()
	}
	err = w.RegisterWorkflow(workflowsPipeline)
	if err == nil {
		err = w.RegisterActivity(s.nothing)
	}
	if err == nil {
		err = w.Start(ctx)
	}
	if err != nil {
		cancel()
		pool.Close()
		return nil, err
	}
	return s, nil
}

func workflowsPipeline(ctx workflow.Context, steps int) (int, error) {
	sum := 0
	for i := range steps {
		n, err := workflow.ExecuteActivity[int](ctx, workflow.DefaultActivityOptions, "nothing", i, i == steps-1).Get(ctx)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

func (s *workflowsSystem) nothing(_ context.Context, i int, last bool) (int, error) {
	s.steps.Add(1)
	if last {
		select {
		case s.ended <- struct{}{}:
		default:
		}
	}
	return i, nil
}

func (s *workflowsSystem) close() {
	s.stop()
	s.sql.Close()
}

func (s *workflowsSystem) fill(context.Context, int) error { return nil }

// workflowsMost is how long a run goes on. With many executions at once it
// takes long until the first of them has ended.
const workflowsMost = 6 * time.Second

func (s *workflowsSystem) run(ctx context.Context, n int) (ran, error) {
	before := s.steps.Load()
	start := time.Now()
	limited, cancel := context.WithTimeout(ctx, workflowsMost)
	defer cancel()
	err := each(limited, n, s.load.at, func(int) error {
		id := fmt.Sprintf("bench-%d", s.made.Add(1))
		if _, err := s.client.CreateWorkflowInstance(ctx, client.WorkflowInstanceOptions{InstanceID: id}, workflowsPipeline, s.load.steps); err != nil {
			return err
		}
		select {
		case <-s.ended:
			return nil
		case <-limited.Done():
			return limited.Err()
		}
	})
	if done := s.steps.Load() - before; err != nil && limited.Err() != nil && ctx.Err() == nil && done > 0 {
		return ran{float64(done) / float64(s.load.steps), time.Since(start)}, nil
	}
	if err != nil {
		return ran{}, fmt.Errorf("workflow: %w", err)
	}
	err = s.db.drained(ctx, "select exists (select from instances where completed_at is null)")
	return since(start, n), err
}
