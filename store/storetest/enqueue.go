package storetest

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

var enqueueCases = []testCase{
	{"created_with_every_field", func(k *kit) {
		k.saveAll(store.Job, "job", `{"v": 1}`, `{"v": 2}`)
		n := store.NewExecution{
			ID: courier.ExecutionID(k.ids.New()), Job: "job", Version: 2, StepTypes: []string{"a"},
			Queue: "night", Priority: -3, Delay: long, IdempotencyKey: "key",
			Params: json.RawMessage(`{ "n": 1.0 }`), LimitKeys: []string{"p", "q"}, JobLimit: 2,
			Timeout: 90 * time.Second, By: "ann", RerunOf: courier.ExecutionID(k.ids.New()),
		}
		e := k.add(n)[0]
		k.same("as returned and as stored", k.get(n.ID), e)
		k.same("params", string(e.Params), string(n.Params))
		k.same("due after", e.DueAt.Sub(e.CreatedAt), n.Delay)
		e.CreatedAt, e.DueAt = time.Time{}, time.Time{}
		k.same("execution", e, courier.Execution{
			ID: n.ID, Job: "job", Version: 2, State: courier.Queued, Queue: "night", Priority: -3, Attempt: 1,
			Params: n.Params, Timeout: n.Timeout, IdempotencyKey: "key", LimitKeys: n.LimitKeys, By: "ann",
			RerunOf: n.RerunOf, Seq: 1,
		})
	}},
	{"no_params_no_keys", func(k *kit) {
		e := k.add(k.new())[0]
		if e.Params != nil || e.LimitKeys != nil {
			k.Errorf("params %q and limit keys %q, want none", e.Params, e.LimitKeys)
		}
	}},
	{"audit_entry_names_the_actor", func(k *kit) {
		e := k.add(k.with(func(n *store.NewExecution) { n.By = "ann" }))[0]
		k.same("audit", k.audit(e.ID), []courier.AuditEntry{{Execution: e.ID, Seq: 1, At: e.CreatedAt, To: "queued", By: "ann"}})
	}},
	{"hold_creates_it_in_created", func(k *kit) {
		e := k.add(k.with(func(n *store.NewExecution) { n.Hold = true }))[0]
		k.same("state", e.State, courier.Created)
		k.same("audit", moves(k.audit(e.ID)), ">created")
	}},
	{"same_id_is_recognised", func(k *kit) {
		n := k.with(func(n *store.NewExecution) { n.Params = json.RawMessage(`{"a": 1}`) })
		e := k.add(n)[0]
		k.unchanged("enqueuing the same id again", n.ID, func() {
			again := n
			again.Priority, again.Queue, again.Hold, again.By = 9, "other", true, "bob"
			k.same("result", k.existing(again), e)
		})
		k.same("executions", len(k.all()), 1)
	}},
	{"same_id_whatever_its_state", func(k *kit) {
		n := k.new()
		h := k.hold(k.add(n)[0].ID, long)
		k.same("state of a running one", k.existing(n).State, courier.Running)
		h.must(h.to(courier.Completed))
		k.same("state of a completed one", k.existing(n).State, courier.Completed)
		k.same("audit", moves(k.audit(n.ID)), ">queued queued>running running>completed")
	}},
	{"same_id_other_params_is_a_conflict", func(k *kit) {
		n := k.with(func(n *store.NewExecution) { n.Params = json.RawMessage(`{"a": 1}`) })
		k.add(n)
		n.Params = json.RawMessage(`{"a": 2}`)
		k.refused("other params", courier.ErrConflict, n)
		n.Params = nil
		k.refused("no params", courier.ErrConflict, n)
	}},
	{"same_id_other_job_is_a_conflict", func(k *kit) {
		n := k.new()
		k.add(n)
		k.job("other")
		n.Job = "other"
		k.refused("other job", courier.ErrConflict, n)
	}},
	{"same_id_of_an_unknown_version_is_recognised", func(k *kit) {
		n := k.new()
		e := k.add(n)[0]
		n.Version = 5
		k.same("result", k.existing(n), e)
	}},
	{"latest_version_is_created", func(k *kit) {
		n := k.with(func(n *store.NewExecution) { n.Version, n.Latest = 2, true })
		k.saveAll(store.Job, "job", `{"v": 2}`)
		k.same("version", k.add(n)[0].Version, 2)
	}},
	{"outdated_version_is_refused", func(k *kit) {
		old, other := k.with(func(n *store.NewExecution) { n.Latest = true }), k.new()
		k.saveAll(store.Job, "job", `{"v": 2}`)
		k.refused("a version that is not the latest", store.ErrOutdated, old)
		k.refused("one of a list", store.ErrOutdated, other, old)
		k.same("executions", len(k.all()), 0)
		old.Latest = false
		k.same("version", k.add(old)[0].Version, 1)
	}},
	{"outdated_but_existing_is_returned", func(k *kit) {
		n := k.with(func(n *store.NewExecution) {
			n.Latest, n.IdempotencyKey, n.Params = true, "x", json.RawMessage(`{"a": 1}`)
		})
		e := k.add(n)[0]
		k.saveAll(store.Job, "job", `{"v": 2}`)
		k.same("by its id", k.existing(n), e)
		again := n
		again.ID = courier.ExecutionID(k.ids.New())
		k.same("by its key", k.existing(again), e)
	}},
	{"outdated_with_other_params_is_no_mere_conflict", func(k *kit) {
		n := k.with(func(n *store.NewExecution) {
			n.Latest, n.IdempotencyKey, n.Params = true, "x", json.RawMessage(`{"a": 1}`)
		})
		k.add(n)
		n.ID, n.Params = courier.ExecutionID(k.ids.New()), json.RawMessage(`{"a": 2}`)
		k.refused("the latest version", courier.ErrConflict, n)
		k.saveAll(store.Job, "job", `{"v": 2}`)
		k.refused("a version that is not the latest", store.ErrOutdated, n)
		k.job("other")
		n.Job = "other"
		k.add(n)
	}},
	{"latest_of_an_unknown_version_is_not_found", func(k *kit) {
		k.refused("a version to come", courier.ErrNotFound, k.with(func(n *store.NewExecution) { n.Version, n.Latest = 7, true }))
		k.refused("an unknown job", courier.ErrNotFound, k.with(func(n *store.NewExecution) { n.Job, n.Latest = "nowhere", true }))
	}},
	{"key_returns_the_existing_one", func(k *kit) {
		e := k.add(k.keyed("x", `{"a": 1}`))[0]
		got := k.existing(k.keyed("x", `{"a": 1}`))
		k.same("result", got, e)
		k.same("executions", len(k.all()), 1)
	}},
	{"key_whatever_its_state", func(k *kit) {
		for i, end := range []courier.State{courier.Completed, courier.Failed, courier.Cancelled, courier.Paused, courier.Queued} {
			key := string(rune('a' + i))
			h := k.hold(k.add(k.keyed(key, ""))[0].ID, long)
			h.must(h.to(end))
			got := k.existing(k.keyed(key, ""))
			k.same("id", got.ID, h.id())
			k.same("state", got.State, end)
		}
	}},
	{"key_other_params_is_a_conflict", func(k *kit) {
		k.add(k.keyed("x", `{"a": 1}`))
		k.refused("other params", courier.ErrConflict, k.keyed("x", `{"a": 2}`))
		k.refused("the same in other bytes", courier.ErrConflict, k.keyed("x", `{"a":1}`))
		k.refused("no params", courier.ErrConflict, k.keyed("x", ""))
	}},
	{"key_is_of_its_job", func(k *kit) {
		k.add(k.keyed("x", ""))
		k.job("other")
		n := k.keyed("x", "")
		n.Job = "other"
		k.add(n)
		k.same("executions", len(k.all()), 2)
	}},
	{"no_key_no_uniqueness", func(k *kit) {
		k.add(k.new(), k.new(), k.new())
		k.same("executions", len(k.all()), 3)
	}},
	{"key_100_at_once_creates_1", func(k *kit) {
		const n = 100
		list := make([]store.NewExecution, n)
		for i := range list {
			list[i] = k.keyed("x", `{"a": 1}`)
		}
		results := make([]store.Enqueued, n)
		var wg sync.WaitGroup
		for i := range list {
			wg.Go(func() {
				got, err := k.Enqueue(k.ctx(), list[i:i+1])
				if err != nil || len(got) != 1 {
					k.Errorf("%d results, error %v", len(got), err)
					return
				}
				results[i] = got[0]
			})
		}
		wg.Wait()
		created := 0
		for _, r := range results {
			if !r.Existed {
				created++
			}
			k.same("id", r.Execution.ID, results[0].Execution.ID)
		}
		k.same("created", created, 1)
		k.same("executions", len(k.all()), 1)
	}},
	{"batch_in_order", func(k *kit) {
		old := k.keyed("x", "")
		k.add(old)
		list := []store.NewExecution{k.new(), k.keyed("x", ""), k.new(), old, k.keyed("y", ""), k.keyed("y", "")}
		slices.Reverse(list[:3])
		got, err := k.Enqueue(k.ctx(), list)
		k.ok(err)
		want := []courier.ExecutionID{list[0].ID, old.ID, list[2].ID, old.ID, list[4].ID, list[4].ID}
		existed := []bool{false, true, false, true, false, true}
		for i := range want {
			k.same("id", got[i].Execution.ID, want[i])
			k.same("existed", got[i].Existed, existed[i])
		}
		k.same("executions", len(k.all()), 4)
	}},
	{"batch_with_one_id_twice", func(k *kit) {
		n := k.new()
		got, err := k.Enqueue(k.ctx(), []store.NewExecution{n, n})
		k.ok(err)
		k.same("existed", []bool{got[0].Existed, got[1].Existed}, []bool{false, true})
		k.same("the same", got[1].Execution, got[0].Execution)
	}},
	{"batch_has_one_instant", func(k *kit) {
		list := k.add(k.new(), k.new(), k.new())
		k.same("created", []time.Time{list[1].CreatedAt, list[2].CreatedAt}, []time.Time{list[0].CreatedAt, list[0].CreatedAt})
	}},
	{"batch_all_or_none", func(k *kit) {
		bad := k.new()
		bad.Version = 2
		k.refused("an unknown version", courier.ErrNotFound, k.new(), k.keyed("x", ""), bad)
		k.refused("a conflict within the batch", courier.ErrConflict, k.new(), k.keyed("x", "1"), k.keyed("x", "2"))
		k.claimed("claim", k.request(10))
		k.add(k.keyed("x", "")) // the key is still free
	}},
	{"batch_as_one_by_one", func(k *kit) {
		for _, job := range []string{"together", "alone"} {
			k.saveAll(store.Job, job, `{"v": 1}`, `{"v": 2}`)
		}
		k.limit("", "0")
		list := make([]store.NewExecution, len(variants))
		for i, change := range variants {
			list[i] = k.with(change)
			list[i].Job = "together"
		}
		k.add(list...)
		for _, n := range list {
			together := n.ID
			n.ID, n.Job = courier.ExecutionID(k.ids.New()), "alone"
			k.add(n)
			k.same("in a list and alone", k.story(together), k.story(n.ID))
		}
	}},
	{"empty_batch", func(k *kit) {
		got, err := k.Enqueue(k.ctx(), nil)
		k.ok(err)
		k.same("results", len(got), 0)
	}},
	{"unknown_version", func(k *kit) {
		for _, change := range []func(n *store.NewExecution){
			func(n *store.NewExecution) { n.Job = "nobody" },
			func(n *store.NewExecution) { n.Version = 2 },
			func(n *store.NewExecution) { n.Version = 0 },
		} {
			k.refused("unknown version", courier.ErrNotFound, k.with(change))
		}
	}},
}

// variants are changes of a NewExecution, each of another field.
var variants = []func(*store.NewExecution){
	func(*store.NewExecution) {},
	func(n *store.NewExecution) { n.Version = 2 },
	func(n *store.NewExecution) { n.Version, n.Latest = 2, true },
	func(n *store.NewExecution) { n.StepTypes = []string{"c"} },
	func(n *store.NewExecution) { n.StepTypes = nil },
	func(n *store.NewExecution) { n.StepTypes = []string{"a", "unknown"} },
	func(n *store.NewExecution) { n.First = &courier.StepExecution{ID: "first", Type: "a"} },
	func(n *store.NewExecution) { n.First = &courier.StepExecution{Type: "b"} },
	func(n *store.NewExecution) { n.Queue = "night" },
	func(n *store.NewExecution) { n.Priority = 7 },
	func(n *store.NewExecution) { n.Delay = long },
	func(n *store.NewExecution) { n.Hold = true },
	func(n *store.NewExecution) { n.IdempotencyKey = "key" },
	func(n *store.NewExecution) { n.Params = json.RawMessage(`{"a": "ü \"\\"}`) },
	func(n *store.NewExecution) { n.LimitKeys = []string{"k", "l"} },
	func(n *store.NewExecution) { n.JobLimit = 1 },
	func(n *store.NewExecution) { n.Timeout = 90 * time.Second },
	func(n *store.NewExecution) { n.By = "ann" },
}

// story is all that can be seen of a new execution and of its claim, but for its
// id, the name of its job and the time of day.
func (k *kit) story(id courier.ExecutionID) []any {
	k.Helper()
	plain := func(x courier.Execution) courier.Execution {
		x.ID, x.Job = "", ""
		x.CreatedAt, x.DueAt, x.StartedAt, x.LeaseExpiresAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}
		if x.Current != nil {
			at := *x.Current
			at.Execution, at.StartedAt = "", time.Time{}
			x.Current = &at
		}
		return x
	}
	x := k.get(id)
	story := []any{x.DueAt.Sub(x.CreatedAt), plain(x), moves(k.audit(id)), k.audit(id)[0].By}
	r := k.request(1)
	r.Only, r.Queues = []courier.ExecutionID{id}, append(r.Queues, "night")
	for _, c := range k.claim(r) {
		x := plain(c.Execution)
		story = append(story, x, c.Seq, c.First, c.Counters, c.Started != nil, c.Remaining, moves(k.audit(id)))
	}
	return story
}

// keyed is an execution with an idempotency key.
func (k *kit) keyed(key, params string) store.NewExecution {
	k.Helper()
	return k.with(func(n *store.NewExecution) {
		if n.IdempotencyKey = key; params != "" {
			n.Params = json.RawMessage(params)
		}
	})
}

// existing enqueues n, of which there must be one already.
func (k *kit) existing(n store.NewExecution) courier.Execution {
	k.Helper()
	got, err := k.Enqueue(k.ctx(), []store.NewExecution{n})
	k.ok(err)
	if len(got) != 1 || !got[0].Existed {
		k.Fatalf("enqueued %s, want the existing one", text(got))
	}
	return got[0].Execution
}

// refused enqueues what must be refused, and nothing of it created.
func (k *kit) refused(what string, want error, list ...store.NewExecution) {
	k.Helper()
	before := k.all()
	_, err := k.Enqueue(k.ctx(), list)
	k.is(what, err, want)
	k.same(what+": executions", k.all(), before)
}
