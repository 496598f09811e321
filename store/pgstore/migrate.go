package pgstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store/pgstore/internal/migrate"
)

//go:embed migrations/*.sql
var embeddedMigrations embed.FS

// migrationFiles holds the migrations; tests replace it.
var migrationFiles = folder(embeddedMigrations, "migrations")

// folder returns the files below a folder of an embedded file system.
func folder(files embed.FS, name string) fs.FS {
	sub, err := fs.Sub(files, name)
	if err != nil {
		panic(err) // the name is a constant
	}
	return sub
}

// A Migration is a step from one version of the schema to the next.
type Migration struct {
	Version   int
	Name      string
	SQL       string    // for the chosen schema
	AppliedAt time.Time // zero if it was not applied
}

// MigrateOptions are the settings of [Migrate]. The zero value is the default.
type MigrateOptions struct {
	// Schema holds the tables. Migrate creates it if it does not exist. Empty means
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
	var missing []migrate.Migration
	// A migration locks tables one after the other, and so does a concurrent statement: in the
	// order of its text when it is prepared, and in the order of its plan later. If the two wait
	// for each other, PostgreSQL ends one of them.
	run := func(tx pgx.Tx) (err error) {
		if _, err = tx.Exec(ctx, "set local lock_timeout = '10s'"); err != nil {
			return err
		}
		if _, err = tx.Exec(ctx, "select pg_catalog.pg_advisory_xact_lock($1::bigint)", lockNumber("courier migrations "+schema)); err != nil {
			return err
		}
		if o.DryRun {
			missing, err = migrate.Missing(ctx, tx, migrationFiles, schema)
		} else {
			missing, err = migrate.Apply(ctx, tx, migrationFiles, schema)
		}
		return err
	}
	err := sessions{pool}.inTransaction(ctx, run)
	for n := 1; code(err) == deadlock && n < maxAgain && ctx.Err() == nil; n++ {
		err = sessions{pool}.inTransaction(ctx, run)
	}
	if err != nil {
		return nil, failed(fmt.Sprintf("migrate schema %q", schema), err)
	}
	return migrationsOf(missing), nil
}

func migrationsOf(list []migrate.Migration) []Migration {
	var all []Migration
	for _, m := range list {
		all = append(all, Migration{Version: m.Version, Name: m.Name, SQL: m.SQL, AppliedAt: m.AppliedAt})
	}
	return all
}

func schemaOr(schema string) string {
	if schema == "" {
		return DefaultSchema
	}
	return schema
}

// SQL returns the SQL that [Migrate] runs on a database without the schema, for other
// migration tools. It also records the versions, so that [New] accepts the schema. An
// empty schema means [DefaultSchema].
func SQL(schema string) (string, error) { return migrate.Script(migrationFiles, schemaOr(schema)) }

// Status returns all migrations of this package, in their order, with the
// instants when they were applied to a schema. It changes nothing. It returns an
// error for the schemas that [Migrate] refuses. An empty schema means
// [DefaultSchema].
func Status(ctx context.Context, pool *pgxpool.Pool, schema string) ([]Migration, error) {
	var list []migrate.Migration
	err := sessions{pool}.inTransaction(ctx, func(tx pgx.Tx) (err error) {
		list, err = migrate.Status(ctx, tx, migrationFiles, schemaOr(schema))
		return err
	})
	if err != nil {
		return nil, failed(fmt.Sprintf("migrations of schema %q", schemaOr(schema)), err)
	}
	return migrationsOf(list), nil
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
	err := sessions{pool}.QueryRow(ctx, `select current_setting('server_version'), current_setting('server_version_num')::int,
		current_setting('server_encoding'), pg_is_in_recovery() or current_setting('transaction_read_only')::bool`).Scan(&version, &number, &encoding, &readOnly)
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
