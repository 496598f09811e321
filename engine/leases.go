package engine

import (
	"context"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/reports"
	"github.com/courierhq/courier/store"
)

// A renewer renews the leases of all runs of an engine, while there are any.
type renewer struct {
	stop context.CancelFunc
	done chan struct{}
}

// track adds a run to those whose leases are renewed. If this engine still has an
// earlier run of the same execution, the new one has to wait for its end: the earlier
// one has not noticed yet that it lost its lease, or its step has not returned, or its
// events are being emitted. Its watchdog ends it.
func (e *Engine) track(r *run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.runs[r.x.ID] != nil {
		r.before = e.waiters.Add(r.x.ID)
	}
	e.runs[r.x.ID] = r
	if e.renewer == nil {
		ctx, stop := context.WithCancel(context.Background())
		e.renewer = &renewer{stop: stop, done: make(chan struct{})}
		go e.renewLoop(ctx, e.renewer.done)
	}
}

// untrack removes a run whose lease has ended, and wakes those that wait for it.
func (e *Engine) untrack(r *run) {
	e.mu.Lock()
	if e.runs[r.x.ID] == r {
		delete(e.runs, r.x.ID)
	}
	var idle *renewer
	if len(e.runs) == 0 {
		idle, e.renewer = e.renewer, nil
	}
	e.mu.Unlock()
	e.waiters.Wake(r.x.ID)
	if r.x.Chain != "" {
		e.waiters.Wake(courier.ExecutionID(r.x.Chain))
	}
	if idle != nil {
		idle.stop()
		<-idle.done
	}
	core.Signal(e.freed)
}

// renewLoop renews until ctx ends. After a failure it tries again sooner, and
// nothing is claimed until it succeeds.
func (e *Engine) renewLoop(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	interval := e.opt.Lease / 3
	wait := time.NewTimer(interval)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		err := e.renew(ctx, interval)
		if ctx.Err() != nil {
			return
		}
		if e.healthy.Swap(err == nil) != (err == nil) {
			if err != nil {
				e.log.Error("renew leases; nothing is claimed until it succeeds", "error", err)
			}
			core.Signal(e.freed)
		}
		if err != nil {
			wait.Reset(interval / 10)
		} else {
			wait.Reset(interval)
		}
	}
}

// canClaim reports whether the engine may claim: not while it can't renew leases, or
// write progress. If there are no runs, nothing is renewed, so canClaim tries to.
func (e *Engine) canClaim(ctx context.Context) bool {
	if e.refusals.Blocked() {
		return false
	}
	if e.healthy.Load() {
		return true
	}
	e.mu.Lock()
	kept := e.renewer != nil
	e.mu.Unlock()
	if kept {
		return false // its next renewal decides
	}
	ctx, cancel := context.WithTimeout(ctx, core.StoreTimeout)
	defer cancel()
	if _, err := e.store.Renew(ctx, store.RenewRequest{Worker: e.opt.Worker, For: e.opt.Lease}); err != nil {
		return false
	}
	e.healthy.Store(true)
	return true
}

// renew renews the leases of all runs once.
func (e *Engine) renew(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	e.mu.Lock()
	runs := make(map[courier.ExecutionID]*run, len(e.runs))
	req := store.RenewRequest{Worker: e.opt.Worker, For: e.opt.Lease}
	for id, r := range e.runs {
		if r.left.Load() {
			continue
		}
		runs[id] = r
		req.Leases = append(req.Leases, store.Lease{Execution: id, Token: r.token})
	}
	e.mu.Unlock()
	if len(runs) == 0 {
		return nil
	}
	sent := time.Now()
	made := make(reports.Batch)
	for i := range req.Leases {
		r := runs[req.Leases[i].Execution]
		if a := r.present.Load(); a != nil {
			made.Add(&req.Leases[i], a.job, &a.reports, sent, r.secrets.Clean)
		}
	}
	got, err := e.store.Renew(ctx, req)
	if err != nil {
		return err
	}
	for i := range got {
		r := runs[got[i].Execution]
		if r == nil {
			continue
		}
		delete(runs, got[i].Execution)
		made.Sent(got[i].Execution)
		if r.watchdog.Reset(e.validity(sent)) {
			r.setRequest(&got[i])
		}
	}
	for _, r := range runs {
		r.lost(courier.ErrLeaseLost)
	}
	return nil
}
