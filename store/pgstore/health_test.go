package pgstore_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

func health(t testing.TB, s *pgstore.Store) pgstore.Health {
	t.Helper()
	h, err := s.Health(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// within reports whether d is at least least, and no more than a minute longer.
func within(d, least time.Duration) bool { return d >= least && d <= least+time.Minute }

func TestHealthOfExecutions(t *testing.T) {
	u := pgtest.URL(t)
	s, pool := open(t, u, nil), dial(t, u)
	h := health(t, s)
	all, err := pgstore.Status(t.Context(), pool, "")
	if err != nil {
		t.Fatal(err)
	}
	if h.Schema != len(all) || h.Server != value[string](t, pool, "show server_version") {
		t.Errorf("schema %d, server %q", h.Schema, h.Server)
	}
	if d := value[time.Time](t, pool, "select clock_timestamp()").Sub(h.At); d < 0 || d > time.Minute || h.At.Location() != time.UTC {
		t.Errorf("at %v", h.At)
	}
	if h.Running != 0 || h.OldestLease != nil || h.Queued != 0 || h.QueuedMore || h.OldestDue != nil {
		t.Errorf("an empty store: %+v", h)
	}

	job := defined(t, s, pool, "j")
	past{job: job, state: "completed", count: 3, created: 9 * time.Hour, ended: time.Hour}.make(t, pool)
	past{job: job, state: "created", count: 3, created: 9 * time.Hour}.make(t, pool)
	past{job: job, state: "queued", count: 2, created: -time.Hour}.make(t, pool) // not due
	if h = health(t, s); h.Running != 0 || h.Queued != 2 || h.OldestDue != nil {
		t.Errorf("nothing is due: %+v", h)
	}
	// The oldest stands neither in the first queue nor first in its own.
	oldest := past{job: job, state: "queued", count: 3, created: 3 * time.Hour}.make(t, pool)[0]
	exec(t, pool, "update courier.job_executions set queue = 'm', priority = -5 where id = $1::text::uuid", oldest)
	for _, p := range []struct {
		queue    string
		priority int
	}{{"a", 3}, {"m", 10}, {"m", -5}, {"z", -9}} {
		list := past{job: job, state: "queued", count: 3, created: 2 * time.Hour}.make(t, pool)
		exec(t, pool, "update courier.job_executions set queue = $2, priority = $3 where id = any($1::text[]::uuid[])", list, p.queue, p.priority)
	}
	h = health(t, s)
	if d := h.OldestDue; h.Queued != 17 || d == nil || string(d.Execution) != oldest || d.Queue != "m" || !within(d.Age, 3*time.Hour-time.Second) {
		t.Errorf("queued %d, oldest %+v; want 17, and %s due for 3 h", h.Queued, d, oldest)
	}

	running := past{job: job, state: "running", count: 4, created: time.Hour}.make(t, pool)
	exec(t, pool, "update courier.job_executions set worker = 'alive' where state = 'running'")
	if h = health(t, s); h.Running != 4 || h.OldestLease == nil || h.OldestLease.Worker != "alive" || !within(h.OldestLease.Remaining, 59*time.Minute) {
		t.Errorf("running %d, oldest lease %+v; want 4, one of worker alive that lasts an hour", h.Running, h.OldestLease)
	}
	exec(t, pool, `update courier.job_executions set worker = 'dead', lease_expires_at = clock_timestamp() - interval '90 seconds'
		where id = $1::text::uuid`, running[2])
	l := health(t, s).OldestLease
	if l == nil || string(l.Execution) != running[2] || l.Worker != "dead" || !within(-l.Remaining, 90*time.Second) {
		t.Errorf("oldest lease %+v; want that of %s, which ended 90 s ago", l, running[2])
	}

	past{job: job, state: "queued", count: 10_000 - 17, created: time.Hour}.make(t, pool)
	if h = health(t, s); h.Queued != 10_000 || h.QueuedMore {
		t.Errorf("queued %d, more %t; want 10,000 and no more", h.Queued, h.QueuedMore)
	}
	past{job: job, state: "queued", count: 1, created: time.Hour}.make(t, pool)
	if h = health(t, s); h.Queued != 10_000 || !h.QueuedMore {
		t.Errorf("queued %d, more %t; want 10,000 and more", h.Queued, h.QueuedMore)
	}
	s.Close()
	if _, err := s.Health(t.Context()); err == nil {
		t.Error("a closed store tells how it is")
	}
}

func TestHealthOfTables(t *testing.T) {
	u := pgtest.URL(t)
	s, pool := open(t, u, &pgstore.Options{Schema: "mine"}), dial(t, u)
	open(t, u, nil) // whose tables don't count
	exec(t, pool, "create table mine.other (n int)")
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	run := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	run("alter table mine.system_settings set (autovacuum_enabled = off)")
	run("insert into mine.system_settings select 'k' || n, '' from generate_series(1, 100) n")
	run("delete from mine.system_settings where key < 'k3'")
	dead := value[int64](t, pool, "select 100 - count(*) from mine.system_settings")
	tables := value[int64](t, pool, "select count(*) from pg_tables where schemaname = 'mine' and tablename <> 'other'")
	find := func(ok func(pgstore.TableHealth) bool) pgstore.TableHealth {
		t.Helper()
		var settings pgstore.TableHealth
		for range 1000 { // sessions report what they did up to a second later
			h := health(t, s)
			if len(h.Tables) != int(tables) {
				t.Fatalf("%d tables, want %d: %+v", len(h.Tables), tables, h.Tables)
			}
			for i, table := range h.Tables {
				if i > 0 && table.Name <= h.Tables[i-1].Name {
					t.Errorf("table %q after %q", table.Name, h.Tables[i-1].Name)
				}
				if table.Name == "system_settings" {
					settings = table
				}
			}
			if ok(settings) {
				break
			}
			run("select pg_sleep(0.01)")
		}
		return settings
	}
	got := find(func(t pgstore.TableHealth) bool { return t.Dead > 0 })
	if got.Live != 100-dead || got.Dead != dead || got.DeadRatio != float64(dead)/100 || !got.LastVacuum.IsZero() || !got.LastAutovacuum.IsZero() {
		t.Errorf("%+v; want %d dead of 100, and no vacuum", got, dead)
	}
	run("vacuum mine.system_settings")
	got = find(func(t pgstore.TableHealth) bool { return t.Dead == 0 })
	if got.Dead != 0 || got.DeadRatio != 0 || got.LastVacuum.IsZero() || !got.LastAutovacuum.IsZero() {
		t.Errorf("%+v; want nothing dead after a vacuum by hand", got)
	}
}

// holding runs statements in a session of its own that stays in its transaction.
func holding(t *testing.T, url, application string, statements ...string) *pgx.Conn {
	t.Helper()
	c, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	c.RuntimeParams["application_name"] = application
	conn, err := pgx.ConnectConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, s := range statements {
		if _, err := conn.Exec(t.Context(), s, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	return conn
}

func TestHealthOfXmin(t *testing.T) {
	u := pgtest.URL(t)
	s, pool := open(t, u, nil), dial(t, u)
	holding(t, pgtest.URL(t), "elsewhere", "begin isolation level repeatable read", "select 1") // in another database
	// One holds by a snapshot, the other, which has none any more, by having written.
	for _, tt := range []struct{ application, begin, query string }{
		{"reader", "begin isolation level repeatable read", "select count(*) from courier.job_executions"},
		{"writer", "begin isolation level read committed", "insert into courier.system_settings values ('a', 'b')"},
	} {
		conn := holding(t, u, tt.application, tt.begin, tt.query)
		exec(t, pool, "select pg_sleep(0.01)")
		younger := holding(t, u, "younger", "begin isolation level repeatable read", "select 2")
		x := health(t, s).XminHolder
		if x == nil || x.Kind != "session" || x.Application != tt.application || x.PID != int(conn.PgConn().PID()) || x.Query != tt.query ||
			x.State != "idle in transaction" || x.Role != conn.Config().User || x.Hidden || x.Age < 10*time.Millisecond || x.Age > time.Minute {
			t.Errorf("%s: %+v", tt.application, x)
		}
		for _, c := range []*pgx.Conn{conn, younger} {
			if _, err := c.Exec(t.Context(), "rollback"); err != nil {
				t.Fatal(err)
			}
		}
	}

	// Of a role that may not see what others do, only that is hidden.
	exec(t, pool, "select txid_current()")
	conn := holding(t, u, "writer", "begin isolation level repeatable read", "select 'private'")
	role := newRole(t, pool)
	exec(t, pool, pgstore.Grants("", pgstore.Roles{Engine: role}))
	weak, err := pgstore.New(t.Context(), rolePool(t, u, role), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer weak.Close()
	x := health(t, weak).XminHolder
	if x == nil || x.PID != int(conn.PgConn().PID()) || !x.Hidden || x.Query != "" || x.State != "" || x.Age != 0 || x.Role != conn.Config().User {
		t.Errorf("as a role without rights: %+v", x)
	}
	exec(t, pool, "grant pg_read_all_stats to "+role)
	if x := health(t, weak).XminHolder; x == nil || x.Hidden || x.Query != "select 'private'" {
		t.Errorf("as a role with pg_read_all_stats: %+v", x)
	}
}

// TestHealthOfXminElsewhere has holders that are no sessions of this server.
func TestHealthOfXminElsewhere(t *testing.T) {
	primary := pgtest.Start(t, &pgtest.Options{Config: map[string]string{
		"max_prepared_transactions": "2", "hot_standby_feedback": "on", "wal_receiver_status_interval": "1s",
		"wal_retrieve_retry_interval": "10ms", "autovacuum": "off",
	}})
	s, pool := open(t, primary.URL(""), nil), dial(t, primary.URL(""))
	await := func(kind string) *pgstore.XminHolder {
		t.Helper()
		var x *pgstore.XminHolder
		for range 1000 {
			if x = health(t, s).XminHolder; x != nil && x.Kind == kind {
				return x
			}
			exec(t, pool, "select pg_sleep(0.02)")
		}
		t.Fatalf("the holder is %+v, want a %s", x, kind)
		return nil
	}
	if x := health(t, s).XminHolder; x != nil {
		t.Errorf("nobody holds anything: %+v", x)
	}
	exec(t, pool, "begin; insert into courier.system_settings values ('a', 'b'); prepare transaction 'two-phase'")
	if x := await("prepared transaction"); x.Name != "two-phase" || x.PID != 0 || x.Age <= 0 || x.Hidden {
		t.Errorf("%+v", x)
	}
	exec(t, pool, "rollback prepared 'two-phase'")

	standby := primary.Standby(t)
	holding(t, standby.URL(""), "report", "begin isolation level repeatable read", "select 1")
	if x := await("standby"); x.Application == "" || x.PID == 0 {
		t.Errorf("%+v", x)
	}
	exec(t, pool, "select pg_create_physical_replication_slot('disk_full_one_day')")
	standby.Reload(t, map[string]string{"primary_slot_name": "disk_full_one_day"})
	if x := await("replication slot"); x.Name != "disk_full_one_day" {
		t.Errorf("%+v", x)
	}
	exec(t, pool, "select txid_current()")
	if x := await("replication slot"); x.Transactions < 1 {
		t.Errorf("%+v; want that a transaction began since", x)
	}
}

func TestHealthOfTheStore(t *testing.T) {
	u := pgtest.URL(t)
	open(t, u, nil)
	c, err := pgxpool.ParseConfig(u + "&pool_max_conns=3")
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	notified := func(opt *pgstore.Options) (got bool) {
		t.Helper()
		s, err := pgstore.New(t.Context(), pool, opt)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if health(t, s).Notified {
			t.Error("notifications arrive before anybody awaits any")
		}
		if _, err := s.Save(t.Context(), store.Definition{Kind: store.Job, Name: "j", Body: json.RawMessage(`{}`)}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = s.Await(ctx, []string{"q"}, 1<<62)
		}()
		for range 1000 {
			if got = health(t, s).Notified; got || opt != nil {
				break
			}
			exec(t, pool, "select pg_sleep(0.005)")
		}
		cancel()
		<-done
		return got
	}
	if !notified(nil) {
		t.Error("notifications do not arrive")
	}
	if notified(&pgstore.Options{PollOnly: true}) {
		t.Error("notifications arrive at one who only polls")
	}
	s, err := pgstore.New(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	held, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := health(t, s).Pool
	held.Release()
	if p.Max != 3 || p.Open < 1 || p.InUse != 1 || p.Waited < 0 || p.WaitTime < 0 {
		t.Errorf("pool %+v; want at most 3, and 1 in use", p)
	}
	if _, err := s.Enqueue(t.Context(), []store.NewExecution{{ID: courier.ExecutionID(idSource.New()), Job: "j", Version: 1, Queue: "q"}}); err != nil {
		t.Fatal(err)
	}
}

// TestStoreID: the stores of a schema have one id, which another schema does not have, and which
// outlasts them.
func TestStoreID(t *testing.T) {
	u := pgtest.URL(t)
	var _ store.Identity = (*pgstore.Store)(nil)
	ids := make(map[string]int)
	for _, schema := range []string{"", "mine", "", "mine"} {
		s := open(t, u, &pgstore.Options{Schema: schema})
		first, err := s.StoreID(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.StoreID(t.Context())
		if err != nil || again != first || len(first) != 32 {
			t.Errorf("%q, then %q, %v", first, again, err)
		}
		ids[first]++
	}
	if len(ids) != 2 {
		t.Errorf("the ids are %v", ids)
	}
}
