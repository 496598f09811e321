// Package pgstoretest opens stores on PostgreSQL for tests of other packages.
package pgstoretest

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier/store/pgstore"
)

// Open returns a store in the database of a connection string, such as that of pgtest.URL, with
// its pool. Both end with the test.
func Open(t testing.TB, url string) (*pgstore.Store, *pgxpool.Pool) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return On(t, pool, nil), pool
}

// On creates the schema of a store in the database of a pool, and returns the store, which ends
// with the test.
func On(t testing.TB, pool *pgxpool.Pool, opt *pgstore.Options) *pgstore.Store {
	t.Helper()
	if _, err := pgstore.Migrate(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	s, err := pgstore.New(t.Context(), pool, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}
