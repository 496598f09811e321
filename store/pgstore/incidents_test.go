package pgstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/store"
)

// TestIncidentsPlan looks at incidents of a long history: failed executions before and
// among many completed ones, deadlines that have passed. What it reads is bounded, whether
// or not the server has statistics.
func TestIncidentsPlan(t *testing.T) {
	if raced.On {
		return // what it looks at is the server's
	}
	u := pgtest.URL(t)
	s, sent := recorded(t, u)
	pool := dial(t, u)
	job := defined(t, s, pool, "j")
	past{job: job, state: "failed", count: 3000, created: 9 * time.Hour, ended: 8 * time.Hour}.make(t, pool)
	ended := past{job: job, state: "completed", count: 50_000, created: 8 * time.Hour, ended: time.Hour}.make(t, pool)
	past{job: job, state: "failed", count: 10, created: time.Hour, ended: time.Hour}.make(t, pool)
	past{job: job, state: "completed", count: 10, created: time.Minute, ended: time.Second}.make(t, pool)
	past{job: job, state: "running", count: 100, created: time.Minute}.make(t, pool)
	exec(t, pool, "update courier.job_executions set failure = '{\"step\":0,\"reason\":\"error\",\"message\":\"boom\"}', options = '{\"labels\":{\"key\":\"a\"}}' where state = 'failed'")
	exec(t, pool, "insert into courier.execution_deadlines (due_at, execution_id, reason, passed_at) select now() + interval '1 hour', id::uuid, 'max_duration', now() from unnest($1::text[]) id", ended)
	for _, statistics := range []string{"none", "present"} {
		if statistics == "present" {
			exec(t, pool, "vacuum analyze")
		}
		began := time.Now()
		in, err := s.Incidents(t.Context(), 0)
		took := time.Since(began)
		if err != nil || len(in.List) != store.DefaultCountLimit || in.List[9].SupersededBy == "" || in.List[10].SupersededBy == "" || in.List[0].Failure.Message != "boom" {
			t.Fatalf("%d incidents, %v", len(in.List), err)
		}
		n, plan := sent.pagesOf(t, pool, "overview/incidents")
		t.Logf("statistics %s: %d pages in %v", statistics, n, took)
		// A thousand failed ones, and as many of the job; the deadlines of 3,000 that have ended.
		if most := 4 * (store.DefaultCountLimit + store.MaxSupersedingExamined + 3*store.DefaultCountLimit); n > most || strings.Contains(plan, "Seq Scan on job_executions") {
			t.Errorf("statistics %s: it reads %d pages, %d at most:\n%s", statistics, n, most, plan)
		}
	}
}
