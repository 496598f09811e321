package coordination

import (
	"errors"
	"fmt"
	"sync"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/store"
)

// chainRaceCases are about what happens to one chain execution at the same time.
var chainRaceCases = []testCase{
	{"members_that_end_at_once_do_not_strand_it", func(k *kit) {
		k.Limit("", "0")
		for range 4 {
			id := k.chainOf("a b c d z<a,b,c,d")
			var list []func()
			for _, m := range []string{"a", "b", "c", "d"} {
				h := k.run(id, m)
				list = append(list, func() { k.fine(k.endOnce(h, courier.Completed)) })
			}
			atOnce(list)
			k.chainIs(id, "running: a=completed b=completed c=completed d=completed z=queued")
		}
	}},
	{"ends_and_cancels_at_once", func(k *kit) {
		k.Limit("", "0")
		for range 4 {
			id := k.chainOf("a b c z<a?,b?,c?")
			h := k.run(id, "a")
			b, c := k.member(id, "b").ID, k.member(id, "c").ID
			atOnce([]func(){
				func() { k.fine(k.endOnce(h, courier.Failed)) },
				func() {
					_, err := k.Request(k.Ctx(), store.Request{Execution: b, Kind: courier.RequestCancel})
					k.fine(err)
				},
				func() {
					_, err := k.Request(k.Ctx(), store.Request{Execution: c, Kind: courier.RequestCancel})
					k.fine(err)
				},
			})
			k.chainIs(id, "running: a=failed b=cancelled c=cancelled z=queued")
		}
	}},
	// Of a concurrent end and request to the chain, one is first and the other takes it into
	// account.
	{"an_end_and_a_pause_or_cancel_of_the_chain", func(k *kit) {
		k.Limit("", "0")
		for i := range 8 {
			id := k.chainOf("a b<a c<b")
			h := k.run(id, "a")
			kind := []courier.RequestKind{courier.RequestPause, courier.RequestCancel}[i%2]
			var ended error
			atOnce([]func(){
				func() { ended = k.endOnce(h, courier.Completed) },
				func() {
					_, _, err := k.chains().RequestChain(k.Ctx(), chain.Request{Chain: id, Kind: kind})
					k.fine(err)
				},
			})
			c := k.chain(id)
			got := chainText(&c)
			want := map[string]bool{
				"paused, pause: a=completed b=pending c=pending":  kind == courier.RequestPause && ended == nil,
				"paused, pause: a=completed b=paused c=pending":   kind == courier.RequestPause && ended == nil,
				"cancelled: a=completed b=skipped c=skipped":      kind == courier.RequestCancel && ended == nil,
				"cancelled: a=completed b=cancelled c=skipped":    kind == courier.RequestCancel && ended == nil,
				"running, cancel: a=running b=skipped c=skipped":  kind == courier.RequestCancel && errors.Is(ended, courier.ErrConflict),
				"running, pause: a=completed b=queued c=pending":  false,
				"running, cancel: a=completed b=queued c=pending": false,
			}
			if !want[got] {
				k.Errorf("%s: after the end gave %v, the chain execution is %s", kind, ended, got)
			}
		}
	}},
	{"one_key_at_once_starts_one", func(k *kit) {
		n := k.newChain("a")
		n.IdempotencyKey = "tick"
		var list []func()
		ids := make([]courier.ChainExecutionID, 16)
		for i := range ids {
			c := n
			c.ID = courier.ChainExecutionID(k.IDs.New())
			c.Members = []chain.NewMember{{Name: "a", Execution: k.New()}}
			list = append(list, func() {
				got, err := k.chains().StartChains(k.Ctx(), []chain.NewExecution{c})
				k.fine(err)
				ids[i] = got[0].Execution.ID
			})
		}
		atOnce(list)
		for _, id := range ids {
			k.Same("id", id, ids[0])
		}
		k.Same("executions", len(k.All()), 1)
	}},
	{"many_chains_at_once_all_end", func(k *kit) {
		k.Limit("", "0")
		const chains, members = 8, "a b<a c<a d<b,c e<a! f<d?"
		var list []func()
		for i := range chains {
			id := k.chainOf(members)
			list = append(list, func() {
				for n := 0; ; n++ {
					c, err := k.chains().ChainExecution(k.Ctx(), id)
					if err != nil || c.State.Ended() {
						k.fine(err)
						return
					}
					moved := false
					for _, m := range c.Members {
						if m.State == "queued" {
							moved = true
							r := k.ClaimRequest(1)
							r.Only = []courier.ExecutionID{m.Execution}
							got, err := k.Claim(k.Ctx(), r)
							k.fine(err)
							if len(got.List) == 1 {
								h := k.Holder(got.List[0])
								to := courier.Completed
								if i%2 == 1 && m.Name == "a" {
									to = courier.Failed
								}
								k.fine(k.endOnce(h, to))
							}
						}
					}
					if !moved {
						k.Errorf("it stands still: %s", chainText(&c))
						return
					}
				}
			})
		}
		atOnce(list)
		all, err := k.chains().ChainExecutions(k.Ctx(), chain.Filter{})
		k.fine(err)
		for _, c := range all {
			if !c.State.Ended() {
				k.Errorf("%s", chainText(&c))
			}
		}
	}},
}

// endOnce ends a member's execution, from any goroutine.
func (k *kit) endOnce(h *holder, to courier.State) error {
	t := h.To(to)
	t.Chain = h.Execution.Chain
	if to == courier.Failed {
		t.Failure = &courier.Failure{Message: "boom"}
	}
	if err := k.Apply(k.Ctx(), t); err != nil {
		return fmt.Errorf("end %s: %w", h.Execution.Member, err)
	}
	return nil
}

// fine reports an error, from any goroutine.
func (k *kit) fine(err error) {
	if err != nil {
		k.Helper()
		k.Errorf("unexpected error: %v", err)
	}
}

// atOnce calls functions at the same time and waits for them.
func atOnce(list []func()) {
	var all sync.WaitGroup
	begin := make(chan struct{})
	for _, f := range list {
		all.Go(func() {
			<-begin
			f()
		})
	}
	close(begin)
	all.Wait()
}
