package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/checkpoint"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/history"
	"github.com/courierhq/courier/engine/internal/leases"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/engine/internal/repair"
	"github.com/courierhq/courier/engine/internal/slots"
	"github.com/courierhq/courier/engine/internal/stepcall"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/secret"
	"github.com/courierhq/courier/store"
)

// A run executes one execution, from a claim to the transition that ends the
// lease. Its methods are called by one goroutine,
// but for those that say otherwise.
type run struct {
	e       *Engine
	log     *slog.Logger
	x       courier.Execution // as it was claimed, with the repairs since
	claimed time.Time         // when the claim was sent
	token   store.Token
	before  <-chan struct{} // closed when the earlier runs of this engine have ended; nil if there are none
	slot    *slots.Slot     // nil if it needs none
	unready error           // what is wrong with the workspaces

	// What is executed.
	program *program.Program
	walk    *flow.Walk
	vals    *program.Values

	lease      leases.Lease          // whether it may go on
	checkpoint checkpoint.Checkpoint // how far it has come
	earlier    repair.Earlier        // what was executed before, and what of it is executed again

	writing progressWrite      // the present write
	err     *courier.StepError // with which the execution has failed
	finish  *store.Finish      // what is decided, since the finally part has begun; nil before
	outcome *courier.Failure   // of the outcome, likewise
	begun   bool               // the finally part has begun and was not driven yet
	last    *courier.Execution // as it was last written, for a probe

	// What steps are given.
	secrets core.Secrets
	res     *courier.Resources
	dir     string // the workspace; empty until it is needed
	// used says that the execution may have files in the workspace; reclaimed that the
	// worker before was lost, which may have left files that it has not reported.
	used, reclaimed bool
	unlabelled      bool   // it was logged that an item has no label
	lastFailed      string // which item has failed last in this run, and with what; empty if none has

	// The present attempt at a step, or the last one.
	caller  stepcall.Caller
	present atomic.Pointer[attempt]
	shown   atomic.Int64 // when it last emitted an event of its progress
	took    time.Duration
}

// newRun takes over what a claim returned. Base carries values for the steps;
// sent is when the claim was sent.
func (e *Engine) newRun(base context.Context, c *store.Claimed, sent time.Time, stop <-chan struct{}) *run {
	r := &run{
		e: e, x: c.Execution, claimed: sent, token: c.Token, checkpoint: checkpoint.Claimed(c),
		used: c.Execution.Workspace != "", reclaimed: c.Counters.Reclaims > 0 || c.Lost != nil,
	}
	r.begin(context.WithoutCancel(base), new(secret.Redactor))
	r.secrets.Claimed(c.Counters.Secrets)
	r.lease.Grant(e.opt.Lease, sent, stop)
	timeout := r.x.Timeout
	if r.finish = c.Finish; r.finish != nil {
		r.lease.Finishes()
		timeout = r.finish.Timeout
	}
	if timeout > 0 {
		r.lease.Limit(c.Remaining)
	}
	if q := r.x.Request; r.x.HasFinally && (q == courier.RequestCancel || q == courier.RequestAbort) {
		r.lease.SetRequest(&store.Renewed{Execution: r.x.ID, Request: q, By: r.x.RequestedBy, Reason: r.x.RequestReason})
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
		r.checkpoint.SetCurrent(started)
		r.emitWritten(&store.Transition{To: courier.Running, Start: c.Started})
	}
	return r
}

// begin sets up what a run needs besides its execution. Known gets the secrets that it uses.
func (r *run) begin(ctx context.Context, known *secret.Redactor) {
	r.secrets.Source, r.secrets.Most, r.secrets.Redactor = r.e.opt.Secrets, r.e.opt.MaxSecrets, known
	r.log = slog.New(core.RedactHandler(r.e.log.Handler(), known)).With("execution", r.x.ID, "job", r.x.Job)
	r.res = new(courier.Resources)
	r.lease.Begin(ctx)
}

// workspace is the directory of the execution.
func (r *run) workspace() string {
	if r.dir == "" {
		r.dir = r.e.work.Of(r.x.ID)
	}
	return r.dir
}

// drive executes the steps until the lease has ended.
func (r *run) drive(c *store.Claimed) {
	defer r.close()
	if r.before != nil {
		select {
		case <-r.before:
		case <-r.lease.Context().Done():
			return
		}
	}
	goesOn := r.prepare(c) && (c.Started == nil || r.started(c.Started))
	for goesOn || r.begun {
		r.begun = false
		r.steps()
		goesOn = false
	}
}

// steps executes steps until the lease has ended, or the finally part has begun.
func (r *run) steps() {
	for r.lease.Held() {
		step, err := r.walk.Next()
		switch {
		case r.boundary():
			return
		case err != nil && r.lease.Steps().Err() != nil:
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
	if r.lease.Stopping() || r.lease.Request() != nil {
		return r.requeue(false)
	}
	return r.settle(s.Step, s.Attempt, r.attempt(s.Step, s.Attempt, false))
}

// close releases what the run holds.
func (r *run) close() {
	if !r.checkpoint.Over() {
		r.lines().Lost(r.checkpoint.Current())
		r.e.observers.Emit(r.event(courier.EventJobLost))
	}
	r.lease.Close()
	r.caller.End()
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
		r.checkpoint.Lost(*c.Lost)
	}
	err := r.unready
	if err == nil {
		r.program, err = r.e.programs.ToRun(&c.Definition)
	}
	pos := c.Execution.Position
	fresh := pos.Step == 0 && len(pos.Loops) == 0 && r.checkpoint.Attempts == 0 && r.checkpoint.Base == 0 && c.Lost == nil
	if err == nil {
		r.earlier = repair.Earlier{Archive: r.e.store, Tree: r.program.Tree, Execution: &r.x}
		r.earlier.Claimed(c.Latest)
		if r.checkpoint.Resumed != "" {
			pos = r.restart(pos)
		}
		r.vals = program.NewValues(r.program, &r.x, r.workspace())
		r.vals.SetFailedItems(r.failedItems)
		r.vals.SetRescuedItems(r.rescuedItems)
		at := pos
		if r.finish != nil {
			at = r.finish.Position
		}
		err = r.earlier.Restore(r.lease.Context(), r.vals, c.Latest, r.checkpoint.Target, at)
	}
	if err == nil {
		err = r.loadMembers()
	}
	switch {
	case err != nil:
	case r.finish != nil:
		err = r.restoreFinally(c, pos)
	default:
		r.walk, err = r.program.Tree.Walk(pos, r.vals)
	}
	if err == nil {
		r.walk.Limit(r.e.opt.MaxIterations)
		r.walk.Watch(func() error { return context.Cause(r.lease.Steps()) })
		r.bindTarget()
	}
	if r.checkpoint.Reclaims >= maxReclaims {
		return r.poisoned(c.Lost)
	}
	if err != nil {
		if s := c.Started; s != nil {
			ended := *s
			ended.State, ended.Reason, ended.Error = courier.StepFailed, courier.ReasonDefinition, r.secrets.Message(err)
			r.checkpoint.Add(ended)
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
	return r.checkpoint.Resumed == "" || r.checkFiles(c.Counters)
}

// restart returns where a resume begins. Steps of a loop that starts again get
// start numbers, and so names of files, that none of the first pass has.
func (r *run) restart(pos courier.Position) courier.Position {
	from := r.program.Tree.Resume(pos)
	if r.checkpoint.Target > 0 || from.Equal(pos) {
		return pos
	}
	r.checkpoint.Restarted()
	if r.checkpoint.Items > 0 || r.x.Repairs != nil || r.program.Tree.HasRescues() {
		return r.goBack(from)
	}
	return from
}

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
		Err: fmt.Errorf("%d workers were lost here in a row; the work itself may have ended them", r.checkpoint.Reclaims),
	}
	if lost != nil {
		err.Step, err.ID, err.Type, err.Iteration, err.Attempt = lost.Step, lost.ID, lost.Type, lost.Iteration, lost.Attempt
	}
	r.checkpoint.Reclaims = 0 // a resume begins anew
	r.fail(err, r.x.Position)
	return false
}

// checkFiles puts a resumed execution back into its former state, with the counters
// that it had, if files that completed steps left are gone.
func (r *run) checkFiles(former store.Counters) bool {
	ctx, cancel := context.WithTimeout(r.lease.Context(), repair.MaxReading)
	defer cancel()
	files, err := r.earlier.History().Files(ctx)
	if err != nil {
		r.log.Error("check files of resumed execution", "error", err)
		return true // a step that needs a missing file fails
	}
	missing := r.e.work.Missing(r.x.ID, r.e.opt.Roots, files)
	if len(missing) == 0 {
		return true
	}
	t := &store.Transition{To: r.checkpoint.Resumed, Failure: history.MissingFailure(missing), Position: r.x.Position}
	counters := r.checkpoint.Counters
	r.checkpoint.Counters, r.checkpoint.Resumed = former, ""
	if err = r.apply(t); errors.Is(err, courier.ErrConflict) && r.lease.Held() {
		r.checkpoint.Counters = counters
		return true // the next boundary carries out the request
	}
	return false
}

// boundary carries out requests to pause, cancel or stop that arrived since the last
// step. It reports true when the run is over.
func (r *run) boundary() bool {
	if !r.lease.Held() {
		return true
	}
	if q := r.lease.Request(); q != nil {
		switch q.Request {
		case courier.RequestCancel, courier.RequestAbort:
			r.undo(true)
			return r.cancelled()
		case courier.RequestPause:
			if r.finish != nil {
				break // it is dropped when the finally part is over
			}
			if r.atEnd() {
				return false // there is no next step before which it could wait
			}
			err := r.apply(&store.Transition{To: courier.Paused, Request: courier.RequestPause, Position: r.walk.Position()})
			return !errors.Is(err, courier.ErrConflict)
		}
	}
	if errors.Is(context.Cause(r.lease.Steps()), leases.ErrTimeout) {
		r.undo(false)
		r.fail(r.timedOut(), r.walk.Position())
		return true
	}
	if r.atEnd() {
		return false // all that is left is to record that
	}
	if !r.lease.Stopping() {
		return false
	}
	err := r.apply(&store.Transition{To: courier.Queued, Position: r.walk.Position()})
	return !errors.Is(err, courier.ErrConflict)
}

// atEnd reports whether there is no step left.
func (r *run) atEnd() bool { return r.walk.Position().Step == r.program.Tree.Len() }

// undo rolls back the step at which the execution stands, if an attempt at it
// failed, was interrupted or was lost.
func (r *run) undo(cancelled bool) {
	if pos := r.walk.Position(); r.checkpoint.Attempts > 0 && pos.Step < len(r.program.Types) && r.program.Types[pos.Step] != nil {
		r.rollback(pos.Step, r.checkpoint.Attempts, false, cancelled)
	}
}

// start writes that an attempt of a step begins, together with the end of the
// one before. It returns the attempt's number and whether something of an
// earlier one may have to be cleaned up.
func (r *run) start(step int) (n int, cleanup bool, err error) {
	r.countItems()
	cleanup, before := r.checkpoint.Start(r.count)
	spec := r.program.Tree.Spec(step)
	s := &courier.StepExecution{
		Step: step, ID: spec.ID, Type: r.program.Types[step].Key(),
		Iteration: r.walk.Iteration(), Total: r.walk.Total(),
		Attempt: r.checkpoint.Attempts, ExecutionAttempt: r.x.Attempt, State: courier.StepRunning,
	}
	err = r.apply(&store.Transition{To: courier.Running, Position: r.walk.Position(), Start: s})
	if err != nil {
		r.checkpoint.Counters = before
		return 0, false, err
	}
	return s.Attempt, cleanup, nil
}

// count takes note of one more attempt where the execution stands.
func (r *run) count() {
	if r.finish != nil {
		r.checkpoint.Count(0) // the pass has starts of its own
		return
	}
	if len(r.walk.Iteration()) == 0 && r.x.Repairs == nil {
		r.checkpoint.Base = 0 // the loop that was restarted is over
	}
	r.checkpoint.Count(r.earlier.LastAttempt(r.walk.Position().Step, r.walk.Iteration()))
}
