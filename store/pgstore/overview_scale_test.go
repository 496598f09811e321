package pgstore_test

import (
	"flag"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/store"
)

var scale = flag.Int("scale", 1, "how many times 50,000 finished and 1,000 waiting executions, and 100,000 files, TestOverviewAtScale has")

// TestOverviewAtScale asks what operators ask of a store with many executions and files.
// It checks how many pages and statements that takes, and logs the time.
func TestOverviewAtScale(t *testing.T) {
	if raced.On {
		return // what it looks at is the server's
	}
	u := pgtest.URL(t)
	statements := 0
	r := &recorder{last: make(map[string]sent)}
	s := traced(t, u, nil, func(name, sql string, args []any) {
		r.note(name, sql, args)
		statements++
	})
	pool := dial(t, u)
	job := defined(t, s, pool, "j")
	for range *scale {
		exec(t, pool, `
			insert into courier.job_executions (id, created_at, definition_id, version, concurrency_limit, priority, queue, step_types, limit_keys,
				timeout_ns, created_by, due_at, state, state_since, attempt, ended_at, last_audit_seq, step)
			select gen_random_uuid(), now() - interval '1 hour', $1, 1, 0, n % 5, 'q' || n % 20, '{file.copy}', '{}', 0, '', now() - interval '1 hour',
				case when n <= 50000 then 'completed' else 'queued' end, now(), 1, case when n <= 50000 then now() end, 1, 0
			from generate_series(1, 51000) n`, job)
		exec(t, pool, `insert into courier.trail (key, value, execution_id, seq)
			select 'file', 'inv-' || (random() * 1000000000)::bigint || '.csv', gen_random_uuid(), 3 from generate_series(1, 100000)`)
	}
	// One queue has more than is counted, all due before the one that is explained.
	exec(t, pool, `
		insert into courier.job_executions (id, created_at, definition_id, version, concurrency_limit, priority, queue, step_types, limit_keys,
			timeout_ns, created_by, due_at, state, state_since, attempt, last_audit_seq, step)
		select gen_random_uuid(), now(), $1, 1, 0, 0, 'long', '{file.copy}', '{}', 0, '', now() - (6000 - n) * interval '1 second', 'queued', now(), 1, 1, 0
		from generate_series(1, 5000) n`, job)
	exec(t, pool, "vacuum analyze courier.job_executions, courier.trail")
	name := value[string](t, pool, "select value from courier.trail limit 1")
	waiting := value[string](t, pool, "select id::text from courier.job_executions where queue = 'long' order by due_at desc limit 1")
	e := engine.New(s, nil, nil)
	ask := func(what, statement string, most, pages int, f func() error) {
		t.Helper()
		var took []time.Duration
		for i := range 31 {
			statements = 0
			start := time.Now()
			if err := f(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			took = append(took, time.Since(start))
			if i > 0 && statements > most { // the first call learns the names of jobs
				t.Errorf("%s took %d statements, more than %d", what, statements, most)
			}
		}
		slices.Sort(took)
		n, plan := r.pagesOf(t, pool, statement)
		t.Logf("%s: %.2f ms (median of 31), %d statements, %d pages", what, float64(took[15].Microseconds())/1000, statements, n)
		if n > pages || strings.Contains(plan, "Seq Scan on job_executions") || strings.Contains(plan, "Seq Scan on trail") {
			t.Errorf("%s reads %d pages, more than %d:\n%s", what, n, pages, plan)
		}
	}
	ask("Stats", "overview/statistics", 3, 50, func() error {
		_, err := s.Stats(t.Context(), 0)
		return err
	})
	// What a scrape costs that finds nothing that was kept. Figures of workers are there later.
	var took []time.Duration
	const scrapes = 31
	statements = 0
	kept := e.Metrics()
	for n := range scrapes {
		m, start := engine.New(s, nil, nil).Metrics(), time.Now()
		if n == 0 {
			m = kept
		}
		for text := ""; !strings.Contains(text, "courier_stranded"); time.Sleep(time.Millisecond) {
			var b strings.Builder
			if err := m.Write(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			if text == "" {
				took = append(took, time.Since(start))
			}
			text = b.String()
			if !strings.Contains(text, `courier_queue_depth{courier_queue="long"} `) || !strings.Contains(text, `courier_database_rows{courier_database_table="job_executions"`) {
				t.Fatalf("the metrics lack figures:\n%s", text)
			}
		}
	}
	slices.Sort(took)
	t.Logf("the first scrape: %.2f ms (median of %d)", float64(took[scrapes/2].Microseconds())/1000, scrapes)
	if statements > 8*scrapes { // one of them counts the days whose files are not there
		t.Errorf("%d scrapes took %d statements", scrapes, statements)
	}
	ask("metrics", "overview/census", 0, 8*store.DefaultCountLimit, func() error { return kept.Write(t.Context(), io.Discard) })
	ask("Census", "overview/census", 1, 8*store.DefaultCountLimit, func() error {
		c, err := e.Executions().Census(t.Context(), 0)
		if err == nil && (len(c.Queues) != 21 || c.Queues[0].Queued != c.QueueCountLimit || c.Queues[1].Queued != min(50**scale, c.QueueCountLimit)) {
			t.Errorf("the census has %d queues, %d in the first", len(c.Queues), c.Queues[0].Queued)
		}
		return err
	})
	ask("Explain", "overview/circumstances", 3, 150, func() error {
		x, err := e.Executions().Explain(t.Context(), courier.ExecutionID(waiting))
		if err == nil && len(x.Because) == 0 {
			t.Errorf("nothing holds %s", waiting)
		}
		return err
	})
	ask("FindFiles by name", "trail/find", 2, 60, func() error {
		_, err := s.Find(t.Context(), store.TrailFilter{Key: store.TrailFile, Value: name})
		return err
	})
	ask("FindFiles by the beginning", "trail/find", 2, 200, func() error {
		_, err := s.Find(t.Context(), store.TrailFilter{Key: store.TrailFile, Value: name[:6], Prefix: true})
		return err
	})
	ask("FindFiles by a part", "trail/find_part", 2, 3000, func() error {
		_, err := s.Find(t.Context(), store.TrailFilter{Key: store.TrailFile, Value: name[5:9], Part: true})
		return err
	})
}
