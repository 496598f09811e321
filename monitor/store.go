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
// There is no leader: every engine leases due monitors, polls their directories, decides
// which files are ready, and records the result. Two rules ensure that each appearance of
// a file is handed over once, even if several engines poll. A result is written only if
// the monitor has not changed since it was read, in one transaction with the executions
// that it starts. And the idempotency key of an execution is made of the monitor and the
// appearance of its files, so that the rule holds even if the monitor was removed and put
// again. The lease of a due monitor only keeps engines from doing the same work twice.
type Store interface {
	// PutMonitor creates a monitor, if its Revision is 0, or replaces the monitor
	// with that revision. It returns the saved monitor, whose lease ends. If the
	// monitor has another revision, or exists although it is to be created, the error
	// is [courier.ErrConflict]. In a store that also has the role Store of package
	// schedule, its AwaitSchedules returns, so that engines lease due monitors.
	PutMonitor(ctx context.Context, p Put) (Record, error)
	// RemoveMonitor removes a monitor and its files, or returns [courier.ErrNotFound].
	// Executions that it has started continue.
	RemoveMonitor(ctx context.Context, name string) error
	// Monitors returns a page of monitors, in byte order of their names.
	Monitors(ctx context.Context, f Filter) ([]Record, error)
	// DueMonitors leases monitors whose directories are to be polled. A leased monitor
	// is not due again until the lease ends or the poll is recorded.
	DueMonitors(ctx context.Context, r DueRequest) (DueList, error)
	// RecordPoll writes the result of a poll in one transaction, and ends the lease. If
	// the monitor has changed since it was read, nothing is written. If the version of
	// an execution's job, or of a chain, does not exist, the error is
	// [courier.ErrNotFound]. If its id is used for another job or chain, the error is
	// [courier.ErrConflict].
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
	Target  string          // its name
	Body    json.RawMessage // the definition, valid JSON
	SavedAt time.Time       // when it was last put; set by the store
	// Revision is raised by the store with every put and every recorded poll. A lease
	// does not raise it, and no revision of a name comes twice.
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

// A Put is a monitor that is put.
type Put struct {
	Record
	// After is when it is due, counted from now; negative means never.
	After time.Duration
	// Forget removes the files that it has seen.
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
	Listers []string // those with other listers are left out
	Max     int
	Lease   time.Duration
	// Early are monitors that are leased although they are due only later. Monitors
	// that are never due, or that are leased, are not.
	Early []string
}

// DueList is what [Store.DueMonitors] returns.
type DueList struct {
	Now  time.Time // by the store's clock
	List []Record  // the earliest first
	// Next is the time until another monitor with one of the listers is due, or
	// its lease ends; 0 if there is none. If more than Max were due, it is a
	// microsecond.
	Next time.Duration
}

// A SeenFile is a file that a monitor has seen. Instants are by the store's clock, as
// the engine estimates it.
type SeenFile struct {
	Name         string    `json:"name"`
	Size         int64     `json:"size"`
	Modified     time.Time `json:"modified,omitzero"`      // zero if that is unknown
	Since        time.Time `json:"since,omitzero"`         // when size and time were first seen to be so
	Done         bool      `json:"done,omitempty"`         // its done file existed at the last poll
	MissingSince time.Time `json:"missing_since,omitzero"` // when it was first missing; zero while it exists
	// Appeared counts how often the file has appeared.
	Appeared int `json:"appeared"`
	// The following fields are about the last time when the file was handed over, or
	// was first recorded without being handed over: which appearance it was, and its
	// size and time then.
	Handed         int                 `json:"handed,omitempty"` // 0 means never
	HandedSize     int64               `json:"handed_size,omitempty"`
	HandedModified time.Time           `json:"handed_modified,omitzero"`
	HandedAt       time.Time           `json:"handed_at,omitzero"`     // zero if it was only recorded
	Execution      courier.ExecutionID `json:"execution_id,omitempty"` // that it was handed to; or the id of a chain execution
}

// A PollResult is the result of a poll of a monitor's directory.
type PollResult struct {
	Monitor  string // its name
	Revision int64  // as it was read; nothing is written if it has changed
	Status   Status
	After    time.Duration // when it is due again, counted from now; negative means never
	Changed  []SeenFile    // replace the rows of these files
	Removed  []string      // files whose rows are removed
	// Executions are created. If the idempotency key of one is used, the execution
	// that has used it takes its place in Changed; it is no conflict, whatever its
	// parameters.
	Executions []store.NewExecution
	// Chains are chain executions, created in the same way, for a monitor of a
	// chain; so are the ids in Changed those of chain executions.
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

// Replace puts another execution in the place of one, in Changed, which must be the
// caller's own.
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
