// Package executions has the cases about executions: what creates, claims,
// writes, changes, finds and counts them.
package executions

import (
	"slices"

	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

// long is a lease or a delay that does not pass during a case.
const long = storekit.Long

// A kit is what a case works with.
type kit struct{ *storekit.Kit }

type holder = storekit.Holder

// A testCase checks one rule.
type testCase struct {
	name string
	run  func(*kit)
}

// Groups lists all cases.
func Groups() []storekit.Group {
	return []storekit.Group{
		{Name: "catalog", Cases: cases(catalogCases)},
		{Name: "enqueue", Cases: cases(enqueueCases)},
		{Name: "claim", Cases: cases(claimCases)},
		{Name: "first", Cases: cases(firstCases)},
		{Name: "limit", Cases: cases(limitCases)},
		{Name: "reclaim", Cases: cases(reclaimCases)},
		{Name: "renew", Cases: cases(renewCases, progressCases)},
		{Name: "await", Cases: cases(awaitCases)},
		{Name: "apply", Cases: cases(applyCases, itemCases, secretCases, onlyCopiesCases)},
		{Name: "guard", Cases: cases(guardCases)},
		{Name: "request", Cases: cases(requestCases, restartCases, itemRestartCases, changeCases, finallyCases)},
		{Name: "archive", Cases: cases(archiveCases, recordCases, listCases)},
		{Name: "transfers", Cases: cases(transferCases), Role: hasOverview},
		{Name: "race", Cases: cases(raceCases)},
		{Name: "workers", Cases: cases(workerCases), Role: hasWorkers},
	}
}

func cases(lists ...[]testCase) (all []storekit.Case) {
	for _, c := range slices.Concat(lists...) {
		all = append(all, storekit.Case{Name: c.name, Run: func(k *storekit.Kit) { c.run(&kit{k}) }})
	}
	return all
}
