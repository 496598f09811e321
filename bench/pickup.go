package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// pickup measures how long it takes from the call that enqueues an execution
// until its step begins in another process, on a system that gets 50 of them a
// second, at irregular intervals, and is otherwise idle.
func pickup() []bench {
	return []bench{{
		name: pickupName, figures: pickupFigures, peers: []string{"river-defaults", "river"},
		turn: func(ctx context.Context, h *harness, who string) ([]float64, error) {
			_, db, err := h.fresh(ctx, who)
			if err != nil {
				return nil, err
			}
			defer db.drop()
			return h.pickup(ctx, db, who)
		},
	}}
}

const pickupName = "pickup-50"

var pickupFigures = []figure{{name: "p50", unit: "ms", less: true}, {name: "p99", unit: "ms", less: true}}

// A numberer enqueues an execution whose step is told a number.
type numberer interface {
	producer
	numbered(ctx context.Context, n int) error
}

// arrivals notes when executions were enqueued and when they began.
type arrivals struct {
	mu    sync.Mutex
	sent  []time.Time
	waits []float64 // ms
	count *countdown
}

func (a *arrivals) began(n int) {
	now := time.Now()
	a.mu.Lock()
	a.waits = append(a.waits, milliseconds(now.Sub(a.sent[n])))
	a.mu.Unlock()
	a.count.tick()
}

func (h *harness) pickup(ctx context.Context, db *database, who string) ([]float64, error) {
	const perSecond = 50
	n := max(int(perSecond*2.5*h.turn.Seconds()), 5)
	warm := n / 6
	a := &arrivals{sent: make([]time.Time, n), count: newCountdown(n)}
	stop, err := consume(ctx, db, who, a.began)
	if err != nil {
		return nil, err
	}
	defer stop()
	pool, err := newPool(ctx, db.url, 20, nil)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	made, err := newProducer(ctx, db, pool, who)
	if err != nil {
		return nil, err
	}
	defer made.close()
	p, ok := made.(numberer)
	if !ok {
		return nil, fmt.Errorf("%s does not number what it enqueues", who)
	}
	random := rand.New(rand.NewPCG(1, 1))
	next := time.Now()
	for i := range n {
		next = next.Add(time.Second/perSecond/2 + time.Duration(random.Int64N(int64(time.Second/perSecond))))
		time.Sleep(time.Until(next))
		a.mu.Lock()
		a.sent[i] = time.Now()
		a.mu.Unlock()
		if err := p.numbered(ctx, i); err != nil {
			return nil, err
		}
	}
	if err := a.count.wait(ctx); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return []float64{median(a.waits[warm:]), quantile(a.waits[warm:], 0.99)}, nil
}

// consume runs what is enqueued in a database, with default settings but for
// what River's own benchmark changes, until stop is called. Began is called by
// every step, with its number.
func consume(ctx context.Context, db *database, who string, began func(n int)) (stop func(), err error) {
	if who == courierName {
		nd, err := newNode(ctx, db.url, 0, nil)
		if err != nil {
			return nil, err
		}
		nd.last.Store(&began)
		if _, err = nd.define(ctx, 1, true); err == nil {
			err = nd.engine.Start(ctx)
		}
		if err != nil {
			nd.close()
			return nil, err
		}
		return func() { nd.close() }, nil
	}
	pool, err := newPool(ctx, db.url, 20, nil)
	if err != nil {
		return nil, err
	}
	config := riverTuned
	if who == "river-defaults" {
		config = riverDefaults
	}
	client, err := newRiver(pool, config, 64, began)
	if err == nil {
		err = client.Start(ctx)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return func() {
		client.Stop(context.WithoutCancel(ctx))
		pool.Close()
	}, nil
}
