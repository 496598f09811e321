package executions

import (
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

// itemCases are about failed items of loops, and repairs, in transitions.
var itemCases = []testCase{
	// The number of failed items is set where it is given, and stays otherwise.
	{"failed_items_are_counted", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		k.Same("none", k.Get(h.ID()).FailedItems, 0)
		count := func(n *int) int {
			t := h.Next(0, 0)
			t.FailedItems = n
			h.Must(t)
			return k.Get(h.ID()).FailedItems
		}
		three, none := 3, 0
		k.Same("three", count(&three), 3)
		k.Same("unchanged", count(nil), 3)
		k.listed("in a list", store.Filter{FailedItems: true}, h.ID())
		k.Same("none again", count(&none), 0)
		k.listed("in no list", store.Filter{FailedItems: true})
		k.Same("three again", count(&three), 3)
		t := h.To(courier.Failed)
		t.Interrupt = true
		h.Must(t)
		k.Same("resumed", k.Ask(h.ID(), courier.RequestResume).FailedItems, 3)
		k.Same("claimed", k.Again(h.ID()).Execution.FailedItems, 3)
	}},
	{"failed_items_below_none", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		t, n := h.Next(0, 1), -1
		t.FailedItems = &n
		k.Unchanged("a number below 0", h.ID(), func() { k.Is("error", k.Apply(k.Ctx(), t), courier.ErrInvalid) })
	}},
	// A record keeps the loop whose item failed with the attempt.
	{"failed_loop_of_a_record", func(k *kit) {
		h := k.Start()
		for i, loop := range []*int{nil, new(0), new(7)} {
			h.Must(h.Begin(i))
			t := h.Finish(i)
			t.Ended[0].State, t.Ended[0].Error, t.Ended[0].FailedLoop = courier.StepFailed, "why", loop
			h.Must(t)
			k.Same("record", k.Records(h.ID())[i].FailedLoop, loop)
			k.Same("latest", k.LatestOf(h.ID())[i].FailedLoop, loop)
		}
		h.Must(h.Begin(3))
		t := h.Next(3, 4)
		t.Ended[0].FailedLoop = new(2) // of a completed one, which takes the shortest way
		h.Must(t)
		k.Same("of a completed one", k.Records(h.ID())[3].FailedLoop, new(2))
	}},
	// The block whose rescue began because of it; the filter of failed items has both.
	{"rescue_of_a_record", func(k *kit) {
		h := k.Start()
		for i, marker := range []*int{nil, new(0), new(7)} {
			h.Must(h.Begin(i))
			t := h.Finish(i)
			t.Ended[0].State, t.Ended[0].Error, t.Ended[0].Rescue = courier.StepFailed, "why", marker
			t.Position = courier.Position{Step: i, Loops: []courier.LoopPosition{{Step: 0, Index: 3, Failed: 1, Rescued: 2, Rescue: true}}}
			h.Must(t)
			k.Same("record", k.Records(h.ID())[i].Rescue, marker)
			k.Same("no failed item", k.LatestOf(h.ID())[i].FailedLoop, (*int)(nil))
			k.Same("position", k.Get(h.ID()).Position, t.Position)
		}
		h.Must(h.Begin(3))
		t := h.Finish(3)
		t.Ended[0].Rescue = new(2) // of a completed one, which takes the shortest way
		h.Must(t)
		list, err := k.Steps(k.Ctx(), store.StepFilter{Execution: h.ID(), FailedItems: true})
		k.OK(err)
		var got []int
		for _, r := range list {
			got = append(got, *r.Rescue)
		}
		k.Same("the filter of failed items", got, []int{0, 7, 2})
	}},
	// The counters about rescues stay in a resume, and the execution has the number of rescued
	// items.
	{"rescued_items_are_counted", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		t := h.Next(0, 1)
		t.Counters.RescuedItems, t.Counters.RescueFails = 3, true
		h.Must(t)
		k.Same("of the execution", k.Get(h.ID()).RescuedItems, 3)
		end := h.To(courier.Failed)
		end.Interrupt, end.Counters = true, store.Counters{RescuedItems: 3, RescueFails: true}
		h.Must(end)
		k.Same("resumed", k.Ask(h.ID(), courier.RequestResume).RescuedItems, 3)
		again := k.Again(h.ID())
		k.Same("claimed", []any{again.Counters.RescuedItems, again.Counters.RescueFails, again.Execution.RescuedItems}, []any{3, true, 3})
	}},
	{"labels_of_the_items_of_a_record", func(k *kit) {
		h := k.Start()
		for i, labels := range [][]string{nil, {"inv-7.csv"}, {"acme", "a\nb \u202e\"<\\"}} {
			h.Must(h.Begin(i))
			t := h.Finish(i)
			t.Ended[0].State, t.Ended[0].Error, t.Ended[0].ItemLabels = courier.StepFailed, "why", labels
			h.Must(t)
			k.Same("record", k.Records(h.ID())[i].ItemLabels, labels)
			k.Same("latest", k.LatestOf(h.ID())[i].ItemLabels, labels)
		}
		h.Must(h.Begin(3))
		t := h.Next(3, 4)
		t.Ended[0].ItemLabels = []string{"a"} // of a completed one, which takes the shortest way
		h.Must(t)
		k.Same("of a completed one", k.Records(h.ID())[3].ItemLabels, []string{"a"})
		f := &courier.Failure{Step: 4, Iteration: []int{2}, ItemLabels: []string{"inv-7.csv"}, Reason: courier.ReasonError, Message: "why"}
		t = h.To(courier.Failed)
		t.Interrupt, t.Failure = true, f
		h.Must(t)
		k.Same("failure", k.Get(h.ID()).Failure, f)
	}},
	// Repairs replace those of the execution; empty ones remove them.
	{"repairs_of_a_transition", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		apply := func(r *courier.Repairs) *courier.Repairs {
			t := h.Next(0, 0)
			t.Repairs = r
			h.Must(t)
			return k.Get(h.ID()).Repairs
		}
		k.Same("set", apply(repairs()), repairs())
		k.Same("unchanged", apply(nil), repairs())
		k.Same("removed", apply(new(courier.Repairs)), (*courier.Repairs)(nil))
	}},
	// RetryJob begins without failed items and without passes of repairs, also where they are
	// given.
	{"retry_of_the_job_forgets_failed_items", func(k *kit) {
		kept := repairs()
		kept.Passes = nil
		h := k.Start()
		retry := func(change func(t *store.Transition)) courier.Execution {
			h.Must(h.Begin(0))
			t := h.Finish(0)
			t.FailedItems, t.Repairs, t.Counters.AcceptedItems = new(2), repairs(), 1
			h.Must(t)
			t = h.To(courier.Queued)
			t.RetryJob, t.Counters = true, store.Counters{JobFailures: 1, AcceptedItems: 1, Target: 2}
			change(&t)
			h.Must(t)
			h = k.Again(h.ID())
			k.Same("counters", h.Counters, store.Counters{JobFailures: 1})
			return h.Execution
		}
		x := retry(func(*store.Transition) {})
		k.Same("failed items and repairs", []any{x.FailedItems, x.Repairs}, []any{0, kept})
		x = retry(func(t *store.Transition) { t.FailedItems = new(5) })
		k.Same("given failed items", []any{x.FailedItems, x.Repairs}, []any{0, kept})
		given := &courier.Repairs{Values: kept.Values[:1], Passes: repairs().Passes}
		x = retry(func(t *store.Transition) { t.Repairs = given })
		k.Same("given repairs", x.Repairs, &courier.Repairs{Values: kept.Values[:1]})
		x = retry(func(t *store.Transition) { t.Repairs = &courier.Repairs{Passes: repairs().Passes} })
		k.Same("given passes", x.Repairs, (*courier.Repairs)(nil))
		h.Must(h.Begin(0))
		t := h.Finish(0)
		t.Repairs = &courier.Repairs{Passes: repairs().Passes}
		h.Must(t)
		t = h.To(courier.Queued)
		t.RetryJob = true
		h.Must(t)
		k.Same("passes alone", k.Get(h.ID()).Repairs, (*courier.Repairs)(nil))
	}},
}

// itemRestartCases are about restarts of executions with failed items.
var itemRestartCases = []testCase{
	// A restart begins without failed items and without passes of repairs.
	{"restart_forgets_failed_items", func(k *kit) {
		h := k.Start()
		t := h.To(courier.Failed)
		t.Workspace, t.FailedItems, t.Repairs, t.Counters.AcceptedItems = "here", new(2), repairs(), 1
		h.Must(t)
		x := k.Ask(h.ID(), courier.RequestRestart)
		kept := repairs()
		kept.Passes = nil
		k.Same("failed items and repairs", []any{x.FailedItems, x.Repairs}, []any{0, kept})
		k.Same("counters", k.Again(h.ID()).Counters, store.Counters{})
	}},
	{"resume_keeps_failed_items", func(k *kit) {
		h := k.failedItems(2)
		k.Same("failed items", k.Ask(h.ID(), courier.RequestResume).FailedItems, 2)
		k.Same("counters", k.Again(h.ID()).Counters, store.Counters{
			Attempts: 3, Resumed: courier.Failed, AcceptedItems: 1, Target: 4,
		})
	}},
}

// recordCases are about lists of records.
var recordCases = []testCase{
	{"filter_by_failed_items", func(k *kit) {
		k.Limit("", "0")
		a, b := k.failedItems(1), k.failedItems(2)
		k.failedItems(0)
		k.listed("all", store.Filter{FailedItems: true}, b.ID(), a.ID())
		k.listed("a page", store.Filter{FailedItems: true, Before: b.ID(), Limit: 1}, a.ID())
		k.listed("of a state", store.Filter{FailedItems: true, States: []courier.State{courier.Completed}})
		k.listed("of a job", store.Filter{FailedItems: true, Job: "job"}, b.ID(), a.ID())
	}},
	{"filter_by_rerun", func(k *kit) {
		first := k.Add(k.New())[0].ID
		again := func(of courier.ExecutionID) courier.ExecutionID {
			x := k.Add(k.With(func(n *store.NewExecution) { n.RerunOf = of }))[0]
			k.Same("rerun of", x.RerunOf, of)
			return x.ID
		}
		a := again(first)
		b, c := again(first), again(a)
		list := k.Add(k.With(func(n *store.NewExecution) { n.RerunOf = c }), k.New()) // created in one call
		k.Same("rerun of", []courier.ExecutionID{k.Get(list[0].ID).RerunOf, k.Get(list[1].ID).RerunOf}, []courier.ExecutionID{c, ""})
		k.listed("reruns", store.Filter{RerunOf: first}, b, a)
		k.listed("a page", store.Filter{RerunOf: first, Before: b}, a)
		k.listed("reruns of a rerun", store.Filter{RerunOf: a}, c)
		k.listed("none", store.Filter{RerunOf: b})
	}},
	// By attempt of the execution, step, states and failed items, and any of them together.
	{"steps_by_filter", func(k *kit) {
		h := k.history()
		all := k.Records(h.ID())
		zero, one, nine := 0, 1, 9
		for _, f := range []store.StepFilter{
			{Attempt: 1}, {Attempt: 2}, {Attempt: 3}, {Step: &zero}, {Step: &one}, {Step: &nine},
			{Attempt: 1, Step: &one}, {Attempt: 2, Step: &one}, {Attempt: 2, Step: &nine}, {Attempt: 3, Step: &one},
			{States: []courier.StepState{courier.StepFailed}}, {States: []courier.StepState{courier.StepFailed, courier.StepSkipped}},
			{States: []courier.StepState{}}, {FailedItems: true}, {FailedItems: true, Attempt: 1}, {FailedItems: true, Attempt: 2},
			{FailedItems: true, Step: &one}, {Files: true}, {Files: true, Attempt: 1}, {Files: true, Attempt: 2, Step: &one}, {FailedItems: true, Attempt: 2, Step: &one},
			{Attempt: 2, Step: &one, States: []courier.StepState{courier.StepFailed}},
		} {
			f.Execution = h.ID()
			for _, after := range []int64{0, all[2].Seq, all[5].Seq - 1, all[len(all)-1].Seq} {
				f.After = after
				var want []courier.StepExecution
				for _, r := range all {
					if selects(&f, &r) {
						want = append(want, r)
					}
				}
				k.Same(storekit.Text(f), k.allSteps(f, 1000), want)
				k.Same("page by page "+storekit.Text(f), k.allSteps(f, 2), want)
			}
		}
	}},
	{"steps_of_an_item", func(k *kit) {
		h := k.Start()
		for _, r := range []struct {
			step      int
			iteration []int
		}{{1, nil}, {3, []int{2}}, {4, []int{2}}, {6, []int{2, 7}}, {6, []int{27}}, {6, []int{2, 72}}, {7, []int{2}}, {8, []int{2}}, {3, []int{27}}, {4, []int{0, 2}}, {4, []int{2}}} {
			begin, t := h.Begin(r.step), h.Finish(r.step)
			begin.Start.Iteration, t.Ended[0].Iteration = r.iteration, r.iteration
			h.Must(begin)
			t.Seq = h.Seq + 1
			h.Must(t)
		}
		all := k.Records(h.ID())
		for _, f := range []store.StepFilter{
			{Item: &courier.ItemPath{Loop: 2, Iteration: []int{2}}, ItemEnd: 7}, {Item: &courier.ItemPath{Loop: 2, Iteration: []int{27}}, ItemEnd: 7},
			{Item: &courier.ItemPath{Loop: 5, Iteration: []int{2, 7}}, ItemEnd: 6}, {Item: &courier.ItemPath{Loop: 2, Iteration: []int{9}}, ItemEnd: 7},
			{Item: &courier.ItemPath{Loop: 2, Iteration: []int{2}}, ItemEnd: 7, Step: new(4)}, {Item: &courier.ItemPath{Loop: 2, Iteration: []int{2}}, ItemEnd: 7, Step: new(4), Attempt: 1},
			{Item: &courier.ItemPath{Loop: 2, Iteration: []int{2}}, ItemEnd: 7, Attempt: 1, States: []courier.StepState{courier.StepCompleted}},
		} {
			f.Execution = h.ID()
			var want []courier.StepExecution
			for _, r := range all {
				if selects(&f, &r) && f.Holds(r.Step, r.Iteration) {
					want = append(want, r)
				}
			}
			k.Same(storekit.Text(f), k.allSteps(f, 1000), want)
			k.Same("page by page "+storekit.Text(f), k.allSteps(f, 2), want)
		}
		k.Same("of the item", len(k.allSteps(store.StepFilter{Execution: h.ID(), Item: &courier.ItemPath{Loop: 2, Iteration: []int{2}}, ItemEnd: 7}, 1000)), 6)
	}},
	// Among those with a lower number.
	{"latest_before", func(k *kit) {
		h := k.history()
		x, all := k.Get(h.ID()), k.Records(h.ID())
		for before := int64(0); before <= x.Seq+1; before++ {
			latest := make(map[int]courier.StepExecution)
			for _, r := range all {
				if r.ExecutionAttempt == x.Attempt && (r.Seq < before || before == 0) {
					latest[r.Step] = r
				}
			}
			var want []courier.StepExecution
			for i := range 10 {
				if r, ok := latest[i]; ok {
					want = append(want, r)
				}
			}
			got, err := k.Latest(k.Ctx(), store.LatestFilter{Execution: h.ID(), Before: before})
			k.OK(err)
			k.Same(fmt.Sprint("before ", before), got, want)
		}
	}},
}

// selects reports whether a filter selects a record of its execution.
func selects(f *store.StepFilter, r *courier.StepExecution) bool {
	state := len(f.States) == 0
	for _, s := range f.States {
		state = state || r.State == s
	}
	return r.Seq > f.After && state && (f.Attempt == 0 || r.ExecutionAttempt == f.Attempt) && (f.Step == nil || r.Step == *f.Step) &&
		(!f.FailedItems || r.FailedLoop != nil) && (!f.Files || len(r.Files) > 0)
}

// allSteps returns what a filter selects, by pages.
func (k *kit) allSteps(f store.StepFilter, page int) (all []courier.StepExecution) {
	k.Helper()
	for f.Limit = page; ; {
		list, err := k.Steps(k.Ctx(), f)
		k.OK(err)
		all = append(all, list...)
		if len(list) < page {
			return all
		}
		f.After = list[len(list)-1].Seq
	}
}

// failedItems is an execution that has failed at step 4, after so many failed items.
func (k *kit) failedItems(n int) *holder {
	k.Helper()
	h := k.Start()
	for i := range n {
		begin, t := h.Begin(4), h.Finish(4)
		begin.Start.Iteration, t.Ended[0].Iteration = []int{i}, []int{i}
		h.Must(begin)
		t.Seq = h.Seq + 1
		t.Ended[0].State, t.Ended[0].FailedLoop = courier.StepFailed, new(3)
		h.Must(t)
	}
	h.Must(h.Begin(4))
	t := h.To(courier.Failed)
	t.Interrupt, t.Position.Step, t.FailedItems = true, 4, &n
	t.Counters = store.Counters{Attempts: 3, Failures: 1, AcceptedItems: 1, Target: 4}
	h.Must(t)
	return h
}

// history is a running execution with records of two attempts: of several steps, in
// several states, with and without failed items.
func (k *kit) history() *holder {
	k.Helper()
	h := k.Start()
	end := func(step int, state courier.StepState, loop *int) {
		h.Must(h.Begin(step))
		t := h.Finish(step)
		t.Ended[0].State, t.Ended[0].FailedLoop = state, loop
		h.Must(t)
	}
	for attempt := range 2 {
		end(0, courier.StepCompleted, nil)
		for range 3 {
			end(1, courier.StepFailed, new(0))
			end(2, courier.StepCompleted, nil)
			end(1, courier.StepSkipped, nil)
			end(1, courier.StepFailed, nil)
		}
		end(9, courier.StepFailed, new(8))
		if attempt == 0 {
			t := h.To(courier.Queued)
			t.RetryJob = true
			h.Must(t)
			h = k.Again(h.ID())
		}
	}
	return h
}
