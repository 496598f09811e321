// Package executionlog writes to the log what the engine does with an execution. Each
// line is written once, after what it reports was written to the store, by the engine
// that wrote it. So the log of all engines together has what the audit has. Nothing is
// computed for a level that is not enabled.
package executionlog

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// A Log writes lines about one execution, which a claim has given to this engine.
type Log struct {
	*slog.Logger
	Execution *courier.Execution
	Claimed   time.Time // when the claim was sent, by the clock of this process
}

func (r Log) logs(level slog.Level) bool { return r.Enabled(context.Background(), level) }

func (r Log) logAt(level slog.Level, message string, attrs ...slog.Attr) {
	r.LogAttrs(context.Background(), level, message, attrs...)
}

// Claim reports that an execution starts, or was taken over.
func (r Log) Claim(c *store.Claimed) {
	x := r.Execution
	switch {
	case c.First && r.logs(slog.LevelInfo):
		r.logAt(slog.LevelInfo, "execution started", slog.Int("version", x.Version), slog.String("by", x.By), slog.Duration("waited", x.StartedAt.Sub(x.CreatedAt)))
	case c.Reclaimed && r.logs(slog.LevelWarn):
		attrs := []slog.Attr{slog.String("reason", string(courier.ReasonWorkerLost)), slog.Int("workers_lost", c.Counters.Reclaims), slog.Duration("duration", r.age())}
		if s := c.Lost; s != nil {
			attrs = append(stepAttrs(s), append(attrs, slog.String("lost_worker", s.Worker))...)
		}
		r.logAt(slog.LevelWarn, "execution taken over from a lost worker", attrs...)
	}
}

// Write reports the attempts of a transition that failed, and the end or the retry of
// the execution. Current is the step that ran, if any, and took the time of its attempt.
func (r Log) Write(t *store.Transition, current *courier.StepExecution, took time.Duration) {
	for i := range t.Ended {
		if s := &t.Ended[i]; s.State != courier.StepCompleted && r.logs(slog.LevelWarn) {
			message := "step failed"
			if s.State == courier.StepSkipped {
				message = "step failed and was skipped"
			}
			attrs := append(stepAttrs(s), slog.String("reason", string(s.Reason)), slog.Duration("duration", r.Lasted(s, current, took)), slog.String("error", s.Error))
			r.logAt(slog.LevelWarn, message, attrs...)
		}
	}
	switch {
	case t.Finish != nil && r.logs(slog.LevelInfo):
		r.logAt(slog.LevelInfo, "finally part begins", slog.String("outcome", string(t.Finish.Outcome)), slog.Duration("duration", r.age()))
	case t.Finish != nil:
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
		if t.FinallyError != nil {
			attrs = append(attrs, slog.String("finally_error", t.FinallyError.Message))
		}
		r.logAt(slog.LevelInfo, "execution "+string(t.To), attrs...)
	}
}

// Lost reports that the lease ended before the engine had ended its part of the
// execution. Current is the step that ran, if any.
func (r Log) Lost(current *courier.StepExecution) {
	if !r.logs(slog.LevelWarn) {
		return
	}
	attrs := []slog.Attr{slog.String("reason", string(courier.ReasonWorkerLost)), slog.Duration("duration", r.age())}
	if current != nil {
		attrs = append(stepAttrs(current), attrs...)
	}
	r.logAt(slog.LevelWarn, "execution lost: its lease has ended, so another worker may go on with it", attrs...)
}

// Requested reports to a log a request that has cancelled an execution, or has it begin
// again without its files. X is the execution after it.
func Requested(log *slog.Logger, x *courier.Execution, q *store.Request) {
	attrs := []slog.Attr{slog.String("execution", string(x.ID)), slog.String("job", x.Job), slog.String("by", q.By)}
	if x.State == courier.Cancelled {
		log.LogAttrs(context.Background(), slog.LevelInfo, "execution cancelled", append(attrs, slog.Duration("duration", x.EndedAt.Sub(x.CreatedAt)))...)
	}
	if q.Kind == courier.RequestExpire {
		log.LogAttrs(context.Background(), slog.LevelWarn, "execution failed: it did not begin in time", append(attrs, slog.String("reason", string(q.Class())), slog.String("error", q.Reason))...)
	}
	if q.Kind == courier.RequestRestart {
		log.LogAttrs(context.Background(), slog.LevelWarn, "execution starts again without its files", append(attrs, slog.Int("execution_attempt", x.Attempt), slog.String("why", q.Reason))...)
	}
}

// age is the time since the execution was first claimed. The store's clock counts:
// the heartbeat of the claim says what it showed.
func (r Log) age() time.Duration {
	return max(0, r.Execution.HeartbeatAt.Sub(r.Execution.StartedAt)) + time.Since(r.Claimed)
}

// Lasted is how long an attempt that has ended has taken, or for that of a lost
// worker, how long ago it began.
func (r Log) Lasted(s, current *courier.StepExecution, took time.Duration) time.Duration {
	switch {
	case s.Reason == courier.ReasonWorkerLost && !s.StartedAt.IsZero():
		return max(0, r.Execution.HeartbeatAt.Sub(s.StartedAt))
	case store.Same(current, s):
		return took
	}
	return 0
}

func stepAttrs(s *courier.StepExecution) []slog.Attr {
	return placeAttrs(s.Step, s.ID, s.Type, s.Iteration, s.ItemLabels, s.Attempt)
}

func failureAttrs(f *courier.Failure) []slog.Attr {
	var attrs []slog.Attr
	if f.Step >= 0 {
		attrs = placeAttrs(f.Step, f.ID, f.Type, f.Iteration, f.ItemLabels, f.Attempt)
	}
	return append(attrs, slog.String("reason", string(f.Reason)))
}

func placeAttrs(step int, id, typ string, iteration []int, labels []string, attempt int) []slog.Attr {
	attrs := []slog.Attr{slog.Int("step", step), slog.String("type", typ)}
	if id != "" {
		attrs = append(attrs, slog.String("id", id))
	}
	if iteration != nil {
		attrs = append(attrs, slog.String("iteration", courier.FormatIteration(iteration)))
	}
	if labels != nil {
		attrs = append(attrs, slog.String("item", strings.Join(labels, "/")))
	}
	return append(attrs, slog.Int("attempt", attempt))
}
