// Package memstore is a [store.Store] in memory: the store of unit tests, and
// of services whose executions need not survive their process.
//
// It keeps everything, including the history, for as long as the Store exists: about 600
// bytes for a step, plus its outputs.
package memstore

import (
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// A Store is a store in memory. It may be used by any number of goroutines, and
// inside a testing/synctest bubble if it was made there.
type Store struct {
	// One lock for all: what is done under it takes about a microsecond, and
	// nothing waits while holding it.
	mu          sync.Mutex
	definitions map[store.Kind]map[string][]store.Definition // by version - 1
	settings    map[string]string
	limits      map[string]int // those of settings, by scope
	patterns    []string       // the beginnings of keys that have a limit for each

	executions map[courier.ExecutionID]*execution
	ids        []courier.ExecutionID // of all executions, sorted
	used       map[idempotency]*execution

	states  map[courier.State]int        // how many there are in each
	queues  map[string]map[string]*class // the queued executions, by queue and class
	leases  heap                         // the running ones, by the end of their lease
	running slots
	waiting waiting

	chains chains

	changes uint64            // counts what may make something claimable
	changed map[string]uint64 // the last change of a queue
	freed   uint64            // the last change of all queues
	waiters map[*waiter]struct{}

	schedules    schedules
	monitors     monitors
	expected     expected
	deadlines    deadlineHeap
	overdue      []deadline        // that have passed, of executions that had not ended then
	trails       map[string]*trail // by key
	journal      []store.Action
	told         map[int64]bool                   // entries of the journal that a later one completes
	acknowledged map[string]store.Acknowledgement // by key
	hours        map[time.Time]store.HourFigures  // by their beginnings
	workers      workers
	boxes        map[string]*box // of subscriptions, by name

	id    string       // see StoreID
	ahead atomic.Int64 // how far the clock is before that of the machine, in nanoseconds
}

var (
	_ store.Store    = (*Store)(nil)
	_ store.Identity = (*Store)(nil)
)

// New returns an empty store.
func New() *Store {
	return &Store{
		id:           rand.Text(),
		definitions:  make(map[store.Kind]map[string][]store.Definition),
		settings:     make(map[string]string),
		limits:       make(map[string]int),
		executions:   make(map[courier.ExecutionID]*execution),
		used:         make(map[idempotency]*execution),
		states:       make(map[courier.State]int),
		queues:       make(map[string]map[string]*class),
		leases:       heap{before: leaseEndsBefore},
		running:      slots{job: make(map[string]int), key: make(map[string]int)},
		changed:      make(map[string]uint64),
		waiters:      make(map[*waiter]struct{}),
		boxes:        make(map[string]*box),
		trails:       make(map[string]*trail),
		hours:        make(map[time.Time]store.HourFigures),
		told:         make(map[int64]bool),
		acknowledged: make(map[string]store.Acknowledgement),
	}
}

// An idempotency is an idempotency key, which is unique within a scope, or within a job or
// chain: then the scope is empty.
type idempotency struct{ scope, of, key string }

// keyOf returns a key of a job or chain.
func keyOf(scope, of, key string) idempotency {
	if scope != "" {
		of = ""
	}
	return idempotency{scope, of, key}
}

// An execution is an execution with everything that the store keeps about it.
type execution struct {
	courier.Execution // Current is the store's own; see view
	types             []string
	jobLimit          int
	class             *class // where it waits; nil unless it is queued
	in                *heap  // where it stands; nil unless it is queued or running
	index             int    // in that heap
	// waitsFor are its dependencies while it has not been released; nil afterwards.
	waitsFor []courier.JobDependency

	finish *store.Finish // of its finally part; nil unless that has begun and not ended

	token       store.Token // of the present or last lease
	first, last int64       // audit entries under that lease; see [store.LeaseState]
	counters    store.Counters
	progress    *store.Progress // never changed, only replaced
	since       time.Time       // when the state was entered
	clock       time.Time       // when the timeout began; zero before the first claim

	// A record of a step is made when it starts and filled in when it ends, so
	// that the audit can refer to it. One that was interrupted is only there.
	steps  []*courier.StepExecution // that ended, by Seq
	failed []*courier.StepExecution // those with a FailedLoop or a Rescue
	// those of the present attempt of the execution, by step
	present map[int][]*courier.StepExecution
	audit   []entry // number n at n-1
}

// view returns the execution as callers see it. What Repairs and slices refer to is never
// changed, only replaced.
func (s *Store) view(x *execution) courier.Execution {
	e := x.Execution
	if x.State == courier.Queued && len(x.waitsFor) > 0 {
		e.Waits = s.waits(x)
	}
	e.StepAttempts, e.EarlierStarts, e.Retries = x.counters.Attempts, x.counters.Base, x.counters.Retries()
	e.RescuedItems = x.counters.RescuedItems
	if x.finish != nil {
		e.RescuedItems = x.finish.Counters.RescuedItems
	}
	e.Secrets = x.counters.Secrets
	e.UpdatedAt = x.audit[len(x.audit)-1].at
	if x.RequestedAt.After(e.UpdatedAt) {
		e.UpdatedAt = x.RequestedAt
	}
	if x.Current != nil {
		current := *x.Current
		current.Progress = x.progress.Of(&current)
		e.Current = &current
	}
	return e
}

func (x *execution) seq() int64 { return x.Seq }

// expired reports whether its lease has ended without being given back.
func (x *execution) expired(now time.Time) bool {
	return x.State == courier.Running && !x.LeaseExpiresAt.After(now)
}

// clock is the store's: what it says is in UTC and cut to microseconds.
func (s *Store) clock() time.Time {
	return time.Now().Add(time.Duration(s.ahead.Load())).UTC().Truncate(time.Microsecond)
}

// NewAt returns an empty store whose clock starts at now. With [Store.Advance] a test
// runs the schedules of a week in seconds. Engines use the clock of their store, so
// they need no setting for that.
func NewAt(now time.Time) *Store {
	s := New()
	s.ahead.Store(int64(time.Until(now)))
	return s
}

// Now returns the instant by the store's clock.
func (s *Store) Now() time.Time { return s.clock() }

// Advance moves the store's clock forward by d, and wakes all calls that wait for
// something to become due. Executions that are running may lose their leases, as on a
// machine that was suspended. The clock never moves back: if d is 0 or less, nothing
// changes.
func (s *Store) Advance(d time.Duration) {
	if d <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead.Add(int64(d))
	s.wakeAll()
	s.schedules.notifyChanged()
}

func unknown(id courier.ExecutionID) error {
	return courier.Errorf(courier.ErrNotFound, "there is no execution %q", string(id))
}
