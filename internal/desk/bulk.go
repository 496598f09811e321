package desk

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

// An Action is what is done to each execution of a [Bulk].
type Action string

// The actions.
const (
	Resume  Action = "resume"  // paused and failed executions, and those with a pending pause
	Cancel  Action = "cancel"  // executions that are not completed or cancelled
	Pause   Action = "pause"   // queued and running executions
	Release Action = "release" // created executions
	Rerun   Action = "rerun"   // starts completed, failed and cancelled executions again
)

// actions are the states, as people see them, in which an action can be possible: those
// that a filter without states means. A rerun is possible in every state.
var actions = map[Action][]string{
	Resume:  {"failed", "paused", "pausing"},
	Cancel:  {"created", "failed", "paused", "queued", "running"},
	Pause:   {"queued", "running"},
	Release: {"created"},
	Rerun:   {"cancelled", "completed", "failed"},
}

// A Bulk is an action on many executions: those of a filter, or those with the given ids.
type Bulk struct {
	Action Action
	Where  filter.Filter
	IDs    []courier.ExecutionID
	By     courier.By // in the audit of each; of a rerun the actor, and the reason is in the log of the engine
	// Key identifies the bulk, and is needed for a rerun: with the same key no execution is
	// started again twice. It has 1 to 100 characters.
	Key string
	// DryRun does nothing. It counts what the filter selects, up to 10,000.
	DryRun bool
	// labels replace those of an execution that is started again.
	labels map[string]string
	// Cursor is the Next of the outcome before, empty at first.
	Cursor string

	visitor string // the ID, for the keys of reruns
	charge  func(ctx context.Context, x *courier.Execution, o *courier.EnqueueOptions) error
}

// keyOf is the idempotency key of the rerun of an execution: nobody is answered with what
// somebody else has started by the same key.
func (b *Bulk) keyOf(id courier.ExecutionID) string {
	return "bulk/" + url.PathEscape(b.visitor) + "/" + b.Key + "/" + string(id)
}

// An Outcome is what came of a [Bulk], of at most 500 executions. The first call fixes
// the newest execution: those that are created later are not in it.
type Outcome struct {
	Action  Action                `json:"action"`
	DryRun  bool                  `json:"dry_run,omitempty"`
	Matched int                   `json:"matched"`        // executions that were selected in this call
	More    bool                  `json:"more,omitempty"` // there may be more
	Sample  []courier.ExecutionID `json:"sample,omitempty"`
	Results []Result              `json:"results"` // one for each, the newest first; none of a dry run
	Done    int                   `json:"done"`
	Refused int                   `json:"refused"`
	Skipped int                   `json:"skipped"`
	// Next is the cursor with which the bulk goes on; empty if it is complete. After a dry
	// run it is the cursor with which the same bulk begins at the newest execution that was
	// counted. A call with a cursor can be repeated: what it has treated is in another state
	// by then, and no rerun starts twice.
	Next string `json:"next,omitempty"`
	Text string `json:"text"` // the outcome as a sentence
}

// A Result is what came of one execution.
type Result struct {
	Execution courier.ExecutionID `json:"execution_id"`
	Result    string              `json:"result"`          // done, refused or skipped
	Error     string              `json:"error,omitempty"` // why it was refused or skipped
	// Started is the execution that a rerun has started.
	Started courier.ExecutionID `json:"started_id,omitempty"`
}

// The results. Skipped are executions that the filter selected, and whose state has changed
// since, or that were removed.
const (
	Done    = "done"
	Refused = "refused"
	Skipped = "skipped"
)

// How much a dry run counts, and how much of it it names.
const (
	maxCount   = 10_000
	maxSample  = 10
	maxBulkIDs = 10_000
)

// Bulk carries out an action on up to 500 executions, the newest first; the outcome says
// how it goes on. If ctx ends, or the store fails, Bulk stops between two executions and
// returns the error with the outcome so far, whose Next begins with the execution that was
// not treated.
func (d *Desk) Bulk(ctx context.Context, b Bulk) (Outcome, error) {
	return d.bulk(ctx, b, nil)
}

// Bulk is [Desk.Bulk] of the executions of the jobs for which the visitor has the rights, and
// whose conditions are about what it may see.
func (v *Visit) Bulk(ctx context.Context, b Bulk) (Outcome, error) {
	b.By, b.labels, b.visitor = v.By(b.By.Reason), v.Labels(), v.ID
	b.charge = v.chargeRerun
	may, err := v.mayAsk(ctx, &b.Where)
	if err != nil {
		return Outcome{Action: b.Action, DryRun: b.DryRun, Results: []Result{}}, err
	}
	need := NeedOf("bulk").Rights
	if b.Action == Rerun {
		need = NeedOf("rerunExecution").Rights
	}
	if !v.Can(ctx, "", need) {
		may = may.and(func(x *courier.Execution) bool { return v.Can(ctx, x.Job, need) })
	}
	r, err := v.reach(ctx, &b.Where, Need{Rights: need}, may)
	if err != nil {
		return Outcome{Action: b.Action, DryRun: b.DryRun, Results: []Result{}}, err
	}
	return v.d.bulk(ctx, b, r)
}

// chargeRerun is [Visit.Charge] for the rerun of an execution, of which the id alone may be
// known.
func (v *Visit) chargeRerun(ctx context.Context, x *courier.Execution, o *courier.EnqueueOptions) error {
	job := x.Job
	if job == "" {
		given, err := v.d.e.Executions().Get(ctx, x.ID)
		if err != nil {
			return err
		}
		job = given.Job
	}
	return v.Charge(ctx, job, o)
}

func (d *Desk) bulk(ctx context.Context, b Bulk, reach *reach) (Outcome, error) {
	out := Outcome{Action: b.Action, DryRun: b.DryRun, Results: []Result{}}
	if err := b.check(); err != nil {
		return out, err
	}
	cursors := b.cursors()
	before, err := cursors.Read(b.Cursor)
	if err == nil && before == "" {
		err = d.known(ctx, &b.Where)
	}
	if err != nil {
		return out, fmt.Errorf("bulk %s: %w", b.Action, err)
	}
	if len(b.Where.States) == 0 && len(b.IDs) == 0 && b.Where.Ended.IsZero() {
		b.Where.States = actions[b.Action]
	}
	if b.DryRun {
		err := d.count(ctx, &b, before, reach, &out)
		out.Next = ""
		if len(out.Sample) > 0 {
			out.Next = cursors.Write(filter.After(out.Sample[0]))
		}
		out.Text = out.text()
		return out, err
	}
	list, next, err := d.selected(ctx, &b, before, pageSize, reach)
	if err != nil {
		return out, fmt.Errorf("bulk %s: %w", b.Action, err)
	}
	out.Matched, out.More, out.Next = len(list), next != "", cursors.Write(next)
	for i := range list {
		r, err := d.do(ctx, &b, &list[i], reach)
		if err != nil {
			out.More, out.Next = true, cursors.Write(filter.After(list[i].ID))
			out.Text = out.text()
			return out, fmt.Errorf("bulk %s: stopped before execution %s, after %d of %d: %w", b.Action, list[i].ID, i, len(list), err)
		}
		out.Results = append(out.Results, r)
		switch r.Result {
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

// cursors are those of the bulk.
func (b *Bulk) cursors() filter.Cursors {
	return filter.CursorsOf(fmt.Sprintf("bulk %s %q %q", b.Action, b.Key, b.IDs), b.Where)
}

// check returns all that is wrong with a bulk.
func (b *Bulk) check() error {
	var problems []string
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	possible, ok := actions[b.Action]
	if !ok {
		problem("there is no action %q; %s", b.Action, nearest.DidYouMean(string(b.Action), slices.Sorted(maps.Keys(actions))))
	}
	switch {
	case b.Where.Empty() && len(b.IDs) == 0:
		problem("it says of nothing what it is about: give ids or a filter, such as state:failed")
	case !b.Where.Empty() && len(b.IDs) > 0:
		problem("give ids or a filter, not both")
	case len(b.IDs) > maxBulkIDs:
		problem("%d ids, %d at most", len(b.IDs), maxBulkIDs)
	}
	for _, id := range b.IDs {
		if !filter.IsID(string(id)) && len(problems) < 20 {
			problem("%q is no id of an execution", id)
		}
	}
	problems = append(problems, b.Where.Problems()...)
	for _, s := range b.states() {
		if fits := slices.Contains(possible, s) || slices.Contains(possible, string(filter.State(s))); ok && !fits && b.Action != Rerun {
			problem("a %s is not possible in state:%s, only in %s", b.Action, s, strings.Join(possible, ", "))
		}
	}
	if n := len(b.Key); b.Action == Rerun && !b.DryRun && (n == 0 || n > 100) {
		problem("a rerun needs a key of 1 to 100 characters, so that a repetition starts nothing twice")
	}
	if len(problems) > 0 {
		return courier.Errorf(courier.ErrInvalid, "bulk %s: %s", b.Action, strings.Join(problems, "; "))
	}
	return nil
}

// states are the states that the filter names.
func (b *Bulk) states() []string {
	if len(b.Where.States) == 0 && !b.Where.Ended.IsZero() {
		return []string{"failed", "cancelled"}
	}
	return b.Where.States
}

// selected returns a page of the executions of a bulk. Of those that are given by their
// ids it has the ids only.
func (d *Desk) selected(ctx context.Context, b *Bulk, before courier.ExecutionID, limit int, reach *reach) (list []courier.Execution, next courier.ExecutionID, err error) {
	if len(b.IDs) == 0 {
		return d.walk(ctx, &b.Where, before, limit, reach)
	}
	ids := slices.Clone(b.IDs)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	slices.Reverse(ids)
	for _, id := range ids {
		if before != "" && id >= before {
			continue
		}
		if len(list) == limit {
			return list, list[limit-1].ID, nil
		}
		list = append(list, courier.Execution{ID: id})
	}
	return list, "", nil
}

// count counts what a bulk selects.
func (d *Desk) count(ctx context.Context, b *Bulk, before courier.ExecutionID, reach *reach, out *Outcome) error {
	for out.Matched < maxCount {
		list, next, err := d.selected(ctx, b, before, pageSize, reach)
		if err != nil {
			return fmt.Errorf("bulk %s: %w", b.Action, err)
		}
		for i := range list[:min(len(list), maxSample-len(out.Sample))] {
			out.Sample = append(out.Sample, list[i].ID)
		}
		out.Matched += len(list)
		out.More = next != ""
		if before = next; next == "" || len(list) < pageSize {
			return nil // it was complete, or has examined all that one call may
		}
	}
	return nil
}

// do carries out the action on one execution. The error is one after which the others
// can't be treated either.
func (d *Desk) do(ctx context.Context, b *Bulk, x *courier.Execution, reach *reach) (Result, error) {
	r := Result{Execution: x.ID, Result: Done}
	if err := ctx.Err(); err != nil {
		return r, err
	}
	if x.State == "" && reach != nil && reach.may != nil {
		given, err := d.e.Executions().Get(ctx, x.ID)
		if err != nil && !errors.Is(err, courier.ErrNotFound) {
			return r, err
		} else if err != nil || !reach.may(&given) {
			r.Result, r.Error = Refused, errUnknown.Error()
			return r, nil
		}
	}
	var err error
	switch b.Action {
	case Resume:
		_, err = d.e.Resume(ctx, x.ID, &courier.ResumeOptions{By: b.By})
	case Cancel:
		_, err = d.e.Cancel(ctx, x.ID, b.By)
	case Pause:
		_, err = d.e.Pause(ctx, x.ID, b.By)
	case Release:
		_, err = d.e.Release(ctx, x.ID, b.By)
	case Rerun:
		var n courier.Execution
		var opt courier.EnqueueOptions
		if b.charge != nil {
			err = b.charge(ctx, x, &opt)
		}
		if err == nil {
			n, err = d.e.Rerun(ctx, x.ID, &engine.RerunOptions{By: b.By, Labels: b.labels, IdempotencyKey: b.keyOf(x.ID), LimitKeys: opt.LimitKeys})
		}
		r.Started = n.ID
	}
	if err == nil {
		return r, nil
	}
	r.Result, r.Error, r.Started = Refused, err.Error(), ""
	moved, isTransition := errors.AsType[*courier.TransitionError](err)
	_, tooMany := errors.AsType[*TooManyError](err)
	_, isDependency := errors.AsType[*courier.DependencyError](err)
	switch {
	case x.State != "" && (isTransition && moved.From != x.State || errors.Is(err, courier.ErrNotFound)):
		r.Result = Skipped
	case isTransition, isDependency, tooMany, errors.Is(err, courier.ErrNotFound), errors.Is(err, courier.ErrInvalid), errors.Is(err, courier.ErrConflict):
	default:
		return r, err
	}
	return r, nil
}

// text says what came of a bulk.
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
