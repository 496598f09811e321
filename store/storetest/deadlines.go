package storetest

import (
	"slices"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

func hasDeadlines(s store.Store) bool {
	_, ok := s.(store.Deadlines)
	return ok && hasOutbox(s)
}

var deadlineCases = []testCase{
	{"overdue_once", func(k *kit) {
		k.subscribe("overdue", courier.EventJobOverdue)
		k.same("at first", k.overdue(0), store.Overdue{})
		x := k.add(k.expected(k.unit, 2*k.unit))[0]
		got := k.overdue(0)
		k.same("before", got.List, nil)
		if got.Next <= 0 || got.Next > k.unit {
			k.Errorf("the next deadline is in %v, want at most %v", got.Next, k.unit)
		}
		k.pass(k.unit + k.unit/2)
		if k.virtual { // otherwise both may have passed
			list := k.overdue(0).List
			k.same("after the first", reasons(list), []courier.Reason{courier.ReasonMaxDuration})
			k.same("it", list[0], overdueOf(x, courier.ReasonMaxDuration, k.unit))
			k.same("again", k.overdue(0).List, nil)
		}
		k.pass(2 * k.unit)
		k.overdue(0)
		k.same("at last", k.overdue(0), store.Overdue{})
		k.overdueEvents(x.ID, x.State, courier.ReasonExpectedBy, courier.ReasonMaxDuration)
	}},
	{"overdue_in_every_state_but_ended_ones", func(k *kit) {
		k.limit("", "0")
		var list []courier.Execution
		for range 7 {
			list = append(list, k.add(k.expected(0, 2*k.unit))...)
		}
		held := k.add(k.with(func(n *store.NewExecution) { n.Hold, n.ExpectedBy = true, 2*k.unit }))[0]
		list = append(list, held)
		for i, to := range []courier.State{courier.Completed, courier.Failed, courier.Cancelled} {
			h := k.hold(list[i].ID, long)
			t := h.to(to)
			if to == courier.Failed {
				t.Failure = &courier.Failure{Step: -1, Message: "boom"}
			}
			h.must(t)
		}
		k.ask(list[3].ID, courier.RequestPause)
		running := k.hold(list[4].ID, long)
		running.must(running.begin(0))
		k.hold(list[5].ID, k.unit) // and its worker is lost
		k.pass(3 * k.unit)
		var got []string
		for _, o := range k.overdue(0).List {
			i := slices.IndexFunc(list, func(x courier.Execution) bool { return x.ID == o.Execution })
			got = append(got, string(rune('0'+i))+" "+string(o.State))
		}
		slices.Sort(got)
		k.same("overdue", got, []string{"3 paused", "4 running", "5 running", "6 queued", "7 created"})
		running.must(running.finish(0)) // its worker goes on
		k.ask(list[1].ID, courier.RequestResume)
		k.same("what was resumed since", k.overdue(0).List, nil)
	}},
	{"overdue_from_the_due_time", func(k *kit) {
		n := k.expected(k.unit, 0)
		n.Delay = long
		began := time.Now()
		k.add(n, k.with(func(*store.NewExecution) {}))
		next := k.overdue(0).Next
		if took := time.Since(began); next < long+k.unit-took || next > long+k.unit {
			k.Errorf("the deadline is in %v, want %v less at most %v", next, long+k.unit, took)
		}
	}},
	{"overdue_of_existing_executions", func(k *kit) {
		n := k.expected(0, k.unit)
		n.IdempotencyKey = "key"
		k.add(n)
		k.existing(n)
		again := n
		again.ID = courier.ExecutionID(k.ids.New())
		k.existing(again)
		wrong := k.expected(0, k.unit)
		wrong.Job = "nothing"
		k.refused("of no job", courier.ErrNotFound, k.expected(0, k.unit), wrong)
		k.pass(2 * k.unit)
		k.same("overdue", len(k.overdue(0).List), 1)
	}},
	{"overdue_in_parts", func(k *kit) {
		list := make([]store.NewExecution, 5)
		for i := range list {
			list[i] = k.expected(0, k.unit)
		}
		k.add(list...)
		k.pass(2 * k.unit)
		for _, want := range []int{2, 2, 1} {
			got := k.overdue(2)
			k.same("part", len(got.List), want)
			if more := got.Next > 0; want == 2 && !more {
				k.Errorf("next is %v, though there are more", got.Next)
			}
		}
		k.same("at last", k.overdue(2), store.Overdue{})
	}},
	{"overdue_once_for_many_engines", func(k *kit) {
		k.subscribe("overdue", courier.EventJobOverdue)
		const count, callers = 60, 8
		list := make([]store.NewExecution, count)
		for i := range list {
			list[i] = k.expected(k.unit, k.unit)
		}
		k.add(list...)
		k.pass(2 * k.unit)
		var mu sync.Mutex
		seen := make(map[store.OverdueExecution]int)
		k.at(callers, func(int) {
			for {
				got, err := k.Store.(store.Deadlines).Overdue(k.ctx(), 7)
				k.fine(err)
				mu.Lock()
				for _, o := range got.List {
					seen[o]++
				}
				mu.Unlock()
				if err != nil || len(got.List) == 0 {
					return
				}
			}
		})
		for _, o := range k.overdue(0).List { // one may have been locked by another caller
			seen[o]++
		}
		for o, n := range seen {
			if n != 1 {
				k.Errorf("%s was returned %d times", text(o), n)
			}
		}
		k.same("overdue", len(seen), 2*count)
		k.same("events", len(k.taken(nil)), 2*count)
	}},
	{"overdue_members_of_chains", func(k *kit) {
		if !hasChains(k.Store) {
			return
		}
		s := k.subscription("of the chain", courier.EventJobOverdue)
		s.Chains = []string{"chain"}
		k.ok(k.outbox().Subscribe(k.ctx(), s))
		n := k.newChain("a b<a")
		for i := range n.Members {
			n.Members[i].Execution.MaxDuration, n.Members[i].Execution.ExpectedBy = long, 3*k.unit
		}
		k.startChain(n)
		k.pass(4 * k.unit)
		a := k.overdue(0)
		k.same("the first", reasons(a.List), []courier.Reason{courier.ReasonExpectedBy})
		k.end(n.ID, "a", courier.Completed)
		b := k.overdue(0) // released after the deadline
		k.same("the second", reasons(b.List), []courier.Reason{courier.ReasonExpectedBy})
		k.same("of", []courier.ExecutionID{a.List[0].Execution, b.List[0].Execution}, []courier.ExecutionID{k.member(n.ID, "a").ID, k.member(n.ID, "b").ID})
		k.same("by", a.List[0].Deadline, b.List[0].Deadline)
		for _, d := range k.taken(nil) {
			k.same("chain", d.Notification.Chain, "chain")
		}
	}},
}

// expected is an execution with deadlines.
func (k *kit) expected(duration, by time.Duration) store.NewExecution {
	k.Helper()
	return k.with(func(n *store.NewExecution) { n.MaxDuration, n.ExpectedBy = duration, by })
}

func (k *kit) overdue(limit int) store.Overdue {
	k.Helper()
	got, err := k.Store.(store.Deadlines).Overdue(k.ctx(), limit)
	k.ok(err)
	return got
}

func overdueOf(x courier.Execution, reason courier.Reason, after time.Duration) store.OverdueExecution {
	return store.OverdueExecution{
		Execution: x.ID, Job: x.Job, Version: x.Version, State: x.State, Reason: reason, Deadline: x.CreatedAt.Add(after.Truncate(time.Microsecond)),
	}
}

func reasons(list []store.OverdueExecution) []courier.Reason {
	var all []courier.Reason
	for i := range list {
		all = append(all, list[i].Reason)
	}
	slices.Sort(all)
	return all
}

// overdueEvents takes all there is and reports other events than those for the reasons.
func (k *kit) overdueEvents(id courier.ExecutionID, state courier.State, want ...courier.Reason) {
	k.Helper()
	list := notifications(k.taken(nil))
	k.same("events", len(list), len(want))
	for i := range min(len(list), len(want)) {
		n := list[i]
		o := store.OverdueExecution{Execution: id, Job: n.Job, Version: n.Version, State: state, Reason: want[i]}
		o.Deadline = k.get(id).CreatedAt.Add(k.unit)
		if want[i] == courier.ReasonExpectedBy {
			o.Deadline = o.Deadline.Add(k.unit)
		}
		expect := store.NotifyOverdue(&o, n.At)
		expect.Subscription = n.Subscription
		k.same("event", n, expect)
		if _, seq, err := store.ParseEventID(n.ID); err != nil || seq != n.Seq {
			k.Errorf("the id %q stands for %d (%v), want %d", n.ID, seq, err, n.Seq)
		}
	}
}
