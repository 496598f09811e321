// Package core has what the engine and its subsystems share: the interface [Core],
// through which a subsystem reaches the engine, and the rules for secrets and for calls
// to the store that hold in all of them.
//
// A subsystem is a package below engine/internal with one subject beside the execution
// of jobs, such as package schedules. It imports this package and no other subsystem;
// package engine imports all of them, and implements Core.
package core

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/engine/internal/text"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/store"
)

// A Core is what subsystems use of the engine. All methods may be called by any number
// of goroutines, at any time after the engine was made.
type Core interface {
	// Log returns the engine's log, which is never nil.
	Log() *slog.Logger
	// Changed writes a change that was made to the log, and to the journal if the store
	// keeps one.
	Changed(ctx context.Context, c Change)
	// WakeNotifications has deliveries looked for. It is called after events may have
	// been written to the store.
	WakeNotifications()
	// WakeMonitors has due monitors looked for, if none was known so far.
	WakeMonitors()
	// WakeDeadlines has overdue executions looked for.
	WakeDeadlines()
	// Created has overdue executions looked for when a deadline of the executions passes,
	// which were created.
	Created(list []store.NewExecution)
	Observers
	Stores
	Workers
	Records
	Secrets
	Definitions
	Executions
	Requests
	Targets
	Checks
	Validation
}

// Observers are functions of the host that are called with events.
type Observers interface {
	// Observe gives them an event that was committed.
	Observe(ev courier.Event)
	// Observed reports whether there are any.
	Observed() bool
	// ChainsStarted gives them the events of chain executions that were started.
	ChainsStarted(list []store.StartedChain)
}

// Stores are the parts of the engine's store. The error of one that the store does not
// have says so and matches [errors.ErrUnsupported].
type Stores interface {
	// Catalog keeps definitions. Every store has it.
	Catalog() store.Catalog
	// Archive has the records of executions. Every store has it.
	Archive() store.Archive
	// Outbox keeps events for subscribers; its error matches [courier.ErrInvalid] too.
	Outbox() (store.Outbox, error)
	// Monitors keeps monitors and what they have seen.
	Monitors() (store.Monitors, error)
	// Schedules keeps schedules and what they have fired.
	Schedules() (store.Schedules, error)
	// Chains keeps chain executions.
	Chains() (store.Chains, error)
}

// Workers are the id of a store, and its parts that record workers and executions that stand still.
// The errors are as those of [Stores].
type Workers interface {
	// StoreID returns the id of the store; empty if it has none.
	StoreID(ctx context.Context) (string, error)
	// Workers records the workers that claim.
	Workers() (store.Workers, error)
	// Deadlines keeps deadlines of executions.
	Deadlines() (store.Deadlines, error)
}

// Records are the parts of a store that answer questions about what was done. The errors
// are as those of [Stores].
type Records interface {
	// Overview counts and explains executions.
	Overview() (store.Overview, error)
	// Trail finds reports of files.
	Trail() (store.Trail, error)
	// Journal keeps who has changed what besides executions.
	Journal() (store.Journal, error)
}

// Secrets resolves secrets.
type Secrets interface {
	// HasSecrets reports whether this engine can resolve any.
	HasSecrets() bool
	// Secret returns a secret, and adds it to known.
	Secret(ctx context.Context, r courier.SecretRequest, known *Redactor) (string, error)
	// AskSecret asks whether a secret may be used that a parameter names; see
	// [AskSecret]. If this engine can resolve none, it may.
	AskSecret(ctx context.Context, r courier.SecretRequest) error
}

// Definitions reads definitions. The error of one that does not exist matches
// [courier.ErrNotFound] and names the nearest.
type Definitions interface {
	// Registry returns the step types of the engine.
	Registry() *courier.Registry
	// Queues are those that the engine serves when it is started.
	Queues() []string
	// Programs returns the programs of jobs in the catalog.
	Programs() *program.Cache
	// Chain returns a version of a chain; version 0 means the latest.
	Chain(ctx context.Context, name string, version int) (courier.Chain, error)
}

// Executions makes new executions, and acts on those in the store.
type Executions interface {
	// NewID returns an id for an execution or a chain execution.
	NewID() string
	// Trace returns the trace context of a call, empty if there is none.
	Trace(ctx context.Context) string
	// NewExecution returns a new execution of a program, with a new id.
	NewExecution(ctx context.Context, p *program.Program, opt *program.Options) (store.NewExecution, error)
	// CheckExecution returns the error that NewExecution would have, for a dry run: secrets
	// are asked for as in one.
	CheckExecution(ctx context.Context, p *program.Program, opt *program.Options) error
	// MergeParams returns the JSON object of declared parameters and, in their place,
	// those that are given. If partial is true, more are given later.
	MergeParams(declared *flow.Params, given map[string]any, partial bool) (json.RawMessage, error)
	// WaitUntil calls look until it returns true or an error, or ctx ends: at growing
	// intervals, and at once when this engine has ended its part of an execution or of
	// one of a chain execution with the id.
	WaitUntil(ctx context.Context, id courier.ExecutionID, look func() (done bool, err error)) error
}

// Requests are requests to executions.
type Requests interface {
	// Expire fails an execution that has not begun, with a message. If it has begun or
	// ended, the error is a *courier.TransitionError.
	Expire(ctx context.Context, id courier.ExecutionID, message string) error
	// Requested acts on a request that the store has recorded for an execution, which
	// is given as it is since then: it notifies the run of the execution and the
	// observers, and removes the files of an execution that is cancelled.
	Requested(ctx context.Context, x *courier.Execution, r *store.Request)
}

// Targets starts what schedules, monitors and subscriptions start.
type Targets interface {
	// Start creates an execution of the latest version of a job. One that was created
	// with the same key is no error, unless it has other parameters, which is
	// [courier.ErrConflict].
	Start(ctx context.Context, job string, s Start) error
	// Target returns the latest version of a job, or of a chain if job is empty, to
	// start it together with a record of the store. The error of one that does not
	// exist matches [courier.ErrNotFound].
	Target(ctx context.Context, job, chain string) (Target, error)
	// TargetOf returns the job or chain of a definition.
	TargetOf(ctx context.Context, d *store.Definition) (Target, error)
}

// A Target is a job or a chain, in the version that was the latest at one moment.
type Target interface {
	// Params returns the parameters that the target declares; nil if it takes any.
	Params() map[string]any
	// Job returns the name and the version of a job; the name is empty for a chain.
	Job() (name string, version int)
	// Prepare returns a new execution of the target.
	Prepare(ctx context.Context, s Start) (Prepared, error)
}

// Start is what an execution is started with.
type Start struct {
	Params         map[string]any
	Priority       int16 // of a job; a chain's members have their own
	IdempotencyKey string
	By             courier.By
}

// ParamProblems returns what an error of [Target] says of the parameters of a
// definition: the problems of a [*courier.ParamsError], or one problem.
func ParamProblems(err error) []courier.Problem {
	if e, ok := errors.AsType[*courier.ParamsError](err); ok {
		return slices.Clone(e.Problems)
	}
	return []courier.Problem{{Step: -1, Field: "params", Message: text.Plain(err)}}
}

// Prepared is a new execution of a job or of a chain. One of the fields is nil.
type Prepared struct {
	Execution *store.NewExecution
	Chain     *store.NewChainExecution
}

// ID returns the id of the execution or chain execution.
func (p Prepared) ID() courier.ExecutionID {
	if p.Chain != nil {
		return courier.ExecutionID(p.Chain.ID)
	}
	return p.Execution.ID
}

// Add appends the execution to the list of its kind.
func (p Prepared) Add(executions *[]store.NewExecution, chains *[]store.NewChainExecution) {
	if p.Chain != nil {
		*chains = append(*chains, *p.Chain)
	} else {
		*executions = append(*executions, *p.Execution)
	}
}

// Checks finds what is wrong with definitions, by the rules that hold when they are
// saved. The errors are those of the store.
type Checks interface {
	// CheckJob returns the job as it will be saved. The error of one with problems is a
	// [*courier.DefinitionError].
	CheckJob(ctx context.Context, job courier.Job) (CheckedJob, error)
	// CheckChain returns the chain as it will be saved, with its problems.
	CheckChain(ctx context.Context, chain courier.Chain) (CheckedChain, error)
	// CheckSchedule returns what is wrong with a schedule, and what looks doubtful.
	CheckSchedule(ctx context.Context, s *courier.Schedule) (problems, warnings []courier.Problem, err error)
	// CheckMonitor returns what is wrong with a monitor; with its lister too if listers
	// is true.
	CheckMonitor(ctx context.Context, m *courier.Monitor, listers bool) (problems []courier.Problem, err error)
	// CheckSubscription returns what is wrong with a subscription beside those in o, and
	// what looks doubtful.
	CheckSubscription(ctx context.Context, s *courier.Subscription, o store.Outbox) (problems, warnings []courier.Problem, err error)
	// Unsaved returns checks that read jobs and chains in place of those in the store
	// with the same names.
	Unsaved(jobs []courier.Job, chains []courier.Chain) Checks
}

// A CheckedJob is a job without problems.
type CheckedJob struct {
	Job      courier.Job
	Tree     *flow.Tree
	Warnings []courier.Problem
}

// A CheckedChain is a chain that was checked. If it has no problems, all members have a
// name and a program.
type CheckedChain struct {
	Chain              courier.Chain
	Problems, Warnings []courier.Problem
	Programs           []*program.Program // of each member; nil if its job does not exist
	DependsOn          [][]int            // of each member, the indexes of those that it depends on
}

// Validation is for dry runs.
type Validation interface {
	// Validate calls Validate of a step as an attempt would call Execute: in a goroutine
	// of its own, within a timeout, and cut off if it does not return. It returns what
	// came of it.
	Validate(ctx context.Context, v *StepValidation) StepValidated
	// UpcomingFires returns schedules that start a job or a chain, with their next n
	// times: at most limit schedules, in the order of their names, and whether there are
	// more. It returns nothing if the store keeps no schedules.
	UpcomingFires(ctx context.Context, kind store.Kind, target string, limit, n int) (list []UpcomingFires, more bool, err error)
}

// A StepValidation is a step to validate. The execution is made up.
type StepValidation struct {
	Execution courier.Execution
	Program   *program.Program
	Step      int
	Values    *program.Values // must not change meanwhile
	Timeout   time.Duration
	Resources *courier.Resources // which several validations share
	Secrets   *Redactor
	Log       func(slog.Handler) slog.Handler // wraps the handler of the step's log
}

// A StepValidated is the result of a StepValidation.
type StepValidated struct {
	Unresolved []string // fields of the configuration that have a value only when the step runs
	Err        error
	TimedOut   bool
	// Abandoned says that Validate did not return in time after the end of its context.
	Abandoned bool
	// Resources are those for the next validation: new ones if this one was abandoned.
	Resources *courier.Resources
}

// UpcomingFires says when a schedule will fire.
type UpcomingFires struct {
	Schedule courier.Schedule
	Words    string      // what it is, such as "At 05:30:00, Monday to Friday"
	Next     []time.Time // in the schedule's zone; none if Reason or Problem says why
	Notes    []string    // such as what happens when the clocks change
	Reason   string      // why it does not fire: disabled, paused, or over
	Problem  string      // why it can't
}

// A Lifetime is how long the loops of a subsystem run: from the start to the stop of
// the engine.
type Lifetime struct {
	Base context.Context // carries the values that Start was given, and does not end
	Ctx  context.Context // ends with the stop
	Stop <-chan struct{} // is closed when the stop begins
}

// StoreTimeout bounds the calls to the store that no lease bounds.
const StoreTimeout = 10 * time.Second

// PresentFor is how long ago a worker may have claimed to count as present, and how long
// an execution has to be due, or lost, before it is reported that no worker takes it. So a
// restart of all workers is no reason for a warning.
const PresentFor = 90 * time.Second

// Signal sends to c, which has room for one value, unless a value is there already.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Taken receives a value that is there, and reports whether there was one.
func Taken[T any](c <-chan T) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
