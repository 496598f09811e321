package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/store"
)

// A run is an execution in the hands of this engine, from a claim to the
// transition that ends the lease. Its methods are called by one goroutine,
// but for those that say otherwise.
type run struct {
	e       *Engine
	log     *slog.Logger
	x       courier.Execution // as it was claimed
	token   store.Token
	program *program
	walk    *flow.Walk
	vals    *values
	seq     int64 // of the last audit entry
	marks   store.Marks
	current *courier.StepExecution  // the present step, as the store knows it
	ended   []courier.StepExecution // attempts whose end is not written yet
	used    bool                    // the execution may have files in the workspace
	known   standing                // what the store knows
	// unstarted are the marks before those of the attempt that a write starts.
	unstarted store.Marks
	scrubbed  int         // see scrubbedOutputs
	left      atomic.Bool // the lease is not renewed, and lasts until somebody takes the execution over
	over      bool        // a write has ended the lease
	refusing  refusing    // the present write
	claimed   time.Time   // when
	began     time.Time   // of the last attempt
	took      time.Duration
	// reclaimed says that the worker before was lost: it may have left files that
	// it could not tell of.
	reclaimed bool
	handed    bool            // another worker has begun the present attempt
	former    map[string]bool // see repeated
	before    chan struct{}   // closed when an earlier run of this engine's has ended; nil if there is none
	slot      *slot           // nil if it needs none
	unready   error           // what is wrong with the workspaces
	res       *courier.Resources
	secrets   *redactor
	dir       string                                                             // its workspace; empty until it is asked for
	buf       []byte                                                             // of the rendered configuration
	done      chan outcome                                                       // of the present attempt
	calls     chan func()                                                        // to the goroutine of the steps; nil while there is none
	timer     *time.Timer                                                        // of the present attempt
	resolve   func(ctx context.Context, r courier.SecretRequest) (string, error) // secretFor
	err       *courier.StepError

	// lease ends when the lease is lost; it carries the store calls, each bounded
	// by patience. steps ends also when a step has to stop, with the reason as its
	// cause.
	lease     context.Context
	lost      context.CancelCauseFunc
	patience  patience
	steps     context.Context
	interrupt context.CancelCauseFunc
	watchdog  *time.Timer
	deadline  *time.Timer // of the whole execution; nil if it has no timeout

	stop    <-chan struct{} // closed when the execution is to be handed over
	request atomic.Pointer[store.Renewed]
}

// A standing is where an execution stands in the store.
type standing struct {
	courier.Position
	store.Marks
}

// errExecutionTimeout is the cause with which steps end when the whole
// execution takes too long.
var errExecutionTimeout = fmt.Errorf("the execution: %w", courier.ErrTimeout)

// newRun takes over what a claim returned. Base carries values for the steps;
// sent is when the claim was sent.
func (e *Engine) newRun(base context.Context, c *store.Claimed, sent time.Time, stop <-chan struct{}) *run {
	r := &run{
		e: e, x: c.Execution, token: c.Token, seq: c.Seq, marks: c.Marks, current: c.Execution.Current,
		used: c.Execution.Workspace != "", stop: stop, known: standing{c.Execution.Position, c.Marks}, claimed: sent,
	}
	r.reclaimed = c.Marks.Reclaims > 0 || c.Lost != nil
	r.begin(context.WithoutCancel(base))
	r.watchdog = time.AfterFunc(e.validity(sent), func() {
		if !r.left.Load() {
			r.lost(courier.ErrLeaseLost)
		}
	})
	if r.x.Timeout > 0 {
		r.deadline = time.AfterFunc(max(0, c.Remaining), func() { r.interrupt(errExecutionTimeout) })
		if c.Remaining <= 0 {
			r.interrupt(errExecutionTimeout)
		}
	}
	e.notices.heard()
	r.logClaimed(c)
	switch {
	case c.First:
		e.events.emit(r.event(courier.EventJobStarted))
	case c.Reclaimed:
		ev := r.event(courier.EventJobTakenOver)
		ev.Reason = courier.ReasonWorkerLost
		e.events.emit(ev)
	}
	if c.Started != nil {
		begun := *c.Started
		begun.StartedAt = time.Time{} // the store knows it, as of all that it starts
		r.current = &begun
		r.tell(&store.Transition{To: courier.Running, Start: c.Started})
	}
	return r
}

// begin sets up what a run needs besides its execution.
func (r *run) begin(ctx context.Context) {
	if r.secrets == nil {
		r.secrets = new(redactor)
	}
	r.log = slog.New(&redactHandler{r.e.log.Handler(), r.secrets}).With("execution", r.x.ID, "job", r.x.Job)
	r.res, r.resolve = new(courier.Resources), r.secretFor
	r.lease, r.lost = context.WithCancelCause(ctx)
	r.patience.parent = r.lease
	r.steps, r.interrupt = context.WithCancelCause(r.lease)
}

// workspace is the directory of the execution.
func (r *run) workspace() string {
	if r.dir == "" {
		r.dir = r.e.work.of(r.x.ID)
	}
	return r.dir
}

// validity is how long a lease that was granted by a call sent at a time can
// be relied on: the watchdog leaves a fifth of the lease for the steps to end.
func (e *Engine) validity(sent time.Time) time.Duration {
	return e.opt.Lease - e.opt.Lease/5 - time.Since(sent)
}

// drive executes the steps until the lease has ended.
func (r *run) drive(c *store.Claimed) {
	defer r.close()
	growStack(stackNeeded - 1)
	if r.before != nil {
		select {
		case <-r.before:
		case <-r.lease.Done():
			return
		}
	}
	if !r.prepare(c) || c.Started != nil && !r.started(c.Started) {
		return
	}
	for r.lease.Err() == nil {
		growStack(stackNeeded - 1)
		step, err := r.walk.Next()
		switch {
		case r.boundary():
			return
		case err != nil && r.steps.Err() != nil:
			continue // the walk was stopped; the next boundary says why
		case err != nil:
			if !r.markerFailed(err) {
				return
			}
		case step == r.program.tree.Len():
			if r.complete() {
				return
			}
		default:
			n, cleanup, err := r.start(step)
			if errors.Is(err, courier.ErrConflict) {
				continue // the next boundary obeys the request
			}
			if err != nil || !r.settle(step, n, r.attempt(step, n, cleanup)) {
				return
			}
		}
	}
}

// started executes the attempt that the claim has started, unless it is known
// already that the execution is not to go on. It reports false when the run is
// over.
func (r *run) started(s *courier.StepExecution) bool {
	select {
	case <-r.stop:
		return r.handOver(false)
	default:
	}
	if r.request.Load() != nil {
		return r.handOver(false)
	}
	return r.settle(s.Step, s.Attempt, r.attempt(s.Step, s.Attempt, false))
}

// close releases what the run holds.
func (r *run) close() {
	if !r.over {
		r.logLost()
		r.e.events.emit(r.event(courier.EventJobLost))
	}
	r.watchdog.Stop()
	if r.deadline != nil {
		r.deadline.Stop()
	}
	r.interrupt(courier.ErrLeaseLost)
	r.lost(courier.ErrLeaseLost)
	r.endCalls()
	r.patience.end()
	r.closeResources()
}

func (r *run) closeResources() {
	if err := r.res.Close(); err != nil {
		r.log.Warn("close resources", "error", r.secrets.clean(err.Error()))
	}
}

// prepare brings the run to where the execution stands. It reports false if
// the execution can't go on here.
func (r *run) prepare(c *store.Claimed) bool {
	if c.Lost != nil {
		lost := *c.Lost
		lost.State, lost.Reason = courier.StepFailed, courier.ReasonWorkerLost
		lost.Error = fmt.Sprintf("worker %q was lost", lost.Worker)
		r.ended = append(r.ended, lost)
	}
	if r.marks.Reclaims >= maxReclaims {
		r.poisoned(c.Lost)
		return false
	}
	err := r.unready
	if err == nil {
		r.program, err = r.e.programs.toRun(&c.Definition)
	}
	pos := c.Execution.Position
	fresh := pos.Step == 0 && len(pos.Loops) == 0 && r.marks.Attempts == 0 && r.marks.Base == 0 && c.Lost == nil
	if err == nil {
		if r.marks.Resumed != "" {
			pos = r.restart(pos)
		}
		r.vals = newValues(r.program, &r.x, r.workspace())
		r.vals.restore(c.Latest, pos)
		err = r.loadChain()
	}
	if err == nil {
		r.walk, err = r.program.tree.Walk(pos, r.vals)
	}
	if err == nil {
		r.walk.Limit(r.e.opt.MaxIterations)
		r.walk.Watch(func() error { return context.Cause(r.steps) })
	}
	if err != nil {
		if s := c.Started; s != nil {
			ended := *s
			ended.State, ended.Reason, ended.Error = courier.StepFailed, courier.ReasonDefinition, r.secrets.message(err)
			r.ended = append(r.ended, ended)
		}
		r.fail(&courier.StepError{Step: -1, Reason: courier.ReasonDefinition, Err: err}, pos)
		return false
	}
	if r.x.Attempt > 1 && fresh {
		// A retry of the whole job keeps only what the steps noted down and hold.
		if err := r.e.work.empty(r.x.ID); err != nil {
			r.log.Warn("clear workspace", "error", err)
		}
	}
	return r.marks.Resumed == "" || r.checkFiles(c.Marks)
}

// restart returns where a resume begins. Steps of a loop that starts again get
// start numbers, and so names of files, that none of the first pass has.
func (r *run) restart(pos courier.Position) courier.Position {
	from := r.program.tree.Resume(pos)
	if from.Equal(pos) {
		return pos
	}
	most := r.marks.Attempts // counted from the present base or, before that, from a lower one
	ctx, cancel := context.WithTimeout(r.lease, maxReading)
	defer cancel()
	err := r.e.eachStep(ctx, &r.x, func(s *courier.StepExecution) { most = max(most, s.Attempt) })
	if err != nil {
		r.log.Error("read the steps of a loop that starts again", "error", err)
		most += maxBaseGap
	}
	r.marks.Base, r.marks.Attempts, r.marks.Interrupted = r.marks.Base+most, 0, false
	return from
}

// maxBaseGap is by how much start numbers jump when the attempts of the first pass
// can't be read.
const maxBaseGap = 1_000_000

// maxReading is how long reading all records of an execution may take.
const maxReading = time.Minute

// maxReclaims is how many workers may be lost in a step before the execution
// fails: a step that kills its worker would otherwise kill them all.
const maxReclaims = 3

// poisoned fails the execution without running anything of the step's. Lost is
// nil if the workers were lost before they began a step.
func (r *run) poisoned(lost *courier.StepExecution) {
	err := &courier.StepError{
		Step: -1, Reason: courier.ReasonWorkerLost,
		Err: fmt.Errorf("%d workers were lost here, one after the other; what they ran may be what ended them", r.marks.Reclaims),
	}
	if lost != nil {
		err.Step, err.ID, err.Type, err.Iteration, err.Attempt = lost.Step, lost.ID, lost.Type, lost.Iteration, lost.Attempt
	}
	r.marks.Reclaims = 0 // a resume begins anew
	r.fail(err, r.x.Position)
}

// checkFiles puts a resumed execution back into its former state, with the marks
// that it had, if files that completed steps left are gone.
func (r *run) checkFiles(former store.Marks) bool {
	ctx, cancel := context.WithTimeout(r.lease, maxReading)
	defer cancel()
	missing, err := r.e.missingFiles(ctx, &r.x)
	if err != nil {
		r.log.Error("check files of resumed execution", "error", err)
		return true // the steps will tell
	}
	if len(missing) == 0 {
		return true
	}
	t := &store.Transition{To: r.marks.Resumed, Failure: missingFailure(missing), Position: r.x.Position}
	marks := r.marks
	r.marks, r.marks.Resumed = former, ""
	if err = r.apply(t); errors.Is(err, courier.ErrConflict) && r.lease.Err() == nil {
		r.marks = marks
		return true // the next boundary obeys the request
	}
	return false
}

// boundary obeys what was asked for since the last step. It reports true when
// the run is over.
func (r *run) boundary() bool {
	if r.lease.Err() != nil {
		return true
	}
	if q := r.request.Load(); q != nil {
		switch q.Request {
		case courier.RequestCancel:
			r.undo(true)
			return r.cancelled()
		case courier.RequestPause:
			if r.atEnd() {
				return false // there is no next step before which it could wait
			}
			err := r.apply(&store.Transition{To: courier.Paused, Request: courier.RequestPause, Position: r.walk.Position()})
			return !errors.Is(err, courier.ErrConflict)
		}
	}
	if errors.Is(context.Cause(r.steps), errExecutionTimeout) {
		r.undo(false)
		r.fail(r.timedOut(), r.walk.Position())
		return true
	}
	if r.atEnd() {
		return false // all that is left is to record that
	}
	select {
	case <-r.stop:
		err := r.apply(&store.Transition{To: courier.Queued, Position: r.walk.Position()})
		return !errors.Is(err, courier.ErrConflict)
	default:
		return false
	}
}

// atEnd reports whether there is no step left.
func (r *run) atEnd() bool { return r.walk.Position().Step == r.program.tree.Len() }

// undo rolls back the step at which the execution stands, if an attempt at it
// failed, was interrupted or was lost.
func (r *run) undo(cancelled bool) {
	if pos := r.walk.Position(); r.marks.Attempts > 0 && pos.Step < len(r.program.types) && r.program.types[pos.Step] != nil {
		r.rollback(pos.Step, r.marks.Attempts, false, cancelled)
	}
}

// start writes that an attempt of a step begins, together with the end of the
// one before. It returns the attempt's number and whether something of an
// earlier one may have to be cleaned up.
func (r *run) start(step int) (n int, cleanup bool, err error) {
	before := r.marks
	if !before.Interrupted {
		r.count()
	}
	r.handed = before.Interrupted
	cleanup = before.Interrupted || r.marks.Base+r.marks.Attempts > 1
	r.marks.Interrupted, r.marks.Resumed = false, ""
	r.unstarted = before
	spec := r.program.tree.Spec(step)
	s := &courier.StepExecution{
		Step: step, ID: spec.ID, Type: r.program.types[step].Key(),
		Iteration: r.walk.Iteration(), Total: r.walk.Total(),
		Attempt: r.marks.Attempts, ExecutionAttempt: r.x.Attempt, State: courier.StepRunning,
	}
	err = r.apply(&store.Transition{To: courier.Running, Position: r.walk.Position(), Start: s})
	if err != nil {
		r.marks = before
		return 0, false, err
	}
	return s.Attempt, cleanup, nil
}

// count takes note of one more attempt where the execution stands.
func (r *run) count() {
	if len(r.walk.Iteration()) == 0 {
		r.marks.Base = 0 // the loop that was restarted is over
	}
	r.marks.Attempts++
}

// complete ends the execution. It reports false if an operator was faster.
func (r *run) complete() bool {
	t := &store.Transition{To: courier.Completed, Position: r.walk.Position(), DiskBytes: r.diskBytes()}
	r.slot.end(true)
	err := r.apply(t)
	if err == nil {
		r.removeWorkspace()
	}
	if errors.Is(err, courier.ErrConflict) {
		r.slot.end(false)
		return false
	}
	return true
}

// cancelled ends the execution on request.
func (r *run) cancelled() bool {
	pos := r.x.Position
	if r.walk != nil {
		pos = r.walk.Position()
	}
	err := r.apply(&store.Transition{To: courier.Cancelled, Position: pos, DiskBytes: r.diskBytes()})
	if err == nil {
		r.removeWorkspace()
	}
	return true
}

func (r *run) diskBytes() int64 {
	if !r.used {
		return 0
	}
	return r.e.work.size(r.x.ID)
}

func (r *run) removeWorkspace() {
	if !r.used && !r.reclaimed {
		return
	}
	r.closeResources()
	if err := r.e.work.remove(r.x.ID); err != nil {
		r.log.Warn("remove workspace", "error", err)
	}
}

// asked takes note of an operator's request. It may be called by any
// goroutine.
func (r *run) asked(q *store.Renewed) {
	for {
		old := r.request.Load()
		if old != nil && old.Request == courier.RequestCancel || old == nil && q.Request == "" {
			return // a cancel is never withdrawn: this is older news
		}
		now := q
		if q.Request == "" {
			now = nil // a pause was withdrawn
		}
		if r.request.CompareAndSwap(old, now) {
			break
		}
	}
	if q.Request == courier.RequestCancel {
		r.interrupt(courier.ErrCancelled)
	}
}

// event is an event about the execution itself.
func (r *run) event(t courier.EventType) courier.Event {
	return courier.Event{Type: t, Execution: r.x.ID, Job: r.x.Job, Version: r.x.Version, Step: -1}
}
