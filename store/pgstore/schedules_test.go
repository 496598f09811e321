package pgstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// idleSchedules are many schedules of which none is due.
const idleSchedules = 50_000

// TestDuePlan has many schedules, and checks how the server finds those that
// are due: by the index, reading no more than with few.
func TestDuePlan(t *testing.T) {
	u := pgtest.URL(t)
	s, sent := recorded(t, u)
	pool := dial(t, u)
	define(t, s, "j")
	read := func(most int) int {
		t.Helper()
		if d, err := s.DueSchedules(t.Context(), most, time.Minute); err != nil || len(d.List) > most {
			t.Fatalf("%d are due, %v", len(d.List), err)
		}
		return pages(t, pool, sent)["schedule/lease_due"]
	}
	empty := read(1000)
	exec(t, pool, "alter table courier.job_schedules set (autovacuum_enabled = off)")
	exec(t, pool, fmt.Sprintf(`insert into courier.job_schedules (name, target, body, saved_at, revision, disabled, paused, waiting, consecutive_failures, reason,
		problem, next_fire_at, due_at, open_execution_ids)
		select 's' || n, 'j', '{}', clock_timestamp(), 1, false, false, false, 0, '', '', t.at, t.at, '{}'
		from generate_series(1, %d) n, lateral (select clock_timestamp() + interval '1 hour' + n * interval '1 ms' as at) t`, idleSchedules))
	check := func(what string) {
		t.Helper()
		idle := read(1000)
		t.Logf("%s: %d pages with none, %d with %d", what, empty, idle, idleSchedules)
		sent.inTx(t, pool, "schedule/lease_due", func(tx pgx.Tx) {
			q := sent.of("schedule/lease_due")
			if c := cost(t, explained(t, tx, "explain "+q.sql, q.args...)); c > jitAbove/50 {
				t.Errorf("%s: the server expects a cost of %v, and with many more would find that worth compiling", what, c)
			}
		})
		if idle > empty+12 {
			t.Errorf("%s: to find that none is due takes %d pages, and %d with no schedule", what, idle, empty)
		}
		exec(t, pool, "update courier.job_schedules set due_at = clock_timestamp() where name in ('s7', 's77', 's777')")
		if some := read(2); some > idle+150 {
			t.Errorf("%s: to lease 2 takes %d pages", what, some)
		}
		exec(t, pool, "update courier.job_schedules set due_at = clock_timestamp() + interval '1 hour' where name in ('s7', 's77', 's777')")
	}
	check("without statistics")
	exec(t, pool, "analyze courier.job_schedules")
	check("with statistics")
}

// TestOneExecutionPerTick has ten engines on one database fire ticks that all
// are due, while they stop and start.
func TestOneExecutionPerTick(t *testing.T) {
	const engines, schedules = 10, 20
	ticks := raced.Or(20, 50) // of each
	u := pgtest.URL(t)
	s := open(t, u, nil)
	pool := dial(t, u)
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "demo.nothing", func(context.Context, *courier.Context, struct{}) (struct{}, error) { return struct{}{}, nil }, nil)
	newEngine := func(s store.Store, i int) *engine.Engine {
		return engine.New(s, reg, &engine.Options{Worker: fmt.Sprint("w", i), Workspace: t.TempDir(), Queues: []string{"nobody's"}})
	}
	first := newEngine(s, 0)
	if _, err := first.Jobs().Define(t.Context(), courier.Job{Name: "j", Steps: []courier.StepSpec{{Type: "demo.nothing"}}}, nil); err != nil {
		t.Fatal(err)
	}
	for i := range schedules {
		got, err := first.Schedules().Set(t.Context(), schedule.Schedule{
			Name: fmt.Sprint("s", i), Job: "j", Every: time.Second, Misfire: schedule.MisfireAll, Ends: time.Now().Add(time.Hour),
		}, courier.By{})
		if err != nil {
			t.Fatal(err)
		}
		// As if nobody had been there for as long; and it ends before it comes to now.
		started := got.NextFire.Add(-time.Duration(ticks+100) * time.Second)
		exec(t, pool, `update courier.job_schedules set next_fire_at = $2::timestamptz, due_at = $2::timestamptz,
			body = (body::jsonb || jsonb_build_object('ends_at', $3::text))::text where name = $1`,
			got.Name, started, started.Add(time.Duration(ticks-1)*time.Second).Format(time.RFC3339))
	}
	var all sync.WaitGroup
	for i := range engines {
		all.Go(func() {
			p, err := pgxpool.New(t.Context(), u)
			if err != nil {
				t.Error(err)
				return
			}
			defer p.Close()
			own, err := pgstore.New(t.Context(), p, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer own.Close()
			random := rand.New(rand.NewPCG(3, uint64(i)))
			for n := 0; n < 100; n++ {
				e := newEngine(own, i)
				if err := e.Start(t.Context()); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
				if err := e.Stop(context.WithoutCancel(t.Context())); err != nil {
					t.Error(err)
				}
				if value[int64](t, pool, "select count(*) from courier.job_schedules where due_at is not null") == 0 {
					return
				}
			}
		})
	}
	all.Wait()
	n := value[int64](t, pool, "select count(*) from courier.job_executions")
	keys := value[int64](t, pool, "select count(distinct idempotency_key) from courier.job_executions")
	if want := int64(schedules * ticks); n != want || keys != want {
		t.Errorf("%d executions with %d keys, want %d", n, keys, want)
	}
}
