package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// The canaries stand in parameters and secrets, and must not appear below their role.
const (
	canaryParam  = "canary-param-7f3a"
	canarySecret = "canary-secret-91bc"
)

// A workConfig is the configuration of the step type of these tests.
type workConfig struct {
	Seconds float64 `json:"seconds"`
	Fail    string  `json:"fail"`
	Text    string  `json:"text"`
	Secret  string  `json:"secret"`
}

type workOutput struct {
	Text string `json:"text"`
	Done bool   `json:"done"`
}

func work(ctx context.Context, job *courier.Context, cfg workConfig) (workOutput, error) {
	job.Log().Info("working", "text", cfg.Text, "secret", cfg.Secret)
	select {
	case <-time.After(time.Duration(cfg.Seconds * float64(time.Second))):
	case <-ctx.Done():
		return workOutput{}, context.Cause(ctx)
	}
	if cfg.Fail != "" {
		return workOutput{}, courier.Permanent(errors.New(cfg.Fail + " " + cfg.Text))
	}
	if strings.HasSuffix(cfg.Text, ".csv") {
		if err := job.Files().ReportRemote(courier.File{Path: "/out/" + cfg.Text, Size: 1, Connection: "partner"}); err != nil {
			return workOutput{}, err
		}
	}
	if name, ok := strings.CutPrefix(cfg.Text, "emit "); ok {
		for n := range 2 {
			if err := job.Emit(name, n); err != nil {
				return workOutput{}, err
			}
		}
	}
	return workOutput{cfg.Text, true}, nil
}

// jobs are the definitions of a world: report is a client's, secret nobody's but admins'.
func jobs() []courier.Job {
	step := courier.StepSpec{ID: "work", Type: "test.work", Config: map[string]any{
		"seconds": "context:params.seconds", "fail": "context:params.fail", "text": "context:params.text", "secret": "secret:token",
	}}
	params := map[string]any{"seconds": 0, "fail": "", "text": ""}
	return []courier.Job{
		{Name: "report", Params: params, Result: "context:work.text", Steps: []courier.StepSpec{step}},
		{Name: "other", Params: params, Steps: []courier.StepSpec{step}},
		{Name: "hidden", Params: params, Steps: []courier.StepSpec{step}},
	}
}

// A world is an engine with its API.
type world struct {
	*testing.T
	store  *memstore.Store
	engine *engine.Engine
	api    *httpapi.Handler
	log    *strings.Builder
	user   string // who makes the requests
}

// people are the roles of the users in these tests: by user and job, with "" for all jobs.
var people = map[string]map[string]access.Role{
	"nobody":   {},
	"ann":      {"report": access.Client},
	"ben":      {"report": access.Client},
	"vera":     {"report": access.Viewer},
	"stan":     {"report": access.Starter},
	"otto":     {"report": access.Operator},
	"edna":     {"report": access.Editor},
	"watcher":  {"": access.Viewer},
	"blind":    {"": access.RightSee},
	"operator": {"": access.Operator},
	"editor":   {"": access.Editor},
	"admin":    {"": access.Admin},
	"mona":     {"report": access.Client, "inbox": access.Editor},
}

// policy is that of the header X-User.
func policy() access.Policy {
	return access.Policy{
		Who: func(r *http.Request) (access.Principal, error) {
			user := r.Header.Get("X-User")
			if people[user] == nil {
				return access.Principal{}, errors.New("no such user")
			}
			return access.Principal{ID: user}, nil
		},
		Role: func(_ context.Context, p access.Principal, job string) access.Role { return people[p.ID][job] },
	}
}

// virtual runs f in virtual time with a started engine and its API.
func virtual(t *testing.T, opt *httpapi.Options, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memstore.New(), opt)
		if err := w.engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		f(w)
		w.api.Close()
		if err := w.engine.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func secrets(context.Context, courier.SecretRequest) (string, error) { return canarySecret, nil }

// newWorld returns a world whose engine is not started.
func newWorld(t *testing.T, s store.Store, opt *httpapi.Options) *world {
	t.Helper()
	w := &world{T: t, log: new(strings.Builder), user: "admin"}
	w.store, _ = s.(*memstore.Store)
	var reg courier.Registry
	courier.RegisterFunc(&reg, "test.work", work, nil)
	w.engine = engine.New(s, &reg, &engine.Options{Workspace: t.TempDir(), Slots: 64, Listers: map[string]courier.Lister{"shelf": shelf{}}, Secrets: secrets})
	for _, j := range jobs() {
		if _, err := w.engine.Jobs().Define(t.Context(), j, nil); err != nil {
			t.Fatal(err)
		}
	}
	o := httpapi.Options{Access: policy(), Depot: new(couriertest.Depot)}
	if opt != nil {
		o = *opt
	}
	if o.URL == "" {
		o.URL = "/api/"
	}
	if o.Log == nil {
		o.Log = w.logger()
	}
	w.api = httpapi.New(w.engine, &o)
	return w
}

// logger writes to the log of the world.
func (w *world) logger() *slog.Logger { return slog.New(slog.NewTextHandler(w.log, nil)) }

// over returns an engine with the same step types on another store.
func (w *world) over(s store.Store) *engine.Engine {
	var reg courier.Registry
	courier.RegisterFunc(&reg, "test.work", work, nil)
	return engine.New(s, &reg, &engine.Options{Workspace: w.TempDir(), Slots: 64, Secrets: secrets})
}

// as returns the world as another user sees it.
func (w *world) as(user string) *world {
	c := *w
	c.user = user
	return &c
}

// An answer is what came back.
type answer struct {
	*world
	*httptest.ResponseRecorder
	what string
}

// A leaver is a client that goes when it has the first part of a stream.
type leaver struct {
	http.ResponseWriter
	leave func()
}

func (l *leaver) Write(p []byte) (int, error) {
	if l.Header().Get("Content-Type") == "text/event-stream" {
		l.leave()
	}
	return l.ResponseWriter.Write(p)
}

func (l *leaver) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// send sends a request to the API, with headers as name and value in turn. It takes the first
// part of a stream.
func (w *world) send(method, path, body string, headers ...string) answer {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, method, "/"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("X-User", w.user)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	w.api.ServeHTTP(&leaver{rec, cancel}, r)
	a := answer{w, rec, w.user + ": " + method + " " + path}
	a.fitsDocument(method, r.URL.EscapedPath())
	if r.Header.Get("Content-Type") == "application/json" && a.Code < 300 {
		a.mayTake(method, r.URL.EscapedPath(), body)
	}
	return a
}

func (w *world) get(path string, headers ...string) answer {
	w.Helper()
	return w.send("GET", path, "", headers...)
}

func (w *world) post(path, body string, headers ...string) answer {
	w.Helper()
	return w.send("POST", path, body, headers...)
}

func (w *world) put(path, body string, headers ...string) answer {
	w.Helper()
	return w.send("PUT", path, body, headers...)
}

// want fails the test unless the answer has the status, and decodes its body.
func (a answer) want(status int, v any) answer {
	a.Helper()
	if a.Code != status {
		a.Fatalf("%s: %d %s; want %d", a.what, a.Code, strings.TrimSpace(a.Body.String()), status)
	}
	if v != nil {
		if err := json.Unmarshal(a.Body.Bytes(), v); err != nil {
			a.Fatalf("%s: %v in %s", a.what, err, a.Body)
		}
	}
	return a
}

// problem fails the test unless the answer is a problem with the code, whose detail has the
// texts.
func (a answer) problem(status int, code string, texts ...string) {
	a.Helper()
	var p struct{ Code, Detail, Title, Type string }
	a.want(status, &p)
	if p.Code != code || p.Title == "" || p.Type == "" || a.Header().Get("Content-Type") != "application/problem+json" {
		a.Errorf("%s: %s; want the code %s", a.what, a.Body, code)
	}
	for _, text := range texts {
		if !strings.Contains(p.Detail, text) {
			a.Errorf("%s: %q lacks %q", a.what, p.Detail, text)
		}
	}
}

// start starts an execution of a job, and returns its id.
func (w *world) start(job, body string, headers ...string) string {
	w.Helper()
	var got struct{ ID string }
	w.post("v1/jobs/"+job+"/executions", body, headers...).want(http.StatusAccepted, &got)
	return got.ID
}

// ended waits for the end of an execution.
func (w *world) ended(id string) courier.Execution {
	w.Helper()
	x, err := w.engine.Wait(w.Context(), courier.ExecutionID(id))
	if err != nil && x.ID == "" {
		w.Fatal(err)
	}
	return x
}

// filterBy selects the entries of the journal by who has asked.
func filterBy(user string) store.ActionFilter { return store.ActionFilter{By: user, Limit: 1000} }
