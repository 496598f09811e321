package pgstore

import (
	"context"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier/store"
)

// MaxTransition is how many bytes a transition may have.
const MaxTransition = maxTransition

// ClaimLock is the lock of claims that count, for tests.
func ClaimLock(schema string) int64 { return claimLock(schema) }

// Find has a store find all claims and probes slow, as if a session held a
// snapshot for long, or quick.
func Find(s *Store, slow bool) {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	s.claims.quick = time.Hour
	if slow {
		s.claims.quick = -1
	}
}

// Probing reports whether claims begin behind the last claimed row.
func Probing(s *Store) bool {
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	return s.claims.probe != nil
}

// Probe looks once for what claims would pass over, and returns the queues in
// which something is, and the executions that workers have lost.
func Probe(ctx context.Context, s *Store, r store.ClaimRequest) (queues []string, lost []string, err error) {
	f, err := s.probeOnce(ctx, s.newClaim(&r, 0))
	return slices.Sorted(maps.Keys(f.first)), f.lost, err
}

// Prober returns a function that probes as beside an old snapshot: a walk over all running
// executions takes a second. It returns the executions that workers have lost, and whether all
// running ones were walked over.
func Prober(s *Store, r store.ClaimRequest) func(context.Context) (lost []string, whole bool, err error) {
	c := s.newClaim(&r, 0)
	s.claims.mu.Lock()
	defer s.claims.mu.Unlock()
	s.claims.probe, s.claims.known, s.claims.used = c, running{}, time.Now()
	return func(ctx context.Context) ([]string, bool, error) {
		f, err := s.probeOnce(ctx, c)
		if err != nil {
			return nil, false, err
		}
		if f.whole {
			f.started = f.started.Add(-time.Second)
		}
		s.claims.probed(c, f, 0)
		return f.lost, f.whole, nil
	}
}

// WalksWhole reports whether a probe walks over all running executions at a time after the
// last such walk, which took so long.
func WalksWhole(took, lease, after time.Duration) bool {
	var k claimState
	k.init()
	k.probe = &claim{ClaimRequest: &store.ClaimRequest{Lease: lease}}
	now := time.Now()
	k.known.learn(&found{whole: true, running: []string{}, now: now, started: now}, lease, took)
	return k.runningBefore(k.probe, now.Add(after)).since.IsZero()
}

// ProbeWait is the time between two probes that take so long each, when the next
// lease ends so long after the first has started.
func ProbeWait(took, lease, ends time.Duration) time.Duration {
	var k claimState
	k.init()
	k.probe = &claim{ClaimRequest: &store.ClaimRequest{Lease: lease}}
	k.used = time.Now()
	wait, _ := k.probed(k.probe, found{ends: ends, started: time.Now().Add(-took)}, 0)
	return wait
}

// Probes reports whether the last of claims that took so long, one after another, is
// followed by a probe, where a round trip takes trip. They find nothing, and nothing
// has called them if they are idle.
func Probes(idle bool, trip time.Duration, took ...time.Duration) (probes bool) {
	var k claimState
	k.init()
	k.trip = trip
	for i, d := range took {
		c := &claim{ClaimRequest: new(store.ClaimRequest), findings: findings{took: d}}
		if !idle {
			c.mark = uint64(i + 1)
		}
		probes = k.record(c, time.Now())
	}
	return probes
}

// Walks reports whether the last of n claims, one at each end of a gap, whose walks take so
// long, is followed by a probe, and whether a probe with such a walk is followed by another.
func Walks(n int, gap, walk time.Duration) (begins, goesOn bool) {
	var k claimState
	k.init()
	for range n {
		time.Sleep(gap)
		c := &claim{ClaimRequest: &store.ClaimRequest{Lease: time.Minute}, findings: findings{walked: walk}}
		if begins = k.record(c, time.Now()); begins {
			_, goesOn = k.probed(c, found{started: time.Now(), queues: true, walked: walk}, 0)
			_, more := k.probed(c, found{started: time.Now(), queues: true, walked: walk / 2}, 0)
			return begins, goesOn && !more
		}
	}
	return false, false
}

// OthersBlocked reports whether another store has announced that it is blocked by a
// limit.
func OthersBlocked(s *Store) bool { return s.notifier.OthersBlocked() }

// Words returns all words and operators of the SQL that this package has.
func Words() []string {
	all := make(map[string]bool)
	for _, text := range allSQL() {
		text = notCode.ReplaceAllString(text, " ")
		for _, w := range word.FindAllString(text, -1) {
			all[w] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

var (
	notCode = regexp.MustCompile(`(?m)--.*$|/\*.*?\*/|'[^']*'`)
	word    = regexp.MustCompile(`[a-z_][a-z0-9_]*|[-+*/<>=~!@#%^&|?]+`)
)

// Statements are all statements that this package sends, without filters.
func Statements() []string {
	return slices.Collect(maps.Values(Composed()))
}

// allSQL is all that the package sends, but for what Go code holds: the words of
// that occur here too.
func allSQL() []string {
	script, err := SQL(DefaultSchema)
	if err != nil {
		panic(err)
	}
	texts := []string{script}
	return append(texts, Statements()...)
}

// statementNames are the names of all statements.
func statementNames() (list []string) {
	names, err := fs.Glob(sqlFiles, "*/*.sql")
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".inc.sql") {
			list = append(list, strings.TrimSuffix(name, ".sql"))
		}
	}
	return list
}

// Composed are all statements by their names, for the schema "courier", without filters.
func Composed() map[string]string {
	texts := make(map[string]string)
	for _, name := range statementNames() {
		texts[name] = statementsFor(DefaultSchema).text(filtered{name: name})
	}
	return texts
}
