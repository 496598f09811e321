package storetest

import (
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// firstCases are about a claim that starts the first step, which a store may do
// or leave to the worker.
var firstCases = []testCase{
	{"started_as_by_a_worker", func(k *kit) {
		h := k.startFirst()
		if h.Started == nil {
			k.same("present step", h.Execution.Current, (*courier.StepExecution)(nil))
			k.same("marks", h.Counters, store.Counters{})
			return
		}
		other := k.start() // as a worker does it
		t := other.begin(0)
		t.Start.ID, t.Counters.Attempts = "one", 1
		other.must(t)
		got, want := k.get(h.id()), k.get(other.id())
		k.same("present step", plain(got.Current), plain(want.Current))
		k.same("present step as claimed", h.Execution.Current, got.Current)
		k.same("what was started", h.Started, got.Current)
		k.same("started", got.Current.StartedAt, got.StartedAt)
		k.same("lost", h.Lost, (*courier.StepExecution)(nil))
		k.same("marks", h.Counters, t.Counters)
		k.same("attempts", got.StepAttempts, want.StepAttempts)
		k.same("audit", moves(k.audit(h.id())), moves(k.audit(other.id())))
		k.same("seq", h.Seq, int64(len(k.audit(h.id()))))
		h.must(h.next(0, 1))
		k.same("records", len(k.records(h.id())), 1)
	}},
	{"only_at_the_first_claim", func(k *kit) {
		h := k.startFirst()
		t := h.to(courier.Queued)
		t.Interrupt = true
		h.must(t)
		again := k.again(h.id())
		k.same("started", again.Started, (*courier.StepExecution)(nil))
		k.same("present step", again.Execution.Current, (*courier.StepExecution)(nil))
		again.must(again.begin(0))
	}},
	{"not_after_a_request", func(k *kit) {
		for _, hold := range []bool{false, true} {
			n := k.withFirst()
			n.Hold = hold
			id := k.add(n)[0].ID
			if hold {
				k.ask(id, courier.RequestRelease)
			} else {
				k.ask(id, courier.RequestPause)
				k.ask(id, courier.RequestResume)
			}
			h := k.hold(id, long)
			k.same("started", h.Started, (*courier.StepExecution)(nil))
			k.same("present step", h.Execution.Current, (*courier.StepExecution)(nil))
			h.must(h.begin(0))
		}
	}},
	{"lost_with_its_worker", func(k *kit) {
		h := k.hold(k.add(k.withFirst())[0].ID, k.unit)
		k.pass(2 * k.unit)
		again := k.again(h.id())
		k.same("started", again.Started, (*courier.StepExecution)(nil))
		k.same("lost", again.Lost, h.Started)
		if again.Lost != nil {
			t := again.begin(0)
			lost := *again.Lost
			lost.State, lost.Reason = courier.StepFailed, courier.ReasonWorkerLost
			t.Ended, t.Start.Attempt = []courier.StepExecution{lost}, 2
			again.must(t)
			k.same("records", len(k.records(h.id())), 1)
		}
	}},
}

// withFirst is an execution whose first step the first claim may start.
func (k *kit) withFirst() store.NewExecution {
	k.Helper()
	return k.with(func(n *store.NewExecution) { n.First = &courier.StepExecution{ID: "one", Type: "a"} })
}

// startFirst creates one, and claims it.
func (k *kit) startFirst() *holder {
	k.Helper()
	return k.hold(k.add(k.withFirst())[0].ID, long)
}

// plain is a present step without what differs from one execution to another.
func plain(s *courier.StepExecution) courier.StepExecution {
	if s == nil {
		return courier.StepExecution{}
	}
	p := *s
	p.Execution, p.StartedAt = "", time.Time{}
	return p
}
