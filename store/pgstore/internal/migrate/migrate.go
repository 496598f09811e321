// Package migrate brings a schema of a database to the version of a program. Each
// migration is an SQL file whose name begins with its number, NNNN_NAME.sql, counting
// from 1; the table schema_migrations of the schema records those that were applied.
package migrate

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier/store/pgstore/internal/sqltext"
)

// A Migration is a step from one version of the schema to the next. Package pgstore has its own
// type for users, because the documentation has no page for a type of this package.
type Migration struct {
	Version   int
	Name      string
	SQL       string    // for the chosen schema
	AppliedAt time.Time // zero if it was not applied

	checksum string // of the words of the file, without comments
}

// Apply applies the migrations that a schema lacks, and returns them in their order. It
// creates the schema if it does not exist. The caller holds a lock that keeps other
// programs from migrating the schema.
func Apply(ctx context.Context, tx pgx.Tx, files fs.FS, schema string) ([]Migration, error) {
	missing, err := Missing(ctx, tx, files, schema)
	if err != nil {
		return nil, err
	}
	for _, m := range missing {
		if err := apply(ctx, tx, schema, m); err != nil {
			return nil, fmt.Errorf("version %d (%s): %w", m.Version, m.Name, err)
		}
	}
	return missing, nil
}

// Missing returns the migrations that a schema lacks, in their order.
func Missing(ctx context.Context, tx pgx.Tx, files fs.FS, schema string) ([]Migration, error) {
	all, err := Status(ctx, tx, files, schema)
	if err != nil {
		return nil, err
	}
	var missing []Migration
	for _, m := range all {
		if m.AppliedAt.IsZero() {
			missing = append(missing, m)
		}
	}
	return missing, nil
}

// Status returns all migrations, in their order, with the instants when they were applied to a
// schema. It returns an error if the schema is newer than the migrations, or if a migration was
// applied with another text.
func Status(ctx context.Context, tx pgx.Tx, files fs.FS, schema string) ([]Migration, error) {
	list, err := load(files, schema)
	if err != nil {
		return nil, err
	}
	var there bool
	if err := tx.QueryRow(ctx, "select exists (select from pg_catalog.pg_tables where schemaname = $1::text and tablename = 'schema_migrations')", schema).Scan(&there); err != nil || !there {
		return list, err
	}
	// A development version had no column checksum.
	rows, err := tx.Query(ctx, sqltext.ForSchema("select m.version, m.applied_at, m.name, coalesce(pg_catalog.to_jsonb(m) ->> 'checksum'::text, '') from courier.schema_migrations m order by m.version", schema))
	if err != nil {
		return nil, err
	}
	var version int
	var at time.Time
	var name, sum string
	_, err = pgx.ForEachRow(rows, []any{&version, &at, &name, &sum}, func() error {
		if version >= 1 && version <= len(list) && sum != list[version-1].checksum {
			return fmt.Errorf("its version %d (%s) differs from that of this program: a development version of Courier has created it, and it can't be upgraded; remove it (drop schema %s cascade) and create it with pgstore.Migrate, or choose another schema",
				version, name, pgx.Identifier{schema}.Sanitize())
		}
		if version < 1 || version > len(list) {
			return fmt.Errorf("it has version %d, and this program has versions up to %d: deploy a newer version of the program", version, len(list))
		}
		list[version-1].AppliedAt = at.UTC()
		return nil
	})
	return list, err
}

// Script returns everything that [Apply] does to a database without the schema, as SQL.
func Script(files fs.FS, schema string) (string, error) {
	list, err := load(files, schema)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(preamble(schema, true))
	for _, m := range list {
		fmt.Fprintf(&b, "\n-- Version %d: %s.\n\n%s\n", m.Version, m.Name, strings.TrimSpace(m.SQL))
		fmt.Fprintf(&b, "\ninsert into %s (version, name, applied_at, checksum) values (%d, '%s', pg_catalog.clock_timestamp(), '%s');\n",
			pgx.Identifier{schema, "schema_migrations"}.Sanitize(), m.Version, m.Name, m.checksum)
	}
	return b.String(), nil
}

// preamble creates the schema and the table of applied migrations, which the first migration needs.
func preamble(schema string, create bool) string {
	text := sqltext.ForSchema(`create table if not exists courier.schema_migrations (
	version    integer primary key,
	name       text not null,
	applied_at timestamptz not null,
	checksum   text -- of the migration's text
);
`, schema)
	if create {
		text = "create schema if not exists " + pgx.Identifier{schema}.Sanitize() + ";\n\n" + text
	}
	return text
}

// apply applies a migration and records it.
func apply(ctx context.Context, tx pgx.Tx, schema string, m Migration) error {
	if m.Version == 1 {
		var there bool
		if err := tx.QueryRow(ctx, "select exists (select from pg_catalog.pg_namespace where nspname = $1::text)", schema).Scan(&there); err != nil {
			return err
		}
		// CREATE SCHEMA IF NOT EXISTS needs the right to create schemas even if it exists.
		if _, err := tx.Exec(ctx, preamble(schema, !there), pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, m.SQL, pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, sqltext.ForSchema("insert into courier.schema_migrations (version, name, applied_at, checksum) values ($1::int, $2::text, clock_timestamp(), $3::text)", schema), int32(m.Version), m.Name, m.checksum)
	return err
}

// load returns all migrations for a schema, in their order.
func load(files fs.FS, schema string) ([]Migration, error) {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, err
	}
	var list []Migration
	for _, e := range entries {
		text, err := fs.ReadFile(files, e.Name())
		if err != nil {
			return nil, err
		}
		number, name, _ := strings.Cut(strings.TrimSuffix(e.Name(), ".sql"), "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != len(list)+1 {
			return nil, fmt.Errorf("migration %s: the number must be %d", e.Name(), len(list)+1)
		}
		list = append(list, Migration{Version: version, Name: name, SQL: sqltext.ForSchema(string(text), schema), checksum: checksum(string(text))})
	}
	return list, nil
}

// checksum returns a checksum of the words of a migration, without its comments.
func checksum(text string) string {
	h := sha256.New()
	for line := range strings.Lines(text) {
		code, _, _ := strings.Cut(line, "--")
		for _, w := range strings.Fields(code) {
			fmt.Fprintln(h, w)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}
