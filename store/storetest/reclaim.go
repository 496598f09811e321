package storetest

import (
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

var reclaimCases = []testCase{
	{"not_before_the_lease_ends", func(k *kit) {
		h := k.start()
		k.pass(2 * k.unit)
		r := k.request(5)
		k.claimed("claim", r)
		r.Only = []courier.ExecutionID{h.id()}
		k.claimed("by name", r)
	}},
	{"when_the_lease_has_ended", func(k *kit) {
		h := k.lose()
		r := k.request(5)
		r.Worker = "other"
		c := k.claimed("claim", r, h.id())[0]
		k.same("worker", c.Execution.Worker, "other")
		k.same("reclaimed, and the first claim", []bool{c.Reclaimed, c.First}, []bool{true, false})
		k.same("what is claimed from the queue is reclaimed", h.Reclaimed, false)
		k.same("lease", c.Execution.LeaseExpiresAt.After(h.Execution.LeaseExpiresAt), true)
		k.claimed("claim again", r)
	}},
	{"before_queued_ones", func(k *kit) {
		queued := k.add(k.prio(9))[0].ID
		h := k.lose()
		k.claimed("the first", k.request(1), h.id())
		k.claimed("the second", k.request(1), queued)
		high, low, lost := k.add(k.prio(9))[0].ID, k.add(k.prio(-9))[0].ID, k.lose()
		k.claimed("all in one call", k.request(5), lost.id(), high, low)
	}},
	{"by_priority_then_due_time_then_id", func(k *kit) {
		low, high, mid := k.prio(-1), k.prio(1), k.prio(0)
		k.add(low, high, mid)
		r := k.request(1)
		for i, n := range []store.NewExecution{mid, low, high} {
			r.Only, r.Lease = []courier.ExecutionID{n.ID}, k.unit+time.Duration(i)*k.unit/10
			k.claim(r)
		}
		k.pass(2 * k.unit)
		k.claimed("claim", k.request(5), high.ID, mid.ID, low.ID)
	}},
	{"at_most_max", func(k *kit) {
		a, b := k.lose(), k.lose()
		k.claimed("max 0", k.request(0))
		k.claimed("max 1", k.request(1), a.id())
		k.claimed("what is left", k.request(1), b.id())
	}},
	{"only_by_a_worker_that_can", func(k *kit) {
		h := k.hold(k.add(k.new())[0].ID, k.unit)
		t := h.begin(0)
		t.Workspace = "here"
		h.must(t)
		k.pass(2 * k.unit)
		r := k.request(5)
		r.Workspace = "there"
		k.claimed("another workspace", r)
		r = k.request(5)
		r.StepTypes = []string{"a"}
		k.claimed("without a step type", r)
		r = k.request(5)
		r.Queues = []string{"other"}
		k.claimed("another queue", r)
		k.claimed("one that can", k.request(5), h.id())
	}},
	{"token_changes_and_the_old_one_is_lost", func(k *kit) {
		h := k.lose()
		again := k.again(h.id())
		if again.Token == h.Token {
			k.Fatal("the token is the same")
		}
		k.unchanged("the lost worker", h.id(), func() {
			k.is("its transition", h.try(h.begin(0)), courier.ErrLeaseLost)
			late := h.begin(0)
			late.Seq = again.seq + 1
			k.is("its transition with the right number", h.try(late), courier.ErrLeaseLost)
			got, err := k.Renew(k.ctx(), store.RenewRequest{Leases: []store.Lease{{Execution: h.id(), Token: h.Token}}, For: long})
			k.ok(err)
			k.same("renewed", len(got), 0)
		})
		again.must(again.begin(0))
	}},
	{"same_worker_gets_a_new_token", func(k *kit) {
		h := k.lose()
		c := k.claim(k.request(1))[0]
		if c.Token == h.Token || c.Execution.Worker != h.Execution.Worker {
			k.Errorf("reclaimed as %s", text(c))
		}
	}},
	{"counts_reclaims", func(k *kit) {
		h := k.lose()
		for want := 1; want <= 3; want++ {
			h = k.hold(h.id(), k.unit)
			k.same("reclaims", h.Counters.Reclaims, want)
			k.pass(2 * k.unit)
		}
		h = k.again(h.id())
		t := h.begin(0)
		t.Counters = h.Counters
		t.Counters.Reclaims = 0
		h.must(t)
		t = h.to(courier.Queued)
		t.Interrupt = true
		h.must(t)
		k.same("after a transition reset them", k.again(h.id()).Counters.Reclaims, 0)
	}},
	{"keeps_the_other_counters", func(k *kit) {
		h := k.hold(k.add(k.new())[0].ID, k.unit)
		t := h.begin(0)
		t.Counters = store.Counters{Attempts: 2, Interrupted: true, Failures: 3, JobFailures: 4, Reclaims: 5, Resumed: courier.Failed}
		h.must(t)
		k.pass(2 * k.unit)
		t.Counters.Reclaims++
		k.same("counters", k.again(h.id()).Counters, t.Counters)
	}},
	{"returns_the_lost_attempt", func(k *kit) {
		h := k.lose(0, 1)
		current := k.get(h.id()).Current
		again := k.again(h.id())
		k.same("lost", again.Lost, current)
		k.same("step", again.Lost.Step, 1)
		k.same("present step", again.Execution.Current, current)
		k.same("latest", again.Latest, k.latest(h.id()))
		t := again.begin(1)
		t.Interrupt, t.Start.Attempt = true, 2
		again.must(t)
		k.same("audit", moves(k.audit(h.id())),
			">queued queued>running 0:pending>running 0:running>completed 1:pending>running "+
				"running>queued queued>running 1:running>pending 1:pending>running")
	}},
	{"lost_attempt_ended_as_failed", func(k *kit) {
		h := k.lose(0)
		again := k.again(h.id())
		k.pass(k.unit)
		t := again.to(courier.Queued)
		t.Ended = []courier.StepExecution{*again.Lost}
		t.Ended[0].State, t.Ended[0].Reason, t.Ended[0].Error = courier.StepFailed, courier.ReasonWorkerLost, "gone"
		again.must(t)
		r := k.records(h.id())[0]
		k.same("started", r.StartedAt, again.Lost.StartedAt)
		k.same("why", []string{string(r.Reason), r.Error}, []string{"worker_lost", "gone"})
		if r.Worker == again.Execution.Worker || r.Worker != again.Lost.Worker {
			k.Errorf("the record names worker %q; %q was lost, and %q took over", r.Worker, again.Lost.Worker, again.Execution.Worker)
		}
		entries := k.audit(h.id())
		k.same("who wrote it", entries[len(entries)-2].Worker, again.Execution.Worker)
	}},
	{"nothing_lost_between_steps", func(k *kit) {
		if again := k.again(k.lose().id()); again.Lost != nil {
			k.Errorf("lost %s", text(again.Lost))
		}
	}},
	{"keeps_position_and_start", func(k *kit) {
		h := k.lose(0, 1, 2)
		before := k.get(h.id())
		x := k.again(h.id()).Execution
		k.same("position", x.Position, before.Position)
		k.same("times", []time.Time{x.StartedAt, x.DueAt}, []time.Time{before.StartedAt, before.DueAt})
		k.same("attempt", x.Attempt, 1)
	}},
	{"goes_through_the_queue_in_the_audit", func(k *kit) {
		h := k.lose()
		r := k.request(1)
		r.Worker = "other"
		k.claim(r)
		list := k.audit(h.id())
		k.same("audit", moves(list), ">queued queued>running running>queued queued>running")
		k.same("reason", list[2].Reason, courier.ReasonWorkerLost)
		k.same("text", list[2].Error, `the lease of worker "worker" expired`)
		k.same("workers", []string{list[1].Worker, list[2].Worker, list[3].Worker}, []string{"worker", "other", "other"})
		k.same("elapsed", []time.Duration{list[2].Elapsed, list[3].Elapsed}, []time.Duration{list[2].At.Sub(list[1].At), 0})
	}},
	{"keeps_the_request", func(k *kit) {
		h := k.requested(courier.RequestCancel)
		again := k.again(h.id())
		k.same("request", again.Execution.Request, courier.RequestCancel)
		k.is("a start", again.try(again.begin(0)), courier.ErrConflict)
		again.must(again.to(courier.Cancelled))
		k.same("by", k.audit(h.id())[4].By, "ann")
	}},
	{"not_after_it_was_renewed", func(k *kit) {
		h := k.hold(k.add(k.new())[0].ID, k.unit)
		k.renewed("renewed", []store.Lease{{Execution: h.id(), Token: h.Token}}, h.id())
		k.pass(2 * k.unit)
		k.claimed("claim", k.request(5))
	}},
}

// requested creates an execution whose lease has expired and that has a pending
// request.
func (k *kit) requested(kind courier.RequestKind) *holder {
	k.Helper()
	for lease := 2 * k.unit; ; lease *= 2 {
		h := k.hold(k.add(k.new())[0].ID, lease)
		if e := k.ask(h.id(), kind); e.State == courier.Running {
			k.pass(2 * lease)
			return h
		}
	}
}
