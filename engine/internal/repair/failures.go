package repair

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/history"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/store"
)

// A Failure is an attempt with which an item of a loop failed, and which was not
// executed again since.
type Failure struct {
	Record courier.StepExecution // its Step is the index in the present version of the job
	// Position is where the item is executed again: at the step that failed. Of a loop
	// that was given up because too many of its items failed, it is behind the item
	// with which it was.
	Position courier.Position
	// Item is the outermost item that the failure belongs to, which is what the
	// execution's FailedItems counts.
	Item courier.ItemPath
}

// Loop is the index of the flow.foreach whose item failed.
func (f *Failure) Loop() int { return *f.Record.FailedLoop }

// in returns the item of a loop around the failure.
func (f *Failure) in(loop int) courier.ItemPath {
	return courier.ItemPath{Loop: loop, Iteration: f.Record.Iteration[:depth(f.Position.Loops, loop)]}
}

// A History reads the records of one execution, as they are in the present version of
// its job.
type History struct {
	Archive   store.Archive
	Tree      *flow.Tree
	Execution *courier.Execution
	// Retry says that reads are repeated until ctx ends, as a worker does that has the
	// execution; otherwise the first error counts.
	Retry bool

	// Finally, if it is not 0, has the history be that of the finally part that began with this
	// audit entry. Otherwise it is that of the steps before the finally part.
	Finally int64

	failed []Failure // all that were read, up to the record with the number last
	rescue []Failure // records with which a rescue began, likewise
	last   int64
}

// changes are the versions that the execution had.
func (h *History) changes() []courier.VersionChange {
	if h.Execution.Repairs == nil {
		return nil
	}
	return h.Execution.Repairs.Versions
}

// passes are the repairs of the execution's present attempt.
func (h *History) passes() []courier.RepairPass {
	if h.Execution.Repairs == nil {
		return nil
	}
	return h.Execution.Repairs.Passes
}

// Failures returns the failures that are left, in the order in which a walk reaches
// them: those in items that the execution counts as failed. An inner loop that accepts
// failed items fails no item around it.
func (h *History) Failures(ctx context.Context) ([]Failure, error) {
	left, err := h.left(ctx)
	if err != nil {
		return nil, err
	}
	pending, err := h.pending(ctx)
	return h.sorted(h.counted(append(left, pending...))), err
}

// pending returns the targets of a pass under way that are not over, from the outermost
// item in which the execution stands on; nil if no pass is under way.
func (h *History) pending(ctx context.Context) ([]Failure, error) {
	targets, err := h.Targets(ctx)
	if err != nil || len(targets) == 0 {
		return nil, err
	}
	at, passes := h.Execution.Position, h.passes()
	if flow.Compare(at, passes[len(passes)-1].Then) >= 0 {
		return nil, nil
	}
	for i := range targets {
		if inOutermost(at, &targets[i]) {
			return targets[i:], nil
		}
	}
	return nil, nil
}

// counted returns those of the failures whose outermost item has failed, with this
// failure or with another one.
func (h *History) counted(list []Failure) []Failure {
	failed := make(map[string]bool)
	for i := range list {
		if f := &list[i]; h.Tree.Fails(&f.Record, f.Item.Loop) {
			failed[history.Place(f.Item.Loop, f.Item.Iteration)] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(list), func(f Failure) bool { return !failed[history.Place(f.Item.Loop, f.Item.Iteration)] })
}

// perItem returns for each outermost item that has failed at a position the first of its
// failures that made it fail. The failures are in order.
func perItem(tree *flow.Tree, list []Failure, at courier.Position) (items []Failure) {
	for _, f := range list {
		if n := len(items); tree.FailsAt(at, &f.Record, f.Item.Loop) && (n == 0 || !SameItem(items[n-1].Item, f.Item)) {
			items = append(items, f)
		}
	}
	return items
}

// FailedItems returns the outermost items that have failed at a position, each with its
// first failure and the id that the step has in the tree. The failures are in order.
func FailedItems(tree *flow.Tree, left []Failure, at courier.Position) []courier.FailedItem {
	var list []courier.FailedItem
	for _, f := range perItem(tree, left, at) {
		list = append(list, failedItem(tree, f.Item, &f.Record))
	}
	return list
}

func failedItem(tree *flow.Tree, item courier.ItemPath, r *courier.StepExecution) courier.FailedItem {
	return courier.FailedItem{
		ItemPath: item, Label: program.ItemFailure(r, len(item.Iteration)-1).Label, Step: r.Step, ID: tree.Spec(r.Step).ID, Type: r.Type, Attempt: r.Attempt, Reason: r.Reason, Error: r.Error, FailedSeq: r.Seq,
	}
}

// RescuedItems returns the items of loops that were rescued until now, each with the failure
// that its rescue was for, in the order of these. While items are executed again, those that
// wait for that are not among them.
func (h *History) RescuedItems(ctx context.Context) ([]courier.FailedItem, error) {
	left, err := h.left(ctx)
	if err != nil {
		return nil, err
	}
	pending, err := h.pending(ctx)
	at := h.Execution.Position
	if len(pending) > 0 {
		at = h.passes()[len(h.passes())-1].Then
	}
	var list []courier.FailedItem
	for _, r := range h.Tree.RescuedItems(at, h.rescues(), records(append(left, pending...))) {
		d := len(h.Tree.Loops(*r.Rescue)) + 1
		list = append(list, failedItem(h.Tree, courier.ItemPath{Loop: *r.Rescue, Iteration: r.Iteration[:d]}, &r))
	}
	return list, err
}

// maxTold is how many failed items events tell of.
const maxTold = 20

// ItemFailures are the first 20 of FailedItems, as events have them.
func ItemFailures(tree *flow.Tree, left []Failure, at courier.Position) []courier.ItemFailure {
	items := perItem(tree, left, at)
	list := make([]courier.ItemFailure, 0, min(len(items), maxTold))
	for i := range items[:min(len(items), maxTold)] {
		f := &items[i]
		list = append(list, program.ItemFailure(&f.Record, len(f.Item.Iteration)-1))
	}
	return list
}

// maxListed is how many items the lists for the finally part have.
const maxListed = 1000

// FailedAt returns the first 1,000 items that have failed and were not repaired when the
// execution has come to a position, and how many there are.
func (h *History) FailedAt(ctx context.Context, at courier.Position) (first []courier.ItemFailure, count int, err error) {
	left, err := h.Failures(ctx)
	items := perItem(h.Tree, left, at)
	for i := range items[:min(len(items), maxListed)] {
		first = append(first, program.ItemFailure(&items[i].Record, len(items[i].Item.Iteration)-1))
	}
	return first, len(items), err
}

// RescuedAt is FailedAt for items that were rescued.
func (h *History) RescuedAt(ctx context.Context, at courier.Position) (first []courier.ItemFailure, count int, err error) {
	list, err := h.Rescues(ctx, at)
	for i := range list[:min(len(list), maxListed)] {
		first = append(first, program.ItemFailure(&list[i], len(h.Tree.Loops(*list[i].Rescue))))
	}
	return first, len(list), err
}

// left returns all failures that are left, in the order in which a walk reaches them.
func (h *History) left(ctx context.Context) ([]Failure, error) {
	all, err := h.all(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.Clone(all)
	for _, pass := range h.passes() {
		all = slices.DeleteFunc(all, func(f Failure) bool { return h.covers(&pass, &f) })
	}
	return h.sorted(all), nil
}

// Records returns the records of the failures that are left.
func (h *History) Records(ctx context.Context) ([]courier.StepExecution, error) {
	left, err := h.left(ctx)
	return records(left), err
}

func records(left []Failure) []courier.StepExecution {
	list := make([]courier.StepExecution, len(left))
	for i := range left {
		list[i] = left[i].Record
	}
	return list
}

// Targets returns the failures that the last pass executes again, in order. They are
// the same however far the pass has come.
func (h *History) Targets(ctx context.Context) ([]Failure, error) {
	passes := h.passes()
	if len(passes) == 0 {
		return nil, nil
	}
	all, err := h.all(ctx)
	if err != nil {
		return nil, err
	}
	last := &passes[len(passes)-1]
	all = slices.Clone(all)
	for _, pass := range passes[:len(passes)-1] {
		all = slices.DeleteFunc(all, func(f Failure) bool { return h.covers(&pass, &f) })
	}
	return h.targetsOf(last, all), nil
}

// targetsOf returns those of the failures that a pass executes again, with the items that
// were rescued and are executed again.
func (h *History) targetsOf(pass *courier.RepairPass, all []Failure) []Failure {
	if pass.From != nil || pass.Settles() {
		return nil
	}
	list := slices.DeleteFunc(append(h.counted(all), h.again(pass)...), func(f Failure) bool {
		return !h.covers(pass, &f) || flow.Compare(f.Position, pass.Then) >= 0 && !within(pass.Then, &f)
	})
	for i := range list {
		if f := &list[i]; contains(pass.Rescue, f.Item) {
			h.toRescue(f)
		}
	}
	return h.restarted(h.sorted(list))
}

// again returns the failures of rescued items that a pass executes again: of each the one with
// which its rescue last began.
func (h *History) again(pass *courier.RepairPass) (list []Failure) {
	if len(pass.Rescued) == 0 {
		return nil
	}
	candidates := slices.Clone(h.rescue)
	began := make([]int64, len(candidates))
	for i := range candidates {
		began[i] = candidates[i].Record.Seq
	}
	h.eachBegun(func(f Failure, by int) {
		candidates, began = append(candidates, f), append(began, h.passes()[by].Seq)
	})
	for _, item := range pass.Rescued {
		last := -1
		for i := range candidates {
			f := &candidates[i]
			if began[i] <= pass.Seq && *f.Record.Rescue == item.Loop && SameItem(f.in(item.Loop), item) && (last < 0 || began[last] < began[i]) {
				last = i
			}
		}
		if last < 0 {
			continue
		}
		f := candidates[last]
		f.Record.FailedLoop, f.Record.Rescue = f.Record.Rescue, nil
		list = append(list, f)
	}
	return list
}

// rescueOf returns the loop whose rescue a failed item begins because of a failure in it: its
// own one, or else the innermost one around the failure; -1 if there is none.
func (h *History) rescueOf(f *Failure) (loop int) {
	for at := len(f.Position.Loops) - 1; at >= 0; at-- {
		l := f.Position.Loops[at].Step
		if l > f.Loop() || h.Tree.Rescue(l) < 0 {
			continue
		}
		if h.Tree.Rescue(f.Item.Loop) >= 0 {
			return f.Item.Loop
		}
		return l
	}
	return -1
}

// toRescue has a failure executed again as the rescue of its item. If it is one of that
// rescue, it stays where it is.
func (h *History) toRescue(f *Failure) {
	loop := h.rescueOf(f)
	if loop < 0 || f.Position.Step > h.Tree.Rescue(loop) {
		return
	}
	f.Position = courier.Position{Step: h.Tree.Rescue(loop) + 1, Loops: slices.Clone(f.Position.Loops[:depth(f.Position.Loops, loop)])}
	f.Record.FailedLoop = &loop
}

// begun returns the failures for which operators have had a rescue begin that is not undone, as
// records with which it began.
func (h *History) begun() (list []Failure) {
	h.eachBegun(func(f Failure, by int) {
		if !h.undone(&f, h.passes()[by+1:]) {
			list = append(list, f)
		}
	})
	return list
}

// eachBegun calls add with the failures for which operators have had a rescue begin, and the
// index of the pass in which they had.
func (h *History) eachBegun(add func(f Failure, by int)) {
	passes := h.passes()
	if !slices.ContainsFunc(passes, func(p courier.RepairPass) bool { return len(p.Rescue) > 0 }) {
		return
	}
	all := slices.Clone(h.failed)
	for i := range passes {
		p := &passes[i]
		all = slices.DeleteFunc(all, func(f Failure) bool {
			if !h.covers(p, &f) {
				return false
			}
			if loop := h.rescueOf(&f); contains(p.Rescue, f.Item) && loop >= 0 && f.Position.Step < h.Tree.Rescue(loop) {
				// Its rescue is for the error of the step alone.
				of := program.ItemFailure(&f.Record, depth(f.Position.Loops, f.Loop())-1)
				f.Record.Error = strings.TrimPrefix(f.Record.Error, courier.FormatItem(of.Label, of.Index)+": ")
				f.Record.FailedLoop, f.Record.Rescue = nil, &loop
				add(f, i)
			}
			return true
		})
	}
}

// beganAgain reports whether the item of a rescue was executed again from its first step since,
// because a file was gone: it had failed, in the rescue or besides.
func (h *History) beganAgain(f *Failure) bool {
	passes := h.passes()
	for i := range passes {
		for _, r := range passes[i].Restart {
			if r.Loop != f.Item.Loop || f.Record.Seq > r.UpTo {
				continue
			}
			loop := *f.Record.Rescue
			own := depth(f.Position.Loops, loop) > 0
			if slices.ContainsFunc(h.failed, func(of Failure) bool {
				return SameItem(of.Item, f.Item) && of.Record.Seq <= r.UpTo &&
					(of.Record.Seq > f.Record.Seq || !own || depth(of.Position.Loops, loop) == 0 || !SameItem(of.in(loop), f.in(loop))) &&
					!slices.ContainsFunc(passes[:i], func(p courier.RepairPass) bool { return h.covers(&p, &of) })
			}) {
				return true
			}
		}
	}
	return false
}

// undone reports whether one of the passes has undone the rescue that began with a record:
// somebody has gone back to before it, or has its item executed again.
func (h *History) undone(f *Failure, passes []courier.RepairPass) bool {
	return slices.ContainsFunc(passes, func(p courier.RepairPass) bool {
		return f.Record.Seq <= p.Seq && (p.From != nil && flow.Compare(f.Position, *p.From) >= 0 || flow.Compare(f.Position, p.Then) >= 0 ||
			f.Record.Rescue != nil && contains(p.Rescued, f.in(*f.Record.Rescue)))
	})
}

// settled reports whether an operator has taken as dealt with what has failed in the rescue
// that began with a record.
func (h *History) settled(f *Failure) bool {
	if !slices.ContainsFunc(h.passes(), func(p courier.RepairPass) bool { return p.Settles() }) || h.Tree.Rescue(*f.Record.Rescue) < 0 {
		return false
	}
	loop := *f.Record.Rescue
	return slices.ContainsFunc(h.failed, func(of Failure) bool {
		return of.Record.Seq > f.Record.Seq && of.Position.Step > h.Tree.Rescue(loop) && depth(of.Position.Loops, loop) > 0 && SameItem(of.in(loop), f.in(loop)) &&
			slices.ContainsFunc(h.passes(), func(p courier.RepairPass) bool { return p.Settles() && h.covers(&p, &of) })
	})
}

func contains(items []courier.ItemPath, item courier.ItemPath) bool {
	return slices.ContainsFunc(items, func(i courier.ItemPath) bool { return SameItem(i, item) })
}

// restarted returns the failures with those of each item that begins again in place of one,
// at the first step of the item. They are in order.
func (h *History) restarted(list []Failure) (targets []Failure) {
	for _, f := range list {
		if h.restarts(&f) == 0 {
			targets = append(targets, f)
			continue
		}
		if n := len(targets); n > 0 && SameItem(targets[n-1].Item, f.Item) {
			continue
		}
		loop, n := f.Item.Loop, len(f.Item.Iteration)
		f.Position = courier.Position{Step: loop + 1, Loops: slices.Clone(f.Position.Loops[:n])}
		f.Record.FailedLoop = &loop
		targets = append(targets, f)
	}
	return targets
}

// restarts returns the number of the record up to which the item of a failure is executed
// again from its first step; 0 if it is executed again from the step that failed, or from
// where somebody has gone back to since.
func (h *History) restarts(f *Failure) (seq int64) {
	for _, p := range h.passes() {
		if p.From != nil && h.covers(&p, f) {
			seq = 0
		}
		for _, r := range p.Restart {
			if r.Loop == f.Item.Loop && f.Record.Seq <= r.UpTo {
				seq = r.UpTo
			}
		}
	}
	return seq
}

// inOutermost reports whether a position lies in the outermost item of a failure.
func inOutermost(p courier.Position, f *Failure) bool {
	n := len(f.Item.Iteration)
	return len(p.Loops) >= n && samePath(p.Loops[:n], f.Position.Loops[:n])
}

// within reports whether a position lies in the item of a failure.
func within(p courier.Position, f *Failure) bool {
	d := depth(f.Position.Loops, f.Loop())
	return d > 0 && len(p.Loops) >= d && samePath(p.Loops[:d], f.Position.Loops[:d])
}

func samePath(a, b []courier.LoopPosition) bool {
	return slices.EqualFunc(a, b, func(x, y courier.LoopPosition) bool { return x.Step == y.Step && x.Index == y.Index })
}

// depth is the number of loops down to a loop, that one included; 0 if it is not
// among them.
func depth(loops []courier.LoopPosition, marker int) int {
	return slices.IndexFunc(loops, func(l courier.LoopPosition) bool { return l.Step == marker }) + 1
}

// covers reports whether a failure was recorded before a pass that executes its item
// again.
func (h *History) covers(pass *courier.RepairPass, f *Failure) bool {
	switch {
	case f.Record.Seq > pass.Seq:
		return false
	case pass.From != nil:
		return flow.Compare(f.Position, *pass.From) >= 0
	case len(pass.Items)+len(pass.Rescued) == 0:
		return true
	}
	return flow.Compare(f.Position, pass.Then) >= 0 && !within(pass.Then, f) || contains(pass.Items, f.Item) || contains(pass.Rescued, f.in(f.Loop()))
}

// SameItem reports whether two paths name one item.
func SameItem(a, b courier.ItemPath) bool {
	return a.Loop == b.Loop && slices.Equal(a.Iteration, b.Iteration)
}

// sorted orders failures as a walk reaches them.
func (h *History) sorted(list []Failure) []Failure {
	slices.SortStableFunc(list, func(a, b Failure) int { return flow.Compare(a.Position, b.Position) })
	return list
}

// all returns all failures of items in the execution's present attempt, whether or not
// they were executed again, in the order of their records. The list is not to be changed.
// What was read before is not read again.
func (h *History) all(ctx context.Context) ([]Failure, error) {
	known := len(h.failed)
	err := h.each(ctx, store.StepFilter{FailedItems: true, After: h.last}, func(r *courier.StepExecution) {
		h.last = r.Seq
		if f, ok := h.failure(r); !ok {
			return
		} else if f.Record.Rescue != nil {
			h.rescue = append(h.rescue, f)
		} else {
			h.failed = append(h.failed, f)
		}
	})
	h.place(known)
	return h.failed, err
}

// each calls f with the records of the execution's present attempt that a filter selects.
func (h *History) each(ctx context.Context, filter store.StepFilter, f func(*courier.StepExecution)) error {
	filter.Execution, filter.Attempt = h.Execution.ID, h.Execution.Attempt
	for {
		page, err := h.read(ctx, func(ctx context.Context) ([]courier.StepExecution, error) { return h.Archive.Steps(ctx, filter) })
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			filter.After = page[i].Seq
			f(&page[i])
		}
	}
}

// failure makes a failure of its record; ok is false if the record's step is not in
// the present version.
func (h *History) failure(r *courier.StepExecution) (f Failure, ok bool) {
	f.Record, ok = flow.MapRecord(r, h.changes())
	if !ok || f.Record.FailedLoop == nil && f.Record.Rescue == nil {
		return f, false
	}
	if in := h.Tree.InFinally(f.Record.Step); in != (h.Finally > 0) || in && f.Record.Seq <= h.Finally {
		return f, false
	}
	loops := h.Tree.Loops(f.Record.Step)
	if len(loops) != len(f.Record.Iteration) {
		return f, false
	}
	f.Position = courier.Position{Step: f.Record.Step}
	for i, marker := range loops {
		f.Position.Loops = append(f.Position.Loops, courier.LoopPosition{Step: marker, Index: f.Record.Iteration[i]})
	}
	marker, counted := h.Tree.CountingLoop(f.Record.Step)
	if !counted && f.Record.Rescue != nil {
		f.Item.Loop = -1 // in a block outside of such loops
		return f, true
	} else if !counted {
		marker = f.Loop()
	}
	f.Item = courier.ItemPath{Loop: marker, Iteration: slices.Clone(f.Record.Iteration[:depth(f.Position.Loops, marker)])}
	return f, true
}

// place puts the positions of loops that were given up behind the item with which they
// were: the last one of the list if the percentage of failed items was too high, which is
// looked at when the loop ends, and else the last one that failed before. The failures
// that were known before have their places.
func (h *History) place(known int) {
	list := h.failed
	for i := known; i < len(list); i++ {
		f := &list[i]
		if f.Record.Reason != courier.ReasonItems {
			continue
		}
		for j := i - 1; j >= 0; j-- {
			inner := &list[j]
			d := len(f.Position.Loops)
			if h.Tree.Fails(&inner.Record, f.Record.Step) && len(inner.Position.Loops) > d && samePath(inner.Position.Loops[:d], f.Position.Loops) {
				f.Position = courier.Position{Step: h.Tree.End(f.Record.Step), Loops: slices.Clone(inner.Position.Loops[:d+1])}
				if total := inner.Record.Total; h.Tree.ItemPolicy(f.Record.Step).MaxPercent >= 0 && d < len(total) {
					f.Position.Loops[d].Index = total[d] - 1
				}
				break
			}
		}
	}
}

// rescues returns the records with which a rescue began that is not undone, and that has not
// failed in what an operator has settled. They are among those that [History.left] has read.
func (h *History) rescues() (list []courier.StepExecution) {
	add := func(f *Failure) {
		if !h.beganAgain(f) && !h.settled(f) {
			list = append(list, f.Record)
		}
	}
	for i := range h.rescue {
		if f := &h.rescue[i]; !h.undone(f, h.passes()) {
			add(f)
		}
	}
	for _, f := range h.begun() {
		add(&f)
	}
	return list
}

// Rescues returns for each item of a loop that was rescued before a position the record with
// which the rescue began, in the order of the records: its last one.
func (h *History) Rescues(ctx context.Context, at courier.Position) ([]courier.StepExecution, error) {
	left, err := h.left(ctx)
	return h.Tree.RescuedItems(at, h.rescues(), records(left)), err
}

// RescuedFailure returns the failure of an execution that has ended because of rescues, by
// which so many items were dealt with.
func RescuedFailure(items int) *courier.Failure {
	message := "a rescue has run, and the job says that the execution fails then"
	if items > 0 {
		what := "items were"
		if items == 1 {
			what = "item was"
		}
		message = fmt.Sprintf("%d %s rescued, and the job says that the execution fails then", items, what)
	}
	return &courier.Failure{Step: -1, Reason: courier.ReasonRescued, Message: message + "; a resume completes it, and runs none of them again"}
}

// ItemsFailure returns the failure of an execution that has ended and of which so many
// items have failed, and how many of these the job does not accept; nil if none has failed.
// Last says with what the last of them has failed; empty if that is not known.
func ItemsFailure(failed, rejected int, last string) *courier.Failure {
	if failed == 0 {
		return nil
	}
	what := "items failed"
	if failed == 1 {
		what = "item failed"
	}
	message := fmt.Sprintf("%d %s", failed, what)
	if rejected == 0 {
		message += ", which the job accepts"
	}
	switch {
	case last == "":
	case failed == 1:
		message += ": " + last
	default:
		message += "; the last is " + last
	}
	if rejected > 0 {
		message += "; a resume executes the failed items again"
	}
	return &courier.Failure{Step: -1, Reason: courier.ReasonItems, Message: message}
}

// ItemText says by the record of a failed item which item it is, and why it failed.
func ItemText(tree *flow.Tree, rec *courier.StepExecution) string {
	depth := len(tree.Loops(*rec.FailedLoop))
	f := program.ItemFailure(rec, depth)
	if index := strconv.Itoa(f.Index); len(rec.ItemLabels) <= depth || rec.ItemLabels[depth] == index {
		return "item " + index + ": " + f.Message
	}
	return f.Message // begins with the name of the item
}
