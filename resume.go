package courier

import (
	"encoding/json"
	"time"
)

// ResumeOptions say who resumes an execution, why, and what changes. The zero value
// changes nothing: the execution goes on where it stands. One that failed because of
// items of a loop executes these items again, from the step that failed in each.
//
// What is given must fit the execution: the error of a resume matches [ErrInvalid], has
// all reasons, and nothing was changed. A dry run of the resume says beforehand what it
// would do.
type ResumeOptions struct {
	By By `json:"-"` // who requests it, and why

	// Seq is that of the execution as the caller has seen it. If the execution has changed
	// since, the resume is refused with an error that matches [ErrConflict], so that a change
	// for one failed step does not hit another one. 0 compares nothing.
	Seq int64 `json:"seq,omitempty"`

	// Delay is the time until the execution is due, so that no worker claims it earlier; 0
	// means at once. It does not go with Elsewhere. The HTTP API has no such field.
	Delay time.Duration `json:"-"`

	// Version is another version of the job that the execution goes on with; 0 keeps
	// the present one. Every step with a record that the position depends on must be in
	// it, by its id or at the same index; the blocks around the position must be the
	// same, and the recorded outputs must fit the types. Records stay as they are.
	Version int `json:"version,omitempty"`
	// From is an earlier step, by id or index, at which the execution goes on: one of the
	// same nesting, or of the same iteration of the loop. Completed steps from there
	// on run again. It is refused if one of them took away a file that may be needed, or
	// needs one that was lost with a former workspace, unless Force is set.
	From  string `json:"from,omitempty"`
	Force bool   `json:"force,omitempty"`
	// Set changes values: parameters ("params.day") and outputs of steps before the
	// position ("list.file_list"), of the types that are declared. The parameters of
	// the execution stay on record as they were. Refused are values that limit keys, the
	// list of an open loop or the chosen branch depend on.
	Set map[string]any `json:"set,omitempty"`
	// Skip marks the step that failed as skipped; By.Reason is required. Its outputs
	// read null, or are Outputs.
	Skip    bool           `json:"skip,omitempty"`
	Outputs map[string]any `json:"outputs,omitempty"`
	// Items chooses the items that are executed again; nil means all that have failed. Each
	// [FailedItem] has its own. An item that was rescued can be chosen too, while the execution
	// is paused or failed: it counts as failed until it is over, begins with the step that had
	// failed, and comes to its rescue again if it fails again.
	Items []ItemPath `json:"items,omitempty"`
	// Accept takes failed items as dealt with outside, and SkipItems leaves failed items out,
	// so that nobody deals with them. They do not count as failed any more, and are not
	// executed again; the others that have failed are. What they have left in the workspace is
	// kept as that of failed items is.
	Accept    []ItemPath `json:"accept,omitempty"`
	SkipItems []ItemPath `json:"skip_items,omitempty"`
	// Rescue begins the flow.rescue of their loop for failed items, or of the nearest loop in
	// it around what has failed; one whose rescue has failed goes on in it. The others that
	// have failed are executed again, or those of Items.
	//
	// By.Reason is required for Accept, SkipItems and Rescue. With Items they name each item
	// once, and go with Version and Set, and with no other change.
	Rescue []ItemPath `json:"rescue,omitempty"`

	// Elsewhere is for an execution with files in a workspace that is gone for good, and
	// which is paused, failed, or running and lost (it is paused then, first). It goes on
	// on any worker, at the last step from which none of these files is needed, or at
	// From: steps from there on run again, and deliver again what they delivered. A step
	// needs a file if its configuration refers to the step that left it, or has its path; a
	// program that finds it by itself can't be seen. A failed item that needs a file of its
	// own begins with its first step, and good items don't run again. If the first step of
	// the job runs again, that is the next attempt, as by retry_job. It goes with From and
	// Force, and no other change.
	//
	// Refused are executions without such files, and those that are queued or that a
	// worker has; the error matches [ErrConflict] and says what to do. Nobody can check
	// that the files are gone: a host that comes back removes them when they are as old as
	// Options.Orphans of its engine and the execution has ended, but for those that may
	// exist nowhere else.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// Changes reports whether a resume with the options does more than let the execution go on
// where it stands.
func (o *ResumeOptions) Changes() bool {
	return o.Delay != 0 || o.Version != 0 || o.From != "" || len(o.Set) > 0 || o.Skip || o.Outputs != nil || len(o.Items) > 0 || len(o.Accept) > 0 || len(o.SkipItems) > 0 || len(o.Rescue) > 0 || o.Elsewhere
}

// CancelOptions are the settings of a cancel.
type CancelOptions struct {
	By By
	// WithoutFinally leaves out the finally part of the job, or ends it if it runs. So does a
	// second cancel.
	WithoutFinally bool
}

// A ResumeReport says what a resume would do.
type ResumeReport struct {
	Execution ExecutionID `json:"execution_id"`
	Version   int         `json:"version"`
	Position  Position    `json:"position"`
	// Note describes what changes, as the audit will.
	Note string `json:"note,omitempty"`
	// Steps are those that may run from there on, in the order of the list. In a loop that has
	// items left they begin with its first step.
	Steps []ResumedStep `json:"steps"`
	// Config is the configuration of the step at the position, with its references
	// replaced and without secrets; nil where some of them have no value yet.
	Config json.RawMessage `json:"config,omitempty"`
	// Values are those in scope at the position, by key.
	Values map[string]any `json:"values,omitempty"`
	// Consumed are completed steps that took away files which steps that run again
	// may need.
	Consumed []ConsumedFile `json:"consumed,omitempty"`
	// FailedItems are the items that are executed again, or whose rescue is; at most 1,000 of
	// them.
	FailedItems []FailedItem `json:"failed_items,omitempty"`
}

// A ResumedStep is a step that may run after a resume.
type ResumedStep struct {
	Step int    `json:"step"`
	ID   string `json:"id,omitempty"`
	Type string `json:"type"`
	// Repeated says that the step has a completed record at the position.
	Repeated bool `json:"repeated,omitempty"`
}

// A ConsumedFile is a file that a completed step took away.
type ConsumedFile struct {
	Step int    `json:"step"`
	Path string `json:"path"`
}

// A FailedItem is an item of a loop that failed and was not repaired, with the record of
// its first failure: the outermost item that the failure belongs to. In a list of rescued
// items it is an item whose rescue has dealt with the failure.
type FailedItem struct {
	ItemPath
	// Label names the item, by the label of its flow.foreach; the index if it has none.
	Label string `json:"label"`
	// The step that failed, with its iteration, and why.
	Step      int    `json:"step"`
	ID        string `json:"id,omitempty"`
	Type      string `json:"type"`
	Attempt   int    `json:"attempt"`
	Reason    Reason `json:"reason"`
	Error     string `json:"error"`
	FailedSeq int64  `json:"seq"` // of the record
}

// An ItemFailure says in few words which item of a loop failed, and why: an element of the
// value failed of a loop, and of Failed in an event.
type ItemFailure struct {
	Index   int    `json:"index"` // in the list
	Label   string `json:"label"`
	Step    string `json:"step"` // that failed: its id, or its index if it has none
	Class   Reason `json:"class"`
	Message string `json:"message"` // at most 200 bytes
}
