package coordination

import (
	"strconv"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/advice"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

func hasOverview(s store.Store) bool {
	_, ok := s.(store.Overview)
	return ok
}

var overviewCases = []testCase{
	// Of an empty store, it has no counts.
	{"census_of_nothing", func(k *kit) {
		c := k.census(0)
		k.Same("count limit", c.CountLimit, store.DefaultCountLimit)
		k.Same("census", plain(c), store.Census{CountLimit: store.DefaultCountLimit, QueueCountLimit: store.DefaultCountLimit, Queues: []store.QueueCensus{}, Jobs: []store.NamedCount{}, Keys: []store.NamedCount{}})
	}},
	// A census counts executions by queue, job, limit key and state, with the oldest that is due
	// in each queue; completed ones are not counted.
	{"census_counts_each_state", func(k *kit) {
		k.Limit("", "0")
		k.Job("other")
		in := func(queue string, change ...func(*store.NewExecution)) store.NewExecution {
			n := k.New()
			n.Queue = queue
			for _, c := range change {
				c(&n)
			}
			return n
		}
		hold := func(n *store.NewExecution) { n.Hold = true }
		later := func(n *store.NewExecution) { n.Delay = long }
		urgent := func(n *store.NewExecution) { n.Priority = 5 }
		first := k.Add(in("night"))[0]
		k.Pass(k.Unit / 10)
		k.Add(in("night", later), in("night", urgent), in("noon", later), in("noon", hold), in("noon", hold))
		k.Add(k.of("waiting", "other"))
		for i, to := range []courier.State{courier.Paused, courier.Failed, courier.Failed, courier.Completed, courier.Cancelled, courier.Running, courier.Running} {
			n := in(courier.DefaultQueue)
			if n.LimitKeys = []string{"b"}; i == 6 {
				n.Job, n.LimitKeys = "other", []string{"a", "b"}
			}
			h := k.Hold(k.Add(n)[0].ID, long)
			if to != courier.Running {
				h.Must(h.To(to))
			}
		}
		k.Same("census", plain(k.census(0)), store.Census{
			CountLimit: store.DefaultCountLimit, QueueCountLimit: store.DefaultCountLimit, Created: 2, Waiting: 1, Paused: 1, Failed: 2, Running: 2,
			Queues: []store.QueueCensus{{Queue: "night", Queued: 3, Oldest: first.ID, Job: first.Job, DueAt: first.DueAt}, {Queue: "noon", Queued: 1}},
			Jobs:   []store.NamedCount{{Name: "job", Count: 1}, {Name: "other", Count: 1}},
			Keys:   []store.NamedCount{{Name: "a", Count: 1}, {Name: "b", Count: 2}},
		})
	}},
	// No count goes beyond the number that the caller gives.
	{"census_counts_no_further_than_asked", func(k *kit) {
		k.Limit("", "0")
		for range 4 {
			h := k.Start()
			h.Must(h.To(courier.Failed))
			k.Start()
			k.Add(k.With(func(n *store.NewExecution) { n.Queue = "night" }))
			k.Add(k.With(func(n *store.NewExecution) { n.Hold = true }))
		}
		c := k.census(3)
		k.Same("counts", []int{c.CountLimit, c.Failed, c.Running, c.Created, c.Queues[0].Queued, c.Jobs[0].Count}, []int{3, 3, 3, 3, 3, 3})
		c = k.census(4)
		k.Same("counts", []int{c.CountLimit, c.Failed, c.Running, c.Created, c.Queues[0].Queued, c.Jobs[0].Count}, []int{4, 4, 4, 4, 4, 4})
	}},
	// Many queues share what is counted, so that none counts beyond its share, and the oldest of
	// each is still exact.
	{"census_shares_its_rows_among_queues", func(k *kit) {
		// The oldest comes last in the order of claims, so no count reads it.
		oldest := k.Add(k.With(func(n *store.NewExecution) { n.Queue, n.Priority = "full", -5 }))[0]
		k.Pass(k.Unit / 10)
		for i := range 14 {
			k.Add(k.With(func(n *store.NewExecution) { n.Queue = "full" }))
			k.Add(k.With(func(n *store.NewExecution) { n.Queue = "q" + strconv.Itoa(i%4) }))
		}
		for most, want := range map[int]int{8: 8, 11: 10, 15: 12, 20: 15, 100: 15} {
			c := k.census(most)
			k.Same("cap", c.QueueCountLimit, store.QueueCountLimit(most, 5))
			k.Same("queues and counts", []int{len(c.Queues), c.Queues[0].Queued, c.Queues[1].Queued}, []int{5, want, 4})
			k.Same("the oldest", c.Queues[0].Oldest, oldest.ID)
		}
	}},
	// Running executions whose leases have ended are counted as lost too.
	{"census_counts_lost_ones", func(k *kit) {
		k.Limit("", "0")
		k.Lose()
		k.Start()
		c := k.census(0)
		k.Same("running and lost", []int{c.Running, c.Lost}, []int{2, 1})
	}},
	{"circumstances_of_none", func(k *kit) {
		_, err := k.Store.(store.Overview).Circumstances(k.Ctx(), "00000000-0000-7000-8000-000000000000", long)
		k.Is("error", err, courier.ErrNotFound)
	}},
	// The circumstances of an execution have its limits with the oldest that holds each, how many
	// come before it, and the workers.
	{"circumstances_are_those_of_the_execution", func(k *kit) {
		k.Limit("", "3")
		k.Limit("key:acme", "1")
		k.Limit("key:other", "9")
		holder := k.Hold(k.Add(k.With(func(n *store.NewExecution) { n.LimitKeys = []string{"acme"} }))[0].ID, long)
		k.Start()
		k.Add(k.With(func(n *store.NewExecution) { n.Priority = 1 }), k.With(func(n *store.NewExecution) { n.Priority, n.Delay = 1, long }))
		n := k.With(func(n *store.NewExecution) { n.LimitKeys, n.JobLimit = []string{"acme", "free"}, 2 })
		x := k.Add(n)[0]
		k.Add(k.New())
		c := k.circumstances(x.ID)
		k.Same("execution", c.Execution, k.Get(x.ID))
		k.Same("step types", c.StepTypes, n.StepTypes)
		k.Same("limits", c.Limits, []store.LimitUse{
			{Scope: "", Limit: 3, Running: 2, Job: "job", Holder: c.Limits[0].Holder},
			{Scope: "job:job", Limit: 2, Running: 2, Job: "job", Holder: c.Limits[1].Holder},
			{Scope: "key:acme", Limit: 1, Running: 1, Job: "job", Holder: holder.ID()},
		})
		k.Same("the oldest of two", c.Limits[0].Holder, min(holder.ID(), c.Limits[0].Holder))
		k.Same("ahead", c.Ahead, 1)
		k.Same("entry", c.Entry, courier.AuditEntry{})
		if c.At.Before(x.CreatedAt) {
			k.Errorf("looked at %v, before it was created", c.At)
		}
		k.Limit("key:f*", "4")
		k.Limit("key:fr*", "3")
		c = k.circumstances(x.ID)
		k.Same("limit of a pattern", c.Limits[3:], []store.LimitUse{{Scope: "key:free", Limit: 3}})
		k.Limit("key:f*", "")
		k.Limit("key:fr*", "")
		k.Limit("job:job", "7")
		k.Limit("", "0")
		c = k.circumstances(x.ID)
		k.Same("limits that are set", c.Limits, []store.LimitUse{
			{Scope: "job:job", Limit: 7, Running: 2, Job: "job", Holder: c.Limits[0].Holder}, {Scope: "key:acme", Limit: 1, Running: 1, Job: "job", Holder: holder.ID()},
		})
		r := k.ClaimRequest(0)
		r.Max, r.Queues, r.Slots, r.Version, r.StartedAt = 1, []string{"night"}, 8, "v1", time.Date(2026, 11, 24, 10, 0, 0, 123_456_000, time.UTC)
		k.MustClaim(r)
		workers, ok := k.Store.(store.Workers)
		if !ok {
			return
		}
		k.OK(workers.Drain(k.Ctx(), r.Worker))
		list, err := workers.Workers(k.Ctx(), long)
		k.OK(err)
		k.Same("workers", k.circumstances(x.ID).Workers, list)
		k.Same("worker", []any{list[0].Name, list[0].Queues, list[0].Slots, list[0].Draining}, []any{r.Worker, r.Queues, 8, true})
	}},
	// They explain every state in which an execution stands still.
	{"explains_what_stands_still", func(k *kit) {
		k.Limit("", "0")
		k.Job("other")
		why := func(what string, id courier.ExecutionID, want ...advice.Kind) advice.Explanation {
			k.Helper()
			c := k.circumstances(id)
			e := advice.Explain(&c)
			var kinds []advice.Kind
			for _, b := range e.Because {
				kinds = append(kinds, b.Kind)
			}
			k.Same(what, kinds, want)
			return e
		}
		k.MustClaim(k.ClaimRequest(1)) // a worker is present
		why("held", k.Add(k.With(func(n *store.NewExecution) { n.Hold = true }))[0].ID, advice.Held)
		why("due", k.Add(k.With(func(n *store.NewExecution) { n.Delay = long }))[0].ID, advice.Due)
		why("queue", k.Add(k.With(func(n *store.NewExecution) { n.Queue = "nights" }))[0].ID, advice.NoWorker)
		why("types", k.Add(k.With(func(n *store.NewExecution) { n.StepTypes = []string{"x"} }))[0].ID, advice.NoWorker)
		why("next", k.Add(k.With(func(n *store.NewExecution) { n.Priority = 9 }))[0].ID)
		why("dependency", k.Add(k.of("waiting", "other"))[0].ID, advice.Dependency)
		h := k.Start()
		why("running", h.ID())
		_, err := k.Request(k.Ctx(), store.Request{Execution: h.ID(), Kind: courier.RequestPause, By: "ann", Reason: "the disk is full"})
		k.OK(err)
		e := why("request", h.ID(), advice.Request)
		k.Same("who and why", []string{e.Because[0].By, e.Because[0].Reason, e.Status}, []string{"ann", "the disk is full", "pausing"})
		h.Must(h.To(courier.Paused))
		e = why("paused", h.ID(), advice.Paused)
		k.Same("who and why", []string{e.Because[0].By, e.Because[0].Reason, e.Status}, []string{"ann", "the disk is full", "paused"})
		failed := k.Start()
		failed.End(courier.Failed)
		why("failed", failed.ID(), advice.Failed)
		ended := k.Start()
		ended.End(courier.Completed)
		why("completed", ended.ID())
		back := k.Start()
		t := back.To(courier.Queued)
		t.Delay, t.Failure = long, &courier.Failure{Step: 0, Reason: courier.ReasonConnection, Message: "reset"}
		back.Must(t)
		why("backoff", back.ID(), advice.Backoff)
		lost := k.Lose()
		why("lost", lost.ID(), advice.Lost)
		k.Limit("", "1")
		why("limit", k.Add(k.New())[0].ID, advice.Limit)
	}},
	{"explains_a_pause_of_the_chain", func(k *kit) {
		c := k.chainOf("a b<a")
		id := k.member(c, "a").ID
		k.askChain(c, courier.RequestPause)
		got := k.circumstances(id)
		k.Same("paused by the chain", []any{got.ChainPaused, got.Execution.State}, []any{true, courier.Paused})
		k.Ask(id, courier.RequestResume)
		k.Ask(id, courier.RequestPause)
		got = k.circumstances(id)
		k.Same("paused by itself", []any{got.ChainPaused, got.Execution.State}, []any{false, courier.Paused})
	}},
	{"looking_changes_nothing", func(k *kit) {
		h := k.Start()
		k.Unchanged("a look", h.ID(), func() {
			k.circumstances(h.ID())
			k.census(0)
		})
	}},
}

// plain returns a census without its instant.
func plain(c store.Census) store.Census {
	c.At = time.Time{}
	return c
}

func (k *kit) census(most int) store.Census {
	k.Helper()
	c, err := k.Store.(store.Overview).Census(k.Ctx(), most)
	k.OK(err)
	if c.At.IsZero() {
		k.Errorf("the census has no instant: %s", storekit.Text(c))
	}
	return c
}

func (k *kit) circumstances(id courier.ExecutionID) store.Circumstances {
	k.Helper()
	c, err := k.Store.(store.Overview).Circumstances(k.Ctx(), id, long)
	k.OK(err)
	return c
}
