package coordination

import (
	"encoding/json"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

// scheduleChainCases are about schedules of chains, in stores that keep both.
var scheduleChainCases = []testCase{
	// A firing starts chain executions, takes the one that has used the key, and cancels.
	{"fire_starts_chains", withSchedules(func(p *scheduleKit) {
		if !hasChains(p.Store) {
			return
		}
		n := p.newChain("a b<a")
		n.IdempotencyKey = "tick"
		s := daily("s")
		s.Kind, s.Target = store.Chain, "chain"
		s = p.put(s, 0)
		d := p.due(1, long)
		if def := d.List[0].Definition; def == nil || def.Kind != store.Chain || def.Name != "chain" {
			p.Errorf("definition %+v", def)
		}
		f := schedule.Firing{Schedule: "s", Revision: d.List[0].Revision, Status: s.Status, Chains: []chain.NewExecution{n}}
		f.Status.Open, f.Status.LastExecution = []courier.ExecutionID{courier.ExecutionID(n.ID)}, courier.ExecutionID(n.ID)
		fired := p.fire(f)[0]
		if !fired.Done || len(fired.Chains) != 1 || fired.Chains[0].Existed || fired.Chains[0].Execution.State != chain.Running {
			p.Fatalf("fired: %s", storekit.Text(fired))
		}
		d = p.due(1, long)
		p.Same("outcomes", d.List[0].Outcomes, map[courier.ExecutionID]courier.State{courier.ExecutionID(n.ID): courier.State(chain.Running)})

		again := p.newChain("a")
		again.IdempotencyKey, again.Params = "tick", json.RawMessage(`{"x":1}`)
		f.Revision, f.Chains = d.List[0].Revision, []chain.NewExecution{again}
		f.Status.Open, f.Status.LastExecution = []courier.ExecutionID{courier.ExecutionID(again.ID)}, courier.ExecutionID(again.ID)
		fired = p.fire(f)[0]
		if !fired.Done || !fired.Chains[0].Existed || fired.Chains[0].Execution.ID != n.ID {
			p.Fatalf("with a used key: %s", storekit.Text(fired))
		}
		p.Same("last", p.one("s").LastExecution, courier.ExecutionID(n.ID))

		gone := p.newChain("a")
		gone.Version = 7
		f.Revision, f.Chains = p.one("s").Revision, []chain.NewExecution{gone}
		fired = p.fire(f)[0]
		p.Is("a version that is not there", fired.Err, courier.ErrNotFound)

		f.Chains, f.Cancel, f.By = nil, []courier.ExecutionID{courier.ExecutionID(n.ID), courier.ExecutionID(p.IDs.New())}, "schedule:s"
		if fired = p.fire(f)[0]; !fired.Done {
			p.Fatalf("cancel: %s", storekit.Text(fired))
		}
		c, err := p.chains().ChainExecution(p.Ctx(), n.ID)
		p.OK(err)
		p.Same("state", c.State, chain.Cancelled)
	})},
	{"fire_cancels_no_chain_that_has_failed", withSchedules(func(p *scheduleKit) {
		if !hasChains(p.Store) {
			return
		}
		n := p.newChain("a b<a")
		s := daily("s")
		s.Kind, s.Target = store.Chain, "chain"
		s = p.put(s, 0)
		id := p.startChain(n).ID
		p.end(id, "a", courier.Failed)
		s = p.one("s")
		f := schedule.Firing{Schedule: "s", Revision: s.Revision, Status: s.Status, Cancel: []courier.ExecutionID{courier.ExecutionID(id)}, By: "schedule:s"}
		if fired := p.fire(f)[0]; !fired.Done {
			p.Fatalf("fired: %s", storekit.Text(fired))
		}
		p.chainIs(id, "failed: a=failed b=skipped") // and can still be retried
	})},
}
