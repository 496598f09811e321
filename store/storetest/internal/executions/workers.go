package executions

import (
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

func hasWorkers(s store.Store) bool {
	_, ok := s.(store.Workers)
	return ok
}

var workerCases = []testCase{
	{"claiming_worker_is_present", func(k *kit) {
		k.Same("workers at first", len(k.workers()), 0)
		r := k.ClaimRequest(1)
		r.Only = []courier.ExecutionID{}
		k.MustClaim(r)
		k.Same("workers after a claim of certain ones", len(k.workers()), 0)
		r = k.ClaimRequest(1)
		k.MustClaim(r)
		other := k.ClaimRequest(1)
		other.Worker, other.Workspace, other.Queues, other.StepTypes = "a worker", "there", []string{"q1", "q2"}, []string{"x"}
		k.MustClaim(other)
		list := k.workers()
		k.Same("workers", len(list), 2)
		for i, want := range []store.ClaimRequest{other, r} {
			w := list[i]
			k.Same("worker", []any{w.Name, w.Workspace, w.Queues, w.StepTypes, w.SeenAt.IsZero()}, []any{want.Worker, want.Workspace, want.Queues, want.StepTypes, false})
		}
	}},
	// With its slots, its version and when it was started.
	{"worker_says_what_it_is", func(k *kit) {
		r := k.ClaimRequest(1)
		r.Slots, r.Version, r.StartedAt = 64, "v1.2.3", time.Date(2026, 11, 24, 10, 0, 0, 123_456_000, time.UTC)
		k.MustClaim(r)
		k.present("other", "there", "night", "a")
		list := k.workers()
		k.Same("worker", []any{list[1].Slots, list[1].Version, list[1].StartedAt, list[1].Draining}, []any{64, "v1.2.3", r.StartedAt, false})
		k.Same("one that says nothing", []any{list[0].Slots, list[0].Version, list[0].StartedAt, list[0].Draining}, []any{0, "", time.Time{}, false})
	}},
	// A worker that drains is shown so until its next claim, and can claim nothing.
	{"draining_worker_claims_nothing", func(k *kit) {
		drain := func(worker string) { k.OK(k.Store.(store.Workers).Drain(k.Ctx(), worker)) }
		drain("nobody")
		k.Same("workers that never claimed", len(k.workers()), 0)
		k.present("worker", "here", "night", "a")
		k.present("another", "here", courier.DefaultQueue, "a")
		drain("worker")
		k.Same("draining", []bool{k.workers()[0].Draining, k.workers()[1].Draining}, []bool{false, true})
		k.Add(k.With(func(n *store.NewExecution) { n.Queue, n.StepTypes = "night", []string{"a"} }))
		k.Pass(2 * k.Unit)
		list := k.stranded()
		k.Same("groups", len(list), 1)
		k.Same("reason", list[0].Reason, store.StrandedQueue)
		r := k.ClaimRequest(1)
		r.Worker, r.Queues = "worker", []string{"nothing"}
		k.MustClaim(r)
		k.Same("after a claim", k.workers()[1].Draining, false)
	}},
	{"worker_with_a_lease_is_present", func(k *kit) {
		h := k.present("worker", "here", courier.DefaultQueue, "a", "b", "c")
		k.Pass(2 * k.Unit)
		k.Same("workers who claimed long ago", len(k.workersWithin()), 1)
		h.Must(h.To(courier.Completed))
		k.Same("workers without a lease", len(k.workersWithin()), 0)
	}},
	// An execution that no present worker can claim is reported as stranded, with what the workers
	// lack.
	{"what_no_worker_can_claim_is_stranded", func(k *kit) {
		k.Limit("", "0")
		k.present("worker", "here", courier.DefaultQueue, "a", "b", "c")
		k.present("another", "there", "other", "a", "x")
		can := k.Add(k.New())[0]
		queue := k.Add(k.With(func(n *store.NewExecution) { n.Queue = "night" }), k.With(func(n *store.NewExecution) { n.Queue = "night" }))
		types := k.Add(k.With(func(n *store.NewExecution) { n.Queue, n.StepTypes = "other", []string{"a", "b", "x"} }))[0]
		k.Add(k.With(func(n *store.NewExecution) { n.Queue, n.Hold = "night", true }))
		k.Add(k.With(func(n *store.NewExecution) { n.Queue, n.Delay = "night", long }))
		k.Same("stranded for long", len(k.strandedFor(long)), 0)
		k.Pass(2 * k.Unit)
		list := k.stranded()
		k.Same("groups", len(list), 2)
		for i, want := range []store.Stranded{
			{Reason: store.StrandedQueue, Queue: "night", Served: []string{courier.DefaultQueue, "other"}, StepTypes: k.New().StepTypes, Count: 2, Oldest: oldest(queue), Since: queue[0].DueAt},
			{Reason: store.StrandedStepTypes, Queue: "other", StepTypes: []string{"a", "b", "x"}, Missing: []string{"b"}, Count: 1, Oldest: types.ID, Since: types.DueAt},
		} {
			k.Same("group", list[i], want)
		}
		k.Claimed("what could be taken", k.ClaimRequest(5), can.ID)
	}},
	{"what_is_lost_with_its_workspace_is_stranded", func(k *kit) {
		k.Limit("", "0")
		k.present("worker", "here", courier.DefaultQueue, "a", "b", "c")
		h := k.leaveIn("gone", courier.Running, "")
		x := k.Get(h.ID())
		k.Pass(2 * k.Unit)
		list := k.stranded()
		k.Same("groups", len(list), 1)
		want := store.Stranded{Reason: store.StrandedWorkspace, Queue: x.Queue, Workspace: "gone", StepTypes: list[0].StepTypes, Lost: true, Count: 1, Oldest: x.ID, Since: x.LeaseExpiresAt}
		k.Same("group", list[0], want)
		k.Ask(x.ID, courier.RequestRestart)
		k.Pass(2 * k.Unit)
		k.Same("once it begins again", len(k.stranded()), 0)
		k.Claimed("by anybody", k.ClaimRequest(1), x.ID)
	}},
	{"claim_returns_whether_executions_are_left", func(k *kit) {
		k.Limit("", "0")
		left := func(worker string) bool {
			r := k.ClaimRequest(5)
			r.Worker = worker
			got, err := k.Claim(k.Ctx(), r)
			k.OK(err)
			return got.Unclaimed
		}
		nothing := func(what, worker string) {
			// A store that is slow need not have looked at all.
			if got := left(worker); got && k.Virtual {
				k.Errorf("%s: something is left", what)
			}
		}
		nothing("of nothing", "one")
		k.Add(k.New())
		nothing("of what was claimed", "two")
		x := k.Add(k.With(func(n *store.NewExecution) { n.Queue = "night" }))[0].ID
		k.Same("of another queue", left("three"), true)
		k.Ask(x, courier.RequestCancel)
		nothing("of none any more", "four")
		k.leaveIn("gone", courier.Running, "")
		k.Same("of a lost one", left("five"), true)
	}},
}

// oldest is the lowest id.
func oldest(list []courier.Execution) courier.ExecutionID {
	id := list[0].ID
	for _, x := range list {
		id = min(id, x.ID)
	}
	return id
}

// workers returns who was ever seen, or nearly.
func (k *kit) workers() []store.Worker {
	k.Helper()
	list, err := k.Store.(store.Workers).Workers(k.Ctx(), long)
	k.OK(err)
	return list
}

// workersWithin returns who was seen within a unit.
func (k *kit) workersWithin() []store.Worker {
	k.Helper()
	list, err := k.Store.(store.Workers).Workers(k.Ctx(), k.Unit)
	k.OK(err)
	return list
}

// stranded returns what has been stranded for a unit.
func (k *kit) stranded() []store.Stranded {
	k.Helper()
	return k.strandedFor(k.Unit)
}

func (k *kit) strandedFor(d time.Duration) []store.Stranded {
	k.Helper()
	list, err := k.Store.(store.Workers).Stranded(k.Ctx(), d)
	k.OK(err)
	return list
}

// present has a worker claim, and hold one execution for long.
func (k *kit) present(worker, workspace, queue string, types ...string) *holder {
	k.Helper()
	n := k.With(func(n *store.NewExecution) { n.Queue, n.StepTypes = queue, types[:1] })
	k.Add(n)
	r := k.ClaimRequest(1)
	r.Worker, r.Workspace, r.Queues, r.StepTypes, r.Lease = worker, workspace, []string{queue}, types, long
	list := k.MustClaim(r)
	if len(list) != 1 || !slices.ContainsFunc(k.workers(), func(w store.Worker) bool { return w.Name == worker }) {
		k.Fatalf("%d were claimed by %q, which is not present", len(list), worker)
	}
	return k.Holder(list[0])
}
