package executions

import (
	"reflect"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

var claimCases = []testCase{
	// A claim returns the execution as stored, a token, the definition and the number of the last
	// audit entry.
	{"returns_all_a_worker_needs", func(k *kit) {
		n := k.With(func(n *store.NewExecution) { n.Params = []byte(`{"a": 1}`) })
		e := k.Add(n)[0]
		c := k.MustClaim(k.ClaimRequest(1))[0]
		if c.Token == "" || !c.First || c.Seq != 2 || c.Lost != nil || len(c.Latest) != 0 || !reflect.DeepEqual(c.Counters, store.Counters{}) {
			k.Errorf("claimed %s", storekit.Text(c))
		}
		k.Same("definition", c.Definition, k.Job("job"))
		x := c.Execution
		k.Same("as claimed and as stored", k.Get(n.ID), x)
		k.Same("lease", x.LeaseExpiresAt.Sub(x.StartedAt), long)
		e.State, e.Worker, e.StartedAt, e.UpdatedAt, e.HeartbeatAt, e.LeaseExpiresAt, e.Seq = courier.Running, "worker", x.StartedAt, x.StartedAt, x.StartedAt, x.LeaseExpiresAt, c.Seq
		k.Same("execution", x, e)
		k.Same("audit", storekit.Moves(k.AuditOf(n.ID)), ">queued queued>running")
		k.Same("worker in the audit", k.AuditOf(n.ID)[1].Worker, "worker")
	}},
	{"returns_the_version_it_was_enqueued_with", func(k *kit) {
		k.SaveAll(store.Job, "job", `"one"`)
		n := k.New() // saves another
		n.Version = 1
		k.Add(n)
		k.Same("definition", string(k.MustClaim(k.ClaimRequest(1))[0].Definition.Body), `"one"`)
	}},
	{"returns_the_latest_records", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		h.Must(h.Next(0, 1))
		t := h.To(courier.Queued)
		t.Ended, t.Counters = []courier.StepExecution{storekit.Ended(1)}, store.Counters{Attempts: 2, Failures: 3, JobFailures: 4, Reclaims: 5}
		t.Position = courier.Position{Step: 2, Loops: []courier.LoopPosition{{Step: 1, Index: 7}}}
		h.Must(t)
		c := k.Again(h.ID())
		k.Same("latest", c.Latest, k.LatestOf(h.ID()))
		k.Same("records", len(c.Latest), 2)
		k.Same("counters", c.Counters, t.Counters)
		k.Same("position", c.Execution.Position, t.Position)
		k.Same("seq", c.Seq, int64(len(k.AuditOf(h.ID()))))
	}},
	// First is true for the first claim only; StartedAt stays that of the first.
	{"first_claim_only_is_first", func(k *kit) {
		h := k.Start()
		started := h.Execution.StartedAt
		k.Pass(k.Unit)
		h.Must(h.To(courier.Queued))
		again := k.Again(h.ID())
		if again.First {
			k.Error("the second claim is a first one")
		}
		k.Same("started", again.Execution.StartedAt, started)
	}},
	{"priority_first", func(k *kit) {
		var ids []courier.ExecutionID
		for _, p := range []int16{-32768, 0, -5, 32767, 5} {
			ids = append(ids, k.Add(k.prio(p))[0].ID)
			k.Pass(k.Unit / 10)
		}
		k.Claimed("claim", k.all5(), ids[3], ids[4], ids[1], ids[2], ids[0])
	}},
	{"then_due_time", func(k *kit) {
		list := k.Add(k.With(func(n *store.NewExecution) { n.Delay = k.Unit }), k.With(func(n *store.NewExecution) { n.Delay = k.Unit / 2 }), k.New())
		k.Pass(2 * k.Unit)
		k.Claimed("claim", k.all5(), list[2].ID, list[1].ID, list[0].ID)
	}},
	{"then_id", func(k *kit) {
		a, b, c := k.New(), k.New(), k.New()
		k.Add(b, c, a) // due at one instant
		k.Claimed("claim", k.all5(), a.ID, b.ID, c.ID)
	}},
	{"first_in_first_out", func(k *kit) {
		var ids []courier.ExecutionID
		for range 4 {
			ids = append(ids, k.Add(k.New())[0].ID)
			k.Pass(k.Unit / 10)
		}
		for _, id := range ids {
			k.Claimed("claim", k.ClaimRequest(1), id)
		}
	}},
	// The order holds across jobs, step types and limit keys.
	{"order_over_all_kinds", func(k *kit) {
		k.Job("other")
		ns := []store.NewExecution{k.prio(1), k.prio(2), k.prio(1), k.prio(2)}
		ns[1].Job, ns[3].StepTypes, ns[2].LimitKeys = "other", []string{"c"}, []string{"x"}
		k.Add(ns...)
		k.Claimed("claim", k.all5(), ns[1].ID, ns[3].ID, ns[0].ID, ns[2].ID)
	}},
	{"at_most_max", func(k *kit) {
		list := k.Add(k.New(), k.New(), k.New())
		k.Claimed("max 0", k.ClaimRequest(0))
		k.Claimed("max 2", k.ClaimRequest(2), list[0].ID, list[1].ID)
		k.Claimed("what is left", k.ClaimRequest(2), list[2].ID)
	}},
	{"each_once", func(k *kit) {
		id := k.Add(k.New())[0].ID
		k.Claimed("first", k.ClaimRequest(5), id)
		k.Claimed("second", k.ClaimRequest(5))
	}},
	{"tokens_differ", func(k *kit) {
		a, b := k.Start(), k.Start()
		first := a.Token
		a.Must(a.To(courier.Queued))
		a = k.Again(a.ID())
		if a.Token == first || a.Token == "" || b.Token == "" {
			k.Errorf("tokens %q, %q and %q", first, a.Token, b.Token)
		}
	}},
	{"not_before_it_is_due", func(k *kit) {
		id := k.Add(k.With(func(n *store.NewExecution) { n.Delay = long }))[0].ID
		k.Claimed("an hour early", k.ClaimRequest(1))
		soon := k.Add(k.With(func(n *store.NewExecution) { n.Delay = k.Unit }))[0].ID
		k.Pass(2 * k.Unit)
		k.Claimed("what is due", k.ClaimRequest(5), soon)
		k.State(id, courier.Queued)
	}},
	{"queued_only", func(k *kit) {
		k.Add(k.With(func(n *store.NewExecution) { n.Hold = true }))
		k.Ask(k.Add(k.New())[0].ID, courier.RequestPause)
		k.Ask(k.Add(k.New())[0].ID, courier.RequestCancel)
		for _, s := range []courier.State{courier.Completed, courier.Failed, courier.Cancelled, courier.Paused} {
			h := k.Start()
			h.Must(h.To(s))
		}
		k.Claimed("claim", k.ClaimRequest(20))
	}},
	{"with_all_step_types", func(k *kit) {
		n := k.With(func(n *store.NewExecution) { n.StepTypes = []string{"a", "x", "b", "a"} })
		none := k.With(func(n *store.NewExecution) { n.StepTypes = nil })
		k.Add(n, none)
		r := k.ClaimRequest(5)
		r.StepTypes = nil
		k.Claimed("a worker that knows none", r, none.ID)
		r.StepTypes = []string{"a", "b"}
		k.Claimed("without one", r)
		r.StepTypes = []string{"x", "b", "z", "a"}
		k.Claimed("with all", r, n.ID)
	}},
	{"of_its_queues", func(k *kit) {
		var ids []courier.ExecutionID
		for _, q := range []string{"x", "y", "z", "x"} {
			ids = append(ids, k.Add(k.With(func(n *store.NewExecution) { n.Queue = q }))[0].ID)
		}
		r := k.ClaimRequest(5)
		k.Claimed("default", r)
		r.Queues = nil
		k.Claimed("no queue", r)
		r.Queues = []string{"z", "x", "z"}
		k.Claimed("two queues, in order", r, ids[0], ids[2], ids[3])
	}},
	// Only executions with its own workspace, or without one.
	{"with_its_workspace", func(k *kit) {
		h := k.Start()
		t := h.To(courier.Queued)
		t.Workspace = "there"
		h.Must(t)
		k.Same("workspace", k.Get(h.ID()).Workspace, "there")
		r := k.ClaimRequest(1)
		k.Claimed("another workspace", r)
		r.Workspace = ""
		k.Claimed("no workspace", r)
		r.Workspace = "there"
		k.Claimed("the same workspace", r, h.ID())
	}},
	// Only restricts the claim; empty but not nil means nothing.
	{"only_named_executions", func(k *kit) {
		list := k.Add(k.New(), k.prio(5), k.New())
		r := k.ClaimRequest(5)
		r.Only = []courier.ExecutionID{}
		k.Claimed("nothing named", r)
		r.Only = []courier.ExecutionID{"00000000-0000-7000-8000-000000000000"}
		k.Claimed("one that is not there", r)
		r.Only = []courier.ExecutionID{list[2].ID, list[1].ID, list[2].ID}
		k.Claimed("in the usual order", r, list[1].ID, list[2].ID)
		r.Only, r.Queues = []courier.ExecutionID{list[0].ID}, []string{"other"}
		k.Claimed("in another queue", r)
	}},
	{"only_reclaims_too", func(k *kit) {
		a, b := k.Lose(), k.Lose()
		r := k.ClaimRequest(5)
		r.Only = []courier.ExecutionID{b.ID()}
		k.Claimed("claim", r, b.ID())
		k.Same("worker of the other", k.Get(a.ID()).Worker, "worker")
	}},
	// Remaining counts down from the first claim.
	{"remaining_of_the_timeout", func(k *kit) {
		n := k.With(func(n *store.NewExecution) { n.Timeout = long })
		h := k.Hold(k.Add(n)[0].ID, long)
		k.Same("at the first claim", h.Remaining, long)
		k.Pass(k.Unit)
		h.Must(h.To(courier.Queued))
		if got := k.Again(n.ID).Remaining; got > long-k.Unit || got < long/2 {
			k.Errorf("remaining %v of %v", got, long)
		}
		short := k.With(func(n *store.NewExecution) { n.Timeout = k.Unit })
		h = k.Hold(k.Add(short)[0].ID, long)
		k.Pass(2 * k.Unit)
		h.Must(h.To(courier.Queued))
		if got := k.Again(short.ID).Remaining; got >= 0 {
			k.Errorf("remaining %v after the timeout", got)
		}
		k.Same("without a timeout", k.Start().Remaining, time.Duration(0))
	}},
	{"next_is_when_something_is_due", func(k *kit) {
		k.next("nothing queued", k.ClaimRequest(1), 0)
		k.Add(k.With(func(n *store.NewExecution) { n.Delay = 2 * long }))
		k.next("one", k.ClaimRequest(1), 2*long)
		k.Add(k.With(func(n *store.NewExecution) { n.Delay = long }))
		k.next("the first of two", k.ClaimRequest(1), long)
		for _, change := range []func(*store.NewExecution){
			func(n *store.NewExecution) { n.Queue = "other" },
			func(n *store.NewExecution) { n.StepTypes = []string{"x"} },
			func(n *store.NewExecution) { n.Hold = true },
		} {
			k.Add(k.With(func(n *store.NewExecution) { n.Delay = long / 2; change(n) }))
		}
		k.next("what it can't claim", k.ClaimRequest(1), long)
		k.Add(k.New())
		k.next("beside what is claimed", k.ClaimRequest(2), long)
	}},
	{"next_is_when_a_lease_ends", func(k *kit) {
		k.Hold(k.Add(k.New())[0].ID, long)
		k.next("one lease", k.ClaimRequest(1), long)
		k.Add(k.With(func(n *store.NewExecution) { n.Delay = 2 * long }))
		k.next("and one due later", k.ClaimRequest(1), long)
		r := k.ClaimRequest(1)
		r.StepTypes = nil
		k.next("what it can't claim", r, 0)
	}},
	{"next_of_named_executions", func(k *kit) {
		late := k.Add(k.With(func(n *store.NewExecution) { n.Delay = 2 * long }))[0].ID
		k.Add(k.With(func(n *store.NewExecution) { n.Delay = long }))
		r := k.ClaimRequest(1)
		r.Only = []courier.ExecutionID{late}
		k.next("named", r, 2*long)
	}},
}

// prio is an execution with a priority.
func (k *kit) prio(p int16) store.NewExecution {
	k.Helper()
	return k.With(func(n *store.NewExecution) { n.Priority = p })
}

// all5 claims as many as the default limit lets.
func (k *kit) all5() store.ClaimRequest { return k.ClaimRequest(store.DefaultLimit) }

// next claims and reports when Next is not about the wanted time.
func (k *kit) next(what string, r store.ClaimRequest, want time.Duration) {
	k.Helper()
	c, err := k.Claim(k.Ctx(), r)
	k.OK(err)
	if (c.Next == 0) != (want == 0) || c.Next > want || c.Next < want/2 {
		k.Errorf("%s: next after %v, want %v", what, c.Next, want)
	}
}
