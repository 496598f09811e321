package chain_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/internal/test/raced"
)

// planOf reads a plan as "a b<a c<a! d<b?,c": a plain dependency, one that runs on
// failure ("!") and one that accepts any end ("?").
func planOf(t *testing.T, text string) *chain.Plan {
	t.Helper()
	var members []chain.PlannedMember
	for _, word := range strings.Fields(text) {
		name, on, _ := strings.Cut(word, "<")
		m := chain.PlannedMember{Name: name, Job: name, Version: 1}
		for _, d := range strings.Split(on, ",") {
			if d == "" {
				continue
			}
			dep := chain.Dependency{Member: strings.TrimRight(d, "!?"), RunOnFailure: strings.HasSuffix(d, "!")}
			if strings.HasSuffix(d, "?") {
				dep.RequiredStatus = courier.RequireAny
			}
			m.DependsOn = append(m.DependsOn, dep)
		}
		members = append(members, m)
	}
	p, err := chain.NewPlan(members)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// letters are the states of members in tests.
var letters = map[byte]chain.MemberState{
	'p': chain.MemberPending, 's': chain.MemberSkipped, 'r': "running", 'u': "paused", 'c': "completed", 'f': "failed", 'x': "cancelled",
}

func standingOf(state chain.State, request courier.RequestKind, members string) chain.Progress {
	s := chain.Progress{State: state, Request: request}
	for i := range len(members) {
		s.Members = append(s.Members, chain.MemberProgress{State: letters[members[i]]})
	}
	return s
}

func standingText(s chain.Progress, release []int) string {
	var b strings.Builder
	for _, m := range s.Members {
		for c, state := range letters {
			if state == m.State {
				b.WriteByte(c)
			}
		}
	}
	if s.Request != "" {
		b.WriteString(" " + string(s.Request))
	}
	return fmt.Sprintf("%s %s %v", b.String(), s.State, release)
}

// TestEvaluate is the table of docs/chains.md, case by case.
func TestEvaluate(t *testing.T) {
	for _, c := range []struct {
		plan    string
		state   chain.State
		request courier.RequestKind
		members string
		want    string
	}{
		{"a b<a", "pending", "", "pp", "rp running [0]"},
		{"a b<a", "pending", "release", "pp", "pp release pending []"},
		{"a b c<a,b", "pending", "", "ppp", "rrp running [0 1]"},
		// what an edge accepts
		{"a b<a", "running", "", "cp", "cr running [1]"},
		{"a b<a", "running", "", "fp", "fs failed []"},
		{"a b<a", "running", "", "xp", "xs failed []"},
		{"a b<a!", "running", "", "cp", "cr running [1]"},
		{"a b<a!", "running", "", "fp", "fr running [1]"},
		{"a b<a!", "running", "", "xp", "xs failed []"},
		{"a b<a?", "running", "", "cp", "cr running [1]"},
		{"a b<a?", "running", "", "fp", "fr running [1]"},
		{"a b<a?", "running", "", "xp", "xr running [1]"},
		{"a b<a c<b", "running", "", "fpp", "fss failed []"},
		{"a b<a c<b!", "running", "", "fpp", "fsr running [2]"},
		{"a b<a c<b!", "running", "", "xpp", "xss failed []"},
		{"a b<a c<b?", "running", "", "xpp", "xsr running [2]"},
		// all edges, and one dead one is enough
		{"a b c<a,b", "running", "", "crp", "crp running []"},
		{"a b c<a,b", "running", "", "frp", "frs running []"},
		{"a b c<a,b", "running", "", "ccp", "ccr running [2]"},
		{"a b c<a!,b", "running", "", "fcp", "fcr running [2]"},
		{"a b c<a!,b", "running", "", "fxp", "fxs failed []"},
		// after a failure, if one of the dead edges is a failure's
		{"a b c<a,b d<c!", "running", "", "fxpp", "fxsr running [3]"},
		{"a b c<a,b d<c!", "running", "", "cxpp", "cxss failed []"},
		// how it ends
		{"a b<a", "running", "", "cc", "cc completed []"},
		{"a b<a", "running", "", "cf", "cf failed []"},
		{"a b<a!", "running", "", "fc", "fc failed []"},
		{"a b<a?", "running", "", "fc", "fc completed []"},
		{"a b<a?", "running", "", "xc", "xc completed []"},
		{"a b<a? c<a!", "running", "", "fcc", "fcc failed []"},
		{"a b<a?", "running", "", "cf", "cf failed []"},
		// pauses
		{"a b<a", "running", "pause", "rp", "rp pause running []"},
		{"a b<a", "running", "pause", "cp", "cp pause paused []"},
		{"a b<a", "running", "pause", "up", "up pause paused []"},
		{"a b<a", "running", "", "up", "up running []"},
		{"a b<a", "running", "pause", "fp", "fs failed []"},
		{"a b<a", "paused", "", "cp", "cr running [1]"},
		// cancels
		{"a b<a", "running", "cancel", "rp", "rs cancel running []"},
		{"a b<a", "running", "cancel", "cp", "cs cancelled []"},
		{"a b<a c<b?", "running", "cancel", "xpp", "xss cancelled []"},
		{"a b<a", "pending", "cancel", "pp", "ss cancelled []"},
		{"a", "running", "cancel", "c", "c cancelled []"},
		{"a", "running", "cancel", "f", "f cancelled []"},
		// what is resumed takes back what was skipped because of it
		{"a b<a c<b", "failed", "", "rss", "rpp running []"},
		{"a b<a c<b", "running", "", "css", "crp running [1]"},
		{"a b<a c<a!", "failed", "", "rsc", "rpc running []"},
		// what is final stays
		{"a b<a", "completed", "", "fc", "fc completed []"},
		{"a b<a", "cancelled", "", "rs", "rs cancelled []"},
	} {
		next, release := planOf(t, c.plan).Evaluate(standingOf(c.state, c.request, c.members))
		if got := standingText(next, release); got != c.want {
			t.Errorf("%s, %s %s %s: %s, want %s", c.plan, c.state, c.request, c.members, got, c.want)
		}
		again, release := planOf(t, c.plan).Evaluate(next)
		if got := standingText(again, release); len(release) > 0 || got != standingText(next, nil) {
			t.Errorf("%s, evaluated again: %s, was %s", c.plan, got, c.want)
		}
	}
}

func TestNewPlanRefuses(t *testing.T) {
	dep := func(on string) []chain.Dependency { return []chain.Dependency{{Member: on}} }
	for want, members := range map[string][]chain.PlannedMember{
		`two members are called "a"`:                      {{Name: "a"}, {Name: "a"}},
		`member "a" depends on "x", which is not a membe`: {{Name: "a", DependsOn: dep("x")}},
		`depend on each other in a cycle`:                 {{Name: "r"}, {Name: "a", DependsOn: dep("b")}, {Name: "b", DependsOn: dep("a")}},
	} {
		if _, err := chain.NewPlan(members); err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, courier.ErrInvalid) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// A random graph, with the end that each member's execution comes to if it has
// one.
type randomChain struct {
	members []chain.PlannedMember
	ends    []courier.State
}

func newRandomChain(r *rand.Rand) *randomChain {
	c := &randomChain{}
	n := 1 + r.IntN(50)
	density := r.Float64() * min(1, 6/float64(n))
	for i := range n {
		m := chain.PlannedMember{Name: fmt.Sprintf("m%d", i), Job: "j", Version: 1}
		for j := range i {
			if r.Float64() < density {
				d := chain.Dependency{Member: c.members[j].Name, RunOnFailure: r.IntN(3) == 0}
				d.RequiredStatus = []courier.RequiredStatus{"", "", courier.RequireCompleted, courier.RequireAny}[r.IntN(4)]
				m.DependsOn = append(m.DependsOn, d)
			}
		}
		c.members = append(c.members, m)
		c.ends = append(c.ends, []courier.State{
			courier.Completed, courier.Completed, courier.Completed, courier.Completed, courier.Failed, courier.Cancelled,
		}[r.IntN(6)])
	}
	// The order of the definition must not matter.
	r.Shuffle(n, func(i, j int) {
		c.members[i], c.members[j] = c.members[j], c.members[i]
		c.ends[i], c.ends[j] = c.ends[j], c.ends[i]
	})
	return c
}

// reference says what becomes of a chain: what each member comes to, and the
// chain. It follows docs/chains.md, evaluates one member after the other by name, and
// does not depend on the order of events.
func (c *randomChain) reference() (map[string]string, chain.State) {
	got := make(map[string]string) // completed, failed, cancelled, "skipped failure", "skipped cancel"
	ends := make(map[string]courier.State)
	byName := make(map[string]chain.PlannedMember)
	for i, m := range c.members {
		byName[m.Name], ends[m.Name] = m, c.ends[i]
	}
	var of func(name string) string
	of = func(name string) string {
		if s, ok := got[name]; ok {
			return s
		}
		blocked, blame := false, false
		for _, d := range byName[name].DependsOn {
			up := of(d.Member)
			ok := up == "completed"
			if d.RunOnFailure {
				ok = ok || up == "failed" || up == "skipped failure"
			}
			if d.RequiredStatus == courier.RequireAny {
				ok = true
			}
			if !ok {
				blocked = true
				blame = blame || up == "failed" || up == "skipped failure"
			}
		}
		switch {
		case blocked && blame:
			got[name] = "skipped failure"
		case blocked:
			got[name] = "skipped cancel"
		default:
			got[name] = string(ends[name])
		}
		return got[name]
	}
	state := chain.Completed
	for _, m := range c.members {
		if s := of(m.Name); s != "failed" && s != "cancelled" {
			continue
		}
		dependents, all := 0, true
		for _, other := range c.members {
			for _, d := range other.DependsOn {
				if d.Member == m.Name {
					dependents++
					all = all && d.RequiredStatus == courier.RequireAny
				}
			}
		}
		if dependents == 0 || !all {
			state = chain.Failed
		}
	}
	return got, state
}

// run plays the chain with ends in a random order, and with members that are
// failed first and resumed later, if trouble is set.
func (c *randomChain) run(t *testing.T, r *rand.Rand) (chain.Progress, *chain.Plan) {
	p, err := chain.NewPlan(c.members)
	if err != nil {
		t.Fatal(err)
	}
	s, running := p.Evaluate(p.Begin(false))
	released := len(running)
	for len(running) > 0 {
		k := r.IntN(len(running))
		i := running[k]
		running = slices.Delete(running, k, k+1)
		var more []int
		s, more = p.Evaluate(s.Moved(i, c.ends[i]))
		running = append(running, more...)
		released += len(more)
		if (s.State == chain.Running) != (len(running) > 0) {
			t.Fatalf("chain is %s while %d members run", s.State, len(running))
		}
	}
	if released > len(c.members) {
		t.Fatalf("released %d of %d members", released, len(c.members))
	}
	return s, p
}

// TestRandomChains compares the evaluator with the reference.
func TestRandomChains(t *testing.T) {
	for seed := range uint64(raced.Or(2000, 10_000)) {
		r := rand.New(rand.NewPCG(seed, 0))
		c := newRandomChain(r)
		want, state := c.reference()
		s, _ := c.run(t, r)
		if s.State != state {
			t.Fatalf("seed %d: chain is %s, want %s", seed, s.State, state)
		}
		for i, m := range c.members {
			w, _, _ := strings.Cut(want[m.Name], " ")
			if got := string(s.Members[i].State); got != w {
				t.Fatalf("seed %d: member %s is %s, want %s", seed, m.Name, got, w)
			}
		}
	}
}

// TestRandomRetries lets failures be mended: what is resumed completes, again and
// again until nothing fails, and then nothing may be left out that the reference
// would run.
func TestRandomRetries(t *testing.T) {
	for seed := range uint64(raced.Or(400, 2000)) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := newRandomChain(r)
		s, p := c.run(t, r)
		for n := 0; s.State == chain.Failed; n++ {
			if n > len(c.members) {
				t.Fatalf("seed %d: it is still failed after %d retries", seed, n)
			}
			d, err := p.Decide("chain", s, courier.RequestRetry, func(i int) (*courier.Execution, bool) {
				return &courier.Execution{State: courier.State(s.Members[i].State)}, false
			})
			if err != nil {
				t.Fatal(err)
			}
			again := slices.Clone(d.Restarted)
			for _, a := range d.Requests {
				if a.Decision.To != courier.Queued {
					t.Fatalf("seed %d: a failed member is asked to become %q", seed, a.Decision.To)
				}
				again = append(again, a.Member)
			}
			for _, i := range again {
				c.ends[i] = courier.Completed
			}
			var running []int
			s, running = p.Evaluate(d.Next)
			for running = append(running, again...); len(running) > 0; {
				i := running[0]
				var more []int
				s, more = p.Evaluate(s.Moved(i, c.ends[i]))
				running = append(running[1:], more...)
			}
		}
		_, want := c.reference()
		if s.State != want {
			t.Fatalf("seed %d: chain is %s, want %s", seed, s.State, want)
		}
	}
}

func TestDecide(t *testing.T) {
	kinds := []courier.RequestKind{courier.RequestPause, courier.RequestResume, courier.RequestCancel, courier.RequestRelease, courier.RequestRetry}
	for _, c := range []struct {
		state   chain.State
		request courier.RequestKind
		allowed string
	}{
		{chain.Pending, courier.RequestRelease, "cancel release"},
		{chain.Running, "", "pause cancel"},
		{chain.Running, courier.RequestPause, "pause resume cancel"},
		{chain.Running, courier.RequestCancel, "cancel"},
		{chain.Paused, courier.RequestPause, "resume cancel"},
		{chain.Failed, "", "cancel retry"},
		{chain.Completed, "", ""},
		{chain.Cancelled, "", ""},
	} {
		p := planOf(t, "a")
		var got []string
		for _, kind := range kinds {
			_, err := p.Decide("x", standingOf(c.state, c.request, "p"), kind, nil)
			if err == nil {
				got = append(got, string(kind))
			} else if _, ok := errors.AsType[*chain.RequestError](err); !ok || !errors.Is(err, courier.ErrConflict) {
				t.Errorf("%s: error %v", kind, err)
			}
		}
		if s := strings.Join(got, " "); s != c.allowed {
			t.Errorf("%s %s allows %q, want %q", c.state, c.request, s, c.allowed)
		}
	}
	if _, err := planOf(t, "a").Decide("x", standingOf("running", "", "p"), "explode", nil); !errors.Is(err, courier.ErrInvalid) {
		t.Errorf("unknown request: %v", err)
	}
}

// The view of a chain execution is computed in one pass over its members.
func TestViewOfManyMembers(t *testing.T) {
	members := make([]chain.PlannedMember, 2000)
	for i := range members {
		members[i] = chain.PlannedMember{Name: fmt.Sprint(i), Job: "j"}
	}
	p, err := chain.NewPlan(members)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := p.Evaluate(p.Begin(true))
	var c chain.Execution
	allocs := testing.AllocsPerRun(1, func() {
		c = p.View(chain.Execution{}, s, func(int) *courier.Execution { return nil })
	})
	if allocs > 10 || c.Members[1999].Reason != "the chain is held" {
		t.Errorf("%v allocations for %d members, of which the last one has the reason %q", allocs, len(c.Members), c.Members[1999].Reason)
	}
}
