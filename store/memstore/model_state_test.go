package memstore

import (
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// A model is what the contract says of two executions that two workers pass
// between them, without instants, numbers and tokens: of those only what they
// are to each other. It is derived from the contract's text and the engine's
// behaviour, not from a store.
type model struct {
	x     [2]modelExecution
	run   [2][2]modelRun // by worker and execution
	stray [2]modelRun    // by execution: a message whose sender has given up
	limit uint8          // how many may run at once; 0 means any number
	left  modelBudget
}

// A modelBudget is how many of the things that may happen are still to come.
// They bound the number of states.
type modelBudget struct {
	asks     uint8 // requests of operators that change something
	crashes  uint8 // of workers
	expiries uint8 // of leases whose worker is alive
	failures uint8 // of steps, or of a resume's check of files
	stops    uint8 // hand-overs to the queue
	losses   uint8 // replies that get lost, and messages that are delayed
}

// A modelState is a state of an execution; its name is in modelStates.
type modelState uint8

const (
	noState modelState = iota
	isCreated
	isQueued
	isRunning
	isPaused
	isFailed
	isCompleted
	isCancelled
)

var modelStates = [...]courier.State{
	"", courier.Created, courier.Queued, courier.Running, courier.Paused, courier.Failed, courier.Completed, courier.Cancelled,
}

// modelAsks are the requests of operators, by number; 0 is none. The last four are
// resumes with a change.
var modelAsks = [...]courier.RequestKind{
	"", courier.RequestPause, courier.RequestCancel, courier.RequestResume, courier.RequestRelease, courier.RequestRestart,
	courier.RequestResume, courier.RequestResume, courier.RequestResume, courier.RequestResume,
}

// modelChanges are the changes of requests.
var modelChanges = [len(modelAsks)]string{
	askSkip: ", with the step skipped,", askBack: ", from the first step on,", askElsewhere: ", without the workspace,", askStale: ", with a change for another state,",
}

const (
	askPause uint8 = iota + 1
	askCancel
	askResume
	askRelease
	askRestart
	askSkip      // a resume that skips the step at the position
	askBack      // a resume that goes back to the first step
	askElsewhere // a resume that gives the workspace up
	askStale     // a resume whose change was made for another state
)

// modelPositions are the places in the job: a step, a loop of two iterations of
// one step, another step, and the end.
var modelPositions = [...]courier.Position{
	{Step: 0},
	{Step: 2, Loops: []courier.LoopPosition{{Step: 1, Index: 0}}},
	{Step: 2, Loops: []courier.LoopPosition{{Step: 1, Index: 1}}},
	{Step: 4},
	{Step: 5},
}

const modelEnd = uint8(len(modelPositions) - 1)

// modelIterations are the iterations at the positions.
var modelIterations = func() (list [len(modelPositions)][]int) {
	for i, p := range modelPositions {
		list[i] = p.Iteration()
	}
	return list
}()

// A modelExecution is an execution as the store should know it.
type modelExecution struct {
	state          modelState
	pos            uint8 // index in modelPositions
	current        uint8 // position of the present step, plus 1
	currentAttempt uint8
	attempt        uint8 // of the execution
	request        uint8 // pending; an index in modelAsks

	attempts, failures, jobFailures, reclaims uint8 // counters
	interrupted                               bool
	resumed                                   modelState

	expired    bool // its lease has ended
	waiting    bool // queued and not due
	failure    bool // has one
	wasResumed bool
	started    bool // was claimed before
	files      bool // has files in a workspace
	cancelled  bool // an operator's cancel was acknowledged

	failedItems uint8
}

// String shows all of it.
func (x modelExecution) String() string {
	s := fmt.Sprintf("%s at position %d, attempt %d, counters %+v", modelStates[min(x.state, isCancelled)], x.pos, x.attempt, x.counters())
	if x.current != 0 {
		s += fmt.Sprintf(", at work at position %d, attempt %d", x.current-1, x.currentAttempt)
	}
	if x.request != 0 {
		s += fmt.Sprintf(", asked to %s", modelAsks[min(x.request, askRestart)])
	}
	if x.failedItems != 0 {
		s += fmt.Sprintf(", with %d failed items", x.failedItems)
	}
	for _, is := range []struct {
		so   bool
		what string
	}{
		{x.expired, "lease ended"}, {x.waiting, "not due"}, {x.failure, "with a failure"},
		{x.wasResumed, "was resumed"}, {x.started, "was claimed"}, {x.files, "has files"},
	} {
		if is.so {
			s += ", " + is.what
		}
	}
	return s
}

func (x *modelExecution) counters() store.Counters {
	return store.Counters{
		Attempts: int(x.attempts), Interrupted: x.interrupted, Failures: int(x.failures),
		JobFailures: int(x.jobFailures), Reclaims: int(x.reclaims), Resumed: modelStates[x.resumed],
	}
}

// A modelLease is whether a run's token is the execution's present or last one.
type modelLease uint8

const (
	noLease modelLease = iota
	ownLease
	oldLease
)

// A modelOutcome is what a run has to write besides what it does next.
type modelOutcome uint8

const (
	nothing     modelOutcome = iota
	lost                     // the present step is the attempt of a lost worker
	executing                // the present step is under way; nothing to write yet
	completed                // it ended
	skipped                  // it failed, and the policy goes on
	broken                   // it failed
	interrupted              // it was stopped half-way
	itemFailed               // it failed, and the loop goes on with the next item
)

var modelOutcomes = [...]string{
	"", "the lost attempt, ", "", "the completed step, ", "the skipped step, ", "the failed step, ", "the interrupted step, ", "the failed item, ",
}

// passes reports whether an execution goes on behind the step after the outcome.
func (o modelOutcome) passes() bool { return o == completed || o == skipped || o == itemFailed }

// A modelAction is what a run does next.
type modelAction uint8

const (
	noAction   modelAction = iota
	start                  // the step at the position
	checkpoint             // only write what ended
	complete
	fail
	retry    // the step, later
	retryJob // from the first step, later
	pause
	cancel
	handOver // to the queue
	putBack  // what was resumed, for its files are missing
)

var modelActions = [...]string{
	"", "start of a step", "checkpoint", "completion", "failure", "retry of the step", "retry of the job",
	"pause", "cancellation", "hand-over", "return to where it was resumed",
}

// A modelRun is an execution in the hands of a worker, as the worker sees it.
// What it believes is what the store knows, as long as it has the lease.
type modelRun struct {
	lease   modelLease
	outcome modelOutcome
	sent    modelAction // under way to the store; noAction if nothing is
	written bool        // the store has written it already
	known   uint8       // the request that the worker knows of
}

// A modelAnswer is how the store answers.
type modelAnswer uint8

const (
	accepted modelAnswer = iota
	repeated             // accepted before: nil, and nothing happens
	leaseLost
	requested // *store.RequestedError
	refused   // *courier.TransitionError
)

// A modelEntry is an audit entry; position is -1 for the execution's own.
type modelEntry struct {
	position int8
	attempt  uint8
	from, to string
	reason   courier.Reason
	by       string
}

const modelOperator = "operator"

// A modelLog collects the audit entries of an operation.
type modelLog []modelEntry

func (l *modelLog) step(current, attempt uint8, from, to courier.StepState, reason courier.Reason) {
	*l = append(*l, modelEntry{position: int8(current) - 1, attempt: attempt, from: string(from), to: string(to), reason: reason})
}

func (l *modelLog) own(from, to modelState, reason courier.Reason, by string) {
	*l = append(*l, modelEntry{position: -1, from: string(modelStates[from]), to: string(modelStates[to]), reason: reason, by: by})
}

// poisoned reports whether too many workers were lost to start the step again.
func (x *modelExecution) poisoned() bool { return x.reclaims >= 3 }

// answers reports whether an action may be written while a request is pending.
func (x *modelExecution) answers(a modelAction) bool {
	switch x.request {
	case askCancel:
		return a == cancel || a == checkpoint
	case askPause:
		ends := a == complete || a == fail || a == cancel
		return ends || a == pause || a == checkpoint || a == putBack
	}
	return a != pause // was withdrawn
}

// after is the execution when its worker's transition was written.
func (x modelExecution) after(o modelOutcome, a modelAction, log *modelLog) modelExecution {
	reason := courier.ReasonError
	switch o {
	case lost:
		log.step(x.current, x.currentAttempt, courier.StepRunning, courier.StepFailed, courier.ReasonWorkerLost)
	case completed, skipped, itemFailed:
		switch o {
		case completed:
			log.step(x.current, x.currentAttempt, courier.StepRunning, courier.StepCompleted, "")
		case skipped:
			log.step(x.current, x.currentAttempt, courier.StepRunning, courier.StepSkipped, reason)
		default:
			log.step(x.current, x.currentAttempt, courier.StepRunning, courier.StepFailed, reason)
			x.failedItems++
		}
		x.pos, x.files = x.pos+1, true
		x.attempts, x.failures, x.reclaims, x.interrupted, x.resumed = 0, 0, 0, false, noState
	case broken:
		log.step(x.current, x.currentAttempt, courier.StepRunning, courier.StepFailed, reason)
	case interrupted:
		log.step(x.current, x.currentAttempt, courier.StepRunning, courier.StepPending, "")
		x.interrupted = true
	}
	x.current, x.currentAttempt = 0, 0
	switch a {
	case start:
		if !x.interrupted {
			x.attempts++
		}
		x.interrupted, x.resumed = false, noState
		x.current, x.currentAttempt = x.pos+1, x.attempts
		log.step(x.current, x.currentAttempt, courier.StepPending, courier.StepRunning, "")
		return x
	case checkpoint:
		return x
	}
	var by string
	to := isQueued
	switch a {
	case complete:
		to, x.failure, reason = isCompleted, false, ""
	case fail:
		to, x.failure, x.reclaims = isFailed, true, 0
	case retry:
		x.failures, x.reclaims, x.waiting, x.failure = x.failures+1, 0, true, true
	case retryJob:
		x.pos, x.attempts, x.failures, x.reclaims, x.interrupted, x.resumed, x.failedItems = 0, 0, 0, 0, false, noState, 0
		x.jobFailures, x.attempt, x.waiting, x.failure = x.jobFailures+1, x.attempt+1, true, true
	case pause:
		to, x.failure, reason, by = isPaused, false, "", modelOperator
	case cancel:
		to, x.failure, reason = isCancelled, false, ""
		if x.request == askCancel {
			by = modelOperator
		}
	case handOver:
		reason = ""
	case putBack:
		to, x.failure, reason = x.resumed, true, courier.ReasonFiles
		if x.request == askPause && to == isPaused {
			by = modelOperator
		}
	}
	log.own(isRunning, to, reason, by)
	x.state, x.request, x.expired = to, 0, false
	return x
}

// asked is the execution when an operator's request was carried out or left
// pending; ok is false if its state does not allow it.
func (x modelExecution) asked(kind uint8, log *modelLog) (after modelExecution, ok bool) {
	to := noState
	switch {
	case kind == askRelease && x.state == isCreated:
		to = isQueued
	case (kind == askResume || kind == askSkip || kind == askBack || kind == askElsewhere) && (x.state == isPaused || x.state == isFailed):
		to = isQueued
	case kind == askRestart && x.files && (x.state == isPaused || x.state == isFailed || x.state == isRunning && x.expired && x.request != askCancel):
		to = isQueued
	case kind == askResume && x.state == isRunning && x.request == askPause:
		x.request = 0
		return x, true
	case kind == askPause && x.state == isRunning && x.request == askCancel:
		return x, false
	case kind == askPause && (x.state == isQueued || x.state == isRunning):
		to = isPaused
	case kind == askCancel && x.state != isCompleted && x.state != isCancelled:
		to, x.cancelled = isCancelled, true
	default:
		return x, false
	}
	if x.state == isRunning && !x.expired {
		x.request = kind
		return x, true
	}
	if x.current != 0 {
		log.step(x.current, x.currentAttempt, courier.StepRunning, courier.StepPending, courier.ReasonWorkerLost)
	}
	var reason courier.Reason
	switch kind {
	case askResume, askSkip, askBack, askElsewhere:
		x.failures, x.jobFailures, x.reclaims, x.resumed = 0, 0, 0, x.state
		x.failure, x.wasResumed = false, true
		switch kind {
		case askSkip:
			log.step(x.pos+1, x.attempts+1, courier.StepPending, courier.StepSkipped, "")
			x.pos, x.attempts, x.interrupted = x.pos+1, 0, false
		case askBack:
			x.pos, x.attempts, x.interrupted, x.failedItems = 0, 0, false, 0
		case askElsewhere:
			x.files, reason = false, courier.ReasonWithoutFiles
		}
	case askRestart:
		reason = courier.ReasonWithoutFiles
	}
	log.own(x.state, to, reason, modelOperator)
	if kind == askRestart {
		x = modelExecution{attempt: x.attempt + 1, wasResumed: true, started: x.started, cancelled: x.cancelled}
	}
	x.state, x.current, x.currentAttempt, x.request, x.expired, x.waiting = to, 0, 0, 0, false, false
	return x, true
}

// claimed is the execution when a worker took it.
func (x modelExecution) claimed(log *modelLog) modelExecution {
	if x.state == isRunning {
		log.own(isRunning, isQueued, courier.ReasonWorkerLost, "")
		x.reclaims++
	}
	log.own(isQueued, isRunning, "", "")
	x.state, x.expired, x.waiting, x.started = isRunning, false, false, true
	return x
}
