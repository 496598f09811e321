package pgstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/store"
)

// TestHoursAtScale counts the figures on a long history. It reads what was written in the hours
// that it counts, and the first page is read from a table that does not grow.
func TestHoursAtScale(t *testing.T) {
	if raced.On {
		return // what it looks at is the server's
	}
	u := pgtest.URL(t)
	s, sent := recorded(t, u)
	pool := dial(t, u)
	fill := func(rows int, from, until string) {
		t.Helper()
		exec(t, pool, `insert into courier.execution_history (execution_id, seq, at, execution_attempt, state_from, state_to, step, attempt, step_type, files)
			select gen_random_uuid(), 5, clock_timestamp() - $2::interval + n * ($2::interval - $3::interval) / $1, 1, 'running', case when n % 10 = 0 then 'failed' else 'completed' end, 0, 1, 'sftp.upload',
				'[{"path":"a","size":100,"connection":"sftp://bank"},{"path":"b","size":10,"connection":"sftp://bank","received":true}]'
			from generate_series(1, $1::int) n`, rows, from, until)
	}
	fill(100_000*(*scale), "40 days", "3 hours")
	exec(t, pool, "vacuum analyze courier.execution_history")
	fill(1000, "3 hours", "0 hours") // since the statistics
	count := func() time.Duration {
		t.Helper()
		began := time.Now()
		if err := s.CountHours(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
	first := count()
	for range store.KeptHours / 24 {
		count()
	}
	usual := count()
	n, plan := sent.pagesOf(t, pool, "figures/count_hours")
	t.Logf("the first call took %v, later ones %v and %d pages", first, usual, n)
	if n > 2500 || strings.Contains(plan, "Seq Scan on execution_history") {
		t.Errorf("it reads %d pages:\n%s", n, plan)
	}
	list, err := s.Hours(t.Context(), store.KeptHours)
	if err != nil || len(list) != store.KeptHours {
		t.Fatalf("%d hours, %v", len(list), err)
	}
	var completed, failed, in, out, rows int64
	for _, h := range list {
		completed, failed, in, out = completed+h.Completed, failed+h.Failed, in+h.BytesIn, out+h.BytesOut
	}
	rows = completed + failed
	if want := value[int64](t, pool, "select count(*) from courier.execution_history where at >= $1", list[0].Hour); rows != want || in != 10*rows || out != 100*rows {
		t.Errorf("%d ends, %d bytes in and %d out, of %d rows", rows, in, out, want)
	}
	if n, _ := sent.pagesOf(t, pool, "figures/list_hours"); n > 60*store.KeptHours/30 { // 30 minutes on a page of half its size
		t.Errorf("the hours are read from %d pages", n)
	}

	// What retention removes stays counted, and clocks that jump lose nothing.
	exec(t, pool, "begin; set local courier.retention = 'on'; delete from courier.execution_history; commit")
	count()
	again, err := s.Hours(t.Context(), store.KeptHours)
	if err != nil || len(again) < store.KeptHours-1 {
		t.Fatalf("%d hours, %v", len(again), err)
	}
	for i := range again {
		if again[i].Completed < list[i].Completed && again[i].Hour.Equal(list[i].Hour) {
			t.Errorf("of %d that completed at %v, %d are left", list[i].Completed, list[i].Hour, again[i].Completed)
		}
	}
	exec(t, pool, "update courier.minute_figures set counted_at = clock_timestamp() + interval '1 year', completed = 0 where minute < clock_timestamp() - interval '5 hours' and minute > clock_timestamp() - interval '7 hours'")
	fill(100, "6 hours", "6 hours")
	count()
	if n := value[int64](t, pool, "select sum(completed)::bigint from courier.minute_figures where minute < clock_timestamp() - interval '5 hours' and minute > clock_timestamp() - interval '7 hours'"); n != 90 {
		t.Errorf("%d of 90 are counted in an hour that was counted by a clock that was ahead", n)
	}
}
