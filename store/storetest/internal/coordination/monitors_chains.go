package coordination

import (
	"context"
	"encoding/json"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

// monitorChainCases are about monitors in stores that have other roles too.
var monitorChainCases = []testCase{
	// A put ends AwaitSchedules, in a store that keeps both.
	{"put_wakes", withMonitors(func(l *monitorKit) {
		a, ok := l.Store.(schedule.Store)
		if !ok {
			return
		}
		d, err := a.DueSchedules(l.Ctx(), 1, long)
		l.OK(err)
		l.put(monitorOf("m"), long)
		ctx, cancel := context.WithTimeout(l.Ctx(), time.Minute)
		defer cancel()
		l.OK(a.AwaitSchedules(ctx, d.Mark)) // at once
	})},
	// A record starts chain executions, a used key taking the place of a new one.
	{"record_starts_chains", withMonitors(func(l *monitorKit) {
		if !hasChains(l.Store) {
			return
		}
		n := l.newChain("a b<a")
		m := monitorOf("m")
		m.Kind, m.Target = store.Chain, "chain"
		r := l.lookOfChain(l.put(m, 0), n)
		got := l.record(r)
		if started := got.Chains; !got.Done || len(started) != 1 || started[0].Existed || started[0].Execution.State != chain.Running {
			l.Fatalf("recorded: %s", storekit.Text(got))
		}
		l.Same("execution", l.seen(monitor.SeenFilter{Monitor: "m"})[0].Execution, courier.ExecutionID(n.ID))
		l.started(1) // the first member
		if again := l.record(r); again.Done || len(again.Chains) > 0 {
			l.Errorf("recorded twice: %s", storekit.Text(again))
		}

		l.OK(l.RemoveMonitor(l.Ctx(), "m"))
		again := l.newChain("a")
		again.Params = json.RawMessage(`{"x":1}`)
		got = l.record(l.lookOfChain(l.put(m, 0), again))
		if started := got.Chains; !got.Done || !started[0].Existed || started[0].Execution.ID != n.ID {
			l.Fatalf("with a used key: %s", storekit.Text(got))
		}
		l.Same("execution of the used key", l.seen(monitor.SeenFilter{Monitor: "m"})[0].Execution, courier.ExecutionID(n.ID))
		l.started(1)
	})},
	// A record with one that can't be started changes nothing.
	{"record_of_chains_whole_or_not_at_all", withMonitors(func(l *monitorKit) {
		if !hasChains(l.Store) {
			return
		}
		there := l.newChain("a")
		_, err := l.chains().StartChains(l.Ctx(), []chain.NewExecution{there})
		l.OK(err)
		m := l.put(monitorOf("m"), 0)
		r := l.look(m, "file")
		good, bad := l.newChain("a"), l.newChain("a")
		bad.Version = 7
		r.Chains = []chain.NewExecution{good, bad}
		_, err = l.RecordPoll(l.Ctx(), r)
		l.Is("of an unknown version", err, courier.ErrNotFound)
		_, err = l.Save(l.Ctx(), store.Definition{Kind: store.Chain, Name: "other", Body: json.RawMessage(`{"name": "other"}`)})
		l.OK(err)
		bad = l.newChain("a")
		bad.Chain, bad.ID = "other", there.ID
		r.Chains = []chain.NewExecution{good, bad}
		_, err = l.RecordPoll(l.Ctx(), r)
		l.Is("of an id of another chain", err, courier.ErrConflict)
		l.Same("files", l.seen(monitor.SeenFilter{Monitor: "m"}), nil)
		l.Same("monitor", l.one("m"), m)
		l.started(1)
		list, err := l.chains().ChainExecutions(l.Ctx(), chain.Filter{})
		l.OK(err)
		l.Same("chain executions", len(list), 1)
	})},
}

// lookOfChain is the record of a look at which the file "file" was handed over
// to a new chain execution.
func (l *monitorKit) lookOfChain(m monitor.Record, n chain.NewExecution) monitor.PollResult {
	l.Helper()
	r := l.look(m, "file")
	n.IdempotencyKey = "monitor:" + m.Name + ":file"
	r.Executions, r.Chains = nil, []chain.NewExecution{n}
	r.Changed[0].Execution = courier.ExecutionID(n.ID)
	return r
}
