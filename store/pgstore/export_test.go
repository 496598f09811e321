package pgstore

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier/store"
)

// MaxTransition is how many bytes a transition may have.
const MaxTransition = maxTransition

// ClaimLock is the lock of claims that count, for tests.
func ClaimLock(schema string) int64 { return claimLock(schema) }

// Plain returns parameters as any connection takes them.
func Plain(args []any) []any {
	args = slices.Clone(args)
	for i, arg := range args {
		if r, ok := arg.(*presized); ok {
			args[i] = r.first
		}
	}
	return args
}

// Find has a store find all claims and probes slow, as if somebody held a
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
// which something is, and the first that a worker has lost.
func Probe(ctx context.Context, s *Store, r store.ClaimRequest) (queues []string, lost string, err error) {
	f, err := s.probeOnce(ctx, s.newClaim(&r, 0))
	return slices.Sorted(maps.Keys(f.first)), f.lost, err
}

// ProbeWait is the time between two probes that take so long each, when the next
// lease ends so long after the first has begun.
func ProbeWait(took, lease, ends time.Duration) time.Duration {
	var k claims
	k.init()
	k.probe = &claim{ClaimRequest: &store.ClaimRequest{Lease: lease}}
	k.used = time.Now()
	wait, _ := k.probed(k.probe, found{ends: ends, begun: time.Now().Add(-took)}, 0)
	return wait
}

// Probes reports whether the last of claims that took so long, one after another, is
// followed by a probe, where a round trip takes trip. They find nothing, and nothing
// has called them if they are idle.
func Probes(idle bool, trip time.Duration, took ...time.Duration) (probes bool) {
	var k claims
	k.init()
	k.trip = trip
	for i, d := range took {
		c := &claim{ClaimRequest: new(store.ClaimRequest), took: d}
		if !idle {
			c.mark = uint64(i + 1)
		}
		probes = k.learn(c, time.Now())
	}
	return probes
}

// OthersHeldBack reports whether a store knows that others wait for room.
func OthersHeldBack(s *Store) bool { return s.news.othersHeldBack() }

// PauseInlineNews has a store tell of lone executions in statements of their own, as
// after one that took long.
func PauseInlineNews(s *Store) {
	s.news.mu.Lock()
	defer s.news.mu.Unlock()
	s.news.inline.next = time.Now().Add(pauseInline)
}

// InlineNewsIn is how long it is until a lone execution is told of in the statement
// that creates it.
func InlineNewsIn(s *Store) time.Duration {
	s.news.mu.Lock()
	defer s.news.mu.Unlock()
	return time.Until(s.news.inline.next)
}

// Qualified is the text that the store sends.
func Qualified(sql string) string { return qualified(sql) }

// Words are all words and operators of the SQL that this package has.
func Words() []string {
	all := make(map[string]bool)
	var add func(list []sqlToken)
	add = func(list []sqlToken) {
		for _, t := range list {
			switch t.kind {
			case wordToken:
				all[t.text] = true
			case operatorToken:
				all[strings.TrimSuffix(strings.TrimPrefix(t.text, "operator(pg_catalog."), ")")] = true
			}
			add(t.list)
		}
	}
	for _, text := range allSQL() {
		add(parseSQL(text))
	}
	return slices.Sorted(maps.Keys(all))
}

// allSQL is all that the package sends, but for what Go code holds: the words of
// that occur here too.
func allSQL() []string {
	q := newStatements(DefaultSchema)
	texts := []string{preamble(DefaultSchema, true)}
	list, err := migrations(DefaultSchema)
	if err != nil {
		panic(err)
	}
	for _, m := range list {
		texts = append(texts, m.SQL)
	}
	v := reflect.ValueOf(q).Elem()
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).Kind() == reflect.String && name != "schema" && name != "executionTable" {
			texts = append(texts, v.Field(i).String())
		}
	}
	for _, name := range []string{"executions", "chain_executions", "health", "health_tables", "health_xmin", "retain", "retain_begin", "retain_chains", "retain_jobs"} {
		texts = append(texts, q.filtered(name, ""))
	}
	return texts
}
