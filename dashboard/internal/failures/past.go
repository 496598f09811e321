package failures

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

var errUnplugged = errors.New("the network is unplugged")

// enqueue starts an execution and records it under the name of a failure, unless that is empty.
func (w *World) enqueue(ctx context.Context, failure, job string) (courier.ExecutionID, error) {
	x, err := w.Engine.Enqueue(ctx, job, &courier.EnqueueOptions{By: courier.By{Actor: "ben"}})
	if err != nil {
		return "", fmt.Errorf("%s: %w", job, err)
	}
	if failure != "" {
		w.planted[failure] = x.ID
	}
	return x.ID, nil
}

// until waits until a condition holds.
func until(ctx context.Context, what string, is func(ctx context.Context) (bool, error)) error {
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		if ok, err := is(limited); ok || err != nil {
			return err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-limited.Done():
			return fmt.Errorf("%s: not so in time: %w", what, context.Cause(limited))
		}
	}
}

// ended reports whether an execution has ended in the given state. It is an error if the execution
// has ended in another state.
func (w *World) ended(id courier.ExecutionID, state courier.State) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		x, err := w.Engine.Executions().Get(ctx, id)
		if err == nil && x.State.Ended() && x.State != state {
			err = fmt.Errorf("job %q: execution %s is %s, and not %s", x.Job, id, x.State, state)
		}
		return x.State == state, err
	}
}

// lose lets worker-2 begin to print, and cuts it off from the store for ever.
func (w *World) lose(ctx context.Context) error {
	var off atomic.Bool
	reached := storewrap.Intercept(w.Store, func(ctx context.Context, _ *storewrap.Call, do func(context.Context) error) error {
		if off.Load() {
			return errUnplugged
		}
		return do(ctx)
	})
	opt := w.options("worker-2")
	opt.Lease = time.Second // an engine that can't reach the store gives up when its lease ends
	worker := engine.New(reached, w.registry(), opt)
	if err := worker.Start(ctx); err != nil {
		return err
	}
	_, err := w.enqueue(ctx, "lost-worker", "delivery-notes")
	if err == nil {
		err = until(ctx, "worker-2 prints", func(context.Context) (bool, error) { return w.machines.printed.Load() > 0, nil })
	}
	off.Store(true)
	stop(worker)
	return err
}

// stop ends an engine without waiting for its steps.
func stop(e *engine.Engine) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_ = e.Stop(ctx)
}

// past runs the executions that ended some hours ago, successfully or not.
func (w *World) past(ctx context.Context) error {
	worker := engine.New(w.Store, w.registry(), w.options("worker-1"))
	if err := worker.Start(ctx); err != nil {
		return err
	}
	for _, r := range []struct {
		failure, job string
		state        courier.State
	}{
		{"", "closing", courier.Completed},
		{"host-key", "orders-acme", courier.Failed},
		{"partner-down", "orders-globex", courier.Failed},
		{"poison-file", "prices-hooli", courier.Failed},
		{"missing-secret", "statement-initech", courier.Failed},
	} {
		w.Store.Advance(30 * time.Minute)
		id, err := w.enqueue(ctx, r.failure, r.job)
		if err == nil {
			err = until(ctx, r.job+" ends", w.ended(id, r.state))
		}
		if err != nil {
			return errors.Join(err, worker.Stop(ctx))
		}
	}
	return errors.Join(w.silenced(ctx), worker.Stop(ctx))
}

// silenced waits until accounting has refused the first notification.
func (w *World) silenced(ctx context.Context) error {
	return until(ctx, "the subscription is disabled", func(ctx context.Context) (bool, error) {
		s, err := w.Engine.Subscriptions().Get(ctx, "accounting")
		return s.Disabled, err
	})
}

// present starts the executions that have not ended, three quarters of an hour ago, and then the
// engine, at the time of this machine.
func (w *World) present(ctx context.Context) error {
	now, err := w.now(ctx)
	if err != nil {
		return err
	}
	const ago = 45 * time.Minute
	w.Store.Advance(time.Since(now) - ago)
	holder, err := w.enqueue(ctx, "", "stocktaking")
	if err != nil {
		return err
	}
	w.Store.Advance(5 * time.Minute)
	for _, r := range [][2]string{{"full-limit", "price-list"}, {"queue", "labels"}, {"stuck-step", "weighing"}} {
		if _, err := w.enqueue(ctx, r[0], r[1]); err != nil {
			return err
		}
	}
	w.Store.Advance(ago - 5*time.Minute)
	if err := w.Engine.Start(ctx); err != nil {
		return err
	}
	return until(ctx, "the warehouse is counted, and the scale hangs", func(ctx context.Context) (bool, error) {
		x, err := w.Engine.Executions().Get(ctx, holder)
		return x.Current != nil && w.machines.weighed.Load() > 0, err
	})
}

// now is the instant of the store.
func (w *World) now(ctx context.Context) (time.Time, error) {
	x, err := w.Engine.Executions().Get(ctx, w.planted["missing-secret"])
	return x.EndedAt, err
}
