package pgstore

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
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
		for i, v := range allVariants() {
			name, text := v.name, statementsFor(schema).text(v)
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
	call := regexp.MustCompile(`\.sql(?:Subscribed|Filtered)?\("([^"]+)"`)
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
	for _, v := range allVariants() {
		all[v.name] = true
		if !used[v.name] {
			t.Errorf("no code uses sql/%s.sql", v.name)
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

// TestCompose has files that nothing else would compose right.
func TestCompose(t *testing.T) {
	vars := map[string]string{"yes": "true", "no": "false", "filter": "and a = b"}
	for text, want := range map[string]string{
		"select 1 -- a comment\n\n":                                               "select 1",
		"a\n\\if :yes\nb\n\\else\nc\n\\endif\nd":                                  "a b d",
		"a\n\\if :no\nb\n\\if :yes\nc\n\\else\nd\n\\endif\n\\else\ne\n\\endif\nf": "a e f",
		"a\n\\if :no\n\\set yes false\n\\endif\n\\if :yes\nb\n\\endif":            "a b",
		"where true :filter and c::text = 'd'":                                    "where true and a = b and c::text = 'd'",
		"\\set no true\n\\if :no\na\n\\endif":                                     "a",
	} {
		if got := strings.Join(composeText("test", text, maps.Clone(vars)), " "); got != want {
			t.Errorf("%q\nbecomes %q\nwant    %q", text, got, want)
		}
	}
	for _, text := range []string{"a :unknown", "\\if :unknown", "\\ir ../nowhere.sql"} {
		func() {
			defer func() { _ = recover() }()
			t.Errorf("%q becomes %q; want it refused", text, composeText("test", text, maps.Clone(vars)))
		}()
	}
}
