package main

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/store"
)

// A browser keeps cookies, and follows redirects if it is told to.
type browser struct {
	t      *testing.T
	client *http.Client
	url    string
}

func open(t *testing.T, at string) *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, at}
}

// do sends a request, a form if there is one, and requires the status. It returns the body and
// where the answer leads.
func (b *browser) do(method, path string, form url.Values, status int, headers ...string) (body, location string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		b.t.Fatalf("%s %s: %d, want %d, %v\n%s", method, path, resp.StatusCode, status, err, text)
	}
	return string(text), resp.Header.Get("Location")
}

func credentials(name, password string) url.Values {
	return url.Values{"name": {name}, "password": {password}}
}

// serve starts a service with ann, a viewer, and otto, an operator. Their passwords are their
// names in capitals.
func serve(t *testing.T) (*service, string) {
	t.Helper()
	ann, err := newUser("ann", "Ann", access.Viewer, 1000, "ANN")
	if err != nil {
		t.Fatal(err)
	}
	otto, err := newUser("otto", "Otto", access.Operator, 1000, "OTTO")
	if err != nil {
		t.Fatal(err)
	}
	us, err := newUsers(ann, otto)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newService(t.Context(), t.TempDir(), us, false)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.handler())
	t.Cleanup(server.Close)
	t.Cleanup(s.pages.Close)
	return s, server.URL
}

// TestWalk goes the way of two users by HTTP: to a page, to the login and back, and out again.
func TestWalk(t *testing.T) {
	s, at := serve(t)
	ann := open(t, at)
	const page = "/courier/executions?where=state%3Afailed"
	_, login := ann.do("GET", page, nil, http.StatusSeeOther)
	if login != "/login?next="+url.QueryEscape(page) {
		t.Errorf("the page leads to %q", login)
	}
	if form, _ := ann.do("GET", login, nil, http.StatusOK); !strings.Contains(form, `<input name="name"`) {
		t.Errorf("the login page is %s", form)
	}
	if form, _ := ann.do("POST", login, credentials("ann", "wrong"), http.StatusUnauthorized); !strings.Contains(form, "is wrong") {
		t.Errorf("a wrong password: %s", form)
	}
	ann.do("POST", login, credentials("nobody", "ANN"), http.StatusUnauthorized)
	ann.do("POST", login, credentials("ann", "ANN"), http.StatusForbidden, "Sec-Fetch-Site", "cross-site")
	if _, to := ann.do("POST", login, credentials("ann", "ANN"), http.StatusSeeOther); to != page {
		t.Errorf("the login leads to %q", to)
	}
	text, _ := ann.do("GET", page, nil, http.StatusOK)
	if !strings.Contains(text, "Ann") || !strings.Contains(text, `href="/logout"`) {
		t.Errorf("the page of ann is %s", text)
	}

	otto := open(t, at)
	if _, to := otto.do("POST", "/login?next="+url.QueryEscape("//evil.example.com/"), credentials("otto", "OTTO"), http.StatusSeeOther); to != home {
		t.Errorf("the login leads to %q", to)
	}
	const api = home + "api/v1/jobs/greet/executions"
	ann.do("POST", api, nil, http.StatusForbidden, "Content-Type", "application/json", "Idempotency-Key", "1")
	otto.do("POST", api, nil, http.StatusAccepted, "Content-Type", "application/json", "Idempotency-Key", "1")
	list, err := s.engine.Jobs().Names(t.Context(), store.DefinitionFilter{})
	if err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}

	ann.do("POST", "/logout", url.Values{}, http.StatusForbidden, "Sec-Fetch-Site", "cross-site")
	ann.do("GET", "/logout", nil, http.StatusOK)
	ann.do("GET", page, nil, http.StatusOK) // looking at it logs nobody out
	stolen := ann.client.Jar.Cookies(&url.URL{Scheme: "http", Host: strings.TrimPrefix(at, "http://"), Path: "/"})
	if len(stolen) != 1 {
		t.Fatalf("cookies %v", stolen)
	}
	if _, to := ann.do("POST", "/logout", url.Values{}, http.StatusSeeOther); to != "/login" {
		t.Errorf("the logout leads to %q", to)
	}
	ann.do("GET", page, nil, http.StatusSeeOther)
	ann.do("GET", page, nil, http.StatusSeeOther, "Cookie", stolen[0].String())
	ann.do("GET", home+"api/v1/jobs", nil, http.StatusUnauthorized, "Accept", "application/json")
	otto.do("GET", page, nil, http.StatusOK)

	delete(s.users.byID, "otto") // before anybody else asks
	otto.do("GET", page, nil, http.StatusUnauthorized)
}

// TestLockout: after 5 wrong passwords the right one does not help for a time, and nobody else is
// held up.
func TestLockout(t *testing.T) {
	s, _ := serve(t)
	ctx := context.Background()
	for range failures {
		if s.users.check(ctx, "ann", "wrong") != nil {
			t.Fatal("a wrong password was accepted")
		}
	}
	if s.users.check(ctx, "ann", "ANN") != nil {
		t.Error("a sixth password was checked")
	}
	if s.users.check(ctx, "otto", "OTTO") == nil {
		t.Error("another user is locked out")
	}
	if s.users.check(ctx, "", "") != nil {
		t.Error("nobody has logged in")
	}
}
