package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/courierhq/courier"
)

// An Schedules keeps schedules and fires them. It is a role that a [Store] may
// have besides its four; an engine finds it by a type assertion.
//
// There is no leader: every engine asks what is due, decides with [PlanTicks],
// and fires. Two things make that one execution for each tick, whoever else does
// the same: a firing is written only if the schedule has not changed since it
// was read, and the executions bear [TickKey] as their idempotency key, which
// holds even if the schedule was removed and set again. The lease of a due
// schedule only keeps engines from doing the same work twice.
//
// The instants of ticks are the one exception to the rule that callers pass
// durations: a tick is an instant and a key. What is due by now, the store's
// clock says.
type Schedules interface {
	// PutSchedule creates a schedule, if s.Revision is 0, or replaces the one
	// whose revision it is, and returns it as it then is. ErrConflict says that
	// it was changed meanwhile, or that there is one, or none. Names are unique
	// over both kinds; a schedule whose kind changes is replaced.
	PutSchedule(ctx context.Context, s Schedule) (Schedule, error)
	// RemoveSchedule removes a schedule, or returns ErrNotFound. What it has
	// started goes on.
	RemoveSchedule(ctx context.Context, name string) error
	// Schedules returns schedules in byte order of their names.
	Schedules(ctx context.Context, f ScheduleFilter) (ScheduleList, error)
	// DueSchedules leases at most so many schedules that are due to be looked at, the
	// earliest first; a store may stop at 1000. Until the lease ends, or it is fired, a schedule is not due
	// again.
	DueSchedules(ctx context.Context, most int, lease time.Duration) (DueSchedules, error)
	// FireSchedules carries firings out, each of them whole or not at all, all in one
	// transaction, and returns one result for each, in order. No two of the list
	// may be of the same schedule.
	FireSchedules(ctx context.Context, list []Firing) ([]Fired, error)
	// AwaitSchedules returns nil when a schedule may have been put since the call of
	// DueSchedules that returned the mark, at once if that has happened already, or ctx's
	// error when ctx ends. Like [Queue.Await] it may return nil for no reason, or
	// just wait for ctx.
	AwaitSchedules(ctx context.Context, since uint64) error
}

// A Schedule is what a store keeps of one.
type Schedule struct {
	Name    string
	Kind    Kind            // what it starts, Job or Chain
	Target  string          // its name
	Body    json.RawMessage // the definition, valid JSON
	SavedAt time.Time       // when it was last put; set by the store
	// Revision is raised by the store with every Put and every Fire.
	Revision int64
	ScheduleState
}

// A ScheduleState is what changes of a schedule while it fires. The engine
// decides its meaning, except that of Due and of the ids.
type ScheduleState struct {
	Disabled, Paused bool
	Reason           string    // of either
	Next             time.Time // the next tick; zero if there is none
	Due              time.Time // when engines have to look at it; zero means never
	Waiting          bool      // Next has come, and waits for executions to end
	Last             time.Time // the last tick that led to an execution
	LastExecution    courier.ExecutionID
	// Open are executions that were started and not seen to have ended, in the
	// order of their ticks.
	Open     []courier.ExecutionID
	Failures int // in a row
	Problem  string
}

// Replace puts another execution in the place of one, in Open and
// LastExecution. Open must be the caller's own.
func (s *ScheduleState) Replace(id, by courier.ExecutionID) {
	for i := range s.Open {
		if s.Open[i] == id {
			s.Open[i] = by
		}
	}
	if s.LastExecution == id {
		s.LastExecution = by
	}
}

// A ScheduleFilter selects schedules. Zero fields select all.
type ScheduleFilter struct {
	Name   string // just this one
	Kind   Kind   // those that start a job, or a chain
	Target string // those that start the job or chain of that name
	After  string // those whose names come after it
	Limit  int    // 0 means 1000
}

// Match reports whether the filter selects a schedule.
func (f *ScheduleFilter) Match(s *Schedule) bool {
	return (f.Name == "" || s.Name == f.Name) && (f.Kind == "" || s.Kind == f.Kind) && (f.Target == "" || s.Target == f.Target) && s.Name > f.After
}

// A ScheduleList is a list of schedules.
type ScheduleList struct {
	Now  time.Time // by the store's clock
	List []Schedule
}

// DueSchedules is what [Schedules.DueSchedules] returns.
type DueSchedules struct {
	Now  time.Time // by the store's clock
	List []DueSchedule
	// Next is the time until another schedule is due; 0 if none is. Where more
	// may be due already, it is a microsecond.
	Next time.Duration
	Mark uint64 // for [Schedules.AwaitSchedules]
}

// A DueSchedule is a schedule with what its engine needs to decide.
type DueSchedule struct {
	Schedule
	Definition *Definition // the latest of its target; nil if there is none
	// Outcomes are the states of Open and LastExecution, of those that still are
	// in the store. Of chain executions they are those of [courier.ChainState].
	Outcomes map[courier.ExecutionID]courier.State
}

// A Firing is what a schedule does when it was looked at.
type Firing struct {
	Schedule string
	Revision int64 // as it was read; the firing is not carried out if it has changed
	State    ScheduleState
	// After, if not 0, is when engines look at the schedule again, counted from
	// now, in place of State.Due.
	After time.Duration
	// Executions are created, but for those whose idempotency key is used: that
	// takes their place in State, and is no conflict, whatever its parameters.
	Executions []NewExecution
	// Chains are chain executions, created in the same way, for a schedule of a
	// chain; so are the ids in its State and in Cancel those of chain executions.
	Chains []NewChainExecution
	// Cancel are executions that are asked to be cancelled, by By. Those that
	// have ended, or are not there, are left as they are.
	Cancel []courier.ExecutionID
	By     string
}

// A Fired is the result of one [Firing].
type Fired struct {
	Done bool // it was carried out; otherwise the schedule had changed
	// Executions are the results of those of the firing, in order.
	Executions []Enqueued
	Chains     []StartedChain // the same for chain executions
	// Err, if not nil, is why it could not be carried out: ErrNotFound if the
	// version of an execution's job is unknown, ErrConflict if its id is used for
	// another job.
	Err error
}

// TickKey is the idempotency key of what a schedule starts at a tick.
func TickKey(schedule string, tick time.Time) string {
	return "schedule:" + schedule + ":" + tick.UTC().Format(time.RFC3339Nano)
}
