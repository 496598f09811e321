// Package courier is the vocabulary of durable, multi-step file-transfer
// pipelines: jobs, the flat lists of steps they are made of, the typed step
// types that do the work, and the executions, which record what the steps have done.
//
// A [Job] is a named, versioned list of [StepSpec] values. Each names a step
// type, registered in a [Registry] under a key such as "sftp.download", or a
// control-flow marker ("flow.if", "flow.else", "flow.foreach", "flow.try", "flow.rescue", "flow.end", "flow.finally"),
// and carries that type's configuration. An engine (package engine) runs jobs
// against a store (package store): it saves a checkpoint after every step, so
// that an execution that is paused, fails, or loses its process continues
// where it was.
//
// A step type is an ordinary Go type with one method; see [Step]. What it
// returns becomes values that later steps refer to, as in
// "context:fetch.downloaded_file".
//
// This package holds names and rules only. It starts no goroutines of its own
// and imports nothing outside the standard library; the only I/O is what a
// step asks of its [Context].
package courier

import (
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/strictjson"
)

// An ExecutionID identifies one execution of a job. It is a UUIDv7 in its
// usual text form, so ids sort by the time they were made.
type ExecutionID string

// A ChainExecutionID identifies one execution of a chain. It is a UUIDv7 in its
// usual text form, so ids sort by creation time. The type is declared here, and not in
// package chain, because the executions and events of members have one.
type ChainExecutionID string

// A State is the state of an execution. [State.CanBecome] reports which moves between
// states are allowed.
type State string

// The states of an execution.
const (
	Created   State = "created"   // stored but held; only a release or a cancel changes it
	Queued    State = "queued"    // waits for a worker, or for its due time
	Running   State = "running"   // a worker holds its lease
	Paused    State = "paused"    // an operator stopped it between two steps; it can be resumed
	Completed State = "completed" // all steps are done; final
	Failed    State = "failed"    // a step failed for good; it can be resumed from that step
	Cancelled State = "cancelled" // given up; final
)

// moves is the whole table of legal moves. Claiming is the only way into
// running, or limits would leak. One that has not begun fails only if it has expired. A queued
// one is completed only if that was decided, and its finally part is given up.
var moves = map[State][]State{
	"":      {Created, Queued},
	Created: {Queued, Cancelled, Failed},
	Queued:  {Running, Paused, Cancelled, Failed, Completed},
	Running: {Completed, Failed, Cancelled, Paused, Queued},
	Paused:  {Queued, Cancelled, Failed},
	Failed:  {Queued, Cancelled},
}

// CanBecome reports whether an execution may move from s to t. The empty state
// stands for "does not exist yet".
func (s State) CanBecome(t State) bool { return slices.Contains(moves[s], t) }

// Final reports whether s never changes again: completed or cancelled.
func (s State) Final() bool { return s == Completed || s == Cancelled }

// Ended reports whether an execution in state s does not go on by itself: it is
// completed, failed or cancelled. A failed execution can still be resumed.
func (s State) Ended() bool { return s.Final() || s == Failed }

// A StepState is the state of one attempt of a step.
type StepState string

// The states of a step. Only the failure policy skip_and_continue makes a step
// skipped; a branch that is not taken leaves no record.
const (
	StepPending   StepState = "pending"
	StepRunning   StepState = "running"
	StepCompleted StepState = "completed"
	StepFailed    StepState = "failed"
	StepSkipped   StepState = "skipped"
)

// stepMoves is the whole table of legal moves of a step's attempt.
var stepMoves = map[StepState][]StepState{
	StepPending: {StepRunning, StepFailed, StepSkipped},
	StepRunning: {StepCompleted, StepFailed, StepSkipped, StepPending},
}

// CanBecome reports whether an attempt of a step may move from s to t. A running step
// becomes pending again if a pause, a stop or the loss of its worker interrupts it.
func (s StepState) CanBecome(t StepState) bool { return slices.Contains(stepMoves[s], t) }

// A Position is the place of an execution in its flat list of steps. It is the
// complete durable state of control flow. The zero Position is the start.
type Position struct {
	// Step is the index of the entry that runs next; the length of the list means that
	// all steps are done.
	Step int `json:"step"`
	// Loops are the loops that Step lies in, outermost first.
	Loops []LoopPosition `json:"loops,omitempty"`
}

// A LoopPosition is one open loop of a [Position].
type LoopPosition struct {
	Step  int `json:"step"`  // index of the flow.foreach marker
	Index int `json:"index"` // iteration, counting from 0
	// Failed is how many items of a loop with on_item_failure: continue have failed so
	// far. ItemFailed says that the present item already counts as failed: an inner loop
	// of the iteration ended with failed items, and the steps after that loop still run.
	Failed     int  `json:"failed,omitempty"`
	ItemFailed bool `json:"item_failed,omitempty"`
	// Rescued is how many items were rescued so far. Rescue says that the present item is
	// in its rescue, or at the end of it.
	Rescued int  `json:"rescued,omitempty"`
	Rescue  bool `json:"rescue,omitempty"`
}

// Iteration returns the iteration of each open loop, outermost first; nil
// outside loops.
func (p Position) Iteration() []int {
	if len(p.Loops) == 0 {
		return nil
	}
	path := make([]int, len(p.Loops))
	for i, l := range p.Loops {
		path[i] = l.Index
	}
	return path
}

// Equal reports whether p and q are the same position.
func (p Position) Equal(q Position) bool { return p.Step == q.Step && slices.Equal(p.Loops, q.Loops) }

// An Execution is one run of one version of a job.
type Execution struct {
	ID  ExecutionID `json:"id"`
	Job string      `json:"job"`
	// Version is the version of the job with which the execution was enqueued. It changes
	// only if an operator resumes the execution with another version.
	Version int    `json:"version"`
	State   State  `json:"state"`
	Queue   string `json:"queue"`
	// Priority orders the queue, higher first; within a priority it is first
	// in, first out.
	Priority int16 `json:"priority"`
	// Attempt counts the starts of the execution at step 0, from 1. The failure policy
	// retry_job and a [RequestRestart] increase it.
	Attempt  int      `json:"attempt"`
	Position Position `json:"position"`
	// StepAttempts is how many attempts of the step at Position were started without
	// completing it. EarlierStarts is the number of times that the step was started
	// before the loop around it was started again.
	StepAttempts  int `json:"step_attempts,omitempty"`
	EarlierStarts int `json:"earlier_starts,omitempty"`
	// Retries is how many retries were used, of those that the failure policy allows, since
	// the execution was created or last resumed: of the step at Position for retry_step, of
	// the whole job for retry_job.
	Retries int `json:"retries,omitempty"`
	// Current is the step that a worker is executing; nil when there is none.
	Current *StepExecution  `json:"current,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"` // a JSON object: the values params.*

	CreatedAt time.Time `json:"created_at"`
	DueAt     time.Time `json:"due_at"`              // a queued execution is not claimed before
	StartedAt time.Time `json:"started_at,omitzero"` // first claim
	EndedAt   time.Time `json:"ended_at,omitzero"`   // when it became completed, failed or cancelled
	// UpdatedAt is the instant of the last audit entry, or of the pending request if that
	// is later.
	UpdatedAt time.Time `json:"updated_at,omitzero"`

	// Secrets are the secrets that its steps have used. A worker that continues the
	// execution requests them before the next step, so that it can redact them.
	Secrets []SecretUse `json:"secrets,omitempty"`
	// Result is the result of a completed execution whose job has one ([Job].Result), as
	// JSON: null if the reference had no value, or if the result has more than 1 MiB. Lists
	// of executions leave it out.
	Result json.RawMessage `json:"result,omitempty"`
	// Failure says why an execution failed, or why a backing-off one waits.
	Failure *Failure `json:"failure,omitempty"`
	// HasFinally says that its version of the job has a finally part. Finishing is the decided
	// outcome of an execution whose finally part is running or waits for a worker; nil for all
	// others. FinallyError says why the last finally part failed; nil if it did not fail. It
	// does not affect the state.
	HasFinally   bool       `json:"has_finally,omitempty"`
	Finishing    *Finishing `json:"finishing,omitempty"`
	FinallyError *Failure   `json:"finally_error,omitempty"`
	// Request is an operator's request that is still pending; empty if there is none. It is
	// "pause", "cancel" or "abort" for an execution that is running, or whose finally part
	// waits for a worker. It is "discard" for an execution that has ended and whose kept files
	// no engine has removed yet.
	Request RequestKind `json:"request,omitempty"`
	// RequestedAt, RequestedBy and RequestReason say when the pending request was made,
	// by whom and why. All are zero without a request.
	RequestedAt   time.Time `json:"requested_at,omitzero"`
	RequestedBy   string    `json:"requested_by,omitempty"`
	RequestReason string    `json:"request_reason,omitempty"`
	// Resumed says that an operator resumed the execution at least once.
	Resumed bool `json:"resumed,omitempty"`
	// FailedItems is how many items of loops with on_item_failure: continue have failed
	// and were not repaired. In nested loops with that setting only items of the
	// outermost count.
	FailedItems int `json:"failed_items,omitempty"`
	// RescuedItems is how many items of loops were rescued by the rescue of their loop. They
	// are not among FailedItems.
	RescuedItems int `json:"rescued_items,omitempty"`
	// Repairs are what operators have changed for this execution; nil for most.
	Repairs *Repairs `json:"repairs,omitempty"`
	// RerunOf is the execution that this one repeats with the same parameters; empty if
	// it is no rerun.
	RerunOf ExecutionID `json:"rerun_of,omitempty"`

	// Chain is the chain execution that the execution belongs to, and Member its name
	// there; both are empty outside chains.
	Chain  ChainExecutionID `json:"chain_execution_id,omitempty"`
	Member string           `json:"member,omitempty"`

	// Waits are the unmet dependencies that hold a queued execution, as they are now.
	// While there are any, no worker claims it. Nil if there are none.
	Waits []UnmetDependency `json:"waits,omitempty"`

	// Labels are names and values by which people find the execution, given when it was
	// enqueued; nil for most.
	Labels map[string]string `json:"labels,omitempty"`
	// MaxRetries replaces the number of retries of all failure policies of the job for this
	// execution; nil leaves them.
	MaxRetries *int `json:"max_retries,omitempty"`
	// Trace is the trace context with which the execution was enqueued, as in the header
	// traceparent of W3C Trace Context; empty if there was none.
	Trace string `json:"trace,omitempty"`

	IdempotencyKey string        `json:"idempotency_key,omitempty"`
	KeyScope       string        `json:"key_scope,omitempty"` // of the key; empty means the job
	LimitKeys      []string      `json:"limit_keys,omitempty"`
	Timeout        time.Duration `json:"-"` // timeout_seconds in JSON: of the whole execution, from its first claim after it was created or resumed; 0 means none
	By             string        `json:"by,omitempty"`

	Worker    string `json:"worker,omitempty"`    // the last worker that claimed it
	Workspace string `json:"workspace,omitempty"` // id of the directory tree with its files; empty while it has none
	// HeartbeatAt is when the worker of a running execution claimed it or last renewed its
	// lease, which ends at LeaseExpiresAt. Both are zero in other states.
	HeartbeatAt    time.Time `json:"heartbeat_at,omitzero"`
	LeaseExpiresAt time.Time `json:"lease_expires_at,omitzero"`
	// DiskBytes is the size of the workspace when it was last measured, at the
	// end of the execution.
	DiskBytes int64 `json:"disk_bytes,omitempty"`
	// OnlyCopies are the files in the workspace that may exist nowhere else, as they were
	// when the worker released the execution. Nil while a worker has the execution, and
	// after that worker was lost. See [Execution.HoldsOnlyCopies]. Lists of executions leave
	// the names out.
	OnlyCopies *OnlyCopies `json:"only_copies,omitempty"`
	// Seq is the number of the last audit entry. It rises with every change of the
	// execution, except pending requests and renewals of the lease.
	Seq int64 `json:"seq"`
}

// A Finishing says how an execution will end when its finally part is over. It never
// changes.
type Finishing struct {
	Outcome  State    `json:"outcome"`  // completed, failed or cancelled
	Position Position `json:"position"` // that the execution had reached, and has again afterwards
	// Seq is the number of the audit entry with which the finally part began. Records of its
	// steps have greater numbers.
	Seq int64 `json:"seq"`
	// By and Reason are those of the cancel that led to the outcome; empty otherwise.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Status returns the state as shown to people. It is the state itself, except for:
// "waiting", a queued execution that dependencies of its job hold; "scheduled", a queued
// execution whose due time is after now; "lost", a running execution whose lease has ended
// and that waits for another worker with its step types, queue and workspace; "cancelling"
// or "pausing", an execution with such a request; and "finishing", an execution whose
// outcome is decided and whose finally part is running.
func (e *Execution) Status(now time.Time) string {
	switch {
	case e.State == Queued && (e.Request == RequestCancel || e.Request == RequestAbort):
		return "cancelling"
	case e.State == Queued && e.Finishing != nil:
		return "finishing"
	case e.State == Queued && len(e.Waits) > 0:
		return "waiting"
	case e.State == Queued && e.DueAt.After(now):
		return "scheduled"
	case e.State == Running && e.LeaseExpiresAt.Before(now) && !e.LeaseExpiresAt.IsZero():
		return "lost"
	case e.State == Running && (e.Request == RequestCancel || e.Request == RequestAbort):
		return "cancelling"
	case e.State == Running && e.Finishing != nil:
		return "finishing"
	case e.State == Running && e.Request == RequestPause:
		return "pausing"
	}
	return string(e.State)
}

// MarshalJSON writes the timeout in seconds.
func (e Execution) MarshalJSON() ([]byte, error) {
	type plain Execution // without methods
	return jsontext.AppendAny(nil, struct {
		plain
		Timeout strictjson.Seconds `json:"timeout_seconds,omitempty"`
	}{plain(e), strictjson.Seconds(e.Timeout)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (e *Execution) UnmarshalJSON(data []byte) error {
	type plain Execution
	v := struct {
		*plain
		Timeout strictjson.Seconds `json:"timeout_seconds"`
	}{plain: (*plain)(e)}
	err := json.Unmarshal(data, &v)
	e.Timeout = time.Duration(v.Timeout)
	return err
}

// A RequestKind is the kind of an operator's request to an execution.
type RequestKind string

// The requests of operators.
const (
	RequestPause   RequestKind = "pause"
	RequestResume  RequestKind = "resume"
	RequestCancel  RequestKind = "cancel"
	RequestAbort   RequestKind = "abort" // a cancel without the finally part; ends it if it is running
	RequestRelease RequestKind = "release"
	RequestRestart RequestKind = "restart" // a resume from the beginning, on any worker, without the files
	RequestRetry   RequestKind = "retry"   // of a chain execution only
	RequestExpire  RequestKind = "expire"  // made by the engine: the execution has not begun in time, and fails
)

// A StepExecution records one attempt of one step, in one iteration of the
// loops around it.
type StepExecution struct {
	Execution ExecutionID `json:"execution_id"`
	// Seq orders the records of an execution; it is the sequence number of the
	// audit entry that ended the attempt.
	Seq  int64  `json:"seq"`
	Step int    `json:"step"` // index in the flat list
	ID   string `json:"id,omitempty"`
	Type string `json:"type"`
	// Iteration is the iteration of each loop around the step, outermost
	// first, and Total the number of iterations each of them has; both nil
	// outside loops.
	Iteration []int `json:"iteration,omitempty"`
	Total     []int `json:"total,omitempty"`
	// Attempt is the number of this start of the step in this iteration, from 1. If the
	// loop is started again, it begins at 1 again.
	Attempt int `json:"attempt"`
	// ExecutionAttempt is the attempt of the execution to which it belongs.
	ExecutionAttempt int `json:"execution_attempt"`
	// Version is the version of the job that the attempt ran with. Stores leave it 0;
	// package engine sets it if the version was changed.
	Version   int             `json:"version,omitempty"`
	State     StepState       `json:"state"`
	StartedAt time.Time       `json:"started_at"`
	EndedAt   time.Time       `json:"ended_at,omitzero"`
	Bytes     int64           `json:"bytes,omitempty"`
	Outputs   json.RawMessage `json:"outputs,omitempty"` // a JSON object
	Files     []File          `json:"files,omitempty"`
	// Events are the events that the attempt has emitted, if it has completed; see
	// [Context.Emit]. Lists leave them out, like Stack.
	Events []StepEvent `json:"events,omitempty"`
	Reason Reason      `json:"reason,omitempty"`
	Error  string      `json:"error,omitempty"`
	Worker string      `json:"worker,omitempty"`
	// Stack is the stack trace of the step's goroutine, without secrets, if the attempt
	// panicked, called runtime.Goexit, or was abandoned because it did not return; at
	// most 16 KiB. Lists contain it only on request; see Details of package store's
	// StepFilter.
	Stack string `json:"stack,omitempty"`
	// Log is what the step wrote to [Context.Log], as lines of [slog.TextHandler] without
	// secrets; see KeepLog of package engine's Options. Lists leave it out, like Stack.
	Log string `json:"log,omitempty"`
	// FailedLoop is the index of the flow.foreach whose item failed with this attempt;
	// nil if none did.
	FailedLoop *int `json:"failed_loop,omitempty"`
	// Rescue is the index of the flow.foreach or flow.try whose rescue began because of this
	// attempt; nil if none did. The item does not count as failed then: FailedLoop is nil.
	Rescue *int `json:"rescue,omitempty"`
	// ItemLabels name the items of the loops around the step, outermost first as in Iteration,
	// if an item was rescued or failed, or the execution failed, with this attempt; otherwise
	// nil. Each has at most 200 bytes and no secrets. [FormatItems] shows them.
	ItemLabels []string `json:"item_labels,omitempty"`
	// Progress is how far the attempt has come. It is set in [Execution].Current while the
	// attempt runs. The worker writes it with each renewal of its lease, every third of
	// [engine.Options].Lease. Nil if the step has reported nothing before the last
	// renewal.
	Progress *Progress `json:"progress,omitempty"`
}

// IterationIndex returns the iteration of the innermost loop around the step, or nil
// outside loops.
func (s *StepExecution) IterationIndex() *int {
	if len(s.Iteration) == 0 {
		return nil
	}
	return &s.Iteration[len(s.Iteration)-1]
}

// MarshalJSON adds the field iteration_index, the result of
// [StepExecution.IterationIndex]: a number, or null outside loops.
func (s StepExecution) MarshalJSON() ([]byte, error) {
	type plain StepExecution // without methods
	return jsontext.AppendAny(nil, struct {
		plain
		Index *int `json:"iteration_index"`
	}{plain(s), s.IterationIndex()})
}

// An AuditEntry records one change of state. The entries of an execution are
// numbered 1, 2, 3 ... without gaps, are written in the transaction that makes
// the change, and are never modified.
type AuditEntry struct {
	Execution ExecutionID `json:"execution_id"`
	Seq       int64       `json:"seq"`
	At        time.Time   `json:"at"`
	// Step is the index of the step whose state changed; nil if the state of
	// the execution itself changed.
	Step      *int   `json:"step,omitempty"`
	ID        string `json:"id,omitempty"`
	Type      string `json:"type,omitempty"`
	Iteration []int  `json:"iteration,omitempty"`
	Attempt   int    `json:"attempt,omitempty"`
	// ExecutionAttempt is the attempt of the execution in which the state changed, from
	// 1. JSON omits it if it is 1. The entry of the change that begins a further attempt
	// has the number of the attempt that it ends.
	ExecutionAttempt int `json:"-"`

	From string `json:"from"` // empty for the creation
	To   string `json:"to"`
	// Elapsed is how long the previous state lasted; elapsed_seconds in JSON.
	Elapsed time.Duration `json:"-"`
	Bytes   int64         `json:"bytes,omitempty"`
	Reason  Reason        `json:"reason,omitempty"`
	Error   string        `json:"error,omitempty"`
	By      string        `json:"by,omitempty"` // who asked for the change, if a person or program did
	Worker  string        `json:"worker,omitempty"`
}

// MarshalJSON writes the elapsed time in seconds. Entries of steps also have the field
// iteration_index, as in [StepExecution.MarshalJSON].
func (a AuditEntry) MarshalJSON() ([]byte, error) {
	type plain AuditEntry // without methods
	attempt := a.ExecutionAttempt
	if attempt == 1 {
		attempt = 0
	}
	return jsontext.AppendAny(nil, struct {
		plain
		Index   json.RawMessage    `json:"iteration_index,omitempty"`
		Attempt int                `json:"execution_attempt,omitempty"`
		Elapsed strictjson.Seconds `json:"elapsed_seconds"`
	}{plain(a), jsontext.IterationIndex(a.Step, a.Iteration), attempt, strictjson.Seconds(a.Elapsed)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (a *AuditEntry) UnmarshalJSON(data []byte) error {
	type plain AuditEntry
	v := struct {
		*plain
		Attempt int                `json:"execution_attempt"`
		Elapsed strictjson.Seconds `json:"elapsed_seconds"`
	}{plain: (*plain)(a)}
	err := json.Unmarshal(data, &v)
	a.ExecutionAttempt, a.Elapsed = max(1, v.Attempt), time.Duration(v.Elapsed)
	return err
}

// By says who makes a change, and why. Every method that changes something takes one,
// as its last parameter or as the field By of its options. The zero value names
// nobody.
//
// Actor is stored with the change: in the audit of an execution, with the version of a
// definition, or in the reason why a schedule or monitor no longer fires. Reason is
// stored in the audit of an execution that a request moves to another state at once,
// and in the reason of a schedule or monitor. For definitions, new executions, limits
// and subscriptions only the actor is stored; the engine writes the reason to its log.
// Each has at most 1,000 bytes.
type By struct {
	Actor  string // a person, a service, or a part of the program
	Reason string // for people
	Via    string // the interface that was used, such as "api"; empty means Go code. The journal records it
}

// String returns the phrase " by ACTOR: REASON", without a part that is
// empty. It returns "" for the zero value.
func (b By) String() string {
	s := ""
	if b.Actor != "" {
		s = " by " + b.Actor
	}
	if b.Reason != "" {
		s += ": " + b.Reason
	}
	return s
}

// LogValue returns the fields that are set, as "actor" and "reason".
func (b By) LogValue() slog.Value {
	var list []slog.Attr
	if b.Actor != "" {
		list = append(list, slog.String("actor", b.Actor))
	}
	if b.Reason != "" {
		list = append(list, slog.String("reason", b.Reason))
	}
	return slog.GroupValue(list...)
}
