package executions

import (
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

// firstCases are about a claim that starts the first step, which a store may do
// or leave to the worker.
var firstCases = []testCase{
	// A claim may start the first step that the execution names; the result is that of a start by
	// the worker.
	{"started_as_by_a_worker", func(k *kit) {
		h := k.startFirst()
		if h.Started == nil {
			k.Same("present step", h.Execution.Current, (*courier.StepExecution)(nil))
			k.Same("marks", h.Counters, store.Counters{})
			return
		}
		other := k.Start() // as a worker does it
		t := other.Begin(0)
		t.Start.ID, t.Counters.Attempts = "one", 1
		other.Must(t)
		got, want := k.Get(h.ID()), k.Get(other.ID())
		k.Same("present step", plain(got.Current), plain(want.Current))
		k.Same("present step as claimed", h.Execution.Current, got.Current)
		k.Same("what was started", h.Started, got.Current)
		k.Same("started", got.Current.StartedAt, got.StartedAt)
		k.Same("lost", h.Lost, (*courier.StepExecution)(nil))
		k.Same("marks", h.Counters, t.Counters)
		k.Same("attempts", got.StepAttempts, want.StepAttempts)
		k.Same("audit", storekit.Moves(k.AuditOf(h.ID())), storekit.Moves(k.AuditOf(other.ID())))
		k.Same("seq", h.Seq, int64(len(k.AuditOf(h.ID()))))
		h.Must(h.Next(0, 1))
		k.Same("records", len(k.Records(h.ID())), 1)
	}},
	{"only_at_the_first_claim", func(k *kit) {
		h := k.startFirst()
		t := h.To(courier.Queued)
		t.Interrupt = true
		h.Must(t)
		again := k.Again(h.ID())
		k.Same("started", again.Started, (*courier.StepExecution)(nil))
		k.Same("present step", again.Execution.Current, (*courier.StepExecution)(nil))
		again.Must(again.Begin(0))
	}},
	// Not after a pause and resume, or a release.
	{"not_after_a_request", func(k *kit) {
		for _, hold := range []bool{false, true} {
			n := k.withFirst()
			n.Hold = hold
			id := k.Add(n)[0].ID
			if hold {
				k.Ask(id, courier.RequestRelease)
			} else {
				k.Ask(id, courier.RequestPause)
				k.Ask(id, courier.RequestResume)
			}
			h := k.Hold(id, long)
			k.Same("started", h.Started, (*courier.StepExecution)(nil))
			k.Same("present step", h.Execution.Current, (*courier.StepExecution)(nil))
			h.Must(h.Begin(0))
		}
	}},
	{"lost_with_its_worker", func(k *kit) {
		h := k.Hold(k.Add(k.withFirst())[0].ID, k.Unit)
		k.Pass(2 * k.Unit)
		again := k.Again(h.ID())
		k.Same("started", again.Started, (*courier.StepExecution)(nil))
		k.Same("lost", again.Lost, h.Started)
		if again.Lost != nil {
			t := again.Begin(0)
			lost := *again.Lost
			lost.State, lost.Reason = courier.StepFailed, courier.ReasonWorkerLost
			t.Ended, t.Start.Attempt = []courier.StepExecution{lost}, 2
			again.Must(t)
			k.Same("records", len(k.Records(h.ID())), 1)
		}
	}},
}

// withFirst is an execution whose first step the first claim may start.
func (k *kit) withFirst() store.NewExecution {
	k.Helper()
	return k.With(func(n *store.NewExecution) { n.First = &courier.StepExecution{ID: "one", Type: "a"} })
}

// startFirst creates one, and claims it.
func (k *kit) startFirst() *holder {
	k.Helper()
	return k.Hold(k.Add(k.withFirst())[0].ID, long)
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
