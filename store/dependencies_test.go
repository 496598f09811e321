package store

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/raced"
)

func TestUpstreams(t *testing.T) {
	for _, d := range []struct {
		kind Kind
		body string
		want []string
	}{
		{Job, `{"depends_on": ["b", {"job": "a", "required_status": "any"}, "b"], "steps": [{}]}`, []string{"a", "b"}},
		{Job, `{"name": "x"}`, nil},
		{Job, `7`, nil},
		{Job, `{"depends_on": 7}`, nil},
		{Chain, `{"depends_on": ["a"]}`, nil},
	} {
		if got := Upstreams(&Definition{Kind: d.kind, Body: json.RawMessage(d.body)}); !slices.Equal(got, d.want) {
			t.Errorf("%s %s: %q, want %q", d.kind, d.body, got, d.want)
		}
	}
}

// TestCycle looks for cycles in random graphs, and compares with what follows
// from which job can be reached from which.
func TestCycle(t *testing.T) {
	found := 0
	for seed := range uint64(raced.Or(200, 2000)) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 1 + r.IntN(8)
		edges, reach := make(map[string][]string), make(map[string]map[string]bool)
		name := func(i int) string { return fmt.Sprint("j", i) }
		for i := range n {
			reach[name(i)] = make(map[string]bool)
			for range r.IntN(3) {
				to := name(r.IntN(n))
				edges[name(i)] = append(edges[name(i)], to)
				reach[name(i)][to] = true
			}
		}
		for range n {
			for i := range n {
				for j := range n {
					for k := range n {
						if reach[name(i)][name(j)] && reach[name(j)][name(k)] {
							reach[name(i)][name(k)] = true
						}
					}
				}
			}
		}
		for i := range n {
			path := Cycle(name(i), func(job string) []string { return edges[job] })
			if (path != nil) != reach[name(i)][name(i)] {
				t.Fatalf("seed %d: from %s in %v: %v", seed, name(i), edges, path)
			}
			if path == nil {
				continue
			}
			found++
			if path[0] != name(i) || path[len(path)-1] != name(i) || len(path) < 2 {
				t.Fatalf("seed %d: path %v", seed, path)
			}
			for k := range path[1:] {
				if !slices.Contains(edges[path[k]], path[k+1]) {
					t.Fatalf("seed %d: path %v in %v", seed, path, edges)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no graph has a cycle")
	}
}

func TestWaitsOf(t *testing.T) {
	list := []courier.JobDependency{{Job: "a"}, {Job: "b", OnUnmet: courier.RefuseUnmet}, {Job: "c", OnUnmet: courier.HoldUnmet, RunOnFailure: true}}
	names := func(list []courier.JobDependency) string {
		var names []string
		for _, d := range list {
			names = append(names, d.Job)
		}
		return strings.Join(names, " ")
	}
	if w, r, h := names(Waiting(list)), names(Refusing(list)), Refusing(Holding(list)); w != "a c" || r != "b" || h != nil || names(Holding(list)) != "a b c" {
		t.Errorf("waiting %q, refusing %q, refusing while holding %v", w, r, h)
	}
	if list[1].OnUnmet != courier.RefuseUnmet || Holding(nil) != nil {
		t.Error("Holding has changed what it was given, or made something of nothing")
	}
	states := map[string]courier.State{"a": courier.Failed, "b": courier.Completed, "c": courier.Failed}
	waits := Unmet(list, func(job string) (courier.ExecutionID, courier.State) { return "7", states[job] })
	if len(waits) != 1 || waits[0].Job != "a" || waits[0].Execution != "7" || waits[0].State != courier.Failed {
		t.Errorf("waits: %+v", waits)
	}
}
