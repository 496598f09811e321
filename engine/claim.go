package engine

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/leases"
	"github.com/courierhq/courier/engine/internal/slots"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/internal/wakeup"
	"github.com/courierhq/courier/store"
)

// claimLoop claims while there are free slots, and waits when there is nothing. The store
// decides which executions may run; see [store.ClaimRequest].
func (e *Engine) claimLoop(w *worker, marks chan<- uint64) {
	defer w.loops.Done()
	defer e.drain(w)
	poll := time.NewTimer(e.opt.Poll)
	defer poll.Stop()
	var gather time.Duration
	for ok := w.ctx.Err() == nil; ok; ok = e.pause(w, poll, gather) {
		wait := e.opt.Poll
		gather = slots.MinGather
		if free := e.slots.Free(); free > 0 && e.canClaim(w.ctx) {
			sent := time.Now()
			got, err := e.claim(w, free)
			switch {
			case len(got.List) == free:
				gather = min(max(gather, 2*time.Since(sent)), slots.MaxGather)
			case got.Watched > 0:
				gather = 0 // there was nothing more, and the store wakes its callers
			}
			if err != nil && w.ctx.Err() == nil {
				e.log.Error("claim", "error", err)
			}
			if err == nil {
				wait = e.until(&got)
				e.notifications.Claimed(got.Subscribed)
				e.unserved.Claimed(got.Unclaimed)
				select {
				case marks <- got.Mark:
				default: // the last one is being waited for; that wakes us too
				}
			}
		}
		poll.Reset(wait)
	}
}

// until returns how long to wait for the next claim if nothing is heard before.
func (e *Engine) until(got *store.Claims) time.Duration {
	wait := e.opt.Poll
	if e.pollsRarely {
		wait = max(wait, got.Watched)
	}
	if got.Next > 0 {
		wait = min(wait, got.Next)
	}
	return wait
}

// pause waits until there may be something to claim, and when a slot became free
// a little longer; if gather is 0, one that does is no reason. It reports false
// when the worker stops. What has come meanwhile is covered by the one claim.
func (e *Engine) pause(w *worker, poll *time.Timer, gather time.Duration) bool {
	freed := e.freed
	if gather == 0 {
		freed = nil
	}
	if !wakeup.Taken(e.wake) {
		select {
		case <-w.stop:
		case <-poll.C:
		case <-e.wake:
		case <-freed:
			e.slots.Gather(w.stop, poll, gather)
			wakeup.Taken(e.wake)
		}
	}
	wakeup.Taken(e.freed)
	return w.ctx.Err() == nil
}

// claim runs what the store hands over; [store.ClaimRequest] says what may run.
func (e *Engine) claim(w *worker, free int) (store.Claims, error) {
	// A stop waits for a claim under way: what it claims is handed over at once.
	ctx, cancel := context.WithTimeout(w.base, storecall.Timeout)
	defer cancel()
	sent := time.Now()
	r := e.claimRequest(free)
	r.StartedAt = w.started
	got, err := e.store.Claim(ctx, r)
	if err != nil {
		return got, err
	}
	if len(got.List) == 0 {
		return got, nil
	}
	unready := e.work.Ready()
	for i := range got.List {
		c := &got.List[i]
		r := e.newRun(w.base, c, sent, w.stop)
		r.slot, r.unready = e.slots.Take(), unready
		e.track(r)
		w.runs.Add(1)
		go func() {
			defer w.runs.Done()
			defer e.untrack(r)
			defer r.slot.Release()
			e.deadlines.Claimed(c)
			r.driveAround(c)
		}()
	}
	return got, nil
}

func (e *Engine) claimRequest(most int) store.ClaimRequest {
	return store.ClaimRequest{
		Worker: e.opt.Worker, Workspace: e.opt.WorkspaceID, StepTypes: append(e.reg.Keys(), store.FinallyType), Queues: e.opt.Queues,
		Max: most, Lease: e.opt.Lease, Slots: e.opt.Slots, Version: version(),
	}
}

// version is that of the main module of the program; empty if it is not known.
var version = sync.OnceValue(func() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return ""
})

// drainTimeout is how long a stop waits until the store has recorded it.
const drainTimeout = 2 * time.Second

// drain records that a worker claims nothing more. It is called once the last claim has
// returned.
func (e *Engine) drain(w *worker) {
	s, err := e.roles.Workers()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(w.base, drainTimeout)
	defer cancel()
	if err := s.Drain(ctx, e.opt.Worker); err != nil {
		e.log.Warn("record that the engine is stopping", "error", err)
	}
}

// awaitLoop waits in the store for changes since the last claim, and wakes the
// claim loop.
func (e *Engine) awaitLoop(w *worker, marks <-chan uint64) {
	defer w.loops.Done()
	for {
		var mark uint64
		select {
		case <-w.stop:
			return
		case mark = <-marks:
		}
		if w.ctx.Err() != nil {
			return
		}
		if err := e.store.Await(w.ctx, e.opt.Queues, mark); err != nil {
			if w.ctx.Err() != nil {
				return
			}
			e.log.Warn("await work; polling continues", "error", err)
			continue // the next mark comes with the next poll
		}
		// The claim that follows has a mark. A mark of a claim before the change would
		// only cause one more claim.
		wakeup.Taken(marks)
		wakeup.Send(e.wake)
	}
}

// track adds a run to those whose leases are renewed. If this engine still has
// earlier runs of the same execution, the new one has to wait for their end: an earlier
// one has not noticed yet that it lost its lease, or its step has not returned, or its
// events are being emitted. Its watchdog ends it.
func (e *Engine) track(r *run) { r.before = e.runs.Add(r.x.ID, r) }

// untrack removes a run whose lease has ended, and wakes those that wait for it.
func (e *Engine) untrack(r *run) {
	e.runs.Remove(r.x.ID, r)
	e.waiters.Wake(r.x.ID)
	if r.x.Chain != "" {
		e.waiters.Wake(courier.ExecutionID(r.x.Chain))
	}
	e.runs.EndIdle()
	wakeup.Send(e.freed)
}

// canClaim reports whether the engine may claim: not while it can't renew leases, or
// write progress.
func (e *Engine) canClaim(ctx context.Context) bool {
	return !e.refusals.blocked() && e.runs.Healthy(ctx)
}

var _ leases.Run = (*run)(nil)

// Lease returns the lease for a renewal, unless it has been left to other workers.
func (r *run) Lease(at time.Time) (l store.Lease, sent func(), ok bool) {
	if r.lease.Left() {
		return l, nil, false
	}
	l = store.Lease{Execution: r.x.ID, Token: r.token}
	if a := r.present.Load(); a != nil {
		sent = a.reports.Add(&l, a.job, &a.log, at, r.secrets.Clean)
	}
	return l, sent, true
}

// Renewed moves the watchdog, and notes the request that is pending.
func (r *run) Renewed(q *store.Renewed, at time.Time) {
	r.lease.Renewed(q, at)
}

// Lost ends the run.
func (r *run) Lost() { r.lease.Lost() }
