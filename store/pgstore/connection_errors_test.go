package pgstore_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// newRole creates a role that can do nothing, for as long as the test's database
// lasts.
func newRole(t testing.TB, pool *pgxpool.Pool) string {
	t.Helper()
	role := "courier_test_" + strings.ToLower(rand.Text()[:12])
	exec(t, pool, "create role "+role)
	conf := pool.Config().ConnConfig.Copy()
	t.Cleanup(func() {
		conn, err := pgx.ConnectConfig(context.Background(), conf)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(context.Background(), "drop owned by "+role+" cascade; drop role "+role, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Error(err)
		}
	})
	return role
}

// rolePool returns a pool whose sessions act as a role.
func rolePool(t testing.TB, url, role string) *pgxpool.Pool {
	t.Helper()
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "set role "+role)
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

const secret = "s3cret-pass-word"

// TestConnectionErrors opens stores at places where there is none.
func TestConnectionErrors(t *testing.T) {
	server, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	real, _ := server.User.Password()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := free.Addr().String()
	free.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for name, tt := range map[string]struct {
		change func(u *url.URL)
		words  []string
	}{
		"port":     {func(u *url.URL) { u.Host = nobody }, []string{"connection refused", "check host and port of the connection string, and whether the server is up"}},
		"host":     {func(u *url.URL) { u.Host = "nosuchhost.invalid:5432" }, []string{"nosuchhost.invalid", "check host and port of the connection string"}},
		"silence":  {func(u *url.URL) { u.Host = silent.Addr().String(); u.RawQuery += "&connect_timeout=1" }, []string{"check host and port of the connection string"}},
		"password": {func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), secret) }, []string{"password authentication failed", "check user and password of the connection string"}},
		"user":     {func(u *url.URL) { u.User = url.UserPassword("nobody_at_all", secret) }, []string{"nobody_at_all", "check user and password of the connection string"}},
		"database": {func(u *url.URL) { u.Path = "/no_such_database" }, []string{"no_such_database", "create the database, or name another one in the connection string"}},
	} {
		t.Run(name, func(t *testing.T) {
			u := *server
			tt.change(&u)
			pool := dial(t, u.String())
			_, opened := pgstore.New(t.Context(), pool, nil)
			wants(t, opened, append(tt.words, "open store: connect")...)
			_, migrated := pgstore.Migrate(t.Context(), pool, nil)
			wants(t, migrated, append(tt.words, `migrate schema "courier": connect`)...)
			_, status := pgstore.Status(t.Context(), pool, "")
			wants(t, status, tt.words...)
			for _, err := range []error{opened, migrated, status} {
				if err != nil && (strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), real)) {
					t.Errorf("the password stands in %q", err)
				}
			}
		})
	}
}

func TestEncodingErrors(t *testing.T) {
	server := dial(t, pgtest.URL(t))
	for _, encoding := range []string{"SQL_ASCII", "LATIN1"} {
		name := "courier_test_" + strings.ToLower(rand.Text()[:12])
		exec(t, server, "create database "+name+" template template0 encoding '"+encoding+"' locale 'C'")
		t.Cleanup(func() {
			if _, err := server.Exec(context.Background(), "drop database "+name+" with (force)"); err != nil {
				t.Error(err)
			}
		})
		c := server.Config()
		c.ConnConfig.Database = name
		pool, err := pgxpool.NewWithConfig(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		_, err = pgstore.Migrate(t.Context(), pool, nil)
		wants(t, err, "encoding "+encoding, "create one with encoding UTF8")
		_, err = pgstore.New(t.Context(), pool, nil)
		wants(t, err, "open store", "encoding "+encoding, "create one with encoding UTF8")
	}
}

func TestPoolOfOne(t *testing.T) {
	u := pgtest.URL(t)
	open(t, u, nil)
	_, err := pgstore.New(t.Context(), dial(t, u+"&pool_max_conns=1"), nil)
	wants(t, err, "open store", "at most 1 connection", "2 or more", "raise pool_max_conns")
	s, err := pgstore.New(t.Context(), dial(t, u+"&pool_max_conns=2"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	oneExecution(t, s)
}

// TestReadOnly opens stores on servers that refuse to write, and has one become
// read-only while a store is open.
func TestReadOnly(t *testing.T) {
	words := []string{"read-only", "give all servers in the connection string", "target_session_attrs=read-write"}
	t.Run("setting", func(t *testing.T) {
		u := pgtest.URL(t)
		s := open(t, u, nil)
		pool := dial(t, u+"&default_transaction_read_only=on")
		_, err := pgstore.New(t.Context(), pool, nil)
		wants(t, err, words...)
		_, err = pgstore.Migrate(t.Context(), pool, nil)
		wants(t, err, words...)

		admin := dial(t, u)
		exec(t, admin, "do $$ begin execute format('alter database %I set default_transaction_read_only = on', current_database()); end $$")
		exec(t, admin, "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()")
		for range 10 { // the pool notices with each connection that is gone
			if _, err = s.Save(t.Context(), store.Definition{Kind: store.Job, Name: "j", Body: json.RawMessage(`{}`)}); strings.Contains(errText(err), "read-only") {
				break
			}
		}
		wants(t, err, append(words, `save job "j"`)...)
		err = s.Set(t.Context(), "a", "b")
		wants(t, err, append(words, `set "a"`)...)
	})
	t.Run("standby", func(t *testing.T) {
		primary := pgtest.Start(t, nil)
		open(t, primary.URL(""), nil)
		standby := primary.Standby(t)
		pool := dial(t, standby.URL(""))
		_, err := pgstore.New(t.Context(), pool, nil)
		wants(t, err, append(words, "open store", "perhaps a standby")...)
		_, err = pgstore.Migrate(t.Context(), pool, nil)
		wants(t, err, append(words, "migrate schema", "perhaps a standby")...)
	})
}

// TestRights does all with a role that has just the rights it needs, and then
// takes one after the other away.
func TestRights(t *testing.T) {
	u := pgtest.URL(t)
	open(t, u, nil)
	admin := dial(t, u)
	role := newRole(t, admin)
	exec(t, admin, pgstore.Grants("", pgstore.Roles{Engine: role}))
	pool := rolePool(t, u, role)
	s, err := pgstore.New(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	oneExecution(t, s)
	_, err = s.Retain(t.Context(), pgstore.Retention{MaxCount: 1, MaxAge: time.Microsecond})
	wants(t, err, "permission denied", "delete on job_executions", "select and delete on execution_history")
	_, err = pgstore.Migrate(t.Context(), pool, nil)
	if err != nil {
		t.Errorf("migrating what is up to date: %v", err)
	}
	_, err = pgstore.Migrate(t.Context(), pool, &pgstore.MigrateOptions{Schema: "other"})
	wants(t, err, `migrate schema "other"`, "permission denied for database", "create on the schema, or on the database", `"rights" in docs/postgres.md`)

	for _, tt := range []struct {
		right, table string
		call         func() error
	}{
		{"insert", "job_executions", func() error {
			_, err := s.Enqueue(t.Context(), []store.NewExecution{{ID: courier.ExecutionID(idSource.New()), Job: "odd", Version: 1, Queue: "q"}})
			return err
		}},
		{"update", "job_executions", func() error {
			_, err := s.Claim(t.Context(), store.ClaimRequest{Worker: "w", Queues: []string{"q"}, Max: 1, Lease: time.Minute})
			return err
		}},
		{"select", "execution_history", func() error {
			_, err := s.Latest(t.Context(), store.LatestFilter{Execution: courier.ExecutionID(idSource.New())})
			return err
		}},
		{"insert", "job_definition_versions", func() error {
			_, err := s.Save(t.Context(), store.Definition{Kind: store.Job, Name: "new", Body: json.RawMessage(`{}`)})
			return err
		}},
		{"delete", "system_settings", func() error { return s.Set(t.Context(), "a", "b") }},
		{"insert", "subscriptions", func() error {
			return s.PutSubscription(t.Context(), notify.Record{Name: "off", Channel: "email", Disabled: true, Body: json.RawMessage(`{}`)})
		}},
		{"update", "outbox", func() error {
			_, err := s.DueDeliveries(t.Context(), notify.DueRequest{Channels: []string{"email"}, Max: 1, Each: 1, Lease: time.Minute})
			return err
		}},
		{"select", "schema_migrations", func() error {
			_, err := pgstore.New(t.Context(), pool, nil)
			return err
		}},
		{"select", "schema_migrations", func() error {
			_, err := s.Health(t.Context())
			return err
		}},
	} {
		exec(t, admin, "revoke "+tt.right+" on courier."+tt.table+" from "+role)
		err := tt.call()
		exec(t, admin, "grant "+tt.right+" on courier."+tt.table+" to "+role)
		wants(t, err, "permission denied", tt.table, tt.right, `"rights" in docs/postgres.md`)
		if !courier.IsPermanent(err) {
			t.Errorf("%s on %s: callers would repeat what fails with %v", tt.right, tt.table, err)
		}
		if _, again, ok := strings.Cut(errText(err), " needs "); !ok || !strings.Contains(again, tt.right) || !strings.Contains(again, " on "+tt.table) {
			t.Errorf("%s on %s: the error does not tell the right: %v", tt.right, tt.table, err)
		}
		if err := tt.call(); err != nil {
			t.Errorf("%s on %s granted again: %v", tt.right, tt.table, err)
		}
	}
	exec(t, admin, "revoke usage on schema courier from "+role)
	_, err = pgstore.New(t.Context(), pool, nil)
	wants(t, err, "permission denied for schema courier", "usage on the schema", `"rights" in docs/postgres.md`)
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestRetentionRights(t *testing.T) {
	u := pgtest.URL(t)
	s := open(t, u, nil)
	oneExecution(t, s)
	kept := oneExecution(t, s)
	admin := dial(t, u)
	role := newRole(t, admin)
	exec(t, admin, pgstore.Grants("", pgstore.Roles{Retention: role}))
	r, err := pgstore.New(t.Context(), rolePool(t, u, role), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if n, err := r.Retain(t.Context(), pgstore.Retention{MaxCount: 1}); err != nil || n != 1 {
		t.Errorf("removed %d, %v; want 1", n, err)
	}
	list, err := s.Executions(t.Context(), store.Filter{})
	if err != nil || len(list) != 1 || list[0].ID != kept {
		t.Errorf("left: %v, %v; want %s", list, err, kept)
	}
	err = r.Set(t.Context(), "a", "b")
	wants(t, err, "permission denied")
}
