package schedule

import (
	"context"
	"encoding/json"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/store"
)

// A Store keeps schedules and fires them. It is an optional role of a [store.Store]; an
// engine finds it by a type assertion. The rules that package store states for all
// methods hold here too.
//
// There is no leader: every engine leases due schedules, decides with [PlanTicks],
// and fires. Two rules ensure that each tick starts one execution, even if several
// engines fire it. A firing is written only if the schedule has not changed since it
// was read. And the idempotency key of the execution is [TickKey], so that the rule
// holds even if the schedule was removed and put again. The lease of a due schedule
// only keeps engines from doing the same work twice.
//
// The instants of ticks are the one exception to the rule that callers pass
// durations, because a tick is an instant and a key. The store's clock decides which
// schedules are due.
type Store interface {
	// PutSchedule creates a schedule, if r.Revision is 0, or replaces the schedule
	// with that revision. It returns the saved schedule. If the schedule has another
	// revision, or exists although it is to be created, the error is [courier.ErrConflict]. A
	// name is unique over both kinds; a schedule can be replaced by one of the other
	// kind.
	PutSchedule(ctx context.Context, r Record) (Record, error)
	// RemoveSchedule removes a schedule, or returns [courier.ErrNotFound]. Executions that it
	// has started continue.
	RemoveSchedule(ctx context.Context, name string) error
	// Schedules returns a page of schedules, in byte order of their names.
	Schedules(ctx context.Context, f Filter) (List, error)
	// DueSchedules leases due schedules, the earliest first and at most most of them;
	// a store may stop at 1000. A leased schedule is not due again before the lease
	// ends or the schedule is fired.
	DueSchedules(ctx context.Context, most int, lease time.Duration) (DueList, error)
	// FireSchedules carries out firings in one transaction, each of them as a whole
	// or not at all, and returns one result for each, in order. The list has at most
	// one firing of each schedule.
	FireSchedules(ctx context.Context, list []Firing) ([]Fired, error)
	// AwaitSchedules returns nil when a schedule may have been put since the call of
	// DueSchedules that returned the mark. If that has happened already, it returns
	// at once. If ctx ends first, it returns the error of ctx. Like [store.Queue.Await] it
	// may return nil without a reason, or just wait for ctx.
	AwaitSchedules(ctx context.Context, since uint64) error
}

// A Record is a schedule as a store keeps it.
type Record struct {
	Name    string
	Kind    store.Kind      // what it starts, Job or Chain
	Target  string          // its name
	Body    json.RawMessage // the definition, valid JSON
	SavedAt time.Time       // when it was last put; set by the store
	// Revision is raised by the store with every put and every firing.
	Revision int64
	Status
}

// A Status is the part of a schedule that changes when it fires. Only the
// engine interprets it, except for Due and the ids.
type Status struct {
	Disabled, Paused bool
	Reason           string    // of either
	Next             time.Time // the next tick; zero if there is none
	Due              time.Time // when an engine has to decide again; zero means never
	Waiting          bool      // the tick Next waits for executions to end
	Last             time.Time // the last tick that led to an execution
	LastExecution    courier.ExecutionID
	// Open are the executions that had not ended when the schedule was last due, in
	// the order of their ticks.
	Open     []courier.ExecutionID
	Failures int // in a row
	Problem  string
	// MovesFrom is from when on ticks of closed days can be moved to an open day before. Those
	// that would be moved to it or an earlier instant, and whose own time is later, are moved to
	// the next open day. Zero means that there was no such tick.
	MovesFrom time.Time
}

// Replace puts another execution in the place of one, in Open and
// LastExecution. Open must be the caller's own.
func (s *Status) Replace(id, by courier.ExecutionID) {
	for i := range s.Open {
		if s.Open[i] == id {
			s.Open[i] = by
		}
	}
	if s.LastExecution == id {
		s.LastExecution = by
	}
}

// A Filter selects schedules. Zero fields select all.
type Filter struct {
	Name   string     // only the one with this name
	Kind   store.Kind // those that start a job, or a chain
	Target string     // those that start the job or chain of that name
	After  string     // only those whose names come after it
	Limit  int        // 0 means 1000
}

// Match reports whether the filter selects a schedule.
func (f *Filter) Match(r *Record) bool {
	return (f.Name == "" || r.Name == f.Name) && (f.Kind == "" || r.Kind == f.Kind) && (f.Target == "" || r.Target == f.Target) && r.Name > f.After
}

// A List is a list of schedules.
type List struct {
	Now  time.Time // by the store's clock
	List []Record
}

// DueList is what [Store.DueSchedules] returns.
type DueList struct {
	Now  time.Time // by the store's clock
	List []Due
	// Next is the time until another schedule is due; 0 if none is. Where more
	// may be due already, it is a microsecond.
	Next time.Duration
	Mark uint64 // for [Store.AwaitSchedules]
}

// A Due is a due schedule with everything that an engine needs to evaluate its ticks.
type Due struct {
	Record
	Definition *store.Definition // the latest of its target; nil if there is none
	// Outcomes are the states of the executions in Open and LastExecution that are
	// still in the store. Those of chain executions are of [chain.State].
	Outcomes map[courier.ExecutionID]courier.State
}

// A Firing is an engine's decision on a due schedule.
type Firing struct {
	Schedule string
	Revision int64 // as it was read; the firing is not carried out if it has changed
	Status   Status
	// After, if not 0, is the time from now until the schedule is due again, in place
	// of Status.Due.
	After time.Duration
	// Executions are created. If the idempotency key of one is used, the execution that
	// used it takes its place in Status. That is not a conflict, even if its parameters
	// differ.
	Executions []store.NewExecution
	// Chains are chain executions, created in the same way, for a schedule of a
	// chain; so are the ids in its Status and in Cancel those of chain executions.
	Chains []chain.NewExecution
	// Cancel are executions whose cancel is requested, by By. Those that have ended
	// or do not exist are skipped.
	Cancel []courier.ExecutionID
	By     string
}

// A Fired is the result of one [Firing].
type Fired struct {
	Done bool // it was carried out; otherwise the schedule had changed
	// Executions are the results for the executions of the firing, in order.
	Executions []store.Enqueued
	Chains     []chain.Started // the same for chain executions
	// Err, if not nil, is why it could not be carried out: [courier.ErrNotFound] if the
	// version of an execution's job is unknown, [courier.ErrConflict] if its id is used for
	// another job.
	Err error
}

// TickKey returns the idempotency key of the execution that a schedule starts at a tick.
func TickKey(schedule string, tick time.Time) string {
	return "schedule:" + schedule + ":" + tick.UTC().Format(time.RFC3339Nano)
}
