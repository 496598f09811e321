package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// xmin measures it all again while another session holds a transaction with a
// snapshot open, so that no row version that came after it can be removed: what is
// left of the throughput in the last fifth of the time, against the time before, and
// the rest once it is over.
func xmin() []bench {
	held := func(name string, l load, per float64, unit string) bench {
		var free heldFigures
		return bench{
			name: name, once: true, peers: []string{freeTables}, figures: []figure{{unit: unit}, {name: "takeover", unit: "s", less: true}},
			turn: func(ctx context.Context, h *harness, who string) (v []float64, err error) {
				if who == freeTables {
					return []float64{free.rate * per, free.takeover.Seconds()}, nil
				}
				var under heldFigures
				free, under, err = h.held(ctx, name, l)
				return []float64{under.rate * per, under.takeover.Seconds()}, err
			},
		}
	}
	return []bench{
		held("xmin-steps-10x64", load{steps: 10, at: 64}, 10, "steps/s"),
		held("xmin-executions-1x100", load{steps: 1, at: 100}, 1, "executions/s"),
		heldRest(),
	}
}

// heldRest is the bench of what is measured besides throughput.
func heldRest() bench {
	b := bench{name: "xmin", once: true, peers: []string{freeTables}}
	for _, m := range measures() {
		for _, f := range m.figures {
			b.figures = append(b.figures, figure{fullName(m.name, f), f.unit, f.less})
		}
	}
	var free []float64
	b.turn = func(ctx context.Context, h *harness, who string) (v []float64, err error) {
		if who == freeTables {
			return free, nil
		}
		var under []float64
		free, under, err = h.restHeld(ctx, &b)
		return under, err
	}
	return b
}

// restHeld returns the measures of a database before and after a transaction has
// been held open beside a load. It is still open when they are taken again.
func (h *harness) restHeld(ctx context.Context, b *bench) (free, under []float64, err error) {
	_, db, err := h.fresh(ctx, courierName)
	if err != nil {
		return nil, nil, err
	}
	defer db.drop()
	take := func() (all []float64, err error) {
		for _, m := range measures() {
			if err := db.settle(ctx); err != nil {
				return nil, err
			}
			v, err := m.of(ctx, h, db)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.name, err)
			}
			h.say("%s: %s %.2f", b.name, m.name, v)
			all = append(all, v...)
		}
		return all, nil
	}
	if free, err = take(); err != nil {
		return nil, nil, err
	}
	release, err := db.hold(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	open, _ := h.holding()
	if h.quick {
		open /= 2 // it all is measured twice
	}
	n, err := h.stream(ctx, db, load{steps: 1, at: 100}, open)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range b.figures {
		h.notes[b.full(f)] = fmt.Sprintf("held for %v, %d executions", open, n)
	}
	under, err = take()
	return free, under, err
}

// stream runs a load for a time, and returns how many executions were completed.
func (h *harness) stream(ctx context.Context, db *database, l load, over time.Duration) (int64, error) {
	s, err := openStream(ctx, db, l, max(h.scaled(backlog), l.at))
	if err != nil {
		return 0, err
	}
	_, err = s.rate(ctx, over)
	s.cancel(nil)
	s.feeder.Wait()
	for deadline := time.Now().Add(longest); err == nil && s.done.Load() < s.made; {
		time.Sleep(time.Millisecond)
		if err = ctx.Err(); err == nil && time.Now().After(deadline) {
			err = fmt.Errorf("%d of %d executions are not done after %v", s.made-s.done.Load(), s.made, longest)
		}
	}
	return s.done.Load(), errors.Join(err, s.close())
}

// hold opens a transaction that holds a snapshot, until release is called.
func (db *database) hold(ctx context.Context) (release func(), err error) {
	old, err := pgx.Connect(ctx, db.url)
	if err != nil {
		return nil, err
	}
	release = func() { _ = old.Close(context.WithoutCancel(ctx)) }
	if _, err = old.Exec(ctx, "begin isolation level repeatable read"); err == nil {
		_, err = old.Exec(ctx, "select txid_current()")
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// holding is for how long the transaction is open, and calm how long is
// measured before.
func (h *harness) holding() (open, calm time.Duration) {
	if h.least {
		return 250 * time.Millisecond, 50 * time.Millisecond
	}
	if h.quick {
		return 24 * time.Second, 8 * time.Second
	}
	return 10 * time.Minute, time.Minute
}

// heldFigures are the figures of a database with or without an old transaction.
type heldFigures struct {
	rate     float64       // executions per second
	takeover time.Duration // from the death of a worker until another has done what it held
}

// held returns the figures without and with an old transaction, under a load.
func (h *harness) held(ctx context.Context, name string, l load) (free, under heldFigures, err error) {
	_, db, err := h.fresh(ctx, courierName)
	if err != nil {
		return free, under, err
	}
	defer db.drop()
	s, err := openStream(ctx, db, l, max(h.scaled(backlog), l.at))
	if err != nil {
		return free, under, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	open, calm := h.holding()
	h.notes[name] = fmt.Sprintf("held for %v", open)
	if _, err := s.rate(ctx, calm/2); err != nil {
		return free, under, err
	}
	if err := db.settle(ctx); err != nil {
		return free, under, err
	}
	if free.rate, err = s.rate(ctx, calm); err != nil {
		return free, under, err
	}
	v, err := h.victim(ctx, db)
	if err != nil {
		return free, under, err
	}
	if free.takeover, err = v.die(ctx); err != nil {
		return free, under, err
	}
	// The next one lives as long as the old transaction.
	if v, err = h.victim(ctx, db); err != nil {
		return free, under, err
	}
	alive, kill := context.WithCancel(ctx)
	defer kill()
	lived := make(chan error, 1)
	go func() { lived <- v.live(alive) }()
	release, err := db.hold(ctx)
	if err != nil {
		return free, under, err
	}
	defer release()
	const parts = 5
	for i := range parts {
		if under.rate, err = s.rate(ctx, open/parts); err != nil {
			return free, under, err
		}
		h.say("%s: %.0f executions/s before; %.0f in part %d of %d of the time", name, free.rate, under.rate, i+1, parts)
	}
	kill()
	if err := <-lived; err != nil {
		return free, under, err
	}
	under.takeover, err = v.die(ctx)
	h.say("%s: a takeover takes %v before, %v in the end", name, free.takeover, under.takeover)
	return free, under, err
}

// A victim is a worker with an execution, beside the engine under load.
type victim struct {
	store *pgstore.Store
	lease time.Duration
	held  store.RenewRequest
	end   func()
}

// victim returns a worker that has claimed an execution. The lease is an engine's.
func (h *harness) victim(ctx context.Context, db *database) (*victim, error) {
	v := &victim{lease: 15 * time.Second}
	if h.least {
		v.lease = 300 * time.Millisecond
	}
	pool, err := newPool(ctx, db.url, 2, nil)
	if err != nil {
		return nil, err
	}
	if v.store, err = pgstore.New(ctx, pool, nil); err != nil {
		pool.Close()
		return nil, err
	}
	v.end = func() { v.store.Close(); pool.Close() }
	r := store.ClaimRequest{Worker: "victim", StepTypes: []string{"bench.nothing"}, Queues: []string{courier.DefaultQueue}, Max: 1, Lease: v.lease}
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		got, err := v.store.Claim(ctx, r)
		if err == nil && len(got.List) > 0 {
			v.held = store.RenewRequest{Worker: r.Worker, For: v.lease, Leases: []store.Lease{{Execution: got.List[0].Execution.ID, Token: got.List[0].Token}}}
			return v, nil
		}
		if err == nil && time.Since(began) > longest {
			err = fmt.Errorf("nothing was claimed within %v", longest)
		}
		if err != nil {
			v.end()
			return nil, err
		}
	}
}

// live renews the lease until ctx ends.
func (v *victim) live(ctx context.Context) error {
	for ctx.Err() == nil {
		got, err := v.store.Renew(ctx, v.held)
		if err == nil && len(got) == 0 {
			err = errors.New("the lease is lost")
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(v.lease / 3):
		}
	}
	return nil
}

// die returns the time from the last sign of life until another worker has done what the
// victim held.
func (v *victim) die(ctx context.Context) (time.Duration, error) {
	defer v.end()
	if got, err := v.store.Renew(ctx, v.held); err != nil || len(got) == 0 {
		return 0, errors.Join(err, errors.New("the lease is lost too early"))
	}
	for died := time.Now(); ; time.Sleep(time.Millisecond) {
		x, err := v.store.Execution(ctx, v.held.Leases[0].Execution)
		if err == nil && x.State == courier.Completed {
			return time.Since(died), nil
		}
		if err == nil && time.Since(died) > longest {
			err = fmt.Errorf("nothing was taken over within %v", longest)
		}
		if err != nil {
			return 0, err
		}
	}
}

// A stream is a load that goes on until it is stopped: executions are enqueued
// as others are completed.
type stream struct {
	*node
	done   atomic.Int64 // executions
	made   int64        // likewise; only the feeder changes it
	cancel context.CancelCauseFunc
	// backlog is how many executions wait at least.
	backlog int64
	ctx     context.Context
	feeder  sync.WaitGroup
}

func openStream(ctx context.Context, db *database, l load, backlog int) (*stream, error) {
	nd, err := newNode(ctx, db.url, l.at, nil)
	if err != nil {
		return nil, err
	}
	s := &stream{node: nd, made: int64(backlog), backlog: int64(backlog)}
	count := func() { s.done.Add(1) }
	nd.completed.Store(&count)
	job, err := nd.define(ctx, l.steps, false)
	if err == nil {
		err = nd.fill(ctx, job, backlog)
	}
	if err == nil {
		err = db.settle(ctx)
	}
	if err == nil {
		err = nd.engine.Start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, nd.close())
	}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.feeder.Go(func() { s.feed(job) })
	return s, nil
}

// backlog is that of streams that are measured.
const backlog = 3000

func (s *stream) feed(job courier.Job) {
	batch := s.backlog / 3
	ctx := context.WithoutCancel(s.ctx) // so that it is known how many are made
	for s.ctx.Err() == nil {
		if s.made-s.done.Load() >= s.backlog {
			time.Sleep(time.Millisecond)
			continue
		}
		if err := s.fill(ctx, job, int(batch)); err != nil {
			s.cancel(fmt.Errorf("enqueue: %w", err))
			return
		}
		s.made += batch
	}
}

// rate returns the executions per second that were completed in a time.
func (s *stream) rate(ctx context.Context, over time.Duration) (float64, error) {
	before, start := s.done.Load(), time.Now()
	select {
	case <-s.ctx.Done():
		return 0, context.Cause(s.ctx)
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(over):
	}
	return float64(s.done.Load()-before) / time.Since(start).Seconds(), nil
}

func (s *stream) stop() error {
	s.cancel(nil)
	s.feeder.Wait()
	return s.close()
}
