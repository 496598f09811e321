package engine

import (
	"context"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/executions"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/store"
)

// Executions reads executions, the records of their steps, and the values in scope.
// The methods that change an execution are those of [Engine].
type Executions struct{ e *Engine }

// Executions returns the executions in the engine's store.
func (e *Engine) Executions() Executions { return Executions{e} }

// StoreID tells the engine's store from all others; empty if the store has no id.
func (h Executions) StoreID(ctx context.Context) (string, error) { return h.e.roles.StoreID(ctx) }

// Get returns an execution as it is now.
func (h Executions) Get(ctx context.Context, id courier.ExecutionID) (courier.Execution, error) {
	return h.e.executions.Get(ctx, id)
}

// List returns a page of executions, the newest first.
func (h Executions) List(ctx context.Context, f store.Filter) ([]courier.Execution, error) {
	return h.e.executions.List(ctx, f)
}

// Steps returns the records of all attempts of all steps of an execution, in the
// order in which they ended. If there is no such execution, the error matches
// [courier.ErrNotFound].
func (h Executions) Steps(ctx context.Context, id courier.ExecutionID) ([]courier.StepExecution, error) {
	return h.e.executions.Steps(ctx, id)
}

// StepsPage returns a page of the records of an execution that the filter selects, in
// the order in which the attempts ended. If there is no such execution, the page is
// empty.
func (h Executions) StepsPage(ctx context.Context, f store.StepFilter) ([]courier.StepExecution, error) {
	return h.e.executions.StepsPage(ctx, f)
}

// AuditPage returns a page of the audit of an execution, in order. If there is no
// such execution, the page is empty.
func (h Executions) AuditPage(ctx context.Context, f store.AuditFilter) ([]courier.AuditEntry, error) {
	return h.e.executions.AuditPage(ctx, f)
}

// Audit returns the audit of an execution, complete and in order. If there is no such
// execution, the error matches [courier.ErrNotFound].
func (h Executions) Audit(ctx context.Context, id courier.ExecutionID) ([]courier.AuditEntry, error) {
	return h.e.executions.Audit(ctx, id)
}

// Values returns the values that are in scope at the position of an execution, by
// key: its parameters, the system values, and the outputs of its completed steps,
// such as "0.file_list", under the ids of the steps too.
func (h Executions) Values(ctx context.Context, id courier.ExecutionID) (map[string]any, error) {
	return h.e.executions.Values(ctx, id)
}

// Explain says why an execution does not go on, from one snapshot of the store: each
// cause with what an operator can do. The store must have the role store.Overview;
// otherwise the error matches [errors.ErrUnsupported]. If there is no such execution,
// it matches [courier.ErrNotFound].
func (h Executions) Explain(ctx context.Context, id courier.ExecutionID) (store.Explanation, error) {
	return h.e.executions.Explain(ctx, id)
}

// Census counts the executions that have not ended, and failed ones: by queue, by job,
// by limit key and by state. No count goes beyond most, so that the cost does not depend
// on how many there are. 0 means [store.DefaultMost]. The store must have the role
// store.Overview, as for [Executions.Explain].
func (h Executions) Census(ctx context.Context, most int) (store.Census, error) {
	return h.e.executions.Census(ctx, most)
}

// Incidents returns executions that somebody may have to look at: lost, pausing or
// cancelling, overdue and failed ones, at most so many of each kind. 0 means
// [store.DefaultMost]. The store must have the role store.Overview.
func (h Executions) Incidents(ctx context.Context, most int) (store.Incidents, error) {
	return h.e.executions.Incidents(ctx, most)
}

// Kept returns a page of the executions that have ended for good, cancelled or completed, and
// keep files that may exist nowhere else, the newest first, with the names of the files. F
// selects some of them. A page has at most 100. See [Engine.DiscardKept].
func (h Executions) Kept(ctx context.Context, f store.Filter) ([]store.KeptFiles, error) {
	return h.e.executions.Kept(ctx, f)
}

// Stranded returns, in groups, executions that have been due or lost for 90 seconds and
// that no present worker can claim, as the store says at this moment; see also
// [Health].Stranded. The store must have the role store.Workers.
func (h Executions) Stranded(ctx context.Context) ([]store.Stranded, error) {
	return h.e.executions.Stranded(ctx)
}

// Workers returns the engines on the store that have claimed within the last 90 seconds,
// or that hold a lease, in byte order of their names, at most [store.MaxWorkers]. The
// store must have the role store.Workers; otherwise the error matches
// [errors.ErrUnsupported].
func (e *Engine) Workers(ctx context.Context) ([]store.Worker, error) {
	return e.executions.Workers(ctx)
}

// An Outline is an execution with the state of each entry of its job.
type Outline struct {
	Execution courier.Execution `json:"execution"`
	Steps     []flow.Outlined   `json:"steps"` // in the order of the job's list
}

// Journal returns a page of who did what with schedules, monitors, subscriptions and
// limits, the newest first; what was done with executions is in their audit, and who
// saved a version with the version. The store must have the role store.Journal; otherwise
// the error matches [errors.ErrUnsupported]. If the journal can't be written after a
// change was made, the log has the change, with an error.
func (e *Engine) Journal(ctx context.Context, f store.ActionFilter) ([]store.Action, error) {
	j, err := e.roles.Journal()
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	return j.Actions(ctx, f)
}

// Note adds an entry to the journal, for what a program wants on record besides what the
// engine writes, and returns it with its ID and At. The store must have the role
// store.Journal.
func (e *Engine) Note(ctx context.Context, a store.Action) (store.Action, error) {
	j, err := e.roles.Journal()
	if err != nil {
		return a, fmt.Errorf("journal: %w", err)
	}
	return j.Note(ctx, a)
}

// Outline returns the steps and markers of the job of an execution, each with one state:
// the tree that a page begins with. It reads the latest record of each step, however many
// iterations there were. Counts of failed items in loops that have ended are those of the
// first 1,000 records if several loops of the job count failed items. If there is no such
// execution, the error matches [courier.ErrNotFound].
func (h Executions) Outline(ctx context.Context, id courier.ExecutionID) (Outline, error) {
	o, err := h.e.executions.Outline(ctx, id)
	return Outline(o), err
}

// A FileFilter says which files are searched.
type FileFilter struct {
	// Name is the whole name of the file, without directories. With an asterisk at its end
	// it is the beginning. With asterisks at both ends it is a part: then the newest
	// 100,000 entries are examined, or so. The letters A to Z and a to z count as the same.
	Name   string
	Exact  bool              // Name is whole, and asterisks in it stand for themselves
	Before *store.TrailEntry // of the last one of the page before; nil for the first page
	Limit  int               // 0 means 100, the most is 1000
}

// A FoundFile is a file that a step has reported.
type FoundFile struct {
	Entry store.TrailEntry      // for Before of the next page
	Step  courier.StepExecution // the record: when it was, where, and whether it succeeded
	Files []courier.File        // those of the record that have the name
}

// FindFiles returns a page of the reports of files with a name: by which step of which
// execution it was written, received, sent or removed. Those of one name come newest
// first, and names in falling order. The store must have the role store.Trail; otherwise
// the error matches [errors.ErrUnsupported].
func (h Executions) FindFiles(ctx context.Context, f FileFilter) ([]FoundFile, error) {
	list, err := h.e.executions.FindFiles(ctx, executions.FileFilter(f))
	return mapped(list, foundFile), err
}

func foundFile(f executions.FoundFile) FoundFile { return FoundFile(f) }
