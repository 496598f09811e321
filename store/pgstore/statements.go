package pgstore

import (
	"embed"
	"strconv"
	"sync"

	"github.com/courierhq/courier/store/pgstore/internal/sqltext"
)

//go:embed sql/*/*.sql
var embeddedSQL embed.FS

// sqlFiles are the files below sql.
var sqlFiles = folder(embeddedSQL, "sql")

// statements are the statements for one schema. The statement "claim/queued_fast" is
// the file sql/claim/queued_fast.sql. A file whose name ends in ".inc.sql" is a part
// of others. Package sqltext composes them.
type statements struct {
	schema string
	mu     sync.RWMutex
	texts  map[variant]string
}

// A variant is a statement with values for the variables of its file.
type variant struct {
	name       string
	subscribed bool   // there are subscriptions: the statement keeps the events that it causes
	deadlines  bool   // some of the new executions have deadlines
	labels     bool   // some of the new executions have labels
	files      bool   // some of the step attempts that have ended report files
	filter     string // conditions that begin with "and"; a constant of this package, no input
}

// statementsBySchema holds *statements. All stores of a process share them, because
// composing and qualifying all statements takes 20 ms.
var statementsBySchema sync.Map

// statementsFor returns the statements for a schema.
func statementsFor(schema string) *statements {
	q, _ := statementsBySchema.LoadOrStore(schema, &statements{schema: schema, texts: make(map[variant]string)})
	return q.(*statements)
}

// text returns a statement as it is sent. It is composed when it is first used.
func (q *statements) text(v variant) string {
	q.mu.RLock()
	text, ok := q.texts[v]
	q.mu.RUnlock()
	if ok {
		return text
	}
	text = sqltext.ForSchema(v.compose(), q.schema)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.texts[v] = text
	return text
}

// sql returns a statement.
func (s *Store) sql(name string) string { return s.q.text(variant{name: name}) }

// sqlFiltered returns a statement with a filter, which may be empty.
func (s *Store) sqlFiltered(name, filter string) string {
	return s.q.text(variant{name: name, filter: filter})
}

// sqlSubscribed returns one of two forms of a statement. While there are
// subscriptions, as far as this store has seen, the statement keeps the events that
// it causes. The other form writes nothing if a subscription was saved meanwhile.
func (s *Store) sqlSubscribed(name string) string {
	return s.q.text(variant{name: name, subscribed: s.subscribed.Load()})
}

// sqlToCreate returns a form of a statement that creates executions: with deadlines, or
// without any, and with labels, or without any.
func (s *Store) sqlToCreate(name string, deadlines, labels bool) string {
	return s.q.text(variant{name: name, deadlines: deadlines, labels: labels})
}

// sqlToApply is sqlSubscribed for a statement that writes transitions. If they have files,
// it writes the trail too.
func (s *Store) sqlToApply(name string, files bool) string {
	return s.q.text(variant{name: name, subscribed: s.subscribed.Load(), files: files})
}

// compose returns the text of a variant for the schema "courier". It begins with a
// comment that names the statement in logs and in pg_stat_activity.
func (v variant) compose() string {
	title := v.name
	if v.subscribed {
		title += "+events"
	}
	for _, part := range []struct {
		on   bool
		name string
	}{{v.deadlines, "+deadlines"}, {v.labels, "+labels"}, {v.files, "+files"}} {
		if part.on {
			title += part.name
		}
	}
	vars := map[string]string{
		"subscribed": strconv.FormatBool(v.subscribed), "unsubscribed": strconv.FormatBool(!v.subscribed), "filter": v.filter,
		"deadlines": strconv.FormatBool(v.deadlines), "labels": strconv.FormatBool(v.labels), "files": strconv.FormatBool(v.files), "claims": "false", "starts": "false", "failures": "false", "result": "e.result", "params": "e.params", "repairs": "e.repairs", "only_copies": "e.only_copies", "changes_version": "false",
	}
	return "/* courier: " + title + " */ " + sqltext.Compose(sqlFiles, v.name+".sql", vars)
}
