package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/history"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/engine/internal/repair"
	"github.com/courierhq/courier/engine/internal/slots"
	"github.com/courierhq/courier/engine/internal/stepcall"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/secret"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/store"
)

// A run executes one execution, from a claim to the transition that ends the
// lease. Its methods are called by one goroutine,
// but for those that say otherwise.
type run struct {
	e       *Engine
	log     *slog.Logger
	x       courier.Execution // as it was claimed
	token   store.Token
	program *program.Program
	walk    *flow.Walk
	vals    *program.Values
	seq     int64 // of the last audit entry
	marks   store.Counters
	current *courier.StepExecution  // the present step, as it is in the store
	ended   []courier.StepExecution // attempts whose end is not written yet
	used    bool                    // the execution may have files in the workspace
	stored  standing                // what is in the store
	// unstarted are the marks before those of the attempt that a write starts.
	unstarted store.Counters
	scrubbed  int           // see scrubbedOutputs
	left      atomic.Bool   // the lease is not renewed, and lasts until another worker takes the execution over
	over      bool          // a write has ended the lease
	writing   progressWrite // the present write
	stopping  time.Time     // when the present write first saw that the engine stops
	claimed   time.Time     // when
	began     time.Time     // of the last attempt
	took      time.Duration
	// reclaimed says that the worker before was lost: it may have left files that
	// it has not reported.
	reclaimed   bool
	handed      bool                    // another worker has started the present attempt
	latest      []courier.StepExecution // of each step, at the claim, in the present version
	former      map[string]bool         // the places of earlier passes; see repeated
	items       int                     // failed ones, as courier.Execution.FailedItems
	pass        *repair.Pass            // in which items are executed again; nil if none are
	repaired    bool                    // a pass was begun since the claim
	earlier     map[string]int          // attempts of steps before the execution went back, by place
	repairs     *courier.Repairs        // to be written with the next transition; nil if they have not changed
	before      <-chan struct{}         // closed when the earlier runs of this engine have ended; nil if there are none
	slot        *slots.Slot             // nil if it needs none
	unready     error                   // what is wrong with the workspaces
	res         *courier.Resources
	secrets     *secret.Redactor
	usedSecrets core.UsedSecrets
	dir         string                                                             // its workspace; empty until it is needed
	buf         []byte                                                             // of the rendered configuration
	done        chan stepcall.Outcome                                              // of the present attempt
	goroutine   stepcall.Goroutine                                                 // in which the step is called
	timer       stepcall.Timer                                                     // of the present attempt
	resolve     func(ctx context.Context, r courier.SecretRequest) (string, error) // secretFor
	err         *courier.StepError
	present     atomic.Pointer[attempt] // the last attempt at a step
	shown       atomic.Int64            // when it last emitted an event of its progress
	kept        *store.Progress         // what the next start gets, if it is of the same step
	cursor      json.RawMessage         // of kept
	last        *courier.Execution      // as it was last written, for a probe

	// lease ends when the lease is lost; it carries the store calls, each bounded
	// by callTimeout. steps ends also when a step has to stop, with the reason as its
	// cause.
	lease       context.Context
	lost        context.CancelCauseFunc
	callTimeout storecall.Calls
	steps       context.Context
	interrupt   context.CancelCauseFunc
	watchdog    *time.Timer
	deadline    *time.Timer // of the whole execution; nil if it has no timeout

	stop    <-chan struct{} // closed when the execution is to be handed over
	request atomic.Pointer[store.Renewed]
}

// A standing is where an execution stands in the store.
type standing struct {
	courier.Position
	store.Counters
	items int // failed ones
}

// errExecutionTimeout is the cause with which steps end when the whole
// execution takes too long.
var errExecutionTimeout = fmt.Errorf("the execution: %w", courier.ErrTimeout)

// newRun takes over what a claim returned. Base carries values for the steps;
// sent is when the claim was sent.
func (e *Engine) newRun(base context.Context, c *store.Claimed, sent time.Time, stop <-chan struct{}) *run {
	r := &run{
		e: e, x: c.Execution, token: c.Token, seq: c.Seq, marks: c.Counters, current: c.Execution.Current,
		used: c.Execution.Workspace != "", stop: stop, claimed: sent, items: c.Execution.FailedItems,
		stored: standing{c.Execution.Position, c.Counters, c.Execution.FailedItems},
	}
	r.kept = c.Progress
	r.usedSecrets.Begin(c.Counters.Secrets)
	r.reclaimed = c.Counters.Reclaims > 0 || c.Lost != nil
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
	e.notifications.Wake()
	r.lines().Claim(c)
	switch {
	case c.First:
		e.observers.Emit(r.event(courier.EventJobStarted))
	case c.Reclaimed:
		ev := r.event(courier.EventJobTakenOver)
		ev.Reason = courier.ReasonWorkerLost
		e.observers.Emit(ev)
	}
	if c.Started != nil {
		started := *c.Started
		started.StartedAt = time.Time{} // the store has it, as of all that it starts
		r.current = &started
		r.emitWritten(&store.Transition{To: courier.Running, Start: c.Started})
	}
	return r
}

// begin sets up what a run needs besides its execution.
func (r *run) begin(ctx context.Context) {
	if r.secrets == nil {
		r.secrets = new(secret.Redactor)
	}
	r.log = slog.New(core.RedactHandler(r.e.log.Handler(), r.secrets)).With("execution", r.x.ID, "job", r.x.Job)
	r.res, r.resolve = new(courier.Resources), r.secretFor
	r.lease, r.lost = context.WithCancelCause(ctx)
	r.callTimeout.Parent = r.lease
	r.steps, r.interrupt = context.WithCancelCause(r.lease)
}

// workspace is the directory of the execution.
func (r *run) workspace() string {
	if r.dir == "" {
		r.dir = r.e.work.Of(r.x.ID)
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
		step, err := r.walk.Next()
		switch {
		case r.boundary():
			return
		case err != nil && r.steps.Err() != nil:
			continue // the walk was stopped; the next boundary says why
		case errors.Is(err, flow.ErrItemEnded):
			if !r.itemRepaired() {
				return
			}
		case err != nil:
			if !r.markerFailed(err) {
				return
			}
		case step == r.program.Tree.Len():
			if r.complete() {
				return
			}
		default:
			n, cleanup, err := r.start(step)
			if errors.Is(err, courier.ErrConflict) {
				continue // the next boundary carries out the request
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
		return r.requeue(false)
	default:
	}
	if r.request.Load() != nil {
		return r.requeue(false)
	}
	return r.settle(s.Step, s.Attempt, r.attempt(s.Step, s.Attempt, false))
}

// close releases what the run holds.
func (r *run) close() {
	if !r.over {
		r.lines().Lost(r.current)
		r.e.observers.Emit(r.event(courier.EventJobLost))
	}
	r.watchdog.Stop()
	if r.deadline != nil {
		r.deadline.Stop()
	}
	r.interrupt(courier.ErrLeaseLost)
	r.lost(courier.ErrLeaseLost)
	r.goroutine.End()
	r.callTimeout.End()
	r.closeResources()
}

func (r *run) closeResources() {
	if err := r.res.Close(); err != nil {
		r.log.Warn("close resources", "error", r.secrets.Clean(err.Error()))
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
	err := r.unready
	if err == nil {
		r.program, err = r.e.programs.ToRun(&c.Definition)
	}
	pos := c.Execution.Position
	fresh := pos.Step == 0 && len(pos.Loops) == 0 && r.marks.Attempts == 0 && r.marks.Base == 0 && c.Lost == nil
	if err == nil {
		r.latest = r.history().Mapped(c.Latest)
		if r.marks.Resumed != "" {
			pos = r.restart(pos)
		}
		r.vals = program.NewValues(r.program, &r.x, r.workspace())
		r.vals.SetFailedItems(r.failedItems)
		if r.x.Repairs != nil {
			r.earlier = repair.Attempts(r.latest)
		}
		if err = r.resumePass(); err == nil {
			err = r.history().Restore(r.lease, r.vals, c.Latest, pos)
		}
	}
	if err == nil {
		err = r.loadMembers()
	}
	if err == nil {
		r.walk, err = r.program.Tree.Walk(pos, r.vals)
	}
	if err == nil {
		r.walk.Limit(r.e.opt.MaxIterations)
		r.walk.Watch(func() error { return context.Cause(r.steps) })
		r.bindTarget()
	}
	if r.marks.Reclaims >= maxReclaims {
		return r.poisoned(c.Lost)
	}
	if err != nil {
		if s := c.Started; s != nil {
			ended := *s
			ended.State, ended.Reason, ended.Error = courier.StepFailed, courier.ReasonDefinition, r.secrets.Message(err)
			r.ended = append(r.ended, ended)
		}
		r.fail(&courier.StepError{Step: -1, Reason: courier.ReasonDefinition, Err: err}, pos)
		return false
	}
	if r.x.Attempt > 1 && fresh {
		// A retry of the whole job keeps only what the steps noted down and hold.
		if err := r.e.work.Empty(r.x.ID); err != nil {
			r.log.Warn("clear workspace", "error", err)
		}
	}
	return r.marks.Resumed == "" || r.checkFiles(c.Counters)
}

// restart returns where a resume begins. Steps of a loop that starts again get
// start numbers, and so names of files, that none of the first pass has.
func (r *run) restart(pos courier.Position) courier.Position {
	from := r.program.Tree.Resume(pos)
	if r.marks.Target > 0 || from.Equal(pos) {
		return pos
	}
	// Every start has an audit entry, so none has had a number above that of the last one.
	r.marks.Base, r.marks.Attempts, r.marks.Interrupted = int(r.seq), 0, false
	r.kept = nil
	if r.items > 0 || r.x.Repairs != nil {
		return r.goBack(from)
	}
	return from
}

// maxReading is how long reading all records of an execution may take.
const maxReading = time.Minute

// maxReclaims is how many workers may be lost in a step before the execution
// fails: a step that kills its worker would otherwise kill them all.
const maxReclaims = 3

// poisoned fails the execution, or the present item of a loop that goes on then,
// without running anything of the step's. Lost is nil if the workers were lost before
// they began a step. It reports whether the execution goes on.
func (r *run) poisoned(lost *courier.StepExecution) bool {
	r.noteLost(lost)
	if r.walk != nil && r.loseItem(lost) {
		return true
	}
	err := &courier.StepError{
		Step: -1, Reason: courier.ReasonWorkerLost,
		Err: fmt.Errorf("%d workers were lost here, one after the other; what they ran may be what ended them", r.marks.Reclaims),
	}
	if lost != nil {
		err.Step, err.ID, err.Type, err.Iteration, err.Attempt = lost.Step, lost.ID, lost.Type, lost.Iteration, lost.Attempt
	}
	r.marks.Reclaims = 0 // a resume begins anew
	r.fail(err, r.x.Position)
	return false
}

// checkFiles puts a resumed execution back into its former state, with the marks
// that it had, if files that completed steps left are gone.
func (r *run) checkFiles(former store.Counters) bool {
	ctx, cancel := context.WithTimeout(r.lease, maxReading)
	defer cancel()
	files, err := r.history().Files(ctx)
	if err != nil {
		r.log.Error("check files of resumed execution", "error", err)
		return true // a step that needs a missing file fails
	}
	missing := r.e.work.Missing(r.x.ID, r.e.opt.Roots, files)
	if len(missing) == 0 {
		return true
	}
	t := &store.Transition{To: r.marks.Resumed, Failure: history.MissingFailure(missing), Position: r.x.Position}
	marks := r.marks
	r.marks, r.marks.Resumed = former, ""
	if err = r.apply(t); errors.Is(err, courier.ErrConflict) && r.lease.Err() == nil {
		r.marks = marks
		return true // the next boundary carries out the request
	}
	return false
}

// boundary carries out requests to pause, cancel or stop that arrived since the last
// step. It reports true when the run is over.
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
func (r *run) atEnd() bool { return r.walk.Position().Step == r.program.Tree.Len() }

// undo rolls back the step at which the execution stands, if an attempt at it
// failed, was interrupted or was lost.
func (r *run) undo(cancelled bool) {
	if pos := r.walk.Position(); r.marks.Attempts > 0 && pos.Step < len(r.program.Types) && r.program.Types[pos.Step] != nil {
		r.rollback(pos.Step, r.marks.Attempts, false, cancelled)
	}
}

// start writes that an attempt of a step begins, together with the end of the
// one before. It returns the attempt's number and whether something of an
// earlier one may have to be cleaned up.
func (r *run) start(step int) (n int, cleanup bool, err error) {
	r.countItems()
	before := r.marks
	if !before.Interrupted {
		r.count()
	}
	r.handed = before.Interrupted
	cleanup = before.Interrupted || r.marks.Base+r.marks.Attempts > 1
	r.marks.Interrupted, r.marks.Resumed = false, ""
	r.unstarted = before
	spec := r.program.Tree.Spec(step)
	s := &courier.StepExecution{
		Step: step, ID: spec.ID, Type: r.program.Types[step].Key(),
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
	if len(r.walk.Iteration()) == 0 && r.x.Repairs == nil {
		r.marks.Base = 0 // the loop that was restarted is over
	}
	if r.marks.Attempts == 0 && r.earlier != nil {
		r.marks.Attempts = r.earlier[history.Place(r.walk.Position().Step, r.walk.Iteration())]
	}
	r.marks.Attempts++
}
