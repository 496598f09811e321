package dashboard_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storewrap"
)

// options are those of worlds in which only admins see values.
func options() *dashboard.Options {
	a := policy()
	role := a.Role
	a.Role = func(ctx context.Context, p access.Principal, job string) access.Role {
		has := role(ctx, p, job)
		if has != access.Admin {
			has &^= access.RightValues
		}
		return has
	}
	return &dashboard.Options{Access: a}
}

// hostile are texts that people elsewhere may send.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' autofocus onfocus='alert(1)`, "javascript:alert(1)", "{{.Service}}", "</title></main>",
	"invoice\u202efdp.exe", "a\u2066b\u2069", "\x1b[31mred", "tab\tand\nline", "☃ 🚚 日本語 עברית", "../../etc", "a?b#c&d=e", "%2e%2e%2f", strings.Repeat("long", 2048), "&lt;b&gt;", "`${1}`",
}

// jobName returns what a job with such a name can be called.
func jobName(evil string) string {
	name := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '-'
		}
		return r
	}, evil)
	for utf8.RuneCountInString(name) > 100 || len(name) > 150 {
		name = name[:len(name)/2]
	}
	return name
}

// The pages find out where they are mounted: links, styles and scripts lead there.
func TestMount(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	x := w.enqueue("report", "ann", nil)
	mux := func(pattern string, h http.Handler) http.Handler {
		m := http.NewServeMux()
		m.Handle(pattern, h)
		return m
	}
	for name, c := range map[string]struct {
		h    http.Handler
		base string
	}{
		"no mux":        {w.pages, "/"},
		"at the root":   {mux("/", w.pages), "/"},
		"below a path":  {mux("/ops/courier/", w.pages), "/ops/courier/"},
		"stripped":      {mux("/ops/", http.StripPrefix("/ops", w.pages)), "/ops/"},
		"a wildcard":    {mux("/t/{tenant}/", w.pages), "/t/acme/"},
		"a page's name": {mux("/executions/", w.pages), "/executions/"},
	} {
		ask := func(at string) *httptest.ResponseRecorder {
			r, rec := httptest.NewRequest("GET", at, nil), httptest.NewRecorder()
			r.Header.Set("X-User", "admin")
			c.h.ServeHTTP(rec, r)
			return rec
		}
		at := c.base + "executions"
		page := ask(at)
		tree := parsePage(t, page.Body.String())
		base := &url.URL{Path: at}
		follow := func(ref string) string {
			u, err := base.Parse(ref)
			if err != nil {
				t.Fatal(err)
			}
			return u.String()
		}
		for _, l := range append(tree.all("link"), tree.all("script")...) {
			if got := ask(follow(l.attrs["href"] + l.attrs["src"])); got.Code != http.StatusOK || !strings.Contains(got.Header().Get("Cache-Control"), "immutable") {
				t.Errorf("%s: %v: %d", name, l.attrs, got.Code)
			}
		}
		if href := follow(tree.one(t, "tr[data-row]").one(t, "a").attrs["href"]); href != c.base+"executions/"+string(x.ID) {
			t.Errorf("%s: a row leads to %q", name, href)
		}
		if got := ask(c.base + "api/v1/executions/" + string(x.ID)); got.Code != http.StatusOK || !strings.Contains(got.Body.String(), `"job":"report"`) {
			t.Errorf("%s: the API answers with %d %s", name, got.Code, got.Body)
		}
		if got := ask(c.base + "api"); got.Code != http.StatusSeeOther || path.Clean(follow(got.Header().Get("Location"))) != path.Clean(c.base+"api") {
			t.Errorf("%s: api leads to %d %q", name, got.Code, got.Header().Get("Location"))
		}
	}
	r, rec := httptest.NewRequest("GET", "/courier", nil), httptest.NewRecorder()
	mux("/courier", w.pages).ServeHTTP(rec, r)
	if rec.Code != http.StatusInternalServerError || !strings.Contains(rec.Body.String(), "/courier/") {
		t.Errorf("without a slash: %d %s", rec.Code, rec.Body)
	}
}

// What is no page, no method or no address is told in words.
func TestProblems(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	for _, at := range []string{"nothing", "assets/x/none.css", "assets/", "%00", "executions/%ff/x/y"} {
		w.fails(at, http.StatusNotFound).has("There is no such page")
	}
	w.fails("executions?where=%zz", http.StatusBadRequest).has("The address can't be read")
	w.fails("executions?where=%ff", http.StatusBadRequest).has("is not text")
	if a := w.post("executions", nil); a.Code != http.StatusMethodNotAllowed || a.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d, Allow %q", a.Code, a.Header().Get("Allow"))
	}
	if a := w.send(httptest.NewRequest("HEAD", "/courier/executions", nil)); a.Code != 200 || a.Body.Len() > 0 {
		t.Errorf("HEAD: %d with %d bytes", a.Code, a.Body.Len())
	}
}

// What the store says is in the log alone, under an incident.
func TestStoreFails(t *testing.T) {
	w := newWorld(t, storewrap.Intercept(memstore.New(), func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
		if c.Method == "Executions" {
			return errors.New("password authentication failed for user courier")
		}
		return do(ctx)
	}), nil)
	a := w.fails("executions", http.StatusServiceUnavailable).has("The store does not answer").lacks("password")
	incident := a.tree.one(t, ".notice").one(t, "code").text()
	if !strings.Contains(w.log.String(), incident) || !strings.Contains(w.log.String(), "password") {
		t.Errorf("the log has no incident %q: %s", incident, w.log)
	}
}

// Assets are small, compressed for who takes that, and kept by browsers.
func TestAssets(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	page := w.get("executions").tree
	for _, n := range append(page.all("link"), page.all("script")...) {
		at := "/courier/" + strings.TrimPrefix(n.attrs["href"]+n.attrs["src"], "./")
		for _, zip := range []string{"", "gzip"} {
			r := httptest.NewRequest("GET", at, nil)
			r.Header.Set("Accept-Encoding", zip)
			if a := w.send(r); a.Code != 200 || a.Header().Get("Content-Encoding") != zip || a.Header().Get("Content-Type") == "" {
				t.Errorf("%s %s: %d %v", at, zip, a.Code, a.Header())
			}
		}
	}
	var all, scripts int
	for name, size := range dashboard.AssetSizes(w.pages) {
		if all += size; strings.HasSuffix(name, ".js") {
			scripts += size
		}
	}
	t.Logf("assets have %d bytes compressed, scripts %d of them", all, scripts)
	if all > 20<<10 || scripts > 8<<10 {
		t.Errorf("assets have %d bytes compressed, scripts %d of them: the most is 20 KiB and 8 KiB", all, scripts)
	}
}
