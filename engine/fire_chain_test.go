package engine_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store/memstore"
)

// chainOf defines the chain "chain", of two members in a row, each of which
// takes a while, and returns the chain executions that there are, the oldest
// first.
func (f *fleet) chainOf(d time.Duration) func() []chain.Execution {
	f.t.Helper()
	f.work = func(ctx context.Context, _ *courier.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	_, err := f.engines[0].Chains().Define(f.t.Context(), chain.Chain{Name: "chain", Members: []chain.Member{
		{Name: "first", Job: "job"},
		{Name: "second", Job: "job", DependsOn: []chain.Dependency{{Member: "first"}}},
	}}, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return func() []chain.Execution {
		f.t.Helper()
		list, err := f.engines[0].Chains().Executions(f.t.Context(), chain.Filter{})
		if err != nil {
			f.t.Fatal(err)
		}
		slices.Reverse(list)
		return list
	}
}

// TestFiresChains lets ten engines fire the schedule of a chain: one chain
// execution for each tick, all of whose members are executed, and the overlap
// policy takes the chain as a whole.
func TestFiresChains(t *testing.T) {
	for overlap, want := range map[schedule.Overlap]struct {
		ticks     int
		cancelled int
	}{
		schedule.OverlapAllow: {6, 0}, schedule.OverlapSkip: {3, 0}, schedule.OverlapCancel: {6, 5},
	} {
		t.Run(string(overlap), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, memstore.New(), 10)
				list := f.chainOf(4 * time.Minute) // 8 for both members
				start := time.Now()
				f.set(schedule.Schedule{Name: "s", Chain: "chain", Every: 5 * time.Minute, Overlap: overlap, Ends: start.Add(31 * time.Minute)})
				for i := range f.engines {
					f.start(i)
				}
				time.Sleep(2 * time.Hour)
				for i := range f.engines {
					f.stop(i)
				}
				got := list()
				cancelled := 0
				for _, c := range got {
					if c.By != "schedule:s" || !strings.HasPrefix(c.IdempotencyKey, "schedule:s:") {
						t.Errorf("chain execution by %q with key %q", c.By, c.IdempotencyKey)
					}
					switch c.State {
					case chain.Cancelled:
						cancelled++
					case chain.Completed:
					default:
						t.Errorf("chain execution %s is %s", c.ID, c.State)
					}
				}
				if len(got) != want.ticks || cancelled != want.cancelled {
					t.Errorf("%d chain executions, %d of them cancelled; want %d and %d", len(got), cancelled, want.ticks, want.cancelled)
				}
				if s := f.schedule("s"); len(got) > 0 && s.LastExecution != courier.ExecutionID(got[len(got)-1].ID) {
					t.Errorf("last execution %q", s.LastExecution)
				}
			})
		})
	}
}

// TestChainScheduleProblems sets schedules of chains that can't be started, and
// one whose chain is not there any more.
func TestChainScheduleProblems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, memstore.New(), 1)
		f.chainOf(0)
		for _, s := range []schedule.Schedule{
			{Name: "s", Chain: "chian", Every: time.Hour},
			{Name: "s", Chain: "chain", Job: "job", Every: time.Hour},
		} {
			_, err := f.engines[0].Schedules().Set(t.Context(), s, courier.By{})
			if err == nil || s.Job == "" && !strings.Contains(err.Error(), `did you mean "chain"`) {
				t.Errorf("schedule of %q: %v", s.Chain, err)
			}
		}
		if list, err := f.engines[0].Schedules().List(t.Context(), schedule.Filter{}); err != nil || len(list) > 0 {
			t.Errorf("%d schedules were saved, error %v", len(list), err)
		}
	})
}
