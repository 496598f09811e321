package engine

import (
	"context"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/hooks"
	"github.com/courierhq/courier/store"
)

// A Probe receives measurements of everything that an engine does, for metrics and traces.
// Unlike an observer it misses nothing: goroutines of the engine call it, several at a time,
// and wait for it. So its methods must return at once, and must not call the engine. The
// arguments are copies, but a probe must not change what they point to. The engine recovers
// from a panic of a probe, and logs the first one at level error.
type Probe interface {
	// Claimed is called after each claim that the store has answered, with the number of
	// executions and the duration of the call. N is 0 if there was no work.
	Claimed(n int, took time.Duration)
	// Began is called when the engine begins to work on an execution that it has claimed. X
	// is the execution as it was claimed. Waited is how long it had been due, by the store's
	// clock; it is negative if the execution was taken over from a lost worker. An execution
	// that was paused, retried or handed over begins again with its next claim.
	Began(x *courier.Execution, waited time.Duration)
	// Step is called for each attempt of a step whose end this engine has written, with its record.
	// Of the fields that the store sets, the record has only Execution. Took is how long the step
	// was executed. The attempt of a lost worker ends with the takeover: its Reason is
	// [courier.ReasonWorkerLost], and took is the time from its start to the takeover. An attempt
	// that a stop has interrupted has not ended.
	Step(s *courier.StepExecution, took time.Duration)
	// Ended is called once for each call of Began, when the engine has finished with the
	// execution, unless the process ends before that. X is the execution as it was claimed,
	// with State, Failure and Position as they were last written. The state running means
	// that the lease was lost, and queued that the execution is retried or handed over.
	// Took is the time since Began.
	Ended(x *courier.Execution, took time.Duration)
	// Store is called after each call of the engine to its store, with the name of the
	// method, such as "Apply", and its error, or nil. Await and AwaitSchedules block while
	// there is nothing new, and often end with the error of their context.
	Store(call string, took time.Duration, err error)
}

// driveAround drives the execution within Options.AroundExecution. If that does not call
// next, or panics before, the execution is driven all the same.
func (r *run) driveAround(c *store.Claimed) {
	began, x := time.Now(), r.x
	r.last = &x
	r.e.probe.Began(c)
	defer func() { r.e.probe.Ended(&x, began) }()
	around := r.e.opt.AroundExecution
	if around == nil {
		r.drive(c)
		return
	}
	hooks.Around(r.lease.Steps(), r.x, r.log, around, func(ctx context.Context) {
		r.lease.Within(ctx)
		r.drive(c)
	})
}

// probeWritten tells the probe of the attempts whose end was written with a transition.
func (r *run) probeWritten(t *store.Transition) {
	for i := range t.Ended {
		r.e.probe.Step(r.x.ID, &t.Ended[i], r.lines().Lasted(&t.Ended[i], r.checkpoint.Current(), r.took))
	}
	if r.last == nil {
		return // nobody is told of an end
	}
	r.last.State, r.last.Failure, r.last.Position = t.To, t.Failure, t.Position
}
