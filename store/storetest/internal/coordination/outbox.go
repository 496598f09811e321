package coordination

import (
	"slices"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

// outboxCases are for stores that keep events for subscriptions; on others they
// say nothing.
var outboxCases = []testCase{
	{"saved_replaced_and_removed", func(k *kit) {
		o := k.outbox()
		b := k.subscription("b", courier.EventJobFailed)
		b.Jobs, b.Chains, b.Expectations, b.Window = []string{"job"}, []string{"chain"}, []string{"e"}, time.Minute
		k.OK(o.PutSubscription(k.Ctx(), b))
		a := k.subscription("a", courier.EventJobStarted, courier.EventStepFailed)
		a.Disabled, a.Reason = true, "not now"
		k.OK(o.PutSubscription(k.Ctx(), a))
		k.subscriptions("saved", a, b)
		b.Channel, b.Window, b.Jobs = "email", 0, nil
		k.OK(o.PutSubscription(k.Ctx(), b))
		k.subscriptions("replaced", a, b)
		since := func() time.Time {
			list, err := o.Subscriptions(k.Ctx(), notify.Filter{Name: "a"})
			k.OK(err)
			return list[0].DisabledAt
		}
		before := since()
		k.Pass(time.Millisecond)
		a.Channel = "email"
		k.OK(o.PutSubscription(k.Ctx(), a))
		k.Same("disabled before", since(), before)
		for _, a.Disabled = range []bool{false, true} {
			k.OK(o.PutSubscription(k.Ctx(), a))
			k.subscriptions("turned", a, b)
		}
		if !since().After(before) {
			k.Errorf("disabled again at %v, and before at %v", since(), before)
		}
		k.OK(o.RemoveSubscription(k.Ctx(), "a"))
		k.subscriptions("removed", b)
		k.Is("removed twice", o.RemoveSubscription(k.Ctx(), "a"), courier.ErrNotFound)
	}},
	// Each audit entry that stands for an event leads to one delivery.
	{"every_event_once", func(k *kit) {
		k.subscribe("all", everyEvent...)
		h := k.Start()
		h.Must(h.Begin(0))
		h.Must(h.Next(0, 1))
		fails := h.Finish(1)
		fails.Ended[0].State, fails.Ended[0].Error, fails.Ended[0].Reason, fails.Ended[0].Bytes = courier.StepFailed, "no", courier.ReasonError, 7
		fails.To, fails.Failure = courier.Failed, &courier.Failure{Step: 1, Reason: courier.ReasonError, Message: "no"}
		h.Must(fails)
		k.Ask(h.ID(), courier.RequestResume)
		h = k.Again(h.ID())
		h.Must(h.To(courier.Paused))
		k.Ask(h.ID(), courier.RequestResume)
		h = k.Again(h.ID())
		skips := h.Begin(2)
		s := storekit.Ended(1)
		s.State = courier.StepSkipped
		skips.Ended = []courier.StepExecution{s}
		h.Must(skips)
		back := h.To(courier.Queued)
		back.Interrupt = true
		h.Must(back)
		k.Ask(h.ID(), courier.RequestCancel)
		k.events("all that happened", h.ID(), "JobStarted", "StepStarted", "StepCompleted", "StepStarted", "StepFailed", "JobFailed",
			"JobResumed", "JobPaused", "JobResumed", "StepSkipped", "StepStarted", "JobCancelled")
	}},
	{"completion_with_its_last_step", func(k *kit) {
		k.subscribe("all", everyEvent...)
		h := k.Start()
		h.Must(h.Begin(0))
		t := h.Finish(0)
		t.To = courier.Completed
		h.Must(t)
		k.events("all that happened", h.ID(), "JobStarted", "StepStarted", "StepCompleted", "JobCompleted")
	}},
	{"several_steps_in_one_transition", func(k *kit) {
		k.subscribe("all", everyEvent...)
		h := k.Start()
		h.Must(h.Begin(0))
		t := h.Begin(3)
		one, two := storekit.Ended(1), storekit.Ended(2)
		one.State, two.State = courier.StepSkipped, courier.StepFailed
		t.Ended = []courier.StepExecution{storekit.Ended(0), one, two}
		h.Must(t)
		k.events("all that happened", h.ID(), "JobStarted", "StepStarted", "StepCompleted", "StepSkipped", "StepFailed", "StepStarted")
	}},
	{"reclaim_is_no_start", func(k *kit) {
		k.subscribe("all", everyEvent...)
		h := k.Lose(0)
		h = k.Again(h.ID())
		lost := storekit.Step(0)
		lost.State, lost.Reason = courier.StepFailed, courier.ReasonWorkerLost
		t := h.To(courier.Running)
		t.Ended = []courier.StepExecution{lost}
		h.Must(t)
		k.events("all that happened", h.ID(), "JobStarted", "StepStarted", "JobTakenOver", "StepFailed")
	}},
	{"notification_is_that_of_the_audit", func(k *kit) {
		k.subscribe("all", everyEvent...)
		n := k.New()
		h := k.Hold(k.Add(n)[0].ID, long)
		start := h.Begin(0)
		start.Start.ID, start.Start.Iteration, start.Start.Total, start.Start.Attempt = "get", []int{2, 0}, []int{3, 1}, 4
		h.Must(start)
		end := h.To(courier.Failed)
		s := *start.Start
		s.State, s.Error, s.Reason, s.Bytes = courier.StepFailed, "it's \"odd\": \\ ü\n", courier.ReasonTimeout, 1<<40
		end.Ended, end.Failure = []courier.StepExecution{s}, &courier.Failure{Reason: courier.ReasonTimeout, Message: "it's odd"}
		h.Must(end)
		x := k.Get(h.ID())
		k.Ask(h.ID(), courier.RequestResume)
		audit := k.AuditOf(h.ID())
		var want []notify.Notification
		for i := range audit {
			if n, ok := notify.OfEntry(&x, &audit[i], audit[i].To == string(courier.Running)); ok {
				n.Subscription = "all"
				want = append(want, n)
			}
		}
		k.Same("notifications", notifications(k.taken(nil)), want)
	}},
	{"a_failure_names_its_step", func(k *kit) {
		k.subscribe("failures", courier.EventJobFailed)
		step := 4
		for _, f := range []courier.Failure{
			{Step: 4, ID: "get", Type: "sftp.download", Iteration: []int{2, 0}, Attempt: 3, Reason: courier.ReasonTimeout, Message: "it's \"odd\": \\ ü\n"},
			{Step: 4, Type: "b", Reason: courier.ReasonError, Message: "no"},
			{Step: -1, Type: "b", Attempt: 2, Reason: courier.ReasonExecution, Message: "too long"},
		} {
			h := k.Start()
			t := h.To(courier.Failed)
			t.Failure = &f
			h.Must(t)
			got := k.taken(nil)
			k.Same("notifications", len(got), 1)
			want := notify.Notification{Reason: f.Reason, Error: f.Message}
			if f.Step >= 0 {
				want.Step, want.StepID, want.StepType, want.Iteration, want.StepAttempt = &step, f.ID, f.Type, f.Iteration, f.Attempt
			}
			n := got[0].Notification
			k.Same("notification", notify.Notification{
				Step: n.Step, StepID: n.StepID, StepType: n.StepType, Iteration: n.Iteration, StepAttempt: n.StepAttempt, Reason: n.Reason, Error: n.Error,
			}, want)
		}
	}},
	// Events are kept for the subscriptions that select them, by type, job and chain.
	{"only_subscribed_events", func(k *kit) {
		k.Job("other")
		o := k.outbox()
		for _, s := range []struct {
			name         string
			jobs, chains []string
		}{{"any", nil, nil}, {"mine", []string{"job", "none"}, nil}, {"others", []string{"other"}, nil}, {"chains", nil, []string{"job"}}} {
			sub := k.subscription(s.name, courier.EventJobCompleted)
			sub.Jobs, sub.Chains = s.jobs, s.chains
			k.OK(o.PutSubscription(k.Ctx(), sub))
		}
		off := k.subscription("off", courier.EventJobCompleted)
		off.Disabled = true
		k.OK(o.PutSubscription(k.Ctx(), off))
		k.complete()
		var names []string
		for _, d := range k.taken(nil) {
			names = append(names, d.Notification.Subscription)
		}
		slices.Sort(names)
		k.Same("who is told", names, []string{"any", "mine"})
	}},
	{"only_events_after_it_was_saved", func(k *kit) {
		k.complete()
		k.subscribe("sub", courier.EventJobCompleted)
		id := k.complete()
		k.Same("kept", ids(k.taken(nil)), []courier.ExecutionID{id})
	}},
	{"no_event_of_a_refused_write", func(k *kit) {
		k.subscribe("all", everyEvent...)
		h := k.Start()
		k.Same("the start", len(k.taken(nil)), 1)
		late := h.To(courier.Completed)
		late.Lease = "someone else's"
		k.Is("another's token", k.Apply(k.Ctx(), late), courier.ErrLeaseLost)
		k.Same("kept", len(k.taken(nil)), 0)
	}},
	{"no_second_event_of_a_repeated_write", func(k *kit) {
		k.subscribe("sub", courier.EventJobCompleted)
		h := k.Start()
		t := h.To(courier.Completed)
		h.Must(t)
		k.OK(k.Apply(k.Ctx(), t))
		k.Same("kept", len(k.taken(nil)), 1)
	}},
	// A delivery is due again when its lease ends; only the last caller that leased it can record
	// its result.
	{"taken_once_and_again_after_the_lease", func(k *kit) {
		k.subscribe("sub", courier.EventJobCompleted)
		k.complete()
		r := k.takes()
		r.Lease = 4 * k.Unit
		first := k.take(r)
		k.Same("taken", len(first.List), 1)
		second := k.take(r)
		k.Same("taken again at once", len(second.List), 0)
		if second.Next <= 0 || second.Next > r.Lease {
			k.Errorf("next in %v, want within %v", second.Next, r.Lease)
		}
		k.Pass(5 * k.Unit)
		third := k.take(r)
		k.Same("taken after the lease", len(third.List), 1)
		if d := third.List[0]; d.Attempt != 2 || d.Token == first.List[0].Token {
			k.Errorf("attempt %d, the same token: %v", d.Attempt, d.Token == first.List[0].Token)
		}
		k.settle(first.List[0], notify.Delivered)
		k.Same("left after one settled it who had lost it", len(k.deliveries("")), 1)
		k.settle(third.List[0], notify.Delivered)
		k.Same("left after it was delivered", len(k.deliveries("")), 0)
		k.settle(third.List[0], notify.Delivered)
	}},
	// DueDeliveries returns only deliveries of its channels, without the subscriptions that it
	// excepts.
	{"only_of_the_requested_channels", func(k *kit) {
		k.subscribe("sub", courier.EventJobCompleted)
		k.complete()
		r := k.takes()
		r.Channels = []string{"email", "func:other"}
		got := k.take(r)
		k.Same("for other channels", len(got.List), 0)
		k.Same("events", got.Events, []courier.EventType{courier.EventJobCompleted})
		r = k.takes()
		r.Except = []string{"x", "sub"}
		k.Same("for all but this one", len(k.take(r).List), 0)
		k.Same("for all", len(k.taken(nil)), 1)
	}},
	{"bounded_in_all_and_of_each", func(k *kit) {
		k.subscribe("a", courier.EventJobCompleted)
		k.subscribe("b", courier.EventJobCompleted)
		for range 5 {
			k.complete()
		}
		r := k.takes()
		r.Each = 2
		k.Same("two of each", len(k.take(r).List), 4)
		r.Each, r.Max = 10, 5
		k.Same("five in all", len(k.take(r).List), 5)
		k.Same("the rest", len(k.taken(nil)), 1)
	}},
	{"the_longest_due_first", func(k *kit) {
		k.subscribe("sub", courier.EventJobCompleted)
		var want []courier.ExecutionID
		for range 4 {
			want = append(want, k.complete())
		}
		r := k.takes()
		r.Max = 1
		var got []courier.ExecutionID
		for range want {
			got = append(got, ids(k.take(r).List)...)
		}
		k.Same("order", got, want)
	}},
	// A failed attempt is due again after its delay, unchanged.
	{"again_after_a_delay", func(k *kit) {
		k.subscribe("sub", courier.EventJobCompleted)
		k.complete()
		d := k.taken(nil)[0]
		o := outcome(d, notify.Retry)
		o.Delay, o.Error = 4*k.Unit, "busy"
		k.OK(k.outbox().RecordDeliveries(k.Ctx(), []notify.Outcome{o}))
		got := k.take(k.takes())
		if len(got.List) != 0 || got.Next <= 0 || got.Next > o.Delay {
			k.Errorf("%d taken before it is due, next in %v", len(got.List), got.Next)
		}
		left := k.deliveries(notify.Pending)
		if len(left) != 1 || left[0].LastErr != "busy" || left[0].Attempts != 1 {
			k.Errorf("it stands as %+v", left)
		}
		k.Pass(5 * k.Unit)
		again := k.taken(nil)
		if len(again) != 1 || again[0].Attempt != 2 || storekit.Text(again[0].Notification) != storekit.Text(d.Notification) {
			k.Errorf("taken again: %+v, want %+v", again, d)
		}
	}},
	// A returned delivery is due at once, and its attempt is not counted.
	{"returned_is_not_counted", func(k *kit) {
		k.subscribe("sub", courier.EventJobCompleted)
		k.complete()
		k.settle(k.taken(nil)[0], notify.Returned)
		again := k.taken(nil)
		if len(again) != 1 || again[0].Attempt != 1 {
			k.Errorf("taken again: %+v", again)
		}
	}},
	// A delivery that failed for good stays, and can be replayed.
	{"given_up_stays_until_it_is_replayed", func(k *kit) {
		k.subscribe("sub", courier.EventJobCompleted)
		one, two := k.complete(), k.complete()
		for _, d := range k.taken(nil) {
			o := outcome(d, notify.GivenUp)
			o.Error = "no such host"
			k.OK(k.outbox().RecordDeliveries(k.Ctx(), []notify.Outcome{o}))
		}
		k.Same("taken", len(k.taken(nil)), 0)
		failed := k.deliveries(notify.Failed)
		if len(failed) != 2 || failed[0].LastErr != "no such host" || failed[0].Execution != one || failed[1].Execution != two {
			k.Fatalf("failed: %+v", failed)
		}
		k.Same("pending", len(k.deliveries(notify.Pending)), 0)
		n, err := k.outbox().ReplayDeliveries(k.Ctx(), "sub", []string{failed[1].ID, "018f0000-0000-7000-8000-000000000000-1"})
		k.OK(err)
		k.Same("replayed", n, 1)
		again := k.taken(nil)
		if len(again) != 1 || again[0].Notification.Execution != two || again[0].Attempt != 1 {
			k.Errorf("taken: %+v", again)
		}
		n, err = k.outbox().ReplayDeliveries(k.Ctx(), "sub", nil)
		k.OK(err)
		k.Same("replayed", n, 1)
		k.Same("taken", ids(k.taken(nil)), []courier.ExecutionID{one})
		_, err = k.outbox().ReplayDeliveries(k.Ctx(), "none", nil)
		k.Is("of an unknown subscription", err, courier.ErrNotFound)
	}},
	// A delivery that waits for its next attempt can be made due now; one that is under way stays
	// as it is.
	{"replay_before_the_next_attempt", func(k *kit) {
		k.subscribe("sub", courier.EventJobCompleted)
		one := k.complete()
		k.complete()
		list := k.taken(nil)
		again := outcome(list[0], notify.Retry)
		again.Delay = 24 * time.Hour
		k.OK(k.outbox().RecordDeliveries(k.Ctx(), []notify.Outcome{again})) // the other one is under way
		k.Same("taken before", len(k.taken(nil)), 0)
		n, err := k.outbox().ReplayDeliveries(k.Ctx(), "sub", nil)
		k.OK(err)
		k.Same("replayed", n, 1)
		taken := k.taken(nil)
		k.Same("taken", ids(taken), []courier.ExecutionID{one})
		if len(taken) == 1 && taken[0].Attempt != 1 {
			k.Errorf("it is attempt %d, want 1", taken[0].Attempt)
		}
		k.settle(list[1], notify.Delivered)
		n, err = k.outbox().ReplayDeliveries(k.Ctx(), "sub", nil)
		k.OK(err)
		k.Same("replayed while taken", n, 0)
	}},
	// A receiver that is gone disables its subscription; its deliveries wait.
	{"gone_disables", func(k *kit) {
		k.subscribe("sub", courier.EventJobCompleted)
		k.complete()
		k.complete()
		list := k.taken(nil)
		o := outcome(list[0], notify.EndpointGone)
		o.Error = "410 Gone"
		k.OK(k.outbox().RecordDeliveries(k.Ctx(), []notify.Outcome{o}))
		k.settle(list[1], notify.Returned)
		subs, err := k.outbox().Subscriptions(k.Ctx(), notify.Filter{})
		k.OK(err)
		if !subs[0].Disabled || subs[0].DisabledAt.IsZero() || subs[0].Reason != "410 Gone" {
			k.Errorf("subscription: %+v", subs[0])
		}
		k.complete()
		got := k.take(k.takes())
		if len(got.List) != 0 || len(got.Events) != 0 {
			k.Errorf("taken of one that is disabled: %+v", got)
		}
		k.Same("kept", len(k.deliveries("")), 2)
		k.subscribe("sub", courier.EventJobCompleted)
		k.Same("taken when it is enabled again", ids(k.taken(nil)), []courier.ExecutionID{list[1].Notification.Execution})
	}},
	// Subscriptions come in byte order of their names, in pages.
	{"subscriptions_by_name_in_pages", func(k *kit) {
		for _, name := range []string{"c", "B", "a b", "a"} {
			k.subscribe(name, courier.EventJobCompleted)
		}
		var pages [][]string
		for after := ""; len(pages) < 3; {
			list, err := k.outbox().Subscriptions(k.Ctx(), notify.Filter{After: after, Limit: 3})
			k.OK(err)
			var names []string
			for _, s := range list {
				names, after = append(names, s.Name), s.Name
			}
			pages = append(pages, names)
		}
		k.Same("pages", pages, [][]string{{"B", "a", "a b"}, {"c"}, nil})
		one, err := k.outbox().Subscriptions(k.Ctx(), notify.Filter{Name: "a"})
		k.OK(err)
		k.Same("of one name", len(one) == 1 && one[0].Name == "a", true)
		none, err := k.outbox().Subscriptions(k.Ctx(), notify.Filter{Name: "b"})
		k.OK(err)
		k.Same("of a name that there is not", len(none), 0)
	}},
	{"removed_with_its_deliveries", func(k *kit) {
		k.subscribe("sub", courier.EventJobCompleted)
		k.subscribe("stays", courier.EventJobCompleted)
		k.complete()
		k.OK(k.outbox().RemoveSubscription(k.Ctx(), "sub"))
		k.Same("kept", len(k.deliveries("")), 1)
		k.subscribe("sub", courier.EventJobCompleted)
		k.Same("taken", len(k.taken(nil)), 1)
	}},
	// Deliveries are listed by subscription and event, in pages.
	{"pages_of_deliveries", func(k *kit) {
		k.subscribe("a", courier.EventJobCompleted, courier.EventJobStarted)
		k.subscribe("b", courier.EventJobCompleted)
		for range 3 {
			k.complete()
		}
		all := k.deliveries("")
		k.Same("all", len(all), 9)
		f := notify.DeliveryFilter{Limit: 2}
		var paged []notify.Delivery
		for {
			list, err := k.outbox().Deliveries(k.Ctx(), f)
			k.OK(err)
			if paged = append(paged, list...); len(list) < 2 {
				break
			}
			f.AfterSubscription, f.AfterEvent = list[1].Subscription, list[1].ID
		}
		k.Same("pages", paged, all)
		list, err := k.outbox().Deliveries(k.Ctx(), notify.DeliveryFilter{Subscription: "b"})
		k.OK(err)
		k.Same("of one", len(list), 3)
	}},
	// Concurrent callers of DueDeliveries share the deliveries, and no delivery is taken twice; of
	// a window one delivery is made.
	{"taken_by_one_of_many", func(k *kit) {
		k.subscribe("sub", courier.EventStepSkipped)
		w := k.subscription("window", courier.EventStepSkipped)
		w.Window = long
		k.OK(k.outbox().PutSubscription(k.Ctx(), w))
		const events, takers = 20, 8
		k.endMany(events, courier.StepSkipped, "")
		var mu sync.Mutex
		seen := make(map[string]int)
		joined := 0
		var all sync.WaitGroup
		for range takers {
			all.Go(func() {
				r := k.takes()
				r.Max = 3
				for none := 0; none < 3; {
					got, err := k.outbox().DueDeliveries(k.Ctx(), r)
					if err != nil {
						k.Error(err)
						return
					}
					if len(got.List) == 0 {
						none++
					}
					mu.Lock()
					for _, d := range got.List {
						seen[d.Notification.Subscription+" "+d.Notification.ID]++
						if d.Notification.Subscription == "window" {
							joined += d.Notification.Count
						}
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
		for id, n := range seen {
			if n != 1 {
				k.Errorf("%s was taken %d times", id, n)
			}
		}
		if len(seen) != events+1 || joined != events {
			k.Errorf("%d deliveries, and %d events in that of the window; want %d and %d", len(seen), joined, events+1, events)
		}
	}},
	{"claim_returns_whether_there_are_subscriptions", func(k *kit) {
		claims, err := k.Claim(k.Ctx(), k.ClaimRequest(1))
		k.OK(err)
		k.Same("before", claims.Subscribed, false)
		k.subscribe("sub", courier.EventJobCompleted)
		claims, err = k.Claim(k.Ctx(), k.ClaimRequest(1))
		k.OK(err)
		k.Same("after", claims.Subscribed, true)
	}},
	// Even of executions that were running or queued before.
	{"subscribed_while_executions_run", func(k *kit) {
		// An execution that was claimed before the subscription has events too.
		h, queued := k.Start(), k.Add(k.New())[0].ID
		k.subscribe("all", everyEvent...)
		h.Must(h.Begin(0))
		t := h.Finish(0)
		t.To = courier.Completed
		h.Must(t)
		k.events("the one that ran", h.ID(), "StepStarted", "StepCompleted", "JobCompleted")
		k.Hold(queued, long)
		k.events("the one that was queued", queued, "JobStarted")
	}},
}
