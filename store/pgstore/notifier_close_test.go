package pgstore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// TestCloseSendsNotifications makes each call that can make an execution claimable on a
// store that is closed at once, with its pool closed before or after it. Other stores
// receive the notification all the same, and Close waits no longer than it has to.
func TestCloseSendsNotifications(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	setup := open(t, url, nil)
	save(t, setup, store.Job, "j")
	save(t, setup, store.Chain, "c")
	for _, poolFirst := range []bool{false, true} {
		for _, tt := range tellingCalls {
			t.Run(fmt.Sprintf("%s_pool_first_%t", tt.name, poolFirst), func(t *testing.T) {
				id := courier.ExecutionID(idSource.New())
				if tt.before != nil {
					tt.before(t, setup, id)
				}
				heard := listenTo(t, url)
				pool, err := pgxpool.New(t.Context(), url)
				if err != nil {
					t.Fatal(err)
				}
				s, err := pgstore.New(t.Context(), pool, nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := tt.call(t.Context(), s, pool, id); err != nil {
					t.Fatal(err)
				}
				if poolFirst {
					pool.Close()
				}
				started := time.Now()
				s.Close()
				if took := time.Since(started); took > 3*time.Second {
					t.Errorf("Close took %v", took)
				}
				pool.Close()
				select {
				case <-heard:
				case <-time.After(2 * time.Second):
					t.Error("nobody has heard of it")
				}
			})
		}
	}
}

// save saves a definition.
func save(t *testing.T, s *pgstore.Store, kind store.Kind, name string) {
	t.Helper()
	if _, err := s.Save(t.Context(), store.Definition{Kind: kind, Name: name, Body: json.RawMessage(`{}`)}); err != nil {
		t.Fatal(err)
	}
}

// listenTo returns a channel that is sent to for each notification.
func listenTo(t *testing.T, url string) <-chan string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "listen courier_courier"); err != nil {
		t.Fatal(err)
	}
	heard, done := make(chan string, 100), make(chan struct{})
	t.Cleanup(func() {
		<-done
		_ = conn.Close(context.WithoutCancel(t.Context()))
	})
	go func() {
		defer close(done)
		for {
			n, err := conn.WaitForNotification(t.Context())
			if err != nil {
				return
			}
			heard <- n.Payload
		}
	}()
	return heard
}

// tellingCalls are the calls after which something may be claimable, for an
// execution that before has prepared.
var tellingCalls = []struct {
	name   string
	before func(t *testing.T, s *pgstore.Store, id courier.ExecutionID)
	call   func(ctx context.Context, s *pgstore.Store, pool *pgxpool.Pool, id courier.ExecutionID) error
}{
	{"enqueue", nil, func(ctx context.Context, s *pgstore.Store, _ *pgxpool.Pool, id courier.ExecutionID) error {
		_, err := s.Enqueue(ctx, []store.NewExecution{lone(id), lone(courier.ExecutionID(idSource.New()))})
		return err
	}},
	{"enqueue_in_transaction", nil, func(ctx context.Context, s *pgstore.Store, pool *pgxpool.Pool, id courier.ExecutionID) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := s.EnqueueTx(ctx, tx, []store.NewExecution{lone(id)})
			return err
		})
	}},
	{"release", held, func(ctx context.Context, s *pgstore.Store, _ *pgxpool.Pool, id courier.ExecutionID) error {
		_, err := s.Request(ctx, store.Request{Execution: id, Kind: courier.RequestRelease})
		return err
	}},
	{"resume", func(t *testing.T, s *pgstore.Store, id courier.ExecutionID) {
		t.Helper()
		_, err := s.Enqueue(t.Context(), []store.NewExecution{lone(id)})
		if err == nil {
			_, err = s.Request(t.Context(), store.Request{Execution: id, Kind: courier.RequestPause})
		}
		if err != nil {
			t.Fatal(err)
		}
	}, func(ctx context.Context, s *pgstore.Store, _ *pgxpool.Pool, id courier.ExecutionID) error {
		_, err := s.Request(ctx, store.Request{Execution: id, Kind: courier.RequestResume})
		return err
	}},
	{"set_limit", nil, func(ctx context.Context, s *pgstore.Store, _ *pgxpool.Pool, _ courier.ExecutionID) error {
		return s.Set(ctx, "job.concurrency_limit", "7")
	}},
	{"start_chain", nil, func(ctx context.Context, s *pgstore.Store, _ *pgxpool.Pool, id courier.ExecutionID) error {
		_, err := s.StartChains(ctx, []chain.NewExecution{{
			ID: courier.ChainExecutionID(idSource.New()), Chain: "c", Version: 1,
			Members: []chain.NewMember{{Name: "m", Execution: lone(id)}},
		}})
		return err
	}},
	{"put_schedule", nil, func(ctx context.Context, s *pgstore.Store, _ *pgxpool.Pool, id courier.ExecutionID) error {
		_, err := s.PutSchedule(ctx, schedule.Record{Name: string(id), Kind: store.Job, Target: "j", Body: json.RawMessage(`{}`)})
		return err
	}},
}

func lone(id courier.ExecutionID) store.NewExecution {
	return store.NewExecution{ID: id, Job: "j", Version: 1, Queue: "q", StepTypes: []string{"file.copy"}}
}

// held creates an execution that waits for its release.
func held(t *testing.T, s *pgstore.Store, id courier.ExecutionID) {
	t.Helper()
	x := lone(id)
	x.Hold = true
	if _, err := s.Enqueue(t.Context(), []store.NewExecution{x}); err != nil {
		t.Fatal(err)
	}
}
