package memstore

import (
	"fmt"
	"slices"

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

	rescues bool // the loop has a rescue
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

// modelAsks are the requests of operators, by number; 0 is none. Those from askSkip to
// askStale are resumes with a change.
var modelAsks = [...]courier.RequestKind{
	"", courier.RequestPause, courier.RequestCancel, courier.RequestResume, courier.RequestRelease, courier.RequestRestart,
	courier.RequestResume, courier.RequestResume, courier.RequestResume, courier.RequestResume, courier.RequestAbort,
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
	askAbort     // a cancel without the finally part; of executions that have one
)

// modelPositions are the places in the job: a step, a loop of two iterations of
// one step and one in the rescue, another step, the end, and the step of the finally part.
// Only some searches have the rescue and the finally part.
var modelPositions = [...]courier.Position{
	{Step: 0},
	{Step: 2, Loops: []courier.LoopPosition{{Step: 1, Index: 0}}},
	{Step: 4, Loops: []courier.LoopPosition{{Step: 1, Index: 0}}},
	{Step: 2, Loops: []courier.LoopPosition{{Step: 1, Index: 1}}},
	{Step: 4, Loops: []courier.LoopPosition{{Step: 1, Index: 1}}},
	{Step: 6},
	{Step: 9},
	{Step: 8},
}

const (
	modelEnd     = uint8(6)
	modelFinally = uint8(7)
	modelBody    = 2 // the step of the loop
	modelRescue  = 4 // that of its rescue
)

// behind is the place to which an execution goes when the step at a position is over.
func behind(pos uint8, o modelOutcome) uint8 {
	switch {
	case pos == modelFinally:
		return modelEnd
	case modelPositions[pos].Step == modelBody && !o.rescues():
		return pos + 2
	}
	return pos + 1
}

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

	modelCounters

	hasFinally   bool
	finish       modelFinish
	finallyError bool // has one

	expired    bool // its lease has ended
	waiting    bool // queued and not due
	failure    bool // has one
	wasResumed bool
	started    bool // was claimed before
	files      bool // has files in a workspace
	cancelled  bool // an operator's cancel was acknowledged

	failedItems uint8
}

// modelCounters are the counters of an execution.
type modelCounters struct {
	attempts, failures, jobFailures, reclaims uint8
	rescued                                   uint8 // items
	interrupted                               bool
	resumed                                   modelState
}

// A modelFinish is what is decided of an execution whose finally part has begun.
type modelFinish struct {
	outcome  modelState // noState if none has
	pos      uint8
	counters modelCounters
}

// finishing reports whether the finally part has begun and has not ended.
func (x *modelExecution) finishing() bool { return x.finish.outcome != noState }

// cancelling reports whether an operator has asked for the end.
func (x *modelExecution) cancelling() bool { return x.request == askCancel || x.request == askAbort }

// String shows all of it.
func (x modelExecution) String() string {
	s := fmt.Sprintf("%s at position %d, attempt %d, counters %+v", modelStates[min(x.state, isCancelled)], x.pos, x.attempt, x.counters())
	if x.current != 0 {
		s += fmt.Sprintf(", at work at position %d, attempt %d", x.current-1, x.currentAttempt)
	}
	if x.request != 0 {
		s += fmt.Sprintf(", asked to %s", modelAsks[min(x.request, askAbort)])
	}
	if x.finishing() {
		s += fmt.Sprintf(", finishing as %s at position %d with counters %+v", modelStates[min(x.finish.outcome, isCancelled)], x.finish.pos, x.finish.counters)
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
		{x.hasFinally, "with a finally part"}, {x.finallyError, "which has failed"},
	} {
		if is.so {
			s += ", " + is.what
		}
	}
	return s
}

func (c *modelCounters) counters() store.Counters {
	return store.Counters{
		Attempts: int(c.attempts), Interrupted: c.interrupted, Failures: int(c.failures),
		JobFailures: int(c.jobFailures), Reclaims: int(c.reclaims), Resumed: modelStates[c.resumed], RescuedItems: int(c.rescued),
	}
}

// countersOf are the counters of the store as the model sees them.
func countersOf(c *store.Counters) modelCounters {
	return modelCounters{
		attempts: uint8(c.Attempts), failures: uint8(c.Failures), jobFailures: uint8(c.JobFailures), reclaims: uint8(c.Reclaims),
		rescued: uint8(c.RescuedItems), interrupted: c.Interrupted, resumed: modelState(slices.Index(modelStates[:], c.Resumed)),
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
	nothing      modelOutcome = iota
	lost                      // the present step is the attempt of a lost worker
	executing                 // the present step is under way; nothing to write yet
	completed                 // it ended
	skipped                   // it failed, and the policy goes on
	broken                    // it failed
	interrupted               // it was stopped half-way
	itemFailed                // it failed, and the loop goes on with the next item
	toRescue                  // it failed, and the rescue of its item begins
	lostToRescue              // it was lost with its third worker, and the rescue of its item begins
)

var modelOutcomes = [...]string{
	"", "the lost attempt, ", "", "the completed step, ", "the skipped step, ", "the failed step, ", "the interrupted step, ", "the failed item, ",
	"the failure that comes to the rescue, ", "the third lost attempt, which comes to the rescue, ",
}

// passes reports whether an execution goes on behind the step after the outcome.
func (o modelOutcome) passes() bool {
	return o == completed || o == skipped || o == itemFailed || o.rescues()
}

// rescues reports whether a rescue begins with the outcome.
func (o modelOutcome) rescues() bool { return o == toRescue || o == lostToRescue }

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

	// In place of an end of an execution that has a finally part, that begins.
	decideCompleted
	decideFailed
	decideCancelled
	decideLater // as completed; the execution goes back to the queue for its finally part
	endFinally
	failFinally
	abortFinally // because an operator has asked for it
)

// endsFinally reports whether the finally part ends with the action.
func (a modelAction) endsFinally() bool { return endFinally <= a && a <= abortFinally }

// decides reports whether the finally part begins with the action.
func (a modelAction) decides() bool { return decideCompleted <= a && a <= decideLater }

var modelActions = [...]string{
	"", "start of a step", "checkpoint", "completion", "failure", "retry of the step", "retry of the job",
	"pause", "cancellation", "hand-over", "return to where it was resumed",
	"completion is decided", "failure is decided", "cancellation is decided", "completion is decided, and a hand-over",
	"end of the finally part", "failure of the finally part", "abort of the finally part",
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
		return a == cancel || a == decideCancelled || a == checkpoint
	case askAbort:
		return a == cancel || a.endsFinally() || a == checkpoint
	case askPause:
		ends := a == complete || a == fail || a == cancel || a.decides()
		return ends || a == pause || a == checkpoint || a == putBack || x.finishing()
	}
	return a != pause // was withdrawn
}

// after is the execution when its worker's transition was written.
func (x modelExecution) after(o modelOutcome, a modelAction, log *modelLog) modelExecution {
	reason := courier.ReasonError
	switch o {
	case lost:
		log.step(x.current, x.currentAttempt, courier.StepRunning, courier.StepFailed, courier.ReasonWorkerLost)
	case completed, skipped, itemFailed, toRescue, lostToRescue:
		switch o {
		case completed:
			log.step(x.current, x.currentAttempt, courier.StepRunning, courier.StepCompleted, "")
		case skipped:
			log.step(x.current, x.currentAttempt, courier.StepRunning, courier.StepSkipped, reason)
		case lostToRescue:
			log.step(x.current, x.currentAttempt, courier.StepRunning, courier.StepFailed, courier.ReasonWorkerLost)
		default:
			log.step(x.current, x.currentAttempt, courier.StepRunning, courier.StepFailed, reason)
		}
		switch {
		case o == itemFailed:
			x.failedItems++
		case modelPositions[x.pos].Step == modelRescue:
			x.rescued++
		}
		x.pos, x.files = behind(x.pos, o), true
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
	case decideCompleted, decideFailed, decideCancelled, decideLater:
		return x.decided(a, log)
	}
	var by string
	to := isQueued
	switch a {
	case complete:
		to, x.failure, reason = isCompleted, false, ""
	case fail:
		to, x.failure, x.reclaims = isFailed, true, 0
	case retry:
		x.failures, x.reclaims, x.waiting = x.failures+1, 0, true
		x.failure = x.failure || !x.finishing() // it is that of the outcome otherwise
	case retryJob:
		x.pos, x.modelCounters, x.failedItems = 0, modelCounters{jobFailures: x.jobFailures + 1}, 0
		x.attempt, x.waiting, x.failure = x.attempt+1, true, true
	case pause:
		to, x.failure, reason, by = isPaused, false, "", modelOperator
	case cancel:
		to, x.failure, reason = isCancelled, false, ""
		if x.cancelling() {
			by = modelOperator
		}
	case endFinally, failFinally, abortFinally:
		to = x.finish.outcome
		if !x.failure {
			reason = ""
		}
		if to == isCancelled || a == abortFinally && x.request == askAbort {
			by = modelOperator
		}
		x = x.finished(a != endFinally)
	case handOver:
		reason = ""
	case putBack:
		to, x.failure, reason = x.resumed, true, courier.ReasonFiles
		if x.request == askPause && to == isPaused {
			by = modelOperator
		}
	}
	log.own(isRunning, to, reason, by)
	if x.state, x.expired = to, false; !x.finishing() { // a pause is pending until the finally part is over
		x.request = 0
	}
	return x
}

// decided is the execution when its outcome is on record and its finally part has begun.
func (x modelExecution) decided(a modelAction, log *modelLog) modelExecution {
	var reason courier.Reason
	by, to, outcome := "", isRunning, isCompleted
	switch a {
	case decideFailed:
		outcome, reason, x.reclaims = isFailed, courier.ReasonError, 0
	case decideCancelled:
		outcome = isCancelled
		if x.request == askCancel {
			by, x.request = modelOperator, 0
		}
	case decideLater:
		to, x.expired = isQueued, false
	}
	log.own(isRunning, to, reason, by)
	x.finish = modelFinish{outcome, x.pos, x.modelCounters}
	x.state, x.pos, x.modelCounters, x.failure = to, modelFinally, modelCounters{}, outcome == isFailed
	return x
}

// finished is the execution when its finally part is over, but for its state.
func (x modelExecution) finished(failed bool) modelExecution {
	x.pos, x.modelCounters, x.finish, x.finallyError = x.finish.pos, x.finish.counters, modelFinish{}, failed
	return x
}

// askedToEnd is asked for a cancel or an abort of an execution with a finally part that has
// begun and has not ended.
func (x modelExecution) askedToEnd(kind uint8, log *modelLog) (after modelExecution, ok bool) {
	outcome := x.finish.outcome
	if outcome == isCancelled || outcome == noState && x.cancelling() {
		kind = askAbort // the second one
	}
	switch held := x.state == isRunning && !x.expired; {
	case kind == askCancel && x.finishing():
		return x, false
	case kind == askCancel && x.state == isPaused:
		x = x.left(isQueued, courier.ReasonCancelled, log)
		x.request = kind
	case kind == askCancel || held:
		x.request, x.waiting = kind, false
	case x.finishing():
		x = x.left(outcome, "", log).finished(true)
	default:
		x = x.left(isCancelled, "", log)
	}
	x.cancelled = x.cancelled || outcome == noState || outcome == isCancelled
	return x, true
}

// left is the execution when it has left its state at a request.
func (x modelExecution) left(to modelState, reason courier.Reason, log *modelLog) modelExecution {
	if x.current != 0 {
		log.step(x.current, x.currentAttempt, courier.StepRunning, courier.StepPending, courier.ReasonWorkerLost)
	}
	log.own(x.state, to, reason, modelOperator)
	x.state, x.current, x.currentAttempt, x.request, x.expired, x.waiting = to, 0, 0, 0, false, false
	return x
}

// asked is the execution when an operator's request was carried out or left
// pending; ok is false if its state does not allow it.
func (x modelExecution) asked(kind uint8, log *modelLog) (after modelExecution, ok bool) {
	if cancels := kind == askCancel || kind == askAbort; cancels && x.hasFinally && x.started && (x.state == isQueued || x.state == isRunning || x.state == isPaused) {
		return x.askedToEnd(kind, log)
	}
	if kind == askAbort {
		kind = askCancel
	}
	to := noState
	switch {
	case kind == askRelease && x.state == isCreated:
		to = isQueued
	case (kind == askResume || kind == askSkip || kind == askBack || kind == askElsewhere) && (x.state == isPaused || x.state == isFailed):
		to = isQueued
	case kind == askRestart && x.files && (x.state == isPaused || x.state == isFailed || x.state == isRunning && x.expired && !x.cancelling() && !x.finishing()):
		to = isQueued
	case kind == askResume && (x.state == isRunning || x.finishing()) && x.request == askPause:
		x.request = 0
		return x, true
	case kind == askPause && x.cancelling():
		return x, false
	case kind == askPause && x.finishing():
		x.request = kind
		return x, true
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
	var reason courier.Reason
	switch kind {
	case askResume, askSkip, askBack, askElsewhere:
		x.failures, x.jobFailures, x.reclaims = 0, 0, 0
		if x.resumed != isFailed {
			x.resumed = x.state
		}
		x.failure, x.finallyError, x.wasResumed = false, false, true
		switch kind {
		case askSkip:
			log.step(x.pos+1, x.attempts+1, courier.StepPending, courier.StepSkipped, "")
			x.pos, x.attempts, x.interrupted = behind(x.pos, skipped), 0, false
		case askBack:
			x.pos, x.attempts, x.interrupted, x.failedItems, x.rescued = 0, 0, false, 0, 0
		case askElsewhere:
			x.files, reason = false, courier.ReasonWithoutFiles
		}
	case askRestart:
		reason = courier.ReasonWithoutFiles
	}
	x = x.left(to, reason, log)
	if kind == askRestart {
		x = modelExecution{state: to, attempt: x.attempt + 1, wasResumed: true, started: x.started, cancelled: x.cancelled, hasFinally: x.hasFinally}
	}
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
