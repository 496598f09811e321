// Package storetest is the conformance suite of [store.Store]: a case for every rule of
// the contract, for any store.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) store.Store { return mystore.New(t) }, nil)
//	}
//
// The name of a case is the rule. A case has a comment if the name is too short. After each case
// the suite checks all executions of the store with [CheckExecution]. [Diff] compares two stores
// over random operations, [Survive] runs pipelines on a store that fails, and [CheckAudit] checks
// the audit of an execution. Package storewrap has wrappers of stores for tests.
package storetest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/coordination"
	"github.com/courierhq/courier/store/storetest/internal/executions"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

// Options adapt the suite to a store. Nil means the defaults.
type Options struct {
	// Virtual runs each case in a testing/synctest bubble, where time is
	// virtual. It is for stores without I/O.
	Virtual bool
	// Unit is the length of the leases and delays that cases wait for. No case requires the store
	// to be faster than that. Zero means a second of virtual time, or 50 ms of real time.
	Unit time.Duration
	// Parallel is the number of cases that run at once, except in virtual time: most cases mostly
	// wait. 0 means one. If it is more than one, [Survive] runs as many cases at once as the flag
	// -parallel of go test allows.
	Parallel int
	// Polling says that Await only waits for its context, which is allowed. The cases
	// whose names begin with wakes_ are left out.
	Polling bool
	// MaxTransition is the maximum number of bytes of outputs that the store accepts in a
	// transition. 0 means that it has no limit that a test can reach.
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
	parallel := opt.Parallel
	if opt.Virtual {
		parallel = 1
	}
	places := make(chan struct{}, max(1, parallel))
	eachOf(groups(), parallel, func(g storekit.Group) {
		t.Run(g.Name, func(t *testing.T) {
			eachOf(g.Cases, parallel, func(c storekit.Case) {
				if opt.Polling && strings.HasPrefix(c.Name, "wakes_") {
					return
				}
				places <- struct{}{}
				defer func() { <-places }()
				t.Run(c.Name, func(t *testing.T) {
					run := func(t *testing.T) {
						if s := open(t); g.Role == nil || g.Role(s) {
							c.Try(&storekit.Kit{T: t, Store: s, Unit: unit, Virtual: opt.Virtual, MaxOutput: opt.MaxTransition})
						}
					}
					if opt.Virtual {
						synctest.Test(t, run)
					} else {
						run(t)
					}
				})
			})
		})
	})
}

// eachOf calls f for each element of a list, one after the other, or all at once if parallel is
// more than one.
func eachOf[T any](list []T, parallel int, f func(T)) {
	if parallel <= 1 {
		for _, v := range list {
			f(v)
		}
		return
	}
	var all sync.WaitGroup
	defer all.Wait()
	for _, v := range list {
		all.Go(func() { f(v) })
	}
}

// groups lists all cases.
func groups() []storekit.Group {
	return slices.Concat(executions.Groups(), coordination.Groups())
}

// CheckAudit returns an error for the first fault in the complete audit of one execution. Faults
// are: numbers that are not 1, 2, 3 ...; instants that go back; a state other than the one that
// the entry before left; an illegal move; a step that changes while no worker holds the
// execution; a step that is still running after its worker gave the execution back; an elapsed
// time that differs from the time between the entries. A step that an operator skipped comes
// right before the resume.
func CheckAudit(entries []courier.AuditEntry) error { return storekit.CheckAudit(entries) }

// CheckExecution returns an error for the first fault of an execution in a store: in its audit,
// or between the audit and the execution or its records. It must not be called while the
// execution changes.
func CheckExecution(ctx context.Context, s store.Archive, id courier.ExecutionID) error {
	return storekit.CheckExecution(ctx, s, id)
}
