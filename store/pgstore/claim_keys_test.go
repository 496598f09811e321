package pgstore_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/store"
)

// TestPlanOfKeys measures a claim where each execution has as many limit keys as it can
// have: 1,000 run, with keys of their own, 20,000 wait, and 1,000 keys and a pattern of
// keys have limits. In the first half any that waits may run, in the second half none. The
// claim has to be over long before those that wait for its lock give up, after 5 seconds.
func TestPlanOfKeys(t *testing.T) {
	if raced.On {
		return // what it looks at is the server's
	}
	u := pgtest.URL(t)
	s, sent := recorded(t, u)
	pool := dial(t, u)
	job := defined(t, s, pool, "j")
	exec(t, pool, "alter table courier.job_executions set (autovacuum_enabled = off)")
	work(t, s)
	past{job: job, state: "running", count: 1_000, created: 2 * time.Hour}.make(t, pool)
	past{job: job, state: "queued", count: 20_000, created: time.Hour}.make(t, pool)
	exec(t, pool, `update courier.job_executions e set limit_keys = array(
		select rpad('user:' || e.id || '/' || n, $1::int / $2::int, 'x') from generate_series(1, $2::int) n) where state in ('running', 'queued')`,
		flow.MaxLimitKeyBytes, flow.MaxLimitKeys)
	for i := range 1000 {
		if err := s.Set(t.Context(), store.LimitSetting("key:partner:"+strconv.Itoa(i)), "1"); err != nil {
			t.Fatal(err)
		}
	}
	for limit, want := range []int{1: 0, 2: 64} {
		if limit == 0 {
			continue
		}
		if err := s.Set(t.Context(), store.LimitSetting("key:user:*"), strconv.Itoa(limit)); err != nil {
			t.Fatal(err)
		}
		keys := "(select r.limit_keys from courier.job_executions r where r.state = 'running' limit 1)" // all wait for one
		if want > 0 {
			keys = "array(select e.id || key from unnest(e.limit_keys) as key)"
		}
		exec(t, pool, "update courier.job_executions e set limit_keys = "+keys+" where state = 'queued'")
		for _, statistics := range []string{"from before", "present"} {
			if statistics == "present" {
				exec(t, pool, "vacuum analyze courier.job_executions")
			}
			started := time.Now()
			got, err := s.Claim(t.Context(), store.ClaimRequest{Worker: "w", StepTypes: []string{"file.copy"}, Queues: []string{"default"}, Max: 64, Lease: time.Hour})
			took := time.Since(started)
			n, _ := sent.pagesOf(t, pool, "claim/queued_with_limits")
			t.Logf("limit %d, statistics %s: claimed %d in %v, %d pages", limit, statistics, len(got.List), took, n)
			if err != nil || len(got.List) != want || took > 2500*time.Millisecond {
				t.Errorf("limit %d, statistics %s: claimed %d in %v, %v; want %d in less than 2.5s", limit, statistics, len(got.List), took, err, want)
			}
		}
	}
}
