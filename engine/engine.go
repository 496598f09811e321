// Package engine executes jobs: it claims executions from a store, runs their
// steps, and writes a checkpoint after each step. An execution that is paused, fails or loses
// its process continues from its last checkpoint.
//
// An [Engine] is an ordinary value inside a Go service. [Engine.Start] runs it in the
// background; [Engine.Run] executes one job in the calling goroutine and needs no Start. Any
// number of engines, in any number of processes, may share a store.
//
// Package flow decides which step comes next, the step types of a
// [courier.Registry] do the work, and a store keeps definitions, executions and
// their records.
//
// # How an execution runs
//
// A started engine has a goroutine that claims, one that waits in [store.Queue.Await], one that
// renews all leases in one call, one that removes old workspaces, and one for each execution.
// The goroutine of an execution reads the version of the job and the values in scope, and checks
// the files of an execution that was resumed. Then it repeats four phases. The boundary carries
// out a cancel, a pause, the timeout of the execution or a stop, in this order. The start is one
// transition, which ends the previous step and starts the next. The attempt calls Cleanup,
// unless it is the first, and Execute, in a goroutine of its own. The failure policy then
// handles the outcome.
//
// Errors of the store are retried, 10 ms to 1 s apart, as long as the lease lasts. A call that
// has not returned after 10 s is made again. Errors that the contract of package store names are
// answers and are not retried. A write that the store refuses is logged at once and then every
// 30 s, and shown by [Engine.Health]. If the store refuses the content for good, the engine
// leaves out outputs and files, then the attempts, and the execution fails with the reason
// "store". If the store refuses the writer, for example because a database role lacks a
// privilege, the engine claims nothing until that is fixed. After a minute it stops renewing the
// lease, so that another engine can take over.
//
// # Leases
//
// A lease lasts 15 s and is renewed every 5 s. A failed renewal is retried every 0.5 s. A
// watchdog ends the steps 12 s after the last successful renewal was sent, so that a step has
// ended before another worker can begin. After a lost lease the engine discards the result: it
// writes nothing, emits nothing and calls no Cleanup. The first transition of the next worker
// ends the lost attempt with the reason worker_lost. That costs no retry. After three lost
// workers in a row the execution fails, and no method of the step is called, not even Rollback.
//
// # Stopping
//
// [Engine.Stop] stops claiming, waits 30 s for steps to end, cancels them, and waits another 10
// s. An attempt that returned after it was cancelled continues under the same number, on any
// worker. If it did not return, the next start has a new number and a directory of its own,
// because the step may still be writing. Neither costs a retry.
package engine

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/deadlines"
	"github.com/courierhq/courier/engine/internal/definitions"
	"github.com/courierhq/courier/engine/internal/dryruns"
	"github.com/courierhq/courier/engine/internal/figures"
	"github.com/courierhq/courier/engine/internal/hooks"
	"github.com/courierhq/courier/engine/internal/hours"
	"github.com/courierhq/courier/engine/internal/isolated"
	"github.com/courierhq/courier/engine/internal/leases"
	"github.com/courierhq/courier/engine/internal/maintenance"
	"github.com/courierhq/courier/engine/internal/probe"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/engine/internal/repair"
	"github.com/courierhq/courier/engine/internal/slots"
	"github.com/courierhq/courier/engine/internal/unserved"
	"github.com/courierhq/courier/engine/internal/waiters"
	"github.com/courierhq/courier/engine/internal/workspace"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/internal/metrics"
	"github.com/courierhq/courier/internal/uuid7"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// A StuckStep is a step that has not returned although its context has ended. Its attempt
// counts as failed and can no longer affect the execution. The step occupies a slot of
// the engine until it returns.
type StuckStep struct {
	Execution courier.ExecutionID
	Step      int
	Type      string
	Attempt   int
	Stacks    []byte // of all goroutines
}

// An Engine executes jobs. Its methods may be called by several goroutines.
type Engine struct {
	store store.Store
	roles core.Roles // of the store
	reg   *courier.Registry
	opt   Options
	log   *slog.Logger
	ids   uuid7.Source

	programs  *program.Cache
	observers *hooks.Observers
	probe     *probe.Calls
	work      workspace.Tree
	kept      workspace.Kept
	isolated  isolated.Runner

	recorded   *metrics.Registry // what this engine has done
	figures    *figures.Service
	wasStarted atomic.Bool // at least once

	// The subsystems; see [access].
	definitions   *definitions.Service
	chains        *chain.Service
	calendars     *calendar.Service
	schedules     *schedule.Service
	monitors      *monitor.Service
	expectations  *expectation.Service
	notifications *notify.Service
	dryRuns       *dryruns.Service
	repairs       *repair.Planner
	unserved      *unserved.Service
	deadlines     *deadlines.Service
	hours         *hours.Service
	maintenance   *maintenance.Service

	runs     *leases.Set[*run]
	waiters  waiters.Set   // woken when this engine is done with an execution, or with one of a chain execution's
	wake     chan struct{} // there may be something to claim
	freed    chan struct{} // a slot became free
	slots    *slots.Pool
	refusals refusedWrites // what the store does not take now

	mu     sync.Mutex
	worker *worker // set between Start and the end of Stop

	pollsRarely bool // as rarely as the store allows
	// monitorNamed finds a monitor that an expectation names; nil: in the store.
	monitorNamed func(ctx context.Context, name string) (monitor.Monitor, error)
	invalid      error // what is wrong with the arguments of New
}

// Chains returns the service for the chains in the engine's store, which must have the
// role [chain.Store]. Started engines run the members.
func (e *Engine) Chains() *chain.Service { return e.chains }

// Calendars returns the service for the calendars in the engine's store.
func (e *Engine) Calendars() *calendar.Service { return e.calendars }

// Schedules returns the service for the schedules in the engine's store, which must have
// the role [schedule.Store]. Started engines fire them.
func (e *Engine) Schedules() *schedule.Service { return e.schedules }

// Monitors returns the service for the monitors in the engine's store, which must have
// the role [monitor.Store]. Started engines that have the lister of a monitor poll its
// directory.
func (e *Engine) Monitors() *monitor.Service { return e.monitors }

// Expectations returns the service for the expectations in the engine's store, which must
// have the role [expectation.Store]. Started engines look for the expected files.
func (e *Engine) Expectations() *expectation.Service { return e.expectations }

// Subscriptions returns the service for the subscriptions in the engine's store, which
// must have the role [notify.Store]. Started engines deliver the notifications.
func (e *Engine) Subscriptions() *notify.Service { return e.notifications }

// New returns an engine that keeps executions in s and takes step types from r; a nil r
// has no step types. A nil opt means the defaults. New starts nothing and can't fail:
// Start and Run report all mistakes in the options at once. If s is nil, every call
// returns an error.
func New(s store.Store, r *courier.Registry, opt *Options) *Engine {
	e := &Engine{
		store: s, reg: r,
		wake:  make(chan struct{}, 1),
		freed: make(chan struct{}, 1),
	}
	if opt != nil {
		e.opt = *opt
	}
	e.invalid = e.opt.check()
	if core.IsNil(s) {
		e.store, e.invalid = core.NoStore, errors.Join(core.ErrNoStore, e.invalid)
	}
	if r == nil {
		e.reg = new(courier.Registry)
	}
	if err := isolated.Astray(); err != nil {
		e.store, e.invalid = core.NoStore, err
	}
	e.pollsRarely = e.opt.Poll <= 0
	o := &e.opt
	o.setDefaults(e.ids.New())
	e.log = o.Log
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	e.recorded = metrics.NewRegistry(e.log)
	e.probe = probe.To(&probe.Recorder{Sink: e.recorded}, o.Probe, e.log)
	e.store = e.probe.Around(e.store)
	e.roles = core.Roles{Store: e.store, Behind: probe.Behind(e.store)}
	e.observers = hooks.NewObservers(o.Observers, e.log)
	e.work.Dir = o.Workspace
	e.isolated = isolated.Runner{Registry: e.reg, Types: maps.Clone(o.Isolate), Grace: o.Grace, MaxOutput: o.MaxOutput, Lease: o.Lease}
	e.invalid = errors.Join(e.invalid, e.isolated.Check())
	e.slots = slots.New(o.Slots, e.freed)
	e.runs = leases.New[*run](leases.Options{Store: e.store, Worker: o.Worker, Lease: o.Lease, Log: e.log, Changed: e.freed})
	e.addSubsystems()
	if a, ok := o.Probe.(Attacher); ok {
		a.Attach(e)
	}
	return e
}

// Registry returns the step types of the engine.
func (e *Engine) Registry() *courier.Registry { return e.reg }

// Observe calls f with every event from now on, like a function in [Options].Observers,
// until stop is called. Stop does not wait for a call in progress. Observe may be called
// at any time, and stop more than once.
func (e *Engine) Observe(f func(courier.Event)) (stop func()) { return e.observers.Add(f) }

// A Health is the state of an engine at an instant. It covers this engine only. A store
// may report its own state, as pgstore does with its method Health.
type Health struct {
	// Refused are the executions of this engine whose progress the store does not accept,
	// the oldest first; nil if there are none.
	Refused []RefusedWrite `json:"refused,omitempty"`
	// Stranded are groups of executions that are due or lost and that no present worker
	// can claim, the oldest first; nil if there are none. A started engine finds them
	// within about two minutes, if its store has the role [store.Workers].
	Stranded []store.Stranded `json:"stranded,omitempty"`
	// Maintenance lists the step types whose maintenance fails, such as the retention of a
	// depot: this engine's last call has failed, or has not returned for 10 minutes. Nil
	// if none fails.
	Maintenance []courier.FailedMaintenance `json:"maintenance,omitempty"`
	// Kept counts the workspaces in Options.Workspace that are kept although their
	// executions are over, because they hold files that may exist nowhere else. An engine
	// looks for them when it starts and then every hour. Nil if there are none.
	Kept *KeptWorkspaces `json:"kept,omitempty"`
	// LowSpace is set if the disk of Options.Workspace has less free space than
	// Options.MinFree. Nil if it has more, or if that is not known.
	LowSpace *LowSpace `json:"low_space,omitempty"`
}

// LowSpace says how much of the disk of the workspaces is free, in bytes.
type LowSpace struct {
	Free    int64 `json:"free_bytes"`
	MinFree int64 `json:"min_free_bytes"` // see Options.MinFree
}

// KeptWorkspaces says how much space the kept workspaces take; see
// Options.KeepOnlyCopies.
type KeptWorkspaces struct {
	Executions int   `json:"executions"`
	Files      int   `json:"files"` // files that may exist nowhere else
	Bytes      int64 `json:"bytes"` // of these files
}

// lowSpace returns nil if there is enough.
func (e *Engine) lowSpace() *LowSpace {
	if free, ok := e.work.Free(); ok && free < e.opt.MinFree {
		return &LowSpace{Free: free, MinFree: e.opt.MinFree}
	}
	return nil
}

// Health returns the present state of the engine. It reads the free space of the disk of the
// workspaces, but not the store, and returns at once.
func (e *Engine) Health() Health {
	var kept *KeptWorkspaces
	if n, files, bytes := e.kept.Sum(); n > 0 {
		kept = &KeptWorkspaces{Executions: n, Files: files, Bytes: bytes}
	}
	return Health{
		Kept:        kept,
		LowSpace:    e.lowSpace(),
		Stranded:    e.unserved.Found(),
		Refused:     e.refusals.all(),
		Maintenance: e.maintenance.Failures(),
	}
}
