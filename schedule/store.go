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
// There is no leader: every engine leases due schedules, decides with [PlanTicks], and fires. Two
// rules ensure that each tick starts one execution, even if several engines fire it. First, a
// firing is written only if the schedule has not changed since it was read. Second, the
// idempotency key of the execution is [TickKey], so a tick starts one execution even if the
// schedule was removed and put again. The lease of a due schedule only avoids duplicate work.
//
// The instants of ticks are the only exception to the rule that callers pass durations, because a
// tick is an instant and a key. The store's clock decides which schedules are due.
type Store interface {
	// PutSchedule creates a schedule if r.Revision is 0; otherwise it replaces the schedule with
	// that revision. It returns the saved schedule. The error is [courier.ErrConflict] if the
	// schedule has another revision, or exists although it is to be created. A name is unique
	// across both kinds; a schedule can be replaced by one of the other kind.
	PutSchedule(ctx context.Context, r Record) (Record, error)
	// RemoveSchedule removes a schedule, or returns [courier.ErrNotFound]. Executions that it
	// has started continue.
	RemoveSchedule(ctx context.Context, name string) error
	// Schedules returns a page of schedules, in byte order of their names.
	Schedules(ctx context.Context, f Filter) (List, error)
	// DueSchedules leases at most most due schedules, the earliest first; a store may stop at
	// 1000. A leased schedule is not due again until the lease ends or the schedule is fired.
	DueSchedules(ctx context.Context, most int, lease time.Duration) (DueList, error)
	// FireSchedules carries out firings in one transaction. Each is carried out as a whole or not
	// at all. The results are in the order of the list. The list has at most one firing of each
	// schedule.
	FireSchedules(ctx context.Context, list []Firing) ([]Fired, error)
	// AwaitSchedules returns nil when a schedule may have been put since the call of DueSchedules
	// that returned the mark, at once if that has happened already. If ctx ends first, it returns
	// the error of ctx. Like [store.Queue.Await] it may return nil without a reason, or just wait
	// for ctx.
	AwaitSchedules(ctx context.Context, since uint64) error
}

// A Record is a schedule as a store keeps it.
type Record struct {
	Name    string
	Kind    store.Kind      // the kind of the target, Job or Chain
	Target  string          // the name of the target
	Body    json.RawMessage // the definition, valid JSON
	SavedAt time.Time       // when it was last put; set by the store
	// Revision is increased by the store at every put and every firing.
	Revision int64
	Status
}

// A Status is the part of a schedule that changes when it fires. Only the
// engine interprets it, except for Due and the ids.
type Status struct {
	Disabled, Paused bool
	Reason           string    // why it is disabled or paused
	Next             time.Time // the next tick; zero if there is none
	Due              time.Time // when an engine has to decide again; zero means never
	Waiting          bool      // the tick Next waits for executions to end
	Last             time.Time // the last tick that started an execution
	LastExecution    courier.ExecutionID
	// Open lists the executions that had not ended when the schedule was last due, in the order
	// of their ticks.
	Open     []courier.ExecutionID
	Failures int // consecutive ones
	Problem  string
	// MovesFrom is the instant after which ticks of closed days can be moved to the open day
	// before. A tick that would be moved to MovesFrom or earlier, although its own time is later,
	// is moved to the next open day. Zero means that there was no such tick.
	MovesFrom time.Time
}

// Replace replaces the id of an execution with another, in Open and LastExecution. It writes into
// Open, so the caller must not share that slice.
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
	Kind   store.Kind // only those that start this kind of target
	Target string     // only those that start the job or chain of this name
	After  string     // only those whose names come after this one
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
	// Next is the time until another schedule is due; 0 if there is none. It is a microsecond if
	// more schedules may be due already.
	Next time.Duration
	Mark uint64 // for [Store.AwaitSchedules]
}

// A Due is a due schedule with everything that an engine needs to evaluate its ticks.
type Due struct {
	Record
	Definition *store.Definition // the latest version of its target; nil if there is none
	// Outcomes are the states of the executions in Open and LastExecution that are still in the
	// store. For chain executions they are the states of [chain.State].
	Outcomes map[courier.ExecutionID]courier.State
}

// A Firing is an engine's decision on a due schedule.
type Firing struct {
	Schedule string
	Revision int64 // the revision that was read; the firing is not carried out if the schedule has changed
	Status   Status
	// After, if not 0, replaces Status.Due: it is the time from now until the schedule is due
	// again.
	After time.Duration
	// Executions are created. If the idempotency key of one is already used, the execution that
	// used it replaces it in Status. That is not a conflict, even if its parameters differ.
	Executions []store.NewExecution
	// Chains are chain executions, created in the same way, if the schedule starts a chain. The
	// ids in Status and Cancel are then ids of chain executions.
	Chains []chain.NewExecution
	// Cancel lists the executions to cancel, at the request of By. Executions that have ended or
	// do not exist are skipped.
	Cancel []courier.ExecutionID
	By     string
}

// A Fired is the result of one [Firing].
type Fired struct {
	Done bool // it was carried out; otherwise the schedule had changed
	// Executions are the results for the executions of the firing, in order.
	Executions []store.Enqueued
	Chains     []chain.Started // the same for chain executions
	// Err, if not nil, says why the firing could not be carried out: [courier.ErrNotFound] if the
	// version of an execution's job is unknown, [courier.ErrConflict] if its id is used for
	// another job.
	Err error
}

// TickKey returns the idempotency key of the execution that a schedule starts at a tick.
func TickKey(schedule string, tick time.Time) string {
	return "schedule:" + schedule + ":" + tick.UTC().Format(time.RFC3339Nano)
}
