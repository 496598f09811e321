package main

import (
	"context"
	"errors"

	"github.com/courierhq/courier"
)

// cost measures what a step costs: WAL without full-page images, commits,
// round trips, dead tuples, and the time of the processors on both sides, in
// pipelines of ten with 64 at once, and the same for executions of one step
// with 100 at once. The last tells whether a step costs more the more steps
// went before it.
func cost() []bench {
	costs := func(name string, l load, per int, unit string, peers []string) bench {
		return bench{
			name: name, peers: peers,
			figures: []figure{
				{name: "wal", unit: "B/" + unit, less: true},
				{name: "commits", unit: "1/" + unit, less: true},
				{name: "trips", unit: "1/" + unit, less: true},
				{name: "dead", unit: "tuples/" + unit, less: true},
				{name: "client-cpu", unit: "us/" + unit, less: true},
				{name: "server-cpu", unit: "us/" + unit, less: true},
			},
			turn: func(ctx context.Context, h *harness, who string) ([]float64, error) {
				return h.costs(ctx, who, l, per)
			},
		}
	}
	var early float64
	return []bench{
		costs("cost-steps-10x64", load{steps: 10, at: 64}, 10, "step", []string{"dbos", "go-workflows", "raw", "raw-history", "raw-history-2"}),
		costs("cost-executions-1x100", load{steps: 1, at: 100}, 1, "execution", []string{"river", "dbos", "raw", "raw-history", "raw-history-2"}),
		{
			name: "cost-late-wal", peers: []string{firstSteps}, figures: []figure{{unit: "B/step", less: true}},
			turn: func(ctx context.Context, h *harness, who string) (v []float64, err error) {
				if who == firstSteps {
					return []float64{early}, nil
				}
				var late float64
				steps, part := 1000, 100
				if h.least {
					steps, part = 60, 20
				}
				early, late, err = h.growth(ctx, steps, part)
				return []float64{late}, err
			},
		},
	}
}

// costs runs a load and returns what a step of it costs, if an execution has
// so many.
func (h *harness) costs(ctx context.Context, who string, l load, per int) ([]float64, error) {
	m, db, err := h.fresh(ctx, who)
	if err != nil {
		return nil, err
	}
	defer db.drop()
	restore, err := h.withoutImages(ctx)
	if err != nil {
		return nil, err
	}
	defer restore()
	sys, err := m.open(ctx, db, l, nil)
	if err != nil {
		return nil, err
	}
	n, err := h.half(ctx, sys, l)
	if err == nil {
		err = sys.fill(ctx, n)
	}
	sys.close()
	if err == nil {
		err = db.settle(ctx)
	}
	if err != nil {
		return nil, err
	}
	before, err := db.counted(ctx)
	if err != nil {
		return nil, err
	}
	var t trips
	if sys, err = m.open(ctx, db, l, &t); err != nil {
		return nil, err
	}
	var r ran
	spent, err := h.spend(ctx, &t, func() error {
		r, err = sys.run(ctx, n)
		return err
	})
	sys.close()
	if err != nil {
		return nil, err
	}
	after, err := db.counted(ctx)
	if err != nil {
		return nil, err
	}
	v := []float64{spent.wal, after.commits - before.commits, spent.trips, after.dead - before.dead, spent.client, spent.server}
	for i := range v {
		v[i] /= r.executions * float64(per)
	}
	return v, nil
}

// half returns how many executions a system runs in about half a turn.
func (h *harness) half(ctx context.Context, sys system, l load) (int, error) {
	n := 2 * l.at
	if err := sys.fill(ctx, n); err != nil {
		return 0, err
	}
	r, err := sys.run(ctx, n)
	return max(n, int(r.rate()*h.turn.Seconds()/2)), err
}

// withoutImages makes the server write no full-page images, if it is the
// harness's own, until restore is called. On another the WAL has them in it.
func (h *harness) withoutImages(ctx context.Context) (restore func(), err error) {
	if h.srv.cluster == nil {
		return func() {}, nil
	}
	set := func(ctx context.Context, value string) error {
		_, err := h.srv.admin.Exec(ctx, "alter system set full_page_writes = "+value)
		if err == nil {
			_, err = h.srv.admin.Exec(ctx, "select pg_reload_conf()")
		}
		return err
	}
	if err := set(ctx, "off"); err != nil {
		return nil, err
	}
	return func() {
		if err := set(context.Background(), "on"); err != nil {
			h.say("full_page_writes stays off: %v", err)
		}
	}, nil
}

// An outlay is what was spent while something ran.
type outlay struct {
	wal            float64 // bytes
	trips          float64
	client, server float64 // microseconds of the processors
}

// spend runs f and returns what it took.
func (h *harness) spend(ctx context.Context, t *trips, f func() error) (outlay, error) {
	server, err := findPostmaster(ctx, h.srv.admin)
	if err != nil {
		return outlay{}, err
	}
	look := func() (o outlay, err error) {
		o.trips = float64(t.n.Load())
		client, err := clientCPU()
		if err != nil {
			return o, err
		}
		cpu, err := server.cpu()
		if err != nil {
			return o, err
		}
		o.client, o.server = float64(client.Microseconds()), float64(cpu.Microseconds())
		o.wal, err = h.srv.written(ctx)
		return o, err
	}
	before, err := look()
	if err != nil {
		return outlay{}, err
	}
	if err := f(); err != nil {
		return outlay{}, err
	}
	after, err := look()
	return outlay{after.wal - before.wal, after.trips - before.trips, after.client - before.client, after.server - before.server}, err
}

// written returns how many bytes of WAL the server has written.
func (s *server) written(ctx context.Context) (wal float64, err error) {
	err = s.admin.QueryRow(ctx, "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8").Scan(&wal)
	return wal, err
}

// A tally is what the server has counted in a database.
type tally struct{ commits, dead float64 }

// counted returns the server's counts, without the harness's own looks. It waits for the sessions of others to
// end, since it is then that they report the last of what they did.
func (d *database) counted(ctx context.Context) (tally, error) {
	d.pool.Reset()
	_, err := drained(ctx, d.srv.admin, "select exists (select from pg_stat_activity where datname = $1 and backend_type = 'client backend')", d.name)
	if err != nil {
		return tally{}, err
	}
	var t tally
	err = d.srv.admin.QueryRow(ctx, "select xact_commit::float8 from pg_stat_database where datname = $1", d.name).Scan(&t.commits)
	t.commits -= float64(d.looks)
	if err == nil {
		err = d.pool.QueryRow(ctx, "select coalesce(sum(n_dead_tup), 0)::float8 from pg_stat_user_tables").Scan(&t.dead)
	}
	return t, err
}

// growth runs one execution of so many steps and returns the bytes of WAL for
// each of part steps near its begin, and of as many at its end.
func (h *harness) growth(ctx context.Context, steps, part int) (early, late float64, err error) {
	_, db, err := h.fresh(ctx, courierName)
	if err != nil {
		return 0, 0, err
	}
	defer db.drop()
	restore, err := h.withoutImages(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer restore()
	nd, err := newNode(ctx, db.url, 1, nil)
	if err != nil {
		return 0, 0, err
	}
	defer nd.close()
	job := courier.Job{Name: "long"}
	for i := range steps {
		job.Steps = append(job.Steps, courier.StepSpec{Type: "bench.nothing", Config: map[string]any{"n": i, "last": true}})
	}
	at := make(map[int]float64)
	var failed error
	look := func(n int) {
		switch n {
		case part, 2 * part, steps - 1 - part, steps - 1:
			wal, err := h.srv.written(ctx)
			at[n], failed = wal, errors.Join(failed, err)
		}
	}
	nd.last.Store(&look)
	if _, err := nd.engine.Run(ctx, job, nil); err != nil {
		return 0, 0, err
	}
	return (at[2*part] - at[part]) / float64(part), (at[steps-1] - at[steps-1-part]) / float64(part), failed
}
