package store

import (
	"time"

	"github.com/courierhq/courier"
)

// Bounds of the search of [Overview.Incidents] for completed executions that supersede failed
// ones.
const (
	MaxSupersedingJobs     = 20   // jobs, those that have failed last
	MaxSupersedingExamined = 1000 // latest executions of each job that are examined
	MaxSuperseding         = 200  // completed executions among these
	// MaxSupersedingParams is the largest size of params that are compared, in bytes.
	MaxSupersedingParams = 8 << 10
)

// Incidents are the executions that may need an operator, at an instant.
type Incidents struct {
	At    time.Time `json:"at"`
	Limit int       `json:"limit"` // of each kind
	// List has the kinds in the order of their constants. Failed executions come newest
	// (highest id) first, those of the other kinds in the order of Since, then id.
	List []Incident `json:"list"`
}

// An Incident is an execution in a condition that may need attention. One execution can
// have several incidents.
type Incident struct {
	Kind      IncidentKind        `json:"kind"`
	Execution courier.ExecutionID `json:"execution_id"`
	Job       string              `json:"job"`
	Queue     string              `json:"queue"`
	// Since is when the lease ended, the request was made, the deadline passed or the
	// execution failed.
	Since time.Time `json:"since"`
	// Worker has, or had, the execution; empty for failed and overdue ones.
	Worker string `json:"worker,omitempty"`
	// By and Text say who made the request, and why.
	By   string `json:"by,omitempty"`
	Text string `json:"text,omitempty"`
	// Reason is which deadline has passed, or why the execution failed.
	Reason  courier.Reason   `json:"reason,omitempty"`
	Failure *courier.Failure `json:"failure,omitempty"`
	// SupersededBy is a younger completed execution of the job that replaces a failed one: it has
	// the same label "key", or the same params, byte by byte, of at most [MaxSupersedingParams]
	// bytes. It is the latest such execution among the last [MaxSuperseding] completed ones of the
	// job's last [MaxSupersedingExamined] executions. It is empty if the failed execution holds
	// files that may exist nowhere else ([courier.Execution.HoldsOnlyCopies]).
	SupersededBy courier.ExecutionID `json:"superseded_by,omitempty"`
	// Version is the version of a failed execution, and Latest the latest version of its
	// job.
	Version int `json:"version,omitempty"`
	Latest  int `json:"latest,omitempty"`
	// Current is the current step of an overdue execution; nil if it has none.
	Current *CurrentStep `json:"current,omitempty"`
}

// A CurrentStep is a step that a worker is executing, or was executing when it was lost.
type CurrentStep struct {
	Step int    `json:"step"`
	ID   string `json:"id,omitempty"`
	Type string `json:"type"`
	// Still is when the progress of the step last changed, or when the attempt began:
	// since then the step has reported no progress.
	Still time.Time `json:"still"`
}

// An IncidentKind is a kind of [Incident].
type IncidentKind string

// The kinds of incidents. An execution that is lost is neither pausing nor cancelling.
const (
	IncidentLost       IncidentKind = "lost"       // its lease has ended
	IncidentPausing    IncidentKind = "pausing"    // its worker has not carried out a pause
	IncidentCancelling IncidentKind = "cancelling" // its worker has not carried out a cancel
	IncidentOverdue    IncidentKind = "overdue"    // [Deadlines.Overdue] has raised the event, and it has not ended
	IncidentFailed     IncidentKind = "failed"
)

// KeptFiles are the files that an execution keeps after it has ended for good, because they
// may exist nowhere else.
type KeptFiles struct {
	Execution courier.ExecutionID `json:"execution_id"`
	Job       string              `json:"job"`
	State     courier.State       `json:"state"` // completed or cancelled
	Since     time.Time           `json:"since"` // when it ended
	Workspace string              `json:"workspace"`
	Worker    string              `json:"worker,omitempty"` // the last one
	// Files, Count, Bytes and Problem are those of [courier.OnlyCopies].
	Files   []courier.File `json:"files"`
	Count   int            `json:"count"`
	Bytes   int64          `json:"bytes"`
	Problem string         `json:"problem,omitempty"`
	// Sources are files that its steps have reported as removed elsewhere, up to 100: the
	// kept files may come from them.
	Sources []courier.File `json:"sources,omitempty"`
	// DiscardedBy, DiscardedAt and Why say who has requested to discard the files, when and
	// why, until an engine with the workspace has done so.
	DiscardedBy string    `json:"discarded_by,omitempty"`
	DiscardedAt time.Time `json:"discarded_at,omitzero"`
	Why         string    `json:"why,omitempty"`
}
