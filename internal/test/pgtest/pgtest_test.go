package pgtest_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier/internal/test/pgtest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(dirVariable); dir != "" {
		abandon(dir)
	}
	pgtest.Main(m)
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func execute(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// query returns the one value that sql selects, on a connection of its own.
func query[T any](t *testing.T, url, sql string) T {
	t.Helper()
	conn := connect(t, url)
	defer conn.Close(t.Context())
	var v T
	if err := conn.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func TestURL(t *testing.T) {
	var names []string
	outer := t
	t.Run("fresh", func(t *testing.T) {
		for range 2 {
			u := pgtest.URL(t)
			execute(t, connect(outer, u), "create table things (id int)") // the connection outlasts the database
			if got := query[string](t, u, "show server_encoding"); got != "UTF8" {
				t.Errorf("encoding %s", got)
			}
			names = append(names, query[string](t, u, "select current_database()"))
		}
	})
	server, err := pgtest.Server()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "courier_test_") || query[bool](t, server, "select exists (select from pg_database where datname = '"+name+"')") {
			t.Errorf("database %s is still there", name)
		}
	}
}

// TestDatabaseOfUser takes a cluster for the server of the user.
func TestDatabaseOfUser(t *testing.T) {
	c := pgtest.Start(t, &pgtest.Options{Config: map[string]string{"fsync": "off", "cluster_name": "the user's"}})
	t.Setenv("COURIER_TEST_DATABASE", c.URL(""))
	t.Run("made", func(t *testing.T) {
		u := pgtest.URL(t)
		if got := query[string](t, u, "show cluster_name"); got != "the user's" {
			t.Errorf("the server is %q", got)
		}
		if got := query[int](t, u, "select count(*) from pg_class where relnamespace = 'public'::regnamespace"); got != 0 {
			t.Errorf("%d tables", got)
		}
	})
	if n := query[int](t, c.URL(""), "select count(*) from pg_database where datname like 'courier_test_%'"); n != 0 {
		t.Errorf("%d databases are left", n)
	}
	for _, u := range []string{"host=127.0.0.1", "mysql://127.0.0.1/db", "postgres://127.0.0.1:1/db"} {
		if _, _, err := pgtest.Database(t.Context(), u); err == nil {
			t.Errorf("a database on %s", u)
		}
	}
}

func TestRestart(t *testing.T) {
	c := pgtest.Start(t, &pgtest.Options{Config: map[string]string{"max_connections": "33"}})
	conn := connect(t, c.URL(""))
	execute(t, conn, "create table kept (mode text)")
	conn.Close(t.Context())
	for _, mode := range []string{"smart", "fast", "immediate", "kill", "kill"} {
		conn := connect(t, c.URL(""))
		execute(t, conn, "insert into kept values ('"+mode+"')")
		switch mode {
		case "smart":
			conn.Close(t.Context()) // it waits for that
			c.Stop(t, mode)
		case "kill":
			c.Kill(t)
		default:
			c.Stop(t, mode)
		}
		if conn, err := pgx.Connect(t.Context(), c.URL("")); err == nil {
			conn.Close(t.Context())
			t.Fatalf("a connection to a server that is down (%s)", mode)
		}
		c.Begin(t)
	}
	if got := query[string](t, c.URL(""), "select string_agg(mode, ' ') from kept"); got != "smart fast immediate kill kill" {
		t.Errorf("rows: %s", got)
	}
	for name, want := range map[string]string{"max_connections": "33", "fsync": "on", "synchronous_commit": "on", "wal_level": "replica"} {
		if got := query[string](t, c.URL(""), "show "+name); got != want {
			t.Errorf("%s = %s, want %s", name, got, want)
		}
	}
}

// TestKillBusy kills a server with a session that takes a while to notice.
func TestKillBusy(t *testing.T) {
	c := pgtest.Start(t, nil)
	conn := connect(t, c.URL(""))
	began := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn.Exec(context.Background(), `do $$ declare stop timestamptz := clock_timestamp() + interval '0.5 s';
			begin while clock_timestamp() < stop loop end loop; end $$`)
	}()
	for !query[bool](t, c.URL(""), "select exists (select from pg_stat_activity where state = 'active' and pid <> pg_backend_pid())") {
		select {
		case <-done:
			t.Fatal("the session was not seen at work")
		default:
		}
	}
	c.Kill(t)
	if time.Since(began) < 500*time.Millisecond {
		t.Error("Kill did not wait for a session that was at work")
	}
	<-done
	c.Begin(t)
}

// TestPasswords shows that wrong passwords are refused, of any kind.
func TestPasswords(t *testing.T) {
	u := pgtest.Start(t, nil).URL("")
	config, err := pgx.ParseConfig(u)
	if err != nil {
		t.Fatal(err)
	}
	execute(t, connect(t, u), "create role scram login password 'right'")
	for _, tt := range []struct {
		user, password string
		refused        bool
	}{
		{config.User, config.Password, false},
		{config.User, "wrong", true},
		{"scram", "right", false},
		{"scram", "wrong", true},
	} {
		config.User, config.Password = tt.user, tt.password
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if (err != nil) != tt.refused {
			t.Errorf("%s with password %s: %v", tt.user, tt.password, err)
		}
		if err == nil {
			conn.Close(t.Context())
		}
	}
}

func TestReload(t *testing.T) {
	c := pgtest.Start(t, nil)
	conn := connect(t, c.URL(""))
	c.Reload(t, map[string]string{"default_transaction_read_only": "on", "max_connections": "44"})
	const show = "show default_transaction_read_only"
	if got := query[string](t, c.URL(""), show); got != "on" {
		t.Errorf("%s in a new session: %s", show, got)
	}
	var got string
	if err := conn.QueryRow(t.Context(), show).Scan(&got); err != nil || got != "on" {
		t.Errorf("%s: %s, %v", show, got, err)
	}
	c.Stop(t, "fast")
	c.Reload(t, map[string]string{"default_transaction_read_only": "off"})
	c.Begin(t)
	if got := query[string](t, c.URL(""), "select current_setting('max_connections') || current_setting('default_transaction_read_only')"); got != "44off" {
		t.Errorf("after the restart: %s", got)
	}
}

func TestStandby(t *testing.T) {
	c := pgtest.Start(t, nil)
	s := c.Standby(t)
	c.Reload(t, map[string]string{"synchronous_standby_names": "*"})
	both := pgtest.FailoverURL("", s, c) // the one that takes no writes comes first
	conn := connect(t, both)
	execute(t, conn, "create table kept (id int)")
	execute(t, conn, "insert into kept values (1)")
	c.Kill(t)
	if !query[bool](t, s.URL(""), "select pg_is_in_recovery()") {
		t.Error("the standby is none before its promotion")
	}
	s.Promote(t)
	execute(t, connect(t, both), "insert into kept values (2)")
	if got := query[string](t, pgtest.FailoverURL("postgres", c, s), "select string_agg(id::text, ' ') from kept"); got != "1 2" {
		t.Errorf("rows: %s", got)
	}
}

func TestBouncer(t *testing.T) {
	direct := pgtest.URL(t)
	u := pgtest.Bouncer(t, direct)
	if got, want := query[string](t, u+"&default_query_exec_mode=exec", "select current_database()"), query[string](t, direct, "select current_database()"); got != want {
		t.Errorf("database %s, want %s", got, want)
	}
	one, two := connect(t, u+"&default_query_exec_mode=simple_protocol"), connect(t, u+"&default_query_exec_mode=exec")
	pid := func(q interface {
		QueryRow(context.Context, string, ...any) pgx.Row
	}) (pid int) {
		t.Helper()
		if err := q.QueryRow(t.Context(), "select pg_backend_pid()").Scan(&pid); err != nil {
			t.Fatal(err)
		}
		return pid
	}
	if a, b := pid(one), pid(two); a != b {
		t.Errorf("clients have the sessions %d and %d, although none is in a transaction", a, b)
	}
	tx, err := one.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a, b := pid(tx), pid(two); a == b {
		t.Error("a transaction shares its session")
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}
