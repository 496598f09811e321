package coordination

import (
	"errors"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

// dependencyChainCases are about dependencies of what chains and schedules
// start, in stores that keep those.
var dependencyChainCases = []testCase{
	// Members of chains wait, even where a dependency refuses, and others wait for them.
	{"members_wait_and_are_waited_for", func(k *kit) {
		if !hasChains(k.Store) {
			return
		}
		n := k.newChain("a b<a c<b")
		outside := k.of("outside", "")
		n.Members[0].Execution = k.of("up", "")
		n.Members[1].Execution = k.of("down", "outside/")
		x := k.Add(k.of("other", "up"))[0].ID
		id := k.startChain(n).ID
		k.waits(x, "up queued")
		k.end(id, "a", courier.Completed)
		k.Hold(x, long)
		k.chainIs(id, "running: a=completed b=queued c=pending")
		k.waits(k.member(id, "b").ID, "outside") // there is nobody to refuse it to
		k.Add(outside)
		k.waits(k.member(id, "b").ID, "outside queued")
		k.ends(outside.ID, courier.Completed)
		k.end(id, "b", courier.Completed)
		k.chainIs(id, "running: a=completed b=completed c=queued")
	}},
	// A released member whose dependencies are met can be claimed.
	{"a_released_member_need_not_wait", func(k *kit) {
		if !hasChains(k.Store) {
			return
		}
		n := k.newChain("a b<a")
		n.Members[1].Execution = k.of("down", "up")
		k.ends(k.Add(k.of("up", ""))[0].ID, courier.Completed)
		id := k.startChain(n).ID
		k.end(id, "a", courier.Completed)
		k.run(id, "b")
	}},
	// A member is created when it is released, whatever the instant in its id.
	{"a_member_is_newer_than_its_id", func(k *kit) {
		if !hasChains(k.Store) {
			return
		}
		n := k.newChain("a b<a")
		n.Members[1].Execution = k.of("up", "")
		id := k.startChain(n).ID
		x := k.Add(k.of("down", "up"))[0].ID
		between := k.Add(k.of("up", ""))[0].ID
		k.Pass(k.Unit / 10)
		k.end(id, "a", courier.Completed)
		k.ends(between, courier.Completed)
		k.waits(x, "up queued")
		k.end(id, "b", courier.Completed)
		k.waits(x)
	}},
	// A chain execution is paused, resumed and cancelled while members wait.
	{"pause_and_cancel_of_a_chain_whose_member_waits", func(k *kit) {
		if !hasChains(k.Store) {
			return
		}
		n := k.newChain("a")
		n.Members[0].Execution = k.of("down", "up")
		id := k.startChain(n).ID
		last := k.Add(k.of("last", "down?"))[0].ID
		x := k.member(id, "a").ID
		k.askChain(id, courier.RequestPause)
		k.chainIs(id, "paused, pause: a=paused")
		k.waits(x)
		k.askChain(id, courier.RequestResume)
		k.chainIs(id, "running: a=queued")
		k.waits(x, "up")
		k.waits(last, "down queued")
		k.askChain(id, courier.RequestCancel)
		k.chainIs(id, "cancelled: a=cancelled")
		k.waits(last)
		k.Hold(last, long)
	}},
	// Executions that schedules start wait, and a tick that is refused starts nothing.
	{"fire_waits_and_is_refused", withSchedules(func(p *scheduleKit) {
		s := p.put(daily("s"), 0)
		f := p.tick(s)
		f.Executions[0] = p.of("down", "up other/")
		f.Status.Due, f.Status.Open, f.Status.LastExecution = s.Due, []courier.ExecutionID{f.Executions[0].ID}, f.Executions[0].ID
		fired := p.fire(f)[0]
		if _, ok := errors.AsType[*courier.DependencyError](fired.Err); !ok || fired.Done {
			p.Fatalf("refused: %s, %v", storekit.Text(fired), fired.Err)
		}
		p.started(0)
		p.ends(p.Add(p.of("other", ""))[0].ID, courier.Completed)
		fired = p.fire(f)[0]
		if !fired.Done || len(fired.Executions) != 1 {
			p.Fatalf("fired: %s, %v", storekit.Text(fired), fired.Err)
		}
		x := fired.Executions[0].Execution.ID
		p.waits(x, "up")
		d := p.due(1, long)
		p.Same("outcomes", d.List[0].Outcomes, map[courier.ExecutionID]courier.State{x: courier.Queued})
		p.ends(p.Add(p.of("up", ""))[0].ID, courier.Completed)
		next := p.of("last", "down?")
		last := p.Add(next)[0].ID
		f = p.tick(p.one("s"))
		f.Executions, f.Cancel = nil, []courier.ExecutionID{x}
		if fired = p.fire(f)[0]; !fired.Done {
			p.Fatalf("cancel: %s", storekit.Text(fired))
		}
		p.State(x, courier.Cancelled)
		p.Hold(last, long)
	})},
}
