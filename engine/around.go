package engine

import (
	"context"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/hooks"
	"github.com/courierhq/courier/store"
)

// A Probe is called with everything that an engine does, for metrics and traces. Unlike
// observers it misses nothing: goroutines of the engine call it, several at a time, and wait
// for it. So it must return at once, and must not call the engine. Its arguments are
// copies, but it must not change what they point to. A panic of a probe is contained; the
// first one is logged at level error.
type Probe interface {
	// Claimed is called after each claim that the store has answered, with how many
	// executions it gave and how long it took. An engine that looks for work claims too,
	// and then n is 0.
	Claimed(n int, took time.Duration)
	// Began is called when the engine begins with an execution that it has claimed. X is
	// the execution as it was claimed. Waited is how long it had been due, by the store's
	// clock; negative if it was taken over from a lost worker. An execution that was paused,
	// retried or handed over begins again with its next claim.
	Began(x *courier.Execution, waited time.Duration)
	// Step is called for each attempt of a step whose end this engine has written, with its
	// record, which lacks what the store sets besides Execution. Took is how long the step was executed. The
	// attempt of a lost worker ends with the takeover: its Reason is
	// [courier.ReasonWorkerLost], and took is how long before the takeover it began. An
	// attempt that a stop has interrupted has not ended.
	Step(s *courier.StepExecution, took time.Duration)
	// Ended is called once for each call of Began, unless the process ends before: the
	// engine is done with the execution. X is the execution as it was claimed, with State,
	// Failure and Position as they were last written. The state running says that the lease
	// was lost, and queued that the execution is retried or handed over. Took is the time
	// since Began.
	Ended(x *courier.Execution, took time.Duration)
	// Store is called after each call of the engine to its store, with the name of the
	// method, such as "Apply", and its error; nil for none. Await and AwaitSchedules take as
	// long as there is nothing new, and often end with the error of their context.
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
