package pgstore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Roles are the names of database roles by their tasks. An empty one gets no privileges.
type Roles struct {
	// Owner runs [Migrate]. It owns the schema and its tables, and needs no other
	// rights.
	Owner string
	// Engine runs engines, and clients that enqueue executions and read them.
	Engine string
	// Retention removes executions with [Store.Retain]. Name a role that runs engines
	// with Options.Retention here too.
	Retention string
	// Reader reads everything, and writes nothing.
	Reader string
}

// Grants returns the statements, one per line, that grant roles the privileges they need in a
// schema. The statements for the owner create the schema: an administrator runs them before
// [Migrate]. The others name tables: the owner runs them after Migrate, and again after each later
// Migrate that applied a migration, because a migration may add tables. Granting a privilege again
// does no harm. The roles must exist. An empty schema means [DefaultSchema].
func Grants(schema string, r Roles) string {
	schema = schemaOr(schema)
	var b strings.Builder
	if r.Owner != "" {
		fmt.Fprintf(&b, "create schema if not exists %s authorization %s;\n", pgx.Identifier{schema}.Sanitize(), pgx.Identifier{r.Owner}.Sanitize())
	}
	usage := func(role string) {
		fmt.Fprintf(&b, "grant usage on schema %s to %s;\n", pgx.Identifier{schema}.Sanitize(), pgx.Identifier{role}.Sanitize())
	}
	grant := func(role, needs, table string) {
		needs = strings.ReplaceAll(needs, " and ", ", ")
		fmt.Fprintf(&b, "grant %s on %s to %s;\n", needs, pgx.Identifier{schema, table}.Sanitize(), pgx.Identifier{role}.Sanitize())
	}
	if r.Engine != "" {
		usage(r.Engine)
		for _, t := range rights {
			grant(r.Engine, t.needs, t.table)
		}
	}
	if r.Retention != "" {
		usage(r.Retention)
		for _, t := range retentionRights {
			grant(r.Retention, t.needs, t.table)
		}
	}
	if r.Reader != "" {
		usage(r.Reader)
		for _, t := range rights {
			grant(r.Reader, "select", t.table)
		}
	}
	return b.String()
}

// retentionRights are the rights of a role that removes executions, besides usage on
// the schema. Locking a row needs the right to update a column of it.
var retentionRights = []struct{ table, needs string }{
	{"schema_migrations", "select"},
	{"job_definitions", "select"},
	{"job_executions", "select, delete and update (ended_at)"},
	{"execution_history", "select and delete"},
	{"trail", "select and delete"},
	{"chain_members", "select and delete"},
	{"chain_executions", "select, delete and update (ended_at)"},
}

// rights are the rights on the tables of a role that runs engines, besides usage on the
// schema.
var rights = []struct{ table, needs string }{
	{"schema_migrations", "select"},
	{"job_definitions", "select, insert and update"},
	{"job_definition_versions", "select and insert"},
	{"job_dependencies", "select, insert and delete"},
	{"job_executions", "select, insert and update"},
	{"execution_deadlines", "select, insert, update and delete"},
	{"execution_history", "select and insert"},
	{"step_executions", "select"},
	{"job_audit_log", "select"},
	{"opened_before", "select"},
	{"minute_figures", "select, insert, update and delete"},
	{"trail", "select and insert"},
	{"journal", "select and insert"},
	{"acknowledgements", "select, insert, update and delete"},
	{"system_settings", "select, insert, update and delete"},
	{"job_schedules", "select, insert, update and delete"},
	{"chain_schedules", "select, insert, update and delete"},
	{"chain_executions", "select, insert and update"},
	{"chain_members", "select, insert and update"},
	{"subscriptions", "select, insert, update and delete"},
	{"outbox_windows", "select, insert, update and delete"},
	{"outbox", "select, insert, update and delete"},
	{"monitors", "select, insert, update and delete"},
	{"monitor_files", "select, insert, update and delete"},
	{"expectations", "select, insert, update and delete"},
	{"arrivals", "select, insert, update and delete"},
	{"workers", "select, insert, update and delete"},
}

// lackedRight returns the hint for an error about a missing right. The server's message
// names the table in every language.
func lackedRight(err error) string {
	refusal, _ := errors.AsType[*pgconn.PgError](err)
	for _, r := range rights {
		if refusal != nil && strings.Contains(refusal.Message, r.table) {
			return "; an engine's role needs " + r.needs + " on " + r.table + ": grant it what \"rights\" in docs/postgres.md lists"
		}
	}
	return "; an engine's role needs usage on the schema, and rights on its tables; one that migrates must own what there is, and needs create on the schema, or on the database if the schema is not there: see \"rights\" in docs/postgres.md"
}
