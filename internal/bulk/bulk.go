// Package bulk carries out one action on many executions: it resumes, cancels, pauses, releases
// or reruns the executions of a filter, or those with given ids. A call of [Do] handles up to 500
// of them, the newest first, and returns a result for each. A cursor says where the next call
// continues, so nothing is kept between two calls. A [Caller] says which executions may be
// handled.
package bulk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/internal/nearest"
)

// An Action is what is done to each execution of a [Request].
type Action string

// The actions.
const (
	Resume  Action = "resume"  // paused and failed executions, and those with a pending pause
	Cancel  Action = "cancel"  // executions that are not completed or cancelled
	Pause   Action = "pause"   // queued and running executions
	Release Action = "release" // created executions
	Rerun   Action = "rerun"   // starts completed, failed and cancelled executions again
)

// actions are the states, as people see them, in which an action may be possible. A filter
// without states selects these. A rerun is possible in every state.
var actions = map[Action][]string{
	Resume:  {"failed", "paused", "pausing"},
	Cancel:  {"created", "failed", "paused", "queued", "running"},
	Pause:   {"queued", "running"},
	Release: {"created"},
	Rerun:   {"cancelled", "completed", "failed"},
}

// A Request is an action on many executions: those of a filter, or those with the given ids.
type Request struct {
	Action Action
	Where  filter.Filter
	IDs    []courier.ExecutionID // at most 10,000
	By     courier.By            // for the audit of each; for a rerun the audit has only the actor, and the engine's log has the reason
	// Key identifies the request. It is required for a rerun: with the same key and caller no
	// execution is started again twice. It has 1 to 100 characters.
	Key string
	// WithoutFinally makes a cancel skip the finally parts of the jobs, or end them.
	WithoutFinally bool
	// DryRun only counts the executions that the filter selects, up to 10,000.
	DryRun bool
	// Cursor is the Next of the previous outcome; empty for the first call.
	Cursor string
}

// An Outcome is the result of a call of [Do], for at most 500 executions. The first call fixes
// the newest execution: executions that are created later are not included.
type Outcome struct {
	Action  Action                `json:"action"`
	DryRun  bool                  `json:"dry_run,omitempty"`
	Matched int                   `json:"matched"`        // executions that were selected in this call
	More    bool                  `json:"more,omitempty"` // there may be more
	Sample  []courier.ExecutionID `json:"sample,omitempty"`
	Results []Result              `json:"results"` // one for each, the newest first; none for a dry run
	Done    int                   `json:"done"`
	Refused int                   `json:"refused"`
	Skipped int                   `json:"skipped"`
	// Next is the cursor with which the request continues; empty if it is complete. After a dry
	// run it is the cursor with which the same request begins at the newest execution that was
	// counted. A call with a cursor can be repeated: the executions that it has handled are then
	// in another state, and no rerun starts twice.
	Next string `json:"next,omitempty"`
	Text string `json:"text"` // the outcome as a sentence
}

// A Result is the result of one execution.
type Result struct {
	Execution courier.ExecutionID `json:"execution_id"`
	Result    string              `json:"result"`          // done, refused or skipped
	Error     string              `json:"error,omitempty"` // why it was refused or skipped
	// Started is the execution that a rerun has started.
	Started courier.ExecutionID `json:"started_id,omitempty"`
}

// The results. Skipped executions were selected by the filter, but have changed their state
// since, or were removed.
const (
	Done    = "done"
	Refused = "refused"
	Skipped = "skipped"
)

const (
	maxTreated = 500    // executions that one call handles
	maxCount   = 10_000 // executions that a dry run counts
	maxSample  = 10     // executions that a dry run names
	maxIDs     = 10_000 // of a request
)

// An Engine carries out the actions; *[engine.Engine] is one. If the state of the execution does
// not allow the action, the error is a *[courier.TransitionError].
type Engine interface {
	// Resume continues a paused or failed execution.
	Resume(ctx context.Context, id courier.ExecutionID, opt *courier.ResumeOptions) (courier.Execution, error)
	// Cancel ends an execution for good.
	Cancel(ctx context.Context, id courier.ExecutionID, opt *courier.CancelOptions) (courier.Execution, error)
	// Pause keeps a queued execution from starting, and stops a running one before its next step.
	Pause(ctx context.Context, id courier.ExecutionID, by courier.By) (courier.Execution, error)
	// Release allows a held execution to start.
	Release(ctx context.Context, id courier.ExecutionID, by courier.By) (courier.Execution, error)
	// Rerun starts an execution again as a new one, and returns the new one. If the idempotency
	// key was used before, it starts nothing and returns the execution that was started then.
	Rerun(ctx context.Context, id courier.ExecutionID, opt *engine.RerunOptions) (courier.Execution, error)
}

// A Caller is the principal for whom a request is carried out. Errors of May and Charge that
// match [courier.ErrNotFound], [courier.ErrInvalid] or [courier.ErrConflict] refuse one
// execution; all other errors end the call.
type Caller struct {
	// ID is part of the idempotency keys of reruns, so that nobody gets an execution that another
	// caller has started with the same key.
	ID string
	// Labels replace the labels of an execution that is started again.
	Labels map[string]string
	// Find returns up to limit executions that a filter selects and that the caller may handle,
	// the newest first. Their ids are lower than before, unless that is empty. Next is the id
	// before which the next page begins; empty if there is none. A page can have fewer executions
	// than the limit and still have a next page: the call stops when it has examined enough.
	Find func(ctx context.Context, w *filter.Filter, before courier.ExecutionID, limit int) (list []courier.Execution, next courier.ExecutionID, err error)
	// May returns an error if the caller may not handle an execution that is given by its id. Nil
	// means that it may handle all.
	May func(ctx context.Context, id courier.ExecutionID) error
	// Charge returns the keys of the limits to which a rerun of an execution counts. Nil means
	// none. If the execution is given by its id, only the id is known.
	Charge func(ctx context.Context, x *courier.Execution) (limitKeys []string, err error)
}

// Do carries out an action on up to 500 executions, the newest first. The outcome says where the
// next call continues. An invalid request is refused with an error that lists all problems and
// matches [courier.ErrInvalid]. If ctx ends, or the store fails, Do stops between two executions
// and returns the error with the outcome so far, whose Next begins with the first execution that
// was not handled.
func Do(ctx context.Context, e Engine, who Caller, r Request) (Outcome, error) {
	out := Outcome{Action: r.Action, DryRun: r.DryRun, Results: []Result{}}
	if err := r.check(); err != nil {
		return out, err
	}
	fail := func(err error) (Outcome, error) { return out, fmt.Errorf("bulk %s: %w", r.Action, err) }
	cursors := r.cursors()
	before, err := cursors.Read(r.Cursor)
	if err != nil {
		return fail(err)
	}
	if len(r.Where.States) == 0 && len(r.IDs) == 0 && r.Where.Ended.IsZero() {
		r.Where.States = actions[r.Action]
	}
	if r.DryRun {
		if err := who.count(ctx, &r, before, &out); err != nil {
			return fail(err)
		}
		if len(out.Sample) > 0 {
			out.Next = cursors.Write(filter.After(out.Sample[0]))
		}
		out.Text = out.text()
		return out, nil
	}
	list, next, err := who.selected(ctx, &r, before)
	if err != nil {
		return fail(err)
	}
	out.Matched, out.More, out.Next = len(list), next != "", cursors.Write(next)
	for i := range list {
		result, err := who.treat(ctx, e, &r, &list[i])
		if err != nil {
			out.More, out.Next = true, cursors.Write(filter.After(list[i].ID))
			out.Text = out.text()
			return fail(fmt.Errorf("stopped before execution %s, after %d of %d: %w", list[i].ID, i, len(list), err))
		}
		out.Results = append(out.Results, result)
		switch result.Result {
		case Done:
			out.Done++
		case Refused:
			out.Refused++
		default:
			out.Skipped++
		}
	}
	out.Text = out.text()
	return out, nil
}

// cursors returns the cursors of the request.
func (r *Request) cursors() filter.Cursors {
	return filter.CursorsOf(fmt.Sprintf("bulk %s %q %q", r.Action, r.Key, r.IDs), r.Where)
}

// check returns all problems of a request.
func (r *Request) check() error {
	var problems []string
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	possible, ok := actions[r.Action]
	if !ok {
		problem("there is no action %q; %s", r.Action, nearest.DidYouMean(string(r.Action), slices.Sorted(maps.Keys(actions))))
	}
	switch {
	case r.Where.Empty() && len(r.IDs) == 0:
		problem("it says of nothing what it is about: give ids or a filter, such as state:failed")
	case !r.Where.Empty() && len(r.IDs) > 0:
		problem("give ids or a filter, not both")
	case len(r.IDs) > maxIDs:
		problem("%d ids, %d at most", len(r.IDs), maxIDs)
	}
	for _, id := range r.IDs {
		if !filter.IsID(string(id)) && len(problems) < 20 {
			problem("%q is not the id of an execution", id)
		}
	}
	problems = append(problems, r.Where.Problems()...)
	for _, s := range r.states() {
		if fits := slices.Contains(possible, s) || slices.Contains(possible, string(filter.State(s))); ok && !fits && r.Action != Rerun {
			problem("a %s is not possible in state:%s, only in %s", r.Action, s, strings.Join(possible, ", "))
		}
	}
	if r.WithoutFinally && r.Action != Cancel {
		problem("without_finally goes with a cancel, and not with a %s", r.Action)
	}
	if n := len(r.Key); r.Action == Rerun && !r.DryRun && (n == 0 || n > 100) {
		problem("a rerun needs a key of 1 to 100 characters, so that a repetition starts nothing twice")
	}
	if len(problems) > 0 {
		return courier.Errorf(courier.ErrInvalid, "bulk %s: %s", r.Action, strings.Join(problems, "; "))
	}
	return nil
}

// states returns the states that the filter names.
func (r *Request) states() []string {
	if len(r.Where.States) == 0 && !r.Where.Ended.IsZero() {
		return []string{"failed", "cancelled"}
	}
	return r.Where.States
}

// selected returns a page of the executions of a request. If they are given by their ids, it has
// only the ids.
func (who *Caller) selected(ctx context.Context, r *Request, before courier.ExecutionID) (list []courier.Execution, next courier.ExecutionID, err error) {
	if len(r.IDs) == 0 {
		return who.Find(ctx, &r.Where, before, maxTreated)
	}
	ids := slices.Clone(r.IDs)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	slices.Reverse(ids)
	for _, id := range ids {
		if before != "" && id >= before {
			continue
		}
		if len(list) == maxTreated {
			return list, list[maxTreated-1].ID, nil
		}
		list = append(list, courier.Execution{ID: id})
	}
	return list, "", nil
}

// count counts the executions that a request selects.
func (who *Caller) count(ctx context.Context, r *Request, before courier.ExecutionID, out *Outcome) error {
	for out.Matched < maxCount {
		list, next, err := who.selected(ctx, r, before)
		if err != nil {
			return err
		}
		for i := range list[:min(len(list), maxSample-len(out.Sample))] {
			out.Sample = append(out.Sample, list[i].ID)
		}
		out.Matched += len(list)
		out.More = next != ""
		if before = next; next == "" || len(list) < maxTreated {
			return nil // it was complete, or has examined all that one call may
		}
	}
	return nil
}

// treat carries out the action on one execution. It returns an error only if the other executions
// can't be handled either.
func (who *Caller) treat(ctx context.Context, e Engine, r *Request, x *courier.Execution) (Result, error) {
	result := Result{Execution: x.ID, Result: Done}
	if err := ctx.Err(); err != nil {
		return result, err
	}
	started, err := who.act(ctx, e, r, x)
	if err == nil {
		result.Started = started
		return result, nil
	}
	result.Result, result.Error = Refused, err.Error()
	moved, isTransition := errors.AsType[*courier.TransitionError](err)
	_, isDependency := errors.AsType[*courier.DependencyError](err)
	switch {
	case x.State != "" && (isTransition && moved.From != x.State || errors.Is(err, courier.ErrNotFound)):
		result.Result = Skipped
	case isTransition, isDependency, errors.Is(err, courier.ErrNotFound), errors.Is(err, courier.ErrInvalid), errors.Is(err, courier.ErrConflict):
	default:
		return result, err
	}
	return result, nil
}

// act calls the engine for the action, if the caller may do it with the execution. It returns the
// execution that a rerun has started.
func (who *Caller) act(ctx context.Context, e Engine, r *Request, x *courier.Execution) (started courier.ExecutionID, err error) {
	if len(r.IDs) > 0 && who.May != nil {
		if err := who.May(ctx, x.ID); err != nil {
			return "", err
		}
	}
	switch r.Action {
	case Resume:
		_, err = e.Resume(ctx, x.ID, &courier.ResumeOptions{By: r.By})
	case Cancel:
		_, err = e.Cancel(ctx, x.ID, &courier.CancelOptions{By: r.By, WithoutFinally: r.WithoutFinally})
	case Pause:
		_, err = e.Pause(ctx, x.ID, r.By)
	case Release:
		_, err = e.Release(ctx, x.ID, r.By)
	case Rerun:
		return who.rerun(ctx, e, r, x)
	}
	return "", err
}

// rerun starts an execution again. It does so only once, however often the request is repeated.
func (who *Caller) rerun(ctx context.Context, e Engine, r *Request, x *courier.Execution) (started courier.ExecutionID, err error) {
	opt := engine.RerunOptions{By: r.By, Labels: who.Labels, IdempotencyKey: "bulk/" + url.PathEscape(who.ID) + "/" + r.Key + "/" + string(x.ID)}
	if who.Charge != nil {
		if opt.LimitKeys, err = who.Charge(ctx, x); err != nil {
			return "", err
		}
	}
	n, err := e.Rerun(ctx, x.ID, &opt)
	return n.ID, err
}

// text returns the result of a request as a sentence.
func (o *Outcome) text() string {
	more := ""
	if o.More {
		more = " There may be more."
	}
	switch {
	case o.Matched == 0 && !o.More:
		return fmt.Sprintf("Bulk %s: no execution is selected, nothing was done.", o.Action)
	case o.DryRun:
		n := fmt.Sprint(o.Matched)
		if o.More {
			n += " or more"
		}
		return fmt.Sprintf("Bulk %s: it would treat %s executions. Nothing was done.", o.Action, n)
	}
	return fmt.Sprintf("Bulk %s: %d done, %d refused, %d skipped.%s", o.Action, o.Done, o.Refused, o.Skipped, more)
}
