package store

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/courierhq/courier"
)

// A Transition is the progress of an execution that is written atomically: the steps that
// ended, the step that starts, the new state and position.
//
// Every transition writes at least one audit entry; see [Transition.Entries].
type Transition struct {
	Execution courier.ExecutionID
	// Chain is the chain execution of which the execution is a member; empty if there is
	// none. The row of the execution has it too; here it saves the store a read.
	Chain courier.ChainExecutionID
	Lease Token
	// Seq is the number of the first audit entry that the transition writes:
	// one more than that of the last entry.
	Seq int64
	// To is running for progress, or the state that the execution enters, which
	// ends the lease.
	To courier.State
	// Delay is the time until the execution is due, for To queued.
	Delay    time.Duration
	Position courier.Position
	Counters Counters
	// Ended are the attempts that ended. The store sets their Execution, Seq,
	// ExecutionAttempt, StartedAt, EndedAt and Worker. It sets StartedAt only if it is
	// zero, to that of the current step, or to now, and Worker only if it is empty,
	// to the holder of the lease. The attempt of a lost worker names that worker.
	Ended []courier.StepExecution
	// Request is the request that the transition carries out, if any. The transition is
	// refused if that request is no longer pending.
	Request courier.RequestKind
	// Interrupt puts the current step back to pending.
	Interrupt bool
	// Start is the attempt that starts; nil if none does. It becomes the current step:
	// the caller ends or interrupts the one before it. The store sets its Execution,
	// ExecutionAttempt, State, StartedAt and Worker.
	Start *courier.StepExecution
	// Failure is the failure of an execution that becomes failed, or queued after a
	// failure. A transition to another state than running or queued without a Failure
	// clears it.
	Failure *courier.Failure
	// RetryJob begins the next attempt of the execution: Attempt is incremented, and
	// neither earlier records nor those of Ended are the latest any longer. FailedItems
	// becomes 0, the counters become [Counters.NextAttempt], and the Repairs become
	// [NextRepairs]. No step starts with the same transition.
	RetryJob bool
	// Workspace is the id of the worker's directory tree if the execution has
	// files in it; empty leaves it as it is. DiskBytes is set if not 0.
	Workspace string
	DiskBytes int64
	// OnlyCopies replaces the OnlyCopies of the execution, unless it stays running. A claim
	// sets them to nil.
	OnlyCopies *courier.OnlyCopies
	// Result is the result of an execution that becomes completed, as JSON; nil for none.
	Result json.RawMessage
	// FailedItems is what [courier.Execution.FailedItems] becomes; nil leaves it.
	FailedItems *int
	// Progress replaces the progress of the execution, without Report and Idle; nil
	// removes it.
	Progress *Progress
	// Repairs replaces the Repairs of the execution, as [Change.Repairs] does; nil leaves
	// them.
	Repairs *courier.Repairs
	// Finish begins the finally part: from then on the execution has a Finishing, and its
	// timeout is that of the part. The Failure and the Result of the transition belong to
	// the outcome, and stay until the execution ends. Nil if no finally part begins.
	Finish *Finish
	// Finally says that the transition belongs to the finally part. The Failure of the execution
	// then changes only if the execution ends, and its Result stays. The transition that ends the
	// execution removes the Finishing, and its By and Text are those of the audit entry.
	Finally  bool
	By, Text string
	// FinallyError replaces the FinallyError of an execution that ends; nil clears it.
	FinallyError *courier.Failure
}

// moves reports whether the transition writes an audit entry of the execution itself.
func (t *Transition) moves() bool { return t.To != courier.Running || t.Finish != nil }

// Entries returns the audit entries that the transition writes, in order, with
// their numbers: the ended attempts, the interrupted one, the change of the
// execution's state, the started attempt. Current is the current step of the execution, and by
// is the actor of the request that the transition carries out; see [Transition.CarriedOut]. The
// store sets the Error of the entry with an actor to the reason of the request. It also sets the
// instants, the worker, the attempt of the execution, which is the one before the transition,
// and the elapsed times: for a step that was executed the time since it started, for the
// execution the time since its state last changed, and 0 for a step that starts or never did.
func (t *Transition) Entries(current *courier.StepExecution, by string) []courier.AuditEntry {
	entries := make([]courier.AuditEntry, 0, len(t.Ended)+2)
	add := func(e courier.AuditEntry) {
		e.Execution, e.Seq = t.Execution, t.Seq+int64(len(entries))
		entries = append(entries, e)
	}
	for i := range t.Ended {
		s := &t.Ended[i]
		e := stepEntry(s, courier.StepRunning, s.State)
		if !Same(current, s) {
			e.From = string(courier.StepPending)
		}
		e.Bytes, e.Reason, e.Error = s.Bytes, s.Reason, s.Error
		add(e)
	}
	if t.Interrupt && current != nil {
		add(stepEntry(current, courier.StepRunning, courier.StepPending))
	}
	if t.moves() {
		e := courier.AuditEntry{From: string(courier.Running), To: string(t.To), By: cmp.Or(by, t.By), Error: t.Text}
		if t.Failure != nil {
			e.Reason, e.Error = t.Failure.Reason, t.Failure.Message
		}
		if t.Finish != nil {
			e.Error = t.Finish.Text
		}
		add(e)
	}
	if t.Start != nil {
		add(stepEntry(t.Start, courier.StepPending, courier.StepRunning))
	}
	return entries
}

// Same reports whether a and b are records of the same attempt of the same step in
// the same iteration. Nil stands for no record.
func Same(a, b *courier.StepExecution) bool {
	return a != nil && b != nil && a.Step == b.Step && a.Attempt == b.Attempt && slices.Equal(a.Iteration, b.Iteration)
}

func stepEntry(s *courier.StepExecution, from, to courier.StepState) courier.AuditEntry {
	step := s.Step
	return courier.AuditEntry{
		Step: &step, ID: s.ID, Type: s.Type, Iteration: s.Iteration, Attempt: s.Attempt,
		From: string(from), To: string(to),
	}
}

// Answers reports whether the transition may be written while an operator's
// request is pending: a cancel is answered only by cancelling, or by the beginning of the
// finally part with that outcome, an abort by cancelling or by the end of the finally part, a pause by
// pausing or by any end. Progress that starts no step may always be written. A pending pause does
// not stop the finally part.
func (t *Transition) Answers(r courier.RequestKind) bool {
	switch {
	case r == "":
		return true
	case t.Finish != nil:
		return r == courier.RequestPause || r == courier.RequestCancel && t.Finish.Outcome == courier.Cancelled
	case t.Finally && r == courier.RequestPause:
		return true
	case t.To == courier.Running:
		return t.Start == nil
	case t.Finally:
		return t.To.Ended()
	case r == courier.RequestCancel, r == courier.RequestAbort:
		return t.To == courier.Cancelled
	}
	return t.To == courier.Paused || t.To.Ended()
}

// Keeps reports whether an operator's pending request is still pending after the
// transition. It is while the execution runs; a pause also is while the execution waits
// in its finally part. The beginning of the finally part carries out a cancel.
func (t *Transition) Keeps(r courier.RequestKind) bool {
	switch {
	case t.Finish != nil:
		return r == courier.RequestPause
	case t.Finally:
		return !t.To.Ended()
	}
	return t.To == courier.Running
}

// AnswersLast returns the text of the audit entry of a transition that ends a finally part
// while a request is pending. If the request is a pause, the text says that it was
// dropped.
func (t *Transition) AnswersLast(r courier.RequestKind, by, text string) string {
	if t.Finally && t.To.Ended() && r == courier.RequestPause {
		return withPauseDropped(text, by)
	}
	return text
}

// CarriedOut returns the actor of the request that the transition carries out (a pause that
// pauses, a cancel that cancels or leads into the finally part, or an abort that cancels or ends
// the finally part), given the pending request and its actor. An abort that comes when the
// finally part is over, or has failed by itself, has no effect.
func (t *Transition) CarriedOut(r courier.RequestKind, by string) string {
	cancels := t.To == courier.Cancelled && !t.Finally || t.Finish != nil && t.Finish.Outcome == courier.Cancelled
	aborts := t.Finally && t.To.Ended() && t.FinallyError != nil && t.FinallyError.Reason == courier.ReasonCancelled
	switch {
	case r == courier.RequestPause && t.To == courier.Paused, r == courier.RequestCancel && cancels,
		r == courier.RequestAbort && (cancels || aborts):
		return by
	}
	return ""
}

// A LeaseState is the part of an execution that decides whether a transition is
// written.
type LeaseState struct {
	State courier.State
	// Lease is the present or last lease. First is the number of the audit entry
	// of its claim, and Last that of the last entry written under it.
	Lease       Token
	First, Last int64
	Seq         int64 // of the last audit entry
	Request     courier.RequestKind
	By          string // who made the request
}

// Admit reports whether the transition is written to an execution in state s. False
// without an error means that it was written before. Apply of every store returns the
// error of Admit; see [Ledger.Apply].
func (t *Transition) Admit(s LeaseState) (bool, error) {
	switch {
	case t.Lease == "" || t.Lease != s.Lease:
		return false, courier.Errorf(courier.ErrLeaseLost, "transition %d of %s: the lease is another worker's", t.Seq, t.Execution)
	case t.Seq > s.First && t.Seq <= s.Last:
		return false, nil
	case s.State != courier.Running:
		return false, courier.Errorf(courier.ErrLeaseLost, "transition %d of %s: the execution is %s", t.Seq, t.Execution, s.State)
	case t.Seq != s.Seq+1:
		return false, courier.Errorf(courier.ErrLeaseLost, "transition %d of %s: its last audit entry is %d", t.Seq, t.Execution, s.Seq)
	case !t.Answers(s.Request) || t.Request != "" && t.Request != s.Request:
		return false, &RequestedError{Kind: s.Request, By: s.By}
	}
	return true, nil
}

// Check returns an error if the transition itself is wrong, independent of the state of
// the execution.
func (t *Transition) Check() error {
	for i := range t.Ended {
		if n := len(t.Ended[i].Events); n > courier.MaxStepEvents {
			return courier.Errorf(courier.ErrInvalid, "transition of %s: step %d has emitted %d events, more than %d", t.Execution, t.Ended[i].Step, n, courier.MaxStepEvents)
		}
		if s := &t.Ended[i]; !courier.StepRunning.CanBecome(s.State) || s.State == courier.StepPending {
			return courier.Errorf(courier.ErrInvalid, "transition of %s: step %d ended as %q", t.Execution, s.Step, s.State)
		}
	}
	switch {
	case t.To != courier.Running && !courier.Running.CanBecome(t.To):
		return &courier.TransitionError{Execution: t.Execution, From: courier.Running, To: t.To}
	case t.To != courier.Running && t.Start != nil:
		return courier.Errorf(courier.ErrInvalid, "transition of %s: a step starts, but the execution becomes %s", t.Execution, t.To)
	case t.RetryJob && t.Start != nil:
		return courier.Errorf(courier.ErrInvalid, "transition of %s: the next attempt of the execution begins, and step %d starts", t.Execution, t.Start.Step)
	case t.To == courier.Running && t.Start == nil && len(t.Ended) == 0 && t.Finish == nil:
		return courier.Errorf(courier.ErrInvalid, "transition of %s changes nothing", t.Execution)
	case t.FailedItems != nil && *t.FailedItems < 0:
		return courier.Errorf(courier.ErrInvalid, "transition of %s: %d failed items", t.Execution, *t.FailedItems)
	}
	return t.checkFinally()
}

// A RequestedError is the error of a transition that was refused because of an
// operator's request: another one is pending, or, with an empty Kind, the one that it
// carries out was withdrawn. It matches [courier.ErrConflict].
type RequestedError struct {
	Kind courier.RequestKind
	By   string
}

// Error names the request.
func (e *RequestedError) Error() string {
	if e.Kind == "" {
		return "the request was withdrawn; the transition was not written"
	}
	return fmt.Sprintf("a %s was requested by %q; the transition was not written", e.Kind, e.By)
}

// Is reports whether target is [courier.ErrConflict].
func (e *RequestedError) Is(target error) bool { return target == courier.ErrConflict }

// A Decision is the effect of a request on an execution.
type Decision struct {
	// To is the state that the execution enters at once; empty if there is none.
	To courier.State
	// Pending replaces the execution's pending request. If To is set too, it is queued. A
	// queued execution becomes due at once when a cancel becomes pending.
	Pending courier.RequestKind
}

// Due reports whether an execution in a state becomes due at once with the decision.
func (d Decision) Due(from courier.State) bool {
	return d.Pending == courier.RequestCancel && (from == courier.Queued || d.To == courier.Queued)
}

// Decide returns the effect of a request on an execution. Without a worker the request
// is carried out at once; otherwise it is pending until the worker carries it out.
// Expired says that the execution is running and its lease has ended. The error of a
// request that the state does not allow is a *courier.TransitionError.
//
//	state                 pause        resume             cancel      release   restart
//	created               -            -                  cancelled   queued    -
//	queued                paused       -                  cancelled   -         -
//	running               pending      -                  pending     -         -
//	running, expired      paused       -                  cancelled   -         queued
//	running, pausing      pending      withdraws pause    pending     -         -, queued if expired
//	running, cancelling   -            -                  pending     -         -
//	paused, failed        -            queued             cancelled   -         queued
//	completed, cancelled  -            -                  -           -         -
//
// An execution that becomes queued by a resume is due at once, has its failure
// and EndedAt cleared, its counters as [Counters.AfterResume], or what the request's
// Change has, and its timeout begins anew with
// the next claim. A release keeps the due time that follows from the delay with which
// the execution was created.
//
// A restart is for an execution that has files in a workspace which is gone: any
// worker can claim it afterwards. It does everything that a resume does, and also
// begins the next attempt of the execution: Attempt is raised, the position is the
// beginning, all counters but Secrets, FailedItems, Workspace, DiskBytes and OnlyCopies are cleared, the
// Repairs are those of [NextRepairs], and earlier records are not the latest any more. The error of a restart that is refused matches
// [courier.ErrConflict] and says what to do instead.
//
// An execution that leaves running has no pending request and no current step.
// Pausing and cancelling keep the failure.
//
// An abort is a cancel that leaves out the finally part. Without a finally part, and for an execution
// that has not begun or has failed, it is a cancel. If an execution with a finally part has begun, a
// cancel leads into that part, a second one is an abort, and while the part runs:
//
//	state                            pause     resume           cancel           abort
//	queued                           paused    -                pending, due     cancelled
//	queued, cancelling               -         -                (abort)          cancelled
//	running                          pending   -                pending          pending
//	running, expired                 paused    -                pending          cancelled
//	paused                           -         queued           queued, pending  cancelled
//	finishing, running or queued     pending   withdraws pause  -, or (abort)    pending; the outcome if no worker has it
//
// A plain cancel while the part runs is refused, unless the outcome is cancelled: that is
// decided. The end of the part drops a pause that is pending.
func Decide(e *courier.Execution, expired bool, kind courier.RequestKind) (Decision, error) {
	to := map[courier.RequestKind]courier.State{
		courier.RequestPause: courier.Paused, courier.RequestCancel: courier.Cancelled, courier.RequestAbort: courier.Cancelled,
		courier.RequestResume: courier.Queued, courier.RequestRelease: courier.Queued, courier.RequestRestart: courier.Queued,
		courier.RequestExpire: courier.Failed,
	}[kind]
	if to == "" {
		return Decision{}, courier.Errorf(courier.ErrInvalid, "request %q: unknown", kind)
	}
	refused := &courier.TransitionError{Execution: e.ID, From: e.State, To: to}
	cancelling := e.Request == courier.RequestCancel || e.Request == courier.RequestAbort
	finishing := e.Finishing != nil
	switch kind {
	case courier.RequestCancel, courier.RequestAbort:
		if e.HasFinally && !e.StartedAt.IsZero() && (e.State == courier.Queued || e.State == courier.Running || e.State == courier.Paused) {
			return decideCancel(e, expired, kind)
		}
		kind = courier.RequestCancel
	case courier.RequestRestart:
		if err := checkRestart(e, expired); err != nil {
			return Decision{}, err
		}
	case courier.RequestExpire:
		if !e.StartedAt.IsZero() {
			return Decision{}, refused
		}
	case courier.RequestRelease:
		if e.State != courier.Created {
			return Decision{}, refused
		}
	case courier.RequestResume:
		if (e.State == courier.Running || finishing) && e.Request == courier.RequestPause {
			return Decision{Pending: ""}, nil
		}
		if e.State != courier.Paused && e.State != courier.Failed {
			return Decision{}, refused
		}
	case courier.RequestPause:
		if (e.State == courier.Running || e.State == courier.Queued) && cancelling {
			return Decision{}, refused
		}
		if finishing {
			return Decision{Pending: kind}, nil
		}
	}
	if !e.State.CanBecome(to) {
		return Decision{}, refused
	}
	if e.State == courier.Running && !expired {
		return Decision{Pending: kind}, nil
	}
	return Decision{To: to}, nil
}

// checkRestart reports why an execution can't begin again on any worker.
func checkRestart(e *courier.Execution, expired bool) error {
	why := ""
	switch {
	case e.State.Final() || e.State == courier.Created:
		return &courier.TransitionError{Execution: e.ID, From: e.State, To: courier.Queued}
	case e.Finishing != nil:
		why = fmt.Sprintf("is finishing, and its outcome is %s; a cancel without the finally part ends it", e.Finishing.Outcome)
	case e.Workspace == "":
		why = "has no files in a workspace, so nothing ties it to a worker"
		if e.State == courier.Paused || e.State == courier.Failed {
			why += "; resume it without Elsewhere"
		}
	case e.State == courier.Queued:
		why = fmt.Sprintf("is queued, and a worker with the workspace %q goes on with it; if there is none any more, pause it first", e.Workspace)
	case e.State != courier.Running:
		return nil
	case !expired:
		why = fmt.Sprintf("is running: worker %q holds its lease", e.Worker)
	case e.Request == courier.RequestCancel || e.Request == courier.RequestAbort:
		why = "is being cancelled; cancel it once more, which ends it at once"
	default:
		return nil
	}
	return courier.Errorf(courier.ErrConflict, "execution %s %s; nothing was changed", e.ID, why)
}

// EnqueueEntries returns the audit entry of an execution's creation. Like the
// functions below it leaves the numbers, instants, the worker and the attempt of the
// execution to the store.
func EnqueueEntries(e *courier.Execution) []courier.AuditEntry {
	return []courier.AuditEntry{{Execution: e.ID, To: string(e.State), By: e.By}}
}

// ClaimEntries returns the audit entries of a claim. In a reclaim the execution
// passes through the state queued; the step that was being executed stays the current
// one until the new worker ends it.
func ClaimEntries(e *courier.Execution, reclaim bool) []courier.AuditEntry {
	claimed := courier.AuditEntry{Execution: e.ID, From: string(courier.Queued), To: string(courier.Running)}
	if !reclaim {
		return []courier.AuditEntry{claimed}
	}
	return []courier.AuditEntry{
		{
			Execution: e.ID, From: string(courier.Running), To: string(courier.Queued),
			Reason: courier.ReasonWorkerLost, Error: fmt.Sprintf("the lease of worker %q expired", e.Worker),
		},
		claimed,
	}
}

// RequestEntries returns the audit entries of a request that moves e to another state
// at once. If a lost worker was executing a step, the step goes back to pending; if
// the change of the request skips a step, it becomes skipped. The error of the last
// entry is [Request.Text].
func RequestEntries(e *courier.Execution, to courier.State, r Request) []courier.AuditEntry {
	var entries []courier.AuditEntry
	if e.Current != nil {
		s := stepEntry(e.Current, courier.StepRunning, courier.StepPending)
		s.Execution, s.Reason = e.ID, courier.ReasonWorkerLost
		entries = append(entries, s)
	}
	if c := r.Change; c != nil && c.Skipped != nil {
		s := stepEntry(c.Skipped, courier.StepPending, courier.StepSkipped)
		s.Execution, s.Bytes, s.Reason, s.Error = e.ID, c.Skipped.Bytes, c.Skipped.Reason, c.Skipped.Error
		entries = append(entries, s)
	}
	return append(entries, courier.AuditEntry{
		Execution: e.ID, From: string(e.State), To: string(to), By: r.By, Reason: r.ClassFor(to), Error: r.Text(),
	})
}

// Failure returns the failure of an execution that expires by the request, or nil for any
// other request.
func (r *Request) Failure() *courier.Failure {
	if r.Kind != courier.RequestExpire {
		return nil
	}
	return &courier.Failure{Step: -1, Reason: courier.ReasonExpired, Message: r.Reason}
}

// Class returns the reason in the audit entry of a request: [courier.ReasonWithoutFiles]
// for a restart and for a resume with Elsewhere, [courier.ReasonExpired] for an expiry,
// and none otherwise.
func (r *Request) Class() courier.Reason {
	if r.Kind == courier.RequestExpire {
		return courier.ReasonExpired
	}
	if r.Kind == courier.RequestRestart || r.Change != nil && r.Change.Elsewhere {
		return courier.ReasonWithoutFiles
	}
	return ""
}

// ClassFor returns the reason in the audit entry of a request that moves an execution to a
// state: [courier.ReasonCancelled] if a cancel queues it for its finally part, and
// [Request.Class] otherwise.
func (r *Request) ClassFor(to courier.State) courier.Reason {
	if r.Kind == courier.RequestCancel && to == courier.Queued {
		return courier.ReasonCancelled
	}
	return r.Class()
}
