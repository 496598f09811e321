// Package browser shows the pages of the dashboard in a real browser: whatever page there is,
// is found by following links, and looked at.
package browser

import (
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier/dashboard/internal/demo"
	"github.com/courierhq/courier/internal/test/chromium"
)

// A site is a world that a server shows.
type site struct {
	*demo.World
	addresses []address
	taken     map[string]int // names of pictures
}

// An address is that of a page below the mount. Several may show the same page: with other
// subjects, or other parts of it.
type address struct {
	page string // its path in the table of pages, such as "executions/{id}"
	at   string // such as "executions/0198...?tab=audit"
}

// open makes a world and finds its pages.
func open(t *testing.T, opt demo.Options) *site {
	t.Helper()
	w, err := demo.Open(t.Context(), t.TempDir(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &site{World: w, taken: make(map[string]int)}
	s.addresses = s.crawl(t)
	return s
}

// What a page has that other pages are found by.
var (
	hrefs  = regexp.MustCompile(` href="([^"]*)"`)
	bodies = regexp.MustCompile(`<body data-page="([^"]*)"`)
)

// Of each page the crawl keeps as many subjects, and of the first subject each kind of
// query: of most pages a part, such as a tab.
const (
	subjects = 2
	queries  = 14
)

// typed are addresses that no link has: people come to them by the forms of their pages.
var typed = []string{
	"executions?where=by%3Anobody", "search?q=inv-0425", "search?q=%2A0425%2A", "search?q=partner%3Dacme", "search?q=nothing-has-this-name",
	"schedules?from=2027-03-26", "jobs?q=in", "journal?kind=schedule", "chains/made-by-hand/edit",
}

// mistaken are addresses that are wrong, with what is answered.
var mistaken = map[string]int{"no/such/page": 404, "executions/none": 404, "executions?where=stat%3Afailed": 400, "search?q=%ff": 400, "jobs/none": 404}

// crawl follows links from the first page and from the addresses that are worth looking at,
// and returns what it has found. Each page must be there, and each link must lead somewhere.
func (s *site) crawl(t *testing.T) (found []address) {
	t.Helper()
	queue := slices.Concat([]string{""}, typed)
	shown := make(map[string]bool)
	for _, as := range slices.Sorted(maps.Keys(s.By)) {
		at := "executions/" + string(s.By[as])
		queue, shown[at] = append(queue, at), true
	}
	asked, shapes, kinds := map[string]bool{}, map[string]int{}, map[string]bool{}
	for len(queue) > 0 && len(asked) < 2000 {
		at := queue[0]
		if queue = queue[1:]; asked[at] {
			continue
		}
		asked[at] = true
		w := httptest.NewRecorder()
		s.Pages.ServeHTTP(w, httptest.NewRequest("GET", "/"+at, nil))
		body := w.Body.String()
		if to := w.Header().Get("Location"); w.Code == http.StatusSeeOther {
			queue = append(queue, resolve(at, to))
			continue
		}
		if w.Code == http.StatusOK && strings.HasPrefix(w.Header().Get("Content-Type"), "text/csv") {
			continue // a list as a file, and no page
		}
		page := bodies.FindStringSubmatch(body)
		if w.Code != http.StatusOK || page == nil {
			t.Errorf("/%s: %d: %.200s", at, w.Code, text(body))
			continue
		}
		a := address{html.UnescapeString(page[1]), at}
		_, query, _ := strings.Cut(at, "?")
		if slices.Contains(typed, at) {
			found = append(found, a)
		} else if query == "" && (shown[at] || shapes[a.page] < subjects) {
			shapes[a.page]++
			found = append(found, a)
		} else if kind := a.page + shape(query); query != "" && !kinds[kind] && shapes[a.page+"?"] < queries {
			kinds[kind] = true
			shapes[a.page+"?"]++
			found = append(found, a)
		} else {
			continue // more of the same
		}
		if shapes[a.page+"#"]++; shapes[a.page+"#"] > 20 {
			continue
		}
		for _, m := range hrefs.FindAllStringSubmatch(body, -1) {
			if to := html.UnescapeString(m[1]); !strings.Contains(to, "://") && !strings.HasPrefix(to, "#") {
				if next := resolve(at, to); !strings.HasPrefix(next, "assets/") && !strings.HasPrefix(next, "api/") {
					queue = append(queue, next)
				}
			}
		}
	}
	return found
}

// shape returns what kind of a query one is: the names of its parameters, and the values of
// those that choose a part of the page.
func shape(query string) string {
	q, _ := url.ParseQuery(query)
	var list []string
	for name, values := range q {
		switch name {
		case "tab", "axis", "view", "zone", "as":
			name += "=" + values[0]
		}
		list = append(list, name)
	}
	slices.Sort(list)
	return "?" + strings.Join(list, "&")
}

// resolve returns the address below the mount that a reference on a page leads to.
func resolve(at, ref string) string {
	base, err := url.Parse("http://x/" + at)
	if err != nil {
		return at
	}
	to, err := base.Parse(ref)
	if err != nil {
		return at
	}
	to.Fragment = ""
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(to.String(), "http://x"), "/"), "?")
}

var tags = regexp.MustCompile(`(?s)<[^>]*>`)

// text returns the words of a page.
func text(page string) string {
	_, main, _ := strings.Cut(page, "<main")
	return strings.Join(strings.Fields(tags.ReplaceAllString(main, " ")), " ")
}

// listen returns the address of a server.
func listen(t *testing.T, h http.Handler) string {
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		server.CloseClientConnections() // streams do not end by themselves
		server.Close()
	})
	return server.URL
}

// A mount is a way in which a host may mount the pages.
type mount struct{ name, base string }

// mounts returns the addresses of a server that has the pages in four ways.
func (s *site) mounts(t *testing.T) []mount {
	serve := func(h http.Handler) string { return listen(t, h) }
	under := http.NewServeMux()
	under.Handle("/ops/courier/", s.Pages)
	stripped := http.NewServeMux()
	stripped.Handle("/tools/", http.StripPrefix("/tools", s.Pages))
	inner, err := url.Parse(serve(under))
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Path = "/ops/courier/" + strings.TrimPrefix(r.In.URL.Path, "/team/a/")
		r.Out.URL.RawPath = "/ops/courier/" + strings.TrimPrefix(r.In.URL.EscapedPath(), "/team/a/")
		r.SetURL(inner)
		r.SetXForwarded()
	}}
	return []mount{
		{"root", serve(s.Pages) + "/"}, {"prefix", inner.String() + "/ops/courier/"}, {"stripped", serve(stripped) + "/tools/"}, {"proxy", serve(proxy) + "/team/a/"},
	}
}

// documented returns the pages that docs/dashboard.md has.
func documented(t *testing.T) (list []string) {
	b, err := os.ReadFile(path.Join("..", "..", "docs", "dashboard.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(b), "\n## Pages\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, line := range strings.Split(section, "\n") {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, m := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(cells[1], -1) {
				list = append(list, m[1])
			}
		}
	}
	return list
}

// quiet reports an error for whatever the browser has complained of, besides what is known.
func quiet(t *testing.T, p *chromium.Page, where string, known ...string) {
	t.Helper()
	for _, m := range p.Console() {
		if slices.ContainsFunc(known, func(k string) bool { return strings.Contains(fmt.Sprint(m), k) }) {
			continue
		}
		if m.Level == "warning" || m.Level == "error" || m.Level == "exception" || m.Level == "dialog" {
			t.Errorf("%s: the console has %s", where, m)
		}
	}
	for _, r := range p.Reports() {
		t.Errorf("%s: against the policy: %s", where, r)
	}
}

func (a address) String() string { return fmt.Sprintf("%s (page %q)", a.at, a.page) }
