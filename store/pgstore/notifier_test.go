package pgstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/pgproxy"
	"github.com/courierhq/courier/internal/test/pgstoretest"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/steps/file"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// through returns a proxy before the server of a URL, and the URL through it.
func through(t testing.TB, url string) (*pgproxy.Proxy, string) {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	p := pgproxy.New(t, fmt.Sprintf("%s:%d", config.ConnConfig.Host, config.ConnConfig.Port))
	proxied, err := p.URL(url)
	if err != nil {
		t.Fatal(err)
	}
	return p, proxied
}

// watched waits until a store vouches for its notifications.
func watched(t testing.TB, s *pgstore.Store) store.Claims {
	t.Helper()
	for range 500 {
		c, err := s.Claim(t.Context(), request("w", 1))
		if err != nil {
			t.Fatal(err)
		}
		if c.Watched > 0 {
			return c
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_ = s.Await(ctx, []string{courier.DefaultQueue}, c.Mark)
		cancel()
	}
	t.Fatal("the store's own notifications do not arrive")
	return store.Claims{}
}

// TestNotificationsOfOtherStores checks that the calls of one store wake the workers of
// another.
func TestNotificationsOfOtherStores(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	worker, client := open(t, url, nil), open(t, url, nil)
	define(t, client, "job")
	for _, news := range []struct {
		name string
		f    func() error
	}{
		{"an execution", func() error {
			_, err := client.Enqueue(t.Context(), []store.NewExecution{newExecution("job")})
			return err
		}},
		{"a limit", func() error { return client.Set(t.Context(), "job.concurrency_limit", "7") }},
	} {
		c := watched(t, worker)
		if err := news.f(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if err := worker.Await(ctx, []string{courier.DefaultQueue}, c.Mark); err != nil {
			t.Errorf("%s of another process: %v", news.name, err)
		}
		cancel()
	}
}

// TestWakeDelay has many workers wait for one execution: few go for it. How many
// depends on how long a claim takes, so no other test runs beside it.
func TestWakeDelay(t *testing.T) {
	const workers, most = 30, 3
	url := pgtest.URL(t)
	client := open(t, url, nil)
	define(t, client, "job")
	set(t, client, "job.concurrency_limit", "0")
	var claims, got atomic.Int64
	var ready, done sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for i := range workers {
		s := open(t, url, &pgstore.Options{Writers: 1})
		ready.Add(1)
		done.Go(func() {
			c := watched(t, s)
			time.Sleep(500 * time.Millisecond) // until it has heard of the others
			c, err := s.Claim(ctx, request("w", 5))
			ready.Done()
			for err == nil && s.Await(ctx, []string{courier.DefaultQueue}, c.Mark) == nil {
				claims.Add(1)
				if c, err = s.Claim(ctx, request(fmt.Sprint("w", i), 5)); err == nil {
					got.Add(int64(len(c.List)))
				}
			}
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	ready.Wait()
	sum := int64(0)
	const rounds = 20
	for n := range int64(rounds) {
		claims.Store(0)
		if _, err := client.Enqueue(t.Context(), []store.NewExecution{newExecution("job")}); err != nil {
			t.Fatal(err)
		}
		for range 200 {
			if got.Load() > n {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(250 * time.Millisecond)
		sum += claims.Load()
	}
	stop()
	done.Wait()
	t.Logf("%d workers, %d executions, %d claims", workers, got.Load(), sum)
	if got.Load() != rounds {
		t.Errorf("%d of %d executions were claimed", got.Load(), rounds)
	}
	if sum > most*rounds {
		t.Errorf("%d claims for %d executions, more than %d each", sum, rounds, most)
	}
}

// TestIdle counts what an idle engine sends, also if each answer is late.
func TestIdle(t *testing.T) {
	for _, c := range []struct {
		name, limit string
		late        time.Duration
	}{
		{"limit", "5", 0},
		{"no limit", "0", 0},
		{"late", "5", 10 * time.Millisecond},
		{"late and no limit", "0", 10 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			idle(t, c.limit, c.late)
		})
	}
}

// nothing is a step that does nothing.
type nothing struct{}

func (nothing) Execute(context.Context, *courier.Context, struct{}) (struct{}, error) {
	return struct{}{}, nil
}

func idle(t *testing.T, limit string, late time.Duration) {
	p, url := through(t, pgtest.URL(t))
	seen := sniff(p)
	seen.answerLate(late)
	s := open(t, url, nil)
	if err := s.Set(t.Context(), store.LimitSetting(""), limit); err != nil {
		t.Fatal(err)
	}
	var reg courier.Registry
	courier.Register(&reg, "test.nothing", nothing{}, nil)
	e := engine.New(s, &reg, &engine.Options{
		Workspace: t.TempDir(), Listers: map[string]courier.Lister{"file": file.NewLister(nil, nil)},
	})
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	job := courier.Job{Name: "job", Steps: []courier.StepSpec{{ID: "a", Type: "test.nothing"}}}
	if _, err := e.Jobs().Define(t.Context(), job, nil); err != nil {
		t.Fatal(err)
	}
	watched(t, s)
	for range 10 { // it has had work
		x, err := e.Enqueue(t.Context(), "job", nil)
		if err == nil {
			_, err = e.Wait(t.Context(), x.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const quiet, watch = 5 * time.Second, time.Minute
	for started := time.Now(); seen.count() > 0; time.Sleep(quiet) {
		if time.Since(started) > watch {
			t.Fatalf("it does not become quiet:\n%s", seen)
		}
		seen.restart()
	}
	seen.restart()
	time.Sleep(watch)
	n := seen.count() // the stop has a statement of its own
	if err := e.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d statements in %v", n, watch)
	const most = 11 // two of them, in one round trip, for the figures of the hour
	if n > most {
		t.Errorf("%d statements in %v, want at most %d:\n%s", n, watch, most, seen)
	}
	if n == 0 {
		t.Error("no statement at all: an idle engine has to look now and then")
	}
}

// TestDeadListener cuts the listening connection off without a sign: work is
// still found, and the store listens again.
func TestDeadListener(t *testing.T) {
	t.Parallel()
	direct := pgtest.URL(t)
	p, url := through(t, direct)
	worker, client := open(t, url, nil), open(t, direct, nil)
	define(t, client, "job")
	watched(t, worker)
	var listening atomic.Int64
	p.OnMessage(func(m pgproxy.Message) pgproxy.Action {
		if m.FromServer && m.Type == 'A' { // a notification
			listening.Store(int64(m.Conn))
			return pgproxy.Stall
		}
		return pgproxy.Pass
	})
	if _, err := client.Enqueue(t.Context(), []store.NewExecution{newExecution("job")}); err != nil {
		t.Fatal(err)
	}
	if c, err := worker.Claim(t.Context(), request("w", 5)); err != nil || len(c.List) != 1 {
		t.Fatalf("%d claimed, error %v", len(c.List), err)
	}
	for end := time.Now().Add(40 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		c, err := worker.Claim(t.Context(), request("w", 5))
		if err != nil {
			t.Fatal(err)
		}
		if c.Watched == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the store vouches for notifications that do not arrive")
		}
	}
	p.OnMessage(func(pgproxy.Message) pgproxy.Action { return pgproxy.Pass })
	p.Release()
	started := time.Now()
	for {
		if c, err := worker.Claim(t.Context(), request("w", 5)); err != nil || c.Watched > 0 {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if time.Since(started) > 60*time.Second {
			t.Fatal("the store does not listen again")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_ = worker.Await(ctx, []string{courier.DefaultQueue}, 1<<62)
		cancel()
	}
	t.Logf("listens again after %v", time.Since(started))
}

// TestRenewWithABusyPool takes all connections of the pool for several leases.
func TestRenewWithABusyPool(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, pool := pgstoretest.Open(t, url+"&pool_max_conns=2")
	const lease = 2 * time.Second
	started, release := make(chan struct{}), make(chan struct{})
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "test.wait", func(ctx context.Context, _ *courier.Context, _ struct{}) (none struct{}, err error) {
		close(started)
		select {
		case <-release:
		case <-ctx.Done():
		}
		return none, context.Cause(ctx)
	}, nil)
	e := engine.New(s, reg, &engine.Options{Workspace: t.TempDir(), Lease: lease})
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer e.Stop(context.Background())
	if _, err := e.Jobs().Define(t.Context(), courier.Job{Name: "job", Steps: []courier.StepSpec{{Type: "test.wait"}}}, nil); err != nil {
		t.Fatal(err)
	}
	x, err := e.Enqueue(t.Context(), "job", nil)
	if err != nil {
		t.Fatal(err)
	}
	<-started
	var held []*pgxpool.Conn
	for range 2 {
		c, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	time.Sleep(3 * lease)
	for _, c := range held {
		c.Release()
	}
	close(release)
	if x, err = e.Wait(t.Context(), x.ID); err != nil || x.State != courier.Completed {
		t.Fatal(x.State, err)
	}
	steps, err := s.Steps(t.Context(), store.StepFilter{Execution: x.ID})
	if err != nil || len(steps) != 1 || steps[0].Attempt != 1 {
		t.Errorf("steps %v, error %v: the lease was lost", steps, err)
	}
}
