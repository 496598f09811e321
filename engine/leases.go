package engine

import (
	"context"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/leases"
	"github.com/courierhq/courier/store"
)

// track adds a run to those whose leases are renewed. If this engine still has an
// earlier run of the same execution, the new one has to wait for its end: the earlier
// one has not noticed yet that it lost its lease, or its step has not returned, or its
// events are being emitted. Its watchdog ends it.
func (e *Engine) track(r *run) {
	e.runs.Add(r.x.ID, r, func() { r.before = e.waiters.Add(r.x.ID) })
}

// untrack removes a run whose lease has ended, and wakes those that wait for it.
func (e *Engine) untrack(r *run) {
	e.runs.Remove(r.x.ID, r)
	e.waiters.Wake(r.x.ID)
	if r.x.Chain != "" {
		e.waiters.Wake(courier.ExecutionID(r.x.Chain))
	}
	e.runs.EndIdle()
	core.Signal(e.freed)
}

// canClaim reports whether the engine may claim: not while it can't renew leases, or
// write progress.
func (e *Engine) canClaim(ctx context.Context) bool {
	return !e.refusals.Blocked() && e.runs.Healthy(ctx)
}

var _ leases.Run = (*run)(nil)

// Lease returns the lease for a renewal, unless it has been left to other workers.
func (r *run) Lease(at time.Time) (l store.Lease, sent func(), ok bool) {
	if r.left.Load() {
		return l, nil, false
	}
	l = store.Lease{Execution: r.x.ID, Token: r.token}
	if a := r.present.Load(); a != nil {
		sent = a.reports.Add(&l, a.job, at, r.secrets.Clean)
	}
	return l, sent, true
}

// Renewed moves the watchdog, and notes the request that is pending.
func (r *run) Renewed(q *store.Renewed, at time.Time) {
	if r.watchdog.Reset(r.e.validity(at)) {
		r.setRequest(q)
	}
}

// Lost ends the run.
func (r *run) Lost() { r.lost(courier.ErrLeaseLost) }
