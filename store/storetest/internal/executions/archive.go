package executions

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

var archiveCases = []testCase{
	// Audit entries are those that EnqueueEntries, ClaimEntries, RequestEntries and
	// Transition.Entries return.
	{"audit_entries_are_those_of_the_contract", func(k *kit) {
		h := k.Lose(0) // an attempt of step 0 is lost with its worker
		x := k.Get(h.ID())
		created := x
		created.State = courier.Queued
		begin := h.Begin(0)
		want := slices.Concat(store.EnqueueEntries(&created), store.ClaimEntries(&x, false), begin.Entries(nil, ""))
		k.sameEntries("created, claimed, started", k.AuditOf(h.ID()), want)
		k.Again(h.ID())
		want = append(want, store.ClaimEntries(&x, true)...)
		k.sameEntries("reclaimed", k.AuditOf(h.ID()), want)

		h = k.Lose(0)
		x = k.Get(h.ID())
		before := k.AuditOf(h.ID())
		k.Ask(h.ID(), courier.RequestCancel)
		k.sameEntries("cancelled without its worker", k.AuditOf(h.ID()), append(before, store.RequestEntries(&x, courier.Cancelled, store.Request{By: "ann"})...))
	}},
	// An unknown execution is ErrNotFound, and has no steps and no audit.
	{"unknown_execution", func(k *kit) {
		const id = courier.ExecutionID("00000000-0000-7000-8000-000000000000")
		_, err := k.Execution(k.Ctx(), id)
		k.Is("execution", err, courier.ErrNotFound)
		k.Same("steps", len(k.Records(id)), 0)
		k.Same("latest", len(k.LatestOf(id)), 0)
		k.Same("audit", len(k.AuditOf(id)), 0)
	}},
	// Executions come by id, highest first.
	{"newest_first", func(k *kit) {
		a, b, c := k.New(), k.New(), k.New()
		k.Add(b, c)
		k.Add(a) // the order is that of the ids
		k.listed("all", store.Filter{}, c.ID, b.ID, a.ID)
	}},
	// A page begins before an id, whatever is created meanwhile.
	{"pages", func(k *kit) {
		var ids []courier.ExecutionID
		for range 7 {
			ids = append(ids, k.Add(k.New())[0].ID)
		}
		slices.Reverse(ids)
		k.listed("first page", store.Filter{Limit: 3}, ids[:3]...)
		k.listed("second page", store.Filter{Limit: 3, Before: ids[2]}, ids[3:6]...)
		k.Add(k.New()) // moves no page
		k.listed("third page", store.Filter{Limit: 3, Before: ids[5]}, ids[6])
		k.listed("after the last", store.Filter{Limit: 3, Before: ids[6]})
	}},
	// A list has neither params nor repairs (nor results: apply/...).
	{"lists_have_no_large_values", func(k *kit) {
		n := k.New()
		n.Params, n.Labels = json.RawMessage(`{"text": "a"}`), map[string]string{"partner": "acme"}
		x := k.Add(n)[0]
		list, err := k.Executions(k.Ctx(), store.Filter{})
		k.OK(err)
		k.Same("an execution has its parameters", string(x.Params), `{"text": "a"}`)
		x.Params = nil
		k.Same("and in a list all but these", list, []courier.Execution{x})
	}},
	{"limits_of_pages", func(k *kit) {
		k.fill(1005)
		for limit, want := range map[int]int{0: 100, 1: 1, 150: 150, 1000: 1000, 5000: 1000} {
			list, err := k.Executions(k.Ctx(), store.Filter{Limit: limit})
			k.OK(err)
			k.Same(fmt.Sprint("limit ", limit), len(list), want)
		}
	}},
	{"filter_by_ids", func(k *kit) {
		n := k.Add(k.New(), k.New(), k.New())
		a, b, c := n[0].ID, n[1].ID, n[2].ID
		ids := []courier.ExecutionID{c, "none", a, courier.ExecutionID(k.IDs.New()), c}
		k.listed("two that exist", store.Filter{IDs: ids}, c, a)
		k.listed("before", store.Filter{IDs: ids, Before: b}, a)
		k.listed("no id", store.Filter{IDs: []courier.ExecutionID{}})
	}},
	{"filter_by_job", func(k *kit) {
		k.Job("other")
		n := k.New()
		n.Job = "other"
		k.Add(k.New(), n, k.New())
		k.listed("other", store.Filter{Job: "other"}, n.ID)
		k.listed("nobody", store.Filter{Job: "nobody"})
	}},
	{"filter_by_state", func(k *kit) {
		queued := k.Add(k.New())[0].ID
		running := k.Start().ID()
		failed := k.left(courier.Failed)
		held := k.Add(k.With(func(n *store.NewExecution) { n.Hold = true }))[0].ID
		k.listed("queued", store.Filter{States: []courier.State{courier.Queued}}, queued)
		k.listed("two states", store.Filter{States: []courier.State{courier.Failed, courier.Running}}, failed, running)
		k.listed("created", store.Filter{States: []courier.State{courier.Created}}, held)
		k.listed("completed", store.Filter{States: []courier.State{courier.Completed}})
		k.listed("any state", store.Filter{States: []courier.State{}}, held, failed, running, queued)
	}},
	{"filter_by_reason", func(k *kit) {
		ends := func(to courier.State, reason courier.Reason) courier.ExecutionID {
			h := k.Start()
			t := h.To(to)
			t.Failure = &courier.Failure{Step: 1, Reason: reason, Message: "why"}
			h.Must(t)
			return h.ID()
		}
		k.Add(k.New())
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
		id := k.Add(k.With(func(n *store.NewExecution) { n.Queue = "night" }))[0].ID
		k.Add(k.New())
		k.listed("night", store.Filter{Queue: "night"}, id)
	}},
	{"filters_together", func(k *kit) {
		k.Job("other")
		var want []courier.ExecutionID
		for i := range 16 {
			n := k.New()
			if i&1 > 0 {
				n.Job = "other"
			}
			if i&2 > 0 {
				n.Queue = "night"
			}
			n.Hold = i&4 > 0
			k.Add(n)
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
		all := k.Records(h.ID())
		k.Same("records", len(all), 9)
		var seqs []int64
		for _, r := range all {
			seqs = append(seqs, r.Seq)
		}
		k.Same("in order", slices.IsSorted(seqs), true)
		var got []courier.StepExecution
		after := int64(0)
		for range 5 {
			list, err := k.Steps(k.Ctx(), store.StepFilter{Execution: h.ID(), After: after, Limit: 2})
			k.OK(err)
			if got = append(got, list...); len(list) > 0 {
				after = list[len(list)-1].Seq
			}
		}
		k.Same("pages", got, all)
	}},
	// Latest has the last record of each step, in the order of the steps.
	{"latest_of_each_step", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(2))
		for _, m := range [][2]int{{2, 0}, {0, 2}, {2, 1}} {
			h.Must(h.Next(m[0], m[1]))
		}
		t := h.Finish(1)
		t.Ended[0].State, t.Ended[0].Error = courier.StepFailed, "why"
		h.Must(t)
		var got []string
		for _, r := range k.LatestOf(h.ID()) {
			got = append(got, fmt.Sprintf("%d:%s@%d", r.Step, r.State, r.Seq))
		}
		k.Same("latest", got, []string{"0:completed@6", "1:failed@10", "2:completed@8"})
	}},
	{"latest_is_not_the_current_step", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		k.Same("latest", len(k.LatestOf(h.ID())), 0)
		h.Must(h.Next(0, 0))
		k.Same("latest then", len(k.LatestOf(h.ID())), 1)
	}},
	{"latest_of_the_current_attempt", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		h.Must(h.Next(0, 1))
		t := h.To(courier.Queued)
		t.Ended, t.RetryJob = []courier.StepExecution{{Step: 1, Type: "a", Attempt: 1, State: courier.StepCompleted}}, true
		h.Must(t)
		k.Same("latest", len(k.LatestOf(h.ID())), 0)
		h = k.Again(h.ID())
		h.Must(h.Begin(0))
		h.Must(h.Next(0, 1))
		list := k.LatestOf(h.ID())
		k.Same("latest then", []int{len(list), list[0].Step, list[0].ExecutionAttempt}, []int{1, 0, 2})
		k.Same("records", len(k.Records(h.ID())), 3)
	}},
	// Without outputs and files if the filter is Brief.
	{"brief_records_have_no_values", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		t := h.Next(0, 1)
		t.Ended[0].Outputs, t.Ended[0].Files = json.RawMessage(`{"a": 1}`), []courier.File{{Path: "a.csv", Size: 1}}
		h.Must(t)
		for _, f := range []store.StepFilter{{}, {Files: true}, {Step: new(0), Attempt: 1}} {
			f.Execution = h.ID()
			list, err := k.Steps(k.Ctx(), f)
			k.OK(err)
			k.Same("with", []any{string(list[0].Outputs), list[0].Files}, []any{`{"a": 1}`, t.Ended[0].Files})
			want := list[0]
			want.Outputs, want.Files = nil, nil
			f.Brief = true
			list, err = k.Steps(k.Ctx(), f)
			k.OK(err)
			k.Same("brief", list[0], want)
		}
	}},
	// Stacks, logs and events are read only if the filter has Details; Latest and claims leave
	// them out.
	{"details_only_where_asked_for", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		t := h.Next(0, 1)
		t.Ended[0].State, t.Ended[0].Stack = courier.StepFailed, strings.Repeat("main.main()\n\tmain.go:7 \"é\"\n", 600)
		t.Ended[0].Log = strings.Repeat("level=INFO msg=\"é \\n\"\n", 600)
		h.Must(t)
		last := h.Finish(1)
		last.Ended[0].Log = "level=INFO msg=last\n"
		last.Ended[0].Events = []courier.StepEvent{{Name: "e", Payload: json.RawMessage(`{"a":[1.0,"<\u2028"]}`)}, {Name: "e-2", Payload: json.RawMessage("null")}}
		h.Must(last)
		for _, f := range []store.StepFilter{
			{}, {Attempt: 1}, {Step: new(0)}, {Step: new(0), Attempt: 1}, {States: []courier.StepState{courier.StepFailed, courier.StepCompleted}},
			{States: []courier.StepState{courier.StepFailed}},
		} {
			f.Execution = h.ID()
			list, err := k.Steps(k.Ctx(), f)
			k.OK(err)
			k.Same("without", list[0].Stack+list[0].Log, "")
			f.Details = true
			list, err = k.Steps(k.Ctx(), f)
			k.OK(err)
			k.Same("with", []string{list[0].Stack, list[0].Log}, []string{t.Ended[0].Stack, t.Ended[0].Log})
			if len(list) > 1 {
				k.Same("of another record", []string{list[1].Stack, list[1].Log}, []string{"", last.Ended[0].Log})
				k.Same("events", list[1].Events, last.Ended[0].Events)
				k.Same("payload", string(list[1].Events[0].Payload), string(last.Ended[0].Events[0].Payload))
			}
		}
		with, err := k.Steps(k.Ctx(), store.StepFilter{Execution: h.ID(), Events: true})
		k.OK(err)
		k.Same("with events", []int{len(with), with[0].Step, len(with[0].Events)}, []int{1, 1, 0})
		plain := func(what string, list []courier.StepExecution) {
			for i := range list {
				k.Same(what, []any{list[i].Stack + list[i].Log, list[i].Events}, []any{"", []courier.StepEvent(nil)})
			}
		}
		plain("the latest", k.LatestOf(h.ID()))
		h.Must(h.To(courier.Queued))
		plain("the latest of a claim", k.Again(h.ID()).Latest)
	}},
	// Audit entries come in their order, in pages that may split a transition.
	{"audit_in_order_and_pages", func(k *kit) {
		h := k.long(9)
		all := k.AuditOf(h.ID())
		k.Same("entries", len(all), 2+2*9)
		var got []courier.AuditEntry
		for range 7 {
			list, err := k.Audit(k.Ctx(), store.AuditFilter{Execution: h.ID(), After: int64(len(got)), Limit: 3})
			k.OK(err)
			got = append(got, list...)
		}
		k.Same("pages", got, all)
		list, err := k.Audit(k.Ctx(), store.AuditFilter{Execution: h.ID(), After: 4, Limit: 2}) // in the middle of a transition
		k.OK(err)
		k.Same("from the middle", list, all[4:6])
		list, err = k.Audit(k.Ctx(), store.AuditFilter{Execution: h.ID(), After: int64(len(all))})
		k.OK(err)
		k.Same("after the last", len(list), 0)
	}},
	{"of_each_execution_alone", func(k *kit) {
		a, b := k.long(2), k.long(3)
		k.Same("steps", []int{len(k.Records(a.ID())), len(k.Records(b.ID()))}, []int{2, 3})
		k.Same("latest", []int{len(k.LatestOf(a.ID())), len(k.LatestOf(b.ID()))}, []int{2, 3})
		k.Same("audit", []int{len(k.AuditOf(a.ID())), len(k.AuditOf(b.ID()))}, []int{6, 8})
	}},
}

// listed lists executions and reports others than the wanted ones.
func (k *kit) listed(what string, f store.Filter, want ...courier.ExecutionID) {
	k.Helper()
	list, err := k.Executions(k.Ctx(), f)
	k.OK(err)
	got := make([]courier.ExecutionID, len(list))
	for i := range list {
		got[i] = list[i].ID
		k.Same(what, list[i], k.Get(list[i].ID))
	}
	k.Same(what, got, want)
}

// long is a running execution with n ended steps and none present.
func (k *kit) long(n int) *holder {
	k.Helper()
	h := k.Start()
	h.Must(h.Begin(0))
	for i := 1; i < n; i++ {
		h.Must(h.Next(i-1, i))
	}
	h.Must(h.Finish(n - 1))
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
	k.Same(what, bare(got), bare(want))
}
