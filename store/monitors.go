package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/courierhq/courier"
)

// Monitors keep monitors of directories, and what they have seen there. It is a
// role that a [Store] may have besides its four; an engine finds it by a type
// assertion.
//
// There is no leader: every engine asks which monitors are due, looks at their
// directories, decides with [PlanFiles], and records the outcome. A record is
// written only if the monitor has not changed since it was read, together with
// the executions that it starts, so that each file is handed over once; the
// lease of a due monitor only keeps engines from doing the same work twice.
type Monitors interface {
	// PutMonitor creates a monitor, if its Revision is 0, or replaces the one
	// whose revision it is, and returns it as it then is. ErrConflict says that it
	// was changed meanwhile, or that there is one, or none. A lease ends. In a
	// store that keeps [Schedules] too, [Schedules.AwaitSchedules] returns, so that engines look.
	PutMonitor(ctx context.Context, p MonitorPut) (Monitor, error)
	// RemoveMonitor removes a monitor and what it has seen, or returns
	// ErrNotFound. What it has started goes on.
	RemoveMonitor(ctx context.Context, name string) error
	// Monitors returns monitors in byte order of their names.
	Monitors(ctx context.Context, f MonitorFilter) ([]Monitor, error)
	// DueMonitors leases monitors that are due to look at their directories. Until
	// the lease ends, or the look is recorded, a monitor is not due again.
	DueMonitors(ctx context.Context, r DueRequest) (DueMonitors, error)
	// Record writes the outcome of a look, whole or not at all, in one
	// transaction, and ends the lease; if the monitor has changed since it was
	// read, nothing. The error is ErrNotFound if the version of an execution's job,
	// or of a chain, is unknown, and ErrConflict if its id is used for another.
	Record(ctx context.Context, r MonitorRecord) (Recorded, error)
	// Seen returns what a monitor has seen, in byte order of the names.
	Seen(ctx context.Context, f SeenFilter) ([]SeenFile, error)
}

// A Monitor is what a store keeps of one.
type Monitor struct {
	Name    string
	Lister  string          // the name of what lists its directory
	Kind    Kind            // what it starts, Job or Chain
	Target  string          // its name
	Body    json.RawMessage // the definition, valid JSON
	SavedAt time.Time       // when it was last put; set by the store
	// Revision is raised by the store with every put and every record. A lease
	// does not raise it, and no revision of a name comes twice.
	Revision int64
	Due      time.Time // when it is due; zero means never; set by the store
	MonitorState
}

// A MonitorState is what changes of a monitor while it works. The engine decides
// its meaning.
type MonitorState struct {
	Status courier.MonitorStatus
	Reason string
	Health json.RawMessage // valid JSON, kept byte by byte
}

// A MonitorPut is a monitor to be put.
type MonitorPut struct {
	Monitor
	// After is when it is due, counted from now; negative means never.
	After time.Duration
	// Forget forgets what it has seen.
	Forget bool
}

// A MonitorFilter selects monitors. Zero fields select all.
type MonitorFilter struct {
	Name  string // just this one
	After string // those whose names come after it
	Limit int    // 0 means 1000
}

// A DueRequest says which monitors a caller can take.
type DueRequest struct {
	Listers []string // those with other listers are left out
	Max     int
	Lease   time.Duration
	// Early are monitors that are taken although they are due only later, if they
	// are due at all and not leased.
	Early []string
}

// DueMonitors is what [Monitors.DueMonitors] returns.
type DueMonitors struct {
	Now  time.Time // by the store's clock
	List []Monitor // the earliest first
	// Next is the time until another monitor with one of the listers is due, or
	// its lease ends; 0 if none is. Where more were due than asked for, it is a
	// microsecond.
	Next time.Duration
}

// A SeenFile is what a monitor knows of one file. Instants are by the store's
// clock, as the engine reckons it.
type SeenFile struct {
	Name     string    `json:"name"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified,omitzero"` // zero if that is unknown
	Since    time.Time `json:"since,omitzero"`    // when size and time were first seen to be so
	Done     bool      `json:"done,omitempty"`    // its done file was there at the last look
	Gone     time.Time `json:"gone,omitzero"`     // when it was first missed; zero while it is there
	// Appeared is how often it came into being.
	Appeared int `json:"appeared"`
	// What follows is about when it was last handed over, or first taken note of
	// without that: which appearance it was, and its size and time then.
	Handed         int                 `json:"handed,omitempty"` // 0 means never
	HandedSize     int64               `json:"handed_size,omitempty"`
	HandedModified time.Time           `json:"handed_modified,omitzero"`
	HandedAt       time.Time           `json:"handed_at,omitzero"`     // zero if it was taken note of only
	Execution      courier.ExecutionID `json:"execution_id,omitempty"` // that got it; or the id of a chain execution
}

// A MonitorRecord is the outcome of a look.
type MonitorRecord struct {
	Monitor  string
	Revision int64 // as it was read
	State    MonitorState
	After    time.Duration // when it is due again, counted from now; negative means never
	Changed  []SeenFile    // replaces what is known of these files
	Removed  []string      // files that are forgotten
	// Executions are created, but for those whose idempotency key is used: that
	// takes their place in Changed, and is no conflict, whatever its parameters.
	Executions []NewExecution
	// Chains are chain executions, created in the same way, for a monitor of a
	// chain; so are the ids in Changed those of chain executions.
	Chains []NewChainExecution
}

// Recorded is the result of a [MonitorRecord].
type Recorded struct {
	Done     bool  // it was written; otherwise the monitor had changed
	Revision int64 // the new one
	// Executions are the results of those of the record, in order.
	Executions []Enqueued
	Chains     []StartedChain // the same for chain executions
}

// Replace puts another execution in the place of one.
func (r *MonitorRecord) Replace(id, by courier.ExecutionID) {
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

// FileKey is the idempotency key of what a monitor starts for files: the same
// for the same event of the same appearance of the same files with the same
// sizes and times, and no other.
func FileKey(monitor string, t courier.MonitorTarget, list []ReadyFile) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q\n", t.Connection, t.Path)
	for i := range list {
		f := &list[i]
		fmt.Fprintf(h, "%s %q %d %s %d", f.Event, f.File.Name, f.File.Size, f.File.Modified.UTC().Format(time.RFC3339Nano), f.Appeared)
		if f.Event == courier.FileExists {
			fmt.Fprintf(h, " %s", f.Look.UTC().Format(time.RFC3339Nano))
		}
		fmt.Fprintln(h)
	}
	return "monitor:" + monitor + ":" + hex.EncodeToString(h.Sum(nil))
}
