package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/internal/uuid7"
	"github.com/courierhq/courier/store"
)

// TestMigrateBesideWriters applies a second migration, which changes the tables that
// the writers use, beside transactions that create, claim and complete executions in
// the order of this package's statements. Nothing is lost, a deadlock fails neither, and no
// call waits long.
func TestMigrateBesideWriters(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	today, err := Migrate(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	written := writeBeside(t, pool, func() {
		withMigration(t, fmt.Sprintf("%04d_later.sql", len(today)+1), `
			alter table courier.execution_history add column later text;
			alter table courier.job_executions add column later integer, drop constraint job_executions_state_check,
				add constraint job_executions_state_check check (state <> 'later') not valid;
			drop index courier.job_executions_state;
			create index job_executions_state on courier.job_executions (state, id) where state <> 'completed';`)
		started := time.Now()
		list, err := Migrate(t.Context(), pool, nil)
		if err != nil || len(list) != 1 {
			t.Errorf("applied %d, %v", len(list), err)
		}
		if took := time.Since(started); took > 15*time.Second {
			t.Errorf("it took %v", took)
		}
	})
	var there int
	if err := pool.QueryRow(t.Context(), "select count(*) from courier.job_executions e join courier.execution_history a on a.execution_id = e.id where e.state = 'completed'").Scan(&there); err != nil || there != written {
		t.Errorf("%d executions and entries are there, %v; %d were written", there, err, written)
	}
}

// TestMigrateAfterDeadlock has a migration and another transaction wait for each other.
// PostgreSQL ends the migration, which began to wait first, and it is tried again.
func TestMigrateAfterDeadlock(t *testing.T) {
	ctx := t.Context()
	pool, err := pgxpool.New(ctx, pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	today, err := Migrate(ctx, pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	withMigration(t, fmt.Sprintf("%04d_later.sql", len(today)+1),
		"alter table courier.execution_history add column later text; alter table courier.job_executions add column later text;")
	other, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback(context.WithoutCancel(ctx))
	if _, err := other.Exec(ctx, "lock table courier.job_executions in row exclusive mode"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := Migrate(ctx, pool, nil)
		done <- err
	}()
	waits := false
	for range 1000 {
		err := pool.QueryRow(ctx, "select exists (select from pg_locks where not granted and relation = 'courier.job_executions'::regclass)").Scan(&waits)
		if err != nil || waits {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !waits {
		t.Fatal("the migration does not wait")
	}
	if _, err := other.Exec(ctx, "lock table courier.execution_history in row exclusive mode"); err != nil {
		t.Fatalf("the other transaction was ended: %v", err)
	}
	if err := other.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
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
				started := time.Now()
				err := writeOne(t.Context(), pool, ids.New())
				if took := time.Since(started); err != nil || took > 12*time.Second {
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
		`insert into courier.job_executions (id, created_at, definition_id, version, concurrency_limit, priority, queue, step_types, limit_keys, timeout_ns, created_by, due_at, state, state_since, attempt, last_audit_seq, step)
			values ($1::text::uuid, clock_timestamp(), 1, 1, 0, 0, 'q', '{}', '{}', 0, '', clock_timestamp(), 'queued', clock_timestamp(), 1, 1, 0)`,
		`update courier.job_executions set state = 'running', lease_token = id, lease_expires_at = clock_timestamp() + interval '1 minute', last_audit_seq = last_audit_seq + 1 where id = $1::text::uuid and state = 'queued'`,
		`with x as (update courier.job_executions set state = 'completed', ended_at = clock_timestamp(), last_audit_seq = last_audit_seq + 1 where id = $1::text::uuid and state = 'running' returning id, last_audit_seq as seq)
			insert into courier.execution_history (execution_id, seq, at, execution_attempt, state_from, state_to) select x.id, x.seq, clock_timestamp(), 1, 'running', 'completed' from x`,
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
		alter table courier.execution_history add column later text;
		alter table courier.execution_history add column later2 bigint not null default 0;
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
	started := time.Now()
	if _, err := Migrate(t.Context(), pool, nil); err != nil {
		t.Errorf("migrate beside engines: %v", err)
	}
	took := time.Since(started)
	mu.Lock()
	t.Logf("migrated in %v, %d completed", took, completed)
	mu.Unlock()
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
