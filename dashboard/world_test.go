package dashboard_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// canary stands in parameters and messages, and must not appear below their role.
const canary = "canary-7f3a"

// A workConfig is the configuration of the step type of these tests.
type workConfig struct {
	Seconds float64 `json:"seconds"`
	Fail    string  `json:"fail"`
	Text    string  `json:"text"`
}

type workOutput struct {
	Text string `json:"text"`
	Size int    `json:"size"`
}

func work(ctx context.Context, job *courier.Context, cfg workConfig) (workOutput, error) {
	job.Log().Info("working", "text", cfg.Text)
	select {
	case <-time.After(time.Duration(cfg.Seconds * float64(time.Second))):
	case <-ctx.Done():
		return workOutput{}, context.Cause(ctx)
	}
	if cfg.Fail != "" {
		return workOutput{}, courier.Permanent(errors.New(cfg.Fail))
	}
	return workOutput{cfg.Text, len(cfg.Text)}, nil
}

// secrets has one, called partner-key.
func secrets(_ context.Context, r courier.SecretRequest) (string, error) {
	if r.Name != "partner-key" {
		return "", errors.New("there is no such secret")
	}
	return canary, nil
}

// jobs are the definitions of a world: report is a client's, hidden nobody's but admins'.
func jobs() []courier.Job {
	step := courier.StepSpec{ID: "work", Type: "test.work", Config: map[string]any{"seconds": "context:params.seconds", "fail": "context:params.fail", "text": "context:params.text"}}
	params := map[string]any{"seconds": 0, "fail": "", "text": ""}
	return []courier.Job{
		{Name: "report", Params: params, Result: "context:work.text", Steps: []courier.StepSpec{step}},
		{Name: "other", Params: params, Steps: []courier.StepSpec{step}},
		{Name: "flaky", Steps: []courier.StepSpec{{Type: "test.flaky"}}},
		{Name: "hidden", Params: params, Steps: []courier.StepSpec{step}},
	}
}

// A world is an engine with its pages, mounted below /courier/.
type world struct {
	*testing.T
	store  *memstore.Store
	engine *engine.Engine
	pages  *dashboard.Handler
	mux    *http.ServeMux
	log    *strings.Builder
	user   string      // who makes the requests
	fail   func() bool // whether the step type test.flaky fails; nil for never
	soft   bool        // it can be tried again
}

// people are the roles of the users in these tests: by user and job, with "" for all jobs.
var people = map[string]map[string]access.Role{
	"nobody":   {},
	"ann":      {"report": access.Client},
	"ben":      {"report": access.Client},
	"vera":     {"report": access.Viewer},
	"stan":     {"report": access.Starter},
	"otto":     {"report": access.Operator},
	"vicky":    {"report": access.Viewer, "inbox": access.Viewer},
	"oscar":    {"report": access.Operator, "inbox": access.Operator},
	"edith":    {"report": access.Editor, "inbox": access.Editor},
	"eddy":     {"report": access.Editor, "hiddn": access.Editor},
	"watcher":  {"": access.Viewer},
	"operator": {"": access.Operator},
	"editor":   {"": access.Editor},
	"admin":    {"": access.Admin},
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

// virtual runs f in virtual time with a started engine and its pages.
func virtual(t *testing.T, opt *dashboard.Options, f func(w *world)) {
	t.Helper()
	virtualOn(t, memstore.New(), opt, f)
}

// virtualOn is virtual on a store.
func virtualOn(t *testing.T, s store.Store, opt *dashboard.Options, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, s, opt)
		if err := w.engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() { // also when f has ended the test
			w.pages.Close()
			if err := w.engine.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		f(w)
	})
}

// newWorld returns a world whose engine is not started.
func newWorld(t *testing.T, s store.Store, opt *dashboard.Options) *world {
	t.Helper()
	w := &world{T: t, log: new(strings.Builder), mux: http.NewServeMux(), user: "admin"}
	w.store, _ = s.(*memstore.Store)
	var reg courier.Registry
	courier.RegisterFunc(&reg, "test.work", work, nil)
	courier.RegisterFunc(&reg, "test.file", transfer, nil)
	courier.RegisterFunc(&reg, "test.flaky", func(context.Context, *courier.Context, struct{}) (struct{}, error) {
		if w.fail != nil && w.fail() {
			if err := errors.New("flaky"); w.soft {
				return struct{}{}, err
			}
			return struct{}{}, courier.Permanent(errors.New("flaky"))
		}
		return struct{}{}, nil
	}, nil)
	courier.Register(&reg, "test.list", partner{}, nil)
	w.engine = engine.New(s, &reg, &engine.Options{Workspace: t.TempDir(), Slots: 64, Listers: listers, Subscribers: subscribers, Secrets: secrets})
	for _, j := range jobs() {
		w.define(j)
	}
	o := dashboard.Options{Access: policy()}
	if opt != nil {
		o = *opt
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(w.log, nil))
	}
	w.pages = dashboard.New(w.engine, &o)
	w.mux.Handle("/courier/", w.pages)
	return w
}

func (w *world) define(j courier.Job) {
	w.Helper()
	if _, err := w.engine.Jobs().Define(w.Context(), j, nil); err != nil {
		w.Fatal(err)
	}
}

// enqueue starts a job as somebody.
func (w *world) enqueue(job, by string, params map[string]any) courier.Execution {
	w.Helper()
	x, err := w.engine.Enqueue(w.Context(), job, &courier.EnqueueOptions{Params: params, By: courier.By{Actor: by}, Labels: map[string]string{"by": by}})
	if err != nil {
		w.Fatal(err)
	}
	return x
}

// ended starts a job and waits for its end.
func (w *world) ended(job, by string, params map[string]any) courier.Execution {
	w.Helper()
	x, err := w.engine.Wait(w.Context(), w.enqueue(job, by, params).ID)
	if err != nil && x.ID == "" {
		w.Fatal(err)
	}
	return x
}

// An answer is a page as it came.
type answer struct {
	*world
	*httptest.ResponseRecorder
	at   string
	tree *node
}

// send sends a request to a path below the mount.
func (w *world) send(r *http.Request) answer {
	w.Helper()
	if r.Header.Get("X-User") == "" {
		r.Header.Set("X-User", w.user)
	}
	a := answer{world: w, ResponseRecorder: httptest.NewRecorder(), at: r.Method + " " + r.URL.String()}
	w.mux.ServeHTTP(a.ResponseRecorder, r)
	if r.Method == http.MethodHead || !strings.HasPrefix(a.Header().Get("Content-Type"), "text/html") {
		return a
	}
	a.tree = parsePage(w, a.Body.String())
	if r.Method == http.MethodPost && len(a.tree.all("[autofocus]")) == 0 {
		w.Errorf("%s: nothing on the page that answers the form has the focus", a.at)
	}
	for _, f := range a.tree.faults() {
		w.Errorf("%s: the page has %s", a.at, f)
	}
	if p := a.Header().Get("Content-Security-Policy"); !strings.HasPrefix(p, "default-src 'none'; script-src 'self'; style-src 'self'") {
		w.Errorf("%s: the policy is %q", a.at, p)
	}
	return a
}

// get returns a page, which must be there.
func (w *world) get(path string) answer {
	w.Helper()
	a := w.send(httptest.NewRequest("GET", "/courier/"+path, nil))
	if a.Code != http.StatusOK {
		w.Fatalf("%s: %d %s\n%s", a.at, a.Code, a.Body, w.log)
	}
	return a
}

// fails returns the page of a problem.
func (w *world) fails(path string, status int) answer {
	w.Helper()
	a := w.send(httptest.NewRequest("GET", "/courier/"+path, nil))
	if a.Code != status || a.tree == nil {
		w.Fatalf("%s: %d and not %d: %s", a.at, a.Code, status, a.Body)
	}
	return a
}

// post sends a form to a page.
func (w *world) post(path string, fields map[string]string) answer {
	w.Helper()
	return w.send(w.form(path, fields))
}

// form returns the request of a form.
func (w *world) form(path string, fields map[string]string) *http.Request {
	form := url.Values{}
	for name, value := range maps.All(fields) {
		form.Set(name, value)
	}
	r := httptest.NewRequest("POST", "/courier/"+path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

// has reports an error unless the page has a text.
func (a answer) has(text string) answer {
	a.world.Helper()
	if !strings.Contains(a.tree.text(), text) {
		a.world.Errorf("%s: the page does not have %q: %s", a.at, text, a.tree.text())
	}
	return a
}

// lacks reports an error if the answer has a text anywhere.
func (a answer) lacks(text string) answer {
	a.world.Helper()
	if strings.Contains(a.Body.String(), text) {
		a.world.Errorf("%s: the page has %q", a.at, text)
	}
	return a
}

// get returns the request of a page.
func get(path string) *http.Request { return httptest.NewRequest("GET", "/courier/"+path, nil) }
