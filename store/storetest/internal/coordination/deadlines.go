package coordination

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

func hasDeadlines(s store.Store) bool {
	_, ok := s.(store.Deadlines)
	return ok && hasOutbox(s)
}

var deadlineCases = []testCase{
	// An execution that has not begun by its deadline is returned, again after a minute, and fails
	// on request; one that has begun does not.
	{"expires_what_has_not_begun", func(k *kit) {
		k.Limit("", "0")
		with := func(change func(*store.NewExecution)) courier.ExecutionID {
			return k.Add(k.With(func(n *store.NewExecution) {
				if n.Expires = k.Unit; change != nil {
					change(n)
				}
			}))[0].ID
		}
		begun := with(nil)
		h := k.Hold(begun, long)
		queued, held, paused, ended := with(nil), with(func(n *store.NewExecution) { n.Hold = true }), with(nil), with(nil)
		k.Ask(paused, courier.RequestPause)
		k.Ask(ended, courier.RequestCancel)
		list := k.Add(k.With(func(n *store.NewExecution) { n.Expires = k.Unit }), k.With(func(n *store.NewExecution) { n.Expires = long }), k.New())
		overdue := func() (ids []courier.ExecutionID) {
			got, err := k.Store.(store.Deadlines).Overdue(k.Ctx(), 0)
			k.OK(err)
			for _, o := range got.List {
				k.Same("reason", o.Reason, courier.ReasonExpired)
				ids = append(ids, o.Execution)
			}
			slices.Sort(ids)
			if got.Next <= 0 || got.Next > long {
				k.Errorf("the next deadline is in %v", got.Next)
			}
			return ids
		}
		if k.Virtual { // a slow store may take longer than that to come here
			k.Same("at first", overdue(), nil)
		}
		k.Pass(2 * k.Unit)
		want := []courier.ExecutionID{queued, held, paused, list[0].ID}
		slices.Sort(want)
		k.Same("expired", overdue(), want)
		k.Same("at once again", overdue(), nil) // but in a minute
		for i, id := range want {
			x, err := k.Request(k.Ctx(), store.Request{Execution: id, Kind: courier.RequestExpire, Reason: "too late"})
			k.OK(err)
			k.Same("failed", []any{x.State, x.Failure, x.EndedAt.IsZero()}, []any{courier.Failed, courier.Failure{Step: -1, Reason: courier.ReasonExpired, Message: "too late"}, false})
			k.Same("stored", k.Get(id), x)
			audit := k.AuditOf(id)
			last := audit[len(audit)-1]
			k.Same("audit", []any{last.To, last.Reason, last.Error}, []any{"failed", courier.ReasonExpired, "too late"})
			if i == 0 {
				k.Same("resumed", k.Ask(id, courier.RequestResume).State, courier.Queued)
			}
		}
		_, err := k.Request(k.Ctx(), store.Request{Execution: begun, Kind: courier.RequestExpire})
		if _, ok := errors.AsType[*courier.TransitionError](err); !ok {
			k.Errorf("of one that has begun: %v", err)
		}
		h.Must(h.To(courier.Paused))
		if _, err := k.Request(k.Ctx(), store.Request{Execution: begun, Kind: courier.RequestExpire}); err == nil {
			k.Errorf("one that has begun and is paused expired")
		}
	}},
	// An execution that has not ended by a deadline is returned once for each deadline, and the
	// event is kept with it.
	{"overdue_once", func(k *kit) {
		k.subscribe("overdue", courier.EventJobOverdue)
		k.Same("at first", k.overdue(0), store.Overdue{})
		began := time.Now()
		x := k.Add(k.expected(k.Unit, 2*k.Unit))[0]
		if got := k.overdue(0); time.Since(began) < k.Unit { // on a busy machine both may have passed
			k.Same("before", got.List, nil)
			if got.Next <= 0 || got.Next > k.Unit {
				k.Errorf("the next deadline is in %v, want at most %v", got.Next, k.Unit)
			}
		}
		k.Pass(k.Unit + k.Unit/2)
		if k.Virtual { // otherwise both may have passed
			list := k.overdue(0).List
			k.Same("after the first", reasons(list), []courier.Reason{courier.ReasonMaxDuration})
			k.Same("it", list[0], overdueOf(x, courier.ReasonMaxDuration, k.Unit))
			k.Same("again", k.overdue(0).List, nil)
		}
		k.Pass(2 * k.Unit)
		k.overdue(0)
		k.Same("at last", k.overdue(0), store.Overdue{})
		k.overdueEvents(x.ID, x.State, courier.ReasonExpectedBy, courier.ReasonMaxDuration)
	}},
	// In every state but completed, failed and cancelled; a deadline that passes while it is
	// failed is dropped; its worker goes on undisturbed.
	{"overdue_in_every_state_but_ended_ones", func(k *kit) {
		k.Limit("", "0")
		var list []courier.Execution
		for range 7 {
			list = append(list, k.Add(k.expected(0, 2*k.Unit))...)
		}
		held := k.Add(k.With(func(n *store.NewExecution) { n.Hold, n.ExpectedBy = true, 2*k.Unit }))[0]
		list = append(list, held)
		for i, to := range []courier.State{courier.Completed, courier.Failed, courier.Cancelled} {
			h := k.Hold(list[i].ID, long)
			t := h.To(to)
			if to == courier.Failed {
				t.Failure = &courier.Failure{Step: -1, Message: "boom"}
			}
			h.Must(t)
		}
		k.Ask(list[3].ID, courier.RequestPause)
		running := k.Hold(list[4].ID, long)
		running.Must(running.Begin(0))
		k.Hold(list[5].ID, k.Unit) // and its worker is lost
		k.Pass(3 * k.Unit)
		var got []string
		for _, o := range k.overdue(0).List {
			i := slices.IndexFunc(list, func(x courier.Execution) bool { return x.ID == o.Execution })
			got = append(got, string(rune('0'+i))+" "+string(o.State))
		}
		slices.Sort(got)
		k.Same("overdue", got, []string{"3 paused", "4 running", "5 running", "6 queued", "7 created"})
		running.Must(running.Finish(0)) // its worker goes on
		k.Ask(list[1].ID, courier.RequestResume)
		k.Same("what was resumed since", k.overdue(0).List, nil)
	}},
	// A longest duration counts from when it is first due.
	{"overdue_from_the_due_time", func(k *kit) {
		n := k.expected(k.Unit, 0)
		n.Delay = long
		began := time.Now()
		k.Add(n, k.With(func(*store.NewExecution) {}))
		next := k.overdue(0).Next
		if took := time.Since(began); next < long+k.Unit-took || next > long+k.Unit {
			k.Errorf("the deadline is in %v, want %v less at most %v", next, long+k.Unit, took)
		}
	}},
	// An execution that exists already gets no deadlines again, and one that was not created has
	// none.
	{"overdue_of_existing_executions", func(k *kit) {
		n := k.expected(0, k.Unit)
		n.IdempotencyKey = "key"
		k.Add(n)
		k.Existing(n)
		again := n
		again.ID = courier.ExecutionID(k.IDs.New())
		k.Existing(again)
		wrong := k.expected(0, k.Unit)
		wrong.Job = "nothing"
		k.Refused("of no job", courier.ErrNotFound, k.expected(0, k.Unit), wrong)
		k.Pass(2 * k.Unit)
		k.Same("overdue", len(k.overdue(0).List), 1)
	}},
	// A call returns at most what was asked for, and says that there is more.
	{"overdue_in_parts", func(k *kit) {
		list := make([]store.NewExecution, 5)
		for i := range list {
			list[i] = k.expected(0, k.Unit)
		}
		k.Add(list...)
		k.Pass(2 * k.Unit)
		for _, want := range []int{2, 2, 1} {
			got := k.overdue(2)
			k.Same("part", len(got.List), want)
			if more := got.Next > 0; want == 2 && !more {
				k.Errorf("next is %v, though there are more", got.Next)
			}
		}
		k.Same("at last", k.overdue(2), store.Overdue{})
	}},
	// Of concurrent calls one returns it, with one event.
	{"overdue_once_for_many_engines", func(k *kit) {
		k.subscribe("overdue", courier.EventJobOverdue)
		const count, callers = 60, 8
		list := make([]store.NewExecution, count)
		for i := range list {
			list[i] = k.expected(k.Unit, k.Unit)
		}
		k.Add(list...)
		k.Pass(2 * k.Unit)
		var mu sync.Mutex
		seen := make(map[store.OverdueExecution]int)
		k.At(callers, func(int) {
			for {
				got, err := k.Store.(store.Deadlines).Overdue(k.Ctx(), 7)
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
				k.Errorf("%s was returned %d times", storekit.Text(o), n)
			}
		}
		k.Same("overdue", len(seen), 2*count)
		k.Same("events", len(k.taken(nil)), 2*count)
	}},
	// The deadline of a member counts from the start of the chain execution.
	{"overdue_members_of_chains", func(k *kit) {
		if !hasChains(k.Store) {
			return
		}
		s := k.subscription("of the chain", courier.EventJobOverdue)
		s.Chains = []string{"chain"}
		k.OK(k.outbox().PutSubscription(k.Ctx(), s))
		n := k.newChain("a b<a")
		for i := range n.Members {
			n.Members[i].Execution.MaxDuration, n.Members[i].Execution.ExpectedBy = long, 3*k.Unit
		}
		k.startChain(n)
		k.Pass(4 * k.Unit)
		a := k.overdue(0)
		k.Same("the first", reasons(a.List), []courier.Reason{courier.ReasonExpectedBy})
		k.end(n.ID, "a", courier.Completed)
		b := k.overdue(0) // released after the deadline
		k.Same("the second", reasons(b.List), []courier.Reason{courier.ReasonExpectedBy})
		k.Same("of", []courier.ExecutionID{a.List[0].Execution, b.List[0].Execution}, []courier.ExecutionID{k.member(n.ID, "a").ID, k.member(n.ID, "b").ID})
		k.Same("by", a.List[0].Deadline, b.List[0].Deadline)
		for _, d := range k.taken(nil) {
			k.Same("chain", d.Notification.Chain, "chain")
		}
	}},
}

// expected is an execution with deadlines.
func (k *kit) expected(duration, by time.Duration) store.NewExecution {
	k.Helper()
	return k.With(func(n *store.NewExecution) { n.MaxDuration, n.ExpectedBy = duration, by })
}

func (k *kit) overdue(limit int) store.Overdue {
	k.Helper()
	got, err := k.Store.(store.Deadlines).Overdue(k.Ctx(), limit)
	k.OK(err)
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
	k.Same("events", len(list), len(want))
	for i := range min(len(list), len(want)) {
		n := list[i]
		o := store.OverdueExecution{Execution: id, Job: n.Job, Version: n.Version, State: state, Reason: want[i]}
		o.Deadline = k.Get(id).CreatedAt.Add(k.Unit)
		if want[i] == courier.ReasonExpectedBy {
			o.Deadline = o.Deadline.Add(k.Unit)
		}
		expect := notify.OfOverdue(&o, n.At)
		expect.Subscription = n.Subscription
		k.Same("event", n, expect)
		if _, seq, err := notify.ParseEventID(n.ID); err != nil || seq != n.Seq {
			k.Errorf("the id %q stands for %d (%v), want %d", n.ID, seq, err, n.Seq)
		}
	}
}
