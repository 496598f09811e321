package pgstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/internal/uuid7"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// dial returns a pool that is closed with the test.
func dial(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// exec runs a statement, or several without arguments.
func exec(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if len(args) == 0 {
		args = []any{pgx.QueryExecModeSimpleProtocol}
	}
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%v\nin %.200s", err, sql)
	}
}

// value returns the only value that a query selects.
func value[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%v\nin %.200s", err, sql)
	}
	return v
}

// wants fails the test unless the error has all the words.
func wants(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error; want one with %q", words)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q\nlacks %q", err, w)
		}
	}
}

// catalog is everything in the system catalogs about a schema, except when migrations were
// applied.
func catalog(t testing.TB, pool *pgxpool.Pool, schema string) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), `
		select 'column ' || table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' || coalesce(column_default, '')
			|| ' ' || coalesce(collation_name, '') || ' ' || is_identity || ' ' || ordinal_position
		from information_schema.columns where table_schema = $1
		union all
		select 'index ' || indexdef from pg_indexes where schemaname = $1
		union all
		select 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
		from pg_constraint where connamespace = (select oid from pg_namespace where nspname = $1)
		union all
		select 'table ' || relname || ' ' || relkind::text || ' ' || coalesce(array_to_string(reloptions, ','), '')
		from pg_class where relnamespace = (select oid from pg_namespace where nspname = $1)
		union all
		select 'trigger ' || tgname || ' ' || pg_get_triggerdef(oid) from pg_trigger
		where not tgisinternal and tgrelid in (select oid from pg_class where relnamespace = (select oid from pg_namespace where nspname = $1))
		union all
		select 'function ' || proname || ' ' || pg_get_functiondef(oid) from pg_proc
		where pronamespace = (select oid from pg_namespace where nspname = $1)
		order by 1`, schema)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// migrated returns the numbers of migrations.
func migrated(list []pgstore.Migration) []int {
	numbers := make([]int, 0, len(list))
	for _, m := range list {
		numbers = append(numbers, m.Version)
	}
	return numbers
}

func TestMigrate(t *testing.T) {
	pool := dial(t, pgtest.URL(t))
	before, err := pgstore.Status(t.Context(), pool, "")
	if err != nil || len(before) == 0 {
		t.Fatalf("status of an empty database: %d migrations, %v", len(before), err)
	}
	for i, m := range before {
		if m.Version != i+1 || m.Name == "" || !m.AppliedAt.IsZero() || !strings.Contains(m.SQL, "courier.") {
			t.Errorf("migration %d: %+v", i, m)
		}
	}
	scheduleChanged, err := pgstore.Migrate(t.Context(), pool, &pgstore.MigrateOptions{DryRun: true})
	if err != nil || !slices.Equal(migrated(scheduleChanged), migrated(before)) {
		t.Errorf("a dry run tells of %v, %v; want all of %v", migrated(scheduleChanged), err, migrated(before))
	}
	if value[bool](t, pool, "select exists (select from pg_namespace where nspname = 'courier')") {
		t.Error("a dry run made the schema")
	}
	started := value[time.Time](t, pool, "select clock_timestamp()")
	applied, err := pgstore.Migrate(t.Context(), pool, nil)
	if err != nil || !slices.Equal(migrated(applied), migrated(before)) {
		t.Fatalf("applied %v, %v; want all of %v", migrated(applied), err, migrated(before))
	}
	after := catalog(t, pool, "courier")
	for _, opt := range []*pgstore.MigrateOptions{nil, {DryRun: true}, {Schema: "courier"}} {
		again, err := pgstore.Migrate(t.Context(), pool, opt)
		if err != nil || len(again) != 0 {
			t.Errorf("applied again: %v, %v", migrated(again), err)
		}
	}
	if now := catalog(t, pool, "courier"); !slices.Equal(now, after) {
		t.Error("migrating again changed something")
	}
	list, err := pgstore.Status(t.Context(), pool, "courier")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		if m.AppliedAt.Before(started) || m.AppliedAt.Location() != time.UTC {
			t.Errorf("version %d was applied at %v; it is after %v", m.Version, m.AppliedAt, started)
		}
	}
}

func TestDumpEqualsMigrate(t *testing.T) {
	for _, schema := range []string{"courier", `Odd "name"`} {
		byMigrate, byDump := dial(t, pgtest.URL(t)), dial(t, pgtest.URL(t))
		if _, err := pgstore.Migrate(t.Context(), byMigrate, &pgstore.MigrateOptions{Schema: schema}); err != nil {
			t.Fatal(err)
		}
		dump, err := pgstore.SQL(schema)
		if err != nil {
			t.Fatal(err)
		}
		exec(t, byDump, dump)
		want, got := catalog(t, byMigrate, schema), catalog(t, byDump, schema)
		if len(want) < 100 {
			t.Fatalf("%q: only %d things are compared", schema, len(want))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: the dump made\n%s\nand Migrate\n%s", schema, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if again, err := pgstore.Migrate(t.Context(), byDump, &pgstore.MigrateOptions{Schema: schema}); err != nil || len(again) != 0 {
			t.Errorf("%q: after the dump Migrate applied %v, %v", schema, migrated(again), err)
		}
		names := "select string_agg(name, ',' order by version) from " + pgx.Identifier{schema, "schema_migrations"}.Sanitize()
		if a, b := value[string](t, byMigrate, names), value[string](t, byDump, names); a != b {
			t.Errorf("%q: versions %q by Migrate, %q by the dump", schema, a, b)
		}
	}
}

// TestOddSchemas uses all that a store can do in schemas with odd names, side by
// side.
func TestOddSchemas(t *testing.T) {
	url := pgtest.URL(t)
	pool := dial(t, url)
	schemas := []string{
		`quo"ted`, `it's`, "UPPER", "a.b", "courier.courier", "schema", "two words", "$1", "--", "na\u00efve", "back\\slash",
		strings.Repeat("x", 63), strings.Repeat("\u00e9", 31),
	}
	for i, schema := range schemas {
		s := open(t, url, &pgstore.Options{Schema: schema})
		for range i + 1 {
			oneExecution(t, s)
		}
	}
	for i, schema := range schemas {
		n := value[int](t, pool, "select count(*) from "+pgx.Identifier{schema, "job_executions"}.Sanitize())
		if n != i+1 {
			t.Errorf("schema %q has %d executions, want %d", schema, n, i+1)
		}
		for _, line := range catalog(t, pool, schema) {
			if strings.HasPrefix(line, "function ") && !strings.Contains(line, "'courier.retention'") {
				t.Errorf("schema %q: the name of the setting did not survive in %s", schema, line)
			}
		}
		exec(t, pool, "drop schema "+pgx.Identifier{schema}.Sanitize()+" cascade")
	}
	if left := value[string](t, pool, `select coalesce(string_agg(relname, ', '), '') from pg_class
		where relnamespace not in (select oid from pg_namespace where nspname like 'pg\_%' or nspname = 'information_schema')`); left != "" {
		t.Errorf("left outside the schemas: %s", left)
	}
}

var idSource uuid7.Source

// oneExecution runs an execution of one step in a store, and removes the one
// before it.
func oneExecution(t *testing.T, s *pgstore.Store) courier.ExecutionID {
	t.Helper()
	ctx := t.Context()
	d, err := s.Save(ctx, store.Definition{Kind: store.Job, Name: "odd", Body: json.RawMessage(`{}`), By: "courier.me"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Set(ctx, "courier.note", "courier.value"); err != nil {
		t.Fatal(err)
	}
	id := courier.ExecutionID(idSource.New())
	if _, err := s.Enqueue(ctx, []store.NewExecution{{ID: id, Job: "odd", Version: d.Version, StepTypes: []string{"file.copy"}, Queue: "courier.q"}}); err != nil {
		t.Fatal(err)
	}
	claims, err := s.Claim(ctx, store.ClaimRequest{Worker: "w", StepTypes: []string{"file.copy"}, Queues: []string{"courier.q"}, Max: 1, Lease: time.Minute})
	if err != nil || len(claims.List) != 1 || claims.List[0].Execution.ID != id {
		t.Fatalf("claimed %+v, %v; want %s", claims.List, err, id)
	}
	c := claims.List[0]
	renewed, err := s.Renew(ctx, store.RenewRequest{Worker: "w", Leases: []store.Lease{{Execution: id, Token: c.Token}}, For: time.Minute})
	if err != nil || len(renewed) != 1 {
		t.Fatalf("renewed %v, %v", renewed, err)
	}
	if err := s.Apply(ctx, store.Transition{Execution: id, Lease: c.Token, Seq: c.Seq + 1, To: courier.Completed}); err != nil {
		t.Fatal(err)
	}
	if x, err := s.Execution(ctx, id); err != nil || x.State != courier.Completed {
		t.Fatalf("the execution is %s, %v; want completed", x.State, err)
	}
	if audit, err := s.Audit(ctx, store.AuditFilter{Execution: id}); err != nil || len(audit) != 3 {
		t.Fatalf("%d entries, %v; want 3", len(audit), err)
	}
	if _, err := s.Health(ctx); err != nil {
		t.Fatal(err)
	}
	if settings, err := s.Settings(ctx, store.SettingFilter{Prefix: "courier.note"}); err != nil || len(settings) != 1 || settings[0].Value != "courier.value" {
		t.Fatalf("settings %v, %v", settings, err)
	}
	return id
}

// TestMigrateAtOnce migrates from 8 places at once, while others look and work in
// the schema beside it.
func TestMigrateAtOnce(t *testing.T) {
	url := pgtest.URL(t)
	busy := open(t, url, &pgstore.Options{Schema: "busy"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var around sync.WaitGroup
	around.Go(func() {
		for n := 0; ctx.Err() == nil && n < 1000; n++ {
			oneExecution(t, busy)
		}
	})
	watcher := dial(t, url)
	around.Go(func() {
		for n := 0; ctx.Err() == nil && n < 1000; n++ {
			list, err := pgstore.Status(t.Context(), watcher, "")
			if err != nil {
				t.Errorf("status: %v", err)
				return
			}
			for _, m := range list {
				if m.AppliedAt.IsZero() != list[0].AppliedAt.IsZero() {
					t.Error("some migrations are seen and others not")
				}
			}
		}
	})
	const places = 8
	results := make([][]pgstore.Migration, places)
	errs := make([]error, places)
	begin := make(chan struct{})
	var group sync.WaitGroup
	for i := range places {
		pool := dial(t, url)
		if err := pool.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			<-begin
			results[i], errs[i] = pgstore.Migrate(t.Context(), pool, nil)
		})
	}
	close(begin)
	group.Wait()
	cancel()
	around.Wait()
	all, err := pgstore.Status(t.Context(), watcher, "")
	if err != nil {
		t.Fatal(err)
	}
	var applied []int
	for i := range places {
		if errs[i] != nil {
			t.Errorf("place %d: %v", i, errs[i])
		}
		if n := len(results[i]); n != 0 && n != len(all) {
			t.Errorf("place %d applied %d of %d", i, n, len(all))
		}
		applied = append(applied, migrated(results[i])...)
	}
	if !slices.Equal(applied, migrated(all)) {
		t.Errorf("applied in all: %v, want each of %v once", applied, migrated(all))
	}
	oneExecution(t, open(t, url, nil))
}

func TestNewerSchemaIsRefused(t *testing.T) {
	url := pgtest.URL(t)
	oneExecution(t, open(t, url, nil))
	pool := dial(t, url)
	list, err := pgstore.Status(t.Context(), pool, "")
	if err != nil {
		t.Fatal(err)
	}
	newer := len(list) + 1
	exec(t, pool, "insert into courier.schema_migrations values ($1, 'of_the_future', clock_timestamp())", newer)
	before := catalog(t, pool, "courier")
	words := []string{
		`schema "courier"`, fmt.Sprintf("it has version %d, and this program has versions up to %d", newer, newer-1),
		"deploy a newer version of the program",
	}
	_, err = pgstore.Status(t.Context(), pool, "")
	wants(t, err, words...)
	for _, dry := range []bool{false, true} {
		_, err = pgstore.Migrate(t.Context(), pool, &pgstore.MigrateOptions{DryRun: dry})
		wants(t, err, words...)
	}
	_, err = pgstore.New(t.Context(), pool, nil)
	wants(t, err, words...)
	if after := catalog(t, pool, "courier"); !slices.Equal(before, after) {
		t.Error("a refused schema was changed")
	}
}

// TestDevelopmentSchemaIsRefused has schemas of development versions: one from before
// checksums, and one with another text of the same migration.
func TestDevelopmentSchemaIsRefused(t *testing.T) {
	for what, change := range map[string]string{
		"eight migrations, without checksums": `alter table courier.schema_migrations drop column checksum;
			update courier.schema_migrations set name = 'core';
			insert into courier.schema_migrations select n, 'older', clock_timestamp() from generate_series(2, 8) n`,
		"another text": "update courier.schema_migrations set checksum = 'another'",
	} {
		pool := dial(t, pgtest.URL(t))
		if _, err := pgstore.Migrate(t.Context(), pool, nil); err != nil {
			t.Fatal(err)
		}
		exec(t, pool, change)
		before := catalog(t, pool, "courier")
		words := []string{`schema "courier"`, "its version 1 (", "development version", `drop schema "courier" cascade`, "pgstore.Migrate"}
		_, err := pgstore.Status(t.Context(), pool, "")
		wants(t, err, words...)
		_, err = pgstore.Migrate(t.Context(), pool, nil)
		wants(t, err, words...)
		_, err = pgstore.New(t.Context(), pool, nil)
		wants(t, err, words...)
		if after := catalog(t, pool, "courier"); !slices.Equal(before, after) {
			t.Errorf("%s: a refused schema was changed", what)
		}
		exec(t, pool, "drop schema courier cascade")
		oneExecution(t, open(t, pool.Config().ConnString(), nil))
	}
}

func TestMissingSchemaIsRefused(t *testing.T) {
	url := pgtest.URL(t)
	pool := dial(t, url)
	for _, schema := range []string{"", "elsewhere"} {
		_, err := pgstore.New(t.Context(), pool, &pgstore.Options{Schema: schema})
		name := schema
		if name == "" {
			name = pgstore.DefaultSchema
		}
		wants(t, err, "open store", fmt.Sprintf("schema %q", name), "no tables of Courier's", "pgstore.Migrate", "Options.Schema")
	}
	exec(t, pool, "create schema courier; create table courier.job_executions (id int)")
	_, err := pgstore.New(t.Context(), pool, nil)
	wants(t, err, "no tables of Courier's", "pgstore.Migrate")
}

// TestFailingMigration has the last thing of the first migration, and one in its
// middle, in the way.
func TestFailingMigration(t *testing.T) {
	for what, obstacle := range map[string]string{
		"table":    "create schema courier; create table courier.job_audit_log (mine text)",
		"function": "create schema courier; create function courier.refuse_change() returns int language sql as 'select 1'",
	} {
		pool := dial(t, pgtest.URL(t))
		exec(t, pool, obstacle)
		before := catalog(t, pool, "courier")
		list, err := pgstore.Migrate(t.Context(), pool, nil)
		wants(t, err, `migrate schema "courier"`, "version 1 (schema)", "already exists")
		if len(list) != 0 {
			t.Errorf("%s: a failed migration returned %v", what, migrated(list))
		}
		if after := catalog(t, pool, "courier"); !slices.Equal(before, after) {
			t.Errorf("%s: left behind: %q, before %q", what, after, before)
		}
		exec(t, pool, "drop schema courier cascade")
		oneExecution(t, open(t, pool.Config().ConnString(), nil))
	}
}

func TestMigrateExistingSchema(t *testing.T) {
	url := pgtest.URL(t)
	pool := dial(t, url)
	role := newRole(t, pool)
	exec(t, pool, "create schema mine authorization "+role)
	own := rolePool(t, url, role)
	if _, err := pgstore.Migrate(t.Context(), own, &pgstore.MigrateOptions{Schema: "mine"}); err != nil {
		t.Fatalf("a role that owns the schema but may create no others: %v", err)
	}
	s, err := pgstore.New(t.Context(), own, &pgstore.Options{Schema: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	oneExecution(t, s)
}

func TestMigrateEndsWithItsContext(t *testing.T) {
	pool := dial(t, pgtest.URL(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pgstore.Migrate(ctx, pool, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context canceled", err)
	}
}
