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
	// number, completed when the store has recorded that an execution is completed,
	// and claimed with how long a claim took that returned something.
	last      atomic.Pointer[func(n int)]
	completed atomic.Pointer[func()]
	claimed   atomic.Pointer[func(time.Duration)]
}

// A toldStore is the store of a node's engine, which tells the node what it has
// done. So nobody has to ask the database, whose answer takes the longer the more
// rows there are.
type toldStore struct {
	*pgstore.Store
	nd *node
}

// Apply writes as the store does.
func (s toldStore) Apply(ctx context.Context, t store.Transition) error {
	err := s.Store.Apply(ctx, t)
	if do := s.nd.completed.Load(); err == nil && t.To == courier.Completed && do != nil {
		(*do)()
	}
	return err
}

// Claim claims as the store does.
func (s toldStore) Claim(ctx context.Context, r store.ClaimRequest) (store.Claims, error) {
	start := time.Now()
	got, err := s.Store.Claim(ctx, r)
	spent := time.Since(start)
	if do := s.nd.claimed.Load(); err == nil && len(got.List) > 0 && do != nil {
		(*do)(spent)
	}
	return got, err
}

// awaits returns a countdown of executions that the node's engine completes.
func (nd *node) awaits(n int) *countdown {
	c := newCountdown(n)
	tick := c.tick
	nd.completed.Store(&tick)
	return c
}

// newNode opens a node in a database.
func newNode(ctx context.Context, url string, slots int, t *trips) (_ *node, err error) {
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
	nd.reg = reg
	nd.engine = engine.New(toldStore{nd.store, nd}, reg, &engine.Options{Workspace: nd.dir, Slots: slots})
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
		if list[i], err = nd.engine.Prepare(ctx, job.Name, &courier.EnqueueOptions{Version: job.Version}); err != nil {
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
	job courier.Job
}

func openCourier(ctx context.Context, db *database, l load, t *trips) (system, error) {
	nd, err := newNode(ctx, db.url, l.at, t)
	if err != nil {
		return nil, err
	}
	job, err := nd.define(ctx, l.steps, false)
	if err != nil {
		return nil, errors.Join(err, nd.close())
	}
	return &courierSystem{nd, job}, nil
}

func (s *courierSystem) close() { _ = s.node.close() }

func (s *courierSystem) fill(ctx context.Context, n int) error { return s.node.fill(ctx, s.job, n) }

func (s *courierSystem) run(ctx context.Context, n int) (ran, error) {
	count := s.awaits(n)
	start := time.Now()
	if err := s.engine.Start(ctx); err != nil {
		return ran{}, err
	}
	err := count.wait(ctx)
	r := since(start, n)
	return r, errors.Join(err, s.engine.Stop(context.WithoutCancel(ctx)))
}
