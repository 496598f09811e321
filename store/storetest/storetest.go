// Package storetest is the conformance suite of [store.Store]: a case for every rule of
// the contract, for any store.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) store.Store { return mystore.New(t) }, nil)
//	}
//
// docs/store.md lists the rules with their cases. [Diff] compares two stores over random
// operations, [Survive] runs pipelines on a store that fails, and [CheckAudit] checks
// the audit of an execution. [Intercept], [NewFaulty], [NewRefusing] and [NewEager] are
// wrappers of stores for tests.
package storetest

import (
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/store"
)

// Options adapt the suite to a store. Nil means the defaults.
type Options struct {
	// Virtual runs each case in a testing/synctest bubble, where time is
	// virtual. It is for stores without I/O.
	Virtual bool
	// Unit is the length of the leases and delays that cases let pass. No case
	// depends on being faster than that. Zero means a second of virtual time,
	// or 50 ms of real time.
	Unit time.Duration
	// Parallel runs the cases in parallel, except in virtual time.
	Parallel bool
	// Polling says that Await only waits for its context, which is allowed. The cases
	// whose names begin with wakes_ are left out.
	Polling bool
	// MaxTransition is the number of bytes of outputs that a transition may have; the
	// store refuses more for good. 0 means that it has no limit that a test can reach.
	MaxTransition int
}

// Run runs all cases as subtests. Open returns an empty store for one case, and
// registers its clean-up with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) store.Store, opt *Options) {
	if opt == nil {
		opt = &Options{}
	}
	unit := opt.Unit
	switch {
	case unit == 0 && opt.Virtual:
		unit = time.Second
	case unit == 0:
		unit = 50 * time.Millisecond
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, c := range g.cases {
				if opt.Polling && strings.HasPrefix(c.name, "wakes_") {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					run := func(t *testing.T) {
						if s := open(t); g.role == nil || g.role(s) {
							c.try(&kit{T: t, Store: s, unit: unit, virtual: opt.Virtual, most: opt.MaxTransition})
						}
					}
					switch {
					case opt.Virtual:
						synctest.Test(t, run)
						return
					case opt.Parallel:
						t.Parallel()
					}
					run(t)
				})
			}
		})
	}
}

// A group is the cases of one subject.
type group struct {
	name  string
	cases []testCase
	role  func(store.Store) bool // whether the store has their role; nil: every store has it
}

// A testCase checks one rule.
type testCase struct {
	name string
	run  func(*kit)
}

// try runs the case. A panic over what a store returned fails just this case.
func (c *testCase) try(k *kit) {
	defer func() {
		if p := recover(); p != nil {
			k.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	c.run(k)
	k.checkAll()
}

// groups lists all cases.
var groups = []group{
	{name: "catalog", cases: catalogCases},
	{name: "enqueue", cases: enqueueCases},
	{name: "claim", cases: claimCases},
	{name: "first", cases: firstCases},
	{name: "limit", cases: limitCases},
	{name: "reclaim", cases: reclaimCases},
	{name: "renew", cases: renewCases},
	{name: "await", cases: awaitCases},
	{name: "apply", cases: slices.Concat(applyCases, itemCases)},
	{name: "guard", cases: guardCases},
	{name: "request", cases: slices.Concat(requestCases, restartCases, itemRestartCases, changeCases)},
	{name: "archive", cases: slices.Concat(archiveCases, recordCases)},
	{name: "race", cases: raceCases},
	{name: "chains", cases: slices.Concat(chainCases, chainChangeCases), role: hasChains},
	{name: "dependencies", cases: slices.Concat(dependencyCases, dependencyChainCases)},
	{name: "schedules", cases: slices.Concat(scheduleCases, scheduleChainCases)},
	{name: "outbox", cases: slices.Concat(outboxCases, windowCases, changeEventCases), role: hasOutbox},
	{name: "events", cases: chainEventCases, role: func(s store.Store) bool { return hasChains(s) && hasOutbox(s) }},
	{name: "workers", cases: workerCases, role: hasWorkers},
	{name: "monitors", cases: slices.Concat(monitorCases, monitorChainCases)},
	{name: "deadlines", cases: deadlineCases, role: hasDeadlines},
}
