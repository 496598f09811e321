package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

var archiveCases = []testCase{
	{"audit_entries_are_those_of_the_contract", func(k *kit) {
		h := k.lose(0) // an attempt of step 0 is lost with its worker
		x := k.get(h.id())
		created := x
		created.State = courier.Queued
		begin := h.begin(0)
		want := slices.Concat(store.EnqueueEntries(&created), store.ClaimEntries(&x, false), begin.Entries(nil, ""))
		k.sameEntries("created, claimed, started", k.audit(h.id()), want)
		k.again(h.id())
		want = append(want, store.ClaimEntries(&x, true)...)
		k.sameEntries("reclaimed", k.audit(h.id()), want)

		h = k.lose(0)
		x = k.get(h.id())
		before := k.audit(h.id())
		k.ask(h.id(), courier.RequestCancel)
		k.sameEntries("cancelled without its worker", k.audit(h.id()), append(before, store.RequestEntries(&x, courier.Cancelled, store.Request{By: "ann"})...))
	}},
	{"unknown_execution", func(k *kit) {
		const id = courier.ExecutionID("00000000-0000-7000-8000-000000000000")
		_, err := k.Execution(k.ctx(), id)
		k.is("execution", err, courier.ErrNotFound)
		k.same("steps", len(k.records(id)), 0)
		k.same("latest", len(k.latest(id)), 0)
		k.same("audit", len(k.audit(id)), 0)
	}},
	{"newest_first", func(k *kit) {
		a, b, c := k.new(), k.new(), k.new()
		k.add(b, c)
		k.add(a) // the order is that of the ids
		k.listed("all", store.Filter{}, c.ID, b.ID, a.ID)
	}},
	{"pages", func(k *kit) {
		var ids []courier.ExecutionID
		for range 7 {
			ids = append(ids, k.add(k.new())[0].ID)
		}
		slices.Reverse(ids)
		k.listed("first page", store.Filter{Limit: 3}, ids[:3]...)
		k.listed("second page", store.Filter{Limit: 3, Before: ids[2]}, ids[3:6]...)
		k.add(k.new()) // moves no page
		k.listed("third page", store.Filter{Limit: 3, Before: ids[5]}, ids[6])
		k.listed("after the last", store.Filter{Limit: 3, Before: ids[6]})
	}},
	{"limits_of_pages", func(k *kit) {
		k.fill(1005)
		for limit, want := range map[int]int{0: 100, 1: 1, 150: 150, 1000: 1000, 5000: 1000} {
			list, err := k.Executions(k.ctx(), store.Filter{Limit: limit})
			k.ok(err)
			k.same(fmt.Sprint("limit ", limit), len(list), want)
		}
	}},
	{"filter_by_job", func(k *kit) {
		k.job("other")
		n := k.new()
		n.Job = "other"
		k.add(k.new(), n, k.new())
		k.listed("other", store.Filter{Job: "other"}, n.ID)
		k.listed("nobody", store.Filter{Job: "nobody"})
	}},
	{"filter_by_state", func(k *kit) {
		queued := k.add(k.new())[0].ID
		running := k.start().id()
		failed := k.left(courier.Failed)
		held := k.add(k.with(func(n *store.NewExecution) { n.Hold = true }))[0].ID
		k.listed("queued", store.Filter{States: []courier.State{courier.Queued}}, queued)
		k.listed("two states", store.Filter{States: []courier.State{courier.Failed, courier.Running}}, failed, running)
		k.listed("created", store.Filter{States: []courier.State{courier.Created}}, held)
		k.listed("completed", store.Filter{States: []courier.State{courier.Completed}})
		k.listed("any state", store.Filter{States: []courier.State{}}, held, failed, running, queued)
	}},
	{"filter_by_reason", func(k *kit) {
		ends := func(to courier.State, reason courier.Reason) courier.ExecutionID {
			h := k.start()
			t := h.to(to)
			t.Failure = &courier.Failure{Step: 1, Reason: reason, Message: "why"}
			h.must(t)
			return h.id()
		}
		k.add(k.new())
		lost, full := ends(courier.Failed, courier.ReasonConnection), ends(courier.Failed, courier.ReasonSpace)
		k.left(courier.Failed)
		retried := ends(courier.Queued, courier.ReasonConnection)
		both := []courier.Reason{courier.ReasonSpace, courier.ReasonConnection}
		k.listed("one", store.Filter{Reasons: both[:1]}, full)
		k.listed("two", store.Filter{Reasons: both}, retried, full, lost)
		k.listed("with a state", store.Filter{Reasons: both, States: []courier.State{courier.Failed}}, full, lost)
		k.listed("a page", store.Filter{Reasons: both, Before: full, Limit: 1}, lost)
		k.listed("another", store.Filter{Reasons: []courier.Reason{courier.ReasonQuota}})
	}},
	{"filter_by_queue", func(k *kit) {
		id := k.add(k.with(func(n *store.NewExecution) { n.Queue = "night" }))[0].ID
		k.add(k.new())
		k.listed("night", store.Filter{Queue: "night"}, id)
	}},
	{"filters_together", func(k *kit) {
		k.job("other")
		var want []courier.ExecutionID
		for i := range 16 {
			n := k.new()
			if i&1 > 0 {
				n.Job = "other"
			}
			if i&2 > 0 {
				n.Queue = "night"
			}
			n.Hold = i&4 > 0
			k.add(n)
			if i&7 == 7 {
				want = append(want, n.ID)
			}
		}
		f := store.Filter{Job: "other", Queue: "night", States: []courier.State{courier.Created}}
		k.listed("all three", f, want[1], want[0])
		f.Before = want[1]
		k.listed("and before", f, want[0])
	}},
	{"steps_in_order_and_pages", func(k *kit) {
		h := k.long(9)
		all := k.records(h.id())
		k.same("records", len(all), 9)
		var seqs []int64
		for _, r := range all {
			seqs = append(seqs, r.Seq)
		}
		k.same("in order", slices.IsSorted(seqs), true)
		var got []courier.StepExecution
		after := int64(0)
		for range 5 {
			list, err := k.Steps(k.ctx(), store.StepFilter{Execution: h.id(), After: after, Limit: 2})
			k.ok(err)
			if got = append(got, list...); len(list) > 0 {
				after = list[len(list)-1].Seq
			}
		}
		k.same("pages", got, all)
	}},
	{"latest_of_each_step", func(k *kit) {
		h := k.start()
		h.must(h.begin(2))
		for _, m := range [][2]int{{2, 0}, {0, 2}, {2, 1}} {
			h.must(h.next(m[0], m[1]))
		}
		t := h.finish(1)
		t.Ended[0].State, t.Ended[0].Error = courier.StepFailed, "why"
		h.must(t)
		var got []string
		for _, r := range k.latest(h.id()) {
			got = append(got, fmt.Sprintf("%d:%s@%d", r.Step, r.State, r.Seq))
		}
		k.same("latest", got, []string{"0:completed@6", "1:failed@10", "2:completed@8"})
	}},
	{"latest_is_not_the_current_step", func(k *kit) {
		h := k.start()
		h.must(h.begin(0))
		k.same("latest", len(k.latest(h.id())), 0)
		h.must(h.next(0, 0))
		k.same("latest then", len(k.latest(h.id())), 1)
	}},
	{"latest_of_the_current_attempt", func(k *kit) {
		h := k.start()
		h.must(h.begin(0))
		h.must(h.next(0, 1))
		t := h.next(1, 0)
		t.RetryJob = true
		h.must(t)
		k.same("latest", len(k.latest(h.id())), 0)
		h.must(h.next(0, 1))
		list := k.latest(h.id())
		k.same("latest then", []int{len(list), list[0].Step, list[0].ExecutionAttempt}, []int{1, 0, 2})
		k.same("records", len(k.records(h.id())), 3)
	}},
	{"audit_in_order_and_pages", func(k *kit) {
		h := k.long(9)
		all := k.audit(h.id())
		k.same("entries", len(all), 2+2*9)
		var got []courier.AuditEntry
		for range 7 {
			list, err := k.Audit(k.ctx(), store.AuditFilter{Execution: h.id(), After: int64(len(got)), Limit: 3})
			k.ok(err)
			got = append(got, list...)
		}
		k.same("pages", got, all)
		list, err := k.Audit(k.ctx(), store.AuditFilter{Execution: h.id(), After: 4, Limit: 2}) // in the middle of a transition
		k.ok(err)
		k.same("from the middle", list, all[4:6])
		list, err = k.Audit(k.ctx(), store.AuditFilter{Execution: h.id(), After: int64(len(all))})
		k.ok(err)
		k.same("after the last", len(list), 0)
	}},
	{"of_each_execution_alone", func(k *kit) {
		a, b := k.long(2), k.long(3)
		k.same("steps", []int{len(k.records(a.id())), len(k.records(b.id()))}, []int{2, 3})
		k.same("latest", []int{len(k.latest(a.id())), len(k.latest(b.id()))}, []int{2, 3})
		k.same("audit", []int{len(k.audit(a.id())), len(k.audit(b.id()))}, []int{6, 8})
	}},
}

// listed lists executions and reports others than the wanted ones.
func (k *kit) listed(what string, f store.Filter, want ...courier.ExecutionID) {
	k.Helper()
	list, err := k.Executions(k.ctx(), f)
	k.ok(err)
	got := make([]courier.ExecutionID, len(list))
	for i := range list {
		got[i] = list[i].ID
		k.same(what, list[i], k.get(list[i].ID))
	}
	k.same(what, got, want)
}

// long is a running execution with n ended steps and none present.
func (k *kit) long(n int) *holder {
	k.Helper()
	h := k.start()
	h.must(h.begin(0))
	for i := 1; i < n; i++ {
		h.must(h.next(i-1, i))
	}
	h.must(h.finish(n - 1))
	return h
}

// sameEntries compares audit entries without the fields that the store sets.
func (k *kit) sameEntries(what string, got, want []courier.AuditEntry) {
	k.Helper()
	bare := func(list []courier.AuditEntry) []courier.AuditEntry {
		list = slices.Clone(list)
		for i := range list {
			e := &list[i]
			e.Seq, e.At, e.Elapsed, e.Worker = 0, time.Time{}, 0, ""
		}
		return list
	}
	k.same(what, bare(got), bare(want))
}
