package pgstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store/pgstore"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// open returns an empty store in a database of its own.
func open(t testing.TB, url string, opt *pgstore.Options) *pgstore.Store {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	schema := ""
	if opt != nil {
		schema = opt.Schema
	}
	if _, err := pgstore.Migrate(t.Context(), pool, &pgstore.MigrateOptions{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	s, err := pgstore.New(t.Context(), pool, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestOpen: one call connects, makes the schema and opens the store; Close ends the connections.
func TestOpen(t *testing.T) {
	t.Parallel()
	u := pgtest.URL(t)
	pool := dial(t, u)
	for range 2 { // the second time the schema is there
		s, err := pgstore.Open(t.Context(), u, &pgstore.Options{Schema: "own"})
		if err != nil {
			t.Fatal(err)
		}
		define(t, s, "j")
		s.Close()
		for began := time.Now(); value[int](t, pool, "select count(*) from pg_stat_activity where datname = current_database() and backend_type = 'client backend'") > 1; time.Sleep(time.Millisecond) {
			if time.Since(began) > 10*time.Second {
				t.Fatal("Close leaves connections open")
			}
		}
	}
	if n := value[int](t, pool, "select count(*) from own.job_definitions"); n != 1 {
		t.Errorf("%d definitions", n)
	}
	exec(t, pool, "create schema odd; create table odd.schema_migrations (odd int)")
	for _, c := range []struct{ url, schema string }{{"postgres://user:canary@[", "own"}, {u, "odd"}} {
		if s, err := pgstore.Open(t.Context(), c.url, &pgstore.Options{Schema: c.schema}); err == nil || s != nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s %s: %v, %v", c.url, c.schema, s, err)
		}
	}
}
