// Package store defines the contract between an engine and the store that keeps its
// definitions and executions, and the rules that all stores share.
//
// A [Store] has four roles: [Catalog] keeps definitions, [Queue] hands executions to workers
// ([ClaimRequest] says which of those that are queued may run), [Ledger] writes checkpoints
// and requests, and [Archive] reads. Further roles are optional; packages schedule, monitor,
// chain and notify declare those of their subjects. Package memstore is a store in memory,
// pgstore is one on PostgreSQL. Package storetest is the conformance suite for all stores.
// docs/how-to/write-a-store.md says how to write a store.
//
// Rules for all methods:
//
//   - A store owns the clock. Callers pass durations, never instants, so
//     workers whose clocks disagree do not disagree about leases.
//   - Instants are in UTC and cut to microseconds. Everything that one call writes
//     has the same instant.
//   - All methods may be called by any number of goroutines and processes.
//   - Caller and store share slices and the targets of pointers. Neither side
//     changes them after it has passed or returned them. JSON texts are kept byte
//     by byte.
//   - All text is valid UTF-8 without NUL characters. The caller ensures that.
//   - A call whose context has ended before it began does nothing and returns
//     an error.
//   - An error that the method does not document is a failure of the store itself.
//     The call may or may not have taken effect, and may be repeated.
//   - A store can refuse a write for good, in one of two ways. Nothing was written
//     then, and the error has the store's own message. If it matches
//     [courier.ErrInvalid], the data is too large or breaks a rule; other data may be
//     accepted. If it is marked by [courier.Permanent], the writer is the cause: it may
//     lack a right, and the call fails until an operator has changed that.
//
// # Fencing
//
// A claim makes a random token. From then on a write is carried out only if it names the
// execution, the token, and the number after the last audit entry, and if the execution is
// running. The end of the lease is not among the guards of Apply: a worker whose lease has
// expired owns its execution until another worker claims it. The statement that acts on a lease
// also decides whether it has expired. A store reads its clock after it has taken its locks: a
// lease that began while its claim waited for a lock would be shorter than promised.
//
// A database writes first, in one guarded statement, and has the same statement return the state
// of the row. If nothing was written, [Transition.Admit] returns the reason; if it returns none,
// another write came in between, and the statement is sent again.
//
// # Repeated calls
//
// Replies get lost, so every call can be repeated. Enqueue recognises the id, which the caller
// made, and the idempotency key. Apply recognises the number: for that a store keeps the token
// of a lease that has ended, the number of its claim and that of its last entry, until the next
// claim. Renew, Set and Save have the same result. Request is compare-and-set. A repeated Claim
// claims other executions, and those of the lost reply are claimed again when their leases have
// expired.
//
// # Progress
//
// A renewal may carry the progress of the running step, and a store keeps one [Progress] for
// each execution. It is a hint and no part of the audit: a renewal may come after the end of its
// step. So a store shows it only while that attempt is the current step ([Progress.Of]), and the
// engine gives the cursor only to the next attempt ([Progress.Next]). A transition replaces it
// by its own, or removes it.
//
// # Steps and records
//
// A store has no rules about steps. The engine passes the attempts that ended and the one that
// starts; the store adds instants, the worker, the attempt of the execution and numbers. [Same]
// reports whether an ended step is the current one. The audit of a transition is
// [Transition.Entries], and a store need not keep every entry: one row for each transition has
// everything. Records are never rewritten: what operators set is in the Repairs of the
// execution, which a store keeps as one text. The next attempt of the execution begins with
// [NextRepairs].
//
// # Limits
//
// A store counts the rows that are running; a separate counter drifts. Two claims at once must
// not both count before either has written: a store takes a lock first, in a statement of its
// own. A claim passes over executions that do not fit, of which thousands may stand in front of
// one that fits. It may stop after some of them if it has claimed at least one, and says so in
// Claims.Next.
//
// # Dependencies
//
// An execution with DependsOn is queued and cannot be claimed until all its dependencies are met
// ([Unmet]). Whatever ends an execution releases those that wait for it and can go on, before it
// returns, and so does whatever creates one; a claim releases those that a process left behind
// when it died. A store evaluates all dependencies of an execution at once, against the present
// state.
//
// # Optional roles
//
// [Workers], [Deadlines], [Overview], [Statistics], [Figures], [Trail], [Journal],
// [Acknowledgements] and [Identity] are
// declared here. A deadline changes nothing of the execution and has no audit entry; dropping it
// and keeping its event are one transaction. No count of a census goes beyond the number that
// the caller gives, and no part of the incidents reads further than a bound. The statement that
// writes a record with files or ItemLabels, or creates an execution with labels, also writes the
// entries of the trail.
package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
)

// A Store keeps definitions and executions.
type Store interface {
	Catalog
	Queue
	Ledger
	Archive
}

// A Catalog keeps definitions by version, and settings.
type Catalog interface {
	// Save saves d as the next version of its name, counting from 1, and returns it with
	// Version and SavedAt. If d.Body equals that of the latest version byte by byte, nothing
	// is saved, and the result is the latest version. The conditions d.Base and d.KeepNewer
	// can also prevent the save. If a job that the job depends on (see [Upstreams]) does not
	// exist, the error is ErrNotFound. If the job would depend on itself, by the latest
	// versions of all jobs, the error is a *courier.CycleError; concurrent calls cannot make
	// a cycle either.
	//
	// A d with the body [Removal] removes the definition: it is no longer listed, and can't
	// be enqueued or started until another version is saved. Its versions are kept, and the
	// executions that refer to them can be resumed. If there is no such definition, the error
	// is ErrNotFound. These are not removed, and the error is [Definition.ErrNeeded]: a job
	// with executions that have not ended, a job that is a member of chain executions that
	// have not ended, a job on which another job depends, and a chain with executions that
	// have not ended. If a removal and an Enqueue or a start happen at the same time, one of
	// them is refused.
	Save(ctx context.Context, d Definition) (Definition, error)
	// Load returns a version of a definition, the latest for version 0. If there is
	// none, the error is ErrNotFound.
	Load(ctx context.Context, kind Kind, name string, version int) (Definition, error)
	// List returns a page of the latest versions of definitions of one kind, in
	// byte order of their names, without those that were removed.
	List(ctx context.Context, f DefinitionFilter) ([]Definition, error)
	// Settings returns a page of settings, in byte order of their names.
	Settings(ctx context.Context, f SettingFilter) ([]Setting, error)
	// Set changes a setting; an empty value removes it. Limits take effect
	// with the next claim; see [LimitSetting]. Set returns the error of
	// [CheckSetting].
	Set(ctx context.Context, key, value string) error
}

// A Queue hands executions to workers.
type Queue interface {
	// Enqueue creates executions, all or none, and returns one result for each, in
	// order. If the ID of an execution exists already, or its idempotency key is used
	// for the same job or in its scope, it is not created: the result is the existing
	// execution, whatever its state. If that one is not the same by [NewExecution.Same],
	// Enqueue creates nothing and returns [NewExecution.Conflict]. If a version of a job
	// does not exist, or the job was removed, the error is ErrNotFound. If an execution with Latest is not
	// created because its version is not the latest, or if it would be a conflict for
	// that reason, the error is ErrOutdated. If a dependency that refuses is not met
	// after the whole list was created, nothing is created, and the error is a
	// *courier.DependencyError.
	Enqueue(ctx context.Context, list []NewExecution) ([]Enqueued, error)
	// Claim leases executions to a worker. No other call makes an execution running.
	// [ClaimRequest] says which executions are leased, and in which order.
	Claim(ctx context.Context, r ClaimRequest) (Claims, error)
	// Renew extends the leases of a worker, in one statement, and returns those that
	// the worker still holds; the others are lost. A lease that has expired and was
	// not taken over is extended like any other.
	Renew(ctx context.Context, r RenewRequest) ([]Renewed, error)
	// Await returns nil when an execution may have become claimable in one of the
	// queues since the claim that returned the mark (see [Claims.Mark]): an execution
	// became queued there, due or not, a slot became free, or a setting changed. If
	// that has happened already, it returns at once. If ctx ends first, it returns
	// the error of ctx. It may return nil without a reason, and a store may just wait
	// for ctx, because callers poll as well.
	Await(ctx context.Context, queues []string, since uint64) error
}

// A Ledger changes executions.
type Ledger interface {
	// Apply writes the progress of a running execution, all of it or nothing,
	// in one statement. The guards, in this order:
	//
	//   - A transition that [Transition.Check] or the store refuses for good:
	//     ErrInvalid. Another transition with the same Seq may follow.
	//   - An unknown execution: ErrNotFound.
	//   - Lease is not the execution's present or last one: ErrLeaseLost.
	//   - t.Seq was written under that lease already: nil, and nothing is written.
	//     So a transition whose reply was lost can be sent again.
	//   - The execution is not running under that lease, or its last audit entry
	//     is not t.Seq-1: ErrLeaseLost.
	//   - There is a request that t does not answer (see [Transition.Answers]), or
	//     t carries out a request that is not pending any more:
	//     *RequestedError, which matches ErrConflict.
	//
	// [Transition.Admit] implements all guards except the first two.
	Apply(ctx context.Context, t Transition) error
	// Request carries out an operator's request, or records it for the worker that
	// runs the execution. It returns the execution in its new state. [Decide] says
	// what a request does in each state.
	Request(ctx context.Context, r Request) (courier.Execution, error)
}

// An Archive reads executions. An unknown execution has no records and no audit.
type Archive interface {
	// Execution returns an execution, or ErrNotFound.
	Execution(ctx context.Context, id courier.ExecutionID) (courier.Execution, error)
	// Executions returns a page of executions, newest (highest id) first, without fields
	// that may be large: Params, Result and Repairs are empty, and a store does not read
	// them. [Archive.Execution] returns them.
	Executions(ctx context.Context, f Filter) ([]courier.Execution, error)
	// Steps returns a page of the records of an execution, in the order of their Seq.
	Steps(ctx context.Context, f StepFilter) ([]courier.StepExecution, error)
	// Latest returns the latest record of each step of the execution's present
	// attempt, in the order of the steps.
	Latest(ctx context.Context, f LatestFilter) ([]courier.StepExecution, error)
	// Audit returns a page of the audit entries of an execution, in the order of their
	// Seq.
	Audit(ctx context.Context, f AuditFilter) ([]courier.AuditEntry, error)
}

// A Kind is a kind of definition.
type Kind string

// The kinds of definitions.
const (
	Job   Kind = "job"
	Chain Kind = "chain"
	// Deployment is the record of what was saved as one deployment, such as by
	// engine.Engine.Apply. Nothing can be started by it.
	Deployment Kind = "deployment"
	// Calendar is the calendar of package calendar. Nothing can be started by it.
	Calendar Kind = "calendar"
)

// A Setting is a name with its value, which is not empty.
type Setting struct {
	Name  string
	Value string
}

// A Definition is one version of a definition.
type Definition struct {
	Kind    Kind
	Name    string
	Version int             // from 1; assigned by Save
	Body    json.RawMessage // valid JSON
	By      string          // who saved it
	SavedAt time.Time
	// Base and KeepNewer are conditions of Save, which compares them in the
	// transaction that saves. A store keeps and returns neither.
	//
	// Base, if not nil, is the number that the latest version must have; 0 means that
	// there is none or that it removes the definition. If the latest version has another
	// number, nothing is saved and the error matches [courier.ErrConflict].
	Base *int
	// KeepNewer saves nothing if Body equals that of an earlier version byte by
	// byte. Save then returns the latest version and does not compare Base.
	KeepNewer bool
}

// Removal is the body of a version that removes a definition.
const Removal = "null"

// Removed reports whether the version removes the definition.
func (d *Definition) Removed() bool { return string(d.Body) == Removal }

// ErrRemoved returns the error of using a definition whose latest version, d, removes it. It
// matches [courier.ErrNotFound].
func (d *Definition) ErrRemoved() error {
	return courier.Errorf(courier.ErrNotFound, "%s %q was removed%s, in version %d; define it again to use it", d.Kind, d.Name, courier.By{Actor: d.By}, d.Version)
}

// ErrNeeded returns the error of a removal that is refused because something needs the
// definition, such as an execution that has not ended. It matches [courier.ErrConflict].
func (d *Definition) ErrNeeded(by string) error {
	return &InUseError{fmt.Sprintf("%s %q was not removed: %s", d.Kind, d.Name, by)}
}

// NeededByOpen returns the argument of [Definition.ErrNeeded] for an execution that has not
// ended. What is "execution" or "chain execution".
func NeededByOpen(what, id, state string) string {
	return fmt.Sprintf("%s %s is %s; cancel what has not ended, or wait for it", what, id, state)
}

// NeededByJob returns the argument of [Definition.ErrNeeded] for a job that depends on the job to
// be removed.
func NeededByJob(name string) string {
	return fmt.Sprintf("job %q depends on it; change or remove that one first", name)
}

// ErrInUse returns the error of removing a definition that others use, or nil if users is
// empty. Each user is a phrase such as `schedule "nightly"`. The error matches
// [courier.ErrConflict], names the first users, and ends with the advice.
func ErrInUse(kind Kind, name string, users []string, advice string) error {
	const few = 10
	if len(users) == 0 {
		return nil
	}
	shown := strings.Join(users[:min(few, len(users))], ", ")
	if len(users) > few {
		shown += fmt.Sprintf(" and %d more", len(users)-few)
	}
	return &InUseError{fmt.Sprintf("%s %q is used by %s; %s", kind, name, shown, advice)}
}

// An InUseError says that a definition was not removed because something uses or needs it,
// and names that. It matches [courier.ErrConflict].
type InUseError struct{ Text string }

// Error returns the text.
func (e *InUseError) Error() string { return e.Text }

// Is reports whether target is [courier.ErrConflict].
func (e *InUseError) Is(target error) bool { return target == courier.ErrConflict }

// ErrBase returns the error of a Save whose Base is not the latest version.
func (d *Definition) ErrBase(latest int) error {
	now := fmt.Sprintf("the latest version is %d", latest)
	if latest == 0 {
		now = "there is none"
	}
	return courier.Errorf(courier.ErrConflict, "%s %q was to follow version %d, but %s; nothing was saved", d.Kind, d.Name, *d.Base, now)
}

// globalLimit is the setting that limits how many executions run at once.
const globalLimit = "job.concurrency_limit"

// DefaultLimit is the global limit if none is set.
const DefaultLimit = 5

// LimitSetting returns the name of the setting that holds the limit of a scope: "" for the global
// limit, "job:NAME" or "key:KEY", or "key:PREFIX*" for each key that begins with PREFIX and has no
// limit of its own; of several prefixes the longest counts. The value of the setting is a decimal
// number; 0 means no limit. If it is not set, the global limit is [DefaultLimit], a job's is
// [NewExecution.JobLimit], and a key has none.
func LimitSetting(scope string) string {
	if scope == "" {
		return globalLimit
	}
	return globalLimit + "." + scope
}

// LimitScope returns the scope whose limit a setting holds; ok is false for any other
// setting.
func LimitScope(setting string) (scope string, ok bool) {
	if setting == globalLimit {
		return "", true
	}
	scope, ok = strings.CutPrefix(setting, globalLimit+".")
	return scope, ok && scope != ""
}

// KeyPattern returns the beginning of the limit keys that a scope such as "key:user:*"
// limits; ok is false for any other scope.
func KeyPattern(scope string) (prefix string, ok bool) {
	key, isKey := strings.CutPrefix(scope, "key:")
	prefix, ok = strings.CutSuffix(key, "*")
	return prefix, ok && isKey
}

// CheckSetting reports what is wrong with the value of a setting, as an error
// that matches [courier.ErrInvalid]: a limit is a decimal number from 0 to
// [math.MaxInt32]. Every other setting may have any value, and any may be empty.
func CheckSetting(key, value string) error {
	scope, ok := LimitScope(key)
	if !ok || value == "" {
		return nil
	}
	if n, err := strconv.ParseInt(value, 10, 32); err != nil || n < 0 {
		return courier.Errorf(courier.ErrInvalid, "setting %q: the limit of scope %q must be a number from 0 to %d, not %q", key, scope, math.MaxInt32, value)
	}
	return nil
}

// A NewExecution is an execution to be created.
type NewExecution struct {
	ID      courier.ExecutionID // made by the caller, so that a repeated Enqueue is recognised
	Job     string
	Version int
	// Latest says that Version was the latest when the caller last read it, and
	// must still be the latest when the execution is created. So callers can cache it.
	Latest bool
	// StepTypes are the keys of all step types of the version, in order, without flow markers,
	// except [FinallyType]. Only workers that have all of them claim the execution.
	StepTypes []string
	// First is the first step, with its ID and Type, if the version begins with
	// one and not with a flow marker. A store may start it together with the
	// first claim, see [Claimed.Started], or ignore it.
	First          *courier.StepExecution
	Queue          string
	Priority       int16
	Delay          time.Duration // until it is due
	Hold           bool          // creates it in the state created
	IdempotencyKey string        // empty means none
	KeyScope       string        // in which the key is unique, over all jobs; empty means the job. Empty without a key
	KeyAlone       bool          // the params are not compared if the key is used; see [NewExecution.Same]
	Params         json.RawMessage
	LimitKeys      []string // without repetitions, and within the bounds of flow.LimitKeysProblem
	JobLimit       int      // the job's own limit; 0 means none
	// DependsOn are dependencies on jobs on which the job of the execution depends, or
	// has depended in an earlier version. Those that do not refuse are evaluated when
	// the execution becomes queued, in any way, and while it waits. It can't be claimed
	// before the most recent executions of all these jobs meet them at the same
	// instant; the most recent is the one that was created last, and among those of
	// one instant the one with the highest id. Every call that ends an execution
	// releases the executions that wait for it before it returns; if the process dies
	// in between, a claim does. A released execution waits for nothing any more, and is
	// due at that instant if it was due before.
	DependsOn []courier.JobDependency
	Timeout   time.Duration
	// MaxDuration, ExpectedBy and Expires are deadlines; see [Deadlines]. 0 means none.
	MaxDuration, ExpectedBy, Expires time.Duration
	By                               string
	// Chain and Member are the chain execution and the name of the execution as its
	// member; see package chain. Enqueue ignores them.
	Chain  courier.ChainExecutionID
	Member string
	// RerunOf is the execution of which this one is a rerun; empty if it is none. The
	// store keeps it.
	RerunOf courier.ExecutionID
	// Labels, MaxRetries and Trace are kept with the execution. A store with the role
	// [Trail] finds the execution by its labels.
	Labels     map[string]string
	MaxRetries *int
	Trace      string
}

// Same reports whether x, an existing execution with the same ID or idempotency key, can be
// returned in place of the new one: it has the same job and the same params, byte by byte. With
// KeyAlone the same key is enough; with a KeyScope too, the job may differ.
func (n *NewExecution) Same(x *courier.Execution) bool {
	if n.KeyAlone && n.usedBy(x) && (n.KeyScope != "" || x.Job == n.Job) {
		return true
	}
	return x.Job == n.Job && bytes.Equal(x.Params, n.Params)
}

// usedBy reports whether an execution has the idempotency key of the new one, in its scope.
func (n *NewExecution) usedBy(x *courier.Execution) bool {
	return n.IdempotencyKey != "" && x.IdempotencyKey == n.IdempotencyKey && x.KeyScope == n.KeyScope
}

// Conflict returns the error if x has the ID or the idempotency key of the new execution and
// is not the same by Same; otherwise nil. The error matches [courier.ErrConflict].
func (n *NewExecution) Conflict(x *courier.Execution) error {
	switch {
	case n.Same(x):
		return nil
	case x.Job == n.Job:
		return courier.Errorf(courier.ErrConflict, "job %q, idempotency key %q: execution %s has other params; nothing was created: use another key, or the same params", n.Job, n.IdempotencyKey, x.ID)
	case n.KeyScope != "" && n.usedBy(x):
		return courier.Errorf(courier.ErrConflict, "job %q, idempotency key %q of the scope %q: execution %s of job %q has it; nothing was created: use another key", n.Job, n.IdempotencyKey, n.KeyScope, x.ID, x.Job)
	}
	return courier.Errorf(courier.ErrConflict, "execution %s exists for job %q", x.ID, x.Job)
}

// ErrOutdated is the error for an execution with [NewExecution.Latest] whose job has a
// newer version. Nothing was created. It matches [courier.ErrConflict].
var ErrOutdated = courier.Errorf(courier.ErrConflict, "store: there is a newer version of the job")

// Enqueued is the result of one [NewExecution].
type Enqueued struct {
	Execution courier.Execution
	Existed   bool
}

// A Token is the fencing token of a lease: random, and compared for equality
// only. Executions that are claimed in one call may have the same.
type Token string

// A ClaimRequest selects the executions that a worker can run.
//
// A claim takes executions that are queued and due, and running ones whose lease
// has expired (a reclaim), if they are in one of Queues, all their step types
// are among StepTypes, and their workspace is none or Workspace. The order is:
// expired ones first, then by priority, highest first, then due time, then id.
//
// Limits hold at every instant, counted over the rows that are running: a
// queued execution is claimed only while the global limit, the limit of its
// job and those of all its keys have room. Executions that do not fit are
// passed over, not waited for; a store that stops looking after many of them
// says so in [Claims.Next]. An expired lease keeps its slot until the
// reclaim, which takes the slot over, so reclaims need no room.
//
// An execution that waits for others ([NewExecution.DependsOn]) can't be claimed.
type ClaimRequest struct {
	Worker    string // names the worker in records; unique to the process
	Workspace string // id of the directory tree that the worker has
	StepTypes []string
	Queues    []string
	Only      []courier.ExecutionID // if not nil, nothing else is claimed
	Max       int
	Lease     time.Duration
	// Slots, Version and StartedAt are for [Workers], which shows them with the worker;
	// zero if unknown. A store may truncate StartedAt to microseconds.
	Slots     int
	Version   string
	StartedAt time.Time
}

// Claims is what [Queue.Claim] returns.
type Claims struct {
	List []Claimed
	// Next is the time until an execution that the request could claim becomes due or its
	// lease expires, as far as the store knows; 0 means that it knows of none. It is set
	// if fewer than Max were claimed. If the store claimed some and did not examine all
	// queued executions, it is a microsecond.
	Next time.Duration
	// Mark is the argument for [Queue.Await]. It identifies the state of the queues
	// before the claim.
	Mark uint64
	// Watched is how long the caller may wait in Await without claiming. Executions
	// that become due by time are not announced; Next is the earliest of those. 0
	// means that callers have to poll.
	Watched time.Duration
	// Unclaimed reports whether the claim has left executions that are queued, due or
	// not, or that run with an expired lease. Stores with the role [Workers] set it.
	// They check at most once in [PresenceInterval], and set it also if they could
	// not check all running executions.
	Unclaimed bool
	// Subscribed reports whether there are subscriptions. Stores with the role notify.Store
	// set it, for a new subscription at the latest with the next claim that begins.
	Subscribed bool
}

// A Claimed is a leased execution with everything that its worker needs.
type Claimed struct {
	Execution  courier.Execution
	Token      Token
	Definition Definition // of the job
	Seq        int64      // of the last audit entry
	First      bool       // the execution was never claimed before
	Reclaimed  bool       // it was running, and its lease had expired
	// Latest are the latest records of each step of this attempt, as [Archive.Latest]
	// returns them.
	Latest   []courier.StepExecution
	Counters Counters
	// Lost is the attempt that a lost worker was executing; nil if there was none. It
	// is still the execution's current step: the new worker's first transition
	// ends it.
	Lost *courier.StepExecution
	// Started is the attempt that the claim itself has started, if the store does so:
	// the first attempt of the first step, at the first claim of an execution that
	// was neither held nor paused. The attempt is then the current step, the audit
	// entry Seq is its start, and Counters count it. If Started is nil, the worker
	// starts the step.
	Started *courier.StepExecution
	// Progress is the stored progress of the execution; nil if there is none. Its Report
	// has ChangedAt, and Idle is 0. The claim does not change it.
	Progress *Progress
	// Remaining is the rest of the execution's timeout, which begins with the first claim
	// after the execution was created or last resumed. While the finally part runs, it is
	// the rest of the part's timeout. 0 means no timeout. It can be negative.
	Remaining time.Duration
	// Finish is the decided end of an execution whose finally part has begun; nil for others.
	Finish *Finish
}

// Counters are what a transition carries from one worker to the next.
// The engine defines their meaning; the store changes them only as [Decide] and a reclaim
// require.
type Counters struct {
	// Attempts is the number of the last attempt that was started at the
	// position; the store returns it as the execution's StepAttempts. Interrupted says
	// that this attempt was interrupted and continues under its number. Failures
	// counts the attempts there that failed since the last completed step or resume.
	Attempts    int  `json:"attempts,omitempty"`
	Interrupted bool `json:"interrupted,omitempty"`
	Failures    int  `json:"failures,omitempty"`
	// Base is at least the number of every start of a step before the loop around it was
	// started again. The numbers of later starts continue from there. The store returns
	// it as the execution's EarlierStarts.
	Base int `json:"base,omitempty"`
	// JobFailures counts the retries of the whole job since the last resume.
	JobFailures int `json:"job_failures,omitempty"`
	// AcceptedItems counts those of the execution's FailedItems that do not fail the
	// execution: the items of loops with then: complete.
	AcceptedItems int `json:"accepted_items,omitempty"`
	// RescuedItems is how many items were rescued; the store returns it as the execution's
	// RescuedItems. RescueFails says that the execution fails at its end because of a
	// rescue.
	RescuedItems int  `json:"rescued_items,omitempty"`
	RescueFails  bool `json:"rescue_fails,omitempty"`
	// FinallyItems is how many items of loops in the finally part have failed and fail the
	// part.
	FinallyItems int `json:"finally_items,omitempty"`
	// Target is the number, from 1, of the failed item that is executed again in the
	// last of the execution's [courier.Repairs].Passes; 0 if none is.
	Target int `json:"target,omitempty"`
	// Reclaims counts the workers that were lost since a step last ended. The store
	// increments it with every reclaim.
	Reclaims int `json:"reclaims,omitempty"`
	// Resumed is the state, paused or failed, from which an operator resumed the
	// execution, if no worker has started a step since. If a failed execution was
	// resumed, and is paused and resumed again before a step starts, it stays failed
	// here. The store sets it; a transition clears it.
	Resumed courier.State `json:"resumed,omitempty"`
	// Secrets are the secrets that the execution has used. The store returns them as the
	// execution's Secrets, and keeps them in every resume, restart and retry. The list is
	// not changed in place.
	Secrets []courier.SecretUse `json:"secrets,omitempty"`
}

// Retries returns how many retries were used: [courier.Execution].Retries.
func (c *Counters) Retries() int { return c.Failures + c.JobFailures }

// AfterResume returns the counters after a resume of an execution that was in a state.
func (c Counters) AfterResume(from courier.State) Counters {
	if c.Resumed == courier.Failed {
		from = courier.Failed
	}
	return Counters{
		Attempts: c.Attempts, Interrupted: c.Interrupted, Base: c.Base, Resumed: from,
		AcceptedItems: c.AcceptedItems, Target: c.Target, RescuedItems: c.RescuedItems, RescueFails: c.RescueFails, Secrets: c.Secrets,
	}
}

// A RenewRequest extends leases.
type RenewRequest struct {
	Worker string
	Leases []Lease
	For    time.Duration // from now
}

// A Lease is the right to write the progress of an execution.
type Lease struct {
	Execution courier.ExecutionID
	Token     Token
	// Progress replaces the progress of the execution; nil leaves it. It is written only
	// if the lease is extended.
	Progress *Progress
}

// Renewed is a lease that was extended, with the pending request.
type Renewed struct {
	Execution courier.ExecutionID
	Request   courier.RequestKind // pause, cancel or empty
	By        string              // who made it
	Reason    string              // why; may be empty
}
