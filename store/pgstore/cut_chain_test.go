package pgstore_test

import (
	"context"

	"github.com/courierhq/courier/chain"
)

// chain runs a chain of four members of the job, of which two can run at once.
func (tr *trial) chain() {
	tr.start(tr.first)
	tr.define()
	on := func(names ...string) (list []chain.Dependency) {
		for _, n := range names {
			list = append(list, chain.Dependency{Member: n})
		}
		return list
	}
	c := chain.Chain{Name: tr.job, Members: []chain.Member{
		{Name: "a", Job: tr.job}, {Name: "b", Job: tr.job, DependsOn: on("a")}, {Name: "c", Job: tr.job, DependsOn: on("a")},
		{Name: "d", Job: tr.job, DependsOn: on("b", "c")},
	}}
	tr.ask("define chain", func(ctx context.Context) error {
		_, err := tr.first.Chains().Define(ctx, c, nil)
		return err
	})
	x := &tr.chained
	tr.ask("start chain", func(ctx context.Context) (err error) {
		*x, err = tr.first.Chains().Start(ctx, tr.job, &chain.StartOptions{IdempotencyKey: "once"})
		return err
	})
	id := x.ID
	tr.ask("wait for chain", func(ctx context.Context) (err error) {
		*x, err = tr.first.Chains().Wait(ctx, id)
		return err
	})
	for _, m := range x.Members {
		if m.Execution != "" {
			tr.ids = append(tr.ids, m.Execution)
		}
	}
}

// checkChain checks how the chain ended, unless so many workers were lost that
// the trial is late.
func (tr *trial) checkChain() {
	if tr.chained.State != chain.Completed && tr.lost == 0 {
		tr.report("the chain is %s: %+v", tr.chained.State, tr.chained.Members)
	}
}
