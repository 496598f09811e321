package pgstore_test

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store"
)

var deadFlag = flag.Int("dead", 20_000, "how many executions end beside the old snapshot of TestTakeoverBesideOldSnapshot")

// TestTakeoverBesideOldSnapshot: a worker dies while somebody holds a snapshot that is older than
// all executions that have ended since, each with index entries that can't be removed. Another
// worker, which has other work all the time, takes over soon after the lease has ended. The one
// that died has held its execution since before the snapshot.
func TestTakeoverBesideOldSnapshot(t *testing.T) {
	u := pgtest.URL(t)
	s, pool := unlimited(t, u), dial(t, u)
	job := defined(t, s, pool, "j")
	held := newExecution("j")
	// Its id is lower than those of the others, which are made as if an hour ago.
	long := fmt.Sprintf("%012x", time.Now().Add(-2*time.Hour).UnixMilli())
	held.ID = courier.ExecutionID(long[:8] + "-" + long[8:] + string(held.ID)[13:])
	enqueueOne(t, s, held)
	dead := request("dead", 1)
	dead.Lease = time.Minute
	got, err := s.Claim(t.Context(), dead)
	if err != nil || len(got.List) != 1 {
		t.Fatal(got.List, err)
	}
	lease := store.RenewRequest{Worker: dead.Worker, For: 3 * time.Second, Leases: []store.Lease{{Execution: held.ID, Token: got.List[0].Token}}}
	alive, die := context.WithCancel(t.Context())
	defer die()
	died := make(chan time.Time, 1)
	go func() { // as an engine does
		var last time.Time
		for alive.Err() == nil {
			last = time.Now()
			if list, err := s.Renew(t.Context(), lease); err != nil || len(list) != 1 {
				t.Errorf("the lease of the one that is to die: %v, %v", list, err)
				break
			}
			select {
			case <-time.After(lease.For / 3):
			case <-alive.Done():
			}
		}
		died <- last
	}()
	snapshot, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snapshot.Rollback(context.WithoutCancel(t.Context()))
	if _, err := snapshot.Exec(t.Context(), "set transaction isolation level repeatable read; select txid_current()", pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	for left := *deadFlag; left > 0; left -= 100_000 {
		past{job: job, state: "queued", count: min(left, 100_000), created: time.Hour}.make(t, pool)
		exec(t, pool, "update courier.job_executions set state = 'running', lease_expires_at = now(), lease_token = id where state = 'queued'")
		exec(t, pool, "update courier.job_executions set state = 'completed', lease_expires_at = null where state = 'running' and id <> $1", string(held.ID))
	}
	survivor := open(t, u, nil)
	ctx, stop := context.WithCancel(t.Context())
	enqueued := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if _, err := s.Enqueue(ctx, []store.NewExecution{newExecution("j")}); err != nil && ctx.Err() == nil {
				enqueued <- err
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		enqueued <- nil
	}()
	r := request("survivor", 10)
	r.Lease = time.Hour
	claimed, slowest := 0, time.Duration(0)
	claims := func() (over bool) {
		began := time.Now()
		got, err := survivor.Claim(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		slowest = max(slowest, time.Since(began))
		for _, c := range got.List {
			claimed++
			over = over || c.Execution.ID == held.ID
		}
		if len(got.List) == 0 {
			time.Sleep(5 * time.Millisecond)
		}
		return over
	}
	for began := time.Now(); time.Since(began) < 2*time.Second || claimed < 50; {
		if claims() {
			t.Fatal("it was taken over too early")
		}
		if time.Since(began) > 5*time.Minute {
			t.Fatalf("%d executions were claimed", claimed)
		}
	}
	die()
	ends := (<-died).Add(lease.For)
	t.Logf("%d claimed before, the slowest claim took %v", claimed, slowest)
	slowest = 0
	for !claims() {
		if time.Since(ends) > 5*time.Minute {
			t.Fatal("nobody has taken over")
		}
	}
	late := time.Since(ends)
	t.Logf("taken over %v after the end of the lease, with %d executions since the snapshot; the slowest claim took %v", late, *deadFlag, slowest)
	if late < -100*time.Millisecond || late > 5*time.Second {
		t.Errorf("taken over %v after the end of the lease", late)
	}
	stop()
	if err := <-enqueued; err != nil {
		t.Error(err)
	}
}
