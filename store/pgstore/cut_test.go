package pgstore_test

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/internal/test/raced"
)

var (
	cuts    = flag.String("cuts", raced.Or("24", "1600"), "how many cuts TestCuts tries; all takes an hour, so give -timeout too")
	cutSeed = flag.Uint64("cutseed", 1, "chooses the cuts that TestCuts tries")
	onlyCut = flag.String("cut", "", "try only this cut, as TestCuts names it, or all whose names begin so")
)

const (
	leastCuts = 1500 // that must happen in a run without flags
	lanes     = 8
	enough    = 10 // trials that fail, before the others are left out
)

// TestCuts runs scenarios with all connections through a proxy, undisturbed
// first, to count the messages of the protocol, and then again for a choice of
// the messages, cutting the connection of that message before or after its
// delivery. What is cut after a client's message took effect is a reply that is
// lost. In the end each execution must stand as it does undisturbed: no step
// that was completed ran again, none is missing, outputs are the same, and all
// promises hold. A cut makes no more than one call of a client fail, and costs a
// worker its lease only if it hides what a claim brought.
func TestCuts(t *testing.T) {
	surgery := newSurgery(t)
	if at, err := parseCut(*onlyCut); err == nil {
		surgery.all(t, []cut{at})
		return
	}
	start := time.Now()
	surveys := surgery.survey(t)
	if t.Failed() {
		return
	}
	list := everyCut(surveys)
	t.Logf("%d scenarios, %d messages on both kinds of store, %v for the undisturbed runs", len(surveys), len(list)/2, time.Since(start).Round(time.Millisecond))
	n, err := strconv.Atoi(*cuts)
	switch {
	case *onlyCut != "":
		list = slices.DeleteFunc(list, func(c cut) bool { return !strings.HasPrefix(c.String(), *onlyCut) })
		if len(list) == 0 {
			t.Fatalf("-cut: no cut's name begins with %q", *onlyCut)
		}
	case *cuts != "all":
		if err != nil {
			t.Fatalf("-cuts: %v", err)
		}
		list = someCuts(surveys, n, *cutSeed)
		if raced.On { // not each type of cut: the run without the race detector has them
			list = spread(list, n)
		}
	}
	surgery.all(t, list)
	surgery.sum(t, *onlyCut == "" && n >= leastCuts)
	t.Logf("%v in all", time.Since(start).Round(time.Millisecond))
	if n := surgery.openTransactions(t); n > 0 {
		t.Errorf("%d transactions were left open", n)
	}
}

// spread returns about n of the cuts, at equal distances.
func spread(list []cut, n int) (some []cut) {
	for i := 0; i < len(list); i += max(1, len(list)/max(1, n)) {
		some = append(some, list[i])
	}
	return some
}

// A surgery is one call of TestCuts.
type surgery struct {
	pool    *pgxpool.Pool
	lanes   []*lane
	counter atomic.Int64

	mu       sync.Mutex
	tried    map[string]*tally // by scenario
	failed   int
	again    []string        // cuts that were tried again since a lease ended
	covered  map[string]bool // kinds of cuts that happened
	observed map[string]bool // and those that could
}

// A tally counts trials in which the cut happened.
type tally struct {
	cuts, calm, failedCalls int
	lost                    int // leases of claims whose reply was lost
	late                    int // trials that did not count, since leases ended otherwise
	took, longest           time.Duration
}

func newSurgery(t *testing.T) *surgery {
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = lanes
	// Or the server would plan each of the first statements of each connection.
	config.ConnConfig.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := &surgery{pool: pool, tried: make(map[string]*tally), covered: make(map[string]bool), observed: make(map[string]bool)}
	before := runtime.NumGoroutine()
	for i := range lanes {
		l, err := newLane(t.Context(), pool, i, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		s.lanes = append(s.lanes, l)
	}
	t.Cleanup(func() {
		for _, l := range s.lanes {
			l.warm.close()
			l.direct.Close()
		}
		if !eventually(func() bool { return runtime.NumGoroutine() <= before+lanes }) {
			t.Errorf("%d goroutines before, %d after", before, runtime.NumGoroutine())
		}
	})
	return s
}

// eventually waits until something is so; it reports false if it is not within
// a while.
func eventually(is func() bool) bool {
	for range 1000 {
		if is() {
			return true
		}
		time.Sleep(cutPoll / 5)
	}
	return false
}

// each calls f with each of n numbers, in all lanes.
func (s *surgery) each(n int, f func(l *lane, i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for _, l := range s.lanes {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n) && !s.enough(); i = next.Add(1) {
				f(l, int(i)-1)
			}
		})
	}
	wg.Wait()
}

func (s *surgery) enough() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed >= enough
}

// survey runs every scenario undisturbed, on both kinds of store.
func (s *surgery) survey(t *testing.T) []survey {
	name, _, _ := strings.Cut(*onlyCut, ":")
	chosen := slices.DeleteFunc(slices.Clone(scenarios), func(c scenario) bool { return !strings.HasPrefix(c.name, name) })
	surveys := make([]survey, len(chosen))
	s.each(2*len(chosen), func(l *lane, i int) {
		of, cold := i/2, i%2 == 0
		counts := s.calm(t, l, &chosen[of], cold)
		s.mu.Lock()
		defer s.mu.Unlock()
		surveys[of].scenario = chosen[of].name
		if cold {
			surveys[of].cold = counts
		} else {
			surveys[of].warm = counts
		}
	})
	for i := range surveys {
		for _, at := range surveys[i].sites(false) {
			s.observed[coverage(at.cut(0, false))] = true
			s.observed[coverage(at.cut(0, true))] = true
		}
	}
	return surveys
}

// slow is how often in a row the leases of a trial may end for no other reason
// than that the machine is too slow to renew them. What such a trial found counts
// only if the leases of the next ones end too.
const slow = 3

// calm runs a scenario undisturbed.
func (s *surgery) calm(t *testing.T, l *lane, of *scenario, cold bool) map[kind]int {
	for n := 0; ; n++ {
		tr := l.try(of, int(s.counter.Add(1)), cold, nil, n)
		if tr.late() && !tr.hangs && n < slow {
			continue
		}
		err := tr.err()
		if err != nil || tr.late() {
			s.fail(t, l, tr, fmt.Sprintf("%s, undisturbed: %d workers lost, %v\n%s", of.name, tr.lost, err, tr.story()))
			return nil
		}
		return tr.blade.counts
	}
}

// coverage is what must be covered of a scenario: each type of message in each
// direction, before and after.
func coverage(c cut) string {
	c.cold, c.n, c.statement = false, 0, ""
	return c.String()
}

// fail notes a failure, and the lane of the trial goes on with a front that has
// seen none.
func (s *surgery) fail(t *testing.T, l *lane, tr *trial, text string) {
	s.mu.Lock()
	s.failed++
	s.mu.Unlock()
	t.Error(text)
	if tr.owns() {
		return
	}
	if !tr.hangs {
		l.warm.close()
	}
	warm, err := l.open(context.Background())
	if err != nil {
		panic(err)
	}
	l.warm = warm
}

// all tries cuts.
func (s *surgery) all(t *testing.T, list []cut) {
	s.each(len(list), func(l *lane, i int) {
		at := list[i]
		of := slices.IndexFunc(scenarios, func(c scenario) bool { return c.name == at.scenario })
		if of < 0 {
			t.Errorf("there is no scenario %q", at.scenario)
			return
		}
		for n := 0; at.n > 0; {
			tr := l.try(&scenarios[of], int(s.counter.Add(1)), at.cold, &at, n)
			s.count(tr)
			err := tr.err()
			if *onlyCut == at.String() {
				t.Logf("%v: it happened: %t, %d workers lost\n%s", at, tr.blade.fell, tr.lost, tr.story())
			}
			if tr.late() && !tr.hangs && n < slow {
				n++
				continue
			}
			if err != nil || tr.late() {
				s.fail(t, l, tr, fmt.Sprintf("%v: %d workers lost, %v\n%sreplay it with: go test -race ./store/pgstore -run '^TestCuts$' -v -cut=%v", at, tr.lost, err, tr.story(), at))
				return
			}
			if tr.blade.fell {
				return
			}
			at.n /= 2 // it had fewer such messages than undisturbed
		}
	})
}

func (s *surgery) count(tr *trial) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.tried[tr.scenario.name]
	if c == nil {
		c = new(tally)
		s.tried[tr.scenario.name] = c
	}
	if tr.late() {
		c.late++
		s.again = append(s.again, tr.at.String())
		return
	}
	if !tr.blade.fell {
		c.calm++
		return
	}
	c.cuts++
	c.failedCalls += tr.failed
	c.took += tr.took
	c.longest = max(c.longest, tr.took)
	if tr.lost > 0 {
		c.lost++
	}
	s.covered[coverage(*tr.at)] = true
}

// sum logs the number of cuts and their cost.
func (s *surgery) sum(t *testing.T, wholly bool) {
	var all tally
	for i := range scenarios {
		c := s.tried[scenarios[i].name]
		if c == nil {
			continue
		}
		t.Logf("%-14s %4d cuts, %3d that did not happen, %3d calls failed, %3d claims lost, %d tried again, %v on average, %v at most",
			scenarios[i].name, c.cuts, c.calm, c.failedCalls, c.lost, c.late, (c.took / time.Duration(max(1, c.cuts))).Round(time.Millisecond), c.longest.Round(time.Millisecond))
		all.cuts, all.calm, all.lost, all.late = all.cuts+c.cuts, all.calm+c.calm, all.lost+c.lost, all.late+c.late
	}
	t.Logf("%d cuts, %d that did not happen, %d claims lost, %d tried again since a lease ended: %s", all.cuts, all.calm, all.lost, all.late, some(s.again))
	if s.failed >= enough {
		t.Logf("%d trials failed; those after them were left out", s.failed)
		return
	}
	if wholly && all.cuts < leastCuts {
		t.Errorf("%d cuts happened, want at least %d", all.cuts, leastCuts)
	}
	if *onlyCut != "" {
		return
	}
	var missing []string
	for what := range s.observed {
		if !s.covered[what] {
			missing = append(missing, what)
		}
	}
	slices.Sort(missing)
	t.Logf("%d of %d types of cuts happened; not: %s", len(s.observed)-len(missing), len(s.observed), some(missing))
	if wholly && len(missing) > len(s.observed)/20 { // some pass by chance only
		t.Errorf("%d types of cuts did not happen", len(missing))
	}
}

// some lists the first of many.
func some(list []string) string {
	if len(list) > 20 {
		return strings.Join(list[:20], " ") + " ..."
	}
	return strings.Join(list, " ")
}

// openTransactions counts the sessions that have started and not ended a
// transaction.
func (s *surgery) openTransactions(t *testing.T) (n int) {
	eventually(func() bool {
		err := s.pool.QueryRow(context.Background(), `select count(*) from pg_stat_activity
			where datname = current_database() and state like 'idle in transaction%'`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
	return n
}
