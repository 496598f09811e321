package dashboard_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/store/memstore"
)

// Without Access the pages let nobody in.
func TestClosed(t *testing.T) {
	w := newWorld(t, memstore.New(), &dashboard.Options{})
	r := httptest.NewRequest("GET", "/courier/executions", nil)
	r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost"
	if a := w.send(r); a.Code != http.StatusForbidden {
		t.Errorf("%d", a.Code)
	} else {
		a.has("access.Local()")
	}
}

// Pages exchange the token of Local for a cookie, once: it is for this site alone and not for
// scripts, it is not the token, and it lets in on this host only. What another site makes the
// browser do with it is refused, and so is a name that was bound anew to this host.
func TestLocal(t *testing.T) {
	policy := access.Local()
	w := newWorld(t, memstore.New(), &dashboard.Options{Access: policy})
	x := w.enqueue("report", "admin", nil)
	ask := func(method, at, body string, change func(r *http.Request)) answer {
		r := httptest.NewRequest(method, "/courier/"+at, strings.NewReader(body))
		r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost:8080"
		if body != "" {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		if change != nil {
			change(r)
		}
		return w.send(r)
	}
	for _, at := range []string{"", "executions", "executions?token=", "executions?token=x", "api/v1/executions", "api/v1/executions?token=" + policy.Token()} {
		if a := ask("GET", at, "", nil); a.Code != http.StatusUnauthorized && !strings.HasPrefix(at, "api/v1/executions?") || len(a.Result().Cookies()) > 0 || a.Code == http.StatusOK {
			t.Errorf("%s: %d", at, a.Code)
		}
	}
	far := func(r *http.Request) { r.RemoteAddr = "192.0.2.1:1" }
	rebound := func(r *http.Request) { r.Host = "evil.example.com:8080" }
	for _, change := range []func(*http.Request){far, rebound, func(r *http.Request) { r.Header.Set("X-Forwarded-For", "192.0.2.1") }} {
		if a := ask("GET", "?token="+policy.Token(), "", change); a.Code != http.StatusForbidden || len(a.Result().Cookies()) > 0 {
			t.Errorf("%d %v", a.Code, a.Result().Cookies())
		}
	}
	in := ask("GET", "executions?where=job%3Areport&token="+policy.Token(), "", nil)
	cookies := in.Result().Cookies()
	if len(cookies) != 1 || in.Code != http.StatusOK || strings.Contains(in.Body.String(), policy.Token()) || !strings.Contains(in.Body.String(), `url=./executions?where=job%3Areport"`) {
		t.Fatalf("%d %v %s", in.Code, cookies, in.Body)
	}
	c := cookies[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Value == policy.Token() || c.MaxAge != 0 || !c.Expires.IsZero() {
		t.Errorf("%+v", c)
	}
	with := func(changes ...func(*http.Request)) func(*http.Request) {
		return func(r *http.Request) {
			r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
			for _, change := range changes {
				change(r)
			}
		}
	}
	from := func(site, origin string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", site)
			r.Header.Set("Origin", origin)
		}
	}
	cancel := url.Values{"do": {"cancel"}, "key": {"k"}}.Encode()
	at := "executions/" + string(x.ID)
	for _, c := range []struct {
		what, method, at, body string
		change                 func(*http.Request)
		status                 int
	}{
		{"a page", "GET", "executions", "", with(), 200},
		{"the API below the pages", "GET", "api/v1/executions", "", with(), 200},
		{"from elsewhere", "GET", "executions", "", with(far), 403},
		{"a name that was bound anew", "GET", "executions", "", with(rebound), 403},
		{"the API under such a name", "GET", "api/v1/executions", "", with(rebound), 403},
		{"a form of another site", "POST", at, cancel, with(from("cross-site", "https://evil.example.com")), 403},
		{"a form of another port", "POST", at, cancel, with(from("same-site", "http://localhost:9090")), 403},
		{"such a request to the API", "POST", "api/v1/" + at + "/cancel", "", with(from("same-site", "http://localhost:9090")), 403},
		{"an old browser's", "POST", at, cancel, with(func(r *http.Request) { r.Header.Set("Origin", "http://localhost:9090") }), 403},
		{"the token as the cookie", "GET", "executions", "", func(r *http.Request) { r.AddCookie(&http.Cookie{Name: c.Name, Value: policy.Token()}) }, 401},
		{"the cookie as the token", "GET", "executions", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+c.Value) }, 401},
		{"its own form", "POST", at, cancel, with(from("same-origin", "http://localhost:8080")), 303},
	} {
		if a := ask(c.method, c.at, c.body, c.change); a.Code != c.status {
			t.Errorf("%s: %d; want %d", c.what, a.Code, c.status)
		}
	}
}

// TestReboundNames has a page elsewhere bind its name anew to this host, and ask for every
// page with the token and with the cookie.
func TestReboundNames(t *testing.T) {
	policy := access.Local()
	w := newWorld(t, memstore.New(), &dashboard.Options{Access: policy})
	x := w.enqueue("report", "admin", nil)
	in := httptest.NewRequest("GET", "/courier/?token="+policy.Token(), nil)
	in.RemoteAddr, in.Host = "127.0.0.1:1", "localhost"
	cookies := w.send(in).Result().Cookies()
	if len(cookies) != 1 {
		t.Fatalf("%v", cookies)
	}
	for _, host := range []string{"evil.example.com", "evil.example.com:8080", "localhost.evil.example.com", "127.0.0.1.evil.example.com:80"} {
		for _, p := range dashboard.Table(w.pages) {
			path := strings.NewReplacer("{id}", string(x.ID), "{name}", "report", "{name...}", "report").Replace(p.Path)
			for _, method := range []string{"GET", "POST"} {
				for _, query := range []string{"", "?token=" + policy.Token()} {
					ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // of a stream that begins
					r := httptest.NewRequestWithContext(ctx, method, "/courier/"+path+query, nil)
					r.RemoteAddr, r.Host = "127.0.0.1:1", host
					r.AddCookie(&http.Cookie{Name: cookies[0].Name, Value: cookies[0].Value})
					r.Header.Set("Authorization", "Bearer "+policy.Token())
					r.Header.Set("Sec-Fetch-Site", "same-origin")
					a := w.send(r)
					cancel()
					if a.Code != http.StatusForbidden && a.Code != http.StatusMethodNotAllowed || strings.Contains(a.Body.String(), string(x.ID)) || len(a.Result().Cookies()) > 0 {
						t.Errorf("%s: %s %s: %d", host, method, path+query, a.Code)
					}
				}
			}
		}
	}
}
