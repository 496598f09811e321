package pgstore_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// counted opens a store and counts the statements by which it tells what is new.
func counted(t *testing.T, url string, opt *pgstore.Options) (*pgstore.Store, *atomic.Int64) {
	t.Helper()
	n := new(atomic.Int64)
	return traced(t, url, opt, func(name, _ string, _ []any) {
		if name == "notify/send" {
			n.Add(1)
		}
	}), n
}

// TestLoneNews has the statement that creates an execution tell of it, and a
// statement of its own where that was done just before, or took long.
func TestLoneNews(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	worker := open(t, url, nil)
	client, told := counted(t, url, nil)
	define(t, client, "job")
	set(t, client, "job.concurrency_limit", "0")
	pause := func() { time.Sleep(50 * time.Millisecond) }
	enqueue := func(want int64) {
		t.Helper()
		c := watched(t, worker)
		pause()
		before := told.Load()
		enqueueOne(t, client, newExecution("job"))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := worker.Await(ctx, []string{courier.DefaultQueue}, c.Mark); err != nil {
			t.Errorf("hear of it: %v", err)
		}
		pause()
		if got := told.Load() - before; got != want {
			t.Errorf("%d statements tell of it, want %d", got, want)
		}
		if c, err := worker.Claim(t.Context(), request("w", 5)); err != nil || len(c.List) != 1 {
			t.Errorf("claimed %v, %v", c.List, err)
		}
	}
	enqueue(0)

	// Something else may wake the worker, such as a probe that ends. So a held
	// execution wakes nobody if one of ten does not.
	for try := 1; wakes(t, worker, client); try++ {
		if try == 10 {
			t.Fatal("each of 10 held executions has woken the worker")
		}
	}

	pgstore.PauseInlineNotifications(client)
	enqueue(1)

	silent, sentSilently := counted(t, url, &pgstore.Options{PollOnly: true})
	enqueueOne(t, silent, newExecution("job"))
	pause()
	if n := sentSilently.Load(); n != 0 {
		t.Errorf("a store that only polls sent %d statements", n)
	}
}

// wakes reports whether the worker is woken while the client creates an execution
// that is held.
func wakes(t *testing.T, worker, client *pgstore.Store) bool {
	t.Helper()
	held := newExecution("job")
	held.Hold = true
	c := watched(t, worker)
	for pgstore.InlineNotificationIn(client) > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	enqueueOne(t, client, held)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := worker.Await(ctx, []string{courier.DefaultQueue}, c.Mark)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	return err == nil
}

// TestLoneNewsWait has two callers create something at once: the second does not
// wait for what the first tells.
func TestLoneNewsWait(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	client, told := counted(t, url, nil)
	pool := dial(t, url)
	define(t, client, "job")
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	first := newExecution("job")
	first.IdempotencyKey = "k"
	if _, err := client.EnqueueTx(t.Context(), tx, []store.NewExecution{first}); err != nil {
		t.Fatal(err)
	}
	second := newExecution("job")
	second.IdempotencyKey = "k"
	done := make(chan error)
	go func() {
		_, err := client.Enqueue(t.Context(), []store.NewExecution{second}) // waits for the transaction
		done <- err
	}()
	time.Sleep(100 * time.Millisecond)
	before := told.Load()
	enqueueOne(t, client, newExecution("job"))
	time.Sleep(50 * time.Millisecond)
	if got := told.Load() - before; got != 1 {
		t.Errorf("%d statements tell of what is created beside a statement that hangs, want one", got)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if pgstore.InlineNotificationIn(client) < 4*time.Second {
		t.Error("after a statement that took long, the next tells again itself")
	}
}
