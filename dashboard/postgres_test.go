package dashboard_test

import (
	"context"
	"flag"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/pgstoretest"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store/pgstore"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var scale = flag.Int("scale", 1, "how many times 20,000 completed and 2,000 failed executions the large history of TestAttentionOnPostgres has")

// A statementLog has the statements that the pool of a store sends. A pool also asks whether
// a connection still works that was not used for a while; that is left out.
type statementLog struct {
	mu   sync.Mutex
	list []string
}

func (l *statementLog) add(sql string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !strings.HasPrefix(sql, "-- ping") {
		l.list = append(l.list, sql[:min(len(sql), 60)])
	}
}

// take returns the statements since it was called last.
func (l *statementLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.list
	l.list = nil
	return list
}

func (l *statementLog) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	l.add(q.SQL)
	return ctx
}

func (l *statementLog) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (l *statementLog) TraceBatchStart(ctx context.Context, _ *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	for _, q := range b.Batch.QueuedQueries {
		l.add(q.SQL)
	}
	return ctx
}

func (l *statementLog) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (l *statementLog) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// openPostgres returns a store on a database, whose statements are logged.
func openPostgres(t *testing.T, url string) (*pgstore.Store, *pgxpool.Pool, *statementLog) {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	statements := new(statementLog)
	config.ConnConfig.Tracer = statements
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pgstoretest.On(t, pool, &pgstore.Options{PollOnly: true}), pool, statements
}

// TestAttentionOnPostgres counts the statements of the first page: those of a process that has
// read nothing yet, and of a later request. They are the same few with a large history, for
// those who see everything and for those who see one job.
func TestAttentionOnPostgres(t *testing.T) {
	url := pgtest.URL(t)
	s, pool, _ := openPostgres(t, url)
	var reg courier.Registry
	courier.RegisterFunc(&reg, "test.work", work, nil)
	e := engine.New(s, &reg, &engine.Options{Workspace: t.TempDir()})
	for _, j := range jobs() {
		if j.Name == "flaky" {
			continue
		}
		if _, err := e.Jobs().Define(t.Context(), j, nil); err != nil {
			t.Fatal(err)
		}
	}
	measured := make(map[string][]int) // by visitor: how many statements with each history
	for _, history := range []struct {
		name, executions string
		schedules        int
		vera             string // on the page of the one who sees the job report
	}{
		{"no history", "", 0, "Nothing needs your attention."},
		{"a small history", `('other', 'completed', 20), ('other', 'failed', 3), ('other', 'queued', 2)`, 2, "Nothing needs your attention."},
		// The failures of the job report are older than the thousand that are looked at.
		{"a large history", `('report', 'failed', 1000 * $1), ('other', 'failed', 1000 * $1), ('other', 'completed', 20000 * $1), ('other', 'queued', 3000), ('hidden', 'running', 200)`, 1100, "Nothing of what was checked needs your attention."},
	} {
		t.Run(history.name, func(t *testing.T) {
			if history.executions != "" {
				fill(t, pool, history.executions)
			}
			for i := range history.schedules {
				name := "s" + string(rune('a'+i%26)) + strings.Repeat("x", i/26)
				if _, err := e.Schedules().Set(t.Context(), schedule.Schedule{Name: name, Job: "other", Every: time.Hour}, courier.By{}); err != nil {
					t.Fatal(err)
				}
			}
			for _, visitor := range []string{"admin", "vera"} {
				s, _, statements := openPostgres(t, url)
				pages := dashboard.New(engine.New(s, nil, nil), &dashboard.Options{Access: policy()})
				defer pages.Close()
				get := func() (string, []string, time.Duration) {
					r := httptest.NewRequest("GET", "/", nil)
					r.Header.Set("X-User", visitor)
					w := httptest.NewRecorder()
					statements.take()
					began := time.Now()
					pages.ServeHTTP(w, r)
					took := time.Since(began)
					if w.Code != http.StatusOK {
						t.Fatalf("%s: %d %s", visitor, w.Code, w.Body)
					}
					return w.Body.String(), statements.take(), took
				}
				_, first, _ := get()
				var page string
				var later []string
				took := make([]time.Duration, 11)
				for i := range took {
					page, later, took[i] = get()
				}
				slices.Sort(took)
				t.Logf("%s: %d statements at first, then %d in %v", visitor, len(first), len(later), took[len(took)/2])
				most := 13
				if visitor == "admin" {
					most += 3 // what is acknowledged, the figures by hour and the workers
				}
				for _, list := range [][]string{first, later} {
					if len(list) > most || len(list) < 3 {
						t.Errorf("%s: %d statements:\n%s", visitor, len(list), strings.Join(list, "\n"))
					}
				}
				measured[visitor] = append(measured[visitor], len(later))
				if visitor == "admin" && history.executions != "" && (!strings.Contains(page, " failed at step 0") || !strings.Contains(page, "No worker can take ") || !strings.Contains(page, "is due but does not start")) {
					t.Errorf("the page has neither failures nor a queue:\n%s", page)
				}
				if visitor == "vera" && !strings.Contains(page, history.vera) {
					t.Errorf("the page of %s does not have %q:\n%s", visitor, history.vera, page)
				}
			}
		})
	}
	for visitor, counts := range measured {
		if counts[len(counts)-1] != counts[1] {
			t.Errorf("%s: with the histories the page takes %v statements", visitor, counts)
		}
	}
}

// fill adds executions of an hour ago: rows of a job, a state and a number, in which $1 is the
// scale. Those of a later row are younger.
func fill(t *testing.T, pool *pgxpool.Pool, rows string) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `
		with x as (
			select w.ord, n, d.id as job, w.state, gen_random_uuid() as token,
				clock_timestamp() - interval '1 hour' + w.ord * interval '1 minute' + n * interval '1 microsecond' as at
			from (select row_number() over () as ord, v.* from (values `+rows+`) as v (job, state, count)) w
			join courier.job_definitions d on d.name = w.job cross join lateral generate_series(1, w.count + 0 * $1::int) n
		)
		insert into courier.job_executions (id, created_at, definition_id, version, concurrency_limit, priority, queue, step_types, limit_keys,
			timeout_ns, created_by, due_at, state, state_since, attempt, ended_at, last_audit_seq, step, lease_expires_at, lease_token, failure)
		select (lpad(to_hex((extract(epoch from x.at) * 1000)::bigint), 12, '0') || '7' || substr(md5(x.ord || '-' || x.n || random()::text), 1, 19))::uuid, x.at, x.job, 1, 0, 0,
			'q' || x.n % 30, '{test.work}', '{}', 0, '', x.at, x.state, x.at, 1, case when x.state in ('failed', 'completed') then x.at end, 1, 0,
			case when x.state = 'running' then x.at end, case when x.state = 'running' then x.token end,
			case when x.state = 'failed' then '{"step":0,"reason":"error","message":"no"}'::json end
		from x`, *scale)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "vacuum analyze courier.job_executions"); err != nil {
		t.Fatal(err)
	}
	// The first page asks why an execution does not begin only if a worker serves its queue.
	_, err = pool.Exec(t.Context(), `insert into courier.workers (name, workspace, queues, step_types, slots, version, seen_at, draining)
		values ('served', '', '{q1}', '{test.work}', 64, '', now(), false) on conflict (name) do update set seen_at = now()`)
	if err != nil {
		t.Fatal(err)
	}
}
