package monitor

import (
	"context"
	"encoding/json"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/store"
)

// A Store keeps monitors, and the files that they have seen. It is an optional role of a
// [store.Store]; an engine finds it by a type assertion. The rules that package store
// states for all methods hold here too.
//
// There is no leader: every engine leases due monitors, polls their directories, decides which
// files are ready, and records the result. Two rules ensure that each appearance of a file is
// handed over once, even if several engines poll. First, a result is written only if the monitor
// has not changed since it was read, in one transaction with the executions that it starts.
// Second, the idempotency key of an execution is derived from the monitor and the appearance of
// its files, so a file is handed over once even if the monitor was removed and put again. The
// lease of a due monitor only avoids duplicate work.
type Store interface {
	// PutMonitor creates a monitor if its Revision is 0; otherwise it replaces the monitor with
	// that revision. It returns the saved monitor, whose lease ends. The error is
	// [courier.ErrConflict] if the monitor has another revision, or exists although it is to be
	// created. In a store that also has the role Store of package schedule, PutMonitor makes
	// AwaitSchedules return, so that engines lease due monitors.
	PutMonitor(ctx context.Context, p Put) (Record, error)
	// RemoveMonitor removes a monitor and its files, or returns [courier.ErrNotFound].
	// Executions that it has started continue.
	RemoveMonitor(ctx context.Context, name string) error
	// Monitors returns a page of monitors, in byte order of their names.
	Monitors(ctx context.Context, f Filter) ([]Record, error)
	// DueMonitors leases monitors whose directories are to be polled. A leased monitor
	// is not due again until the lease ends or the poll is recorded.
	DueMonitors(ctx context.Context, r DueRequest) (DueList, error)
	// RecordPoll writes the result of a poll in one transaction, and ends the lease. If the
	// monitor has changed since it was read, nothing is written. If the version of an execution's
	// job, or of a chain, does not exist, the error is [courier.ErrNotFound]. If the id of an
	// execution is used for another job or chain, the error is [courier.ErrConflict].
	RecordPoll(ctx context.Context, r PollResult) (Recorded, error)
	// SeenFiles returns a page of the files that a monitor has seen, in byte order of
	// their names.
	SeenFiles(ctx context.Context, f SeenFilter) ([]SeenFile, error)
}

// A Record is a monitor as a store keeps it.
type Record struct {
	Name    string
	Lister  string          // the name of the lister of its directory
	Kind    store.Kind      // what it starts, Job or Chain; of the look of an expectation "expectation"
	Target  string          // the name of the target
	Body    json.RawMessage // the definition, valid JSON
	SavedAt time.Time       // when it was last put; set by the store
	// Revision is increased by the store at every put and every recorded poll. A lease does not
	// increase it. A name never has the same revision twice.
	Revision int64
	Due      time.Time // when it is due; zero means never; set by the store
	Status
}

// A Status is the part of a monitor that changes with every poll. Only the engine
// interprets it.
type Status struct {
	State  State
	Reason string
	Health json.RawMessage // of [Health]; valid JSON, kept byte by byte
}

// A Put is a monitor to put.
type Put struct {
	Record
	// After is the time from now until the monitor is due; negative means never.
	After time.Duration
	// Forget removes the files that the monitor has seen.
	Forget bool
}

// A Filter selects monitors. Zero fields select all.
type Filter struct {
	Name  string // only the one with this name
	After string // only those whose names come after it
	Limit int    // 0 means 1000
}

// A DueRequest selects due monitors.
type DueRequest struct {
	Listers []string // monitors with other listers are left out
	Max     int
	Lease   time.Duration
	// Early names monitors to lease even if they are not due yet. Monitors that are never due, or
	// that are leased, are not.
	Early []string
}

// DueList is what [Store.DueMonitors] returns.
type DueList struct {
	Now  time.Time // by the store's clock
	List []Record  // the earliest first
	// Next is the time until another monitor with one of the listers is due, or its lease ends; 0
	// if there is none. It is a microsecond if more than Max monitors are due.
	Next time.Duration
}

// A SeenFile is a file that a monitor has seen. Instants are by the store's clock, as
// the engine estimates it.
type SeenFile struct {
	Name         string    `json:"name"`
	Size         int64     `json:"size"`
	Modified     time.Time `json:"modified,omitzero"`      // zero if it is unknown
	Since        time.Time `json:"since,omitzero"`         // when this size and time were first seen
	Done         bool      `json:"done,omitempty"`         // its done file existed at the last poll
	MissingSince time.Time `json:"missing_since,omitzero"` // when it was first missing; zero while it exists
	// Appeared is the number of times that the file has appeared.
	Appeared int `json:"appeared"`
	// The following fields describe the last time when the file was handed over, or was first
	// recorded without being handed over: the number of its appearance, and its size and time
	// then.
	Handed         int                 `json:"handed,omitempty"` // 0 means never
	HandedSize     int64               `json:"handed_size,omitempty"`
	HandedModified time.Time           `json:"handed_modified,omitzero"`
	HandedAt       time.Time           `json:"handed_at,omitzero"`     // zero if it was only recorded
	Execution      courier.ExecutionID `json:"execution_id,omitempty"` // the execution that got it; or the id of a chain execution
}

// A PollResult is the result of a poll of a monitor's directory.
type PollResult struct {
	Monitor  string // its name
	Revision int64  // the revision that was read; nothing is written if the monitor has changed
	Status   Status
	After    time.Duration // the time from now until it is due again; negative means never
	Changed  []SeenFile    // replace the rows of these files
	Removed  []string      // files whose rows are removed
	// Executions are created. If the idempotency key of one is already used, the execution that
	// used it replaces it in Changed. That is not a conflict, even if its parameters differ.
	Executions []store.NewExecution
	// Chains are chain executions, created in the same way, if the monitor starts a chain. The
	// ids in Changed are then ids of chain executions.
	Chains []chain.NewExecution
}

// Recorded is what [Store.RecordPoll] returns.
type Recorded struct {
	Done     bool  // it was written; otherwise the monitor had changed
	Revision int64 // the new one
	// Executions are the results for the executions of the poll, in order.
	Executions []store.Enqueued
	Chains     []chain.Started // the same for chain executions
}

// Replace replaces the id of an execution with another, in Changed. It writes into Changed, so
// the caller must not share that slice.
func (r *PollResult) Replace(id, by courier.ExecutionID) {
	for i := range r.Changed {
		if r.Changed[i].Execution == id {
			r.Changed[i].Execution = by
		}
	}
}

// A SeenFilter selects files that a monitor has seen.
type SeenFilter struct {
	Monitor string
	After   string // only names after this one
	Limit   int    // 0 means 1000
}
