package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// orders is a store and a table of the caller's own.
func orders(t testing.TB, url string) (*pgstore.Store, *pgxpool.Pool) {
	t.Helper()
	s, pool := openPool(t, url, nil)
	define(t, s, "job")
	if _, err := pool.Exec(t.Context(), "create table orders (id text primary key)"); err != nil {
		t.Fatal(err)
	}
	return s, pool
}

func begin(t testing.TB, pool *pgxpool.Pool, level pgx.TxIsoLevel) pgx.Tx {
	t.Helper()
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback(context.Background()) })
	return tx
}

// order creates a row and an execution in a transaction.
func order(t testing.TB, s *pgstore.Store, tx pgx.Tx) store.NewExecution {
	t.Helper()
	n := newExecution("job")
	if _, err := tx.Exec(t.Context(), "insert into orders values ($1)", string(n.ID)); err != nil {
		t.Fatal(err)
	}
	got, err := s.EnqueueTx(t.Context(), tx, []store.NewExecution{n})
	if err != nil || len(got) != 1 || got[0].Existed || got[0].Execution.ID != n.ID || got[0].Execution.State != courier.Queued {
		t.Fatalf("enqueue: %+v, %v", got, err)
	}
	return n
}

// ordered requires that the row and the execution both exist, or neither.
func ordered(t testing.TB, s *pgstore.Store, pool *pgxpool.Pool, n store.NewExecution, want bool) {
	t.Helper()
	var row bool
	if err := pool.QueryRow(t.Context(), "select exists (select from orders where id = $1)", string(n.ID)).Scan(&row); err != nil {
		t.Fatal(err)
	}
	_, err := s.Execution(t.Context(), n.ID)
	if err != nil && !errors.Is(err, courier.ErrNotFound) {
		t.Fatal(err)
	}
	if row != want || (err == nil) != want {
		t.Errorf("row: %v, execution: %v, want %v", row, err, want)
	}
}

func TestEnqueueTx(t *testing.T) {
	t.Parallel()
	s, pool := orders(t, pgtest.URL(t))
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		for name, end := range map[string]func(tx pgx.Tx) (bool, error){
			"commit":   func(tx pgx.Tx) (bool, error) { return true, tx.Commit(t.Context()) },
			"rollback": func(tx pgx.Tx) (bool, error) { return false, tx.Rollback(t.Context()) },
		} {
			t.Run(fmt.Sprint(level, " ", name), func(t *testing.T) {
				tx := begin(t, pool, level)
				n := order(t, s, tx)
				ordered(t, s, pool, n, false)
				if c, err := s.Claim(t.Context(), request("w", 5)); err != nil || len(c.List) > 0 {
					t.Errorf("claimed before the end: %d, %v", len(c.List), err)
				}
				want, err := end(tx)
				if err != nil {
					t.Fatal(err)
				}
				ordered(t, s, pool, n, want)
				if c, err := s.Claim(t.Context(), request("w", 5)); err != nil || (len(c.List) == 1) != want || want && c.List[0].Execution.ID != n.ID {
					t.Errorf("claimed after the end: %d, %v", len(c.List), err)
				} else if err := complete(t.Context(), s, c.List); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestEnqueueTxInModes(t *testing.T) {
	t.Parallel()
	direct := pgtest.URL(t)
	s, pool := orders(t, direct)
	bouncer := pgtest.Bouncer(t, direct)
	for _, m := range []struct {
		url  string
		mode pgx.QueryExecMode
	}{
		{direct, pgx.QueryExecModeCacheDescribe}, {direct, pgx.QueryExecModeDescribeExec}, {direct, pgx.QueryExecModeExec},
		{direct, pgx.QueryExecModeSimpleProtocol}, {bouncer, pgx.QueryExecModeExec}, {bouncer, pgx.QueryExecModeSimpleProtocol},
	} {
		tx := begin(t, newPool(t, m.url, m.mode), pgx.ReadCommitted)
		n := order(t, s, tx)
		ordered(t, s, pool, n, false)
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		ordered(t, s, pool, n, true)
	}
}

func TestEnqueueTxInASavepoint(t *testing.T) {
	t.Parallel()
	s, pool := orders(t, pgtest.URL(t))
	tx := begin(t, pool, pgx.ReadCommitted)
	before := order(t, s, tx)
	var undone, kept store.NewExecution
	if err := pgx.BeginFunc(t.Context(), tx, func(point pgx.Tx) error {
		undone = order(t, s, point)
		return context.Canceled
	}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := pgx.BeginFunc(t.Context(), tx, func(point pgx.Tx) error {
		kept = order(t, s, point)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	ordered(t, s, pool, before, true)
	ordered(t, s, pool, undone, false)
	ordered(t, s, pool, kept, true)
}

// TestEnqueueTxRefusal shows that what is refused leaves the transaction as it
// was.
func TestEnqueueTxRefusal(t *testing.T) {
	t.Parallel()
	s, pool := orders(t, pgtest.URL(t))
	used, other, unknown, bad := newExecution("job"), newExecution("job"), newExecution("job"), newExecution("job")
	used.IdempotencyKey, other.IdempotencyKey = "k", "k"
	other.Params, unknown.Version, bad.By = []byte(`{"a": 1}`), 9, "a\x00b"
	if _, err := s.Enqueue(t.Context(), []store.NewExecution{used}); err != nil {
		t.Fatal(err)
	}
	tx := begin(t, pool, pgx.ReadCommitted)
	first := order(t, s, tx)
	fresh := newExecution("job")
	for _, r := range []struct {
		n    store.NewExecution
		want error
	}{{other, courier.ErrConflict}, {unknown, courier.ErrNotFound}, {bad, courier.ErrInvalid}} {
		if _, err := s.EnqueueTx(t.Context(), tx, []store.NewExecution{fresh, r.n}); !errors.Is(err, r.want) {
			t.Errorf("error %v, want %v", err, r.want)
		}
	}
	again := newExecution("job")
	again.IdempotencyKey = "k"
	if got, err := s.EnqueueTx(t.Context(), tx, []store.NewExecution{again}); err != nil || !got[0].Existed || got[0].Execution.ID != used.ID {
		t.Errorf("a used key: %+v, %v", got, err)
	}
	last := order(t, s, tx)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	ordered(t, s, pool, first, true)
	ordered(t, s, pool, last, true)
	ordered(t, s, pool, fresh, false)
	if _, err := s.EnqueueTx(t.Context(), tx, []store.NewExecution{fresh}); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("in a transaction that is over: %v", err)
	}
}

// TestEnqueueTxAfterTheSnapshot uses a key that another transaction has used
// after this one took its snapshot: the caller has to begin again.
func TestEnqueueTxAfterTheSnapshot(t *testing.T) {
	t.Parallel()
	s, pool := orders(t, pgtest.URL(t))
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		first, second := newExecution("job"), newExecution("job")
		first.IdempotencyKey, second.IdempotencyKey = string(level), string(level)
		for try := range 2 {
			tx := begin(t, pool, level)
			if _, err := tx.Exec(t.Context(), "select from orders"); err != nil {
				t.Fatal(err)
			}
			if try == 0 {
				if _, err := s.Enqueue(t.Context(), []store.NewExecution{first}); err != nil {
					t.Fatal(err)
				}
			}
			got, err := s.EnqueueTx(t.Context(), tx, []store.NewExecution{second})
			refused, _ := errors.AsType[*pgconn.PgError](err)
			switch {
			case try == 0 && (refused == nil || refused.Code != "40001"):
				t.Errorf("%s: %+v, %v; want a serialization failure", level, got, err)
			case try == 1 && (err != nil || !got[0].Existed || got[0].Execution.ID != first.ID):
				t.Errorf("%s, again: %+v, %v", level, got, err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestEnqueueTxWakes has workers wait, in the process that enqueues and in
// another, for transactions that end at once or later.
func TestEnqueueTxWakes(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	here, pool := orders(t, url)
	there := open(t, url, nil)
	for _, after := range []time.Duration{0, 30 * time.Millisecond, 300 * time.Millisecond} {
		for name, worker := range map[string]*pgstore.Store{"here": here, "there": there} {
			c := watched(t, worker)
			rolledBack, tx := begin(t, pool, pgx.ReadCommitted), begin(t, pool, pgx.ReadCommitted)
			order(t, here, rolledBack)
			n := order(t, here, tx)
			claimed := make(chan time.Time, 1)
			var waiting sync.WaitGroup
			waiting.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				for len(c.List) == 0 {
					err := worker.Await(ctx, []string{courier.DefaultQueue}, c.Mark)
					if err == nil {
						c, err = worker.Claim(ctx, request("w", 5))
					}
					if err != nil {
						t.Errorf("%s, %v: %v", name, after, err)
						return
					}
				}
				claimed <- time.Now()
			})
			time.Sleep(after)
			if err := rolledBack.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			committed := time.Now()
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			waiting.Wait()
			if len(c.List) != 1 || c.List[0].Execution.ID != n.ID {
				t.Fatalf("%s, %v: claimed %d", name, after, len(c.List))
			}
			if took := (<-claimed).Sub(committed); took < 0 || took > 2*time.Second {
				t.Errorf("%s, %v: claimed %v after the commit", name, after, took)
			}
			if err := complete(t.Context(), worker, c.List); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestCloseBeforeTheCommit closes a store whose transactions are still open.
func TestCloseBeforeTheCommit(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, pool := orders(t, url)
	tx := begin(t, pool, pgx.ReadCommitted)
	n := order(t, s, tx)
	started := time.Now()
	s.Close()
	if took := time.Since(started); took > 5*time.Second {
		t.Errorf("Close took %v", took)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	ordered(t, open(t, url, nil), pool, n, true)
}

func TestEnqueueMany(t *testing.T) {
	t.Parallel()
	const many = 20_000
	s, pool := openPool(t, pgtest.URL(t), nil)
	define(t, s, "job")
	used := newExecution("job")
	used.IdempotencyKey = "k"
	if _, err := s.Enqueue(t.Context(), []store.NewExecution{used}); err != nil {
		t.Fatal(err)
	}
	list := make([]store.NewExecution, many)
	for i := range list {
		list[i] = newExecution("job")
	}
	list[many-1].IdempotencyKey, list[many-1].Params = "k", []byte(`{"a": 1}`)
	count := func() (n int) {
		t.Helper()
		if err := pool.QueryRow(t.Context(), "select count(*) from courier.job_executions").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if _, err := s.Enqueue(t.Context(), list); !errors.Is(err, courier.ErrConflict) || count() != 1 {
		t.Errorf("with a conflict: %v, and there are %d", err, count())
	}
	list[many-1].Params = nil
	started := time.Now()
	got, err := s.Enqueue(t.Context(), list)
	if err != nil || len(got) != many || count() != many {
		t.Fatalf("%d results, %v, and there are %d", len(got), err, count())
	}
	t.Logf("%d executions in %v", many, time.Since(started))
	for i := range got {
		x, last := &got[i].Execution, i == many-1
		if got[i].Existed != last || last && x.ID != used.ID || !last && (x.ID != list[i].ID || !x.CreatedAt.Equal(got[0].Execution.CreatedAt)) {
			t.Fatalf("result %d: %+v", i, got[i])
		}
	}
	var entries int
	if err := pool.QueryRow(t.Context(), "select count(*) from courier.job_audit_log").Scan(&entries); err != nil || entries != many {
		t.Errorf("%d audit entries, %v", entries, err)
	}
}

// TestIdempotencyAtOnce has two processes use the same keys at the same time, in
// lists of different orders.
func TestIdempotencyAtOnce(t *testing.T) {
	t.Parallel()
	const goroutines, keys, each = 100, 20, 5
	url := pgtest.URL(t)
	stores := []*pgstore.Store{open(t, url, nil), open(t, url, nil)}
	define(t, stores[0], "job", "other")
	var all sync.WaitGroup
	var mu sync.Mutex
	ids, created := make(map[string]courier.ExecutionID), make(map[string]int)
	for i := range goroutines {
		all.Go(func() {
			var list []store.NewExecution
			for _, k := range rand.Perm(keys)[:each] {
				n := newExecution("job")
				if n.IdempotencyKey = fmt.Sprint("key ", k); k%2 == 0 { // of both jobs
					n.Job, n.KeyScope, n.KeyAlone = []string{"job", "other"}[rand.IntN(2)], "scope", true
				}
				list = append(list, n)
			}
			got, err := stores[i%2].Enqueue(t.Context(), list)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, e := range got {
				x := e.Execution
				if old, ok := ids[x.IdempotencyKey]; ok && old != x.ID {
					t.Errorf("%s is that of %s and of %s", x.IdempotencyKey, old, x.ID)
				}
				ids[x.IdempotencyKey] = x.ID
				if !e.Existed {
					created[x.IdempotencyKey]++
				}
			}
		})
	}
	all.Wait()
	for k, n := range created {
		if n != 1 {
			t.Errorf("%s was created %d times", k, n)
		}
	}
	list, err := stores[0].Executions(t.Context(), store.Filter{Limit: 1000})
	if err != nil || len(list) != keys || len(created) != keys {
		t.Errorf("%d executions, %d created, %v; want %d", len(list), len(created), err, keys)
	}
}

// An order and the execution that handles it come into being together.
func ExampleStore_EnqueueTx() {
	var (
		ctx  context.Context
		pool *pgxpool.Pool
		s    *pgstore.Store
		e    *engine.Engine
	)
	// Prepare may take a connection of the pool, so it comes before the transaction.
	n, err := e.Prepare(ctx, "invoice", &courier.EnqueueOptions{Params: map[string]any{"order": 4711}})
	if err != nil {
		log.Fatal(err)
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "insert into orders (id) values ($1)", 4711); err != nil {
			return err
		}
		_, err := s.EnqueueTx(ctx, tx, []store.NewExecution{n})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}

// TestEnqueueTxKeyOfAScope shows that a key of a scope that an open transaction has used for
// another job is waited for, and that a rollback frees it.
func TestEnqueueTxKeyOfAScope(t *testing.T) {
	t.Parallel()
	s, pool := openPool(t, pgtest.URL(t), nil)
	define(t, s, "job", "other")
	scoped := func(job, key string) store.NewExecution {
		n := newExecution(job)
		n.IdempotencyKey, n.KeyScope, n.KeyAlone = key, "scope", true
		return n
	}
	for _, commit := range []bool{true, false} {
		tx := begin(t, pool, pgx.ReadCommitted)
		first, second := scoped("job", fmt.Sprint(commit)), scoped("other", fmt.Sprint(commit))
		if _, err := s.EnqueueTx(t.Context(), tx, []store.NewExecution{first}); err != nil {
			t.Fatal(err)
		}
		done := make(chan courier.Execution)
		go func() {
			got, err := s.Enqueue(t.Context(), []store.NewExecution{second})
			if err != nil {
				t.Error(err)
				close(done)
				return
			}
			done <- got[0].Execution
		}()
		select {
		case x := <-done:
			t.Errorf("%+v was created while the transaction was open", x)
		case <-time.After(50 * time.Millisecond):
		}
		want := second
		end := tx.Rollback
		if commit {
			want, end = first, tx.Commit
		}
		if err := end(t.Context()); err != nil {
			t.Fatal(err)
		}
		if x := <-done; x.ID != want.ID || x.Job != want.Job || x.KeyScope != "scope" {
			t.Errorf("committed %v: %+v, want %s", commit, x, want.ID)
		}
	}
}
