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
