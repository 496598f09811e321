package storetest

import (
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

var limitCases = []testCase{
	{"global_default", func(k *kit) {
		k.fill(8)
		k.same("claimed", len(k.claim(k.request(10))), store.DefaultLimit)
		k.same("claimed then", len(k.claim(k.request(10))), 0)
	}},
	{"global_set", func(k *kit) {
		k.limit("", "3")
		k.fill(8)
		k.same("claimed", len(k.claim(k.request(2))), 2)
		k.same("claimed then", len(k.claim(k.request(2))), 1)
		k.same("claimed at last", len(k.claim(k.request(2))), 0)
	}},
	{"global_0_is_none", func(k *kit) {
		k.limit("", "0")
		k.fill(12)
		k.same("claimed", len(k.claim(k.request(20))), 12)
	}},
	{"global_over_all_queues_and_jobs", func(k *kit) {
		k.limit("", "2")
		k.job("other")
		k.add(k.new(), k.with(func(n *store.NewExecution) { n.Job = "other" }), k.with(func(n *store.NewExecution) { n.Queue = "q" }))
		r := k.request(5)
		r.Queues = []string{"q", courier.DefaultQueue}
		k.same("claimed", len(k.claim(r)), 2)
	}},
	{"raised_while_running", func(k *kit) {
		k.fill(8)
		k.claim(k.request(10))
		k.limit("", "7")
		k.same("claimed", len(k.claim(k.request(10))), 2)
	}},
	{"lowered_stops_new_claims_only", func(k *kit) {
		k.fill(5)
		list := k.claim(k.request(4))
		k.limit("", "2")
		k.same("claimed", len(k.claim(k.request(5))), 0)
		for i, c := range list {
			h := &holder{k, c, c.Seq}
			h.must(h.begin(0))
			h.must(h.next(0, 1))
			t := h.to(courier.Completed)
			t.Ended = []courier.StepExecution{ended(1)}
			h.must(t)
			want := 0
			if i == 2 { // one is left running
				want = 1
			}
			k.same("claimed after another ended", len(k.claim(k.request(5))), want)
		}
	}},
	{"removed_is_the_default", func(k *kit) {
		k.limit("", "1")
		k.limit("", "")
		k.fill(8)
		k.same("claimed", len(k.claim(k.request(10))), store.DefaultLimit)
	}},
	{"job_as_enqueued", func(k *kit) {
		k.job("other")
		k.add(k.jobLimit("job", 2), k.jobLimit("job", 2), k.jobLimit("job", 2), k.jobLimit("other", 0), k.jobLimit("other", 0))
		k.same("claimed", jobs(k.claim(k.request(5))), "job job other other")
		k.same("claimed then", len(k.claim(k.request(5))), 0)
	}},
	{"job_setting_overrides", func(k *kit) {
		k.limit("job:job", "1")
		k.add(k.jobLimit("job", 3), k.jobLimit("job", 3), k.jobLimit("job", 0))
		k.same("claimed", len(k.claim(k.request(5))), 1)
		k.limit("job:job", "0")
		k.same("with 0, which is none", len(k.claim(k.request(5))), 2)
		k.add(k.jobLimit("job", 2))
		k.limit("job:job", "")
		k.same("removed", len(k.claim(k.request(5))), 0)
	}},
	{"key_has_none_unless_set", func(k *kit) {
		k.add(k.key("p"), k.key("p"), k.key("p"))
		k.same("claimed", len(k.claim(k.request(5))), 3)
	}},
	{"key_over_all_jobs", func(k *kit) {
		k.limit("key:p", "2")
		k.job("other")
		n := k.key("p")
		n.Job = "other"
		k.add(n, k.key("p"), k.key("p"), k.key("q"), k.new())
		k.same("claimed", jobs(k.claim(k.request(5))), "other job job job")
		k.same("claimed then", len(k.claim(k.request(5))), 0)
	}},
	{"all_keys_need_room", func(k *kit) {
		k.limit("key:p", "1")
		k.limit("key:q", "2")
		list := []store.NewExecution{k.key("p", "q"), k.key("q", "p"), k.key("q"), k.key("q", "r"), k.key("p", "r"), k.key("r")}
		k.add(list...)
		k.claimed("claim", k.request(5), list[0].ID, list[2].ID, list[5].ID)
	}},
	{"key_with_odd_characters", func(k *kit) {
		const odd = `a"b,c{d} 'é'\n\`
		k.limit("key:"+odd, "1")
		k.add(k.key(odd), k.key(odd), k.key(odd+" "))
		k.same("claimed", len(k.claim(k.request(5))), 2)
	}},
	{"key_setting_removed", func(k *kit) {
		k.limit("key:p", "1")
		k.add(k.key("p"), k.key("p"), k.key("p"))
		k.same("claimed", len(k.claim(k.request(5))), 1)
		k.limit("key:p", "")
		k.same("claimed then", len(k.claim(k.request(5))), 2)
	}},
	{"passes_over_what_does_not_fit", func(k *kit) {
		k.limit("key:p", "1")
		k.limit("", "0")
		var list []store.NewExecution
		for range 30 {
			list = append(list, k.key("p"))
		}
		last := k.new()
		k.add(append(list, last)...)
		var got []courier.ExecutionID
		for range 50 { // a store need not look at all at once
			c, err := k.Claim(k.ctx(), k.request(2))
			k.ok(err)
			for _, x := range c.List {
				got = append(got, x.Execution.ID)
			}
			if len(c.List) == 0 && (c.Next == 0 || c.Next > time.Microsecond) {
				break
			}
		}
		k.same("claimed", got, []courier.ExecutionID{list[0].ID, last.ID})
	}},
	{"slot_free_after_it_left_running", func(k *kit) {
		k.limit("", "1")
		k.limit("key:p", "1")
		for _, to := range []courier.State{courier.Completed, courier.Failed, courier.Cancelled, courier.Paused, courier.Queued} {
			n := k.key("p")
			n.JobLimit = 1
			h := k.hold(k.add(n)[0].ID, long)
			t := h.to(to)
			t.Delay = long
			h.must(t)
		}
		k.same("claimed", len(k.claim(k.request(5))), 0)
		k.add(k.key("p"))
		k.same("claimed then", len(k.claim(k.request(5))), 1)
	}},
	{"waiting_holds_no_slot", func(k *kit) {
		k.limit("", "1")
		k.add(k.with(func(n *store.NewExecution) { n.Delay = long }), k.with(func(n *store.NewExecution) { n.Hold = true }))
		k.ask(k.add(k.new())[0].ID, courier.RequestPause)
		id := k.add(k.new())[0].ID
		k.claimed("claim", k.request(5), id)
	}},
	{"a_request_keeps_the_slot", func(k *kit) {
		k.limit("", "1")
		h := k.start()
		k.ask(h.id(), courier.RequestCancel)
		k.add(k.new())
		k.claimed("claim", k.request(1))
	}},
	{"expired_lease_keeps_its_slot", func(k *kit) {
		k.limit("", "1")
		k.lose()
		k.add(k.with(func(n *store.NewExecution) { n.StepTypes = nil }))
		r := k.request(5)
		r.StepTypes = nil // cannot reclaim
		k.claimed("claim", r)
	}},
	{"reclaim_needs_no_room", func(k *kit) {
		a, b := k.lose(), k.lose()
		k.limit("", "1")
		k.limit("job:job", "1")
		k.add(k.new())
		k.claimed("claim", k.request(5), a.id(), b.id())
	}},
	{"operator_frees_an_expired_slot", func(k *kit) {
		k.limit("", "1")
		h := k.lose()
		id := k.add(k.new())[0].ID
		k.ask(h.id(), courier.RequestPause)
		k.claimed("claim", k.request(5), id)
	}},
	{"resume_needs_room", func(k *kit) {
		k.limit("", "1")
		h := k.start()
		h.must(h.to(courier.Paused))
		other := k.start()
		k.same("state after the resume", k.ask(h.id(), courier.RequestResume).State, courier.Queued)
		k.claimed("claim", k.request(5))
		other.must(other.to(courier.Completed))
		k.claimed("claim then", k.request(5), h.id())
	}},
	{"only_needs_room", func(k *kit) {
		k.limit("", "1")
		k.start()
		r := k.request(5)
		r.Only = []courier.ExecutionID{k.add(k.new())[0].ID}
		k.claimed("claim", r)
	}},
}

// fill enqueues n executions.
func (k *kit) fill(n int) {
	k.Helper()
	list := make([]store.NewExecution, n)
	for i := range list {
		list[i] = k.new()
	}
	k.add(list...)
}

// key is an execution with limit keys.
func (k *kit) key(keys ...string) store.NewExecution {
	k.Helper()
	return k.with(func(n *store.NewExecution) { n.LimitKeys = keys })
}

// jobLimit is an execution of a job with a limit.
func (k *kit) jobLimit(job string, limit int) store.NewExecution {
	k.Helper()
	return k.with(func(n *store.NewExecution) { n.Job, n.JobLimit = job, limit })
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
