package pgstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
	"github.com/courierhq/courier/store/storetest"
)

// defined returns the number by which the tables know a job, which it defines if
// it is not there.
func defined(t testing.TB, s *pgstore.Store, pool *pgxpool.Pool, job string) int32 {
	t.Helper()
	if _, err := s.Save(t.Context(), store.Definition{Kind: store.Job, Name: job, Body: json.RawMessage(`{}`)}); err != nil {
		t.Fatal(err)
	}
	return value[int32](t, pool, "select id from courier.job_definitions where kind = 'job' and name = $1", job)
}

// A past is a number of executions of the past, each with one step.
type past struct {
	job     int32
	state   string
	count   int
	created time.Duration // ago; the next of them a millisecond later
	ended   time.Duration // ago; 0: not yet
	entries int           // in the audit; 0 means 3
}

// make makes the executions, and returns their ids.
func (p past) make(t testing.TB, pool *pgxpool.Pool) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), `
		with n as (
			select n, clock_timestamp() - $4::bigint * interval '1 microsecond' + n * interval '1 millisecond' as at
			from generate_series(1, $3::int) n
		), x as (
			insert into courier.job_executions (id, created_at, definition_id, version, concurrency_limit, priority, queue, step_types, limit_keys,
				timeout_ns, created_by, due_at, state, state_since, attempt, ended_at, last_audit_seq, step, lease_expires_at, lease_token)
			select (lpad(to_hex((extract(epoch from n.at) * 1000)::bigint), 12, '0') || '7' || substr(md5(random()::text), 1, 19))::uuid,
				n.at, $1, 1, 0, 0, 'default', '{file.copy}', '{}', 0, '', n.at, $2, n.at, 1,
				case when $5::bigint > 0 then clock_timestamp() - $5 * interval '1 microsecond' end, $6, 1,
				case when $2 = 'running' then clock_timestamp() + interval '1 hour' end, case when $2 = 'running' then gen_random_uuid() end
			from n returning id, created_at
		), s as (
			insert into courier.execution_history (execution_id, seq, started_at, at, bytes, execution_attempt, step, attempt, state, step_type, worker, claimed_at, claim_waited_us, began, state_to)
			select x.id, 3, x.created_at, x.created_at, null::bigint, 1, 0, 1, null::text, 'file.copy', 'w', x.created_at, 0, false, case when $6 <= 3 then $2 end from x
			union all select x.id, $6, null, x.created_at, null, 1, null, null, null, null, 'w', null, null, null, $2 from x where $6 > 3
		)
		select x.id::text from x order by x.id`,
		p.job, p.state, p.count, p.created.Microseconds(), p.ended.Microseconds(), max(p.entries, 3))
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// left returns the ids of all executions that are there, and fails the test if
// something of any other is left.
func left(t testing.TB, pool *pgxpool.Pool) []string {
	t.Helper()
	for _, table := range []string{"execution_history"} {
		if n := value[int](t, pool, "select count(*) from courier."+table+" where execution_id not in (select id from courier.job_executions)"); n != 0 {
			t.Errorf("%d rows of executions that are gone are left in %s", n, table)
		}
	}
	rows, err := pool.Query(t.Context(), "select id::text from courier.job_executions order by id")
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestRetain(t *testing.T) {
	const hour = time.Hour
	type group struct {
		job  string
		past past
	}
	of := func(job, state string, count int, created, ended time.Duration) group {
		return group{job, past{state: state, count: count, created: created, ended: ended}}
	}
	all := []group{
		of("a", "completed", 3, 9*hour, 8*hour),
		of("a", "cancelled", 2, 7*hour, 6*hour),
		of("a", "failed", 2, 6*hour, 5*hour),
		of("a", "completed", 2, 5*hour, hour/2), // took long
		of("a", "completed", 2, 2*hour, hour),
		of("a", "queued", 1, 9*hour, 0),
		of("a", "running", 1, 9*hour, 0),
		of("a", "paused", 1, 9*hour, 0),
		of("a", "created", 1, 9*hour, 0),
		of("b", "completed", 4, 9*hour, 8*hour),
		of("b", "failed", 1, 4*hour, 3*hour),
	}
	for name, tt := range map[string]struct {
		r    pgstore.Retention
		left []int // of each group; what is missing is 0
	}{
		"off":               {pgstore.Retention{}, []int{3, 2, 2, 2, 2, 1, 1, 1, 1, 4, 1}},
		"failed only":       {pgstore.Retention{Failed: true}, []int{3, 2, 2, 2, 2, 1, 1, 1, 1, 4, 1}},
		"off by job":        {pgstore.Retention{Jobs: map[string]pgstore.Retention{"a": {}, "b": {}}}, []int{3, 2, 2, 2, 2, 1, 1, 1, 1, 4, 1}},
		"age":               {pgstore.Retention{MaxAge: 2 * hour}, []int{0, 0, 2, 2, 2, 1, 1, 1, 1, 0, 1}},
		"age of most":       {pgstore.Retention{MaxAge: 7 * hour}, []int{0, 2, 2, 2, 2, 1, 1, 1, 1, 0, 1}},
		"age with failed":   {pgstore.Retention{MaxAge: 2 * hour, Failed: true}, []int{0, 0, 0, 2, 2, 1, 1, 1, 1, 0, 0}},
		"great age":         {pgstore.Retention{MaxAge: 1<<63 - 1}, []int{3, 2, 2, 2, 2, 1, 1, 1, 1, 4, 1}},
		"no age":            {pgstore.Retention{MaxAge: time.Microsecond}, []int{0, 0, 2, 0, 0, 1, 1, 1, 1, 0, 1}},
		"count":             {pgstore.Retention{MaxCount: 3}, []int{0, 0, 2, 1, 2, 1, 1, 1, 1, 3, 1}},
		"count with failed": {pgstore.Retention{MaxCount: 5, Failed: true}, []int{0, 0, 1, 2, 2, 1, 1, 1, 1, 4, 1}},
		"count of none":     {pgstore.Retention{MaxCount: 9}, []int{3, 2, 2, 2, 2, 1, 1, 1, 1, 4, 1}},
		"either":            {pgstore.Retention{MaxCount: 3, MaxAge: hour * 3 / 4}, []int{0, 0, 2, 1, 0, 1, 1, 1, 1, 0, 1}},
		"one job":           {pgstore.Retention{Jobs: map[string]pgstore.Retention{"b": {MaxAge: hour, Failed: true}, "unknown": {MaxCount: 1}}}, []int{3, 2, 2, 2, 2, 1, 1, 1, 1}},
		"all but one":       {pgstore.Retention{MaxCount: 1, Jobs: map[string]pgstore.Retention{"a": {}}}, []int{3, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1}},
		"two rules":         {pgstore.Retention{MaxCount: 1, Jobs: map[string]pgstore.Retention{"a": {MaxAge: 2 * hour}}}, []int{0, 0, 2, 2, 2, 1, 1, 1, 1, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := pgtest.URL(t)
			s, pool := open(t, u, nil), dial(t, u)
			var want []string
			total := 0
			for i, g := range all {
				g.past.job = defined(t, s, pool, g.job)
				made := g.past.make(t, pool)
				total += len(made)
				if i < len(tt.left) {
					want = append(want, made[len(made)-tt.left[i]:]...)
				}
			}
			slices.Sort(want)
			n, err := s.Retain(t.Context(), tt.r)
			if got := left(t, pool); err != nil || int(n) != total-len(want) || !slices.Equal(got, want) {
				t.Errorf("removed %d, %v, and left\n%q\nwant\n%q", n, err, got, want)
			}
			if n, err := s.Retain(t.Context(), tt.r); err != nil || n != 0 {
				t.Errorf("the second time it removed %d, %v", n, err)
			}
			if n := value[int](t, pool, "select count(*) from courier.step_executions"); n != len(want) {
				t.Errorf("%d records are left of %d executions", n, len(want))
			}
			if n := value[int](t, pool, "select count(*) from courier.job_audit_log"); n != 3*len(want) {
				t.Errorf("%d audit entries are left of %d executions, want 3 of each", n, len(want))
			}
		})
	}
}

// TestRetainKeepsOnlyCopies has executions that hold files which may exist nowhere else, or of
// which that is not known, and others.
func TestRetainKeepsOnlyCopies(t *testing.T) {
	u := pgtest.URL(t)
	s, pool := open(t, u, nil), dial(t, u)
	job := defined(t, s, pool, "a")
	var want []string
	for _, e := range []struct {
		state, workspace string
		copies           any // JSON; nil if they are not known
		stays            bool
	}{
		{"completed", "disk", nil, false}, {"completed", "disk", "{}", false}, {"completed", "disk", `{"count":1}`, true},
		{"cancelled", "disk", "{}", false}, {"cancelled", "disk", `{"problem":"so"}`, true},
		{"failed", "", nil, false}, {"failed", "disk", "{}", false}, {"failed", "disk", nil, true}, {"failed", "disk", `{"count":1}`, true},
	} {
		id := past{job: job, state: e.state, count: 1, created: 9 * time.Hour, ended: 8 * time.Hour}.make(t, pool)[0]
		if _, err := pool.Exec(t.Context(), "update courier.job_executions set workspace = $2, only_copies = $3 where id = $1::text::uuid", id, e.workspace, e.copies); err != nil {
			t.Fatal(err)
		}
		if e.stays {
			want = append(want, id)
		}
	}
	slices.Sort(want)
	for _, r := range []pgstore.Retention{{MaxAge: time.Hour, Failed: true}, {MaxCount: 1, Failed: true}} {
		_, err := s.Retain(t.Context(), r)
		if got := left(t, pool); err != nil || !slices.Equal(got, want) {
			t.Errorf("%+v: %q are left, want %q, %v", r, got, want, err)
		}
	}
}

func TestRetainRefusesBadRules(t *testing.T) {
	s := open(t, pgtest.URL(t), nil)
	for _, r := range []pgstore.Retention{
		{MaxAge: -1}, {MaxCount: -1},
		{Jobs: map[string]pgstore.Retention{"a": {MaxAge: -time.Hour}}},
		{Jobs: map[string]pgstore.Retention{"a": {MaxCount: 1, Jobs: map[string]pgstore.Retention{"b": {}}}}},
	} {
		if n, err := s.Retain(t.Context(), r); n != 0 || !errors.Is(err, courier.ErrInvalid) {
			t.Errorf("%+v: %d, %v; want ErrInvalid", r, n, err)
		}
	}
	s.Close()
	if _, err := s.Retain(t.Context(), pgstore.Retention{}); err == nil {
		t.Error("a closed store removes")
	}
}

// A statementCount counts the statements that a store sends, by their names.
type statementCount struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *statementCount) note(name, _ string, _ []any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[name]++
}

func TestRetainInBatches(t *testing.T) {
	u := pgtest.URL(t)
	admin := dial(t, u)
	counted := &statementCount{counts: make(map[string]int)}
	open(t, u, nil)
	pool := dialWith(t, u, func(c *pgx.ConnConfig) { c.Tracer = tracer(counted.note) })
	s, err := pgstore.New(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	job := defined(t, s, admin, "j")
	old := pgstore.Retention{MaxAge: time.Minute}
	for _, tt := range []struct {
		count, entries, batches int
	}{
		{2500, 3, 4},   // 1000, 1000, 500, 0
		{10, 5000, 4},  // 4, 4, 2, 0
		{3, 30_000, 4}, // 1, 1, 1, 0
		{0, 0, 0},
	} {
		past{job: job, state: "completed", count: tt.count, created: time.Hour, ended: time.Hour, entries: tt.entries}.make(t, admin)
		clear(counted.counts)
		n, err := s.Retain(t.Context(), old)
		if err != nil || int(n) != tt.count || len(left(t, admin)) != 0 {
			t.Errorf("%+v: removed %d, %v", tt, n, err)
		}
		if got := counted.counts["retention/remove_executions"]; got != tt.batches || counted.counts["retention/find_jobs"] != 1 {
			t.Errorf("%+v: %v statements, want %d that remove and 1 that looks", tt, counted.counts, tt.batches)
		}
	}
}

// TestRetainSkipsLockedRows locks a row in another transaction.
func TestRetainSkipsLockedRows(t *testing.T) {
	u := pgtest.URL(t)
	s, pool := open(t, u, nil), dial(t, u)
	made := past{job: defined(t, s, pool, "j"), state: "failed", count: 5, created: time.Hour, ended: time.Hour}.make(t, pool)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "select id from courier.job_executions where id = $1::text::uuid for update", made[2]); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	old := pgstore.Retention{MaxAge: time.Minute, Failed: true}
	if n, err := s.Retain(ctx, old); err != nil || n != 4 {
		t.Errorf("removed %d, %v; want the 4 that nobody is changing", n, err)
	}
	if got := left(t, pool); !slices.Equal(got, made[2:3]) {
		t.Errorf("left: %v, want %s", got, made[2])
	}
	if _, err := tx.Exec(t.Context(), "update courier.job_executions set state = 'queued', ended_at = null where id = $1::text::uuid", made[2]); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Retain(ctx, old); err != nil || n != 0 {
		t.Errorf("removed %d, %v; want none: it was resumed", n, err)
	}
}

// TestRetainByTheDatabasesClock has executions of clients whose clocks are wrong
// by a day.
func TestRetainByTheDatabasesClock(t *testing.T) {
	u := pgtest.URL(t)
	s, pool := open(t, u, nil), dial(t, u)
	job := defined(t, s, pool, "j")
	const day = 24 * time.Hour
	past{job: job, state: "completed", count: 1, created: 2 * day, ended: 2 * time.Hour}.make(t, pool)
	past{job: job, state: "completed", count: 2, created: day, ended: 10 * time.Minute}.make(t, pool) // of a clock that is behind
	ahead := past{job: job, state: "completed", count: 2, created: -day, ended: 2 * time.Hour}.make(t, pool)
	if n, err := s.Retain(t.Context(), pgstore.Retention{MaxAge: time.Hour}); err != nil || n != 1 {
		t.Errorf("removed %d, %v; want 1: two ended a moment ago, and the ids of two are of tomorrow", n, err)
	}
	if n, err := s.Retain(t.Context(), pgstore.Retention{MaxAge: 9 * time.Minute}); err != nil || n != 2 {
		t.Errorf("removed %d, %v; want those that ended 10 minutes ago", n, err)
	}
	if got := left(t, pool); !slices.Equal(got, ahead) {
		t.Errorf("left: %v, want those of tomorrow", got)
	}
	if n, err := s.Retain(t.Context(), pgstore.Retention{MaxCount: 1}); err != nil || n != 1 {
		t.Errorf("removed %d, %v; want one of the others, which are too many", n, err)
	}
}

// TestRetainFreesTheKey uses an idempotency key again.
func TestRetainFreesTheKey(t *testing.T) {
	u := pgtest.URL(t)
	s, pool := open(t, u, nil), dial(t, u)
	id := oneExecution(t, s)
	exec(t, pool, "update courier.job_executions set idempotency_key = 'k'")
	again := store.NewExecution{ID: courier.ExecutionID(idSource.New()), Job: "odd", Version: 1, Queue: "q", IdempotencyKey: "k"}
	if got, err := s.Enqueue(t.Context(), []store.NewExecution{again}); err != nil || !got[0].Existed {
		t.Fatalf("the key is free: %v, %v", got, err)
	}
	if n, err := s.Retain(t.Context(), pgstore.Retention{MaxAge: time.Microsecond}); err != nil || n != 1 {
		t.Fatalf("removed %d, %v", n, err)
	}
	if got, err := s.Enqueue(t.Context(), []store.NewExecution{again}); err != nil || got[0].Existed {
		t.Errorf("the key is not free: %+v, %v", got, err)
	}
	if _, err := s.Execution(t.Context(), id); !errors.Is(err, courier.ErrNotFound) {
		t.Errorf("reading what was removed: %v, want ErrNotFound", err)
	}
}

// TestRetainUnderLoad removes while executions are made, run, resumed and
// cancelled; what is left is complete.
func TestRetainUnderLoad(t *testing.T) {
	u := pgtest.URL(t)
	s, pool := open(t, u, nil), dial(t, u)
	job := defined(t, s, pool, "odd")
	failed := past{job: job, state: "failed", count: 200, created: time.Hour, ended: time.Hour}.make(t, pool)
	var group sync.WaitGroup
	group.Go(func() {
		for _, id := range failed {
			kind := courier.RequestResume
			if id[len(id)-1]%2 == 0 {
				kind = courier.RequestCancel
			}
			if _, err := s.Request(t.Context(), store.Request{Execution: courier.ExecutionID(id), Kind: kind, By: "me"}); err != nil && !errors.Is(err, courier.ErrNotFound) {
				t.Errorf("%s %s: %v", kind, id, err)
			}
		}
	})
	group.Go(func() {
		for range 50 {
			oneExecution(t, s)
		}
	})
	removed := make([]int64, 2)
	stop := make(chan struct{})
	var removing sync.WaitGroup
	for i := range removed {
		removing.Go(func() {
			for range 10_000 {
				n, err := s.Retain(t.Context(), pgstore.Retention{MaxCount: 20, Failed: true})
				if err != nil {
					t.Errorf("retain: %v", err)
					return
				}
				removed[i] += n
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	group.Wait()
	close(stop)
	removing.Wait()
	here := left(t, pool)
	if got := len(here) + int(removed[0]+removed[1]); got != len(failed)+50 {
		t.Errorf("%d left and %v removed, want %d in all", len(here), removed, len(failed)+50)
	}
	if removed[0]+removed[1] == 0 {
		t.Error("nothing was removed")
	}
	for _, id := range here {
		if slices.Contains(failed, id) {
			if n := value[int](t, pool, "select count(*) from courier.job_audit_log where execution_id = $1::text::uuid", id); n < 3 {
				t.Errorf("%s: %d rows of the audit are left", id, n)
			}
			continue
		}
		if err := storetest.CheckExecution(t.Context(), s, courier.ExecutionID(id)); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestAuditAppendOnly(t *testing.T) {
	u := pgtest.URL(t)
	s, pool := open(t, u, nil), dial(t, u)
	id := oneExecution(t, s)
	for _, statement := range []string{
		"update courier.execution_history set by = 'nobody'",
		"update courier.execution_history set by = 'nobody' where false",
		"delete from courier.execution_history",
		"truncate courier.execution_history",
		"delete from courier.execution_history where execution_id = '" + string(id) + "'",
		"delete from courier.step_executions",
		"begin; set local courier.retention = 'on'; update courier.execution_history set by = 'nobody'; commit",
		"begin; set local courier.retention = 'off'; delete from courier.execution_history; commit",
		"begin; set local courier.retention = 'true'; delete from courier.execution_history; commit",
		"merge into courier.execution_history a using (select 1) x on true when matched then delete",
		"insert into courier.execution_history (execution_id, seq, at, execution_attempt) select execution_id, seq, at, 1 from courier.execution_history on conflict (execution_id, seq) do update set by = 'nobody'",
		// The creation stands in the row of the execution.
		"delete from courier.job_executions",
		"truncate courier.job_executions",
		"begin; set local courier.retention = 'off'; delete from courier.job_executions where id = '" + string(id) + "'; commit",
		"update courier.job_executions set created_by = 'nobody'",
		"update courier.job_executions set created_at = now()",
		"update courier.job_executions set held = true",
		"begin; set local courier.retention = 'on'; update courier.job_executions set created_by = 'nobody'; commit",
	} {
		_, err := pool.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol)
		if strings.HasPrefix(statement, "merge") && err != nil && strings.Contains(err.Error(), "syntax error") {
			continue // before PostgreSQL 15
		}
		wants(t, err, "the audit log is append-only", "is refused")
	}
	if audit, err := s.Audit(t.Context(), store.AuditFilter{Execution: id}); err != nil || len(audit) != 3 || audit[0].By != "" {
		t.Errorf("the audit is %v, %v; want its 3 entries", audit, err)
	}
	// A session that has removed once can't do so again by accident.
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "select set_config('courier.retention', 'on', true)"); err != nil {
			return err
		}
		tag, err := tx.Exec(t.Context(), "delete from courier.execution_history")
		if err == nil && tag.RowsAffected() == 0 {
			err = fmt.Errorf("nothing was removed")
		}
		return err
	})
	if err != nil {
		t.Errorf("what retention does: %v", err)
	}
	_, err = conn.Exec(t.Context(), "delete from courier.execution_history")
	wants(t, err, "the audit log is append-only: delete is refused on execution_history")
}
