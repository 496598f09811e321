package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store/memstore"
)

// The API finds out where it is mounted, and its references lead to the API from outside.
func TestMount(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	job := jobs()[0]
	job.Name = "a/b %"
	if _, err := w.engine.Jobs().Define(t.Context(), job, nil); err != nil {
		t.Fatal(err)
	}
	mux := func(pattern string, h http.Handler) http.Handler {
		m := http.NewServeMux()
		m.Handle(pattern, h)
		return m
	}
	strip := http.StripPrefix
	api := http.Handler(w.api)
	for name, c := range map[string]struct {
		h    http.Handler
		base string // of the API, as a client sees it
	}{
		"no mux":                  {api, "/"},
		"at the root":             {mux("/", api), "/"},
		"below a path":            {mux("/courier/api/", api), "/courier/api/"},
		"StripPrefix":             {mux("/courier/api/", strip("/courier/api", api)), "/courier/api/"},
		"host in the pattern":     {mux("example.com/x/", api), "/x/"},
		"method in the pattern":   {mux("POST /x/", api), "/x/"},
		"wildcard in the pattern": {mux("/t/{tenant}/api/", api), "/t/acme/api/"},
		"rest in the pattern":     {mux("/api/{rest...}", api), "/api/"},
		"looks like a route":      {mux("/v1/", api), "/v1/"},
		"the same, stripped":      {mux("/v1/", strip("/v1", api)), "/v1/"},
		"stripped, then a mux":    {mux("/a/", strip("/a", mux("/b/", api))), "/a/b/"},
		"stripped twice":          {mux("/a/", strip("/a", mux("/b/", strip("/b", api)))), "/a/b/"},
		"escaped slash":           {mux("/a/{x}/", api), "/a/p%2Fq/"},
	} {
		for _, line := range []string{"", "http://example.com"} { // a proxy may be sent the whole URL
			r := httptest.NewRequest("POST", c.base+"v1/jobs/a%2Fb%20%25/executions", strings.NewReader(""))
			r.RequestURI = line + r.RequestURI
			r.Header.Set("X-User", "admin")
			rec := httptest.NewRecorder()
			c.h.ServeHTTP(rec, r)
			base, _ := url.Parse("http://example.com" + c.base + "v1/jobs/a%2Fb%20%25/executions")
			at, err := base.Parse(rec.Header().Get("Location"))
			if rec.Code != http.StatusAccepted || err != nil || !strings.HasPrefix(at.EscapedPath(), c.base+"v1/executions/") {
				t.Errorf("%s: %d %s, location %q (%v)", name, rec.Code, rec.Body, rec.Header().Get("Location"), at)
			}
		}
	}
}

// Paths that are none of the API's are answered with a problem, and redirect nobody.
func TestOddPaths(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	for _, path := range []string{
		"v2/", "v1//executions", "v1/./executions", "v1/executions/../jobs", "v1/%2e%2e/executions", "v1/executions/", "v1/executions/a/b/c",
		"v1/executions/%00", "v1/executions/%ff", "v1/jobs/", "v1/problems/none", strings.Repeat("x/", 2000), "v1/executions/" + strings.Repeat("a", 8000),
		"v1/executions/00000000-0000-7000-8000-00000000000g", "v1/executions/00000000-0000-7000-8000-000000000000",
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.URL.Path, r.RequestURI = "/"+path, "/"+path
		if plain, err := url.PathUnescape("/" + path); err == nil {
			r.URL.Path, r.URL.RawPath = plain, "/"+path
		}
		r.Header.Set("X-User", "admin")
		rec := httptest.NewRecorder()
		w.api.ServeHTTP(rec, r)
		answer{w, rec, "GET " + path}.problem(http.StatusNotFound, "not_found")
	}
	for _, path := range []string{"", "v1"} {
		if at := w.get(path).want(http.StatusPermanentRedirect, nil).Header().Get("Location"); at != "v1/" {
			t.Errorf("%q leads to %q", path, at)
		}
	}
	m := http.NewServeMux()
	m.Handle("/courier/api", w.api)
	rec := httptest.NewRecorder()
	m.ServeHTTP(rec, httptest.NewRequest("GET", "/courier/api", nil))
	answer{w, rec, "mounted without a slash"}.problem(http.StatusInternalServerError, "internal", `"/courier/api/"`)
	a := w.send("DELETE", "v1/executions", "")
	a.problem(http.StatusMethodNotAllowed, "method_not_allowed", "GET")
	if allow := a.Header().Get("Allow"); allow != "GET, HEAD" {
		t.Errorf("Allow: %q", allow)
	}
	for _, method := range []string{"CONNECT", "TRACE", "FOO"} {
		w.send(method, "v1/executions", "").problem(http.StatusMethodNotAllowed, "method_not_allowed")
	}
	if body := w.send("HEAD", "v1/executions", "").want(http.StatusOK, nil).Body.String(); body != "" {
		t.Errorf("HEAD has the body %q", body)
	}
	r := httptest.NewRequest("OPTIONS", "/", nil)
	r.URL.Path, r.RequestURI = "*", "*"
	rec = httptest.NewRecorder()
	w.api.ServeHTTP(rec, r)
	answer{w, rec, "OPTIONS *"}.problem(http.StatusNotFound, "not_found")
}

// A web page elsewhere is served if the host has permitted it, and by no other way.
func TestOrigins(t *testing.T) {
	a := policy()
	a.Origins = []string{"https://ops.example.com"}
	w := newWorld(t, memstore.New(), &httpapi.Options{Access: a})
	pre := w.send("OPTIONS", "v1/jobs/report/executions", "", "Origin", "https://ops.example.com", "Access-Control-Request-Method", "POST").want(http.StatusNoContent, nil)
	if pre.Header().Get("Access-Control-Allow-Origin") != "https://ops.example.com" {
		t.Errorf("%v", pre.Header())
	}
	w.send("POST", "v1/jobs/report/executions", "", "Origin", "https://ops.example.com", "Sec-Fetch-Site", "cross-site").want(http.StatusAccepted, nil)
	for _, origin := range []string{"https://evil.example.com", "http://ops.example.com", "null"} {
		no := w.send("POST", "v1/jobs/report/executions", "", "Origin", origin, "Sec-Fetch-Site", "cross-site")
		no.problem(http.StatusForbidden, "forbidden", "Access.Origins")
		if no.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", origin, no.Header())
		}
	}
	for _, wrong := range []string{"ops.example.com", "https://ops.example.com/", "*", "https://", ""} {
		a.Origins = []string{wrong}
		b := newWorld(t, memstore.New(), &httpapi.Options{Access: a})
		b.get("v1/executions").problem(http.StatusInternalServerError, "internal", "Access.Origins")
	}
}

// What a panic says is in the log, and the answer has the name of the incident.
func TestPanic(t *testing.T) {
	a := policy()
	a.Role = func(_ context.Context, p access.Principal, job string) access.Role { panic(canarySecret) }
	w := newWorld(t, memstore.New(), &httpapi.Options{Access: a})
	got := w.get("v1/executions")
	got.problem(http.StatusInternalServerError, "internal", "incident")
	if strings.Contains(got.Body.String(), canarySecret) || !strings.Contains(w.log.String(), "panicked") {
		t.Errorf("%s, log %s", got.Body, w.log)
	}
}
