package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/history"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/engine/internal/repair"
	"github.com/courierhq/courier/store"
)

// ResumeOptions says who resumes an execution, why, and what changes. The zero value
// changes nothing: the execution goes on where it stands. One that failed because of
// items of a loop executes these items again, from the step that failed in each.
//
// What is given must fit the execution: the error matches [courier.ErrInvalid], has all
// reasons, and nothing was changed. [Engine.DryRunResume] says beforehand what a resume
// would do.
type ResumeOptions struct {
	By courier.By // who requests it, and why

	// Seq is that of the execution as the caller has seen it. If the execution has changed
	// since, the resume is refused with an error that matches [courier.ErrConflict]: what was
	// meant for the step that had failed then may not befall another one. 0 compares nothing.
	Seq int64

	// Version is another version of the job that the execution goes on with; 0 keeps
	// the present one. Every step with a record that the position depends on must be in
	// it, by its id or at the same index; the blocks around the position must be the
	// same, and the recorded outputs must fit the types. Records stay as they are.
	Version int
	// From is an earlier step, by id or index, at which the execution goes on: one of the
	// same nesting, or of the same iteration of the loop. Completed steps from there
	// on run again. It is refused if one of them took away a file that may be needed, or
	// needs one that was lost with a former workspace, unless Force is set.
	From  string
	Force bool
	// Set changes values: parameters ("params.day") and outputs of steps before the
	// position ("list.file_list"), of the types that are declared. The parameters of
	// the execution stay on record as they were. Refused are values that limit keys, the
	// list of an open loop or the chosen branch depend on.
	Set map[string]any
	// Skip marks the step that failed as skipped; By.Reason is required. Its outputs
	// read null, or are Outputs.
	Skip    bool
	Outputs map[string]any
	// Items chooses the failed items that are executed again; nil means all. Those of
	// [Executions.FailedItems] have them.
	Items []courier.ItemPath

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
	// worker has; the error matches [courier.ErrConflict] and says what to do. Nobody can
	// check that the files are gone: a host that comes back removes them when they are as
	// old as Options.Orphans and the execution has ended, but for those that may exist
	// nowhere else; see [Executions.Kept].
	Elsewhere bool
}

func (o *ResumeOptions) plan() *repair.Options {
	return &repair.Options{
		Version: o.Version, From: o.From, Force: o.Force, Set: o.Set, Skip: o.Skip, Outputs: o.Outputs, Items: o.Items,
		Reason: o.By.Reason, By: o.By.Actor, Elsewhere: o.Elsewhere,
	}
}

// Resume puts a paused or failed execution back into the queue, with a fresh
// budget of retries; a failed one goes on from the step that failed. Where the
// files of the execution are within reach, Resume first checks that those which
// completed steps left are still there; otherwise the worker that claims it
// does, and puts it back. A pause that has not taken effect yet is withdrawn. Nil
// options are the zero ones.
//
// A resume with changes takes effect once, however often it is sent: if the execution
// has changed since the plan was made, the error matches [courier.ErrConflict].
func (e *Engine) Resume(ctx context.Context, id courier.ExecutionID, opt *ResumeOptions) (courier.Execution, error) {
	if opt == nil {
		opt = &ResumeOptions{}
	}
	options := opt.plan()
	x, err := e.seen(ctx, id, opt.Seq)
	if err == nil && opt.Elsewhere {
		x, err = e.leaveWorkspace(ctx, x, opt.By)
	}
	if err != nil {
		return x, e.requestError(courier.RequestResume, id, err)
	}
	waits := x.State == courier.Paused || x.State == courier.Failed
	if options.Changes() {
		return e.resumeChanged(ctx, &x, opt, options)
	}
	if waits && x.Workspace == e.opt.WorkspaceID {
		if err := e.checkMissing(ctx, &x); err != nil {
			return x, err
		}
	}
	return e.request(ctx, id, courier.RequestResume, opt.By)
}

// seen returns an execution that has not changed since somebody has seen it.
func (e *Engine) seen(ctx context.Context, id courier.ExecutionID, seq int64) (courier.Execution, error) {
	x, err := e.store.Execution(ctx, id)
	if err == nil && seq != 0 && x.Seq != seq {
		err = courier.Errorf(courier.ErrConflict, "it has changed since it was looked at: it is %s, and its last audit entry is number %d and not %d; nothing was changed now; look at it again", x.State, x.Seq, seq)
	}
	return x, err
}

// resumeChanged resumes an execution that goes on in another way.
func (e *Engine) resumeChanged(ctx context.Context, x *courier.Execution, opt *ResumeOptions, options *repair.Options) (courier.Execution, error) {
	plan, err := e.repairs.Plan(ctx, x, options)
	if err != nil {
		return *x, fmt.Errorf("resume execution %s: %w", x.ID, err)
	}
	if plan.Whole {
		return e.request(ctx, x.ID, courier.RequestRestart, opt.By)
	}
	if opt.From == "" && !opt.Elsewhere && x.Workspace == e.opt.WorkspaceID {
		if err := e.checkMissing(ctx, x); err != nil {
			return *x, err
		}
	}
	return e.requestChange(ctx, x.ID, courier.RequestResume, opt.By, &plan.Change)
}

// isLost reports whether an execution that may go on without its workspace has a lease that
// has ended. The error says why it may not.
func isLost(x *courier.Execution) (bool, error) {
	lost := x.State == courier.Running && time.Now().After(x.LeaseExpiresAt)
	_, err := store.Decide(x, lost, courier.RequestRestart)
	return lost, err
}

// leaveWorkspace returns an execution that stands still and may go on without its workspace:
// one that is lost is paused.
func (e *Engine) leaveWorkspace(ctx context.Context, x courier.Execution, by courier.By) (courier.Execution, error) {
	if lost, err := isLost(&x); err != nil || !lost {
		return x, err
	}
	now, err := e.request(ctx, x.ID, courier.RequestPause, by)
	if err == nil && now.State == courier.Running { // by the store's clock a worker has it
		if now, err = e.request(ctx, x.ID, courier.RequestResume, by); err == nil {
			_, err = store.Decide(&now, false, courier.RequestRestart)
		}
	}
	return now, err
}

// checkMissing returns an error if files that completed steps left are gone.
func (e *Engine) checkMissing(ctx context.Context, x *courier.Execution) error {
	files, err := e.repairs.Files(ctx, x)
	if err != nil {
		return e.requestError(courier.RequestResume, x.ID, err)
	}
	if missing := e.work.Missing(x.ID, e.opt.Roots, files); len(missing) > 0 {
		return courier.Errorf(courier.ErrConflict, "resume execution %s: %s; it stays %s", x.ID, history.MissingFailure(missing).Message, x.State)
	}
	return nil
}

// A ResumeReport says what a resume would do.
type ResumeReport struct {
	Execution courier.ExecutionID `json:"execution_id"`
	Version   int                 `json:"version"`
	Position  courier.Position    `json:"position"`
	// Note describes what changes, as the audit will.
	Note string `json:"note,omitempty"`
	// Steps are those that may run from there on, in the order of the list.
	Steps []ResumedStep `json:"steps"`
	// Config is the configuration of the step at the position, with its references
	// replaced and without secrets; nil where some of them have no value yet.
	Config json.RawMessage `json:"config,omitempty"`
	// Values are those in scope at the position, by key.
	Values map[string]any `json:"values,omitempty"`
	// Consumed are completed steps that took away files which steps that run again
	// may need.
	Consumed []ConsumedFile `json:"consumed,omitempty"`
	// FailedItems are the items that are executed again; at most 1,000 of them.
	FailedItems []FailedItem `json:"failed_items,omitempty"`
}

// A ResumedStep is a step that may run after a resume.
type ResumedStep struct {
	Step int    `json:"step"`
	ID   string `json:"id,omitempty"`
	Type string `json:"type"`
	// Again says that the step has a completed record at the position.
	Again bool `json:"again,omitempty"`
}

// A ConsumedFile is a file that a completed step took away.
type ConsumedFile struct {
	Step int    `json:"step"`
	Path string `json:"path"`
}

// DryRunResume says what [Engine.Resume] would do with the options, and changes nothing.
// Its error is the one of Resume, but that From before a step that took files away is
// reported and not refused.
func (e *Engine) DryRunResume(ctx context.Context, id courier.ExecutionID, opt *ResumeOptions) (ResumeReport, error) {
	if opt == nil {
		opt = &ResumeOptions{}
	}
	options := opt.plan()
	options.Force, options.DryRun = true, true
	x, err := e.seen(ctx, id, opt.Seq)
	if err == nil && opt.Elsewhere {
		var lost bool
		if lost, err = isLost(&x); lost {
			x.State = courier.Paused
		}
	}
	if err != nil {
		return ResumeReport{}, e.requestError(courier.RequestResume, id, err)
	}
	plan, err := e.repairs.Plan(ctx, &x, options)
	if err != nil {
		return ResumeReport{}, fmt.Errorf("resume execution %s: %w", id, err)
	}
	r := ResumeReport{Execution: id, Version: plan.Program.Version, Position: plan.Position, Note: plan.Change.Note, Values: plan.Values.Snapshot()}
	for _, c := range plan.Consumed {
		r.Consumed = append(r.Consumed, ConsumedFile(c))
	}
	for _, s := range plan.Steps {
		r.Steps = append(r.Steps, ResumedStep(s))
	}
	r.Config, r.FailedItems = plan.Config(), mapped(repair.FailedItems(plan.Program.Tree, plan.Failed, x.Position), failedItem)
	return r, nil
}

// A FailedItem is an item of a loop that failed and was not repaired.
type FailedItem struct {
	courier.ItemPath
	// The step that failed, with its iteration, and why.
	Step      int            `json:"step"`
	ID        string         `json:"id,omitempty"`
	Type      string         `json:"type"`
	Attempt   int            `json:"attempt"`
	Reason    courier.Reason `json:"reason"`
	Error     string         `json:"error"`
	FailedSeq int64          `json:"seq"` // of the record
}

// FailedItems returns the items of an execution's loops that failed and were not
// repaired, in the order of the list: the outermost ones, each with its first failure.
func (h Executions) FailedItems(ctx context.Context, id courier.ExecutionID) ([]FailedItem, error) {
	list, err := h.e.executions.FailedItems(ctx, id)
	return mapped(list, failedItem), err
}

func failedItem(i repair.FailedItem) FailedItem { return FailedItem(i) }

// RerunOptions are the settings of [Engine.Rerun].
type RerunOptions struct {
	By courier.By
	// Params replace parameters of the former execution by name.
	Params map[string]any
	// Labels replace labels of the former execution by name.
	Labels map[string]string
	// Version is that of the job; 0 means the latest.
	Version        int
	IdempotencyKey string // empty means none
	// LimitKeys are in addition to the job's. Those of the former execution do not count.
	LimitKeys []string
}

// LabelBy is the label that packages httpapi and dashboard set to the ID of the principal
// who has started an execution, and by which they find what is a client's own. A rerun has
// it only from its options: it is of who has asked for it. It does not count among the
// labels that an execution may have.
const LabelBy = program.LabelBy

// Rerun enqueues a new execution of the job of another one, with its parameters,
// priority, timeout, labels but for [LabelBy], and number of retries, whatever the state of
// that one. All else is as if the job were started now. The new execution names the former
// one in RerunOf, and the filter RerunOf of [Executions.List] finds it from there.
func (e *Engine) Rerun(ctx context.Context, id courier.ExecutionID, opt *RerunOptions) (courier.Execution, error) {
	if opt == nil {
		opt = &RerunOptions{}
	}
	x, err := e.Executions().Get(ctx, id)
	if err != nil {
		return x, fmt.Errorf("rerun: %w", err)
	}
	n, err := e.enqueuer.Rerun(ctx, &x, program.Options{Params: opt.Params, Labels: opt.Labels, Version: opt.Version, IdempotencyKey: opt.IdempotencyKey, By: opt.By, LimitKeys: opt.LimitKeys})
	if err == nil {
		e.unserved.Created(ctx, e.served(), n)
		core.Explained(e.log, "execution", string(n.ID), "started again", opt.By, slog.String("job", n.Job))
	}
	return n, err
}
