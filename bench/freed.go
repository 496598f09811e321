package main

import (
	"context"
	"sync"
	"time"

	"github.com/courierhq/courier"
)

// freedLimit measures how long it takes until the next execution begins when a limit lets
// one run at a time: from the step of one, which does nothing, to the step of the next. So the
// write that ends the one, the claim of the next and its start are in it.
func freedLimit() []bench {
	return []bench{{
		name: "freed-limit", figures: []figure{{name: "p50", unit: "ms", less: true}, {name: "p99", unit: "ms", less: true}},
		turn: func(ctx context.Context, h *harness, who string) ([]float64, error) {
			_, db, err := h.fresh(ctx, who)
			if err != nil {
				return nil, err
			}
			defer db.drop()
			return h.freed(ctx, db)
		},
	}}
}

func (h *harness) freed(ctx context.Context, db *database) ([]float64, error) {
	const cold = 10
	n := cold + max(int(100*h.turn.Seconds()), 5)
	nd, err := newNode(ctx, db.url, 0, nil)
	if err != nil {
		return nil, err
	}
	defer nd.close()
	job, err := nd.define(ctx, 1, true)
	if err != nil {
		return nil, err
	}
	if err := nd.engine.Limits().Set(ctx, "global", 1, courier.By{}); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var begun []time.Time
	done := newCountdown(n)
	began := func(int) {
		mu.Lock()
		begun = append(begun, time.Now())
		mu.Unlock()
		done.tick()
	}
	nd.last.Store(&began)
	if err := nd.fill(ctx, job, n); err != nil {
		return nil, err
	}
	if err := nd.engine.Start(ctx); err != nil {
		return nil, err
	}
	if err := done.wait(ctx); err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	var waits []float64
	for i := cold; i < n; i++ {
		waits = append(waits, milliseconds(begun[i].Sub(begun[i-1])))
	}
	return []float64{median(waits), quantile(waits, 0.99)}, nil
}
