package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// manyToCopy is the length of a list that a store copies.
const manyToCopy = 300

// listOf returns executions of a job that have all that an execution can be enqueued with, but
// for an idempotency key, or hardly anything.
func listOf(job string, n int) []store.NewExecution {
	list := make([]store.NewExecution, n)
	for i := range list {
		x := newExecution(job)
		if i%2 == 0 {
			retries := 3
			x.StepTypes, x.LimitKeys, x.Timeout, x.Params, x.By = []string{"file.copy", `odd,"type"`}, []string{"host:a", "b'c"}, time.Minute, []byte(`{"a": "<\u00e9>"}`), "me"
			x.Delay, x.Priority, x.JobLimit, x.MaxRetries, x.Trace = 90*time.Minute+1234*time.Nanosecond, -3, 7, &retries, "00-1-2-01"
			x.First = &courier.StepExecution{Type: "file.copy", ID: "first"}
			x.Labels, x.MaxDuration, x.ExpectedBy, x.Expires = map[string]string{"partner": fmt.Sprint(i)}, time.Hour, 2*time.Hour, 3*time.Hour
			x.RerunOf = list[0].ID
		}
		x.Hold = i%3 == 0
		list[i] = x
	}
	return list
}

// TestCopied enqueues the same executions by COPY, because there are many, and one by
// one, in each way of pgx to execute queries, and compares all that is stored.
func TestCopied(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	direct := dial(t, url)
	s := reopen(t, direct, nil).(*pgstore.Store)
	define(t, s, "job")
	exec(t, direct, "update courier.job_definitions set dependents = 2") // as if other jobs depended on it
	bouncer := pgtest.Bouncer(t, url)
	everything := func() string {
		t.Helper()
		return value[string](t, direct, `select string_agg(x.line, E'\n' order by x.line) from (
			select 'execution ' || (to_jsonb(e) - 'created_at' - 'due_at' - 'state_since' || jsonb_build_object('delay', e.due_at - e.created_at, 'since', e.state_since - e.created_at))::text as line from courier.job_executions e
			union all select 'trail ' || t::text from courier.trail t
			union all select 'deadline ' || (to_jsonb(d) - 'due_at' || jsonb_build_object('after', d.due_at - e.created_at))::text from courier.execution_deadlines d join courier.job_executions e on e.id = d.execution_id
		) x`)
	}
	forget := func() {
		t.Helper()
		exec(t, direct, "set local courier.retention = 'on'; delete from courier.job_executions; delete from courier.trail; delete from courier.execution_deadlines")
	}
	list := listOf("job", manyToCopy)
	for _, n := range list {
		if _, err := s.Enqueue(t.Context(), []store.NewExecution{n}); err != nil {
			t.Fatal(err)
		}
	}
	want := everything()
	for _, m := range []struct {
		url  string
		mode pgx.QueryExecMode
	}{
		{url, pgx.QueryExecModeCacheStatement}, {url, pgx.QueryExecModeCacheDescribe}, {url, pgx.QueryExecModeDescribeExec}, {url, pgx.QueryExecModeExec},
		{url, pgx.QueryExecModeSimpleProtocol}, {bouncer, pgx.QueryExecModeExec}, {bouncer, pgx.QueryExecModeSimpleProtocol},
	} {
		forget()
		copies := &copyCount{}
		s := reopenAs(t, dialWith(t, m.url, func(c *pgx.ConnConfig) { c.DefaultQueryExecMode, c.Tracer = m.mode, copies }))
		got, err := s.Enqueue(t.Context(), list)
		if err != nil {
			t.Fatalf("mode %v: %v", m.mode, err)
		}
		if n := copies.Load(); n != 1 {
			t.Errorf("mode %v: %d lists were copied, want 1", m.mode, n)
		}
		if found := everything(); found != want {
			t.Errorf("mode %v: copied is\n%.2000s\nand inserted one by one\n%.2000s", m.mode, found, want)
		}
		for i := range got {
			x, err := s.Execution(t.Context(), list[i].ID)
			if err != nil || got[i].Existed || !x.CreatedAt.Equal(got[i].Execution.CreatedAt) || !x.DueAt.Equal(got[i].Execution.DueAt) || i > 20 {
				if i <= 20 {
					t.Errorf("%+v is stored as %+v, %v", got[i], x, err)
				}
				break
			}
		}
		// Once more: all are there.
		again, err := s.Enqueue(t.Context(), list)
		if err != nil || !again[0].Existed || !again[manyToCopy-1].Existed {
			t.Errorf("mode %v: a repeated list: %v", m.mode, err)
		}
		if found := everything(); found != want {
			t.Errorf("mode %v: a repeated list has changed something", m.mode)
		}
	}
}

// A copyCount counts the lists that are copied over a connection.
type copyCount struct{ atomic.Int64 }

func (c *copyCount) TraceCopyFromStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceCopyFromStartData) context.Context {
	c.Add(1)
	return ctx
}
func (c *copyCount) TraceCopyFromEnd(context.Context, *pgx.Conn, pgx.TraceCopyFromEndData) {}
func (c *copyCount) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (c *copyCount) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func reopenAs(t *testing.T, pool *pgxpool.Pool) *pgstore.Store {
	t.Helper()
	s, err := pgstore.New(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestCopyRefused has long lists that can't be copied: one of them is refused as a whole, and
// the caller's transaction goes on.
func TestCopyRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pool := dial(t, url)
	s := reopen(t, pool, nil).(*pgstore.Store)
	define(t, s, "job")
	count := func() int64 { return value[int64](t, pool, "select count(*) from courier.job_executions") }
	unknown := listOf("job", manyToCopy)
	unknown[manyToCopy-1].Job = "nowhere"
	if _, err := s.Enqueue(t.Context(), unknown); !errors.Is(err, courier.ErrNotFound) || !strings.Contains(err.Error(), `"nowhere"`) || count() != 0 {
		t.Errorf("an unknown job: %v, and there are %d", err, count())
	}
	outdated := listOf("job", manyToCopy)
	outdated[7].Latest = true
	if _, err := s.Save(t.Context(), store.Definition{Kind: store.Job, Name: "job", Body: []byte(`{"other": true}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Enqueue(t.Context(), outdated); !errors.Is(err, store.ErrOutdated) || count() != 0 {
		t.Errorf("an outdated version: %v, and there are %d", err, count())
	}

	tx := begin(t, pool, pgx.ReadCommitted)
	if _, err := s.EnqueueTx(t.Context(), tx, unknown); !errors.Is(err, courier.ErrNotFound) {
		t.Errorf("in a transaction: %v", err)
	}
	good := listOf("job", manyToCopy)
	if got, err := s.EnqueueTx(t.Context(), tx, good); err != nil || len(got) != manyToCopy {
		t.Fatal(err)
	}
	twice := listOf("job", manyToCopy)
	twice[1] = good[0]
	if got, err := s.EnqueueTx(t.Context(), tx, twice); err != nil || !got[1].Existed || got[2].Existed {
		t.Errorf("one that exists: %v", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != 2*manyToCopy-1 {
		t.Errorf("there are %d", n)
	}
}
