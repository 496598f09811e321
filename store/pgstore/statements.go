package pgstore

import (
	"context"
	"embed"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier/store/pgstore/internal/sqltext"
)

//go:embed sql/*/*.sql
var embeddedSQL embed.FS

// sqlFiles are the files below sql.
var sqlFiles = folder(embeddedSQL, "sql")

// statements are the statements for one schema. The statement "claim/queued_fast" is the file
// sql/claim/queued_fast.sql. A file whose name ends in ".inc.sql" is a part that other files
// include.
type statements struct {
	schema string
	mu     sync.RWMutex
	texts  map[filtered]string
}

// A filtered is a statement with a filter. The filter has conditions that begin with "and", and
// replaces the comment "filter". It is made from constants of this package, not from input.
type filtered struct{ name, filter string }

// statementsBySchema holds *statements, which all stores of a process share.
var statementsBySchema sync.Map

// statementsFor returns the statements for a schema.
func statementsFor(schema string) *statements {
	q, _ := statementsBySchema.LoadOrStore(schema, &statements{schema: schema, texts: make(map[filtered]string)})
	return q.(*statements)
}

// text returns a statement in the form in which it is sent. It begins with a comment that names the
// statement in logs and in pg_stat_activity.
func (q *statements) text(f filtered) string {
	q.mu.RLock()
	text, ok := q.texts[f]
	q.mu.RUnlock()
	if ok {
		return text
	}
	text = sqltext.Read(sqlFiles, f.name+".sql")
	if f.filter != "" {
		text = strings.Replace(text, "/* filter */", f.filter, 1)
	}
	text = "/* courier: " + f.name + " */\n" + sqltext.ForSchema(text, q.schema)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.texts[f] = text
	return text
}

// sql returns a statement.
func (s *Store) sql(name string) string { return s.q.text(filtered{name: name}) }

// sqlFiltered returns a statement with a filter, which may be empty.
func (s *Store) sqlFiltered(name, filter string) string { return s.q.text(filtered{name, filter}) }

// A statement is a statement with its parameters.
type statement struct {
	sql  string
	args []any
}

// sendAll sends statements in one transaction and one round trip, scans each row of the first
// into fields, and then calls row.
func sendAll(ctx context.Context, db querier, list []statement, fields []any, row func() error) error {
	if len(list) == 1 {
		rows, err := db.Query(ctx, list[0].sql, list[0].args...)
		if err != nil {
			return err
		}
		_, err = pgx.ForEachRow(rows, fields, row)
		return err
	}
	var b pgx.Batch
	for _, q := range list {
		b.Queue(q.sql, q.args...)
	}
	return sent(db.SendBatch(ctx, &b), func(results pgx.BatchResults) error {
		rows, err := results.Query()
		if err != nil {
			return err
		}
		if _, err := pgx.ForEachRow(rows, fields, row); err != nil {
			return err
		}
		for range list[1:] {
			if _, err := results.Exec(); err != nil {
				return err
			}
		}
		return nil
	})
}

// sent reads the results of a batch.
func sent(r pgx.BatchResults, read func(pgx.BatchResults) error) error {
	err := read(r)
	if closed := r.Close(); err == nil {
		err = closed
	}
	return err
}

// keepEvents returns the statement that keeps the events of the rows that its transaction has
// written before; see sql/delivery/keep_events.sql. Ids and numbers are lists of parameters.
func (s *Store) keepEvents(ids, numbers any, claimed, started bool) statement {
	return statement{s.sql("delivery/keep_events"), []any{ids, numbers, claimed, started}}
}
