package pgstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// defineOn saves a job that depends on others.
func defineOn(t testing.TB, s store.Store, job string, on ...string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"depends_on": on})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Save(t.Context(), store.Definition{Kind: store.Job, Name: job, Body: body}); err != nil {
		t.Fatal(err)
	}
}

// executionOn is an execution of a job that depends on others.
func executionOn(job string, on ...string) store.NewExecution {
	n := newExecution(job)
	for _, u := range on {
		n.DependsOn = append(n.DependsOn, courier.JobDependency{Job: u})
	}
	return n
}

func enqueueOne(t testing.TB, s store.Store, n store.NewExecution) courier.Execution {
	t.Helper()
	got, err := s.Enqueue(t.Context(), []store.NewExecution{n})
	if err != nil {
		t.Fatal(err)
	}
	return got[0].Execution
}

// becomesClaimable claims until it gets an execution, which it completes.
func becomesClaimable(t testing.TB, s store.Store, id courier.ExecutionID) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		got, err := s.Claim(t.Context(), request("w", 1))
		if err != nil {
			t.Fatal(err)
		}
		if len(got.List) == 1 && got.List[0].Execution.ID == id {
			if err := complete(t.Context(), s, got.List); err != nil {
				t.Fatal(err)
			}
			return
		}
		if len(got.List) > 0 || time.Now().After(deadline) {
			t.Fatalf("claimed %v, want %s", got.List, id)
		}
		ctx, cancel := context.WithTimeout(t.Context(), max(time.Millisecond, min(got.Next, time.Second)))
		_ = s.Await(ctx, []string{courier.DefaultQueue}, got.Mark)
		cancel()
	}
}

// TestReleaseAfterACrash shows that a claim lets through what the process that
// has ended the other execution did not come to.
func TestReleaseAfterACrash(t *testing.T) {
	s, pool := openPool(t, pgtest.URL(t), nil)
	define(t, s, "up")
	defineOn(t, s, "down", "up")
	down := enqueueOne(t, s, executionOn("down", "up"))
	up := enqueueOne(t, s, newExecution("up"))
	if _, err := pool.Exec(t.Context(), "update courier.job_executions set state = 'completed', ended_at = clock_timestamp() where id = $1", string(up.ID)); err != nil {
		t.Fatal(err)
	}
	becomesClaimable(t, s, down.ID)
}

// TestDependenciesInTransactions shows that what is created in a transaction of
// the caller's waits and is refused too, and can be claimed once it has committed.
func TestDependenciesInTransactions(t *testing.T) {
	s, pool := openPool(t, pgtest.URL(t), nil)
	define(t, s, "up")
	defineOn(t, s, "down", "up")
	tx := begin(t, pool, pgx.ReadCommitted)
	refusing := executionOn("down", "up")
	refusing.DependsOn[0].OnUnmet = courier.RefuseUnmet
	if _, err := s.EnqueueTx(t.Context(), tx, []store.NewExecution{refusing}); !errors.Is(err, courier.ErrConflict) {
		t.Fatalf("refused: %v", err)
	}
	n := executionOn("down", "up")
	got, err := s.EnqueueTx(t.Context(), tx, []store.NewExecution{n})
	if err != nil || len(got[0].Execution.Waits) != 1 {
		t.Fatalf("enqueued: %+v, %v", got, err)
	}
	up := enqueueOne(t, s, newExecution("up")) // and ended, before the transaction is over
	becomesClaimable(t, s, up.ID)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	becomesClaimable(t, s, n.ID)
	if _, err := s.Execution(t.Context(), refusing.ID); !errors.Is(err, courier.ErrNotFound) {
		t.Errorf("what was refused: %v", err)
	}
}

// TestMarksExecutionsBeingCreated shows that an execution counts that was created in
// a transaction that has started before anything depended on its job.
func TestMarksExecutionsBeingCreated(t *testing.T) {
	s, pool := openPool(t, pgtest.URL(t), nil)
	define(t, s, "up")
	becomesClaimable(t, s, enqueueOne(t, s, newExecution("up")).ID)
	tx := begin(t, pool, pgx.ReadCommitted)
	up := newExecution("up")
	if _, err := s.EnqueueTx(t.Context(), tx, []store.NewExecution{up}); err != nil {
		t.Fatal(err)
	}
	saved := make(chan struct{})
	go func() {
		defer close(saved)
		defineOn(t, s, "down", "up")
	}()
	select {
	case <-saved:
		t.Error("the job was saved while the transaction was open")
	case <-time.After(100 * time.Millisecond):
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-saved
	down := enqueueOne(t, s, executionOn("down", "up"))
	if len(down.Waits) != 1 || down.Waits[0].Execution != up.ID {
		t.Errorf("waits: %+v", down.Waits)
	}
	becomesClaimable(t, s, up.ID)
	becomesClaimable(t, s, down.ID)
}

// TestRetentionKeepsLatestExecutions shows that the most recent execution of a job that
// others depend on is not removed.
func TestRetentionKeepsLatestExecutions(t *testing.T) {
	s, _ := openPool(t, pgtest.URL(t), nil)
	define(t, s, "up", "other")
	defineOn(t, s, "down", "up")
	for range 3 {
		becomesClaimable(t, s, enqueueOne(t, s, newExecution("up")).ID)
		becomesClaimable(t, s, enqueueOne(t, s, newExecution("other")).ID)
	}
	time.Sleep(2 * time.Millisecond)
	if n, err := s.Retain(t.Context(), pgstore.Retention{MaxAge: time.Millisecond}); err != nil || n != 5 {
		t.Errorf("removed %d: %v", n, err)
	}
	becomesClaimable(t, s, enqueueOne(t, s, executionOn("down", "up")).ID)
}

// TestDependenciesAtOnce has two processes enqueue, end and cancel executions of
// jobs that depend on each other, all at once. Nothing that waits is stranded,
// and nothing began before its time.
func TestDependenciesAtOnce(t *testing.T) {
	u := pgtest.URL(t)
	s, pool := openPool(t, u, nil)
	stores := []*pgstore.Store{s, open(t, u, nil)}
	set(t, s, store.LimitSetting(""), "0")
	define(t, s, "a", "b")
	on := map[string][]string{"c": {"a"}, "d": {"a", "b"}, "e": {"c", "d"}}
	for _, job := range []string{"c", "d", "e"} {
		defineOn(t, s, job, on[job]...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var enqueuing, working sync.WaitGroup
	each := raced.Or(15, 40)
	for i := range 4 {
		r := rand.New(rand.NewPCG(7, uint64(i)))
		enqueuing.Go(func() {
			for range each {
				job := string("abcde"[r.IntN(5)])
				n := executionOn(job, on[job]...)
				var err error
				if r.IntN(4) == 0 {
					err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
						_, err := stores[i%2].EnqueueTx(ctx, tx, []store.NewExecution{n})
						time.Sleep(time.Duration(r.IntN(5)) * time.Millisecond)
						return err
					})
				} else {
					_, err = stores[i%2].Enqueue(ctx, []store.NewExecution{n})
				}
				if err == nil && r.IntN(8) == 0 {
					_, err = stores[i%2].Request(ctx, store.Request{Execution: n.ID, Kind: courier.RequestPause})
					if _, moved := errors.AsType[*courier.TransitionError](err); err == nil {
						_, err = stores[i%2].Request(ctx, store.Request{Execution: n.ID, Kind: courier.RequestResume})
					} else if moved {
						err = nil // it was faster
					}
					if _, moved := errors.AsType[*courier.TransitionError](err); moved {
						err = nil
					}
				}
				if err != nil {
					t.Errorf("enqueue %s: %v", job, err)
				}
			}
		})
	}
	stop := make(chan struct{})
	for i := range 4 {
		r := rand.New(rand.NewPCG(8, uint64(i)))
		working.Go(func() {
			for ctx.Err() == nil {
				got, err := stores[i%2].Claim(ctx, request(fmt.Sprint("w", i), 3))
				if err != nil {
					t.Errorf("claim: %v", err)
					return
				}
				for k := range got.List {
					to := courier.Completed
					if r.IntN(5) == 0 {
						to = courier.Failed
					}
					end := endOf(&got.List[k], to)
					if to == courier.Failed {
						end.Failure = &courier.Failure{Message: "boom"}
					}
					if err := stores[i%2].Apply(ctx, end); errors.Is(err, courier.ErrConflict) { // it is to pause
						end.To, end.Request, end.Failure = courier.Paused, courier.RequestPause, nil
						if err = stores[i%2].Apply(ctx, end); err == nil {
							_, err = stores[i%2].Request(ctx, store.Request{Execution: end.Execution, Kind: courier.RequestResume})
						}
						if _, moved := errors.AsType[*courier.TransitionError](err); err != nil && !moved && !errors.Is(err, courier.ErrConflict) {
							t.Errorf("pause: %v", err)
						}
					} else if err != nil {
						t.Errorf("end: %v", err)
					}
				}
				select {
				case <-stop:
					if len(got.List) == 0 {
						return
					}
				default:
				}
				if len(got.List) == 0 {
					time.Sleep(2 * time.Millisecond)
				}
			}
		})
	}
	enqueuing.Wait()
	// The last of each job completes, so that nothing waits in the end.
	for _, job := range []string{"a", "b", "c", "d", "e"} {
		for done := false; !done && ctx.Err() == nil; {
			x := enqueueOne(t, s, executionOn(job, on[job]...))
			for x.State = courier.Queued; !x.State.Ended() && ctx.Err() == nil; {
				time.Sleep(5 * time.Millisecond)
				var err error
				if x, err = s.Execution(ctx, x.ID); err != nil {
					t.Fatalf("execution of %s: %v", job, err)
				}
				if x.State == courier.Paused {
					_, _ = s.Request(ctx, store.Request{Execution: x.ID, Kind: courier.RequestResume})
				}
			}
			done = x.State == courier.Completed
		}
	}
	for left := 1; left > 0 && ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		list, err := s.Executions(ctx, store.Filter{States: []courier.State{courier.Queued, courier.Running}, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		left = len(list)
	}
	if ctx.Err() != nil {
		list, err := s.Executions(t.Context(), store.Filter{States: []courier.State{courier.Queued, courier.Running, courier.Paused}, Limit: 1000})
		t.Errorf("it never came to an end: %+v, %v", list, err)
	}
	close(stop)
	working.Wait()
	checkBegins(t, s, on)
}

// checkBegins shows of all executions that there was an instant, between their
// creation and their begin, at which the most recent executions of all jobs that
// theirs depends on had completed.
func checkBegins(t *testing.T, s store.Store, on map[string][]string) {
	t.Helper()
	// A commit comes some time after the instants that it writes.
	const slack = 100 * time.Millisecond
	list, err := s.Executions(t.Context(), store.Filter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, x := range list {
		if x.StartedAt.IsZero() || len(on[x.Job]) == 0 {
			continue
		}
		checked++
		for _, job := range on[x.Job] {
			ok := false
			for _, u := range list {
				// One that has completed, and a time after that until the next one was created.
				if u.Job != job || u.State != courier.Completed || u.EndedAt.After(x.StartedAt) {
					continue
				}
				next := x.StartedAt
				for _, later := range list {
					if later.Job == job && (later.CreatedAt.After(u.CreatedAt) || later.CreatedAt.Equal(u.CreatedAt) && later.ID > u.ID) && later.CreatedAt.Before(next) {
						next = later.CreatedAt
					}
				}
				ok = ok || next.Add(slack).After(u.EndedAt) && next.Add(slack).After(x.CreatedAt)
			}
			if !ok {
				t.Errorf("execution %s of %s began at %v without one of %s", x.ID, x.Job, x.StartedAt, job)
			}
		}
	}
	if checked == 0 {
		t.Error("nothing began")
	}
}
