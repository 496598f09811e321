package executions

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

var enqueueCases = []testCase{
	// An execution is created with every field of the request, queued, at attempt 1.
	{"created_with_every_field", func(k *kit) {
		k.SaveAll(store.Job, "job", `{"v": 1}`, `{"v": 2}`)
		n := store.NewExecution{
			ID: courier.ExecutionID(k.IDs.New()), Job: "job", Version: 2, StepTypes: []string{"a"},
			Queue: "night", Priority: -3, Delay: long, IdempotencyKey: "key",
			Params: json.RawMessage(`{ "n": 1.0 }`), LimitKeys: []string{"p", "q"}, JobLimit: 2,
			Timeout: 90 * time.Second, By: "ann", RerunOf: courier.ExecutionID(k.IDs.New()),
		}
		e := k.Add(n)[0]
		k.Same("as returned and as stored", k.Get(n.ID), e)
		k.Same("params", string(e.Params), string(n.Params))
		k.Same("due after", e.DueAt.Sub(e.CreatedAt), n.Delay)
		k.Same("updated", e.UpdatedAt, e.CreatedAt)
		e.CreatedAt, e.DueAt, e.UpdatedAt = time.Time{}, time.Time{}, time.Time{}
		k.Same("execution", e, courier.Execution{
			ID: n.ID, Job: "job", Version: 2, State: courier.Queued, Queue: "night", Priority: -3, Attempt: 1,
			Params: n.Params, Timeout: n.Timeout, IdempotencyKey: "key", LimitKeys: n.LimitKeys, By: "ann",
			RerunOf: n.RerunOf, Seq: 1,
		})
	}},
	// Absent params and limit keys stay absent.
	{"no_params_no_keys", func(k *kit) {
		e := k.Add(k.New())[0]
		if e.Params != nil || e.LimitKeys != nil {
			k.Errorf("params %q and limit keys %q, want none", e.Params, e.LimitKeys)
		}
	}},
	{"audit_entry_names_the_actor", func(k *kit) {
		e := k.Add(k.With(func(n *store.NewExecution) { n.By = "ann" }))[0]
		k.Same("audit", k.AuditOf(e.ID), []courier.AuditEntry{{Execution: e.ID, Seq: 1, At: e.CreatedAt, ExecutionAttempt: 1, To: "queued", By: "ann"}})
	}},
	{"hold_creates_it_in_created", func(k *kit) {
		e := k.Add(k.With(func(n *store.NewExecution) { n.Hold = true }))[0]
		k.Same("state", e.State, courier.Created)
		k.Same("audit", storekit.Moves(k.AuditOf(e.ID)), ">created")
	}},
	// An ID that exists returns the existing execution and changes nothing.
	{"same_id_is_recognised", func(k *kit) {
		n := k.With(func(n *store.NewExecution) { n.Params = json.RawMessage(`{"a": 1}`) })
		e := k.Add(n)[0]
		k.Unchanged("enqueuing the same id again", n.ID, func() {
			again := n
			again.Priority, again.Queue, again.Hold, again.By = 9, "other", true, "bob"
			k.Same("result", k.Existing(again), e)
		})
		k.Same("executions", len(k.All()), 1)
	}},
	{"same_id_whatever_its_state", func(k *kit) {
		n := k.New()
		h := k.Hold(k.Add(n)[0].ID, long)
		k.Same("state of a running one", k.Existing(n).State, courier.Running)
		h.Must(h.To(courier.Completed))
		k.Same("state of a completed one", k.Existing(n).State, courier.Completed)
		k.Same("audit", storekit.Moves(k.AuditOf(n.ID)), ">queued queued>running running>completed")
	}},
	{"same_id_other_params_is_a_conflict", func(k *kit) {
		n := k.With(func(n *store.NewExecution) { n.Params = json.RawMessage(`{"a": 1}`) })
		k.Add(n)
		n.Params = json.RawMessage(`{"a": 2}`)
		k.Refused("other params", courier.ErrConflict, n)
		n.Params = nil
		k.Refused("no params", courier.ErrConflict, n)
	}},
	{"same_id_other_job_is_a_conflict", func(k *kit) {
		n := k.New()
		k.Add(n)
		k.Job("other")
		n.Job = "other"
		k.Refused("other job", courier.ErrConflict, n)
	}},
	{"same_id_of_an_unknown_version_is_recognised", func(k *kit) {
		n := k.New()
		e := k.Add(n)[0]
		n.Version = 5
		k.Same("result", k.Existing(n), e)
	}},
	{"latest_version_is_created", func(k *kit) {
		n := k.With(func(n *store.NewExecution) { n.Version, n.Latest = 2, true })
		k.SaveAll(store.Job, "job", `{"v": 2}`)
		k.Same("version", k.Add(n)[0].Version, 2)
	}},
	{"outdated_version_is_refused", func(k *kit) {
		old, other := k.With(func(n *store.NewExecution) { n.Latest = true }), k.New()
		k.SaveAll(store.Job, "job", `{"v": 2}`)
		k.Refused("a version that is not the latest", store.ErrOutdated, old)
		k.Refused("one of a list", store.ErrOutdated, other, old)
		k.Same("executions", len(k.All()), 0)
		old.Latest = false
		k.Same("version", k.Add(old)[0].Version, 1)
	}},
	{"outdated_but_existing_is_returned", func(k *kit) {
		n := k.With(func(n *store.NewExecution) {
			n.Latest, n.IdempotencyKey, n.Params = true, "x", json.RawMessage(`{"a": 1}`)
		})
		e := k.Add(n)[0]
		k.SaveAll(store.Job, "job", `{"v": 2}`)
		k.Same("by its id", k.Existing(n), e)
		again := n
		again.ID = courier.ExecutionID(k.IDs.New())
		k.Same("by its key", k.Existing(again), e)
	}},
	// Other params are ErrOutdated too where the version is older.
	{"outdated_with_other_params_is_no_mere_conflict", func(k *kit) {
		n := k.With(func(n *store.NewExecution) {
			n.Latest, n.IdempotencyKey, n.Params = true, "x", json.RawMessage(`{"a": 1}`)
		})
		k.Add(n)
		n.ID, n.Params = courier.ExecutionID(k.IDs.New()), json.RawMessage(`{"a": 2}`)
		k.Refused("the latest version", courier.ErrConflict, n)
		k.SaveAll(store.Job, "job", `{"v": 2}`)
		k.Refused("a version that is not the latest", store.ErrOutdated, n)
		k.Job("other")
		n.Job = "other"
		k.Add(n)
	}},
	{"latest_of_an_unknown_version_is_not_found", func(k *kit) {
		k.Refused("a version to come", courier.ErrNotFound, k.With(func(n *store.NewExecution) { n.Version, n.Latest = 7, true }))
		k.Refused("an unknown job", courier.ErrNotFound, k.With(func(n *store.NewExecution) { n.Job, n.Latest = "nowhere", true }))
	}},
	// A used idempotency key returns the existing execution.
	{"key_returns_the_existing_one", func(k *kit) {
		e := k.Add(k.keyed("x", `{"a": 1}`))[0]
		got := k.Existing(k.keyed("x", `{"a": 1}`))
		k.Same("result", got, e)
		k.Same("executions", len(k.All()), 1)
	}},
	{"key_whatever_its_state", func(k *kit) {
		for i, end := range []courier.State{courier.Completed, courier.Failed, courier.Cancelled, courier.Paused, courier.Queued} {
			key := string(rune('a' + i))
			h := k.Hold(k.Add(k.keyed(key, ""))[0].ID, long)
			h.Must(h.To(end))
			got := k.Existing(k.keyed(key, ""))
			k.Same("id", got.ID, h.ID())
			k.Same("state", got.State, end)
		}
	}},
	// With other params, compared byte by byte, it is ErrConflict.
	{"key_other_params_is_a_conflict", func(k *kit) {
		k.Add(k.keyed("x", `{"a": 1}`))
		k.Refused("other params", courier.ErrConflict, k.keyed("x", `{"a": 2}`))
		k.Refused("the same in other bytes", courier.ErrConflict, k.keyed("x", `{"a":1}`))
		k.Refused("no params", courier.ErrConflict, k.keyed("x", ""))
	}},
	// With KeyAlone it returns the existing execution whatever the params.
	{"key_alone_returns_the_existing_one", func(k *kit) {
		alone := func(key, params string) store.NewExecution {
			n := k.keyed(key, params)
			n.KeyAlone = true
			return n
		}
		e := k.Add(k.keyed("x", `{"a": 1}`))[0]
		k.Same("with other params", k.Existing(alone("x", `{"a": 2}`)), e)
		k.Same("with none", k.Existing(alone("x", "")), e)
		k.Refused("without KeyAlone", courier.ErrConflict, k.keyed("x", `{"a": 2}`))
		other := alone("y", `{"a": 2}`)
		other.ID = e.ID
		k.Refused("the same id under another key", courier.ErrConflict, other)
		old := alone("x", `{"a": 3}`)
		old.Latest = true
		k.SaveAll(store.Job, "job", `{"v": 2}`)
		k.Same("of an outdated version", k.Existing(old), e)
		k.Same("executions", len(k.All()), 1)
	}},
	// An idempotency key is unique within its job.
	{"key_is_of_its_job", func(k *kit) {
		k.Add(k.keyed("x", ""))
		k.Job("other")
		n := k.keyed("x", "")
		n.Job = "other"
		k.Add(n)
		k.Same("executions", len(k.All()), 2)
	}},
	{"key_of_a_scope_is_of_all_jobs", func(k *kit) {
		k.Job("other")
		scoped := func(job, key, scope, params string, alone bool) store.NewExecution {
			n := k.keyed(key, params)
			n.Job, n.KeyScope, n.KeyAlone = job, scope, alone
			return n
		}
		e := k.Add(scoped("job", "x", "s", `{"a": 1}`, false))[0]
		k.Same("scope", e.KeyScope, "s")
		k.Same("as read again", k.Get(e.ID), e)
		k.Same("the same request", k.Existing(scoped("job", "x", "s", `{"a": 1}`, false)), e)
		k.Same("of another job, with KeyAlone", k.Existing(scoped("other", "x", "s", "", true)), e)
		k.Same("with other params, with KeyAlone", k.Existing(scoped("job", "x", "s", "", true)), e)
		k.Refused("other params", courier.ErrConflict, scoped("job", "x", "s", `{"a": 2}`, false))
		k.Refused("another job", courier.ErrConflict, scoped("other", "x", "s", `{"a": 1}`, false))
		k.Refused("one of a list", courier.ErrConflict, scoped("other", "y", "s", "", false), scoped("other", "x", "s", "", false))
		old := scoped("other", "x", "s", "", true)
		old.Latest = true
		k.SaveAll(store.Job, "other", `{"v": 2}`)
		k.Same("of an outdated version, with KeyAlone", k.Existing(old), e)
		other := scoped("other", "z", "s", "", true)
		other.ID = e.ID
		k.Refused("the same id under another key", courier.ErrConflict, other)
		k.Same("executions", len(k.All()), 1)
		// Each of these is another key.
		k.Add(scoped("job", "x", "", "", false), scoped("other", "x", "", "", true), scoped("other", "x", "t", "", true), scoped("other", "x", "job", "", true))
		list := []store.NewExecution{scoped("other", "y", "s", "", true), scoped("job", "y", "s", "", true), k.New()}
		got, err := k.Enqueue(k.Ctx(), list)
		k.OK(err)
		k.Same("in one list", []any{got[0].Existed, got[1].Existed, got[1].Execution.ID, got[1].Execution.Job, got[2].Existed}, []any{false, true, list[0].ID, "other", false})
	}},
	{"key_of_a_scope_20_at_once_create_1", func(k *kit) {
		for i := range 4 {
			k.Job(string(rune('a' + i)))
		}
		var ids [20]courier.ExecutionID
		k.At(len(ids), func(i int) {
			list := []store.NewExecution{k.keyed("x", ""), k.keyed("y", "")}
			if i%2 == 1 {
				slices.Reverse(list)
			}
			for j := range list {
				list[j].Job, list[j].KeyScope, list[j].KeyAlone = string(rune('a'+(i+j)%4)), "s", true
			}
			got, err := k.Enqueue(k.Ctx(), list)
			if err != nil {
				k.Error(err)
				return
			}
			ids[i] = got[i%2].Execution.ID
		})
		for _, id := range ids {
			k.Same("id", id, ids[0])
		}
		k.Same("executions", len(k.All()), 2)
	}},
	{"no_key_no_uniqueness", func(k *kit) {
		k.Add(k.New(), k.New(), k.New())
		k.Same("executions", len(k.All()), 3)
	}},
	// A key used 100 times at once creates one execution.
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
				got, err := k.Enqueue(k.Ctx(), list[i:i+1])
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
			k.Same("id", r.Execution.ID, results[0].Execution.ID)
		}
		k.Same("created", created, 1)
		k.Same("executions", len(k.All()), 1)
	}},
	// Results come in the order of the list.
	{"batch_in_order", func(k *kit) {
		old := k.keyed("x", "")
		k.Add(old)
		list := []store.NewExecution{k.New(), k.keyed("x", ""), k.New(), old, k.keyed("y", ""), k.keyed("y", "")}
		slices.Reverse(list[:3])
		got, err := k.Enqueue(k.Ctx(), list)
		k.OK(err)
		want := []courier.ExecutionID{list[0].ID, old.ID, list[2].ID, old.ID, list[4].ID, list[4].ID}
		existed := []bool{false, true, false, true, false, true}
		for i := range want {
			k.Same("id", got[i].Execution.ID, want[i])
			k.Same("existed", got[i].Existed, existed[i])
		}
		k.Same("executions", len(k.All()), 4)
	}},
	// One ID or key twice in a list is created once.
	{"batch_with_one_id_twice", func(k *kit) {
		n := k.New()
		got, err := k.Enqueue(k.Ctx(), []store.NewExecution{n, n})
		k.OK(err)
		k.Same("existed", []bool{got[0].Existed, got[1].Existed}, []bool{false, true})
		k.Same("the same", got[1].Execution, got[0].Execution)
	}},
	{"batch_has_one_instant", func(k *kit) {
		list := k.Add(k.New(), k.New(), k.New())
		k.Same("created", []time.Time{list[1].CreatedAt, list[2].CreatedAt}, []time.Time{list[0].CreatedAt, list[0].CreatedAt})
	}},
	// A list is created whole or not at all.
	{"batch_all_or_none", func(k *kit) {
		bad := k.New()
		bad.Version = 2
		k.Refused("an unknown version", courier.ErrNotFound, k.New(), k.keyed("x", ""), bad)
		k.Refused("a conflict within the batch", courier.ErrConflict, k.New(), k.keyed("x", "1"), k.keyed("x", "2"))
		k.Claimed("claim", k.ClaimRequest(10))
		k.Add(k.keyed("x", "")) // the key is still free
	}},
	// An execution of a list has the same fields as one that is created alone.
	{"batch_as_one_by_one", func(k *kit) {
		for _, job := range []string{"together", "alone"} {
			k.SaveAll(store.Job, job, `{"v": 1}`, `{"v": 2}`)
		}
		k.Limit("", "0")
		list := make([]store.NewExecution, len(variants))
		for i, change := range variants {
			list[i] = k.With(change)
			list[i].Job = "together"
		}
		k.Add(list...)
		for _, n := range list {
			together := n.ID
			n.ID, n.Job = courier.ExecutionID(k.IDs.New()), "alone"
			k.Add(n)
			k.Same("in a list and alone", k.story(together), k.story(n.ID))
		}
	}},
	{"empty_batch", func(k *kit) {
		got, err := k.Enqueue(k.Ctx(), nil)
		k.OK(err)
		k.Same("results", len(got), 0)
	}},
	{"unknown_version", func(k *kit) {
		for _, change := range []func(n *store.NewExecution){
			func(n *store.NewExecution) { n.Job = "nobody" },
			func(n *store.NewExecution) { n.Version = 2 },
			func(n *store.NewExecution) { n.Version = 0 },
		} {
			k.Refused("unknown version", courier.ErrNotFound, k.With(change))
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
		x.CreatedAt, x.DueAt, x.StartedAt, x.UpdatedAt, x.HeartbeatAt, x.LeaseExpiresAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}, time.Time{}, time.Time{}
		if x.Current != nil {
			at := *x.Current
			at.Execution, at.StartedAt = "", time.Time{}
			x.Current = &at
		}
		return x
	}
	x := k.Get(id)
	story := []any{x.DueAt.Sub(x.CreatedAt), plain(x), storekit.Moves(k.AuditOf(id)), k.AuditOf(id)[0].By}
	r := k.ClaimRequest(1)
	r.Only, r.Queues = []courier.ExecutionID{id}, append(r.Queues, "night")
	for _, c := range k.MustClaim(r) {
		x := plain(c.Execution)
		story = append(story, x, c.Seq, c.First, c.Counters, c.Started != nil, c.Remaining, storekit.Moves(k.AuditOf(id)))
	}
	return story
}

// keyed is an execution with an idempotency key.
func (k *kit) keyed(key, params string) store.NewExecution {
	k.Helper()
	return k.With(func(n *store.NewExecution) {
		if n.IdempotencyKey = key; params != "" {
			n.Params = json.RawMessage(params)
		}
	})
}
