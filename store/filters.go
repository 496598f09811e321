package store

import (
	"slices"

	"github.com/courierhq/courier"
)

// A DefinitionFilter selects definitions.
type DefinitionFilter struct {
	Kind  Kind
	After string // only those whose names come after it
	Limit int    // 0 means 1000
	Brief bool   // leaves out the bodies, and a store does not read them
}

// A VersionFilter selects versions of one definition.
type VersionFilter struct {
	Before int // only those before this version; 0 means all
	Limit  int // 0 means 100, the most is 1000
}

// A SettingFilter selects settings. Zero fields select all.
type SettingFilter struct {
	Prefix string // those whose names begin with it
	After  string // only those whose names come after it
	Limit  int    // 0 means 1000
}

// A StepFilter selects step records of one execution. Zero fields select all.
type StepFilter struct {
	Execution courier.ExecutionID
	Attempt   int  // of the execution; 0 means all attempts
	Step      *int // index of the step
	// Item selects records in one item of a loop: those of the steps between its flow.foreach and
	// ItemEnd, the index of its flow.end, in that iteration or in one within it. Nil selects all.
	// The method StepsPage of [engine.Executions] sets ItemEnd.
	Item    *courier.ItemPath
	ItemEnd int
	// States selects records that ended in one of these states. If completed is not among
	// them, a store finds them without reading the completed ones.
	States []courier.StepState
	// FailedItems selects those with a FailedLoop or a Rescue. A store finds them without reading
	// the others.
	FailedItems bool
	Files       bool // selects those that report files
	Events      bool // selects those with Events
	// Details also fills the fields Stack, Log and Events of the records. Otherwise they are
	// empty, as in [Archive.Latest] and in claims, because they are large.
	Details bool
	// Brief leaves out the fields Outputs and Files, which may be large, and a store does not
	// read them.
	Brief bool
	After int64 // only those with a higher Seq
	Limit int   // 0 means 1000
}

// Holds reports whether a record belongs to the item that Item and ItemEnd select. It is for
// stores.
func (f *StepFilter) Holds(step int, iteration []int) bool {
	return f.Item == nil || step > f.Item.Loop && step <= f.ItemEnd &&
		len(iteration) >= len(f.Item.Iteration) && slices.Equal(iteration[:len(f.Item.Iteration)], f.Item.Iteration)
}

// A LatestFilter selects the latest record of each step of one execution.
type LatestFilter struct {
	Execution courier.ExecutionID
	Before    int64 // the latest among those whose Seq is lower; 0 means all
}

// PageSize returns how many entries a page has at most by the Limit of a filter: 100 if that is 0
// or less, and never more than 1000.
func PageSize(limit int) int {
	if limit <= 0 {
		return 100
	}
	return min(limit, 1000)
}

// MaxTransferSteps is how many steps a [TransferFilter] looks at.
const MaxTransferSteps = 1000

// A TransferFilter selects the newest attempts of steps, such as those that use a connection.
type TransferFilter struct {
	Steps []TransferStep // no two alike; those behind the first MaxTransferSteps are not looked at
	Limit int            // 0 means 100, the most is 1000
}

// A TransferStep is a step in an attempt of an execution.
type TransferStep struct {
	Execution courier.ExecutionID
	Attempt   int // of the execution
	Step      int // index of the step
}

// A Transfer is an attempt of a step that has ended.
type Transfer struct {
	Attempt courier.StepExecution // with its Version as by [SetVersions]; without Outputs and Files, which may be large
	// Files counts the files that the attempt has received from connections and sent to them.
	// Those that it has removed there do not count.
	Files int
}

// An AuditFilter selects audit entries of one execution.
type AuditFilter struct {
	Execution courier.ExecutionID
	After     int64 // only those with a higher Seq
	Limit     int   // 0 means 1000
}

// UserLimitKey is the prefix of limit keys that name a user, such as "user:ann/report". Only
// the program that starts an execution can set such a key, never its job or its parameters:
// a job could otherwise use up the limit of another user.
const UserLimitKey = "user:"

// A Filter selects executions. Zero fields select all.
type Filter struct {
	// IDs selects these executions; nil selects all.
	IDs    []courier.ExecutionID
	Job    string
	Jobs   []string // of one of these jobs
	States []courier.State
	Queue  string
	// Waiting selects those that wait for other jobs; see [NewExecution.DependsOn].
	Waiting bool
	// Reasons selects those with a [courier.Failure] for one of these reasons. Set States
	// too if you can: failed executions have an index.
	Reasons []courier.Reason
	// FailedItems selects those with failed items; see [courier.Execution.FailedItems].
	FailedItems bool
	// FinallyError selects those whose last finally part has failed; see
	// [courier.Execution.FinallyError].
	FinallyError bool
	// Kept selects completed and cancelled executions that hold, or may hold, files that
	// exist nowhere else, by their OnlyCopies. The result includes the names of these
	// files.
	Kept bool
	// Workspace selects those whose files are in a workspace, by its id.
	Workspace string
	// RerunOf selects those that are reruns of an execution.
	RerunOf courier.ExecutionID
	// Labels selects those with all of these labels.
	Labels map[string]string
	// Before selects executions with a smaller id.
	Before courier.ExecutionID
	Limit  int // 0 means 100, the most is 1000
}
