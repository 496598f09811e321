package coordination

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

func hasChains(s store.Store) bool {
	_, ok := s.(chain.Store)
	return ok
}

func (k *kit) chains() chain.Store { return k.Store.(chain.Store) }

// newChain is an execution of the chain "chain" that can be created. Its members
// are written as "a b<a c<a! d<b?,c": a plain dependency, one that runs on failure
// ("!") and one that accepts any end ("?").
func (k *kit) newChain(members string) chain.NewExecution {
	k.Helper()
	k.Job("job")
	_, err := k.Save(k.Ctx(), store.Definition{Kind: store.Chain, Name: "chain", Body: json.RawMessage(`{"name": "chain"}`)})
	k.OK(err)
	n := chain.NewExecution{ID: courier.ChainExecutionID(k.IDs.New()), Chain: "chain", Version: 1, By: "ann"}
	for _, word := range strings.Fields(members) {
		name, on, _ := strings.Cut(word, "<")
		m := chain.NewMember{Name: name, Execution: k.New()}
		for _, d := range strings.FieldsFunc(on, func(c rune) bool { return c == ',' }) {
			dep := chain.Dependency{Member: strings.TrimRight(d, "!?"), RunOnFailure: strings.HasSuffix(d, "!")}
			if strings.HasSuffix(d, "?") {
				dep.RequiredStatus = courier.RequireAny
			}
			m.DependsOn = append(m.DependsOn, dep)
		}
		m.Execution.By = "ann"
		n.Members = append(n.Members, m)
	}
	return n
}

// startChain starts one chain execution, which must not exist.
func (k *kit) startChain(n chain.NewExecution) chain.Execution {
	k.Helper()
	got, err := k.chains().StartChains(k.Ctx(), []chain.NewExecution{n})
	k.OK(err)
	if len(got) != 1 || got[0].Existed {
		k.Fatalf("started %s", storekit.Text(got))
	}
	return got[0].Execution
}

// chainOf starts a chain execution with members and returns its id.
func (k *kit) chainOf(members string) courier.ChainExecutionID {
	k.Helper()
	return k.startChain(k.newChain(members)).ID
}

func (k *kit) chain(id courier.ChainExecutionID) chain.Execution {
	k.Helper()
	c, err := k.chains().ChainExecution(k.Ctx(), id)
	k.OK(err)
	return c
}

// chainIs reports a chain execution that stands otherwise than wanted, written as
// "running: a=completed b=queued", and returns it.
func (k *kit) chainIs(id courier.ChainExecutionID, want string) chain.Execution {
	k.Helper()
	c := k.chain(id)
	k.Same("chain execution", chainText(&c), want)
	if c.State.Ended() == c.EndedAt.IsZero() {
		k.Errorf("chain execution is %s and ended at %v", c.State, c.EndedAt)
	}
	for _, m := range c.Members {
		if released := m.State != chain.MemberPending && m.State != chain.MemberSkipped; released == (m.Execution == "") {
			k.Errorf("member %s is %s and has execution %q", m.Name, m.State, m.Execution)
		}
	}
	return c
}

func chainText(c *chain.Execution) string {
	var b strings.Builder
	b.WriteString(string(c.State))
	if c.Request != "" {
		b.WriteString(", " + string(c.Request))
	}
	b.WriteByte(':')
	for _, m := range c.Members {
		fmt.Fprintf(&b, " %s=%s", m.Name, m.State)
	}
	return b.String()
}

// member returns the latest execution of a member.
func (k *kit) member(id courier.ChainExecutionID, name string) courier.Execution {
	k.Helper()
	c := k.chain(id)
	m := c.Member(name)
	if m == nil || m.Execution == "" {
		k.Fatalf("member %s has no execution: %s", name, chainText(&c))
	}
	return k.Get(m.Execution)
}

// run claims the execution of a member.
func (k *kit) run(id courier.ChainExecutionID, name string) *holder {
	k.Helper()
	return k.Hold(k.member(id, name).ID, long)
}

// end claims the execution of a member and ends it.
func (k *kit) end(id courier.ChainExecutionID, name string, to courier.State) {
	k.Helper()
	k.run(id, name).End(to)
}

func (k *kit) askChain(id courier.ChainExecutionID, kind courier.RequestKind) (chain.Execution, []courier.Execution) {
	k.Helper()
	r := chain.Request{Chain: id, Kind: kind, By: "bob"}
	if kind == courier.RequestRetry {
		for range k.chain(id).Members {
			r.IDs = append(r.IDs, courier.ExecutionID(k.IDs.New()))
		}
	}
	c, asked, err := k.chains().RequestChain(k.Ctx(), r)
	k.OK(err)
	k.Same("what RequestChain returns", c, k.chain(id))
	for _, x := range asked {
		k.Same("an execution that was asked", x, k.Get(x.ID))
	}
	return c, asked
}

var chainCases = append(chainStartCases, append(chainEndCases, append(chainAskCases, chainRaceCases...)...)...)

var chainStartCases = []testCase{
	// A chain execution is started with every field of the request; its first members are
	// released, with chain and member name.
	{"started_with_every_field", func(k *kit) {
		n := k.newChain("a b<a c<a!,b?")
		n.Params = json.RawMessage(`{"n": 1.10}`)
		n.IdempotencyKey = "key"
		n.RerunOf = courier.ChainExecutionID(k.IDs.New())
		n.Members[0].Execution.Params = json.RawMessage(`{"x": 1}`)
		n.Members[0].Execution.Priority = 7
		n.Members[0].Execution.LimitKeys = []string{"k"}
		c := k.startChain(n)
		k.Same("what is read back", k.chain(n.ID), c)
		if c.CreatedAt.IsZero() || !c.StartedAt.Equal(c.CreatedAt) {
			k.Errorf("created %v, started %v", c.CreatedAt, c.StartedAt)
		}
		want := chain.Execution{
			ID: n.ID, Chain: "chain", Version: 1, State: chain.Running, Params: n.Params, IdempotencyKey: "key", By: "ann",
			CreatedAt: c.CreatedAt, StartedAt: c.CreatedAt, RerunOf: n.RerunOf,
			Members: []chain.MemberExecution{
				{Name: "a", Job: "job", Version: 1, State: "queued", Execution: n.Members[0].Execution.ID},
				{Name: "b", Job: "job", Version: 1, State: chain.MemberPending, Reason: "waits for a", DependsOn: n.Members[1].DependsOn},
				{Name: "c", Job: "job", Version: 1, State: chain.MemberPending, Reason: "waits for a, b", DependsOn: n.Members[2].DependsOn},
			},
		}
		k.Same("chain execution", c, want)
		a := k.Get(n.Members[0].Execution.ID)
		wantA := courier.Execution{
			ID: n.Members[0].Execution.ID, Job: "job", Version: 1, State: courier.Queued, Queue: courier.DefaultQueue, Priority: 7, Attempt: 1,
			Params: n.Members[0].Execution.Params, LimitKeys: []string{"k"}, By: "ann", Chain: n.ID, Member: "a", CreatedAt: c.CreatedAt, DueAt: c.CreatedAt, UpdatedAt: c.CreatedAt, Seq: 1,
		}
		k.Same("execution", a, wantA)
		k.Same("audit", k.AuditOf(a.ID), []courier.AuditEntry{{Execution: a.ID, Seq: 1, At: a.CreatedAt, To: "queued", By: "ann"}})
		k.Same("executions", len(k.All()), 1)
	}},
	// Labels and trace of a chain execution are those of each execution of a member, whenever it
	// is created.
	{"labels_and_trace_of_all_members", func(k *kit) {
		n := k.newChain("a b<a c<b")
		n.Labels, n.Trace = map[string]string{"partner": "acme", "day": "Monday"}, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		retries := 3
		n.Members[0].Execution.Labels, n.Members[0].Execution.MaxRetries = map[string]string{"other": "x"}, &retries
		plain := k.newChain("a")
		c := k.startChain(n)
		k.Same("of the chain execution", []any{c.Labels, c.Trace}, []any{n.Labels, n.Trace})
		of := func(member string) courier.ExecutionID {
			c := k.chain(n.ID)
			x := k.Get(c.Member(member).Execution)
			k.Same("of "+member, []any{x.Labels, x.Trace, x.MaxRetries}, []any{n.Labels, n.Trace, (*int)(nil)})
			return x.ID
		}
		first := of("a")
		k.end(n.ID, "a", courier.Completed)
		second := of("b")
		k.end(n.ID, "b", courier.Cancelled)
		k.askChain(n.ID, courier.RequestRetry)
		again := of("b") // another execution
		c = k.startChain(plain)
		k.Same("of another one", []any{c.Labels, c.Trace, k.Get(c.Members[0].Execution).Labels}, []any{map[string]string(nil), "", map[string]string(nil)})
		list, err := k.Executions(k.Ctx(), store.Filter{Labels: map[string]string{"partner": "acme"}})
		k.OK(err)
		var found []courier.ExecutionID
		for _, x := range list {
			found = append(found, x.ID)
		}
		want := []courier.ExecutionID{first, second, again}
		slices.Sort(found)
		slices.Sort(want)
		k.Same("found by a label", found, want)
	}},
	{"claim_returns_chain_and_member", func(k *kit) {
		id := k.chainOf("a b<a")
		r := k.ClaimRequest(5)
		list := k.MustClaim(r)
		if len(list) != 1 || list[0].Execution.Chain != id || list[0].Execution.Member != "a" {
			k.Errorf("claimed %s", storekit.Text(list))
		}
	}},
	{"hold_releases_nothing", func(k *kit) {
		n := k.newChain("a b<a")
		n.Hold = true
		c := k.startChain(n)
		k.Same("chain execution", chainText(&c), "pending: a=pending b=pending")
		k.Same("executions", len(k.All()), 0)
		k.askChain(n.ID, courier.RequestRelease)
		if c := k.chainIs(n.ID, "running: a=queued b=pending"); c.StartedAt.IsZero() {
			k.Error("it does not tell when it was started")
		}
	}},
	// An ID that exists returns the existing chain execution and changes nothing; with other
	// params it is ErrConflict.
	{"same_id_is_recognised", func(k *kit) {
		n := k.newChain("a b<a")
		k.startChain(n)
		k.end(n.ID, "a", courier.Completed)
		before := k.chain(n.ID)
		got, err := k.chains().StartChains(k.Ctx(), []chain.NewExecution{n})
		k.OK(err)
		k.Same("results", got, []chain.Started{{Execution: before, Existed: true}})
		k.Same("executions", len(k.All()), 2)
		n.Params = json.RawMessage(`{}`)
		_, err = k.chains().StartChains(k.Ctx(), []chain.NewExecution{n})
		k.Is("other params", err, courier.ErrConflict)
	}},
	{"key_returns_the_existing_one", func(k *kit) {
		n := k.newChain("a")
		n.IdempotencyKey = "tick"
		k.startChain(n)
		again := k.newChain("a")
		again.IdempotencyKey = "tick"
		got, err := k.chains().StartChains(k.Ctx(), []chain.NewExecution{again, again})
		k.OK(err)
		for _, r := range got {
			k.Same("existing", []any{r.Existed, r.Execution.ID}, []any{true, n.ID})
		}
		again.Params = json.RawMessage(`{"n":1}`)
		_, err = k.chains().StartChains(k.Ctx(), []chain.NewExecution{again})
		k.Is("other params", err, courier.ErrConflict)
		k.Same("executions", len(k.All()), 1)
	}},
	{"key_of_a_scope_is_of_all_chains", func(k *kit) {
		k.SaveAll(store.Chain, "other", `{"name": "other"}`)
		of := func(name, scope string) chain.NewExecution {
			n := k.newChain("a")
			n.Chain, n.IdempotencyKey, n.KeyScope = name, "tick", scope
			return n
		}
		n := of("chain", "s")
		c := k.startChain(n)
		k.Same("scope", c.KeyScope, "s")
		again := of("chain", "s")
		got, err := k.chains().StartChains(k.Ctx(), []chain.NewExecution{again})
		k.OK(err)
		k.Same("existing", []any{got[0].Existed, got[0].Execution.ID}, []any{true, n.ID})
		_, err = k.chains().StartChains(k.Ctx(), []chain.NewExecution{of("other", "s")})
		k.Is("another chain", err, courier.ErrConflict)
		k.Same("executions", len(k.All()), 1)
		for _, n := range []chain.NewExecution{of("chain", ""), of("other", ""), of("other", "t")} {
			k.Same("another key", k.startChain(n).ID, n.ID)
		}
	}},
	{"removal_waits_for_what_has_not_ended", func(k *kit) {
		remove := func(kind store.Kind, name string) error {
			_, err := k.Save(k.Ctx(), store.Definition{Kind: kind, Name: name, Body: json.RawMessage(store.Removal)})
			return err
		}
		n := k.newChain("a b<a")
		k.startChain(n)
		k.Is("the chain", remove(store.Chain, "chain"), courier.ErrConflict)
		k.Is("the job of a member", remove(store.Job, "job"), courier.ErrConflict)
		again := k.newChain("a")
		k.askChain(n.ID, courier.RequestCancel)
		k.OK(remove(store.Chain, "chain"))
		_, err := k.chains().StartChains(k.Ctx(), []chain.NewExecution{again})
		k.Is("a start of the removed chain", err, courier.ErrNotFound)
		k.SaveAll(store.Chain, "chain", `{"name": "chain"}`)
		k.OK(remove(store.Job, "job"))
		_, err = k.chains().StartChains(k.Ctx(), []chain.NewExecution{again})
		k.Is("a start with a member whose job was removed", err, courier.ErrNotFound)
		k.Same("executions", len(k.All()), 1)
	}},
	// An unknown version of the chain or of a job is ErrNotFound, and nothing of the list is
	// created.
	{"unknown_version_creates_nothing", func(k *kit) {
		good, bad := k.newChain("a"), k.newChain("a")
		bad.Version = 2
		_, err := k.chains().StartChains(k.Ctx(), []chain.NewExecution{good, bad})
		k.Is("version of the chain", err, courier.ErrNotFound)
		bad = k.newChain("a b<a")
		bad.Members[1].Execution.Version = 9
		_, err = k.chains().StartChains(k.Ctx(), []chain.NewExecution{good, bad})
		k.Is("version of a job", err, courier.ErrNotFound)
		_, err = k.chains().ChainExecution(k.Ctx(), good.ID)
		k.Is("the good one of the list", err, courier.ErrNotFound)
		k.Same("executions", len(k.All()), 0)
		k.startChain(good)
	}},
	// Cycles, unknown members and repeated names are ErrInvalid.
	{"cycles_and_unknown_members_are_refused", func(k *kit) {
		for _, members := range []string{"a<b b<a", "a<a", "a b<x", "a a"} {
			_, err := k.chains().StartChains(k.Ctx(), []chain.NewExecution{k.newChain(members)})
			k.Is(members, err, courier.ErrInvalid)
		}
	}},
	// Chain executions come by id, highest first, in pages, by chain and by states.
	{"newest_first_pages_and_filters", func(k *kit) {
		var ids []courier.ChainExecutionID
		for range 5 {
			ids = append(ids, k.chainOf("a"))
		}
		k.end(ids[1], "a", courier.Failed)
		k.end(ids[3], "a", courier.Completed)
		list := func(f chain.Filter) []courier.ChainExecutionID {
			page, err := k.chains().ChainExecutions(k.Ctx(), f)
			k.OK(err)
			var got []courier.ChainExecutionID
			for _, c := range page {
				k.Same("one of a list", c, k.chain(c.ID))
				got = append(got, c.ID)
			}
			return got
		}
		type l = []courier.ChainExecutionID
		k.Same("all", list(chain.Filter{}), l{ids[4], ids[3], ids[2], ids[1], ids[0]})
		k.Same("a page", list(chain.Filter{Limit: 2, Before: ids[3]}), l{ids[2], ids[1]})
		k.Same("by state", list(chain.Filter{States: []chain.State{chain.Failed, chain.Completed}}), l{ids[3], ids[1]})
		k.Same("by chain", len(list(chain.Filter{Chain: "chain"})), 5)
		k.Same("by another chain", len(list(chain.Filter{Chain: "job"})), 0)
		_, err := k.chains().ChainExecution(k.Ctx(), courier.ChainExecutionID(k.IDs.New()))
		k.Is("unknown", err, courier.ErrNotFound)
		_, err = k.chains().ChainExecution(k.Ctx(), "no id")
		k.Is("no id", err, courier.ErrNotFound)
	}},
}

var chainEndCases = []testCase{
	// A member is released in the write that ends the one it waits for, at the same instant.
	{"released_with_the_end_of_the_one_before", func(k *kit) {
		id := k.chainOf("a b<a c<b")
		h := k.run(id, "a")
		h.Must(h.Begin(0))
		k.chainIs(id, "running: a=running b=pending c=pending")
		t := h.To(courier.Completed)
		t.Chain, t.Ended = id, []courier.StepExecution{storekit.Ended(0)}
		h.Must(t)
		k.chainIs(id, "running: a=completed b=queued c=pending")
		a, b := k.member(id, "a"), k.member(id, "b")
		k.Same("the instant", b.CreatedAt, a.EndedAt)
		k.OK(k.Apply(k.Ctx(), t)) // its reply was lost
		k.chainIs(id, "running: a=completed b=queued c=pending")
		k.end(id, "b", courier.Completed)
		k.end(id, "c", courier.Completed)
		c := k.chainIs(id, "completed: a=completed b=completed c=completed")
		k.Same("ended", c.EndedAt, k.member(id, "c").EndedAt)
	}},
	{"a_transition_need_not_name_the_chain", func(k *kit) {
		id := k.chainOf("a b<a c<b")
		h := k.run(id, "a")
		h.Must(h.To(courier.Completed))
		k.chainIs(id, "running: a=completed b=queued c=pending")
		other := k.chainOf("a b<a")
		h = k.run(id, "b")
		t := h.To(courier.Failed)
		t.Chain = other // nor is it believed
		h.Must(t)
		k.chainIs(id, "failed: a=completed b=failed c=skipped")
		k.chainIs(other, "running: a=queued b=pending")
	}},
	{"other_executions_move_no_chain", func(k *kit) {
		id := k.chainOf("a b<a")
		n := k.New()
		n.Chain, n.Member = id, "b"
		h := k.Hold(k.Add(n)[0].ID, long)
		t := h.To(courier.Completed)
		t.Chain = id
		h.Must(t)
		k.State(h.ID(), courier.Completed)
		k.chainIs(id, "running: a=queued b=pending")
	}},
	{"refused_ends_change_nothing", func(k *kit) {
		id := k.chainOf("a b<a")
		h := k.run(id, "a")
		t := h.To(courier.Completed)
		t.Chain, t.Lease = id, store.Token("00000000-0000-4000-8000-000000000000")
		k.Is("another lease", k.Apply(k.Ctx(), t), courier.ErrLeaseLost)
		t = h.To(courier.Completed)
		t.Chain = id
		t.Seq += 3
		k.Is("another number", k.Apply(k.Ctx(), t), courier.ErrLeaseLost)
		t = h.To(courier.Completed)
		t.Chain, t.Execution = id, courier.ExecutionID(k.IDs.New())
		k.Is("unknown", k.Apply(k.Ctx(), t), courier.ErrNotFound)
		k.Ask(h.ID(), courier.RequestCancel)
		t = h.To(courier.Completed)
		t.Chain = id
		k.Is("cancelling", k.Apply(k.Ctx(), t), courier.ErrConflict)
		k.chainIs(id, "running: a=running b=pending")
		h.End(courier.Cancelled)
		k.chainIs(id, "failed: a=cancelled b=skipped")
	}},
	// A member is released or skipped as the plan says, with the reason.
	{"skipped_when_it_can_not_run", func(k *kit) {
		id := k.chainOf("a b<a c<b d<a! e<b? f<b!")
		k.end(id, "a", courier.Failed)
		c := k.chainIs(id, "running: a=failed b=skipped c=skipped d=queued e=queued f=queued")
		k.Same("why", []string{c.Member("b").Reason, c.Member("c").Reason}, []string{"a failed", "b was skipped"})
		for _, m := range []string{"d", "e", "f"} {
			k.end(id, m, courier.Completed)
		}
		c = k.chainIs(id, "failed: a=failed b=skipped c=skipped d=completed e=completed f=completed")
		k.Same("failure", c.Failure, &chain.Failure{Member: "a", Execution: c.Member("a").Execution, Message: "boom"})
	}},
	{"a_diamond_waits_for_both", func(k *kit) {
		id := k.chainOf("a b<a c<a d<b,c")
		k.end(id, "a", courier.Completed)
		k.end(id, "c", courier.Completed)
		k.chainIs(id, "running: a=completed b=queued c=completed d=pending")
		k.end(id, "b", courier.Completed)
		k.chainIs(id, "running: a=completed b=completed c=completed d=queued")
	}},
	// A request that ends a member's execution at once counts as its end.
	{"ended_by_a_cancel_at_once", func(k *kit) {
		id := k.chainOf("a b<a c<a?")
		k.Ask(k.member(id, "a").ID, courier.RequestCancel)
		k.chainIs(id, "running: a=cancelled b=skipped c=queued")
	}},
	{"ended_by_a_cancel_of_a_lost_worker_s", func(k *kit) {
		id := k.chainOf("a b<a?")
		h := k.Hold(k.member(id, "a").ID, k.Unit)
		h.Must(h.Begin(0))
		k.Pass(2 * k.Unit)
		k.Ask(h.ID(), courier.RequestCancel)
		k.chainIs(id, "running: a=cancelled b=queued")
	}},
	{"a_reclaim_is_no_end", func(k *kit) {
		id := k.chainOf("a b<a")
		k.Hold(k.member(id, "a").ID, k.Unit)
		k.Pass(2 * k.Unit)
		h := k.Again(k.member(id, "a").ID)
		k.chainIs(id, "running: a=running b=pending")
		h.End(courier.Completed)
		k.chainIs(id, "running: a=completed b=queued")
	}},
	// Nor is a retry of the job; chain and member stay.
	{"a_retry_of_the_job_is_no_end", func(k *kit) {
		id := k.chainOf("a b<a")
		h := k.run(id, "a")
		t := h.To(courier.Queued)
		t.Chain, t.RetryJob, t.Failure = id, true, &courier.Failure{Message: "boom"}
		h.Must(t)
		k.chainIs(id, "running: a=queued b=pending")
		x := k.member(id, "a")
		k.Same("membership", []any{x.Chain, x.Member, x.Attempt}, []any{id, "a", 2})
		k.end(id, "a", courier.Completed)
		k.chainIs(id, "running: a=completed b=queued")
	}},
	// A resume of a failed member's execution reopens the chain execution, and members that were
	// skipped are pending again.
	{"a_resume_opens_it_again", func(k *kit) {
		id := k.chainOf("a b<a c<b")
		k.end(id, "a", courier.Failed)
		k.chainIs(id, "failed: a=failed b=skipped c=skipped")
		k.Ask(k.member(id, "a").ID, courier.RequestResume)
		if c := k.chainIs(id, "running: a=queued b=pending c=pending"); c.Failure != nil {
			k.Errorf("failure %v", c.Failure)
		}
		k.end(id, "a", courier.Completed)
		k.chainIs(id, "running: a=completed b=queued c=pending")
	}},
	{"final_ones_are_not_reopened", func(k *kit) {
		id := k.chainOf("a b<a?")
		k.end(id, "a", courier.Failed)
		k.end(id, "b", courier.Completed)
		before := k.chainIs(id, "completed: a=failed b=completed")
		k.Ask(before.Member("a").Execution, courier.RequestResume)
		c := k.chainIs(id, "completed: a=queued b=completed")
		k.Same("ended", c.EndedAt, before.EndedAt)
		k.end(id, "a", courier.Completed)
		k.chainIs(id, "completed: a=completed b=completed")
	}},
	{"a_release_wakes", func(k *kit) {
		id := k.chainOf("a b<a")
		h := k.run(id, "a")
		r := k.ClaimRequest(1)
		claims, err := k.Claim(k.Ctx(), r)
		k.OK(err)
		h.End(courier.Completed)
		k.OK(k.Await(k.Ctx(), r.Queues, claims.Mark))
		k.Claimed("after the end", r, k.member(id, "b").ID)
	}},
}
