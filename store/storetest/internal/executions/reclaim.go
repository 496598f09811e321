package executions

import (
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

var reclaimCases = []testCase{
	// A running execution is not claimed while its lease lasts.
	{"not_before_the_lease_ends", func(k *kit) {
		h := k.Start()
		k.Pass(2 * k.Unit)
		r := k.ClaimRequest(5)
		k.Claimed("claim", r)
		r.Only = []courier.ExecutionID{h.ID()}
		k.Claimed("by name", r)
	}},
	{"when_the_lease_has_ended", func(k *kit) {
		h := k.Lose()
		r := k.ClaimRequest(5)
		r.Worker = "other"
		c := k.Claimed("claim", r, h.ID())[0]
		k.Same("worker", c.Execution.Worker, "other")
		k.Same("reclaimed, and the first claim", []bool{c.Reclaimed, c.First}, []bool{true, false})
		k.Same("what is claimed from the queue is reclaimed", h.Reclaimed, false)
		k.Same("lease", c.Execution.LeaseExpiresAt.After(h.Execution.LeaseExpiresAt), true)
		k.Same("lease after the heartbeat", c.Execution.LeaseExpiresAt.Sub(c.Execution.HeartbeatAt), long)
		k.Claimed("claim again", r)
	}},
	// Expired executions come before queued ones of any priority.
	{"before_queued_ones", func(k *kit) {
		queued := k.Add(k.prio(9))[0].ID
		h := k.Lose()
		k.Claimed("the first", k.ClaimRequest(1), h.ID())
		k.Claimed("the second", k.ClaimRequest(1), queued)
		high, low, lost := k.Add(k.prio(9))[0].ID, k.Add(k.prio(-9))[0].ID, k.Lose()
		k.Claimed("all in one call", k.ClaimRequest(5), lost.ID(), high, low)
	}},
	{"by_priority_then_due_time_then_id", func(k *kit) {
		low, high, mid := k.prio(-1), k.prio(1), k.prio(0)
		k.Add(low, high, mid)
		r := k.ClaimRequest(1)
		for i, n := range []store.NewExecution{mid, low, high} {
			r.Only, r.Lease = []courier.ExecutionID{n.ID}, k.Unit+time.Duration(i)*k.Unit/10
			k.MustClaim(r)
		}
		k.Pass(2 * k.Unit)
		k.Claimed("claim", k.ClaimRequest(5), high.ID, mid.ID, low.ID)
	}},
	{"at_most_max", func(k *kit) {
		a, b := k.Lose(), k.Lose()
		k.Claimed("max 0", k.ClaimRequest(0))
		k.Claimed("max 1", k.ClaimRequest(1), a.ID())
		k.Claimed("what is left", k.ClaimRequest(1), b.ID())
	}},
	// Step types, queue and workspace must match as for any claim.
	{"only_by_a_worker_that_can", func(k *kit) {
		h := k.Hold(k.Add(k.New())[0].ID, k.Unit)
		t := h.Begin(0)
		t.Workspace = "here"
		h.Must(t)
		k.Pass(2 * k.Unit)
		r := k.ClaimRequest(5)
		r.Workspace = "there"
		k.Claimed("another workspace", r)
		r = k.ClaimRequest(5)
		r.StepTypes = []string{"a"}
		k.Claimed("without a step type", r)
		r = k.ClaimRequest(5)
		r.Queues = []string{"other"}
		k.Claimed("another queue", r)
		k.Claimed("one that can", k.ClaimRequest(5), h.ID())
	}},
	// The token changes; writes and renewals under the old one are refused.
	{"token_changes_and_the_old_one_is_lost", func(k *kit) {
		h := k.Lose()
		again := k.Again(h.ID())
		if again.Token == h.Token {
			k.Fatal("the token is the same")
		}
		k.Unchanged("the lost worker", h.ID(), func() {
			k.Is("its transition", h.Try(h.Begin(0)), courier.ErrLeaseLost)
			late := h.Begin(0)
			late.Seq = again.Seq + 1
			k.Is("its transition with the right number", h.Try(late), courier.ErrLeaseLost)
			got, err := k.Renew(k.Ctx(), store.RenewRequest{Leases: []store.Lease{{Execution: h.ID(), Token: h.Token}}, For: long})
			k.OK(err)
			k.Same("renewed", len(got), 0)
		})
		again.Must(again.Begin(0))
	}},
	{"same_worker_gets_a_new_token", func(k *kit) {
		h := k.Lose()
		c := k.MustClaim(k.ClaimRequest(1))[0]
		if c.Token == h.Token || c.Execution.Worker != h.Execution.Worker {
			k.Errorf("reclaimed as %s", storekit.Text(c))
		}
	}},
	// Every reclaim raises Counters.Reclaims, until a transition resets it.
	{"counts_reclaims", func(k *kit) {
		h := k.Lose()
		for want := 1; want <= 3; want++ {
			h = k.Hold(h.ID(), k.Unit)
			k.Same("reclaims", h.Counters.Reclaims, want)
			k.Pass(2 * k.Unit)
		}
		h = k.Again(h.ID())
		t := h.Begin(0)
		t.Counters = h.Counters
		t.Counters.Reclaims = 0
		h.Must(t)
		t = h.To(courier.Queued)
		t.Interrupt = true
		h.Must(t)
		k.Same("after a transition reset them", k.Again(h.ID()).Counters.Reclaims, 0)
	}},
	{"keeps_the_other_counters", func(k *kit) {
		h := k.Hold(k.Add(k.New())[0].ID, k.Unit)
		t := h.Begin(0)
		t.Counters = store.Counters{Attempts: 2, Interrupted: true, Failures: 3, JobFailures: 4, Reclaims: 5, Resumed: courier.Failed}
		h.Must(t)
		k.Pass(2 * k.Unit)
		t.Counters.Reclaims++
		k.Same("counters", k.Again(h.ID()).Counters, t.Counters)
	}},
	// Lost is the current step, which stays until the new worker ends it.
	{"returns_the_lost_attempt", func(k *kit) {
		h := k.Lose(0, 1)
		current := k.Get(h.ID()).Current
		again := k.Again(h.ID())
		k.Same("lost", again.Lost, current)
		k.Same("step", again.Lost.Step, 1)
		k.Same("present step", again.Execution.Current, current)
		k.Same("latest", again.Latest, k.LatestOf(h.ID()))
		t := again.Begin(1)
		t.Interrupt, t.Start.Attempt = true, 2
		again.Must(t)
		k.Same("audit", storekit.Moves(k.AuditOf(h.ID())),
			">queued queued>running 0:pending>running 0:running>completed 1:pending>running "+
				"running>queued queued>running 1:running>pending 1:pending>running")
	}},
	// Its record keeps the instant when it started.
	{"lost_attempt_ended_as_failed", func(k *kit) {
		h := k.Lose(0)
		again := k.Again(h.ID())
		k.Pass(k.Unit)
		t := again.To(courier.Queued)
		t.Ended = []courier.StepExecution{*again.Lost}
		t.Ended[0].State, t.Ended[0].Reason, t.Ended[0].Error = courier.StepFailed, courier.ReasonWorkerLost, "gone"
		again.Must(t)
		r := k.Records(h.ID())[0]
		k.Same("started", r.StartedAt, again.Lost.StartedAt)
		k.Same("why", []string{string(r.Reason), r.Error}, []string{"worker_lost", "gone"})
		if r.Worker == again.Execution.Worker || r.Worker != again.Lost.Worker {
			k.Errorf("the record names worker %q; %q was lost, and %q took over", r.Worker, again.Lost.Worker, again.Execution.Worker)
		}
		entries := k.AuditOf(h.ID())
		k.Same("who wrote it", entries[len(entries)-2].Worker, again.Execution.Worker)
	}},
	{"nothing_lost_between_steps", func(k *kit) {
		if again := k.Again(k.Lose().ID()); again.Lost != nil {
			k.Errorf("lost %s", storekit.Text(again.Lost))
		}
	}},
	// Position, attempt, due time and start stay.
	{"keeps_position_and_start", func(k *kit) {
		h := k.Lose(0, 1, 2)
		before := k.Get(h.ID())
		x := k.Again(h.ID()).Execution
		k.Same("position", x.Position, before.Position)
		k.Same("times", []time.Time{x.StartedAt, x.DueAt}, []time.Time{before.StartedAt, before.DueAt})
		k.Same("attempt", x.Attempt, 1)
	}},
	// The audit shows the way through the queue, and the reason.
	{"goes_through_the_queue_in_the_audit", func(k *kit) {
		h := k.Lose()
		r := k.ClaimRequest(1)
		r.Worker = "other"
		k.MustClaim(r)
		list := k.AuditOf(h.ID())
		k.Same("audit", storekit.Moves(list), ">queued queued>running running>queued queued>running")
		k.Same("reason", list[2].Reason, courier.ReasonWorkerLost)
		k.Same("text", list[2].Error, `the lease of worker "worker" expired`)
		k.Same("workers", []string{list[1].Worker, list[2].Worker, list[3].Worker}, []string{"worker", "other", "other"})
		k.Same("elapsed", []time.Duration{list[2].Elapsed, list[3].Elapsed}, []time.Duration{list[2].At.Sub(list[1].At), 0})
	}},
	{"keeps_the_request", func(k *kit) {
		h := k.requested(courier.RequestCancel)
		again := k.Again(h.ID())
		k.Same("request", again.Execution.Request, courier.RequestCancel)
		k.Is("a start", again.Try(again.Begin(0)), courier.ErrConflict)
		again.Must(again.To(courier.Cancelled))
		k.Same("by", k.AuditOf(h.ID())[4].By, "ann")
	}},
	{"not_after_it_was_renewed", func(k *kit) {
		h := k.Hold(k.Add(k.New())[0].ID, k.Unit)
		k.renewed("renewed", []store.Lease{{Execution: h.ID(), Token: h.Token}}, h.ID())
		k.Pass(2 * k.Unit)
		k.Claimed("claim", k.ClaimRequest(5))
	}},
}

// requested creates an execution whose lease has expired and that has a pending
// request.
func (k *kit) requested(kind courier.RequestKind) *holder {
	k.Helper()
	for lease := 2 * k.Unit; ; lease *= 2 {
		h := k.Hold(k.Add(k.New())[0].ID, lease)
		if e := k.Ask(h.ID(), kind); e.State == courier.Running {
			k.Pass(2 * lease)
			return h
		}
	}
}
