package pgstore

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier/internal/test/pgtest"
)

func TestQualified(t *testing.T) {
	for sql, want := range map[string]string{
		"a = b":                        "a operator(pg_catalog.=) b",
		"a = b - c":                    "a operator(pg_catalog.=) (b operator(pg_catalog.-) c)",
		"a * b + c":                    "a operator(pg_catalog.*) b operator(pg_catalog.+) c",
		"a + b * c - d":                "a operator(pg_catalog.+) (b operator(pg_catalog.*) c) operator(pg_catalog.-) d",
		"a = -1 and b = -1::int":       "a operator(pg_catalog.=) -1 and b operator(pg_catalog.=) (operator(pg_catalog.-) 1::int)",
		"a in ('b', 'c')":              "a operator(pg_catalog.=) any (array['b', 'c'])",
		"a not in ('b')":               "a operator(pg_catalog.<>) all (array['b'])",
		"a in (select b)":              "a operator(pg_catalog.=) any (select b)",
		"nullif(a + 1, '')":            "case when (a operator(pg_catalog.+) 1) operator(pg_catalog.<>) '' then (a operator(pg_catalog.+) 1) end",
		"case a when b then 1 end":     "case when a operator(pg_catalog.=) b then 1 end",
		"update x set a = b, c = d":    "update x set a = b, c = d",
		"set a = b = c, d = e and f=1": "set a = b operator(pg_catalog.=) c, d = e and f operator(pg_catalog.=)1",
		"count(*) filter (where a)":    "pg_catalog.count(*) filter (where a)",
		"a::text[] || b::int":          "a::pg_catalog.text[] operator(pg_catalog.||) b::int",
		`a text collate "C"`:           `a pg_catalog.text collate pg_catalog."C"`,
		"unnest(a, b) as n (c, d)":     "unnest(a, b) as n (c, d)",
		"unnest(a)":                    "pg_catalog.unnest(a)",
		"'a = b' /* c = d */ -- e = f": "'a = b' /* c = d */ -- e = f",
		"create table c.t (a int) with (fillfactor = 1)": "create table c.t (a int) with (fillfactor = 1)",
	} {
		if got := qualified(sql); got != want {
			t.Errorf("%s\nis  %s\nnot %s", sql, got, want)
		}
		if again := qualified(want); again != want {
			t.Errorf("%s\nbecomes %s", want, again)
		}
	}
	for _, sql := range []string{
		"a between b and c", "a like b", "a is distinct from b", "a is not distinct from b", "a join b using (c)", "nullif(a, b)",
		"a not in (select b)", "cast(a as b)", "a natural join b", "inet '::1'", "a ilike b", "(a", "a)",
	} {
		func() {
			defer func() { _ = recover() }()
			t.Errorf("%s becomes %s; want it refused", sql, qualified(sql))
		}()
	}
}

var schemaOfOperator = regexp.MustCompile(`operator\(pg_catalog\.([^)]+)\)`)

// TestQualifiedPlans compares the plan of each statement with that of the same
// statement whose operators have no schema, and so the precedence that they have
// without one.
func TestQualifiedPlans(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := Migrate(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(t.Context(), "set plan_cache_mode = force_generic_plan"); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for i, sql := range allSQL() {
		if !strings.HasPrefix(sql, "/* courier: ") || strings.Contains(sql, "/* filter */") {
			continue
		}
		plain := schemaOfOperator.ReplaceAllString(sql, "$1")
		got, want := planOf(t, conn.Conn(), fmt.Sprint("q", i), sql), planOf(t, conn.Conn(), fmt.Sprint("p", i), plain)
		if got != want {
			t.Errorf("%s\nhas the plan\n%s\nand without the schemas of its operators\n%s", sql, got, want)
		}
		compared++
	}
	if compared < 80 {
		t.Errorf("%d statements were compared", compared)
	}
}

// planOf is the generic plan of a statement.
func planOf(t *testing.T, conn *pgx.Conn, name, sql string) string {
	t.Helper()
	most := 0
	for _, m := range regexp.MustCompile(`\$(\d+)`).FindAllStringSubmatch(sql, -1) {
		n, _ := strconv.Atoi(m[1])
		most = max(most, n)
	}
	if _, err := conn.Exec(t.Context(), "prepare "+name+" as "+sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("%v\nin %s", err, sql)
	}
	args := ""
	if most > 0 {
		args = "(" + strings.TrimSuffix(strings.Repeat("null, ", most), ", ") + ")"
	}
	rows, err := conn.Query(t.Context(), "explain (verbose, costs off) execute "+name+args, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%v\nin %s", err, sql)
	}
	return strings.Join(lines, "\n")
}
