package outline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/store"
)

// The limits of the data that an outline reads.
const (
	maxItemsRead    = 1000 // failed items that are marked
	maxAttemptsRead = 200  // failed attempts that the timeline shows
)

// readAll reads the data that the rows need in addition to the latest records.
func (b *builder) readAll() (err error) {
	if b.decides() || b.loops() {
		if b.values, err = b.read.Values(); err != nil {
			return err
		}
	}
	if err = b.readItems(); err != nil {
		return err
	}
	if err = b.readChosen(); err != nil || !b.retried() {
		return err
	}
	b.failed, err = b.read.Records(store.StepFilter{Attempt: b.x.Attempt, States: []courier.StepState{courier.StepFailed}, Limit: maxAttemptsRead})
	return err
}

// decides reports whether a condition was evaluated. Then the values are needed.
func (b *builder) decides() bool {
	return slices.ContainsFunc(b.steps, func(s flow.Outlined) bool {
		return strings.EqualFold(s.Type, flow.TypeIf) && s.State != flow.OutlinePending && s.State != flow.OutlineNotTaken
	})
}

// loops reports whether a loop that is not nested has begun. Its list has the names of its items.
func (b *builder) loops() bool {
	return slices.ContainsFunc(b.steps, func(s flow.Outlined) bool {
		return s.Items != nil && s.Items.Total > 0 && len(b.tree.Loops(s.Step)) == 0
	})
}

// retried reports whether a step that the rows may show has had more than one attempt.
func (b *builder) retried() bool {
	again := func(r *courier.StepExecution) bool { return r != nil && r.Attempt > 1 }
	if again(b.x.Current) || slices.ContainsFunc(b.steps, func(s flow.Outlined) bool { return again(s.Record) }) {
		return true
	}
	for _, list := range b.shown {
		if slices.ContainsFunc(list, func(r courier.StepExecution) bool { return r.Attempt > 1 }) {
			return true
		}
	}
	return false
}

// readItems reads the items of loops that failed and were not repaired.
func (b *builder) readItems() error {
	b.items, b.labels = make(map[int][][]int), make(map[int]map[string]string)
	repaired := b.x.Repairs != nil && len(b.x.Repairs.Passes) > 0
	if n := b.x.FailedItems; repaired && n > 0 && n <= maxItemsRead {
		list, err := b.read.FailedItems()
		if err != nil {
			return err
		}
		for i := range list {
			b.items[list[i].Loop] = append(b.items[list[i].Loop], list[i].Iteration)
			b.name(list[i].Loop, list[i].Iteration, list[i].Label)
		}
	} else if n > 0 {
		list, err := b.read.Records(store.StepFilter{Attempt: b.x.Attempt, FailedItems: true, Limit: maxItemsRead})
		if err != nil {
			return err
		}
		for i := range list {
			if l := list[i].FailedLoop; l != nil {
				level := len(b.tree.Loops(*l)) + 1
				path := list[i].Iteration[:min(level, len(list[i].Iteration))]
				b.items[*l] = append(b.items[*l], path)
				if len(list[i].ItemLabels) >= level {
					b.name(*l, path, list[i].ItemLabels[level-1])
				}
			}
		}
		if n > len(list) {
			b.out.Note = fmt.Sprintf("The first %s of %s failed items are marked.", format.Count(len(list)), format.Count(n))
		}
	}
	if f := b.x.Failure; b.x.State == courier.Failed && f != nil && len(f.Iteration) > 0 && f.Step >= 0 && f.Step < b.tree.Len() {
		for level, loop := range b.tree.Loops(f.Step) {
			if path := f.Iteration[:min(level+1, len(f.Iteration))]; !slices.ContainsFunc(b.items[loop], func(i []int) bool { return slices.Equal(i, path) }) {
				b.items[loop] = append(b.items[loop], path)
			}
			if level < len(f.ItemLabels) {
				b.name(loop, f.Iteration[:level+1], f.ItemLabels[level])
			}
		}
	}
	return nil
}

// labelOf returns the label of an item of a loop: the recorded label of a failed item, or the label
// in the list of the loop. It is empty if the label is unknown, or only the index.
func (b *builder) labelOf(loop int, path []int) string {
	if text, ok := b.labels[loop][courier.FormatIteration(path)]; ok || b.values == nil || len(path) != 1 {
		return text
	}
	if list := b.source(loop); path[0] < len(list) {
		if text := b.tree.LabelOf(loop, list, path[0], b.values); text != courier.IndexLabel(path) {
			return text
		}
	}
	return ""
}

// name records the label of a failed item of a loop.
func (b *builder) name(loop int, path []int, label string) {
	if label == courier.IndexLabel(path) {
		return
	}
	if b.labels[loop] == nil {
		b.labels[loop] = make(map[string]string)
	}
	b.labels[loop][courier.FormatIteration(path)] = label
}
