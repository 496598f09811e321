package mount_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/courierhq/courier/internal/mount"
)

// TestBelow mounts a handler in the ways that programs do, and checks that it finds its own
// path, as it is escaped.
func TestBelow(t *testing.T) {
	var below string
	seen := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { below = mount.Below(r) })
	on := func(pattern string, h http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle(pattern, h)
		return mux
	}
	for name, c := range map[string]struct {
		handler   http.Handler
		url, want string
	}{
		"alone":                {seen, "/v1/jobs", "/v1/jobs"},
		"at the root":          {on("/", seen), "/v1/jobs", "/v1/jobs"},
		"below a path":         {on("/courier/api/", seen), "/courier/api/v1/jobs?x=1", "/v1/jobs"},
		"its root":             {on("/courier/", seen), "/courier/", "/"},
		"escaped":              {on("/courier/", seen), "/courier/jobs/a%2Fb", "/jobs/a%2Fb"},
		"of a method and host": {on("GET example.com/courier/", seen), "/courier/jobs", "/jobs"},
		"below a wildcard":     {on("/tenants/{id}/courier/", seen), "/tenants/7/courier/jobs", "/jobs"},
		"the rest":             {on("/courier/{rest...}", seen), "/courier/jobs/a", "/jobs/a"},
		"stripped":             {on("/courier/", http.StripPrefix("/courier", seen)), "/courier/jobs", "/jobs"},
		"stripped and deep":    {on("/a/b/", http.StripPrefix("/a", on("/b/", seen))), "/a/b/jobs", "/jobs"},
	} {
		t.Run(name, func(t *testing.T) {
			below = ""
			c.handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", c.url, nil))
			if below != c.want {
				t.Errorf("%s is %q, want %q", c.url, below, c.want)
			}
		})
	}
}

// TestMatch checks what a request is for: a route with its values, a route of other methods, or
// nothing.
func TestMatch(t *testing.T) {
	mux := http.NewServeMux()
	for _, pattern := range []string{"GET /jobs/{name}", "PUT /jobs/{name}", "GET /jobs"} {
		mux.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) {})
	}
	for _, c := range []struct{ method, path, pattern, allow, name string }{
		{"GET", "/jobs/a%2Fb", "GET /jobs/{name}", "", "a/b"},
		{"PUT", "/jobs/a", "PUT /jobs/{name}", "", "a"},
		{"HEAD", "/jobs", "GET /jobs", "", ""},
		{"POST", "/jobs/a", "", "GET, HEAD, PUT", ""},
		{"GET", "/chains", "", "", ""},
	} {
		r := httptest.NewRequest(c.method, "/", nil)
		r = mount.At(r, c.path)
		if pattern, allow := mount.Match(mux, r); pattern != c.pattern || allow != c.allow || r.PathValue("name") != c.name {
			t.Errorf("%s %s: %q, %q, name %q", c.method, c.path, pattern, allow, r.PathValue("name"))
		}
	}
	if mount.At(httptest.NewRequest("GET", "/", nil), "/%zz") != nil {
		t.Error("a path that is none is taken")
	}
}

// TestIsClean checks which paths are sent elsewhere by a mux, and so are refused before.
func TestIsClean(t *testing.T) {
	for path, want := range map[string]bool{
		"/": true, "/a": true, "/a/": true, "/a/b%2Fc": true, "/...": true,
		"//": false, "/a//b": false, "/./a": false, "/a/..": false, "/%2e%2E/a": false, "/%zz": false,
	} {
		if got := mount.IsClean(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	for path, want := range map[string]string{"/": "", "/a": "", "/a/": "../", "/a/b/c": "../../"} {
		if got := mount.Up(path); got != want {
			t.Errorf("up from %s: %q", path, got)
		}
	}
}
