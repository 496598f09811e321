package coordination

import (
	"fmt"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

// windowCases are about subscriptions with a window.
var windowCases = []testCase{
	// A window sends the first event at once, and one delivery that counts the rest when it has
	// ended; that one does not change any more.
	{"window_sends_one_and_counts_the_rest", func(k *kit) {
		k.Job("other")
		s := k.subscription("sub", courier.EventJobCompleted)
		s.Window = 4 * k.Unit
		k.OK(k.outbox().PutSubscription(k.Ctx(), s))
		first := k.complete()
		k.Same("the first at once", ids(k.taken(nil)), []courier.ExecutionID{first})
		second, third := k.complete(), k.complete()
		k.Pass(5 * k.Unit)
		list := k.taken(nil)
		if len(list) != 1 || list[0].Notification.Execution != second || list[0].Notification.Count != 2 {
			k.Fatalf("after the window: %+v", list)
		}
		more := list[0].Notification.Coalesced
		if len(more) != 1 || more[0].Execution != third || !strings.HasPrefix(more[0].ID, string(third)+"-") || more[0].At.Before(list[0].Notification.At) {
			k.Errorf("beside it: %+v", more)
		}
		k.complete()
		k.settle(list[0], notify.Returned)
		for _, d := range k.taken(nil) {
			if d.Notification.ID == list[0].Notification.ID && storekit.Text(d.Notification) != storekit.Text(list[0].Notification) {
				k.Errorf("it changed on its way: %+v, was %+v", d, list)
			}
		}
	}},
	{"window_holds_back", func(k *kit) {
		s := k.subscription("sub", courier.EventJobCompleted)
		s.Window = long
		k.OK(k.outbox().PutSubscription(k.Ctx(), s))
		k.complete()
		k.Same("the first at once", len(k.taken(nil)), 1)
		k.complete()
		got := k.take(k.takes())
		if len(got.List) != 0 || got.Next <= 0 || got.Next > long {
			k.Errorf("within the window %d taken, next in %v", len(got.List), got.Next)
		}
		k.Same("kept", len(k.deliveries(notify.Pending)), 2)
	}},
	{"window_of_each_event_and_job", func(k *kit) {
		k.Job("other")
		s := k.subscription("sub", courier.EventJobCompleted, courier.EventJobStarted)
		s.Window = long
		k.OK(k.outbox().PutSubscription(k.Ctx(), s))
		k.complete()
		k.complete()
		n := k.With(func(n *store.NewExecution) { n.Job = "other" })
		h := k.Hold(k.Add(n)[0].ID, long)
		h.Must(h.To(courier.Completed))
		var got []string
		for _, d := range k.taken(nil) {
			got = append(got, fmt.Sprintf("%s %s %d", d.Notification.Job, d.Notification.Type, d.Notification.Count))
		}
		slices.Sort(got)
		k.Same("notifications", got, []string{"job JobCompleted 2", "job JobStarted 2", "other JobCompleted 1", "other JobStarted 1"})
	}},
	// A joined delivery names 50 others and counts all.
	{"window_names_the_first_50", func(k *kit) {
		s := k.subscription("sub", courier.EventStepFailed)
		s.Window = long
		k.OK(k.outbox().PutSubscription(k.Ctx(), s))
		const count = notify.MaxCoalesced + 3
		k.endMany(count, courier.StepFailed, strings.Repeat("ü", 300))
		list := k.taken(nil)
		if len(list) != 1 || list[0].Notification.Count != count || len(list[0].Notification.Coalesced) != notify.MaxCoalesced {
			k.Fatalf("%d notifications, the first of %d events, %d of them named", len(list), list[0].Notification.Count, len(list[0].Notification.Coalesced))
		}
		k.Same("their errors are cut", list[0].Notification.Coalesced[0].Error, strings.Repeat("ü", notify.MaxCoalescedError))
	}},
	// Events that a window held are sent when the window is removed.
	{"window_that_was_removed", func(k *kit) {
		s := k.subscription("sub", courier.EventJobCompleted)
		s.Window = long
		k.OK(k.outbox().PutSubscription(k.Ctx(), s))
		k.complete()
		k.Same("the first", len(k.taken(nil)), 1)
		k.complete()
		k.Same("held back", len(k.taken(nil)), 0)
		s.Window = 0
		k.OK(k.outbox().PutSubscription(k.Ctx(), s))
		k.Same("let go", len(k.taken(nil)), 1)
	}},
}
