package courier

import (
	"encoding/json"
	"time"
)

// ResumeOptions say who resumes an execution, why, and what changes. The zero value
// changes nothing: the execution continues where it stopped. An execution that failed
// because of items of a loop executes these items again, each from the step that failed.
//
// If the options do not fit the execution, the error matches [ErrInvalid] and lists all
// reasons, and nothing was changed. A dry run of the resume shows in advance what it
// would do.
type ResumeOptions struct {
	By By `json:"-"` // who requests it, and why

	// Seq is the [Execution].Seq that the caller has seen. If the execution has changed
	// since, the resume is refused with an error that matches [ErrConflict], so that a change
	// that was meant for one failed step does not affect another. 0 means no check.
	Seq int64 `json:"seq,omitempty"`

	// Delay is the time until the execution is due, so that no worker claims it earlier; 0
	// means at once. It can't be combined with Elsewhere. The HTTP API has no such field.
	Delay time.Duration `json:"-"`

	// Version is another version of the job with which the execution continues; 0 keeps
	// the present version. The new version must have every step with a record that the
	// position depends on, by its id or at the same index. The blocks around the position
	// must be the same, and the recorded outputs must fit the types. Records stay as they
	// are.
	Version int `json:"version,omitempty"`
	// From is an earlier step, by id or index, at which the execution continues. It must
	// be in the same block, or in the same iteration of the loop. Completed steps from
	// there on run again. Unless Force is set, the resume is refused if one of them
	// removed a file that may be needed, or needs a file that was lost with a former
	// workspace.
	From  string `json:"from,omitempty"`
	Force bool   `json:"force,omitempty"`
	// Set changes values: parameters ("params.day") and outputs of steps before the
	// position ("list.file_list"). The new values must have the declared types. The
	// recorded parameters of the execution stay as they were. A value is refused if limit
	// keys, the list of an open loop or the chosen branch depend on it.
	Set map[string]any `json:"set,omitempty"`
	// Skip marks the failed step as skipped; By.Reason is required. The step's outputs
	// are Outputs, and null where Outputs has none.
	Skip    bool           `json:"skip,omitempty"`
	Outputs map[string]any `json:"outputs,omitempty"`
	// Items selects the items that are executed again; nil means all failed items. The path of
	// an item is in its [FailedItem]. A rescued item can also be selected while the execution
	// is paused or failed. It counts as failed until it completes, begins with the step that
	// had failed, and is rescued again if it fails again.
	Items []ItemPath `json:"items,omitempty"`
	// Accept marks failed items as settled outside the job. SkipItems leaves failed items out
	// for good. Neither count as failed any more, and they are not executed again; the other
	// failed items are. Their files in the workspace are kept like those of failed items.
	Accept    []ItemPath `json:"accept,omitempty"`
	SkipItems []ItemPath `json:"skip_items,omitempty"`
	// Rescue runs the flow.rescue of their loop for failed items, or that of the nearest
	// inner loop around the failed step. An item whose rescue has failed continues in it. The
	// other failed items are executed again, or only those of Items.
	//
	// By.Reason is required for Accept, SkipItems and Rescue. Together with Items they name
	// each item once. They can be combined with Version and Set, and with no other change.
	Rescue []ItemPath `json:"rescue,omitempty"`

	// Elsewhere continues, on any worker, an execution whose workspace is gone for good
	// with files in it. The execution is paused, failed, or running with a lost worker, in
	// which case it is paused first. It continues at the last step from which none of these
	// files is needed, or at From. Steps from there on run again, and deliver again what
	// they delivered. A step needs a file if its configuration refers to the step that
	// wrote it, or contains its path; files that a program finds by itself are not
	// detected. A failed item that needs a file of its own begins with its first step, and
	// good items don't run again. If the first step of the job runs again, that starts the
	// next attempt, as with retry_job. Elsewhere can be combined with From and Force, and
	// with no other change.
	//
	// It is refused for an execution that has no such files, is queued, or has a worker;
	// the error matches [ErrConflict] and says what to do. The engine can't check that the
	// files are gone. If their host comes back, its engine removes them once the execution
	// has ended and they are older than Options.Orphans, except files that may exist
	// nowhere else.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// Changes reports whether a resume with the options does more than continue the execution
// where it stopped.
func (o *ResumeOptions) Changes() bool {
	return o.Delay != 0 || o.Version != 0 || o.From != "" || len(o.Set) > 0 || o.Skip || o.Outputs != nil || len(o.Items) > 0 || len(o.Accept) > 0 || len(o.SkipItems) > 0 || len(o.Rescue) > 0 || o.Elsewhere
}

// CancelOptions are the settings of a cancel.
type CancelOptions struct {
	By By
	// WithoutFinally leaves out the finally part of the job, or ends it if it is running. A
	// second cancel does the same.
	WithoutFinally bool
}

// A ResumeReport says what a resume would do.
type ResumeReport struct {
	Execution ExecutionID `json:"execution_id"`
	Version   int         `json:"version"`
	Position  Position    `json:"position"`
	// Note describes the changes, in the words of the audit.
	Note string `json:"note,omitempty"`
	// Steps are the steps that may run from the position on, in the order of the list. In a loop
	// that has items left they begin with its first step.
	Steps []ResumedStep `json:"steps"`
	// Config is the configuration of the step at the position, with its references
	// replaced and without secrets; nil where some of them have no value yet.
	Config json.RawMessage `json:"config,omitempty"`
	// Values are those in scope at the position, by key.
	Values map[string]any `json:"values,omitempty"`
	// Consumed are files that completed steps have removed, and that steps that run again
	// may need.
	Consumed []ConsumedFile `json:"consumed,omitempty"`
	// FailedItems are the items that are executed again, or whose rescue is executed; at most
	// 1,000.
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

// A ConsumedFile is a file that a completed step removed.
type ConsumedFile struct {
	Step int    `json:"step"`
	Path string `json:"path"`
}

// A FailedItem is an item of a loop that failed and was not repaired, with the record of
// its first failure. In nested loops it is the outermost item that the failure belongs
// to. In a list of rescued items it is an item whose rescue completed.
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

// An ItemFailure says briefly which item of a loop failed, and why. It is an element of a
// loop's value "failed", and of an event's Failed.
type ItemFailure struct {
	Index   int    `json:"index"` // in the list
	Label   string `json:"label"`
	Step    string `json:"step"` // that failed: its id, or its index if it has none
	Class   Reason `json:"class"`
	Message string `json:"message"` // at most 200 bytes
}
