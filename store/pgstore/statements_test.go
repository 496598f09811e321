package pgstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier/internal/test/pgtest"
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
		for i, name := range statementNames() {
			text := statementsFor(schema).text(filtered{name: name})
			if _, err := conn.Conn().Prepare(t.Context(), fmt.Sprint(schema, i), text); err != nil {
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

// TestStatementNames compares the statements that Go code names with the files.
func TestStatementNames(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	used := make(map[string]bool)
	call := regexp.MustCompile(`\.(?:sql(?:Filtered)?\(|checkpoint\(|sendClaim\(ctx, c, )"([^"]+)"`)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range call.FindAllStringSubmatch(string(text), -1) {
			used[m[1]] = true
		}
	}
	all := make(map[string]bool)
	for _, name := range statementNames() {
		all[name] = true
		if !used[name] {
			t.Errorf("no code uses sql/%s.sql", name)
		}
	}
	for name := range used {
		if !all[name] {
			t.Errorf("there is no sql/%s.sql", name)
		}
	}
	if len(all) < 80 {
		t.Errorf("only %d statements", len(all))
	}
}
