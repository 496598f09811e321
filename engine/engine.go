// Package engine executes jobs: it claims executions from a store, runs their
// steps, and writes a checkpoint after each, so that an execution that is
// paused, fails or loses its process goes on where it was.
//
// An [Engine] is an ordinary value inside a Go service. [Engine.Start] makes it
// work in the background; [Engine.Run] executes one job in the calling
// goroutine and needs no Start. Any number of engines, in any number of
// processes, may share a store.
//
// What a job does is decided elsewhere: package flow says which step comes
// next, the step types of a [courier.Registry] do the work, and the store
// remembers.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/chains"
	"github.com/courierhq/courier/engine/internal/definitions"
	"github.com/courierhq/courier/engine/internal/dryrun"
	"github.com/courierhq/courier/engine/internal/hooks"
	"github.com/courierhq/courier/engine/internal/monitors"
	"github.com/courierhq/courier/engine/internal/notifications"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/engine/internal/schedules"
	"github.com/courierhq/courier/engine/internal/unserved"
	"github.com/courierhq/courier/engine/internal/workspace"
	"github.com/courierhq/courier/internal/uuid7"
	"github.com/courierhq/courier/store"
)

// Options are the settings of an [Engine]. The zero value is the default. The first
// groups are what most services set; the others rarely need another value.
type Options struct {
	// What most services set: where files lie, what is run here and how much of it,
	// secrets, and the log.

	// Workspace is the directory that holds a directory for each execution. It
	// is created with mode 0700, and other users must not be able to write to it.
	// Engines on different stores need different directories, since each removes
	// what it takes for abandoned. Empty means "courier-<user id>" in the system's temporary directory.
	Workspace string
	// Queues are served by Start; none means just "default".
	Queues []string
	// Slots is how many executions the engine runs at once, without those of which
	// only the last write is left. 0 means 64. Besides, all engines on the store
	// together run no more than the global limit, which is 5 until
	// [Limits.Set] sets another one; 0 lifts it.
	Slots int
	// Secrets resolves the secret references of configurations, connections and
	// subscriptions. It is told for what, and refuses by an error; one marked by
	// [courier.Permanent] is not repeated. It may be called by several goroutines.
	// Nil means that there are none.
	Secrets func(ctx context.Context, r courier.SecretRequest) (string, error)
	// Log receives, at level info, the start and the end of every execution, and who
	// has changed a schedule, a monitor, a subscription or a limit; at
	// warn, each attempt that failed, each retry, executions that were taken over
	// or lost, and writes that the store refuses, at first and every 30 seconds;
	// and errors that no caller receives. Secrets that an execution has used are
	// left out. Nil means none.
	Log *slog.Logger

	// What parts of Courier need that not every service uses: directories outside the
	// workspace, monitors, and notifications.

	// Roots are the directories outside the workspace that steps may use. Relative
	// ones are those below the working directory when New is called.
	Roots []string
	// Listers list the directories of monitors, by the names that monitors use.
	// Engines whose listers of one name don't see the same directories need
	// different names for them. None means that this engine looks at none.
	Listers map[string]courier.Lister
	// Subscribers are the functions that subscriptions of kind func name; see
	// [Subscriptions.Set]. An event is delivered again, later or elsewhere, if the
	// function returns an error, unless that is marked by [courier.Permanent], if
	// it panics, and if its engine goes away. Its context ends after a minute.
	Subscribers map[string]func(ctx context.Context, n courier.Notification) error
	// Mailer sends what subscriptions of kind email ask for. Nil leaves that to
	// other engines.
	Mailer courier.Mailer
	// Webhooks says what subscriptions of kind webhook may reach.
	Webhooks WebhookOptions

	// Names, where the host does not tell engines or their directories apart.

	// Worker names the engine in records; it must differ from all others on the
	// same store. Empty means host, process id and a random part.
	Worker string
	// WorkspaceID names the directory tree of Workspace: an execution that has
	// files there is continued only by engines with the same id. Give storage
	// that several hosts share the same id on all of them. Empty means host name
	// and path.
	WorkspaceID string

	// Times.

	// Lease is how long an execution stays with an engine that no longer renews.
	// Renewals happen three times as often. 0 means 15 seconds.
	Lease time.Duration
	// Poll is the longest time between two looks at the queue. 0 means 5 seconds,
	// or longer while the store itself wakes its callers for everything new; see
	// [store.Claims].Watched.
	Poll time.Duration
	// SoftStop is how long a stop lets running steps go on before it cancels
	// them. 0 means 30 seconds.
	SoftStop time.Duration
	// Grace is how long a step may take to return after its context has ended.
	// 0 means 10 seconds.
	Grace time.Duration
	// Orphans is the age at which a directory in Workspace without a living
	// execution is removed. 0 means 7 days.
	Orphans time.Duration

	// Limits of what an execution may take.

	// MaxIterations is how many iterations a loop of a job may have, times those
	// of the loops around it, unless its marker has max_iterations. One that would
	// have more fails before its first. 0 means a million.
	MaxIterations int
	// MaxOutput is how many bytes the outputs of an attempt may have as JSON,
	// together with the files that it reports. An attempt that has more fails, and
	// is not repeated: its outputs are kept in the store and read again by whoever
	// goes on. 0 means 16 MiB. Package pgstore keeps up to 256 MiB.
	MaxOutput int
	// MaxValue is how many bytes one value of Context.Set may have as JSON. 0
	// means MaxOutput.
	MaxValue int
	// MaxParams is how many bytes the parameters of an execution, or of one of a
	// chain, may have as JSON. 0 means 16 MiB.
	MaxParams int

	// Functions that the engine calls while it works.

	// Around, if not nil, is called in place of every step's Execute and calls
	// next for it, for tracing, limits, or faults in tests. What it returns is
	// the step's error; a result that next reported as good is lost if it
	// returns one.
	Around func(ctx context.Context, job *courier.Context, next func(context.Context) error) error
	// Observers are called with every event, one event at a time, after it was
	// committed. One that is slow or blocks delays the others' events and, when
	// 1024 are waiting, loses events (see [Engine.Dropped]), and harms nothing
	// else.
	Observers []func(courier.Event)
	// OnStuckStep is called when a step did not return within Grace after its
	// context ended. Nil means that it is only logged.
	OnStuckStep func(StuckStep)
}

// A StuckStep is a step that ignores the end of its context. Its attempt counts
// as failed and is cut off from the execution; it keeps a slot of the engine
// until it returns.
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
	reg   *courier.Registry
	opt   Options
	log   *slog.Logger
	ids   uuid7.Source

	programs  *program.Cache
	observers *hooks.Observers
	work      workspace.Tree

	// The subsystems; see [coreAccess].
	definitions   *definitions.Service
	chains        *chains.Service
	schedules     *schedules.Service
	monitors      *monitors.Service
	notifications *notifications.Service
	dryRuns       *dryrun.Service
	unserved      *unserved.Service

	mu       sync.Mutex
	runs     map[courier.ExecutionID]*run
	zombies  map[courier.ExecutionID]int             // abandoned attempts that have not returned
	waiters  map[courier.ExecutionID][]chan struct{} // closed when this engine is done with an execution, or with one of a chain execution's
	renewer  *renewer                                // renews while there are runs
	worker   *worker                                 // set between Start and the end of Stop
	wake     chan struct{}                           // there may be something to claim
	freed    chan struct{}                           // a slot became free
	healthy  atomic.Bool                             // the last renewal succeeded
	refusals map[courier.ExecutionID]*RefusedWrite   // what the store does not take now

	trusting bool  // polls as seldom as the store allows
	unfit    error // what is wrong with what New was given
}

// New returns an engine that keeps executions in s and takes step types from
// r; nil means none. A nil opt means the defaults. New starts nothing and can't
// fail: what is wrong with the options is reported by Start and Run, all at once,
// and that there is no store by every call.
func New(s store.Store, r *courier.Registry, opt *Options) *Engine {
	e := &Engine{
		store: s, reg: r,
		runs:     make(map[courier.ExecutionID]*run),
		zombies:  make(map[courier.ExecutionID]int),
		refusals: make(map[courier.ExecutionID]*RefusedWrite),
		waiters:  make(map[courier.ExecutionID][]chan struct{}),
		wake:     make(chan struct{}, 1),
		freed:    make(chan struct{}, 1),
	}
	if opt != nil {
		e.opt = *opt
	}
	e.unfit = e.opt.check()
	if isNil(s) {
		e.store, e.unfit = noStore{}, errors.Join(errNoStore, e.unfit)
	}
	if r == nil {
		e.reg = new(courier.Registry)
	}
	host, _ := os.Hostname()
	o := &e.opt
	if o.Worker == "" {
		id := e.ids.New()
		o.Worker = fmt.Sprintf("%s-%d-%s", host, os.Getpid(), id[len(id)-8:])
	}
	if o.Workspace == "" {
		o.Workspace = filepath.Join(os.TempDir(), fmt.Sprintf("courier-%d", os.Getuid()))
	}
	if abs, err := filepath.Abs(o.Workspace); err == nil {
		o.Workspace = abs
	}
	o.Roots = slices.Clone(o.Roots)
	for i, root := range o.Roots {
		if abs, err := filepath.Abs(root); err == nil {
			o.Roots[i] = abs
		}
	}
	if o.WorkspaceID == "" {
		o.WorkspaceID = host + ":" + o.Workspace
	}
	if len(o.Queues) == 0 {
		o.Queues = []string{courier.DefaultQueue}
	}
	setDefault(&o.Slots, 64)
	setDefault(&o.Lease, 15*time.Second)
	e.trusting = o.Poll <= 0
	setDefault(&o.Poll, 5*time.Second)
	setDefault(&o.SoftStop, 30*time.Second)
	setDefault(&o.Grace, 10*time.Second)
	setDefault(&o.Orphans, 7*24*time.Hour)
	setDefault(&o.MaxOutput, 16<<20)
	setDefault(&o.MaxValue, o.MaxOutput)
	setDefault(&o.MaxParams, 16<<20)
	e.log = o.Log
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	e.healthy.Store(true)
	e.observers = hooks.NewObservers(o.Observers, e.log)
	e.work.Dir = o.Workspace
	e.addSubsystems()
	return e
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// Dropped returns how many events observers have not seen because too many
// were waiting.
func (e *Engine) Dropped() int64 { return e.observers.Dropped() }
