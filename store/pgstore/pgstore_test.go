package pgstore_test

import (
	"testing"

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
