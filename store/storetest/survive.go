package storetest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storewrap"
)

// Survive checks that no single fault of the store loses work or repeats it. It runs 15 pipelines
// on engines: loops, branches, retries, pauses, cancels, hand-overs. Each pipeline first runs
// without faults, to count the calls to the worker's store and to the operator's store. Then it
// runs again for every call and every [FaultKind], with that fault at that call. There are three
// groups of cases:
//
//   - beside: the fault is in the worker's store, and a second worker with the same
//     workspace and a healthy store begins when it happens;
//   - alone: the same without the second worker, for faults after which the
//     first worker has to continue by itself;
//   - operator: the fault is in the operator's store.
//
// The result must be the same as without faults: the same steps have ended in the same order and
// with the same result, each was completed exactly once for every time that it is due in the
// pipeline, their values are the same, [CheckExecution] finds no fault, and no two workers ran
// the execution at once. There may be additional records of lost workers, but only after a fault
// that can cost a worker its lease; an error can do that only if it hides the result of a claim.
// A step that a cancel interrupts may also be lost, or may never have started.
//
// After an acknowledged pause or cancel no step starts. A request that was not acknowledged may
// take effect or not; another operator, whose store is healthy, repeats it.
//
// Each case is a subtest, such as loop/beside/die_after_7, with its own store from open. Each
// pipeline logs the numbers of calls and cases. After five failed cases it skips the others. In
// real time a case takes about a hundred units, a unit must be long enough for several hundred
// calls of the store, and Parallel is advisable. Options.Polling makes no difference.
func Survive(t *testing.T, open func(t *testing.T) store.Store, opt *Options) {
	survive(t, open, opt, 1)
}

// survive runs all cases, or one of every few.
func survive(t *testing.T, open func(t *testing.T) store.Store, opt *Options, every int) {
	if opt == nil {
		opt = &Options{}
	}
	s := &survival{open: open, Options: *opt, every: every}
	switch {
	case s.Unit == 0 && s.Virtual:
		s.Unit = time.Second
	case s.Unit == 0:
		s.Unit = 50 * time.Millisecond
	}
	for i := range pipelines {
		t.Run(pipelines[i].name, func(t *testing.T) { s.all(t, &pipelines[i]) })
	}
}

// A survival is one call of Survive.
type survival struct {
	Options
	open  func(t *testing.T) store.Store
	every int // of how many cases one is run
}

// A trial is the worker and the fault of one case.
type trial struct {
	who   string          // beside, alone or operator
	fault storewrap.Fault // of the worker's store, or the operator's
}

// A tally has the results of the cases of one pipeline so far. The fault occurred in some cases;
// in the virtual ones there was no such call.
type tally struct {
	worker, operator             int // calls when undisturbed
	cases, failed, hits, virtual atomic.Int64
}

// enough is the number of failed cases after which the other cases of a pipeline are skipped.
const enough = 5

// all runs the cases of one pipeline.
func (s *survival) all(t *testing.T, p *pipeline) {
	start, dir := time.Now(), t.TempDir()
	var sum tally
	if s.one(t, p, dir, trial{}, &sum); t.Failed() {
		return
	}
	t.Cleanup(func() {
		cases, failed, virtual := sum.cases.Load(), sum.failed.Load(), sum.virtual.Load()
		t.Logf("%d calls of the worker and %d of the operator, %d cases in %v; in %d of them the fault did not happen",
			sum.worker, sum.operator, cases, time.Since(start).Round(time.Millisecond), virtual)
		switch {
		case failed >= enough:
			t.Logf("%d cases failed; those after them were left out", failed)
		case virtual > cases/4:
			t.Error("in more than a quarter of the cases the fault did not happen")
		}
	})
	due := 0
	for _, group := range []struct {
		who   string
		calls int
		tries func(storewrap.FaultKind) bool
	}{
		{"beside", sum.worker, func(storewrap.FaultKind) bool { return true }},
		{"alone", sum.worker, func(k storewrap.FaultKind) bool { return !k.Dies() }},
		{"operator", sum.operator, func(storewrap.FaultKind) bool { return true }},
	} {
		t.Run(group.who, func(t *testing.T) {
			// A run may make one call more than the run without faults.
			for n, hits := 1, int64(0); n <= group.calls || sum.hits.Load() > hits && n < 2*group.calls+20; n++ {
				hits = sum.hits.Load()
				for _, kind := range storewrap.FaultKinds {
					if !group.tries(kind) {
						continue
					}
					if due++; due%s.every != 0 {
						continue
					}
					t.Run(fmt.Sprintf("%v_%d", kind, n), func(t *testing.T) {
						if s.Parallel > 1 && !s.Virtual {
							t.Parallel()
						}
						s.one(t, p, dir, trial{group.who, storewrap.Fault{Kind: kind, N: n}}, &sum)
					})
				}
			}
		})
	}
}

// one runs one case, unless enough have failed.
func (s *survival) one(t *testing.T, p *pipeline, dir string, try trial, sum *tally) {
	if sum.failed.Load() >= enough {
		return
	}
	run := func(t *testing.T) {
		d := newDrill(t, p, s.open(t), s.Unit, dir, try)
		defer func() {
			switch {
			case try.who == "":
				sum.worker, sum.operator = d.calls, d.requests
			case d.faulty().Hit() != "":
				sum.hits.Add(1)
			default:
				sum.virtual.Add(1)
			}
		}()
		defer d.stop()
		d.run()
	}
	if try.who != "" {
		sum.cases.Add(1)
	}
	defer func() {
		if t.Failed() {
			sum.failed.Add(1)
		}
	}()
	if s.Virtual {
		synctest.Test(t, run)
	} else {
		run(t)
	}
}
