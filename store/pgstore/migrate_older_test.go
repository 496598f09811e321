package pgstore

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier/internal/test/pgtest"
)

// withMigration adds a migration for the time of a test.
func withMigration(t *testing.T, name, text string) {
	t.Helper()
	files := fstest.MapFS{}
	entries, err := fs.ReadDir(migrationFiles, ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := fs.ReadFile(migrationFiles, e.Name())
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = &fstest.MapFile{Data: data}
	}
	files[name] = &fstest.MapFile{Data: []byte(text)}
	before := migrationFiles
	migrationFiles = files
	t.Cleanup(func() { migrationFiles = before })
}

// TestUpgrade goes from the schema of today to that of a later program, which
// comes with a migration that fails at first.
func TestUpgrade(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	today, err := Migrate(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	next := len(today) + 1
	name := fmt.Sprintf("%04d_later.sql", next)

	withMigration(t, name, "create table courier.later (what text); create table courier.job_executions (id int);")
	if _, err := New(t.Context(), pool, nil); err == nil || !strings.Contains(err.Error(), "and this program needs ") ||
		!strings.Contains(err.Error(), "bring it up to date with pgstore.Migrate") {
		t.Errorf("an older schema: %v; want an error that says what to do", err)
	}
	if _, err := Migrate(t.Context(), pool, nil); err == nil || !strings.Contains(err.Error(), "(later)") || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("a migration that fails: %v", err)
	}
	if list, err := Status(t.Context(), pool, ""); err != nil || !list[next-1].AppliedAt.IsZero() || list[next-2].AppliedAt.IsZero() {
		t.Errorf("after it failed: %+v, %v; want it missing and those before it applied", list, err)
	}
	var there bool
	if err := pool.QueryRow(t.Context(), "select to_regclass('courier.later') is not null").Scan(&there); err != nil || there {
		t.Errorf("a part of the failed migration is there: %v, %v", there, err)
	}

	withMigration(t, name, "create table courier.later (what text);")
	versions := func(list []Migration) (v []int) {
		for _, m := range list {
			v = append(v, m.Version)
		}
		return v
	}
	if list, err := Migrate(t.Context(), pool, &MigrateOptions{DryRun: true}); err != nil || !slices.Equal(versions(list), []int{next}) {
		t.Errorf("a dry run tells of %v, %v; want only %d", versions(list), err, next)
	}
	if list, err := Migrate(t.Context(), pool, nil); err != nil || !slices.Equal(versions(list), []int{next}) {
		t.Errorf("applied %v, %v; want only %d", versions(list), err, next)
	}
	s, err := New(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if h, err := s.Health(t.Context()); err != nil || h.Schema != next {
		t.Errorf("health tells of schema version %d, %v; want %d", h.Schema, err, next)
	}
}
