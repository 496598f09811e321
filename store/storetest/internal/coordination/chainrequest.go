package coordination

import (
	"errors"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
)

// chainAskCases are about requests to chain executions.
var chainAskCases = []testCase{
	// A pause is requested of every queued or running execution; the chain execution is paused
	// when none runs; a resume undoes that.
	{"pause_and_resume", func(k *kit) {
		id := k.chainOf("a b c<a d<b")
		h := k.run(id, "a")
		_, asked := k.askChain(id, courier.RequestPause)
		k.Same("asked", len(asked), 2)
		k.chainIs(id, "running, pause: a=running b=paused c=pending d=pending")
		k.Same("request", k.Get(h.ID()).Request, courier.RequestPause)
		h.End(courier.Paused)
		k.chainIs(id, "paused, pause: a=paused b=paused c=pending d=pending")
		_, asked = k.askChain(id, courier.RequestResume)
		k.Same("asked", len(asked), 2)
		k.chainIs(id, "running: a=queued b=queued c=pending d=pending")
		k.end(id, "a", courier.Completed)
		k.chainIs(id, "running: a=completed b=queued c=queued d=pending")
	}},
	{"a_pause_releases_nothing", func(k *kit) {
		id := k.chainOf("a b<a")
		h := k.run(id, "a")
		k.askChain(id, courier.RequestPause)
		h.End(courier.Completed) // it was in its last step
		k.chainIs(id, "paused, pause: a=completed b=pending")
		k.askChain(id, courier.RequestResume)
		k.chainIs(id, "running: a=completed b=queued")
	}},
	{"a_resume_withdraws_a_pause", func(k *kit) {
		id := k.chainOf("a b<a")
		h := k.run(id, "a")
		k.askChain(id, courier.RequestPause)
		k.askChain(id, courier.RequestResume)
		k.Same("request", k.Get(h.ID()).Request, courier.RequestKind(""))
		h.End(courier.Completed)
		k.chainIs(id, "running: a=completed b=queued")
	}},
	{"a_resume_leaves_what_others_have_paused", func(k *kit) {
		id := k.chainOf("a b c d")
		k.Ask(k.member(id, "a").ID, courier.RequestPause)
		c := k.run(id, "c")
		k.Ask(c.ID(), courier.RequestPause)
		k.askChain(id, courier.RequestPause)
		k.chainIs(id, "running, pause: a=paused b=paused c=running d=paused")
		k.Ask(k.member(id, "b").ID, courier.RequestResume) // and paused again, by hand
		k.Ask(k.member(id, "b").ID, courier.RequestPause)
		k.askChain(id, courier.RequestResume)
		k.chainIs(id, "running: a=paused b=paused c=running d=queued")
		k.Same("request", k.Get(c.ID()).Request, courier.RequestPause)
	}},
	{"a_pause_by_hand_takes_over", func(k *kit) {
		id := k.chainOf("a")
		h := k.run(id, "a")
		k.askChain(id, courier.RequestPause)
		k.Ask(h.ID(), courier.RequestPause)
		k.askChain(id, courier.RequestResume)
		k.Same("request", k.Get(h.ID()).Request, courier.RequestPause)
	}},
	// A cancel skips pending members and requests the cancel of all others; the chain execution is
	// cancelled when the last one is.
	{"cancel", func(k *kit) {
		id := k.chainOf("a b c d<a e<d?")
		h := k.run(id, "a")
		k.end(id, "b", courier.Failed)
		_, asked := k.askChain(id, courier.RequestCancel)
		k.Same("asked", len(asked), 3)
		c := k.chainIs(id, "running, cancel: a=running b=cancelled c=cancelled d=skipped e=skipped")
		k.Same("why", c.Member("e").Reason, "the chain was cancelled")
		k.Same("request", k.Get(h.ID()).Request, courier.RequestCancel)
		h.End(courier.Cancelled)
		k.chainIs(id, "cancelled: a=cancelled b=cancelled c=cancelled d=skipped e=skipped")
	}},
	{"cancel_of_paused_failed_and_held_ones", func(k *kit) {
		paused, failed := k.chainOf("a b<a"), k.chainOf("a b<a")
		k.askChain(paused, courier.RequestPause)
		k.askChain(paused, courier.RequestCancel)
		k.chainIs(paused, "cancelled: a=cancelled b=skipped")
		k.end(failed, "a", courier.Failed)
		k.askChain(failed, courier.RequestCancel)
		k.chainIs(failed, "cancelled: a=cancelled b=skipped")
		n := k.newChain("a b<a")
		n.Hold = true
		k.startChain(n)
		k.askChain(n.ID, courier.RequestCancel)
		c := k.chainIs(n.ID, "cancelled: a=skipped b=skipped")
		k.Same("started", c.StartedAt.IsZero(), true)
	}},
	// A retry resumes failed executions, and creates new ones for cancelled members.
	{"retry_goes_on_from_what_failed", func(k *kit) {
		id := k.chainOf("a b c d<a e<b f<c g<d,e,f")
		k.end(id, "a", courier.Completed)
		k.end(id, "b", courier.Failed)
		k.Ask(k.member(id, "c").ID, courier.RequestCancel)
		k.end(id, "d", courier.Completed)
		before := k.chainIs(id, "failed: a=completed b=failed c=cancelled d=completed e=skipped f=skipped g=skipped")
		_, asked := k.askChain(id, courier.RequestRetry)
		k.Same("asked", len(asked), 1)
		c := k.chainIs(id, "running: a=completed b=queued c=queued d=completed e=pending f=pending g=pending")
		k.Same("the failed one is the same", c.Member("b").Execution, before.Member("b").Execution)
		if c.Member("c").Execution == before.Member("c").Execution {
			k.Error("the cancelled one has no new execution")
		}
		x := k.member(id, "c")
		k.Same("the new one", []any{x.Chain, x.Member, x.Job, x.State}, []any{id, "c", "job", courier.Queued})
		k.State(before.Member("c").Execution, courier.Cancelled)
		for _, m := range []string{"b", "c", "e", "f", "g"} {
			k.end(id, m, courier.Completed)
		}
		k.chainIs(id, "completed: a=completed b=completed c=completed d=completed e=completed f=completed g=completed")
	}},
	{"retry_needs_ids", func(k *kit) {
		id := k.chainOf("a")
		k.Ask(k.member(id, "a").ID, courier.RequestCancel)
		_, _, err := k.chains().RequestChain(k.Ctx(), chain.Request{Chain: id, Kind: courier.RequestRetry})
		k.Is("without ids", err, courier.ErrInvalid)
		k.chainIs(id, "failed: a=cancelled")
	}},
	// A request that the state does not allow, an unknown one and one to an unknown chain
	// execution change nothing.
	{"refused_requests_change_nothing", func(k *kit) {
		id := k.chainOf("a")
		before := k.chain(id)
		for _, kind := range []courier.RequestKind{courier.RequestResume, courier.RequestRelease, courier.RequestRetry} {
			_, _, err := k.chains().RequestChain(k.Ctx(), chain.Request{Chain: id, Kind: kind})
			if _, ok := errors.AsType[*chain.RequestError](err); !ok {
				k.Errorf("%s: error %v", kind, err)
			}
		}
		_, _, err := k.chains().RequestChain(k.Ctx(), chain.Request{Chain: id, Kind: "explode"})
		k.Is("an unknown request", err, courier.ErrInvalid)
		_, _, err = k.chains().RequestChain(k.Ctx(), chain.Request{Chain: courier.ChainExecutionID(k.IDs.New()), Kind: courier.RequestPause})
		k.Is("an unknown chain execution", err, courier.ErrNotFound)
		k.Same("chain execution", k.chain(id), before)
	}},
	// The audits of the members' executions name the actor.
	{"actor_is_in_the_audit", func(k *kit) {
		id := k.chainOf("a")
		k.askChain(id, courier.RequestCancel)
		audit := k.AuditOf(k.member(id, "a").ID)
		k.Same("who", audit[len(audit)-1].By, "bob")
	}},
}
