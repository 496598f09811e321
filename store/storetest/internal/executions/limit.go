package executions

import (
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

var limitCases = []testCase{
	{"global_default", func(k *kit) {
		k.fill(8)
		k.Same("claimed", len(k.MustClaim(k.ClaimRequest(10))), store.DefaultLimit)
		k.Same("claimed then", len(k.MustClaim(k.ClaimRequest(10))), 0)
	}},
	{"global_set", func(k *kit) {
		k.Limit("", "3")
		k.fill(8)
		k.Same("claimed", len(k.MustClaim(k.ClaimRequest(2))), 2)
		k.Same("claimed then", len(k.MustClaim(k.ClaimRequest(2))), 1)
		k.Same("claimed at last", len(k.MustClaim(k.ClaimRequest(2))), 0)
	}},
	{"global_0_is_none", func(k *kit) {
		k.Limit("", "0")
		k.fill(12)
		k.Same("claimed", len(k.MustClaim(k.ClaimRequest(20))), 12)
	}},
	{"global_over_all_queues_and_jobs", func(k *kit) {
		k.Limit("", "2")
		k.Job("other")
		k.Add(k.New(), k.With(func(n *store.NewExecution) { n.Job = "other" }), k.With(func(n *store.NewExecution) { n.Queue = "q" }))
		r := k.ClaimRequest(5)
		r.Queues = []string{"q", courier.DefaultQueue}
		k.Same("claimed", len(k.MustClaim(r)), 2)
	}},
	// A limit for a pattern of keys holds for each key that begins so; a key's own limit and a
	// longer pattern go before.
	{"pattern_limits_each_key", func(k *kit) {
		k.Limit("", "0")
		k.Limit("key:user:*", "2")
		keyed := func(keys ...string) store.NewExecution {
			return k.With(func(n *store.NewExecution) { n.LimitKeys = keys })
		}
		for range 3 {
			k.Add(keyed("user:ann"), keyed("user:bob"), keyed("user"), keyed("other", "user:"))
		}
		running := func() map[string]int {
			list, err := k.Executions(k.Ctx(), store.Filter{States: []courier.State{courier.Running}})
			k.OK(err)
			n := make(map[string]int)
			for _, x := range list {
				n[x.LimitKeys[len(x.LimitKeys)-1]]++
			}
			return n
		}
		for range 3 { // a claim may leave some to the next
			k.MustClaim(k.ClaimRequest(20))
		}
		k.Same("running", running(), map[string]int{"user:ann": 2, "user:bob": 2, "user": 3, "user:": 2})
		k.Limit("key:user:bob", "0")
		k.Limit("key:user:a*", "3")
		for range 3 {
			k.MustClaim(k.ClaimRequest(20))
		}
		k.Same("with a limit of its own, and a longer pattern", running(), map[string]int{"user:ann": 3, "user:bob": 3, "user": 3, "user:": 2})
		k.Limit("key:user:*", "")
		for range 3 {
			k.MustClaim(k.ClaimRequest(20))
		}
		k.Same("without the pattern", running()["user:"], 3)
	}},
	// For keys of which nothing runs yet, within one claim.
	{"pattern_limits_before_anything_runs", func(k *kit) {
		k.Limit("", "0")
		k.Limit("key:*", "1")
		for range 4 {
			k.Add(k.With(func(n *store.NewExecution) { n.LimitKeys = []string{"a", "b"} }), k.With(func(n *store.NewExecution) { n.LimitKeys = []string{"b", "c"} }))
		}
		got := k.MustClaim(k.ClaimRequest(20))
		k.Same("claimed", len(got), 1)
		k.Same("claimed then", len(k.MustClaim(k.ClaimRequest(20))), 0)
		h := k.Holder(got[0])
		h.Must(h.To(courier.Completed))
		k.Same("claimed after it ended", len(k.MustClaim(k.ClaimRequest(20))), 1)
	}},
	// A raised limit holds with the next claim.
	{"raised_while_running", func(k *kit) {
		k.fill(8)
		k.MustClaim(k.ClaimRequest(10))
		k.Limit("", "7")
		k.Same("claimed", len(k.MustClaim(k.ClaimRequest(10))), 2)
	}},
	{"lowered_stops_new_claims_only", func(k *kit) {
		k.fill(5)
		list := k.MustClaim(k.ClaimRequest(4))
		k.Limit("", "2")
		k.Same("claimed", len(k.MustClaim(k.ClaimRequest(5))), 0)
		for i, c := range list {
			h := k.Holder(c)
			h.Must(h.Begin(0))
			h.Must(h.Next(0, 1))
			t := h.To(courier.Completed)
			t.Ended = []courier.StepExecution{storekit.Ended(1)}
			h.Must(t)
			want := 0
			if i == 2 { // one is left running
				want = 1
			}
			k.Same("claimed after another ended", len(k.MustClaim(k.ClaimRequest(5))), want)
		}
	}},
	{"removed_is_the_default", func(k *kit) {
		k.Limit("", "1")
		k.Limit("", "")
		k.fill(8)
		k.Same("claimed", len(k.MustClaim(k.ClaimRequest(10))), store.DefaultLimit)
	}},
	{"job_as_enqueued", func(k *kit) {
		k.Job("other")
		k.Add(k.jobLimit("job", 2), k.jobLimit("job", 2), k.jobLimit("job", 2), k.jobLimit("other", 0), k.jobLimit("other", 0))
		k.Same("claimed", jobs(k.MustClaim(k.ClaimRequest(5))), "job job other other")
		k.Same("claimed then", len(k.MustClaim(k.ClaimRequest(5))), 0)
	}},
	{"job_setting_overrides", func(k *kit) {
		k.Limit("job:job", "1")
		k.Add(k.jobLimit("job", 3), k.jobLimit("job", 3), k.jobLimit("job", 0))
		k.Same("claimed", len(k.MustClaim(k.ClaimRequest(5))), 1)
		k.Limit("job:job", "0")
		k.Same("with 0, which is none", len(k.MustClaim(k.ClaimRequest(5))), 2)
		k.Add(k.jobLimit("job", 2))
		k.Limit("job:job", "")
		k.Same("removed", len(k.MustClaim(k.ClaimRequest(5))), 0)
	}},
	{"key_has_none_unless_set", func(k *kit) {
		k.Add(k.key("p"), k.key("p"), k.key("p"))
		k.Same("claimed", len(k.MustClaim(k.ClaimRequest(5))), 3)
	}},
	{"key_over_all_jobs", func(k *kit) {
		k.Limit("key:p", "2")
		k.Job("other")
		n := k.key("p")
		n.Job = "other"
		k.Add(n, k.key("p"), k.key("p"), k.key("q"), k.New())
		k.Same("claimed", jobs(k.MustClaim(k.ClaimRequest(5))), "other job job job")
		k.Same("claimed then", len(k.MustClaim(k.ClaimRequest(5))), 0)
	}},
	{"all_keys_need_room", func(k *kit) {
		k.Limit("key:p", "1")
		k.Limit("key:q", "2")
		list := []store.NewExecution{k.key("p", "q"), k.key("q", "p"), k.key("q"), k.key("q", "r"), k.key("p", "r"), k.key("r")}
		k.Add(list...)
		k.Claimed("claim", k.ClaimRequest(5), list[0].ID, list[2].ID, list[5].ID)
	}},
	{"key_with_odd_characters", func(k *kit) {
		const odd = `a"b,c{d} 'é'\n\`
		k.Limit("key:"+odd, "1")
		k.Add(k.key(odd), k.key(odd), k.key(odd+" "))
		k.Same("claimed", len(k.MustClaim(k.ClaimRequest(5))), 2)
	}},
	{"key_setting_removed", func(k *kit) {
		k.Limit("key:p", "1")
		k.Add(k.key("p"), k.key("p"), k.key("p"))
		k.Same("claimed", len(k.MustClaim(k.ClaimRequest(5))), 1)
		k.Limit("key:p", "")
		k.Same("claimed then", len(k.MustClaim(k.ClaimRequest(5))), 2)
	}},
	// Executions that do not fit are passed over, however many there are.
	{"passes_over_what_does_not_fit", func(k *kit) {
		k.Limit("key:p", "1")
		k.Limit("", "0")
		var list []store.NewExecution
		for range 30 {
			list = append(list, k.key("p"))
		}
		last := k.New()
		k.Add(append(list, last)...)
		var got []courier.ExecutionID
		for range 50 { // a store need not look at all at once
			c, err := k.Claim(k.Ctx(), k.ClaimRequest(2))
			k.OK(err)
			for _, x := range c.List {
				got = append(got, x.Execution.ID)
			}
			if len(c.List) == 0 && (c.Next == 0 || c.Next > time.Microsecond) {
				break
			}
		}
		k.Same("claimed", got, []courier.ExecutionID{list[0].ID, last.ID})
	}},
	// A slot is free when its execution leaves running, in any way.
	{"slot_free_after_it_left_running", func(k *kit) {
		k.Limit("", "1")
		k.Limit("key:p", "1")
		for _, to := range []courier.State{courier.Completed, courier.Failed, courier.Cancelled, courier.Paused, courier.Queued} {
			n := k.key("p")
			n.JobLimit = 1
			h := k.Hold(k.Add(n)[0].ID, long)
			t := h.To(to)
			t.Delay = long
			h.Must(t)
		}
		k.Same("claimed", len(k.MustClaim(k.ClaimRequest(5))), 0)
		k.Add(k.key("p"))
		k.Same("claimed then", len(k.MustClaim(k.ClaimRequest(5))), 1)
	}},
	// Delayed, held and paused executions hold no slot.
	{"waiting_holds_no_slot", func(k *kit) {
		k.Limit("", "1")
		k.Add(k.With(func(n *store.NewExecution) { n.Delay = long }), k.With(func(n *store.NewExecution) { n.Hold = true }))
		k.Ask(k.Add(k.New())[0].ID, courier.RequestPause)
		id := k.Add(k.New())[0].ID
		k.Claimed("claim", k.ClaimRequest(5), id)
	}},
	{"a_request_keeps_the_slot", func(k *kit) {
		k.Limit("", "1")
		h := k.Start()
		k.Ask(h.ID(), courier.RequestCancel)
		k.Add(k.New())
		k.Claimed("claim", k.ClaimRequest(1))
	}},
	{"expired_lease_keeps_its_slot", func(k *kit) {
		k.Limit("", "1")
		k.Lose()
		k.Add(k.With(func(n *store.NewExecution) { n.StepTypes = nil }))
		r := k.ClaimRequest(5)
		r.StepTypes = nil // cannot reclaim
		k.Claimed("claim", r)
	}},
	{"reclaim_needs_no_room", func(k *kit) {
		a, b := k.Lose(), k.Lose()
		k.Limit("", "1")
		k.Limit("job:job", "1")
		k.Add(k.New())
		k.Claimed("claim", k.ClaimRequest(5), a.ID(), b.ID())
	}},
	{"operator_frees_an_expired_slot", func(k *kit) {
		k.Limit("", "1")
		h := k.Lose()
		id := k.Add(k.New())[0].ID
		k.Ask(h.ID(), courier.RequestPause)
		k.Claimed("claim", k.ClaimRequest(5), id)
	}},
	// A resumed execution goes through the queue.
	{"resume_needs_room", func(k *kit) {
		k.Limit("", "1")
		h := k.Start()
		h.Must(h.To(courier.Paused))
		other := k.Start()
		k.Same("state after the resume", k.Ask(h.ID(), courier.RequestResume).State, courier.Queued)
		k.Claimed("claim", k.ClaimRequest(5))
		other.Must(other.To(courier.Completed))
		k.Claimed("claim then", k.ClaimRequest(5), h.ID())
	}},
	{"only_needs_room", func(k *kit) {
		k.Limit("", "1")
		k.Start()
		r := k.ClaimRequest(5)
		r.Only = []courier.ExecutionID{k.Add(k.New())[0].ID}
		k.Claimed("claim", r)
	}},
}

// fill enqueues n executions.
func (k *kit) fill(n int) {
	k.Helper()
	list := make([]store.NewExecution, n)
	for i := range list {
		list[i] = k.New()
	}
	k.Add(list...)
}

// key is an execution with limit keys.
func (k *kit) key(keys ...string) store.NewExecution {
	k.Helper()
	return k.With(func(n *store.NewExecution) { n.LimitKeys = keys })
}

// jobLimit is an execution of a job with a limit.
func (k *kit) jobLimit(job string, limit int) store.NewExecution {
	k.Helper()
	return k.With(func(n *store.NewExecution) { n.Job, n.JobLimit = job, limit })
}

// jobs writes the jobs of what was claimed.
func jobs(list []store.Claimed) string {
	var s string
	for i, c := range list {
		if i > 0 {
			s += " "
		}
		s += c.Execution.Job
	}
	return s
}
