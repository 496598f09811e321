package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/monitor"
)

// defineChain defines a chain of two members in a row. Each takes the files.
func (w *tower) defineChain(name string, params map[string]any) {
	w.t.Helper()
	_, err := w.engines[0].Chains().Define(w.t.Context(), chain.Chain{Name: name, Params: params, Members: []chain.Member{
		{Name: "first", Job: "job"}, {Name: "second", Job: "job", DependsOn: []chain.Dependency{{Member: "first"}}},
	}}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
}

// setChain sets the monitor "m", which starts the chain "chain".
func (w *tower) setChain(m monitor.Monitor) {
	w.t.Helper()
	m.Name, m.Path, m.Chain = "m", "/in", "chain"
	if _, err := w.engines[0].Monitors().Set(w.t.Context(), m, courier.By{}); err != nil {
		w.t.Fatal(err)
	}
}

// chains returns the chain executions, the oldest first.
func (w *tower) chains() []chain.Execution {
	w.t.Helper()
	list, err := w.engines[0].Chains().Executions(w.t.Context(), chain.Filter{Limit: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Reverse(list)
	return list
}

// TestMonitorStartsChains hands each file over to a chain execution of its own,
// whichever engines look, and not again after a restart or a removal.
func TestMonitorStartsChains(t *testing.T) {
	inTower(t, 3, func(w *tower) {
		w.defineChain("chain", nil)
		w.setChain(monitor.Monitor{Every: 5 * time.Second, Stable: time.Second})
		w.shelf.put(3, "a", "b")
		for i := range w.engines {
			w.start(i)
		}
		time.Sleep(time.Minute)
		w.require("created a:3", "created a:3", "created b:3", "created b:3") // by both members
		for i := range w.engines {
			w.stop(i)
		}
		list := w.chains()
		if len(list) != 2 {
			t.Fatalf("%d chain executions", len(list))
		}
		for _, c := range list {
			if c.State != chain.Completed || c.By != "monitor:m" || !strings.HasPrefix(c.IdempotencyKey, "monitor:m:") {
				t.Errorf("chain execution %+v", c)
			}
		}
		files, err := w.engines[0].Monitors().Files(t.Context(), monitor.SeenFilter{Monitor: "m"})
		if err != nil || len(files) != 2 || files[1].Execution != courier.ExecutionID(list[1].ID) || files[0].Execution != courier.ExecutionID(list[0].ID) {
			t.Errorf("files %+v of %s and %s, %v", files, list[0].ID, list[1].ID, err)
		}
		if h := w.monitor().Health; h.Triggered != 2 || h.LastExecution != courier.ExecutionID(list[1].ID) {
			t.Errorf("health %+v", h)
		}
		w.engines[0] = w.engine("again")
		if err := w.engines[0].Monitors().Remove(t.Context(), "m", courier.By{}); err != nil {
			t.Fatal(err)
		}
		w.setChain(monitor.Monitor{Every: 5 * time.Second, Stable: time.Second})
		w.start(0)
		time.Sleep(time.Minute)
		w.require()
		w.shelf.put(4, "c")
		time.Sleep(time.Minute)
		w.require("created c:4", "created c:4")
		w.stop(0)
	})
}

// TestMonitorStartsManyChains hands over so many files that one look can't start
// a chain for each, and then all of them to one.
func TestMonitorStartsManyChains(t *testing.T) {
	inTower(t, 1, func(w *tower) {
		w.defineChain("chain", map[string]any{"files": nil, "monitor": nil})
		w.setChain(monitor.Monitor{Every: time.Minute, Stable: time.Second})
		var want []string
		for i := range 130 {
			w.shelf.put(1, fmt.Sprint(i))
			want = append(want, fmt.Sprintf("created %d:1", i), fmt.Sprintf("created %d:1", i))
		}
		w.start(0)
		time.Sleep(1500 * time.Millisecond) // a look to see them, and one to hand them over
		if n := len(w.chains()); n != 100 {
			t.Errorf("%d chain executions", n)
		}
		time.Sleep(10 * time.Second)
		w.require(want...)
		w.setChain(monitor.Monitor{Every: time.Minute, Stable: time.Second, Batch: true})
		w.shelf.put(2, "x", "y")
		time.Sleep(2 * time.Minute)
		w.require("created x:2, created y:2", "created x:2, created y:2")
		w.stop(0)
	})
}

// TestMonitorWithoutItsChain hands files over when the chain takes them again.
func TestMonitorWithoutItsChain(t *testing.T) {
	inTower(t, 1, func(w *tower) {
		w.defineChain("chain", nil)
		w.setChain(monitor.Monitor{Every: 10 * time.Second})
		w.defineChain("chain", map[string]any{"other": 1})
		w.shelf.put(1, "a")
		w.start(0)
		time.Sleep(time.Minute)
		w.require()
		if m := w.monitor(); m.State != monitor.Degraded || !strings.Contains(m.Health.Problem, `could not be handed over: chain "chain": params.files: unknown parameter "files"`) {
			t.Errorf("monitor %+v", m)
		}
		w.defineChain("chain", nil)
		time.Sleep(time.Minute)
		w.require("created a:1", "created a:1")
		if m := w.monitor(); m.State != monitor.Active {
			t.Errorf("monitor %+v", m)
		}
		w.stop(0)
	})
}

// TestMonitorIsHeardOf has engines that look for monitors seldom, since there are
// none, and one that sets the first.
func TestMonitorIsHeardOf(t *testing.T) {
	inTower(t, 2, func(w *tower) {
		w.start(1)
		time.Sleep(time.Hour)
		w.shelf.put(1, "a")
		w.set(monitor.Monitor{Every: time.Second, Stable: time.Second}) // by another engine
		time.Sleep(4 * time.Second)
		w.require("created a:1")
		w.stop(1)
	})
}
