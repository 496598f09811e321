package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// Each of these lines is logged once, after what it tells of was written, by the
// engine that wrote it; so the log of all engines has what the audit has. Nothing is
// made where nobody listens.

func (r *run) logs(level slog.Level) bool { return r.e.log.Enabled(context.Background(), level) }

func (r *run) logAt(level slog.Level, message string, attrs ...slog.Attr) {
	r.log.LogAttrs(context.Background(), level, message, attrs...)
}

// logClaimed tells that an execution begins, or was taken over.
func (r *run) logClaimed(c *store.Claimed) {
	switch {
	case c.First && r.logs(slog.LevelInfo):
		r.logAt(slog.LevelInfo, "execution started", slog.Int("version", r.x.Version), slog.String("by", r.x.By), slog.Duration("waited", r.x.StartedAt.Sub(r.x.CreatedAt)))
	case c.Reclaimed && r.logs(slog.LevelWarn):
		attrs := []slog.Attr{slog.String("reason", string(courier.ReasonWorkerLost)), slog.Int("workers_lost", c.Counters.Reclaims), slog.Duration("duration", r.age())}
		if s := c.Lost; s != nil {
			attrs = append(stepAttrs(s), append(attrs, slog.String("lost_worker", s.Worker))...)
		}
		r.logAt(slog.LevelWarn, "execution taken over from a lost worker", attrs...)
	}
}

// logWritten tells of attempts that failed, and of the execution's end or retry.
func (r *run) logWritten(t *store.Transition) {
	for i := range t.Ended {
		if s := &t.Ended[i]; s.State != courier.StepCompleted && r.logs(slog.LevelWarn) {
			message := "step failed"
			if s.State == courier.StepSkipped {
				message = "step failed and was skipped"
			}
			attrs := append(stepAttrs(s), slog.String("reason", string(s.Reason)), slog.Duration("duration", r.lasted(s)), slog.String("error", s.Error))
			r.logAt(slog.LevelWarn, message, attrs...)
		}
	}
	switch {
	case t.To == courier.Queued && t.Failure != nil && r.logs(slog.LevelWarn):
		message := "execution is retried"
		if t.Failure.Reason == courier.ReasonStore {
			message = "execution went back to the queue"
		}
		attrs := append(failureAttrs(t.Failure), slog.Bool("whole_job", t.RetryJob), slog.Duration("after", t.Delay), slog.Duration("duration", r.age()))
		r.logAt(slog.LevelWarn, message, attrs...)
	case t.To.Ended() && r.logs(slog.LevelInfo):
		attrs := []slog.Attr{slog.Duration("duration", r.age())}
		if t.Failure != nil {
			attrs = append(append(failureAttrs(t.Failure), attrs...), slog.String("error", t.Failure.Message))
		}
		r.logAt(slog.LevelInfo, "execution "+string(t.To), attrs...)
	}
}

// logLost tells that the lease ended before the run did.
func (r *run) logLost() {
	if !r.logs(slog.LevelWarn) {
		return
	}
	attrs := []slog.Attr{slog.String("reason", string(courier.ReasonWorkerLost)), slog.Duration("duration", r.age())}
	if r.current != nil {
		attrs = append(stepAttrs(r.current), attrs...)
	}
	r.logAt(slog.LevelWarn, "execution lost: its lease has ended, so another worker may go on with it", attrs...)
}

// age is the time since the execution was first claimed. The store's clock counts:
// the lease says what it showed at the claim.
func (r *run) age() time.Duration {
	return max(0, r.x.LeaseExpiresAt.Add(-r.e.opt.Lease).Sub(r.x.StartedAt)) + time.Since(r.claimed)
}

// lasted is how long an attempt that has ended has taken, or for that of a lost
// worker, how long ago it began.
func (r *run) lasted(s *courier.StepExecution) time.Duration {
	switch {
	case s.Reason == courier.ReasonWorkerLost && !s.StartedAt.IsZero():
		return max(0, r.x.LeaseExpiresAt.Add(-r.e.opt.Lease).Sub(s.StartedAt))
	case store.Same(r.current, s):
		return r.took
	}
	return 0
}

func stepAttrs(s *courier.StepExecution) []slog.Attr {
	return placeAttrs(s.Step, s.ID, s.Type, s.Iteration, s.Attempt)
}

func failureAttrs(f *courier.Failure) []slog.Attr {
	var attrs []slog.Attr
	if f.Step >= 0 {
		attrs = placeAttrs(f.Step, f.ID, f.Type, f.Iteration, f.Attempt)
	}
	return append(attrs, slog.String("reason", string(f.Reason)))
}

func placeAttrs(step int, id, typ string, iteration []int, attempt int) []slog.Attr {
	attrs := []slog.Attr{slog.Int("step", step), slog.String("type", typ)}
	if id != "" {
		attrs = append(attrs, slog.String("id", id))
	}
	if iteration != nil {
		attrs = append(attrs, slog.String("iteration", courier.FormatIteration(iteration)))
	}
	return append(attrs, slog.Int("attempt", attempt))
}
