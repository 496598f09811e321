package pgstore

import (
	"errors"
	"reflect"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier/internal/pgtest"
)

// TestStatements prepares every statement against the schema.
func TestStatements(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, schema := range []string{"courier", `Odd "name"`} {
		if _, err := Migrate(t.Context(), pool, &MigrateOptions{Schema: schema}); err != nil {
			t.Fatal(err)
		}
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		q := reflect.ValueOf(*newStatements(schema))
		for i := range q.NumField() {
			name, text := q.Type().Field(i).Name, q.Field(i).String()
			if name == "made" || name == "schema" || name == "executionTable" {
				continue
			}
			if _, err := conn.Conn().Prepare(t.Context(), schema+name, text); err != nil {
				at := ""
				if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Position > 0 {
					at = text[max(0, int(e.Position)-60):min(len(text), int(e.Position)+20)]
				}
				t.Errorf("%s: %v\nnear %q", name, err, at)
			}
		}
		conn.Release()
	}
}
