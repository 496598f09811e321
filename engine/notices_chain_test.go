package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// TestChainEvents tells a subscriber of a chain and its members, at once: how
// chains end follows from what the engine writes itself.
func TestChainEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m mailbox
		e := told(t, memstore.New(), &m, nil)
		chain := readChain(t, `{"name": "chain", "members": [{"job": "good"}, {"job": "bad", "depends_on": [{"member": "good"}]}]}`)
		if _, err := e.Chains().Define(t.Context(), chain, nil); err != nil {
			t.Fatal(err)
		}
		subscribe(t, e, func(s *notify.Subscription) {
			s.Chains, s.Events = []string{"chain"}, []courier.EventType{courier.EventChainStarted, courier.EventChainCompleted, courier.EventChainFailed, courier.EventJobCompleted}
		})
		time.Sleep(5 * time.Minute)
		enqueued(t, e, "good") // on its own
		begun := time.Now()
		x, err := e.Chains().Start(t.Context(), "chain", nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		var got []string
		for i, n := range m.got() {
			if late := m.at[i].Sub(begun); late > time.Second {
				t.Errorf("told of %s after %v", n.Type, late)
			}
			if n.Job == "" && string(n.ChainExecution) != string(x.ID) {
				t.Errorf("%s is of chain execution %q, want %q", n.Type, n.ChainExecution, x.ID)
			}
			got = append(got, fmt.Sprintf("%s chain=%s job=%s %s", n.Type, n.Chain, n.Job, n.Error))
		}
		slices.Sort(got)
		want := []string{
			`ChainFailed chain=chain job= member "bad": it broke`,
			"ChainStarted chain=chain job= ", "JobCompleted chain=chain job=good ",
		}
		if !slices.Equal(got, want) {
			t.Errorf("told of %q, want %q", got, want)
		}
	})
}

// TestChainEventOfSchedule tells a subscriber at once of a chain that a schedule
// has started, though no engine is there to execute its member.
func TestChainEventOfSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m mailbox
		e := told(t, memstore.New(), &m, nil)
		job := courier.Job{Name: "far", Queue: "elsewhere", Steps: []courier.StepSpec{{Type: "test.step"}}}
		if _, err := e.Jobs().Define(t.Context(), job, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Chains().Define(t.Context(), readChain(t, `{"name": "chain", "members": [{"job": "far"}]}`), nil); err != nil {
			t.Fatal(err)
		}
		subscribe(t, e, func(s *notify.Subscription) { s.Events = []courier.EventType{courier.EventChainStarted} })
		tick := time.Now().Add(10*time.Minute + 3*time.Second)
		if _, err := e.Schedules().Set(t.Context(), schedule.Schedule{Name: "s", Chain: "chain", At: tick}, courier.By{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Minute)
		if got := m.got(); len(got) != 1 || got[0].Chain != "chain" || m.at[0].Sub(tick) > time.Second {
			t.Errorf("told of %+v at %v, want one event right after %v", got, m.at, tick)
		}
	})
}

// TestTraceOfChainEvents: what a subscription starts for an event of a chain has the trace of the
// call that started the chain, although it is another goroutine that delivers the event.
func TestTraceOfChainEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var m mailbox
		e := told(t, memstore.New(), &m, func(o *engine.Options) {
			o.Trace = func(ctx context.Context) string { trace, _ := ctx.Value(key{}).(string); return trace }
		})
		if _, err := e.Chains().Define(t.Context(), readChain(t, `{"name": "chain", "members": [{"job": "good"}]}`), nil); err != nil {
			t.Fatal(err)
		}
		next := courier.Job{Name: "next", Steps: []courier.StepSpec{{Type: "test.step"}}}
		if _, err := e.Jobs().Define(t.Context(), next, nil); err != nil {
			t.Fatal(err)
		}
		subscribe(t, e, func(s *notify.Subscription) {
			s.Kind, s.Func, s.Job = notify.KindJob, "", &notify.JobTarget{Name: "next"}
			s.Chains, s.Events = []string{"chain"}, []courier.EventType{courier.EventChainCompleted}
		})
		const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		if _, err := e.Chains().Start(context.WithValue(t.Context(), key{}, trace), "chain", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for _, job := range []string{"good", "next"} {
			list, err := e.Executions().List(t.Context(), store.Filter{Job: job})
			if err != nil || len(list) != 1 {
				t.Fatalf("%s: %d executions, %v", job, len(list), err)
			}
			if x, err := e.Executions().Get(t.Context(), list[0].ID); err != nil || x.Trace != trace {
				t.Errorf("%s has the trace %q, %v", job, x.Trace, err)
			}
		}
	})
}
