package demo

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store/storewrap"
)

// lost lets a worker with its own disk begin an execution, and cuts it off from the store for ever,
// in the middle of a step.
func (w *World) lost(ctx context.Context, dir string, opt Options) error {
	var off atomic.Bool
	reached := storewrap.Intercept(w.Store, func(ctx context.Context, _ *storewrap.Call, do func(context.Context) error) error {
		if off.Load() {
			return errors.New("the network is unplugged")
		}
		return do(ctx)
	})
	options := w.options(dir, "worker-2", opt.Log)
	options.WorkspaceID = "disk of worker-2"
	options.Lease = time.Second // an engine that can't reach the store gives up when its lease ends
	e := engine.New(reached, registry(), options)
	if err := e.Start(ctx); err != nil {
		return err
	}
	x, err := e.Enqueue(ctx, "notes", &courier.EnqueueOptions{By: courier.By{Actor: "ben"}})
	if err == nil {
		limited, cancel := context.WithTimeout(ctx, time.Minute)
		err = w.inStep(limited, x.ID, "print")
		cancel()
	}
	off.Store(true)
	w.By["lost"] = x.ID
	stopped, stop := context.WithTimeout(context.Background(), time.Millisecond)
	defer stop()
	_ = e.Stop(stopped)
	if err != nil {
		return fmt.Errorf("lost: %w", err)
	}
	return nil
}
