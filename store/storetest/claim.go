package storetest

import (
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

var claimCases = []testCase{
	{"returns_all_a_worker_needs", func(k *kit) {
		n := k.with(func(n *store.NewExecution) { n.Params = []byte(`{"a": 1}`) })
		e := k.add(n)[0]
		c := k.claim(k.request(1))[0]
		if c.Token == "" || !c.First || c.Seq != 2 || c.Lost != nil || len(c.Latest) != 0 || c.Counters != (store.Counters{}) {
			k.Errorf("claimed %s", text(c))
		}
		k.same("definition", c.Definition, k.job("job"))
		x := c.Execution
		k.same("as claimed and as stored", k.get(n.ID), x)
		k.same("lease", x.LeaseExpiresAt.Sub(x.StartedAt), long)
		e.State, e.Worker, e.StartedAt, e.LeaseExpiresAt, e.Seq = courier.Running, "worker", x.StartedAt, x.LeaseExpiresAt, c.Seq
		k.same("execution", x, e)
		k.same("audit", moves(k.audit(n.ID)), ">queued queued>running")
		k.same("worker in the audit", k.audit(n.ID)[1].Worker, "worker")
	}},
	{"returns_the_version_it_was_enqueued_with", func(k *kit) {
		k.saveAll(store.Job, "job", `"one"`)
		n := k.new() // saves another
		n.Version = 1
		k.add(n)
		k.same("definition", string(k.claim(k.request(1))[0].Definition.Body), `"one"`)
	}},
	{"returns_the_latest_records", func(k *kit) {
		h := k.start()
		h.must(h.begin(0))
		h.must(h.next(0, 1))
		t := h.to(courier.Queued)
		t.Ended, t.Counters = []courier.StepExecution{ended(1)}, store.Counters{Attempts: 2, Failures: 3, JobFailures: 4, Reclaims: 5}
		t.Position = courier.Position{Step: 2, Loops: []courier.LoopPosition{{Step: 1, Index: 7}}}
		h.must(t)
		c := k.again(h.id())
		k.same("latest", c.Latest, k.latest(h.id()))
		k.same("records", len(c.Latest), 2)
		k.same("counters", c.Counters, t.Counters)
		k.same("position", c.Execution.Position, t.Position)
		k.same("seq", c.Seq, int64(len(k.audit(h.id()))))
	}},
	{"first_claim_only_is_first", func(k *kit) {
		h := k.start()
		started := h.Execution.StartedAt
		k.pass(k.unit)
		h.must(h.to(courier.Queued))
		again := k.again(h.id())
		if again.First {
			k.Error("the second claim is a first one")
		}
		k.same("started", again.Execution.StartedAt, started)
	}},
	{"priority_first", func(k *kit) {
		var ids []courier.ExecutionID
		for _, p := range []int16{-32768, 0, -5, 32767, 5} {
			ids = append(ids, k.add(k.prio(p))[0].ID)
			k.pass(k.unit / 10)
		}
		k.claimed("claim", k.all5(), ids[3], ids[4], ids[1], ids[2], ids[0])
	}},
	{"then_due_time", func(k *kit) {
		list := k.add(k.with(func(n *store.NewExecution) { n.Delay = k.unit }), k.with(func(n *store.NewExecution) { n.Delay = k.unit / 2 }), k.new())
		k.pass(2 * k.unit)
		k.claimed("claim", k.all5(), list[2].ID, list[1].ID, list[0].ID)
	}},
	{"then_id", func(k *kit) {
		a, b, c := k.new(), k.new(), k.new()
		k.add(b, c, a) // due at one instant
		k.claimed("claim", k.all5(), a.ID, b.ID, c.ID)
	}},
	{"first_in_first_out", func(k *kit) {
		var ids []courier.ExecutionID
		for range 4 {
			ids = append(ids, k.add(k.new())[0].ID)
			k.pass(k.unit / 10)
		}
		for _, id := range ids {
			k.claimed("claim", k.request(1), id)
		}
	}},
	{"order_over_all_kinds", func(k *kit) {
		k.job("other")
		ns := []store.NewExecution{k.prio(1), k.prio(2), k.prio(1), k.prio(2)}
		ns[1].Job, ns[3].StepTypes, ns[2].LimitKeys = "other", []string{"c"}, []string{"x"}
		k.add(ns...)
		k.claimed("claim", k.all5(), ns[1].ID, ns[3].ID, ns[0].ID, ns[2].ID)
	}},
	{"at_most_max", func(k *kit) {
		list := k.add(k.new(), k.new(), k.new())
		k.claimed("max 0", k.request(0))
		k.claimed("max 2", k.request(2), list[0].ID, list[1].ID)
		k.claimed("what is left", k.request(2), list[2].ID)
	}},
	{"each_once", func(k *kit) {
		id := k.add(k.new())[0].ID
		k.claimed("first", k.request(5), id)
		k.claimed("second", k.request(5))
	}},
	{"tokens_differ", func(k *kit) {
		a, b := k.start(), k.start()
		first := a.Token
		a.must(a.to(courier.Queued))
		a = k.again(a.id())
		if a.Token == first || a.Token == "" || b.Token == "" {
			k.Errorf("tokens %q, %q and %q", first, a.Token, b.Token)
		}
	}},
	{"not_before_it_is_due", func(k *kit) {
		id := k.add(k.with(func(n *store.NewExecution) { n.Delay = long }))[0].ID
		k.claimed("an hour early", k.request(1))
		soon := k.add(k.with(func(n *store.NewExecution) { n.Delay = k.unit }))[0].ID
		k.pass(2 * k.unit)
		k.claimed("what is due", k.request(5), soon)
		k.state(id, courier.Queued)
	}},
	{"queued_only", func(k *kit) {
		k.add(k.with(func(n *store.NewExecution) { n.Hold = true }))
		k.ask(k.add(k.new())[0].ID, courier.RequestPause)
		k.ask(k.add(k.new())[0].ID, courier.RequestCancel)
		for _, s := range []courier.State{courier.Completed, courier.Failed, courier.Cancelled, courier.Paused} {
			h := k.start()
			h.must(h.to(s))
		}
		k.claimed("claim", k.request(20))
	}},
	{"with_all_step_types", func(k *kit) {
		n := k.with(func(n *store.NewExecution) { n.StepTypes = []string{"a", "x", "b", "a"} })
		none := k.with(func(n *store.NewExecution) { n.StepTypes = nil })
		k.add(n, none)
		r := k.request(5)
		r.StepTypes = nil
		k.claimed("a worker that knows none", r, none.ID)
		r.StepTypes = []string{"a", "b"}
		k.claimed("without one", r)
		r.StepTypes = []string{"x", "b", "z", "a"}
		k.claimed("with all", r, n.ID)
	}},
	{"of_its_queues", func(k *kit) {
		var ids []courier.ExecutionID
		for _, q := range []string{"x", "y", "z", "x"} {
			ids = append(ids, k.add(k.with(func(n *store.NewExecution) { n.Queue = q }))[0].ID)
		}
		r := k.request(5)
		k.claimed("default", r)
		r.Queues = nil
		k.claimed("no queue", r)
		r.Queues = []string{"z", "x", "z"}
		k.claimed("two queues, in order", r, ids[0], ids[2], ids[3])
	}},
	{"with_its_workspace", func(k *kit) {
		h := k.start()
		t := h.to(courier.Queued)
		t.Workspace = "there"
		h.must(t)
		k.same("workspace", k.get(h.id()).Workspace, "there")
		r := k.request(1)
		k.claimed("another workspace", r)
		r.Workspace = ""
		k.claimed("no workspace", r)
		r.Workspace = "there"
		k.claimed("the same workspace", r, h.id())
	}},
	{"only_named_executions", func(k *kit) {
		list := k.add(k.new(), k.prio(5), k.new())
		r := k.request(5)
		r.Only = []courier.ExecutionID{}
		k.claimed("nothing named", r)
		r.Only = []courier.ExecutionID{"00000000-0000-7000-8000-000000000000"}
		k.claimed("one that is not there", r)
		r.Only = []courier.ExecutionID{list[2].ID, list[1].ID, list[2].ID}
		k.claimed("in the usual order", r, list[1].ID, list[2].ID)
		r.Only, r.Queues = []courier.ExecutionID{list[0].ID}, []string{"other"}
		k.claimed("in another queue", r)
	}},
	{"only_reclaims_too", func(k *kit) {
		a, b := k.lose(), k.lose()
		r := k.request(5)
		r.Only = []courier.ExecutionID{b.id()}
		k.claimed("claim", r, b.id())
		k.same("worker of the other", k.get(a.id()).Worker, "worker")
	}},
	{"remaining_of_the_timeout", func(k *kit) {
		n := k.with(func(n *store.NewExecution) { n.Timeout = long })
		h := k.hold(k.add(n)[0].ID, long)
		k.same("at the first claim", h.Remaining, long)
		k.pass(k.unit)
		h.must(h.to(courier.Queued))
		if got := k.again(n.ID).Remaining; got > long-k.unit || got < long/2 {
			k.Errorf("remaining %v of %v", got, long)
		}
		short := k.with(func(n *store.NewExecution) { n.Timeout = k.unit })
		h = k.hold(k.add(short)[0].ID, long)
		k.pass(2 * k.unit)
		h.must(h.to(courier.Queued))
		if got := k.again(short.ID).Remaining; got >= 0 {
			k.Errorf("remaining %v after the timeout", got)
		}
		k.same("without a timeout", k.start().Remaining, time.Duration(0))
	}},
	{"next_is_when_something_is_due", func(k *kit) {
		k.next("nothing queued", k.request(1), 0)
		k.add(k.with(func(n *store.NewExecution) { n.Delay = 2 * long }))
		k.next("one", k.request(1), 2*long)
		k.add(k.with(func(n *store.NewExecution) { n.Delay = long }))
		k.next("the first of two", k.request(1), long)
		for _, change := range []func(*store.NewExecution){
			func(n *store.NewExecution) { n.Queue = "other" },
			func(n *store.NewExecution) { n.StepTypes = []string{"x"} },
			func(n *store.NewExecution) { n.Hold = true },
		} {
			k.add(k.with(func(n *store.NewExecution) { n.Delay = long / 2; change(n) }))
		}
		k.next("what it can't claim", k.request(1), long)
		k.add(k.new())
		k.next("beside what is claimed", k.request(2), long)
	}},
	{"next_is_when_a_lease_ends", func(k *kit) {
		k.hold(k.add(k.new())[0].ID, long)
		k.next("one lease", k.request(1), long)
		k.add(k.with(func(n *store.NewExecution) { n.Delay = 2 * long }))
		k.next("and one due later", k.request(1), long)
		r := k.request(1)
		r.StepTypes = nil
		k.next("what it can't claim", r, 0)
	}},
	{"next_of_named_executions", func(k *kit) {
		late := k.add(k.with(func(n *store.NewExecution) { n.Delay = 2 * long }))[0].ID
		k.add(k.with(func(n *store.NewExecution) { n.Delay = long }))
		r := k.request(1)
		r.Only = []courier.ExecutionID{late}
		k.next("named", r, 2*long)
	}},
}

// prio is an execution with a priority.
func (k *kit) prio(p int16) store.NewExecution {
	k.Helper()
	return k.with(func(n *store.NewExecution) { n.Priority = p })
}

// all5 claims as many as the default limit lets.
func (k *kit) all5() store.ClaimRequest { return k.request(store.DefaultLimit) }

// next claims and reports when Next is not about the wanted time.
func (k *kit) next(what string, r store.ClaimRequest, want time.Duration) {
	k.Helper()
	c, err := k.Claim(k.ctx(), r)
	k.ok(err)
	if (c.Next == 0) != (want == 0) || c.Next > want || c.Next < want/2 {
		k.Errorf("%s: next after %v, want %v", what, c.Next, want)
	}
}
