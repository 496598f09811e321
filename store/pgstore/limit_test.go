package pgstore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/internal/uuid7"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

var claimsFlag = flag.Int("claims", raced.Or(10_000, 100_000), "how many executions TestLimitStress claims")

// openPool is open, with the pool for what a test looks at itself.
func openPool(t testing.TB, url string, opt *pgstore.Options) (*pgstore.Store, *pgxpool.Pool) {
	t.Helper()
	s := open(t, url, opt)
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return s, pool
}

// request is what a worker claims.
func request(worker string, most int) store.ClaimRequest {
	return store.ClaimRequest{
		Worker: worker, Workspace: "here", StepTypes: []string{"a"}, Queues: []string{courier.DefaultQueue}, Max: most, Lease: time.Minute,
	}
}

var ids uuid7.Source

// newExecution is an execution of the first version of a job.
func newExecution(job string) store.NewExecution {
	return store.NewExecution{
		ID: courier.ExecutionID(ids.New()), Job: job, Version: 1, StepTypes: []string{"a"}, Queue: courier.DefaultQueue,
	}
}

// define saves the first version of jobs.
func define(t testing.TB, s store.Store, jobs ...string) {
	t.Helper()
	for _, job := range jobs {
		if _, err := s.Save(t.Context(), store.Definition{Kind: store.Job, Name: job, Body: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
}

func set(t testing.TB, s store.Store, key, value string) {
	t.Helper()
	if err := s.Set(t.Context(), key, value); err != nil {
		t.Fatal(err)
	}
}

// TestOverlappingClaims is the transcript that breaks a claim which counts in
// the statement that claims: while one claim has not committed, another counts.
func TestOverlappingClaims(t *testing.T) {
	t.Parallel()
	s, pool := openPool(t, pgtest.URL(t), nil)
	define(t, s, "job")
	var list []store.NewExecution
	for range 8 {
		list = append(list, newExecution("job"))
	}
	if _, err := s.Enqueue(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	if c, err := s.Claim(t.Context(), request("first", 4)); err != nil || len(c.List) != 4 {
		t.Fatalf("%d claimed, error %v", len(c.List), err)
	}
	// A claim of a fifth that hangs before its commit: it holds the lock that claims
	// take, and has changed a row, which is not the first that waits.
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	var key int64
	if err := tx.QueryRow(t.Context(), "select pg_advisory_xact_lock(l), l from (select $1::bigint as l) x", pgstore.ClaimLock(pgstore.DefaultSchema)).Scan(nil, &key); err != nil {
		t.Fatal(err)
	}
	tag, err := tx.Exec(t.Context(), `update courier.job_executions set state = 'running', lease_token = gen_random_uuid(), lease_expires_at = now() + interval '1 minute'
		where id = (select id from courier.job_executions where state = 'queued' order by due_at desc, id desc limit 1)`)
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatal(tag, err)
	}
	got := make(chan int)
	go func() {
		c, err := s.Claim(context.Background(), request("second", 4))
		if err != nil {
			t.Error(err)
		}
		got <- len(c.List)
	}()
	select {
	case n := <-got:
		t.Fatalf("a claim of %d did not wait for the one that has not committed", n)
	case <-time.After(200 * time.Millisecond):
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := <-got; n != 0 {
		t.Errorf("%d were claimed beyond the limit of 5", n)
	}
}

// TestClaimOfResumed has an execution paused and resumed while a claim
// that has seen it before waits for its row.
func TestClaimOfResumed(t *testing.T) {
	t.Parallel()
	s, pool := openPool(t, pgtest.URL(t), nil)
	define(t, s, "job")
	set(t, s, "job.concurrency_limit.key:any", "1")
	var n store.NewExecution
	for range 2 {
		n = newExecution("job")
		if _, err := s.Enqueue(t.Context(), []store.NewExecution{n}); err != nil {
			t.Fatal(err)
		}
	}
	// Now the store knows of limits, so that claims lock no row before they take it.
	if c, err := s.Claim(t.Context(), request("worker", 1)); err != nil || len(c.List) != 1 {
		t.Fatal(c, err)
	}
	tx := begin(t, pool, pgx.ReadCommitted)
	if _, err := tx.Exec(t.Context(), "select from courier.job_executions where id = $1 for update", string(n.ID)); err != nil {
		t.Fatal(err)
	}
	got := make(chan store.Claims)
	go func() {
		c, err := s.Claim(context.Background(), request("worker", 1))
		if err != nil {
			t.Error(err)
		}
		got <- c
	}()
	blocked := func() bool {
		var n int
		err := pool.QueryRow(t.Context(), "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'").Scan(&n)
		return err == nil && n > 0
	}
	for started := time.Now(); !blocked(); time.Sleep(5 * time.Millisecond) {
		if time.Since(started) > 10*time.Second {
			t.Fatal("the claim does not wait for the row")
		}
	}
	if _, err := tx.Exec(t.Context(), "update courier.job_executions set state_since = clock_timestamp() + interval '1 hour' where id = $1", string(n.ID)); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := <-got
	second, err := s.Claim(t.Context(), request("worker", 1))
	if err != nil {
		t.Fatal(err)
	}
	if len(first.List)+len(second.List) != 1 {
		t.Errorf("%d and %d claimed, want one in all", len(first.List), len(second.List))
	}
	audit, err := s.Audit(t.Context(), store.AuditFilter{Execution: n.ID})
	if err != nil || len(audit) != 2 {
		t.Fatalf("%d audit entries, error %v, want 2", len(audit), err)
	}
	if audit[1].Elapsed != 0 {
		t.Errorf("claimed %v after a state that begins in the future", audit[1].Elapsed)
	}
}

// TestLimitStress has 16 pollers on 4 stores claim from a queue, and counts what
// runs after each claim. For a night: -claims 1000000 -timeout 0.
func TestLimitStress(t *testing.T) {
	t.Parallel()
	const pollers, global, perJob, perKey = 16, 1500, 600, 450
	url := pgtest.URL(t)
	first, pool := openPool(t, url, nil)
	stores := []*pgstore.Store{first}
	for range 3 {
		stores = append(stores, open(t, url, nil))
	}
	jobs := []string{"a", "b", "c", "d"}
	define(t, first, jobs...)
	set(t, first, "job.concurrency_limit", fmt.Sprint(global))
	set(t, first, "job.concurrency_limit.job:a", fmt.Sprint(perJob))
	set(t, first, "job.concurrency_limit.key:k", fmt.Sprint(perKey))
	var claimed, wrong, most atomic.Int64
	total := int64(*claimsFlag)
	feed := func(n int) error {
		list := make([]store.NewExecution, n)
		for i := range list {
			list[i] = newExecution(jobs[rand.N(len(jobs))])
			if rand.N(3) == 0 {
				list[i].LimitKeys = []string{"k"}
			}
		}
		_, err := first.Enqueue(t.Context(), list)
		return err
	}
	look := func(ctx context.Context) error {
		var all, ofJob, ofKey int64
		err := pool.QueryRow(ctx, `select count(*), count(*) filter (where definition_id = (select id from courier.job_definitions where name = 'a')),
			count(*) filter (where 'k' = any(limit_keys)) from courier.job_executions where state = 'running'`).Scan(&all, &ofJob, &ofKey)
		most.Store(max(most.Load(), all))
		if all > global || ofJob > perJob || ofKey > perKey {
			wrong.Add(1)
			return fmt.Errorf("%d run, %d of the job, %d of the key", all, ofJob, ofKey)
		}
		return err
	}
	if err := feed(10000); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range pollers {
		wg.Go(func() {
			s := stores[i%len(stores)]
			var held []store.Claimed // from one claim to the next, so that there is seldom room
			for claimed.Load() < total && wrong.Load() == 0 {
				c, err := s.Claim(t.Context(), request(fmt.Sprint("w", i), 1+15*i))
				if err == nil && len(c.List) > 0 && i%4 == 0 {
					err = look(t.Context())
				}
				if err == nil {
					err = complete(t.Context(), s, held)
				}
				held = c.List
				if before := claimed.Add(int64(len(c.List))) - int64(len(c.List)); err == nil && before/5000 != claimed.Load()/5000 {
					err = feed(5000)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
			if err := complete(t.Context(), s, held); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	t.Logf("%d claimed, at most %d at once, %d violations", claimed.Load(), most.Load(), wrong.Load())
	if most.Load() < global/2 {
		t.Errorf("never more than %d of %d ran: the limits were not put to the test", most.Load(), global)
	}
}

// complete ends executions that were claimed.
func complete(ctx context.Context, s store.Store, list []store.Claimed) error {
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i := range list {
		wg.Go(func() {
			c := &list[i]
			errs[i] = s.Apply(ctx, store.Transition{Execution: c.Execution.ID, Lease: c.Token, Seq: c.Seq + 1, To: courier.Completed})
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// TestDeadlocks mixes claims, progress, renewals and operators on the same
// executions: no call fails, and the server has seen no deadlock.
func TestDeadlocks(t *testing.T) {
	t.Parallel()
	s, pool := openPool(t, pgtest.URL(t), &pgstore.Options{Writers: 4})
	define(t, s, "job")
	set(t, s, "job.concurrency_limit", "0")
	var list []store.NewExecution
	for range 400 {
		list = append(list, newExecution("job"))
	}
	if _, err := s.Enqueue(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	c, err := s.Claim(t.Context(), request("w", 400))
	if err != nil || len(c.List) != 400 {
		t.Fatal(len(c.List), err)
	}
	end := time.Now().Add(3 * time.Second)
	var wg sync.WaitGroup
	for i := range c.List {
		wg.Go(func() {
			x, seq := &c.List[i], c.List[i].Seq
			for n := 0; time.Now().Before(end); n++ {
				tr := store.Transition{Execution: x.Execution.ID, Lease: x.Token, Seq: seq + 1, To: courier.Running,
					Start: &courier.StepExecution{Step: n, Attempt: 1, Type: "a"}}
				if n > 0 {
					tr.Ended = []courier.StepExecution{{Step: n - 1, Attempt: 1, Type: "a", State: courier.StepCompleted}}
				}
				switch err := s.Apply(t.Context(), tr); {
				case errors.Is(err, courier.ErrConflict): // a pause is asked for, until the resume
					n--
				case err != nil:
					t.Errorf("apply: %v", err)
					return
				default:
					seq += 1 + int64(len(tr.Ended))
				}
			}
		})
	}
	for range 3 {
		wg.Go(func() {
			for time.Now().Before(end) {
				r := store.RenewRequest{Worker: "w", For: time.Minute}
				for _, i := range rand.Perm(len(c.List)) {
					r.Leases = append(r.Leases, store.Lease{Execution: c.List[i].Execution.ID, Token: c.List[i].Token})
				}
				if got, err := s.Renew(t.Context(), r); err != nil || len(got) != len(r.Leases) {
					t.Errorf("renew: %d of %d, error %v", len(got), len(r.Leases), err)
				}
			}
		})
		wg.Go(func() {
			for time.Now().Before(end) {
				id := c.List[rand.N(len(c.List))].Execution.ID
				for _, kind := range []courier.RequestKind{courier.RequestPause, courier.RequestResume} {
					_, err := s.Request(t.Context(), store.Request{Execution: id, Kind: kind})
					if err != nil && !errors.Is(err, courier.ErrConflict) {
						t.Errorf("ask: %v", err)
					}
				}
			}
		})
	}
	wg.Wait()
	var deadlocks int
	if err := pool.QueryRow(t.Context(), "select deadlocks from pg_stat_database where datname = current_database()").Scan(&deadlocks); err != nil || deadlocks > 0 {
		t.Errorf("%d deadlocks, error %v", deadlocks, err)
	}
}
