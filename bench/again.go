package main

import (
	"context"
	"errors"
	"fmt"
)

// A measure is one of what is measured of Courier again, besides throughput,
// where the tables hold a long history or somebody an old snapshot. It leaves
// nothing behind that waits.
type measure struct {
	name    string
	figures []figure
	of      func(ctx context.Context, h *harness, db *database) ([]float64, error)
}

func measures() []measure {
	list := []measure{
		{latencyName, latencyFigures, func(ctx context.Context, h *harness, db *database) ([]float64, error) {
			return h.courierLatency(ctx, db)
		}},
		{pickupName, pickupFigures, func(ctx context.Context, h *harness, db *database) ([]float64, error) {
			return h.pickup(ctx, db, courierName)
		}},
	}
	for _, p := range productions() {
		list = append(list, measure{p.name, productionFigures, func(ctx context.Context, h *harness, db *database) ([]float64, error) {
			rate, err := h.produce(ctx, db, courierName, p.how)
			return []float64{rate}, errors.Join(err, db.work(ctx))
		}})
	}
	return list
}

// work runs all that producers have enqueued in a database of Courier's.
func (db *database) work(ctx context.Context) error {
	nd, err := newNode(ctx, db.url, 256, nil)
	if err != nil {
		return err
	}
	count := nd.awaits(db.waiting)
	if err = nd.engine.Start(ctx); err == nil {
		err = count.wait(ctx)
	}
	db.waiting = 0
	if err = errors.Join(err, nd.close()); err != nil {
		return fmt.Errorf("work off what waits: %w", err)
	}
	return nil
}
