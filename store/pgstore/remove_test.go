package pgstore_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store"
)

// TestRemoveBesideOpenTransaction shows that the removal of a job waits for a transaction that has
// created an execution of it and is open. If that commits, nothing was removed; if not, the job
// was. Meanwhile nothing is enqueued.
func TestRemoveBesideOpenTransaction(t *testing.T) {
	t.Parallel()
	for _, commit := range []bool{true, false} {
		s, pool := openPool(t, pgtest.URL(t), nil)
		define(t, s, "job")
		tx := begin(t, pool, pgx.ReadCommitted)
		n := newExecution("job")
		if _, err := s.EnqueueTx(t.Context(), tx, []store.NewExecution{n}); err != nil {
			t.Fatal(err)
		}
		removed := make(chan error)
		go func() {
			_, err := s.Save(t.Context(), store.Definition{Kind: store.Job, Name: "job", Body: json.RawMessage(store.Removal)})
			removed <- err
		}()
		for began := time.Now(); ; time.Sleep(time.Millisecond) {
			if d, err := s.Load(t.Context(), store.Job, "job", 0); err != nil {
				t.Fatal(err)
			} else if d.Removed() {
				break
			}
			if time.Since(began) > 20*time.Second {
				t.Fatal("the removal is not saved")
			}
		}
		if _, err := s.Enqueue(t.Context(), []store.NewExecution{newExecution("job")}); !errors.Is(err, courier.ErrNotFound) {
			t.Errorf("enqueued while it is removed: %v", err)
		}
		select {
		case err := <-removed:
			t.Errorf("the removal did not wait: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		if err := end(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-removed; errors.Is(err, courier.ErrConflict) != commit || err != nil && !commit {
			t.Errorf("committed %v: %v", commit, err)
		}
		d, err := s.Load(t.Context(), store.Job, "job", 0)
		if err != nil || d.Removed() == commit {
			t.Errorf("committed %v: %s, %v", commit, d.Body, err)
		}
		if _, err := s.Enqueue(t.Context(), []store.NewExecution{newExecution("job")}); (err == nil) != commit {
			t.Errorf("committed %v: enqueued afterwards: %v", commit, err)
		}
	}
}
