package storetest

import (
	"context"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

var awaitCases = []testCase{
	{"ends_with_its_context", func(k *kit) {
		k.add(k.with(func(n *store.NewExecution) { n.Queue = "other" }))
		mark := k.mark()
		ctx, cancel := context.WithTimeout(k.ctx(), k.unit)
		defer cancel()
		for ctx.Err() == nil { // it may return for no reason
			if err := k.Await(ctx, []string{courier.DefaultQueue}, mark); err != nil && ctx.Err() == nil {
				k.Fatalf("error %v while the context lasts", err)
			}
		}
		k.is("after its end", k.Await(ctx, []string{courier.DefaultQueue}, mark), context.DeadlineExceeded)
	}},
	{"wakes_at_once_for_changes_since_the_mark", func(k *kit) {
		mark := k.mark()
		k.add(k.new())
		ctx, cancel := context.WithTimeout(k.ctx(), long)
		defer cancel()
		k.ok(k.Await(ctx, []string{courier.DefaultQueue}, mark))
	}},
	{"wakes_when_something_is_enqueued", func(k *kit) {
		n := k.new()
		k.wakes(func() { k.add(n) })
	}},
	{"wakes_when_something_due_later_is_enqueued", func(k *kit) {
		n := k.with(func(n *store.NewExecution) { n.Delay = long })
		k.wakes(func() { k.add(n) })
	}},
	{"wakes_for_one_of_several_queues", func(k *kit) {
		n := k.with(func(n *store.NewExecution) { n.Queue = "night" })
		k.wakes(func() { k.add(n) })
	}},
	{"wakes_when_something_is_released", func(k *kit) {
		id := k.add(k.with(func(n *store.NewExecution) { n.Hold = true }))[0].ID
		k.wakes(func() { k.ask(id, courier.RequestRelease) })
	}},
	{"wakes_when_something_is_resumed", func(k *kit) {
		id := k.add(k.new())[0].ID
		k.ask(id, courier.RequestPause)
		k.wakes(func() { k.ask(id, courier.RequestResume) })
	}},
	{"wakes_when_a_worker_returns_an_execution", func(k *kit) {
		h := k.start()
		k.wakes(func() { h.must(h.to(courier.Queued)) })
	}},
	{"wakes_when_something_backs_off", func(k *kit) {
		h := k.start()
		t := h.to(courier.Queued)
		t.Delay = long
		k.wakes(func() { h.must(t) })
	}},
	{"wakes_when_a_slot_is_free", func(k *kit) {
		for _, to := range []courier.State{courier.Completed, courier.Failed, courier.Paused, courier.Cancelled} {
			h := k.start()
			k.wakes(func() { h.must(h.to(to)) })
		}
		lost := k.lose()
		k.wakes(func() { k.ask(lost.id(), courier.RequestCancel) })
	}},
	{"wakes_when_a_limit_changes", func(k *kit) {
		k.wakes(func() { k.limit("", "9") })
		k.wakes(func() { k.limit("key:x", "1") })
		k.wakes(func() { k.limit("key:x", "") })
	}},
}

// mark returns the mark of a claim that finds nothing.
func (k *kit) mark() uint64 {
	k.Helper()
	r := k.request(0)
	c, err := k.Claim(k.ctx(), r)
	k.ok(err)
	return c.Mark
}

// wakes reports when f does not wake one that waits for two queues.
func (k *kit) wakes(f func()) {
	k.Helper()
	mark := k.mark()
	ctx, cancel := context.WithTimeout(k.ctx(), long)
	defer cancel()
	woken := make(chan error)
	go func() { woken <- k.Await(ctx, []string{"night", courier.DefaultQueue}, mark) }()
	k.pass(k.unit / 10)
	f()
	select {
	case err := <-woken:
		k.ok(err)
	case <-time.After(20 * k.unit):
		k.Errorf("not awake after %v", 20*k.unit)
		cancel()
		<-woken
	}
}
