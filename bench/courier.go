package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

func migrateCourier(ctx context.Context, url string) error {
	pool, err := newPool(ctx, url, 2, nil)
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = pgstore.Migrate(ctx, pool, nil)
	return err
}

// stillOpen asks whether executions are waiting or running.
const stillOpen = `select exists (select from courier.job_executions where state = 'queued')
	or exists (select from courier.job_executions where state = 'running')`

// A nothingConfig is the configuration of the step that does nothing.
type nothingConfig struct {
	N    int  `json:"n"`
	Last bool `json:"last"`
}

type nothingOutput struct {
	N int `json:"n"`
}

// A node is an engine of Courier's with what it needs, as a process has it.
type node struct {
	pool   *pgxpool.Pool
	store  *pgstore.Store
	engine *engine.Engine
	reg    *courier.Registry
	dir    string // of workspaces
	slots  int
	// last is called when the last step of an execution is executed, with its
	// number.
	last atomic.Pointer[func(n int)]
}

// newNode opens a node in a database. Around, if not nil, stands between the
// engine and its store.
func newNode(ctx context.Context, url string, slots int, t *trips, around func(store.Store) store.Store) (_ *node, err error) {
	nd := &node{slots: slots}
	defer func() {
		if err != nil {
			nd.close()
		}
	}()
	if nd.pool, err = newPool(ctx, url, 20, t); err != nil {
		return nil, err
	}
	if nd.store, err = pgstore.New(ctx, nd.pool, nil); err != nil {
		return nil, err
	}
	if err = nd.store.Set(ctx, store.LimitSetting(""), "0"); err != nil {
		return nil, err
	}
	if nd.dir, err = os.MkdirTemp("", "courier-bench-"); err != nil {
		return nil, err
	}
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "bench.nothing", func(_ context.Context, _ *courier.Context, cfg nothingConfig) (nothingOutput, error) {
		if do := nd.last.Load(); cfg.Last && do != nil {
			(*do)(cfg.N)
		}
		return nothingOutput{cfg.N}, nil
	}, nil)
	var s store.Store = nd.store
	if around != nil {
		s = around(s)
	}
	nd.reg = reg
	nd.engine = engine.New(s, reg, &engine.Options{Workspace: nd.dir, Slots: slots})
	return nd, nil
}

func (nd *node) close() error {
	var err error
	if nd.engine != nil {
		err = nd.engine.Stop(context.Background())
	}
	if nd.store != nil {
		nd.store.Close()
	}
	if nd.pool != nil {
		nd.pool.Close()
	}
	if nd.dir != "" {
		err = errors.Join(err, os.RemoveAll(nd.dir))
	}
	return err
}

// define saves a pipeline of steps that do nothing. If numbered, the parameter
// n reaches the last one.
func (nd *node) define(ctx context.Context, steps int, numbered bool) (courier.Job, error) {
	job := courier.Job{Name: fmt.Sprintf("nothing-%d", steps)}
	for i := range steps {
		config := map[string]any{"n": i}
		if i == steps-1 {
			config["last"] = true
			if numbered {
				job.Name += "-numbered"
				job.Params = map[string]any{"n": 0}
				config["n"] = "context:params.n"
			}
		}
		job.Steps = append(job.Steps, courier.StepSpec{Type: "bench.nothing", Config: config})
	}
	d, err := nd.engine.Jobs().Define(ctx, job, nil)
	return d.Job, err
}

// prepare returns n new executions of a job, as a host makes them.
func (nd *node) prepare(ctx context.Context, job courier.Job, n int) ([]store.NewExecution, error) {
	list := make([]store.NewExecution, n)
	for i := range list {
		var err error
		if list[i], err = nd.engine.Prepare(ctx, job.Name, &engine.EnqueueOptions{Version: job.Version}); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// fill enqueues n executions of a job.
func (nd *node) fill(ctx context.Context, job courier.Job, n int) error {
	for n > 0 {
		batch := min(n, 5000)
		list, err := nd.prepare(ctx, job, batch)
		if err != nil {
			return err
		}
		if _, err := nd.store.Enqueue(ctx, list); err != nil {
			return err
		}
		n -= batch
	}
	return nil
}

// A courierSystem runs loads as executions of Courier.
type courierSystem struct {
	*node
	db  *database
	job courier.Job
}

func openCourier(ctx context.Context, db *database, l load, t *trips) (system, error) {
	nd, err := newNode(ctx, db.url, l.at, t, nil)
	if err != nil {
		return nil, err
	}
	job, err := nd.define(ctx, l.steps, false)
	if err != nil {
		return nil, errors.Join(err, nd.close())
	}
	return &courierSystem{node: nd, db: db, job: job}, nil
}

func (s *courierSystem) close() { _ = s.node.close() }

func (s *courierSystem) fill(ctx context.Context, n int) error { return s.node.fill(ctx, s.job, n) }

func (s *courierSystem) run(ctx context.Context, n int) (ran, error) {
	count := newCountdown(n)
	tick := func(int) { count.tick() }
	s.last.Store(&tick)
	start := time.Now()
	if err := s.engine.Start(ctx); err != nil {
		return ran{}, err
	}
	err := count.wait(ctx)
	if err == nil {
		err = s.db.drained(ctx, stillOpen)
	}
	r := since(start, n)
	return r, errors.Join(err, s.engine.Stop(context.WithoutCancel(ctx)))
}
