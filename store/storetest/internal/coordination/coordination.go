// Package coordination has the cases about what starts executions, orders them
// and reports on them: chains, dependencies between jobs, schedules, monitors,
// deadlines and notifications.
package coordination

import (
	"slices"

	"github.com/courierhq/courier/store"
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
		{Name: "chains", Cases: cases(chainCases, chainChangeCases), Role: hasChains},
		{Name: "dependencies", Cases: cases(dependencyCases, dependencyChainCases, waiterChangeCases)},
		{Name: "schedules", Cases: cases(scheduleCases, scheduleChainCases)},
		{Name: "outbox", Cases: cases(outboxCases, windowCases, emittedCases, changeEventCases), Role: hasOutbox},
		{Name: "events", Cases: cases(chainEventCases), Role: func(s store.Store) bool { return hasChains(s) && hasOutbox(s) }},
		{Name: "monitors", Cases: cases(monitorCases, monitorChainCases)},
		{Name: "expectations", Cases: cases(expectationCases), Role: hasExpectations},
		{Name: "overview", Cases: cases(overviewCases, incidentCases), Role: hasOverview},
		{Name: "statistics", Cases: cases(statisticsCases), Role: hasStatistics},
		{Name: "figures", Cases: cases(figureCases), Role: hasFigures},
		{Name: "trail", Cases: cases(trailCases), Role: hasTrail},
		{Name: "journal", Cases: cases(journalCases), Role: hasJournal},
		{Name: "acknowledgements", Cases: cases(acknowledgementCases), Role: hasAcknowledgements},
		{Name: "deadlines", Cases: cases(deadlineCases), Role: hasDeadlines},
	}
}

func cases(lists ...[]testCase) (all []storekit.Case) {
	for _, c := range slices.Concat(lists...) {
		all = append(all, storekit.Case{Name: c.name, Run: func(k *storekit.Kit) { c.run(&kit{k}) }})
	}
	return all
}
