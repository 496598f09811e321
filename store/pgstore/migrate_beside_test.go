package pgstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/pgtest"
	"github.com/courierhq/courier/internal/uuid7"
	"github.com/courierhq/courier/store"
)

// TestMigrateBesideWriters applies each migration, as if it were the latest,
// beside stores that create, claim and complete executions by the statements of
// today as far as the schema has what they need. The last ones run beside all of
// that; for those before, writers touch the tables that there are. Nothing is
// lost, nobody meets a deadlock, and nobody waits long.
func TestMigrateBesideWriters(t *testing.T) {
	files := fstest.MapFS{}
	entries, err := fs.ReadDir(embedded, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { migrationFiles = embedded })
	for _, e := range entries {
		data, err := fs.ReadFile(embedded, "migrations/"+e.Name())
		if err != nil {
			t.Fatal(err)
		}
		files["migrations/"+e.Name()] = &fstest.MapFile{Data: data}
	}
	for from := 1; from < len(entries); from++ {
		t.Run(fmt.Sprintf("from_%d", from), func(t *testing.T) {
			pool, err := pgxpool.New(t.Context(), pgtest.URL(t))
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			older := fstest.MapFS{}
			for _, e := range entries[:from] {
				older["migrations/"+e.Name()] = files["migrations/"+e.Name()]
			}
			migrationFiles = older
			if _, err := Migrate(t.Context(), pool, nil); err != nil {
				t.Fatal(err)
			}
			written := writeBeside(t, pool, func() {
				migrationFiles = files
				begun := time.Now()
				list, err := Migrate(t.Context(), pool, nil)
				if err != nil || len(list) != len(entries)-from {
					t.Errorf("applied %d, %v", len(list), err)
				}
				if took := time.Since(begun); took > 15*time.Second {
					t.Errorf("it took %v", took)
				}
			})
			var there int
			if err := pool.QueryRow(t.Context(), "select count(*) from courier.job_executions e join courier.job_audit_log a on a.execution_id = e.id where e.state = 'completed'").Scan(&there); err != nil || there != written {
				t.Errorf("%d executions and entries are there, %v; %d were written", there, err, written)
			}
		})
	}
}

// writeBeside writes executions from several connections, in transactions that
// create one, claim it and end it in the order of this package's statements, while
// migrate runs, and returns how many were acknowledged.
func writeBeside(t *testing.T, pool *pgxpool.Pool, migrate func()) int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	var mu sync.Mutex
	written := 0
	warm := make(chan struct{})
	var once sync.Once
	for range 3 {
		ids := new(uuid7.Source)
		writers.Go(func() {
			for ctx.Err() == nil {
				begun := time.Now()
				err := writeOne(t.Context(), pool, ids.New())
				if took := time.Since(begun); err != nil || took > 12*time.Second {
					t.Errorf("a writer: %v after %v", err, took)
					return
				}
				mu.Lock()
				if written++; written == 30 {
					once.Do(func() { close(warm) })
				}
				mu.Unlock()
			}
		})
	}
	select {
	case <-warm:
	case <-time.After(20 * time.Second):
		t.Error("the writers do not begin")
	}
	migrate()
	mu.Lock()
	at := written
	mu.Unlock()
	for range 1000 { // they go on afterwards
		mu.Lock()
		more := written > at+10
		mu.Unlock()
		if more {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	writers.Wait()
	if written <= at {
		t.Errorf("nothing was written after the migration")
	}
	return written
}

// writeOne creates an execution, claims it, and completes it.
func writeOne(ctx context.Context, pool *pgxpool.Pool, id string) error {
	for _, sql := range []string{
		`insert into courier.job_executions (id, created_at, definition_id, version, job_limit, priority, queue, step_types, limit_keys, timeout_ns, created_by, due_at, state, state_since, attempt, seq, step)
			values ($1::text::uuid, clock_timestamp(), 1, 1, 0, 0, 'q', '{}', '{}', 0, '', clock_timestamp(), 'queued', clock_timestamp(), 1, 1, 0)`,
		`update courier.job_executions set state = 'running', token = id, lease_expires_at = clock_timestamp() + interval '1 minute', seq = seq + 1 where id = $1::text::uuid and state = 'queued'`,
		`with x as (update courier.job_executions set state = 'completed', ended_at = clock_timestamp(), seq = seq + 1 where id = $1::text::uuid and state = 'running' returning id, seq)
			insert into courier.job_audit_log (execution_id, seq, at, state_from, state_to) select x.id, x.seq, clock_timestamp(), 'running', 'completed' from x`,
	} {
		if err := repeat(ctx, func() error { _, err := pool.Exec(ctx, sql, id); return err }); err != nil {
			return err
		}
	}
	return nil
}

// TestMigrateBesideEngine applies a migration that changes the tables that an
// engine writes, beside a store at work on them.
func TestMigrateBesideEngine(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	today, err := Migrate(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Save(t.Context(), store.Definition{Kind: store.Job, Name: "j", Body: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	withMigration(t, fmt.Sprintf("%04d_later.sql", len(today)+1), `
		alter table courier.job_executions add column later integer;
		alter table courier.job_audit_log add column later text;
		alter table courier.step_executions add column later bigint not null default 0;
		create index job_executions_later on courier.job_executions (later);`)
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	var mu sync.Mutex
	var created, completed int
	count := func(n *int) {
		mu.Lock()
		defer mu.Unlock()
		*n++
	}
	ids := new(uuid7.Source)
	workers.Go(func() {
		for ctx.Err() == nil {
			if _, err := s.Enqueue(t.Context(), []store.NewExecution{{ID: courier.ExecutionID(ids.New()), Job: "j", Version: 1, Queue: "q"}}); err != nil {
				t.Errorf("enqueue: %v", err)
				return
			}
			count(&created)
		}
	})
	for w := range 2 {
		workers.Go(func() {
			if err := completeAll(ctx, s, fmt.Sprint("w", w), func() { count(&completed) }); err != nil {
				t.Error(err)
			}
		})
	}
	progress := func(more int) {
		t.Helper()
		mu.Lock()
		from := completed
		mu.Unlock()
		for range 2000 {
			mu.Lock()
			enough := completed >= from+more
			mu.Unlock()
			if enough {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("fewer than %d executions were completed", more)
	}
	progress(20)
	begun := time.Now()
	if _, err := Migrate(t.Context(), pool, nil); err != nil {
		t.Errorf("migrate beside engines: %v", err)
	}
	t.Logf("migrated in %v, %d completed", time.Since(begun), completed)
	progress(20)
	cancel()
	workers.Wait()
	var all, running int
	err = pool.QueryRow(t.Context(), "select count(*), count(*) filter (where state = 'running') from courier.job_executions").Scan(&all, &running)
	if err != nil || all != created || running > 0 {
		t.Errorf("%d executions of %d are there, %d run, %v", all, created, running, err)
	}
}

// completeAll claims executions and completes them until ctx ends.
func completeAll(ctx context.Context, s *Store, worker string, completed func()) error {
	for ctx.Err() == nil {
		c, err := s.Claim(context.WithoutCancel(ctx), store.ClaimRequest{Worker: worker, Queues: []string{"q"}, Max: 4, Lease: time.Minute})
		if err != nil {
			return fmt.Errorf("claim: %w", err)
		}
		for _, x := range c.List {
			err := s.Apply(context.WithoutCancel(ctx), store.Transition{Execution: x.Execution.ID, Lease: x.Token, Seq: x.Seq + 1, To: courier.Completed})
			if err != nil && !errors.Is(err, context.Canceled) {
				return fmt.Errorf("apply: %w", err)
			}
			completed()
		}
	}
	return nil
}
