package pgstore_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// TestProbe shows that what claims pass over, as long as they begin behind the
// last claimed row, is found all the same, and that they begin at the start again
// when that takes no time.
func TestProbe(t *testing.T) {
	t.Parallel()
	for name, find := range map[string]func(t *testing.T, s *pgstore.Store, pool *pgxpool.Pool, r store.ClaimRequest){
		"what is more urgent": func(t *testing.T, s *pgstore.Store, pool *pgxpool.Pool, r store.ClaimRequest) {
			n := newExecution("j")
			n.Priority = 10
			enqueueOne(t, s, n)
			if got := claimSoon(t, s, r); got != n.ID {
				t.Errorf("claimed %q, want %s", got, n.ID)
			}
		},
		"what was due before": func(t *testing.T, s *pgstore.Store, pool *pgxpool.Pool, r store.ClaimRequest) {
			n, next := newExecution("j"), newExecution("j")
			enqueueOne(t, s, n)
			exec(t, pool, "update courier.job_executions set due_at = due_at - interval '1 hour' where id = $1", string(n.ID))
			enqueueOne(t, s, next)
			got := []courier.ExecutionID{claimSoon(t, s, r), claimSoon(t, s, r)}
			if !slices.Contains(got, n.ID) || !slices.Contains(got, next.ID) {
				t.Errorf("claimed %q, want %s and %s", got, n.ID, next.ID)
			}
		},
		"what a worker has lost": func(t *testing.T, s *pgstore.Store, pool *pgxpool.Pool, r store.ClaimRequest) {
			r.Lease = 200 * time.Millisecond
			n := newExecution("j")
			enqueueOne(t, s, n)
			if got := claimSoon(t, s, r); got != n.ID {
				t.Fatalf("claimed %q, want %s", got, n.ID)
			}
			started := time.Now()
			r.Lease = time.Minute
			if got := claimSoon(t, s, r); got != n.ID {
				t.Errorf("claimed %q, want %s", got, n.ID)
			}
			if took := time.Since(started); took > 2*time.Second {
				t.Errorf("taken over %v after a claim with a lease of 200ms", took)
			}
		},
		"that something is left": func(t *testing.T, s *pgstore.Store, pool *pgxpool.Pool, r store.ClaimRequest) {
			beside, err := pgstore.New(t.Context(), pool, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer beside.Close()
			n := newExecution("j")
			n.Queue = "other"
			enqueueOne(t, beside, n)
			lost := request("lost", 1)
			lost.Queues, lost.Lease = []string{n.Queue}, time.Millisecond
			if got := claimSoon(t, beside, lost); got != n.ID {
				t.Fatalf("claimed %q, want %s", got, n.ID)
			}
			time.Sleep(10 * lost.Lease)
			r.Worker = "not noted yet"
			if got, err := s.Claim(t.Context(), r); err != nil || !got.Unclaimed {
				t.Errorf("a worker of another queue was lost, and the claim says %v, %v", got.Unclaimed, err)
			}
		},
		"nothing": func(t *testing.T, s *pgstore.Store, pool *pgxpool.Pool, r store.ClaimRequest) {
			pgstore.Find(s, false)
			stopsProbing(t, s)
			n := newExecution("j")
			n.Priority = 10
			enqueueOne(t, s, n)
			if got := claimSoon(t, s, r); got != n.ID {
				t.Errorf("claimed %q, want %s", got, n.ID)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := pgtest.URL(t)
			s, sent := recorded(t, u)
			pool := dial(t, u)
			defined(t, s, pool, "j")
			if err := s.Set(t.Context(), store.LimitSetting(""), "0"); err != nil {
				t.Fatal(err)
			}
			pgstore.Find(s, true)
			r := request("w", 1)
			for range 5 {
				n := newExecution("j")
				enqueueOne(t, s, n)
				if got := claimSoon(t, s, r); got != n.ID {
					t.Fatalf("claimed %q, want %s", got, n.ID)
				}
			}
			if q := sent.of("claim/queued_fast"); !pgstore.Probing(s) || slices.Contains(q.args[8].([]string), "-infinity") {
				t.Fatalf("claims that are slow still begin at the start: %v", q.args)
			}
			find(t, s, pool, r)
		})
	}
}

// TestNoProbe shows that a server that is far away is not taken for one with dead
// rows.
func TestNoProbe(t *testing.T) {
	t.Parallel()
	p, url := through(t, pgtest.URL(t))
	s := unlimited(t, url)
	sniff(p).answerLate(20 * time.Millisecond)
	for range 12 {
		enqueueOne(t, s, newExecution("j"))
		claimSoon(t, s, request("w", 1))
	}
	stopsProbing(t, s)
}

// TestSlowClaims checks which claims are followed by a probe: those that take
// longer than what a round trip does, again and again or very much.
func TestSlowClaims(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, c := range []struct {
		idle bool // nothing had called them, and they found nothing
		trip time.Duration
		took []time.Duration
		want bool
	}{
		{false, 0, []time.Duration{10 * ms, 10 * ms}, false},
		{false, 0, []time.Duration{10 * ms, 10 * ms, 10 * ms}, true},
		{false, 0, []time.Duration{10 * ms, 10 * ms, 5 * ms, 10 * ms, 10 * ms}, false},
		{false, 0, []time.Duration{400 * ms}, true},
		{false, 20 * ms, []time.Duration{25 * ms, 25 * ms, 25 * ms}, false},
		{false, 20 * ms, []time.Duration{27 * ms, 27 * ms, 27 * ms}, true},
		{false, 20 * ms, []time.Duration{310 * ms, 310 * ms}, false},
		{false, 20 * ms, []time.Duration{330 * ms}, true},
		{false, 20 * ms, []time.Duration{ms, 10 * ms, 10 * ms, 10 * ms}, true}, // a round trip takes no more than a claim
		{true, 0, []time.Duration{200 * ms, 200 * ms, 200 * ms}, false},
		{true, 0, []time.Duration{400 * ms, 400 * ms}, false},
		{true, 0, []time.Duration{400 * ms, 400 * ms, 400 * ms}, true},
	} {
		if got := pgstore.Probes(c.idle, c.trip, c.took...); got != c.want {
			t.Errorf("claims of %v (idle: %t) with a round trip of %v are followed by a probe: %t, want %t", c.took, c.idle, c.trip, got, c.want)
		}
	}
}

// TestWalks checks when claims begin behind the last claimed row since their walks take
// too much of the time, long before one of them is slow, and when they no longer do.
func TestWalks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const us, ms = time.Microsecond, time.Millisecond
		for _, c := range []struct {
			gap, walk time.Duration
			want      bool
		}{
			{5 * ms, 20 * us, false},
			{5 * ms, 400 * us, false},
			{5 * ms, 700 * us, true},
			{50 * ms, 3 * ms, false},
			{time.Hour, 5 * ms, false},
		} {
			if begins, goesOn := pgstore.Walks(200, c.gap, c.walk); begins != c.want || goesOn != c.want {
				t.Errorf("walks of %v every %v are followed by a probe: %t, and by another while they last: %t; want %t", c.walk, c.gap, begins, goesOn, c.want)
			}
		}
		if begins, _ := pgstore.Walks(2, 5*ms, ms); begins {
			t.Error("one claim with a long walk is followed by a probe")
		}
	})
}

// TestDeadEntries shows that claims don't walk for long over executions that are no longer
// queued, where nothing has been vacuumed, and find what is more urgent all the same.
func TestDeadEntries(t *testing.T) {
	t.Parallel()
	const dead, together = 20_000, 1000
	u := pgtest.URL(t)
	s := unlimited(t, u)
	pgstore.Find(s, false) // no claim is slow by itself
	pool := dial(t, u)
	exec(t, pool, "alter table courier.job_executions set (autovacuum_enabled = off)")
	for range dead / together {
		list := make([]store.NewExecution, together)
		for i := range list {
			list[i] = newExecution("j")
		}
		if _, err := s.Enqueue(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	exec(t, pool, "begin; set local courier.retention = 'on'; delete from courier.job_executions; commit")
	for started := time.Now(); !pgstore.Probing(s); {
		if time.Since(started) > time.Minute {
			t.Fatal("claims walk over all that was queued before")
		}
		n := newExecution("j")
		enqueueOne(t, s, n)
		if got := claimSoon(t, s, request("w", 1)); got != n.ID {
			t.Fatalf("claimed %q, want %s", got, n.ID)
		}
	}
	n := newExecution("j")
	n.Priority = 10
	enqueueOne(t, s, n)
	if got := claimSoon(t, s, request("w", 1)); got != n.ID {
		t.Errorf("claimed %q, want the one that is more urgent, %s", got, n.ID)
	}
	exec(t, pool, "vacuum courier.job_executions")
	stopsProbing(t, s)
}

// unlimited opens a store without limits and with a job named "j".
func unlimited(t testing.TB, url string) *pgstore.Store {
	t.Helper()
	s := open(t, url, nil)
	define(t, s, "j")
	if err := s.Set(t.Context(), store.LimitSetting(""), "0"); err != nil {
		t.Fatal(err)
	}
	return s
}

// stopsProbing waits until claims begin at the start. On a busy machine that takes
// several probes, which are rare: a slow one is followed by a wait of twenty times its
// duration, and the first on each connection prepares its statement.
func stopsProbing(t *testing.T, s *pgstore.Store) {
	t.Helper()
	for started := time.Now(); pgstore.Probing(s); time.Sleep(time.Millisecond) {
		if time.Since(started) > time.Minute {
			t.Fatal("claims that are quick still begin behind the last claimed row")
		}
	}
}

// TestIdleClaims shows that a claim that something had called, but that finds
// nothing, asks for no lock, whatever the limits.
func TestIdleClaims(t *testing.T) {
	t.Parallel()
	s, sent := recorded(t, pgtest.URL(t))
	for range 2 {
		if _, err := s.Claim(t.Context(), request("w", 1)); err != nil {
			t.Fatal(err)
		}
		if err := s.Set(t.Context(), store.LimitSetting("key:k"), "3"); err != nil { // which rings
			t.Fatal(err)
		}
	}
	if _, err := s.Claim(t.Context(), request("w", 1)); err != nil {
		t.Fatal(err)
	}
	if sent.of("claim/queued_fast").sql == "" {
		t.Error("nothing had called")
	}
	if sent.of("claim/queued_with_limits").sql != "" {
		t.Error("a claim that found nothing has looked for it under the lock too")
	}
}

// TestKnownRunning shows that a probe that does not walk over all that has run finds the
// executions that are lost: those that it has found running before, and those that others have
// claimed since.
func TestKnownRunning(t *testing.T) {
	t.Parallel()
	u := pgtest.URL(t)
	s, other := unlimited(t, u), open(t, u, nil)
	pgstore.Find(s, true)
	pool := dial(t, u)
	claimed := func(lease time.Duration) string {
		n := newExecution("j")
		enqueueOne(t, other, n)
		r := request("other", 1)
		r.Lease = lease
		if got := claimSoon(t, other, r); got != n.ID {
			t.Fatalf("claimed %q, want %s", got, n.ID)
		}
		return string(n.ID)
	}
	lose := func(id string) {
		exec(t, pool, "update courier.job_executions set lease_expires_at = clock_timestamp() where id = $1", id)
	}
	probe := pgstore.Prober(s, request("w", 1))
	expect := func(what string, whole bool, want ...string) {
		t.Helper()
		lost, all, err := probe(t.Context())
		slices.Sort(want)
		if slices.Sort(lost); err != nil || all != whole || !slices.Equal(lost, want) {
			t.Fatalf("%s: a probe finds %q, walks over all: %t, %v; want %q, %t", what, lost, all, err, want, whole)
		}
	}
	before, quiet := claimed(time.Hour), claimed(time.Hour)
	// As if it was long ago.
	exec(t, pool, "update courier.job_executions set state_since = state_since - interval '1 hour' where id = any($1)", []string{before, quiet})
	expect("the first", true)
	since := claimed(time.Hour)
	expect("nothing is lost", false)
	lose(before)
	expect("what ran before", false, before)
	lose(since)
	expect("what was claimed since", false, before, since)
	exec(t, pool, "update courier.job_executions set state = 'completed', lease_expires_at = null where id = $1", before)
	expect("what has ended", false, since)
	// A claim that no probe in between can know of: its clock is late.
	late := claimed(time.Hour)
	exec(t, pool, "update courier.job_executions set state_since = state_since - interval '1 hour' where id = $1", late)
	lose(late)
	expect("a late clock", false, since)
	list, err := s.Workers(t.Context(), time.Nanosecond)
	if err != nil || len(list) != 1 || list[0].Name != "other" {
		t.Errorf("the worker of what still runs is not present: %v, %v", list, err)
	}
	probe = pgstore.Prober(s, request("w", 1))
	expect("a late clock, and a walk over all", true, since, late)
	stranded, err := s.Stranded(t.Context(), time.Nanosecond)
	if err != nil || len(stranded) != 0 { // the worker is there
		t.Errorf("stranded: %v, %v", stranded, err)
	}
}

// TestWalksWhole checks how often a probe walks over all running executions.
func TestWalksWhole(t *testing.T) {
	const lease = 15 * time.Second
	for _, c := range []struct {
		took, after time.Duration
		want        bool
	}{
		{5 * time.Millisecond, 100 * time.Millisecond, false},
		{5 * time.Millisecond, 200 * time.Millisecond, true},
		{time.Second, 39 * time.Second, false},
		{time.Second, 40 * time.Second, true},
		{time.Minute, 299 * time.Second, false},
		{time.Minute, 300 * time.Second, true},
	} {
		if got := pgstore.WalksWhole(c.took, lease, c.after); got != c.want {
			t.Errorf("%v after a walk of %v: %t, want %t", c.after, c.took, got, c.want)
		}
	}
}

// TestProbeWait checks when the next probe begins: rarely, but in time for a
// lease that ends.
func TestProbeWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lease = 15 * time.Second
		for _, c := range []struct{ took, ends, want time.Duration }{
			{10 * time.Millisecond, 14 * time.Second, 200 * time.Millisecond},
			{500 * time.Millisecond, 14 * time.Second, 9500 * time.Millisecond},
			{500 * time.Millisecond, 5 * time.Second, 4500 * time.Millisecond},
			{500 * time.Millisecond, 100 * time.Millisecond, 125 * time.Millisecond},
			{3 * time.Second, 0, 12 * time.Second},
			{3 * time.Second, 5 * time.Second, 2 * time.Second},
			{time.Minute, 0, 4 * time.Minute},
		} {
			if got := pgstore.ProbeWait(c.took, lease, c.ends); got != c.want {
				t.Errorf("%v after a probe of %v with a lease that ends in %v, want %v", got, c.took, c.ends, c.want)
			}
		}
	})
}

// claimSoon claims one execution as an engine does: when the bell rings, or when
// the last claim has said.
func claimSoon(t *testing.T, s *pgstore.Store, r store.ClaimRequest) courier.ExecutionID {
	t.Helper()
	for started := time.Now(); time.Since(started) < 10*time.Second; {
		got, err := s.Claim(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.List) > 0 {
			return got.List[0].Execution.ID
		}
		wait := 5 * time.Second
		if got.Next > 0 {
			wait = min(wait, got.Next)
		}
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		if err := s.Await(ctx, r.Queues, got.Mark); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		cancel()
	}
	return ""
}
