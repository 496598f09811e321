package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/internal/uuid7"
	"github.com/courierhq/courier/store"
)

// TestRetentionInBackground has two processes that remove in the background.
func TestRetentionInBackground(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := Migrate(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	s, err := New(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Save(t.Context(), store.Definition{Kind: store.Job, Name: "j", Body: json.RawMessage(`{}`)}); err != nil {
		t.Fatal(err)
	}
	var ids uuid7.Source
	cancelled := func() {
		t.Helper()
		for range 3 {
			id := courier.ExecutionID(ids.New())
			if _, err := s.Enqueue(t.Context(), []store.NewExecution{{ID: id, Job: "j", Version: 1, Queue: "q"}}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Request(t.Context(), store.Request{Execution: id, Kind: courier.RequestCancel}); err != nil {
				t.Fatal(err)
			}
		}
	}
	count := func() (n int) {
		t.Helper()
		if err := pool.QueryRow(t.Context(), "select count(*) from courier.job_executions").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	r := Retention{MaxCount: 1}

	// Somebody else is at it.
	cancelled()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	var locked bool
	if err := tx.QueryRow(t.Context(), s.sql("retention/begin_transaction"), true, s.retainLock()).Scan(&locked, nil, nil, nil, nil, nil); err != nil || !locked {
		t.Fatalf("the lock: %v, %v", locked, err)
	}
	if n, err := s.retain(t.Context(), r, true); n != 0 || err != nil || count() != 3 {
		t.Errorf("removed %d, %v in the background while another process did; want none", n, err)
	}
	if n, err := s.retain(t.Context(), r, false); n != 2 || err != nil {
		t.Errorf("removed %d, %v on demand; want 2, whoever else removes", n, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}

	for range 2 {
		s, err := New(t.Context(), pool, &Options{Retention: r, RetainEvery: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
	}
	for range 3 {
		cancelled()
		for n := 0; count() != 1; n++ {
			if n == 10_000 {
				t.Fatalf("%d executions are left, want 1", count())
			}
		}
	}
	if _, err := New(t.Context(), pool, &Options{Retention: Retention{MaxAge: -1}}); !errors.Is(err, courier.ErrInvalid) {
		t.Errorf("a store with a retention that makes no sense: %v, want ErrInvalid", err)
	}
}
