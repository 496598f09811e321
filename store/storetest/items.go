package storetest

import (
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// itemCases are about failed items of loops, and repairs, in transitions.
var itemCases = []testCase{
	{"failed_items_are_counted", func(k *kit) {
		h := k.start()
		h.must(h.begin(0))
		k.same("none", k.get(h.id()).FailedItems, 0)
		count := func(n *int) int {
			t := h.next(0, 0)
			t.FailedItems = n
			h.must(t)
			return k.get(h.id()).FailedItems
		}
		three, none := 3, 0
		k.same("three", count(&three), 3)
		k.same("unchanged", count(nil), 3)
		k.listed("in a list", store.Filter{FailedItems: true}, h.id())
		k.same("none again", count(&none), 0)
		k.listed("in no list", store.Filter{FailedItems: true})
		k.same("three again", count(&three), 3)
		t := h.to(courier.Failed)
		t.Interrupt = true
		h.must(t)
		k.same("resumed", k.ask(h.id(), courier.RequestResume).FailedItems, 3)
		k.same("claimed", k.again(h.id()).Execution.FailedItems, 3)
	}},
	{"failed_items_below_none", func(k *kit) {
		h := k.start()
		h.must(h.begin(0))
		t, n := h.next(0, 1), -1
		t.FailedItems = &n
		k.unchanged("a number below 0", h.id(), func() { k.is("error", k.Apply(k.ctx(), t), courier.ErrInvalid) })
	}},
	{"failed_loop_of_a_record", func(k *kit) {
		h := k.start()
		for i, loop := range []*int{nil, new(0), new(7)} {
			h.must(h.begin(i))
			t := h.finish(i)
			t.Ended[0].State, t.Ended[0].Error, t.Ended[0].FailedLoop = courier.StepFailed, "why", loop
			h.must(t)
			k.same("record", k.records(h.id())[i].FailedLoop, loop)
			k.same("latest", k.latest(h.id())[i].FailedLoop, loop)
		}
		h.must(h.begin(3))
		t := h.next(3, 4)
		t.Ended[0].FailedLoop = new(2) // of a completed one, which takes the shortest way
		h.must(t)
		k.same("of a completed one", k.records(h.id())[3].FailedLoop, new(2))
	}},
	{"repairs_of_a_transition", func(k *kit) {
		h := k.start()
		h.must(h.begin(0))
		apply := func(r *courier.Repairs) *courier.Repairs {
			t := h.next(0, 0)
			t.Repairs = r
			h.must(t)
			return k.get(h.id()).Repairs
		}
		k.same("set", apply(repairs()), repairs())
		k.same("unchanged", apply(nil), repairs())
		k.same("removed", apply(new(courier.Repairs)), (*courier.Repairs)(nil))
	}},
	{"retry_of_the_job_forgets_failed_items", func(k *kit) {
		kept := repairs()
		kept.Passes = nil
		h := k.start()
		retry := func(change func(t *store.Transition)) courier.Execution {
			h.must(h.begin(0))
			t := h.finish(0)
			t.FailedItems, t.Repairs, t.Counters.AcceptedItems = new(2), repairs(), 1
			h.must(t)
			t = h.to(courier.Queued)
			t.RetryJob, t.Counters = true, store.Counters{JobFailures: 1, AcceptedItems: 1, Target: 2}
			change(&t)
			h.must(t)
			h = k.again(h.id())
			k.same("counters", h.Counters, store.Counters{JobFailures: 1})
			return h.Execution
		}
		x := retry(func(*store.Transition) {})
		k.same("failed items and repairs", []any{x.FailedItems, x.Repairs}, []any{0, kept})
		x = retry(func(t *store.Transition) { t.FailedItems = new(5) })
		k.same("given failed items", []any{x.FailedItems, x.Repairs}, []any{0, kept})
		given := &courier.Repairs{Values: kept.Values[:1], Passes: repairs().Passes}
		x = retry(func(t *store.Transition) { t.Repairs = given })
		k.same("given repairs", x.Repairs, &courier.Repairs{Values: kept.Values[:1]})
		x = retry(func(t *store.Transition) { t.Repairs = &courier.Repairs{Passes: repairs().Passes} })
		k.same("given passes", x.Repairs, (*courier.Repairs)(nil))
		h.must(h.begin(0))
		t := h.finish(0)
		t.Repairs = &courier.Repairs{Passes: repairs().Passes}
		h.must(t)
		t = h.to(courier.Queued)
		t.RetryJob = true
		h.must(t)
		k.same("passes alone", k.get(h.id()).Repairs, (*courier.Repairs)(nil))
	}},
}

// itemRestartCases are about restarts of executions with failed items.
var itemRestartCases = []testCase{
	{"restart_forgets_failed_items", func(k *kit) {
		h := k.start()
		t := h.to(courier.Failed)
		t.Workspace, t.FailedItems, t.Repairs, t.Counters.AcceptedItems = "here", new(2), repairs(), 1
		h.must(t)
		x := k.ask(h.id(), courier.RequestRestart)
		kept := repairs()
		kept.Passes = nil
		k.same("failed items and repairs", []any{x.FailedItems, x.Repairs}, []any{0, kept})
		k.same("counters", k.again(h.id()).Counters, store.Counters{})
	}},
	{"resume_keeps_failed_items", func(k *kit) {
		h := k.failedItems(2)
		k.same("failed items", k.ask(h.id(), courier.RequestResume).FailedItems, 2)
		k.same("counters", k.again(h.id()).Counters, store.Counters{
			Attempts: 3, Resumed: courier.Failed, AcceptedItems: 1, Target: 4,
		})
	}},
}

// recordCases are about lists of records.
var recordCases = []testCase{
	{"filter_by_failed_items", func(k *kit) {
		k.limit("", "0")
		a, b := k.failedItems(1), k.failedItems(2)
		k.failedItems(0)
		k.listed("all", store.Filter{FailedItems: true}, b.id(), a.id())
		k.listed("a page", store.Filter{FailedItems: true, Before: b.id(), Limit: 1}, a.id())
		k.listed("of a state", store.Filter{FailedItems: true, States: []courier.State{courier.Completed}})
		k.listed("of a job", store.Filter{FailedItems: true, Job: "job"}, b.id(), a.id())
	}},
	{"filter_by_rerun", func(k *kit) {
		first := k.add(k.new())[0].ID
		again := func(of courier.ExecutionID) courier.ExecutionID {
			x := k.add(k.with(func(n *store.NewExecution) { n.RerunOf = of }))[0]
			k.same("rerun of", x.RerunOf, of)
			return x.ID
		}
		a := again(first)
		b, c := again(first), again(a)
		list := k.add(k.with(func(n *store.NewExecution) { n.RerunOf = c }), k.new()) // created in one call
		k.same("rerun of", []courier.ExecutionID{k.get(list[0].ID).RerunOf, k.get(list[1].ID).RerunOf}, []courier.ExecutionID{c, ""})
		k.listed("reruns", store.Filter{RerunOf: first}, b, a)
		k.listed("a page", store.Filter{RerunOf: first, Before: b}, a)
		k.listed("reruns of a rerun", store.Filter{RerunOf: a}, c)
		k.listed("none", store.Filter{RerunOf: b})
	}},
	{"steps_by_filter", func(k *kit) {
		h := k.history()
		all := k.records(h.id())
		zero, one, nine := 0, 1, 9
		for _, f := range []store.StepFilter{
			{Attempt: 1}, {Attempt: 2}, {Attempt: 3}, {Step: &zero}, {Step: &one}, {Step: &nine},
			{Attempt: 1, Step: &one}, {Attempt: 2, Step: &one}, {Attempt: 2, Step: &nine}, {Attempt: 3, Step: &one},
			{States: []courier.StepState{courier.StepFailed}}, {States: []courier.StepState{courier.StepFailed, courier.StepSkipped}},
			{States: []courier.StepState{}}, {FailedItems: true}, {FailedItems: true, Attempt: 1}, {FailedItems: true, Attempt: 2},
			{FailedItems: true, Step: &one}, {Files: true}, {Files: true, Attempt: 1}, {Files: true, Attempt: 2, Step: &one}, {FailedItems: true, Attempt: 2, Step: &one},
			{Attempt: 2, Step: &one, States: []courier.StepState{courier.StepFailed}},
		} {
			f.Execution = h.id()
			for _, after := range []int64{0, all[2].Seq, all[5].Seq - 1, all[len(all)-1].Seq} {
				f.After = after
				var want []courier.StepExecution
				for _, r := range all {
					if selects(&f, &r) {
						want = append(want, r)
					}
				}
				k.same(text(f), k.allSteps(f, 1000), want)
				k.same("page by page "+text(f), k.allSteps(f, 2), want)
			}
		}
	}},
	{"latest_before", func(k *kit) {
		h := k.history()
		x, all := k.get(h.id()), k.records(h.id())
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
			got, err := k.Latest(k.ctx(), store.LatestFilter{Execution: h.id(), Before: before})
			k.ok(err)
			k.same(fmt.Sprint("before ", before), got, want)
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
		list, err := k.Steps(k.ctx(), f)
		k.ok(err)
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
	h := k.start()
	for i := range n {
		begin, t := h.begin(4), h.finish(4)
		begin.Start.Iteration, t.Ended[0].Iteration = []int{i}, []int{i}
		h.must(begin)
		t.Seq = h.seq + 1
		t.Ended[0].State, t.Ended[0].FailedLoop = courier.StepFailed, new(3)
		h.must(t)
	}
	h.must(h.begin(4))
	t := h.to(courier.Failed)
	t.Interrupt, t.Position.Step, t.FailedItems = true, 4, &n
	t.Counters = store.Counters{Attempts: 3, Failures: 1, AcceptedItems: 1, Target: 4}
	h.must(t)
	return h
}

// history is a running execution with records of two attempts: of several steps, in
// several states, with and without failed items.
func (k *kit) history() *holder {
	k.Helper()
	h := k.start()
	end := func(step int, state courier.StepState, loop *int) {
		h.must(h.begin(step))
		t := h.finish(step)
		t.Ended[0].State, t.Ended[0].FailedLoop = state, loop
		h.must(t)
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
			t := h.to(courier.Queued)
			t.RetryJob = true
			h.must(t)
			h = k.again(h.id())
		}
	}
	return h
}
