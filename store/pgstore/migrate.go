package pgstore

import (
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store/pgstore/internal/sqltext"
)

//go:embed migrations/*.sql
var embedded embed.FS

// migrationFiles holds the migrations; tests replace it.
var migrationFiles fs.FS = embedded

// A Migration is a step from one version of the schema to the next.
type Migration struct {
	Version   int
	Name      string
	SQL       string    // for the chosen schema
	AppliedAt time.Time // zero if it was not

	checksum string // of SQL, but for comments and the name of the schema
}

// MigrateOptions are the settings of [Migrate]. The zero value is the default.
type MigrateOptions struct {
	// Schema holds the tables; it is created if it is not there. Empty means
	// [DefaultSchema].
	Schema string
	// DryRun returns the migrations that would be applied, and changes nothing.
	DryRun bool
}

// Migrate brings a schema to the version of this package, in one transaction,
// and returns the migrations that it applied, in their order. Concurrent calls wait
// for each other, for 10 seconds at most. Migrate refuses a schema that is newer than
// this package, and one that was created by a development version with another text
// of a migration. A nil opt means the defaults.
func Migrate(ctx context.Context, pool *pgxpool.Pool, opt *MigrateOptions) ([]Migration, error) {
	var o MigrateOptions
	if opt != nil {
		o = *opt
	}
	schema := schemaOr(o.Schema)
	if len(schema) > 63 {
		return nil, courier.Errorf(courier.ErrInvalid, "migrate schema %q: PostgreSQL cuts names to 63 bytes; choose a shorter one", schema)
	}
	if err := suitable(ctx, pool); err != nil {
		return nil, fmt.Errorf("migrate schema %q: %w", schema, err)
	}
	var missing []Migration
	err := pgx.BeginTxFunc(ctx, pool, readCommitted, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "set local lock_timeout = '10s'"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "select pg_catalog.pg_advisory_xact_lock($1::bigint)", lockNumber("courier migrations "+schema)); err != nil {
			return err
		}
		all, err := status(ctx, tx, schema)
		if err != nil {
			return err
		}
		for _, m := range all {
			if m.AppliedAt.IsZero() {
				missing = append(missing, m)
			}
		}
		if o.DryRun {
			return nil
		}
		for _, m := range missing {
			if err := apply(ctx, tx, schema, m); err != nil {
				return fmt.Errorf("version %d (%s): %w", m.Version, m.Name, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, failed(fmt.Sprintf("migrate schema %q", schema), err)
	}
	return missing, nil
}

func schemaOr(schema string) string {
	if schema == "" {
		return DefaultSchema
	}
	return schema
}

// preamble creates what the first migration needs: the schema, and the table of
// applied migrations.
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

func apply(ctx context.Context, tx pgx.Tx, schema string, m Migration) error {
	if m.Version == 1 {
		var there bool
		if err := tx.QueryRow(ctx, sqltext.Qualify("select exists (select from pg_catalog.pg_namespace where nspname = $1::text)"), schema).Scan(&there); err != nil {
			return err
		}
		// To create one that is there takes the right to create others.
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

// migrations returns all migrations for a schema, in their order.
func migrations(schema string) ([]Migration, error) {
	entries, err := fs.ReadDir(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	var list []Migration
	for _, e := range entries {
		text, err := fs.ReadFile(migrationFiles, "migrations/"+e.Name())
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

// SQL returns all that [Migrate] does to an empty database, for other migration
// tools. It also records the versions, so that [New] accepts the schema. An empty
// schema means [DefaultSchema].
func SQL(schema string) (string, error) {
	schema = schemaOr(schema)
	list, err := migrations(schema)
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

// Status returns all migrations of this package, in their order, with the
// instants when they were applied to a schema. It changes nothing. It returns an
// error for the schemas that [Migrate] refuses. An empty schema means
// [DefaultSchema].
func Status(ctx context.Context, pool *pgxpool.Pool, schema string) ([]Migration, error) {
	var list []Migration
	err := pgx.BeginTxFunc(ctx, pool, readCommitted, func(tx pgx.Tx) (err error) {
		list, err = status(ctx, tx, schemaOr(schema))
		return err
	})
	if err != nil {
		return nil, failed(fmt.Sprintf("migrations of schema %q", schemaOr(schema)), err)
	}
	return list, nil
}

func status(ctx context.Context, tx pgx.Tx, schema string) ([]Migration, error) {
	list, err := migrations(schema)
	if err != nil {
		return nil, err
	}
	var there bool
	if err := tx.QueryRow(ctx, sqltext.Qualify("select exists (select from pg_catalog.pg_tables where schemaname = $1::text and tablename = 'schema_migrations')"), schema).Scan(&there); err != nil || !there {
		return list, err
	}
	// A development version had no column checksum.
	rows, err := tx.Query(ctx, sqltext.ForSchema("select m.version, m.applied_at, m.name, coalesce(to_jsonb(m) ->> 'checksum', '') from courier.schema_migrations m order by m.version", schema))
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
			return fmt.Errorf("it has version %d, and this program knows versions up to %d: deploy a newer version of the program", version, len(list))
		}
		list[version-1].AppliedAt = at.UTC()
		return nil
	})
	return list, err
}

// check returns why a store can't use a schema.
func check(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	if err := suitable(ctx, pool); err != nil {
		return err
	}
	list, err := Status(ctx, pool, schema)
	if err != nil {
		return err
	}
	applied := 0
	for _, m := range list {
		if !m.AppliedAt.IsZero() {
			applied++
		}
	}
	switch {
	case applied == 0:
		return fmt.Errorf("schema %q: it has no tables of Courier's; create them with pgstore.Migrate, or name the schema that has them in Options.Schema", schema)
	case applied < len(list):
		return fmt.Errorf("schema %q: it has version %d, and this program needs %d; bring it up to date with pgstore.Migrate", schema, applied, len(list))
	}
	return nil
}

// suitable returns why Courier can't work with a database.
func suitable(ctx context.Context, pool *pgxpool.Pool) error {
	var version, encoding string
	var number int
	var readOnly bool
	err := pool.QueryRow(ctx, sqltext.Qualify(`select current_setting('server_version'), current_setting('server_version_num')::int,
		current_setting('server_encoding'), pg_is_in_recovery() or current_setting('transaction_read_only')::bool`)).Scan(&version, &number, &encoding, &readOnly)
	switch {
	case err != nil:
		return connectError(err)
	case number < 130000:
		return fmt.Errorf("the server is PostgreSQL %s; Courier needs 13 or newer", version)
	case encoding != "UTF8":
		return fmt.Errorf("the database has encoding %s, which can't hold all names and messages; create one with encoding UTF8", encoding)
	case readOnly:
		return errors.New("the server is read-only, perhaps a standby: give all servers in the connection string and target_session_attrs=read-write")
	}
	return nil
}
