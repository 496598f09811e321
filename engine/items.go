package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/repair"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/store"
)

// An endedItem is what a failure has come to: a rescue, or the end of the item of a loop.
type endedItem struct {
	loop, rescue *int     // both nil if it fails the execution
	labels       []string // of the items of the loops around the failure
	name         string   // of the item that has failed, for people; empty if it has none
	rescued      string   // the error whose rescue has failed; empty if none has
}

// mark marks the record of the failure.
func (f endedItem) mark(rec *courier.StepExecution) {
	rec.ItemLabels = f.labels[:min(len(f.labels), len(rec.Iteration))]
	rec.FailedLoop, rec.Rescue = f.loop, f.rescue
	rec.Error += f.rescueText()
	if f.name != "" {
		rec.Error = f.name + ": " + rec.Error
	}
}

// rescueText says what a rescue was for that has failed.
func (f endedItem) rescueText() string {
	if f.rescued == "" {
		return ""
	}
	return "; in the rescue for: " + f.rescued
}

// failItem begins the rescue that a failure of the class at a step comes to, or ends the
// present item of a loop as failed, if there is one around the step that goes on then.
func (r *run) failItem(step int, class courier.Reason) (endedItem, bool) {
	item := endedItem{labels: r.itemLabels()}
	if marker := r.program.Tree.InRescue(step); marker >= 0 {
		if e, ok := r.vals.Value(strconv.Itoa(marker), "error"); ok {
			item.rescued, _ = e.(map[string]any)["message"].(string)
		}
	}
	h, ok := r.program.Tree.Handler(step, class)
	if !ok || h.Rescue && !r.walk.CanRescue(h.Marker) {
		return item, false
	}
	r.stopsAt(step)
	if h.Rescue {
		item.rescue = &h.Marker
		r.walk.Rescue(h.Marker)
		r.checkpoint.Passed()
		r.countItems()
		return item, true
	}
	loop := h.Marker
	if label, index := r.program.Tree.NameOf(loop, item.labels, r.walk.Iteration()); label != strconv.Itoa(index) {
		item.name = courier.FormatItem(label, index)
	}
	item.loop = &loop
	r.walk.FailItem(loop)
	r.checkpoint.Passed()
	r.countItems()
	return item, true
}

// itemLabels are the labels of the present items of the open loops. That a label can't be
// made is logged once.
func (r *run) itemLabels() []string {
	labels, err := r.walk.Labels(r.secrets.Clean)
	if err != nil && !r.unlabelled {
		r.unlabelled = true
		r.log.Warn("name the item of a loop", "error", r.secrets.Message(err))
	}
	return labels
}

// failedAt returns the first items that have failed and were not repaired when the execution
// has come to a position, as events have them.
func (r *run) failedAt(pos courier.Position) []courier.ItemFailure {
	if r.checkpoint.Items == 0 || r.program == nil {
		return nil
	}
	x := r.x
	x.Position = pos
	h := &repair.History{Archive: r.e.store, Tree: r.program.Tree, Execution: &x}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.lease.Context()), repair.MaxReading)
	defer cancel()
	left, err := h.Failures(ctx)
	if err != nil {
		r.log.Error("read the failed items for an event", "error", r.secrets.Message(err))
	}
	return repair.ItemFailures(h.Tree, left, pos)
}

// countItems takes note of items that have failed or were rescued since it was last called.
// What fails in an item that is executed again was counted when it failed first.
func (r *run) countItems() {
	rescued, fails := r.walk.TakeRescued()
	r.checkpoint.RescuedItems += rescued
	r.checkpoint.RescueFails = r.checkpoint.RescueFails || fails
	if r.finish != nil {
		failed, accepted := r.walk.TakeFailures()
		r.checkpoint.FinallyItems += failed - accepted
		return
	}
	if failed, accepted := r.walk.TakeFailures(); r.checkpoint.Target == 0 {
		r.checkpoint.Items += failed
		r.checkpoint.AcceptedItems += accepted
	}
}

// ended takes note of an attempt that is over, until it is written.
func (r *run) ended(rec courier.StepExecution) {
	r.checkpoint.Add(rec)
	if rec.Rescue != nil {
		r.vals.SetError(&rec)
	}
	if rec.FailedLoop != nil && r.finish == nil {
		r.lastFailed = repair.ItemText(r.program.Tree, &rec)
	}
	if (rec.FailedLoop != nil || rec.Rescue != nil) && r.checkpoint.Target > 0 {
		r.earlier.Pass.Record(rec)
	}
}

// itemsFailure is the failure of the execution because of its failed items; nil if none has
// failed. What failed before this run is read.
func (r *run) itemsFailure() *courier.Failure {
	if r.checkpoint.Items > 0 && r.lastFailed == "" {
		left, err := r.earlier.History().Records(r.lease.Context())
		if err != nil {
			r.log.Error("read which item has failed last", "error", r.secrets.Message(err))
		}
		if len(left) > 0 {
			r.lastFailed = repair.ItemText(r.program.Tree, &left[len(left)-1])
		}
	}
	return repair.ItemsFailure(r.checkpoint.Items, r.checkpoint.Rejected(), r.lastFailed)
}

// complete ends the execution, as failed if items have failed that the job does not
// accept. It reports false if the execution goes on.
func (r *run) complete() bool {
	if r.finish != nil {
		return r.finallyOver()
	}
	r.countItems()
	if r.checkpoint.Rejected() > 0 {
		if r.beginRepair() {
			return r.checkpoint.Over() || !r.lease.Held()
		}
		return r.endFailed(r.itemsFailure(), r.walk.Position())
	}
	if r.checkpoint.RescueFails && r.checkpoint.Resumed != courier.Failed {
		return r.endFailed(repair.RescuedFailure(r.checkpoint.RescuedItems), r.walk.Position())
	}
	t := &store.Transition{To: courier.Completed, Position: r.walk.Position(), Failure: r.itemsFailure(), DiskBytes: r.diskBytes()}
	var why error
	if t.Result, why = r.program.Result(r.walk); why != nil {
		r.log.Warn("the execution completes without its result", "error", r.secrets.Clean(why.Error()))
	}
	r.slot.SetEnding(true)
	if !r.x.HasFinally {
		r.keepCopies(t)
	}
	err := r.conclude(t)
	switch {
	case err == nil && r.begun:
		r.slot.SetEnding(false)
	case err == nil:
		r.letGo(t.OnlyCopies)
	}
	if errors.Is(err, courier.ErrConflict) {
		r.slot.SetEnding(false)
		return false
	}
	return true
}

// settled reports whether an operator has accepted or skipped failed items.
func (r *run) settled() bool {
	return r.x.Repairs != nil && slices.ContainsFunc(r.x.Repairs.Passes, func(p courier.RepairPass) bool { return p.Settles() })
}

// leftBehind reports whether items or blocks that were rescued, and items that an operator has
// settled, have left files that nobody has delivered.
func (r *run) leftBehind() bool {
	return (r.program.Tree.HasRescues() || r.settled()) && r.e.work.Undelivered(r.x.ID)
}

// endFailed ends the execution as failed with the items. It reports false if an operator
// was faster.
func (r *run) endFailed(f *courier.Failure, pos courier.Position) bool {
	r.failedWith(&courier.StepError{Execution: r.x.ID, Job: r.x.Job, Step: f.Step, ID: f.ID, Type: f.Type, Reason: f.Reason, Err: errors.New(f.Message)})
	r.checkpoint.Target = 0
	err := r.conclude(&store.Transition{To: courier.Failed, Position: pos, Failure: f, DiskBytes: r.diskBytes()})
	return !errors.Is(err, courier.ErrConflict) || !r.lease.Held()
}

// loopFailed handles a loop of which too many items have failed: the item of a loop
// around it fails, or the execution.
func (r *run) loopFailed(e *flow.LoopError) bool {
	r.countItems()
	spec := r.program.Tree.Spec(e.Step)
	outer := len(r.program.Tree.Loops(e.Step))
	rec := courier.StepExecution{
		Step: e.Step, ID: spec.ID, Type: strings.ToLower(spec.Type), Attempt: 1, ExecutionAttempt: r.x.Attempt,
		State: courier.StepFailed, Reason: courier.ReasonItems, Error: e.Error(),
	}
	if outer > 0 {
		rec.Iteration, rec.Total = r.walk.Iteration()[:outer], r.walk.Total()[:outer]
	}
	at := r.walk.Position()
	item, goesOn := r.failItem(e.Step, courier.ReasonItems)
	item.mark(&rec)
	if goesOn {
		r.ended(rec)
		return true
	}
	if r.beginRepair() {
		return !r.checkpoint.Over() && r.lease.Held()
	}
	r.checkpoint.Add(rec)
	return !r.endFailed(&courier.Failure{
		Step: e.Step, ID: rec.ID, Type: rec.Type, Iteration: rec.Iteration, ItemLabels: rec.ItemLabels, Attempt: 1, Reason: courier.ReasonItems, Message: e.Error(),
	}, at)
}

// beginRepair executes the failed items again if an operator has resumed the execution
// after it had failed because of them. It reports false if that is not so.
func (r *run) beginRepair() bool {
	if r.checkpoint.Resumed != courier.Failed || r.checkpoint.Target > 0 {
		return false
	}
	repairs, err := r.earlier.Begin(r.lease.Context(), r.checkpoint.Seq(), r.walk.Position())
	if err != nil {
		r.log.Error("read the failed items", "error", r.secrets.Message(err))
	}
	if repairs == nil {
		return false
	}
	r.checkpoint.Repairs = repairs
	r.checkpoint.Base = int(r.checkpoint.Seq())
	r.goTo(0)
	return true
}

// itemRepaired takes note that the item that is executed again is over, and goes to the
// next one, or behind them all.
func (r *run) itemRepaired() bool {
	r.countItems()
	// What has ended is written first, since the values at the next item are read from
	// the store.
	if len(r.checkpoint.Ended()) > 0 {
		if r.apply(&store.Transition{To: courier.Running, Position: r.walk.Position()}) != nil {
			return false
		}
	}
	i := r.checkpoint.Target - 1
	next, over := r.earlier.Pass.Next(i)
	if over && !r.earlier.Pass.Failed(i) && r.earlier.Pass.Counted(i) {
		r.checkpoint.Items--
		if r.program.Tree.Accepts(r.earlier.Pass.Targets[i].Item.Loop) {
			r.checkpoint.AcceptedItems--
		}
	}
	return r.goTo(next)
}

// goTo goes to an item to execute it again, or behind all of them. It reports false if
// the execution has ended, because where it was to go can't be reached.
func (r *run) goTo(target int) bool {
	from, pos := r.walk.Position(), r.earlier.Pass.Position(target)
	r.checkpoint.Passed()
	if r.checkpoint.Target = target + 1; target == len(r.earlier.Pass.Targets) {
		r.checkpoint.Target = 0
	}
	r.walk.SetBound(-1)
	r.vals.Forget(0, r.program.Tree.Len()-1)
	err := r.earlier.Pass.History.ReadAndRestore(r.lease.Context(), r.vals, pos)
	if err == nil {
		err = r.walk.Seek(pos)
	}
	if err != nil {
		r.fail(&courier.StepError{Step: -1, Reason: courier.ReasonDefinition, Err: err}, from)
		return false
	}
	r.bindTarget()
	if r.checkpoint.Target > 0 {
		if f := &r.earlier.Pass.Targets[target]; f.Position.Step == f.Record.Step {
			r.checkpoint.Attempts = f.Record.Attempt
		}
	}
	return true
}

// loseItem ends the present item as failed after too many workers were lost in it. It
// returns false if no loop goes on then. At the end of a loop the item is over, so that
// only one around it can fail.
func (r *run) loseItem(lost *courier.StepExecution) bool {
	pos, iteration, total := r.walk.Position(), r.walk.Iteration(), r.walk.Total()
	attempt := max(1, r.checkpoint.Attempts)
	step := r.program.Tree.EndedLoop(pos.Step)
	item, ok := r.failItem(step, courier.ReasonWorkerLost)
	if !ok {
		return false
	}
	if lost == nil {
		spec := r.program.Tree.Spec(pos.Step)
		r.checkpoint.Add(courier.StepExecution{
			Step: pos.Step, ID: spec.ID, Type: strings.ToLower(spec.Type), Iteration: iteration, Total: total, Attempt: attempt,
			ExecutionAttempt: r.x.Attempt, State: courier.StepFailed, Reason: courier.ReasonWorkerLost,
			Error: fmt.Sprintf("%d workers were lost here, one after the other", maxReclaims),
		})
	}
	rec := r.checkpoint.TakeLast()
	item.mark(&rec)
	r.ended(rec)
	return true
}

// goBack takes note that all from a position on is executed again, because a loop starts
// again: items that failed there don't count any more. It returns the position.
func (r *run) goBack(from courier.Position) courier.Position {
	back, err := r.earlier.History().Back(r.lease.Context(), r.checkpoint.Seq(), from)
	if err != nil {
		r.log.Error("read the failed items of a loop that starts again; they are counted twice", "error", r.secrets.Message(err))
		return from
	}
	r.x.Repairs, r.checkpoint.Repairs, r.checkpoint.Items, r.checkpoint.AcceptedItems = back.Repairs, back.Repairs, back.Failed, back.Accepted
	r.checkpoint.RescuedItems, r.checkpoint.RescueFails = back.Rescued, back.RescueFails
	return back.Position
}

// bindTarget has the walk end with the item that is executed again.
func (r *run) bindTarget() {
	if r.checkpoint.Target > 0 {
		r.walk.SetBound(r.earlier.Pass.Targets[r.checkpoint.Target-1].Loop())
	}
}

// loadMembers loads the outputs of members of the chain that the steps refer to.
func (r *run) loadMembers() error {
	if r.x.Chain == "" || len(r.program.Members) == 0 {
		return nil
	}
	return r.lease.Call(func(ctx context.Context) error {
		members, err := r.e.memberValues(ctx, r.program, &r.x)
		r.vals.SetMembers(members)
		return err
	})
}

// failedItems lists the failed items of a loop that is over, for a step that refers to
// them, and says how many there are.
func (r *run) failedItems(marker int, outer []int) ([]courier.ItemFailure, int) {
	left, err := r.historyOf(marker).Records(r.lease.Context())
	if err != nil {
		r.log.Error("read the failed items of a loop", "step", marker, "error", r.secrets.Message(err))
	}
	return r.program.FailedItems(marker, outer, left)
}

// historyOf is the history of the part of the job in which a marker lies.
func (r *run) historyOf(marker int) *repair.History {
	h := r.earlier.History()
	if r.program.Tree.InFinally(marker) && r.finish != nil {
		h.Finally = r.finish.Seq
	}
	return h
}

// rescuedItems lists the rescued items of a loop that is over, as failedItems does.
func (r *run) rescuedItems(marker int, outer []int) ([]courier.ItemFailure, int) {
	at := r.walk.Position()
	if r.finish != nil && !r.program.Tree.InFinally(marker) {
		at = r.finish.Position
	}
	list, err := r.historyOf(marker).Rescues(r.lease.Context(), at)
	if err != nil {
		r.log.Error("read the rescued items of a loop", "step", marker, "error", r.secrets.Message(err))
	}
	return r.program.RescuedItems(marker, outer, list)
}
