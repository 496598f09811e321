package coordination

import (
	"fmt"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/notify"
)

// chainEventCases are about the events of chains and their members.
var chainEventCases = []testCase{
	// Members of chains have the events of all executions, in whichever way they end.
	{"of_a_member_however_it_ends", func(k *kit) {
		k.subscribe("all", everyEvent...)
		id := k.chainOf("a b<a? c<b? d<c?")
		k.end(id, "a", courier.Completed)
		k.events("a", k.member(id, "a").ID, courier.EventJobStarted, courier.EventJobCompleted)
		h := k.run(id, "b")
		h.Must(h.To(courier.Failed)) // and does not say of which chain it is
		k.events("b", h.ID(), courier.EventJobStarted, courier.EventJobFailed)
		c := k.member(id, "c").ID
		k.Ask(c, courier.RequestCancel)
		k.events("c", c, courier.EventJobCancelled)
		h = k.run(id, "d")
		h.Must(h.Begin(0))
		k.askChain(id, courier.RequestPause)
		t := h.To(courier.Paused)
		t.Chain, t.Interrupt, t.Request = id, true, courier.RequestPause
		h.Must(t)
		k.events("d", h.ID(), courier.EventJobStarted, courier.EventStepStarted, courier.EventJobPaused)
		k.askChain(id, courier.RequestResume)
		k.events("d", h.ID(), courier.EventJobResumed)
		k.askChain(id, courier.RequestCancel)
		k.events("d", h.ID(), courier.EventJobCancelled)
	}},
	// A chain execution has an event when its first members are released and when it is completed,
	// once.
	{"of_a_chain", func(k *kit) {
		k.subscribe("chains", chainEvents...)
		n := k.newChain("a b<a")
		k.startChain(n)
		k.chainEvents(n.ID, "1 ChainStarted")
		_, err := k.chains().StartChains(k.Ctx(), []chain.NewExecution{n})
		k.OK(err)
		k.end(n.ID, "a", courier.Completed)
		k.chainEvents(n.ID)
		h := k.run(n.ID, "b")
		t := h.To(courier.Completed)
		t.Chain = n.ID
		for range 2 { // the reply to the first was lost
			k.OK(k.Apply(k.Ctx(), t))
		}
		k.chainEvents(n.ID, "2 ChainCompleted")
	}},
	// Each time that it comes to be failed, with the member that failed; they are counted.
	{"of_a_chain_that_fails_again", func(k *kit) {
		k.subscribe("chains", chainEvents...)
		id := k.chainOf("a b<a c<a?")
		k.end(id, "a", courier.Failed)
		k.end(id, "c", courier.Completed)
		k.chainEvents(id, "1 ChainStarted", `2 ChainFailed member "a": boom`)
		k.askChain(id, courier.RequestRetry)
		k.Ask(k.member(id, "a").ID, courier.RequestCancel)
		k.chainEvents(id, `3 ChainFailed member "a": its execution was cancelled`)
		k.askChain(id, courier.RequestRetry)
		k.end(id, "a", courier.Completed)
		k.end(id, "b", courier.Completed)
		k.chainEvents(id, "4 ChainCompleted")
	}},
	{"of_a_chain_that_stays_failed", func(k *kit) {
		k.subscribe("chains", chainEvents...)
		id := k.chainOf("a b")
		k.end(id, "a", courier.Failed)
		k.chainEvents(id, "1 ChainStarted")
		k.end(id, "b", courier.Failed)
		k.chainEvents(id, `2 ChainFailed member "a": boom`)
		k.Ask(k.member(id, "b").ID, courier.RequestCancel)
		k.chainEvents(id)
	}},
	{"of_a_chain_whose_members_end_at_once", func(k *kit) {
		k.Limit("", "0")
		k.subscribe("chains", chainEvents...)
		for range 4 {
			id := k.chainOf("a b c")
			var list []func()
			for _, m := range []string{"a", "b", "c"} {
				h := k.run(id, m)
				list = append(list, func() { k.fine(k.endOnce(h, courier.Completed)) })
			}
			atOnce(list)
			k.chainEvents(id, "1 ChainStarted", "2 ChainCompleted")
		}
	}},
	// Events are counted while there is no subscription too.
	{"of_a_chain_before_any_subscription", func(k *kit) {
		id := k.chainOf("a")
		k.subscribe("chains", chainEvents...)
		k.end(id, "a", courier.Completed)
		k.chainEvents(id, "2 ChainCompleted")
	}},
	{"of_a_chain_that_is_held_or_cancelled", func(k *kit) {
		k.subscribe("chains", chainEvents...)
		held, never := k.newChain("a"), k.newChain("a")
		held.Hold, never.Hold = true, true
		k.startChain(held)
		k.startChain(never)
		k.chainEvents(held.ID)
		k.askChain(never.ID, courier.RequestCancel)
		k.chainEvents(never.ID)
		k.askChain(held.ID, courier.RequestRelease)
		k.chainEvents(held.ID, "1 ChainStarted")
		k.askChain(held.ID, courier.RequestCancel)
		k.chainEvents(held.ID)
	}},
	{"of_chains_within_a_window", func(k *kit) {
		s := k.subscription("sub", courier.EventChainFailed, courier.EventJobFailed)
		s.Window, s.Chains = long, []string{"chain"}
		k.OK(k.outbox().PutSubscription(k.Ctx(), s))
		first, second := k.chainOf("a"), k.chainOf("a")
		k.end(first, "a", courier.Failed)
		k.end(second, "a", courier.Failed)
		list := k.taken(nil)
		slices.SortFunc(list, func(a, b notify.Due) int { return strings.Compare(a.Notification.Job, b.Notification.Job) })
		if len(list) != 2 {
			k.Fatalf("taken %+v", list)
		}
		for i, want := range [][2]courier.ExecutionID{{courier.ExecutionID(first), courier.ExecutionID(second)}, {k.member(first, "a").ID, k.member(second, "a").ID}} {
			n := list[i].Notification
			if n.Chain != "chain" || n.Count != 2 || len(n.Coalesced) != 1 || n.Execution+n.ChainExecution != want[0] || n.Coalesced[0].Execution != want[1] {
				k.Errorf("notification %+v, want one of %v", n, want)
			}
		}
	}},
	// A subscription to a chain has events of the chain and its members; one to a job has only
	// those of the job.
	{"for_subscriptions_to_the_chain", func(k *kit) {
		o := k.outbox()
		for _, s := range []struct {
			name         string
			jobs, chains []string
		}{{"any", nil, nil}, {"by chain", nil, []string{"none", "chain"}}, {"by job", []string{"job"}, nil}, {"others", []string{"other"}, []string{"other"}}} {
			sub := k.subscription(s.name, courier.EventJobCompleted, courier.EventChainCompleted)
			sub.Jobs, sub.Chains = s.jobs, s.chains
			k.OK(o.PutSubscription(k.Ctx(), sub))
		}
		k.end(k.chainOf("a"), "a", courier.Completed)
		alone := k.complete()
		var got []string
		for _, d := range k.taken(nil) {
			n := d.Notification
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s: %s %s %v", n.Subscription, n.Type, n.Chain, n.Execution == alone)))
		}
		slices.Sort(got)
		k.Same("notifications", got, []string{
			"any: ChainCompleted chain false", "any: JobCompleted  true", "any: JobCompleted chain false",
			"by chain: ChainCompleted chain false", "by chain: JobCompleted chain false",
			"by job: JobCompleted  true", "by job: JobCompleted chain false",
		})
	}},
}

var chainEvents = []courier.EventType{courier.EventChainStarted, courier.EventChainCompleted, courier.EventChainFailed}

// chainEvents takes all there is and reports other events than the wanted ones of
// a chain execution.
func (k *kit) chainEvents(id courier.ChainExecutionID, want ...string) {
	k.Helper()
	var got []string
	for _, d := range k.taken(nil) {
		n := d.Notification
		if n.ID != notify.EventID(courier.ExecutionID(id), n.Seq) || string(n.ChainExecution) != string(id) || n.Execution != "" ||
			n.Job != "" || n.Chain != "chain" || n.Version != 1 || n.Count != 1 || n.At.IsZero() {
			k.Errorf("notification %+v", n)
		}
		got = append(got, strings.TrimSpace(fmt.Sprintf("%d %s %s", n.Seq, n.Type, n.Error)))
	}
	slices.Sort(got)
	k.Same("events of the chain", got, append([]string(nil), want...))
}
