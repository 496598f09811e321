package pgstore_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// sources returns the files that match, but for tests, without the comments of
// SQL.
func sources(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	for _, p := range patterns {
		names, err := filepath.Glob(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			texts[name] = string(text)
			if strings.HasSuffix(name, ".sql") {
				texts[name] = sqlComment.ReplaceAllString(texts[name], "")
			}
		}
	}
	if len(texts) < 2 {
		t.Fatalf("%d files match %q", len(texts), patterns)
	}
	return texts
}

var (
	sqlComment = regexp.MustCompile(`(?m)--.*$`)
	ownTable   = regexp.MustCompile(`create (?:table|view) (?:if not exists )?courier\.(\w+)`)
)

// sqlRules are what no statement may have, and why.
var sqlRules = []struct{ pattern, why string }{
	{`pg_(try_)?advisory_lock(_shared)?\s*\(`, "a lock of the session: behind a pooler it is held by nobody in particular"},
	{`pg_advisory_unlock`, "a lock of the session"},
	{`\bcreate\s+(local\s+|global\s+)?temp`, "a table of the session"},
	{`\bset\s+session\b|\bset\s+(?:plan_cache_mode|search_path|timezone|lock_timeout|statement_timeout|jit|role)\b`, "a setting of the session"},
	{`\bdeclare\b[^;]*\bwith hold\b`, "a cursor of the session"},
	{`(?:^|[^_\w])now\s*\(|\bcurrent_timestamp\b|\blocaltimestamp\b|\b(?:transaction|statement)_timestamp\s*\(`, "when the transaction or the statement began, and not what time it is after the locks"},
	{`\bcurrent_(?:date|time)\b|\blocaltime\b`, "a time that depends on the session's zone"},
}

func TestNoSessionState(t *testing.T) {
	files := sources(t, "migrations/*.sql", "*.go", "internal/*/*.go")
	for name, text := range pgstore.Composed() {
		files["sql/"+name+".sql"] = text
	}
	var tables []string
	for _, text := range files {
		for _, m := range ownTable.FindAllStringSubmatch(text, -1) {
			tables = append(tables, m[1])
		}
	}
	if len(tables) != 27 {
		t.Fatalf("tables and views %q, want 27", tables)
	}
	unqualified := regexp.MustCompile(`(?i)\b(?:from|join|into|update|table|using|references|lateral|on|,)\s+(` + strings.Join(tables, "|") + `)\b`)
	for name, text := range files {
		for _, f := range faults(name, text, unqualified) {
			t.Error(f)
		}
	}

	// The rules find what they are for.
	for _, bad := range []string{
		"select pg_advisory_lock(1)", "select pg_try_advisory_lock ($1)", "create temp table x (n int)", "set search_path to x",
		"select set_config('jit', 'off', false)", "update courier.x set at = now()", "values (current_timestamp)", "select e.* from courier.e e",
		"with a as (select 1) select * from a", "update courier.x set a = 1 returning *", "select id from job_executions", "select 1 from courier.a join step_executions s on true",
	} {
		if len(faults("sql/bad.sql", bad, unqualified)) == 0 {
			t.Errorf("nothing is found in %q", bad)
		}
	}
	good := "with a as (select e.* from courier.job_executions e) select id, (select count(*) from a), n * 2 from a where pg_try_advisory_xact_lock(1)"
	if f := faults("sql/good.sql", good, unqualified); len(f) != 0 {
		t.Errorf("in %q is found %q", good, f)
	}
}

// faults returns what a file must not have.
func faults(name, text string, unqualified *regexp.Regexp) []string {
	var list []string
	for _, r := range sqlRules {
		if found := regexp.MustCompile(`(?im)` + r.pattern).FindString(text); found != "" && (strings.HasSuffix(name, ".sql") || !strings.Contains(r.pattern, "now")) {
			list = append(list, name+" has "+found+": "+r.why)
		}
	}
	if !strings.HasSuffix(name, ".sql") {
		return list
	}
	for _, m := range regexp.MustCompile(`set_config\s*\(([^()]*)\)`).FindAllStringSubmatch(text, -1) {
		if !strings.HasSuffix(strings.TrimSpace(m[1]), "true") {
			list = append(list, name+" has "+m[0]+": a setting of the session")
		}
	}
	if found := unqualified.FindString(text); found != "" {
		list = append(list, name+" has "+found+" without its schema")
	}
	if found := regexp.MustCompile(`(?:\w\.|\bselect\s+|\breturning\s+|,\s*)\*`).FindString(outermost(text)); found != "" && strings.HasPrefix(name, "sql/") {
		list = append(list, name+" returns "+found+": its columns change with the next migration")
	}
	return list
}

// outermost returns a statement without what stands in parentheses.
func outermost(text string) string {
	var b strings.Builder
	depth := 0
	for _, r := range text {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case depth == 0:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// clockUses are the functions that read the clock of the process, and the reasons. None may have to do with what is written or who may write.
var clockUses = map[string]string{
	"Claim":             "how long it took",
	"newClaim":          "whether to look at what runs",
	"record":            "when to do so again",
	"expect":            "when to do so again",
	"next":              "how long the worker may wait",
	"retryIfSubscribed": "how long the statement of a claim takes",
	"probeOnce":         "how long a probe takes, and a round trip",
	"probed":            "how long it took, and when the last claim was",
	"add":               "for how long progress is being written",
	"take":              "since when progress is being written",
	"Watched":           "when a notification last arrived",
	"listenAlways":      "how long a connection lasted",
	"tryEcho":           "when a notification was sent",
	"receive":           "when another store sent something",
	"delay":             "when another store last sent something",
	"retain":            "how long a batch took",
	"due":               "whether a worker was registered long ago",
	"workerRegistered":  "when a worker was registered",

	"BeginInline":     "when a statement last sent its own notification",
	"EndInline":       "how long that took",
	"AnnounceBlocked": "when it last announced that it is blocked",
	"OthersBlocked":   "when another last did",
}

// TestClockOfTheWorker checks every use of the process's clock, and every
// value that is sent: no instant of this process is among them. So its clock can
// be wrong by any time.
func TestClockOfTheWorker(t *testing.T) {
	for name, text := range sources(t, "*.go", "internal/*/*.go") {
		file, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			function := "a variable"
			if f, ok := d.(*ast.FuncDecl); ok {
				function = f.Name.Name
			}
			ast.Inspect(d, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains([]string{"Now", "Since", "Until"}, s.Sel.Name) && clockUses[function] == "" {
					t.Errorf("%s: %s reads the clock of the process; give the reason in clockUses", name, function)
				}
				return true
			})
		}
	}

	u := pgtest.URL(t)
	open(t, u, nil)
	instants := &instants{}
	pool := dialWith(t, u, func(c *pgx.ConnConfig) { c.Tracer = tracer(instants.note) })
	s, err := pgstore.New(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	everything(t, s)
	ofDatabase := make(map[string]bool)
	rows, err := pool.Query(t.Context(), `select distinct at from courier.job_executions, unnest(array[created_at, due_at, state_since, started_at, lease_expires_at]) at where at is not null`)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range list {
		ofDatabase[at.UTC().Format(time.RFC3339Nano)] = true
	}
	instants.mu.Lock() // the store may still notify others
	defer instants.mu.Unlock()
	if instants.values < 100 {
		t.Errorf("only %d values were sent", instants.values)
	}
	known := make(map[string]bool)
	for _, q := range instants.sent {
		for _, at := range q.found {
			if !ofDatabase[at] || !known[q.name] {
				t.Errorf("%s was sent (%s), an instant that the database did not make", at, q.name)
			}
		}
		known[q.name] = true // the next may send what this one has returned
	}
}

// everything calls what writes or decides by time.
func everything(t *testing.T, s *pgstore.Store) {
	t.Helper()
	ctx := t.Context()
	if _, err := s.Save(ctx, store.Definition{Kind: store.Job, Name: "j", Body: json.RawMessage(`{}`)}); err != nil {
		t.Fatal(err)
	}
	list := make([]store.NewExecution, 6000) // more than one statement creates
	for i := range list {
		list[i] = store.NewExecution{ID: courier.ExecutionID(idSource.New()), Job: "j", Version: 1, Queue: "q", Timeout: time.Hour, Delay: time.Duration(i) * time.Hour}
	}
	list[1].Delay = 0
	if _, err := s.Enqueue(ctx, list); err != nil {
		t.Fatal(err)
	}
	r := store.ClaimRequest{Worker: "w", Queues: []string{"q"}, Max: 1, Lease: time.Hour}
	for range 2 {
		got, err := s.Claim(ctx, r)
		if err != nil || len(got.List) != 1 {
			t.Fatalf("claimed %d, %v", len(got.List), err)
		}
		x := got.List[0]
		if _, err := s.Renew(ctx, store.RenewRequest{Worker: "w", Leases: []store.Lease{{Execution: x.Execution.ID, Token: x.Token}}, For: time.Hour}); err != nil {
			t.Fatal(err)
		}
		// Only the engine that has seen the step start knows when that was.
		steps := []courier.StepExecution{{Step: 0, Attempt: 1, Type: "a", State: courier.StepCompleted}}
		if err := s.Apply(ctx, store.Transition{Execution: x.Execution.ID, Lease: x.Token, Seq: x.Seq + 1, To: courier.Queued, Delay: time.Hour, Ended: steps}); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []courier.RequestKind{courier.RequestPause, courier.RequestResume, courier.RequestCancel} {
		if _, err := s.Request(ctx, store.Request{Execution: list[5].ID, Kind: kind}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Retain(ctx, pgstore.Retention{MaxAge: time.Microsecond}); err != nil {
		t.Fatal(err)
	}
	health(t, s)
}

// instants collects the instants among the values that are sent.
type instants struct {
	mu     sync.Mutex
	values int
	found  []string // in the present statement
	sent   []sentInstants
}

// sentInstants are those of one statement.
type sentInstants struct {
	name  string
	found []string
}

var instantText = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d[^"\]]*`)

func (i *instants) look(v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if !v.IsNil() {
			i.look(v.Elem())
		}
	case reflect.Slice:
		for n := range v.Len() {
			i.look(v.Index(n))
		}
	case reflect.String:
		i.values++
		i.found = append(i.found, instantText.FindAllString(v.String(), -1)...)
	default:
		i.values++
		if at, ok := v.Interface().(time.Time); ok {
			i.found = append(i.found, at.UTC().Format(time.RFC3339Nano))
		} else if v.CanInt() && nearNow(v.Int()) {
			i.found = append(i.found, strconv.FormatInt(v.Int(), 10))
		}
	}
}

// nearNow reports whether a number is a Unix time of these days.
func nearNow(n int64) bool {
	now := time.Now()
	for _, unit := range []time.Duration{time.Second, time.Microsecond, time.Nanosecond} {
		if d := n - now.UnixNano()/int64(unit); d > -int64(48*time.Hour/unit) && d < int64(48*time.Hour/unit) {
			return true
		}
	}
	return false
}

func (i *instants) note(name, _ string, args []any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.found = nil
	for _, a := range args {
		i.look(reflect.ValueOf(&a))
	}
	i.sent = append(i.sent, sentInstants{name, i.found})
}
