package executions

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

var awaitCases = []testCase{
	// It returns ctx's error when ctx ends.
	{"ends_with_its_context", func(k *kit) {
		k.Add(k.With(func(n *store.NewExecution) { n.Queue = "other" }))
		mark := k.Mark()
		ctx, cancel := context.WithTimeout(k.Ctx(), k.Unit)
		defer cancel()
		for ctx.Err() == nil { // it may return for no reason
			if err := k.Await(ctx, []string{courier.DefaultQueue}, mark); err != nil && ctx.Err() == nil {
				k.Fatalf("error %v while the context lasts", err)
			}
		}
		k.Is("after its end", k.Await(ctx, []string{courier.DefaultQueue}, mark), context.DeadlineExceeded)
	}},
	{"wakes_at_once_for_changes_since_the_mark", func(k *kit) {
		mark := k.Mark()
		k.Add(k.New())
		ctx, cancel := context.WithTimeout(k.Ctx(), long)
		defer cancel()
		k.OK(k.Await(ctx, []string{courier.DefaultQueue}, mark))
	}},
	{"wakes_when_something_is_enqueued", func(k *kit) {
		n := k.New()
		k.Wakes(func() { k.Add(n) })
	}},
	{"wakes_when_something_due_later_is_enqueued", func(k *kit) {
		n := k.With(func(n *store.NewExecution) { n.Delay = long })
		k.Wakes(func() { k.Add(n) })
	}},
	{"wakes_for_one_of_several_queues", func(k *kit) {
		n := k.With(func(n *store.NewExecution) { n.Queue = "night" })
		k.Wakes(func() { k.Add(n) })
	}},
	{"wakes_when_something_is_released", func(k *kit) {
		id := k.Add(k.With(func(n *store.NewExecution) { n.Hold = true }))[0].ID
		k.Wakes(func() { k.Ask(id, courier.RequestRelease) })
	}},
	{"wakes_when_something_is_resumed", func(k *kit) {
		id := k.Add(k.New())[0].ID
		k.Ask(id, courier.RequestPause)
		k.Wakes(func() { k.Ask(id, courier.RequestResume) })
	}},
	{"wakes_when_a_worker_returns_an_execution", func(k *kit) {
		h := k.Start()
		k.Wakes(func() { h.Must(h.To(courier.Queued)) })
	}},
	{"wakes_when_something_backs_off", func(k *kit) {
		h := k.Start()
		t := h.To(courier.Queued)
		t.Delay = long
		k.Wakes(func() { h.Must(t) })
	}},
	{"wakes_when_a_slot_is_free", func(k *kit) {
		for _, to := range []courier.State{courier.Completed, courier.Failed, courier.Paused, courier.Cancelled} {
			h := k.Start()
			k.Wakes(func() { h.Must(h.To(to)) })
		}
		lost := k.Lose()
		k.Wakes(func() { k.Ask(lost.ID(), courier.RequestCancel) })
	}},
	{"wakes_when_a_full_job_or_key_has_room", func(k *kit) {
		k.Limit("", "0")
		k.Limit("key:one", "1")
		k.Limit("key:p:*", "1")
		for _, full := range []func(*store.NewExecution){
			func(n *store.NewExecution) { n.JobLimit = 1 },
			func(n *store.NewExecution) { n.LimitKeys = []string{"one"} },
			func(n *store.NewExecution) { n.LimitKeys = []string{"p:x"} },
		} {
			for _, to := range []courier.State{courier.Completed, courier.Failed, courier.Paused, courier.Cancelled} {
				h := k.Hold(k.Add(k.With(full))[0].ID, long)
				waits := k.Add(k.With(full))[0].ID
				for range 3 { // however often a worker has looked in vain
					k.Claimed("claim of what is full", k.ClaimRequest(5))
				}
				k.Wakes(func() { h.Must(h.To(to)) })
				k.Hold(waits, long).End(courier.Completed)
			}
		}
	}},
	{"wakes_when_a_limit_changes", func(k *kit) {
		k.Wakes(func() { k.Limit("", "9") })
		k.Wakes(func() { k.Limit("key:x", "1") })
		k.Wakes(func() { k.Limit("key:x", "") })
	}},
}
