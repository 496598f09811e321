package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// Each type of error in the root and in the packages of subjects has a code, or a reason why no call of the API returns it.
func TestErrorTypes(t *testing.T) {
	problem := courier.Problem{Step: 2, Field: "config.remote_path", Message: "wrong"}
	known := map[string]struct {
		err  error
		code string
	}{
		"courier.DefinitionError": {&courier.DefinitionError{Job: "a", Problems: []courier.Problem{problem}}, "definition"},
		"courier.ParamsError":     {&courier.ParamsError{Problems: []courier.Problem{{Step: -1, Field: "params.a", Message: "wrong"}}}, "invalid"},
		"chain.Error":             {&chain.Error{Chain: "a", Problems: []courier.Problem{{Step: -1, Field: "members", Message: "wrong"}}}, "definition"},
		"schedule.Error":          {&schedule.Error{Schedule: "a", Problems: []courier.Problem{{Step: -1, Field: "cron", Message: "wrong"}}}, "definition"},
		"monitor.Error":           {&monitor.Error{Monitor: "a", Problems: []courier.Problem{{Step: -1, Field: "path", Message: "wrong"}}}, "definition"},
		"notify.Error":            {&notify.Error{Subscription: "a", Problems: []courier.Problem{{Step: -1, Field: "kind", Message: "wrong"}}}, "definition"},
		"courier.TransitionError": {&courier.TransitionError{From: courier.Completed, To: courier.Paused}, "transition"},
		"chain.RequestError":      {&chain.RequestError{State: chain.Completed, Kind: courier.RequestPause}, "transition"},
		"courier.DependencyError": {&courier.DependencyError{Job: "a", Waits: []courier.UnmetDependency{{Job: "b", Reason: "it has not run"}}}, "dependency_unmet"},
		// Those that only steps, executions that have ended, and definitions as a whole have.
		"courier.StepError":   {},
		"courier.ConfigError": {},
		"courier.CycleError":  {}, // in the problems of a DefinitionError
	}
	for _, name := range slices.Concat(errorTypes(t, ".."), errorTypes(t, "../chain"), errorTypes(t, "../monitor"), errorTypes(t, "../notify"), errorTypes(t, "../schedule")) {
		k, ok := known[name]
		if !ok {
			t.Errorf("%s has no row here: give it a code in problemOf, and a row", name)
		}
		delete(known, name)
		if k.err == nil {
			continue
		}
		if code, detail := httpapi.CodeOf(fmt.Errorf("asked: %w", k.err)); code != k.code || detail == "" {
			t.Errorf("%s has the code %s (%s), not %s", name, code, detail, k.code)
		}
	}
	if len(known) > 0 {
		t.Errorf("there are no such errors: %v", slices.Collect(maps.Keys(known)))
	}
	for err, want := range map[error]string{
		courier.ErrNotFound: "not_found", courier.ErrConflict: "conflict", courier.ErrInvalid: "invalid", errors.ErrUnsupported: "not_supported",
		context.DeadlineExceeded: "unavailable", errors.New(canarySecret): "unavailable",
	} {
		code, detail := httpapi.CodeOf(err)
		if code != want || strings.Contains(detail, canarySecret) {
			t.Errorf("%v: %s, %s; want %s", err, code, detail, want)
		}
	}
}

// errorTypes are the exported types of a package with a method Error, with its name.
func errorTypes(t *testing.T, dir string) (list []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			m, ok := d.(*ast.FuncDecl)
			if !ok || m.Recv == nil || m.Name.Name != "Error" {
				continue
			}
			typ := m.Recv.List[0].Type
			if p, ok := typ.(*ast.StarExpr); ok {
				typ = p.X
			}
			if id := typ.(*ast.Ident); id.IsExported() {
				list = append(list, f.Name.Name+"."+id.Name)
			}
		}
	}
	return list
}

// A problem names what its request has sent with the nearest name of what there is, whole,
// wherever it was sent: in the path, the query or the body.
func TestProblemsNameWhatWasMeant(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	w.services()
	const meant = `"repor"; did you mean "report"?`
	w.get("v1/jobs/repor").problem(http.StatusNotFound, "not_found", meant)
	w.post("v1/jobs/repor/executions", "").problem(http.StatusNotFound, "not_found", meant)
	w.get("v1/executions?job=repor").problem(http.StatusNotFound, "not_found", meant)
	w.post("v1/bulk", `{"action": "cancel", "where": "job:repor"}`).problem(http.StatusNotFound, "not_found", meant)
	w.put("v1/schedules/nightly", `{"job": "repor", "cron": "0 0 3 * * ?"}`, "If-None-Match", "*").problem(http.StatusUnprocessableEntity, "definition", meant)
	w.get("v1/executions?state=faild").problem(http.StatusBadRequest, "invalid", `faild; did you mean "failed"?`)
	w.get("v1/executions?stat=failed").problem(http.StatusBadRequest, "invalid", `there is no parameter "stat" here; did you mean "state"?`)
	w.post("v1/bulk", `{"action": "cancl", "ids": ["x"]}`).problem(http.StatusBadRequest, "invalid", `"cancl"; did you mean "cancel"?`, `"x" is not the id`)
	// Who must not know a name is told the same of it as of one that is not there.
	for _, job := range []string{"hiden", "hidden"} {
		w.as("ann").get("v1/jobs/"+job).problem(http.StatusNotFound, "not_found")
		if a := w.as("ann").get("v1/jobs/" + job); strings.Contains(a.Body.String(), "hid") {
			t.Errorf("%s", a.Body)
		}
	}
}

// What proves who somebody is, and what is given for a secret parameter, is in no problem, log
// or journal; nor is any value that was refused in a log or journal.
func TestCredentialsAreNotRepeated(t *testing.T) {
	virtual(t, nil, func(w *world) {
		const credential, value = "hunter2-credential", "refused-value"
		_, err := w.engine.Jobs().Define(w.Context(), courier.Job{Name: "inbound", Params: map[string]any{
			"password": courier.Param{Type: "text", Secret: true, Enum: []any{"bank"}}, "text": courier.Param{Type: "text", Enum: []any{"a"}}, "request": courier.Param{Type: "object"}, "files": courier.Param{Type: "list"},
		}, Steps: []courier.StepSpec{{Type: "test.work"}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		headers := []string{"Authorization", "Bearer " + credential, "Cookie", "session=" + credential}
		body := `{"params": {"password": "` + credential + `", "text": "` + value + `"}}`
		form, kind := form(part{"f", "a.csv", "1"}, part{"password", "", credential}, part{"text", "", value})
		answers := []answer{
			w.post("v1/jobs/inbound/executions", body, headers...),
			w.post("v1/jobs/inbound/executions", form, append(headers, "Content-Type", kind)...),
			w.as("nobody").post("v1/jobs/inbound/executions", body, headers...),
			w.post("v1/jobs/inbound/executions", `{"params": {"password": ["`+credential+`"], "text": "`+value+`"}}`, headers...),
			w.post("v1/jobs/inbound/dry-run", body, headers...),
		}
		e := w.on("/in", &httpapi.AsyncOptions{Headers: []string{"X-Key"}, Params: func(r *httpapi.Received) (map[string]any, error) {
			return r.Body.(map[string]any), nil
		}})
		answers = append(answers, e.send("POST", "/in", `{"password": "`+credential+`", "text": "`+value+`"}`, http.Header{
			"Content-Type": {"application/json"}, "X-User": {"admin"}, "Authorization": {credential}, "Cookie": {credential},
		}))
		repeated := 0
		for _, a := range answers {
			if a.Code < 400 && !strings.Contains(a.what, "dry-run") || strings.Contains(a.Body.String(), credential) {
				t.Errorf("%s: %d %s", a.what, a.Code, a.Body)
			}
			if strings.Contains(a.Body.String(), value) {
				repeated++
			}
		}
		if repeated < 5 {
			t.Errorf("%d problems say which value is wrong", repeated)
		}
		journal := w.get("v1/journal?limit=1000").Body.String()
		for _, secret := range []string{credential, value} {
			if strings.Contains(w.log.String(), secret) || strings.Contains(journal, secret) {
				t.Errorf("the log is %s\nthe journal %s", w.log, journal)
			}
		}
	})
}

// A noJournal is a store whose journal can't be written.
type noJournal struct{ *memstore.Store }

func (noJournal) Note(context.Context, store.Action) (store.Action, error) {
	return store.Action{}, errors.New("disk full: " + canarySecret)
}

// If the journal can't be written, nothing is done.
func TestJournalDown(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	id := w.start("report", `{"hold": true}`)
	w.api = httpapi.New(w.over(noJournal{w.store}), &httpapi.Options{Access: policy()})
	for _, r := range httpapi.Table() {
		if r.Method == "GET" || r.ID == "startExecution" {
			continue
		}
		a := w.send(r.Method, fill(r.Path, id), "", "If-None-Match", "*")
		if a.Code == http.StatusServiceUnavailable {
			a.problem(http.StatusServiceUnavailable, "journal", "nothing was done")
		}
		if a.Code < 400 && !strings.Contains(r.Path, "dry-run") && !strings.Contains(r.Path, "check/") && !strings.Contains(r.Path, "explain") {
			t.Errorf("%s: %d %s", a.what, a.Code, a.Body)
		}
		if strings.Contains(a.Body.String(), canarySecret) {
			t.Errorf("%s: shows what the store has said: %s", a.what, a.Body)
		}
	}
	w.post("v1/executions/"+id+"/release", "").problem(http.StatusServiceUnavailable, "journal", "nothing was done")
	x, err := w.engine.Executions().Get(t.Context(), courier.ExecutionID(id))
	if err != nil || x.State != courier.Created {
		t.Errorf("%+v, %v", x, err)
	}
}

// A store that fails is the service's matter: the client gets an incident, and the log has
// the reason under it.
func TestStoreDown(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	w.api = httpapi.New(w.over(downStore{w.store}), &httpapi.Options{Access: policy(), Log: w.logger()})
	var p struct{ Incident, Detail string }
	a := w.get("v1/executions/"+"00000000-0000-7000-8000-000000000000").want(http.StatusServiceUnavailable, &p)
	if p.Incident == "" || !strings.Contains(w.log.String(), p.Incident) || !strings.Contains(w.log.String(), "server is gone") || strings.Contains(a.Body.String(), "gone") {
		t.Errorf("%s, log %s", a.Body, w.log)
	}
	if a.Header().Get("Retry-After") == "" {
		t.Errorf("%v", a.Header())
	}
}

// A downStore is a store that can't be reached.
type downStore struct{ *memstore.Store }

func (downStore) Execution(context.Context, courier.ExecutionID) (courier.Execution, error) {
	return courier.Execution{}, errors.New("the server is gone")
}
