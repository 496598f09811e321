package pgstore

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// rights are the rights on the tables of a role that runs engines, besides usage on the
// schema.
var rights = []struct{ table, needs string }{
	{"schema_migrations", "select"},
	{"job_definitions", "select, insert and update"},
	{"job_definition_versions", "select and insert"},
	{"job_dependencies", "select, insert and delete"},
	{"job_executions", "select, insert and update"},
	{"execution_deadlines", "select, insert, update and delete"},
	{"step_executions", "select and insert"},
	{"job_audit_log", "select and insert"},
	{"trail", "select and insert"},
	{"journal", "select and insert"},
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
