package pgstore

import (
	"embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// statements are the texts of sql/*.sql for one schema, with the schema of
// everything that they name. They are written for the schema "courier", and put
// together before they are qualified and get the name of the schema: what that
// contains is never looked at.
type statements struct {
	schema         string
	executionTable string
	made           sync.Map // the statements of [statements.filtered], by name and filter

	define, save, saveBase, load, list, definition, names, settings, set string
	enqueue, enqueueOne, existing, latest, newest                        string
	claimBusy, claimFree, claimLimited, lock, probe                      string
	renew, notify, committed                                             string
	apply, progress, standing, ask, askLock                              string
	execution, steps, audit                                              string

	schedule, schedules, scheduleBegin, scheduleLock, schedulePut, chainSchedulePut, scheduleRemove, due, versions, fire string
	chainStart, chainMembers, chainExisting, chainLatest                                                                 string
	chainLock, chainLockOf, chainLockMembers, chainWrite, chainAgain, now                                                string
	subscribe, unsubscribe, subscriptions                                                                                string
	take, join, settle, deliveries, replay                                                                               string
	monitors, monitorPut, monitorBegin, monitorLock, monitorAnew, monitorRemove                                          string
	monitorDue, monitorRecord, monitorFiles, monitorForget, monitorSeen                                                  string

	// Those that keep events for subscriptions, in place of the ones above.
	claimBusyTold, claimFreeTold, claimLimitedTold, applyTold, progressTold string

	workers, stranded                                          string
	letThrough, recent, depend, dependLock, dependencies       string
	upstreams, upstreamMark, upstreamWriters, upstreamBackfill string
}

// statementsIn returns the statements for a schema, which all stores of the process
// share: to read them takes some 20 ms.
func statementsIn(schema string) *statements {
	if q, ok := statementsRead.Load(schema); ok {
		return q.(*statements)
	}
	q, _ := statementsRead.LoadOrStore(schema, newStatements(schema))
	return q.(*statements)
}

var statementsRead sync.Map // *statements by schema

// newStatements reads the statements for a schema.
func newStatements(schema string) *statements {
	q := &statements{
		schema:         schema,
		executionTable: pgx.Identifier{schema, "job_executions"}.Sanitize(),
	}
	texts := map[string]*string{
		"define": &q.define, "save": &q.save, "save_base": &q.saveBase, "load": &q.load, "list": &q.list, "definition": &q.definition, "names": &q.names,
		"settings": &q.settings, "set": &q.set, "enqueue": &q.enqueue, "enqueue_one": &q.enqueueOne, "existing": &q.existing,
		"claim_busy": &q.claimBusy, "lock": &q.lock, "probe": &q.probe, "latest": &q.latest, "newest": &q.newest, "renew": &q.renew, "notify": &q.notify, "committed": &q.committed,
		"apply": &q.apply, "progress": &q.progress, "standing": &q.standing, "ask_lock": &q.askLock, "ask": &q.ask,
		"workers": &q.workers, "stranded": &q.stranded, "execution": &q.execution, "steps": &q.steps, "audit": &q.audit,
		"schedule": &q.schedule, "schedules": &q.schedules, "schedule_begin": &q.scheduleBegin, "schedule_lock": &q.scheduleLock,
		"schedule_put": &q.schedulePut, "schedule_remove": &q.scheduleRemove, "due": &q.due, "versions": &q.versions, "fire": &q.fire,
		"chain_start": &q.chainStart, "chain_members": &q.chainMembers, "chain_existing": &q.chainExisting,
		"chain_latest": &q.chainLatest, "chain_lock": &q.chainLock, "chain_lock_of": &q.chainLockOf,
		"chain_lock_members": &q.chainLockMembers, "chain_write": &q.chainWrite, "chain_again": &q.chainAgain, "now": &q.now,
		"subscribe": &q.subscribe, "unsubscribe": &q.unsubscribe, "subscriptions": &q.subscriptions,
		"take": &q.take, "join": &q.join, "settle": &q.settle, "deliveries": &q.deliveries, "replay": &q.replay,
		"monitors": &q.monitors, "monitor_put": &q.monitorPut, "monitor_begin": &q.monitorBegin, "monitor_lock": &q.monitorLock,
		"monitor_anew": &q.monitorAnew, "monitor_remove": &q.monitorRemove, "monitor_due": &q.monitorDue, "monitor_record": &q.monitorRecord,
		"monitor_files": &q.monitorFiles, "monitor_forget": &q.monitorForget, "monitor_seen": &q.monitorSeen,
		"let_through": &q.letThrough, "recent": &q.recent, "depend": &q.depend, "depend_lock": &q.dependLock, "dependencies": &q.dependencies,
		"upstreams": &q.upstreams, "upstream_mark": &q.upstreamMark, "upstream_writers": &q.upstreamWriters, "upstream_backfill": &q.upstreamBackfill,
	}
	for name, text := range texts {
		*text = tagged(name, statement(name))
	}
	q.chainSchedulePut = strings.Replace(q.schedulePut, "job_schedules", "chain_schedules", 1)
	claim := statement("claim")
	q.claimFree = tagged("claim_free", strings.Replace(claim, "/* ready */", statement("claim_free"), 1))
	q.claimLimited = tagged("claim_limited", strings.Replace(claim, "/* ready */", statement("claim_limited"), 1))
	q.split()
	for _, text := range slices.AppendSeq([]*string{
		&q.chainSchedulePut, &q.claimFree, &q.claimLimited,
		&q.claimBusyTold, &q.claimFreeTold, &q.claimLimitedTold, &q.applyTold, &q.progressTold,
	}, maps.Values(texts)) {
		*text = owned(*text, schema)
	}
	return q
}

// filtered returns a statement that is not among the fields, with a filter, which
// may be empty. Filters are parts of this program's text: there are few.
func (q *statements) filtered(name, filter string) string {
	key := [2]string{name, filter}
	if text, ok := q.made.Load(key); ok {
		return text.(string)
	}
	text := owned(tagged(name, strings.Replace(statement(name), "/* filter */", filter, 1)), q.schema)
	q.made.Store(key, text)
	return text
}

// split makes two statements of each that writes the audit: one that keeps events
// for subscriptions, and one that does nothing once there are any; see
// sql/outbox.sql.
func (q *statements) split() {
	outbox, ended := statement("outbox"), statement("outbox_ended")
	told := func(text, ended string) string {
		return strings.NewReplacer("/* outbox */", strings.Replace(outbox, "/* ended */", ended, 1),
			"/* unless subscribed */", "", "/* or subscribed */", "", "/* subscribed */ null", "null").Replace(returning.ReplaceAllString(text, "$1"))
	}
	const subscribed = "exists (select from courier.subscriptions where not disabled)"
	untold := strings.NewReplacer("/* outbox */", "", "/* unless subscribed */", "and not "+subscribed,
		"/* or subscribed */", "or "+subscribed, "/* subscribed */ null", "case when "+subscribed+" then 'subscribed' end")
	for _, s := range []struct {
		plain, told *string
		ended       string
	}{
		{&q.apply, &q.applyTold, ended}, {&q.progress, &q.progressTold, ended},
		{&q.claimBusy, &q.claimBusyTold, ""}, {&q.claimFree, &q.claimFreeTold, ""}, {&q.claimLimited, &q.claimLimitedTold, ""},
	} {
		*s.told = told(strings.Replace(*s.plain, " */ ", "_told */ ", 1), s.ended)
		*s.plain = untold.Replace(returning.ReplaceAllString(*s.plain, ""))
	}
	q.ask = told(q.ask, "")
	q.applyTold = strings.Replace(q.applyTold, "/* failure */ null::text", "(select ($16::text[])[u.ord] from u where u.id = a.execution_id)", 1)
}

// returning is what only those statements return that keep events.
var returning = regexp.MustCompile(`/\* (returning [^*]+) \*/`)

// tagged returns a statement with its name, for those who look at what the
// server is doing.
func tagged(name, text string) string { return "/* courier: " + name + " */ " + text }

// statement returns the statement of a file, without its comments.
func statement(name string) string {
	text, err := sqlFiles.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(fmt.Sprintf("pgstore: %v", err)) // not embedded: a test would have found it
	}
	return withoutComments(string(text))
}

func withoutComments(text string) string {
	var words []string
	for line := range strings.Lines(text) {
		code, _, _ := strings.Cut(line, "--")
		words = append(words, strings.Fields(code)...)
	}
	return strings.Join(words, " ")
}

// owned returns the text for the schema "courier" as it is sent for another one.
func owned(text, schema string) string { return inSchema(qualified(text), schema) }

// qualifier also finds comments and strings, which keep the word.
var qualifier = regexp.MustCompile(`--.*|'[^']*'|\bcourier\.`)

// inSchema returns text with its names in another schema than courier.
func inSchema(text, schema string) string {
	if schema == DefaultSchema {
		return text
	}
	name := pgx.Identifier{schema}.Sanitize() + "."
	return qualifier.ReplaceAllStringFunc(text, func(found string) string {
		if found == "courier." {
			return name
		}
		return found
	})
}
