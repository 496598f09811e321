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

// counted opens a store and counts its statements that only send notifications.
func counted(t *testing.T, url string, opt *pgstore.Options) (*pgstore.Store, *atomic.Int64) {
	t.Helper()
	n := new(atomic.Int64)
	return traced(t, url, opt, func(name, _ string, _ []any) {
		if name == "notify/send" {
			n.Add(1)
		}
	}), n
}

// TestInlineNotification checks that the INSERT of a single Enqueue sends its own
// notification, and that a store with PollOnly sends none.
func TestInlineNotification(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	worker := open(t, url, nil)
	client, sent := counted(t, url, nil)
	define(t, client, "job")
	set(t, client, "job.concurrency_limit", "0")
	pause := func() { time.Sleep(50 * time.Millisecond) }
	c := watched(t, worker)
	pause()
	before := sent.Load()
	enqueueOne(t, client, newExecution("job"))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := worker.Await(ctx, []string{courier.DefaultQueue}, c.Mark); err != nil {
		t.Errorf("Await after an Enqueue by another store: %v", err)
	}
	pause()
	if got := sent.Load() - before; got != 0 {
		t.Errorf("%d statements sent notifications, want none besides the INSERT", got)
	}
	if c, err := worker.Claim(t.Context(), request("w", 5)); err != nil || len(c.List) != 1 {
		t.Errorf("claimed %v, %v", c.List, err)
	}
	// Something else may wake the worker, such as a probe that ends. So the test fails
	// only if each of ten held executions wakes it.
	for try := 1; wakes(t, worker, client); try++ {
		if try == 10 {
			t.Fatal("each of 10 held executions has woken the worker")
		}
	}
	silent, sentSilently := counted(t, url, &pgstore.Options{PollOnly: true})
	enqueueOne(t, silent, newExecution("job"))
	pause()
	if n := sentSilently.Load(); n != 0 {
		t.Errorf("a store with PollOnly sent %d notifications", n)
	}
}

// wakes reports whether the worker is woken when the client creates an execution that
// is held.
func wakes(t *testing.T, worker, client *pgstore.Store) bool {
	t.Helper()
	held := newExecution("job")
	held.Hold = true
	c := watched(t, worker)
	time.Sleep(50 * time.Millisecond) // the next INSERT may send a notification again
	enqueueOne(t, client, held)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := worker.Await(ctx, []string{courier.DefaultQueue}, c.Mark)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	return err == nil
}

// TestInlineNotificationSlow checks that an Enqueue sends its notification in a
// statement of its own while an INSERT that sends one hangs, and for some seconds
// after that.
func TestInlineNotificationSlow(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	client, sent := counted(t, url, nil)
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
	enqueue := func(when string) {
		t.Helper()
		before := sent.Load()
		enqueueOne(t, client, newExecution("job"))
		time.Sleep(50 * time.Millisecond)
		if got := sent.Load() - before; got != 1 {
			t.Errorf("%s %d statements sent notifications, want 1", when, got)
		}
	}
	enqueue("while an INSERT hangs,")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	enqueue("after an INSERT that took long,")
}
