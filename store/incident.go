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

// An Incident is an execution in a condition that somebody may have to look at. One
// execution can be in several.
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
	// By and Text are who has made the request, and why.
	By   string `json:"by,omitempty"`
	Text string `json:"text,omitempty"`
	// Reason is which deadline has passed, or why the execution failed.
	Reason  courier.Reason   `json:"reason,omitempty"`
	Failure *courier.Failure `json:"failure,omitempty"`
	// SupersededBy is a younger execution of the job that has completed and stands for
	// a failed one, unless that holds files that may exist nowhere else
	// ([courier.Execution.HoldsOnlyCopies]): it has the same params, byte by byte, of at most [MaxSupersedingParams] bytes, or the same label "key". It is
	// the latest of them, among the last [MaxSuperseding] completed executions of the job,
	// of its last [MaxSupersedingExamined] executions.
	SupersededBy courier.ExecutionID `json:"superseded_by,omitempty"`
	// Version is that of a failed execution, and Latest the latest version of its job.
	Version int `json:"version,omitempty"`
	Latest  int `json:"latest,omitempty"`
	// Current is the step that an overdue execution is in; nil if it is in none.
	Current *CurrentStep `json:"current,omitempty"`
}

// A CurrentStep is a step that a worker executes, or has left when it was lost.
type CurrentStep struct {
	Step int    `json:"step"`
	ID   string `json:"id,omitempty"`
	Type string `json:"type"`
	// Still is when its progress last changed, or the attempt began: since then the step
	// moves nothing that it reports.
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

// KeptFiles are the files that an execution keeps which has ended for good, because they may
// exist nowhere else.
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
	// Sources are files that its steps have removed elsewhere, up to 100, as they have
	// reported them: where the kept ones may come from.
	Sources []courier.File `json:"sources,omitempty"`
	// DiscardedBy, DiscardedAt and Why say who has asked to discard the files, if an engine
	// with the workspace has still to do so.
	DiscardedBy string    `json:"discarded_by,omitempty"`
	DiscardedAt time.Time `json:"discarded_at,omitzero"`
	Why         string    `json:"why,omitempty"`
}
