package repair

import (
	"context"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/history"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/store"
)

// ReadAndRestore sets values to those at a position. It reads the records.
func (h *History) ReadAndRestore(ctx context.Context, vals *program.Values, pos courier.Position) error {
	latest, err := h.latest(ctx, 0)
	if err != nil {
		return err
	}
	return h.Restore(ctx, vals, latest, pos)
}

// Restore sets values to those at a position. Latest is the latest record of each step,
// which is all that an execution without repairs needs.
func (h *History) Restore(ctx context.Context, vals *program.Values, latest []courier.StepExecution, pos courier.Position) error {
	records, err := h.recordsAt(ctx, latest, pos)
	if err != nil {
		return err
	}
	if h.Execution.Repairs != nil {
		vals.SetChanges(h.Execution.Repairs.Values)
	}
	vals.Restore(records, pos)
	return nil
}

// latest reads the latest record of each step before a number; 0 means of all.
func (h *History) latest(ctx context.Context, before int64) ([]courier.StepExecution, error) {
	return h.read(ctx, func(ctx context.Context) ([]courier.StepExecution, error) {
		return h.Archive.Latest(ctx, store.LatestFilter{Execution: h.Execution.ID, Before: before})
	})
}

// read reads records.
func (h *History) read(ctx context.Context, f func(context.Context) ([]courier.StepExecution, error)) (list []courier.StepExecution, err error) {
	if !h.Retry {
		return f(ctx)
	}
	calls := storecall.Calls{Parent: ctx}
	defer calls.End()
	err = storecall.Retry(&calls, func(ctx context.Context) (err error) {
		list, err = f(ctx)
		return err
	})
	return list, err
}

// Attempts returns the numbers of the last attempts of steps, by place, from their latest
// records in the present version. Attempts after a return to an earlier step count on
// from them.
func Attempts(latest []courier.StepExecution) map[string]int {
	attempts := make(map[string]int)
	for i := range latest {
		r := &latest[i]
		attempts[history.Place(r.Step, r.Iteration)] = r.Attempt
	}
	return attempts
}

// Places returns the places of all steps of the present version that have a record, also
// of earlier attempts of the execution; see [history.Place].
func (h *History) Places(ctx context.Context) (map[string]bool, error) {
	places := make(map[string]bool)
	err := history.Each(ctx, h.Archive, h.Execution.ID, func(s *courier.StepExecution) {
		if r, ok := flow.MapRecord(s, h.changes()); ok {
			places[history.Place(r.Step, r.Iteration)] = true
		}
	})
	return places, err
}

// recordsAt returns the records from which the values at a position follow, in no order.
// Latest is the latest record of each step. Without repairs they are all that is
// needed. Otherwise a step may have been executed later in another iteration than that
// of the position, or a record of another version may have its index, so that the
// latest ones before certain records count too.
func (h *History) recordsAt(ctx context.Context, latest []courier.StepExecution, pos courier.Position) ([]courier.StepExecution, error) {
	if h.Execution.Repairs == nil || h.Tree == nil {
		return latest, nil
	}
	records := h.mapped(nil, latest)
	bounds, err := h.bounds(ctx, pos)
	if err != nil {
		return nil, err
	}
	for _, before := range bounds {
		list, err := h.latest(ctx, before)
		if err != nil {
			return nil, err
		}
		records = h.mapped(records, list)
	}
	return h.redone(h.rescued(records), pos), nil
}

// rescued returns records with those for which operators have had a rescue begin: the record
// says so then.
func (h *History) rescued(records []courier.StepExecution) []courier.StepExecution {
	for _, f := range h.begun() {
		records = slices.DeleteFunc(records, func(r courier.StepExecution) bool { return r.Seq == f.Record.Seq })
		records = append(records, f.Record)
	}
	return records
}

// redone leaves out what was recorded in the item of a position before that began again.
func (h *History) redone(records []courier.StepExecution, pos courier.Position) []courier.StepExecution {
	all := h.withAgain(h.failed)
	for i := range all {
		f := &all[i]
		if !inOutermost(pos, f) {
			continue
		}
		seq := h.restarts(f)
		records = slices.DeleteFunc(records, func(r courier.StepExecution) bool {
			at, ok := h.Tree.PositionOf(&r)
			return ok && r.Seq <= seq && inOutermost(at, f)
		})
	}
	return records
}

// withAgain returns failures with those of rescued items that were executed again.
func (h *History) withAgain(list []Failure) []Failure {
	list = slices.Clone(list)
	for i := range h.passes() {
		list = append(list, h.again(&h.passes()[i])...)
	}
	return list
}

// Mapped returns records as they are in the present version of the job. Those of steps that
// it does not have are left out.
func (h *History) Mapped(list []courier.StepExecution) []courier.StepExecution {
	if len(h.changes()) == 0 {
		return list
	}
	return h.mapped(nil, list)
}

// mapped appends records as they are in the present version.
func (h *History) mapped(to, list []courier.StepExecution) []courier.StepExecution {
	for i := range list {
		if r, ok := flow.MapRecord(&list[i], h.changes()); ok {
			to = append(to, r)
		}
	}
	return to
}

// bounds are the numbers of records before which the latest ones may be needed at a
// position: where a version ended, where a pass began, and where the item at the
// position failed, or an item in it if it begins again as a whole.
func (h *History) bounds(ctx context.Context, pos courier.Position) ([]int64, error) {
	var bounds []int64
	for _, v := range h.changes() {
		bounds = append(bounds, v.Seq+1)
	}
	if len(h.passes()) == 0 {
		return bounds, nil
	}
	for _, p := range h.passes() {
		bounds = append(bounds, p.Seq+1)
	}
	all, err := h.all(ctx)
	if err != nil {
		return nil, err
	}
	all = h.withAgain(all)
	for i := range all {
		if f := &all[i]; within(pos, f) || h.restarts(f) > 0 && inOutermost(pos, f) {
			bounds = append(bounds, all[i].Record.Seq)
		}
	}
	slices.Sort(bounds)
	return slices.Compact(bounds), nil
}

// EndLoops sets the values of loops that are over where the execution stands, as far as
// they can be known.
func (h *History) EndLoops(ctx context.Context, p *program.Program, vals *program.Values) error {
	if h.Tree == nil || !h.Tree.HasItemPolicies() {
		return nil
	}
	failures, err := h.left(ctx)
	if err != nil {
		return err
	}
	left := records(failures)
	rescues := h.Tree.RescuedItems(h.Execution.Position, h.rescues(), left)
	if walk, err := h.Tree.Walk(h.Execution.Position, vals); err == nil {
		vals.SetFailedItems(func(marker int, outer []int) ([]courier.ItemFailure, int) { return p.FailedItems(marker, outer, left) })
		vals.SetRescuedItems(func(marker int, outer []int) ([]courier.ItemFailure, int) {
			return p.RescuedItems(marker, outer, rescues)
		})
		walk.EndLoops()
	}
	return nil
}
