package store

import (
	"fmt"
	"time"

	"github.com/courierhq/courier"
)

// A Request is an operator's request to an execution.
type Request struct {
	Execution courier.ExecutionID
	Kind      courier.RequestKind
	By        string
	// Reason is kept with a pending request, and is the Error of the audit entry of the
	// change of state, whether the store makes it at once or the worker later. It may be
	// empty.
	Reason string
	// Files are, for a discard, the names that were shown to the actor. They must be all
	// names in the execution's OnlyCopies.Files.
	Files []string
	// Found is the engine's report for [RequestFound]; nil for other requests.
	Found *Found
	// Change is the change that a resume makes in addition to the state; nil if none.
	Change *Change
}

// A Change is what a resume changes in an execution besides its state, in the same
// write. It is for a paused or failed execution.
type Change struct {
	// Seq is the number of the last audit entry of the execution for which the change was
	// planned. If the execution has a later entry, nothing is written, and the error is
	// [Change.Outdated], which matches [courier.ErrConflict].
	Seq int64
	// Version pins another version of the job; nil leaves it. If there is no such
	// version, nothing is written, and the error is ErrNotFound.
	Version *PinnedVersion
	// Move says where the execution continues; nil leaves its position and its counters
	// of attempts.
	Move *Move
	// Items replaces the counts of failed items; nil leaves them.
	Items *ItemCount
	// Repairs replaces the Repairs of the execution; nil leaves them, and an empty value
	// removes them. A store may remove white space in the values.
	Repairs *courier.Repairs
	// Delay is the time, from now, until the execution is due; 0 means at once.
	Delay time.Duration
	// Elsewhere clears Workspace, DiskBytes and OnlyCopies of the execution: its files are lost,
	// and any worker can claim it.
	Elsewhere bool
	// Skipped is the record of the step that is skipped; nil if there is none. Its audit
	// entry, from pending to skipped, comes before that of the resume. The store sets its
	// Execution, Seq, ExecutionAttempt, StartedAt and EndedAt; it names no worker. The
	// execution must have been started.
	Skipped *courier.StepExecution
	// Note describes the change for the audit. The Error of the entry consists of Reason
	// and Note; see [Request.Text].
	Note string
}

// A Move is the position at which an execution continues.
type Move struct {
	Position courier.Position
	Attempts int // what Counters.Attempts becomes
	Base     int // what Counters.Base becomes
}

// An ItemCount has the counts of failed items after a change.
type ItemCount struct {
	Failed   int // what Execution.FailedItems becomes
	Accepted int // what Counters.AcceptedItems becomes
	// Rescued has the new counters of rescues; nil leaves them.
	Rescued *RescueCount
	Target  int // what Counters.Target becomes
}

// A RescueCount has the counts of rescues after a change.
type RescueCount struct {
	Items int  // what Counters.RescuedItems becomes
	Fails bool // what Counters.RescueFails becomes
}

// Counters returns the counters of an execution after a resume with the change, given
// the counters before and the state from which it is resumed. A nil change is a plain
// resume.
func (c *Change) Counters(old Counters, from courier.State) Counters {
	now := old.AfterResume(from)
	if c == nil {
		return now
	}
	if m := c.Move; m != nil {
		now.Attempts, now.Interrupted, now.Base = m.Attempts, false, m.Base
	}
	if n := c.Items; n != nil {
		now.AcceptedItems, now.Target = n.Accepted, n.Target
		if c := n.Rescued; c != nil {
			now.RescuedItems, now.RescueFails = c.Items, c.Fails
		}
	}
	return now
}

// A PinnedVersion is a version of the job of an execution, with what the store keeps of
// a version for claims; see [NewExecution].
type PinnedVersion struct {
	Version   int
	StepTypes []string
	JobLimit  int
}

// Outdated returns the error of a change that was planned for an earlier state of an
// execution. The last audit entry of the execution is now seq.
func (c *Change) Outdated(id courier.ExecutionID, seq int64) error {
	return courier.Errorf(courier.ErrConflict, "execution %s has changed meanwhile (audit entry %d, expected %d); nothing was changed: read it again", id, seq, c.Seq)
}

// The kinds of requests about the files of an execution that has ended for good; see
// [Request.OfKept].
const (
	RequestDiscard courier.RequestKind = "discard" // remove the files that it keeps
	RequestFound   courier.RequestKind = "found"   // an engine's: this is in its workspace
)

// Found is a report of an engine about the workspace of an execution that has ended for good.
type Found struct {
	// Workspace is the id of the engine's workspace. The execution must have no workspace, or
	// this one, or no files in its own, because it had begun again elsewhere.
	Workspace  string
	OnlyCopies courier.OnlyCopies
	// Discarded says that the engine has carried out the pending discard. If it is false,
	// no discard may be pending.
	Discarded bool
	// Note is what the engine has done, for the audit; empty means no entry.
	Note string
}

// OfKept reports whether the request is about kept files. Such a request does not change
// the state; the store writes the result of [Request.Kept].
func (r *Request) OfKept() bool {
	return r.Kind == RequestDiscard || r.Kind == RequestFound
}

// A Kept is the effect of a request about kept files on an execution. A pending request has
// the actor and the reason of the request. The audit entry has the same state in From and
// To.
type Kept struct {
	Pending    courier.RequestKind
	Workspace  string
	OnlyCopies *courier.OnlyCopies
	By, Text   string // of the audit entry; none if Text is empty
}

// Kept returns the effect of a request about kept files on an execution, or the error with
// which it is refused. A file whose name was not shown is never discarded.
func (r *Request) Kept(e *courier.Execution) (Kept, error) {
	refused := func(format string, args ...any) (Kept, error) {
		return Kept{}, courier.Errorf(courier.ErrConflict, "its kept files were not changed: %s", fmt.Sprintf(format, args...))
	}
	if !e.State.Final() {
		return refused("it is %s, and keeps its workspace anyway; cancel it first", e.State)
	}
	if f := r.Found; r.Kind == RequestFound {
		switch {
		case f == nil:
			return Kept{}, courier.Errorf(courier.ErrInvalid, "the report about its kept files is missing")
		case e.Workspace != "" && e.Workspace != f.Workspace && e.OnlyCopies != nil && e.OnlyCopies.Any():
			return refused("they are in the workspace %q, not in %q", e.Workspace, f.Workspace)
		case f.Discarded != (e.Request == RequestDiscard):
			return refused("the request is %q", e.Request)
		}
		k := Kept{Workspace: f.Workspace, OnlyCopies: &f.OnlyCopies, Text: f.Note}
		if f.Discarded {
			k.By = e.RequestedBy
		}
		return k, nil
	}
	c := e.OnlyCopies
	switch {
	case r.By == "" || r.Reason == "":
		return Kept{}, courier.Errorf(courier.ErrInvalid, "its kept files were not changed: a discard needs an actor and a reason")
	case c == nil || !c.Any():
		return refused("it keeps none")
	case e.Request != "":
		return refused("%s has asked for that already", e.RequestedBy)
	case len(c.Files) == 0:
		return refused("their names are not known (%s), so they can't have been shown; the engine with the workspace %q looks again each hour, and notes when they were removed by hand", c.Problem, e.Workspace)
	case !named(c, r.Files):
		return refused("they are not those that were shown; look at them again")
	}
	return Kept{
		Pending: r.Kind, Workspace: e.Workspace, OnlyCopies: c, By: r.By,
		Text: fmt.Sprintf("discard %d kept files: %s", len(c.Files), r.Reason),
	}, nil
}

// DropsProgress reports whether a request that moves an execution to another state at once
// removes its [Progress].
func (r *Request) DropsProgress(to courier.State) bool {
	return r.Change != nil || r.Kind == courier.RequestRestart || to.Ended()
}

// Text returns the text of the request in the audit.
func (r *Request) Text() string {
	switch {
	case r.Change == nil || r.Change.Note == "":
		return r.Reason
	case r.Reason == "":
		return r.Change.Note
	}
	return r.Reason + " (" + r.Change.Note + ")"
}

// Decide returns the effect of the request on an execution, as the function [Decide]
// does, or the reason why its Change can't be made: for anything but a resume the
// error is ErrInvalid; if the execution has changed, it is [Change.Outdated]; in any
// state but paused and failed it is a *[courier.TransitionError]. The store itself
// checks that the version exists.
func (r *Request) Decide(e *courier.Execution, expired bool) (Decision, error) {
	c := r.Change
	if c != nil {
		if err := r.checkChange(); err != nil {
			return Decision{}, err
		}
		if c.Seq != e.Seq {
			return Decision{}, c.Outdated(e.ID, e.Seq)
		}
	}
	d, err := Decide(e, expired, r.Kind)
	if err == nil && c != nil && d.To == "" {
		err = &courier.TransitionError{Execution: e.ID, From: e.State, To: courier.Queued}
	}
	if err != nil {
		return Decision{}, err
	}
	return d, nil
}

// checkChange reports what is wrong with the change itself.
func (r *Request) checkChange() error {
	c := r.Change
	switch {
	case r.Kind != courier.RequestResume:
		return courier.Errorf(courier.ErrInvalid, "%s execution %s: only a resume can change an execution", r.Kind, r.Execution)
	case c.Skipped != nil && c.Skipped.State != courier.StepSkipped:
		return courier.Errorf(courier.ErrInvalid, "%s execution %s: step %d was skipped as %q", r.Kind, r.Execution, c.Skipped.Step, c.Skipped.State)
	case c.Delay < 0:
		return courier.Errorf(courier.ErrInvalid, "%s execution %s: the delay %v is negative", r.Kind, r.Execution, c.Delay)
	case c.Items != nil && c.Items.Failed < 0:
		return courier.Errorf(courier.ErrInvalid, "%s execution %s: %d failed items", r.Kind, r.Execution, c.Items.Failed)
	}
	return nil
}

// NextAttempt returns the counters with which the next attempt of an execution begins:
// no items have failed in it.
func (c Counters) NextAttempt() Counters {
	c.AcceptedItems, c.RescuedItems, c.RescueFails, c.Target = 0, 0, false, 0
	return c
}

// NextRepairs returns the repairs of an execution when its next attempt begins: all
// except the passes, and nil if there are no others.
func NextRepairs(r *courier.Repairs) *courier.Repairs {
	if r == nil {
		return nil
	}
	return RepairsOrNil(&courier.Repairs{Versions: r.Versions, Values: r.Values})
}

// SetVersions sets in each record the version of the job with which it was written, if
// the execution has had several versions.
func SetVersions(x *courier.Execution, list []courier.StepExecution) {
	if x.Repairs == nil || len(x.Repairs.Versions) == 0 {
		return
	}
	for i := range list {
		list[i].Version = x.Version
		for _, v := range x.Repairs.Versions {
			if list[i].Seq <= v.Seq {
				list[i].Version = v.From
				break
			}
		}
	}
}

// RepairsOrNil returns r, or nil if r is empty, as an execution has it.
func RepairsOrNil(r *courier.Repairs) *courier.Repairs {
	if r == nil || len(r.Versions) == 0 && len(r.Values) == 0 && len(r.Passes) == 0 {
		return nil
	}
	return r
}

// notListed is the problem of [LeftBehind].
const notListed = "the worker was lost before it could list them"

// LeftBehind returns the OnlyCopies that an execution has after a request has cancelled
// it: those that it had, or, if it has a workspace and they are not known, a value whose
// Problem says so.
func LeftBehind(e *courier.Execution) *courier.OnlyCopies {
	if e.OnlyCopies == nil && e.Workspace != "" {
		return &courier.OnlyCopies{Problem: notListed}
	}
	return e.OnlyCopies
}

// named reports whether the names are those of all the files that only copies name.
func named(c *courier.OnlyCopies, names []string) bool {
	shown := make(map[string]bool, len(names))
	for _, n := range names {
		shown[n] = true
	}
	for _, f := range c.Files {
		if !shown[f.Path] {
			return false
		}
		delete(shown, f.Path)
	}
	return len(shown) == 0
}
