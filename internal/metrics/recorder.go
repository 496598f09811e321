package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/courierhq/courier"
)

// A Sink receives the recorded values: [Registry], and the sink of package courierotel. Several
// goroutines call it, and it must return at once.
type Sink interface {
	// Record adds a value to a counter or a histogram.
	Record(m *Metric, value float64, labels Values)
}

// A Recorder records the calls of an engine's probe as metrics. Its methods are those of
// engine.Probe.
type Recorder[S Sink] struct{ Sink S }

// Executing is the state of all runs in the metrics. Pending runs have their own metrics.
const Executing = "executing"

// Claimed records a claim.
func (r *Recorder[S]) Claimed(n int, _ time.Duration) {
	r.Sink.Record(ClaimSize, float64(n), Values{})
}

// Began records how long an execution had been due, or that it was taken over. Counters that
// alerts use begin with 0, because Prometheus does not count the first value of a series as an
// increase.
func (r *Recorder[S]) Began(x *courier.Execution, waited time.Duration) {
	for _, end := range [...]courier.State{courier.Completed, courier.Failed} {
		r.Sink.Record(Slices, 0, Values{x.Job, string(end)})
	}
	if waited < 0 {
		r.Sink.Record(Takeovers, 1, Values{})
		return
	}
	r.Sink.Record(QueueWait, waited.Seconds(), Values{x.Queue})
}

// Step records an attempt of a step.
func (r *Recorder[S]) Step(s *courier.StepExecution, took time.Duration) {
	r.Sink.Record(StepDuration, took.Seconds(), Values{s.Type, StepResult(s.State, s.Reason)})
	if s.Reason != "" {
		r.Sink.Record(StepErrors, 1, Values{s.Type, string(s.Reason)})
	}
	if s.Attempt > 1 {
		r.Sink.Record(Retries, 1, Values{s.Type})
	}
	if s.Bytes > 0 {
		r.Sink.Record(TransferIO, float64(s.Bytes), Values{s.Type})
	}
}

// Ended records that the engine no longer works on an execution.
func (r *Recorder[S]) Ended(x *courier.Execution, took time.Duration) {
	end := SliceEnd(x)
	r.Sink.Record(Slices, 1, Values{x.Job, end})
	switch x.State {
	case courier.Completed, courier.Failed, courier.Cancelled:
		if !x.StartedAt.IsZero() {
			took = max(took, time.Since(x.StartedAt))
		}
		r.Sink.Record(RunDuration, took.Seconds(), Values{x.Job, Executing, RunResult(x)})
	}
	if x.State == courier.Failed && x.Failure != nil {
		r.Sink.Record(RunErrors, 1, Values{x.Job, string(x.Failure.Reason)})
	}
}

// Store records a call of the store.
func (r *Recorder[S]) Store(call string, took time.Duration, err error) {
	if call == "Await" || call == "AwaitSchedules" {
		return
	}
	r.Sink.Record(StoreDuration, took.Seconds(), Values{call})
	if err != nil && broken(err) {
		r.Sink.Record(SystemErrors, 1, Values{"store", call})
	}
}

// broken reports whether an error is not one of a store's normal answers.
func broken(err error) bool {
	for _, normal := range []error{
		courier.ErrNotFound, courier.ErrConflict, courier.ErrInvalid, courier.ErrLeaseLost, errors.ErrUnsupported, context.Canceled,
	} {
		if errors.Is(err, normal) {
			return false
		}
	}
	return true
}

// SliceEnd returns why an engine no longer works on an execution.
func SliceEnd(x *courier.Execution) string {
	switch x.State {
	case courier.Running:
		return "lease_lost"
	case courier.Queued:
		if x.Failure != nil {
			return "retried"
		}
		return "handed_over"
	}
	return string(x.State)
}

// RunResult returns the result of an execution that has ended, in the terms of the semantic
// conventions for CI/CD.
func RunResult(x *courier.Execution) string {
	switch {
	case x.State == courier.Completed:
		return "success"
	case x.State == courier.Cancelled:
		return "cancellation"
	case x.Failure != nil:
		return failed(x.Failure.Reason)
	}
	return "failure"
}

// StepResult returns the result of an attempt of a step, in the same terms.
func StepResult(state courier.StepState, reason courier.Reason) string {
	switch state {
	case courier.StepCompleted:
		return "success"
	case courier.StepSkipped:
		return "skip"
	}
	return failed(reason)
}

func failed(reason courier.Reason) string {
	switch reason {
	case courier.ReasonTimeout, courier.ReasonStalled, courier.ReasonExecution:
		return "timeout"
	case courier.ReasonCancelled:
		return "cancellation"
	case courier.ReasonWorkerLost, courier.ReasonStore:
		return "error"
	}
	return "failure"
}
