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
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// Each type of error in the root has a code, or a reason why no call of the API returns it.
func TestErrorTypes(t *testing.T) {
	problem := courier.Problem{Step: 2, Field: "config.remote_path", Message: "wrong"}
	known := map[string]struct {
		err  error
		code string
	}{
		"DefinitionError":   {&courier.DefinitionError{Job: "a", Problems: []courier.Problem{problem}}, "definition"},
		"ParamsError":       {&courier.ParamsError{Problems: []courier.Problem{{Step: -1, Field: "params.a", Message: "wrong"}}}, "invalid"},
		"ScheduleError":     {&courier.ScheduleError{Schedule: "a", Problems: []courier.Problem{{Step: -1, Field: "cron", Message: "wrong"}}}, "definition"},
		"MonitorError":      {&courier.MonitorError{Monitor: "a", Problems: []courier.Problem{{Step: -1, Field: "path", Message: "wrong"}}}, "definition"},
		"TransitionError":   {&courier.TransitionError{From: courier.Completed, To: courier.Paused}, "transition"},
		"ChainRequestError": {&courier.ChainRequestError{State: courier.ChainCompleted, Kind: courier.RequestPause}, "transition"},
		"DependencyError":   {&courier.DependencyError{Job: "a", Waits: []courier.UnmetDependency{{Job: "b", Reason: "it has not run"}}}, "dependency_unmet"},
		// Those that only steps, executions that have ended, and definitions as a whole have.
		"StepError":   {},
		"ConfigError": {},
		"CycleError":  {}, // in the problems of a DefinitionError
	}
	for _, name := range errorTypes(t, "..") {
		k, ok := known[name]
		if !ok {
			t.Errorf("courier.%s has no row here: give it a code in problemOf, and a row", name)
		}
		delete(known, name)
		if k.err == nil {
			continue
		}
		if code, detail := httpapi.CodeOf(fmt.Errorf("asked: %w", k.err)); code != k.code || detail == "" {
			t.Errorf("courier.%s has the code %s (%s), not %s", name, code, detail, k.code)
		}
	}
	if len(known) > 0 {
		t.Errorf("the root has no such errors: %v", slices.Collect(maps.Keys(known)))
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

// errorTypes are the exported types of a package with a method Error.
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
				list = append(list, id.Name)
			}
		}
	}
	return list
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
	w.api = httpapi.New(w.over(noJournal{w.store}), &httpapi.Options{Access: access()})
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
	w.api = httpapi.New(w.over(downStore{w.store}), &httpapi.Options{Access: access(), Log: w.logger()})
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
