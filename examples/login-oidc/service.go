package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/examples/login/session"
	"github.com/courierhq/courier/store/memstore"
)

// A config has the address of the provider, and the credentials of this service there.
type config struct {
	issuer, client, secret string
	url                    string // of this service
}

// A user is a person who has logged in at the provider.
type user struct {
	id, name string
	idToken  string // tells the provider whom to log out
}

// A service is an engine with pages for users who have logged in at the provider.
type service struct {
	engine   *engine.Engine
	pages    *dashboard.Handler
	sessions *session.Store[user]
	routes   *http.ServeMux

	oauth    oauth2.Config
	verifier *oidc.IDTokenVerifier
	end      string // the address at which the provider logs users out; empty if it has none
	url      string
	secure   bool

	mu    sync.Mutex
	roles map[string]access.Role // by the id of a user, as of the last login
}

// home is where the pages are mounted. provider limits the time of each call to the provider, and
// login the time for logging in there.
const (
	home     = "/courier/"
	provider = 10 * time.Second
	login    = 10 * time.Minute
)

// groups are the roles of the groups at the provider, the highest first.
var groups = []struct {
	name string
	role access.Role
}{{"courier-operators", access.Operator}, {"courier-viewers", access.Viewer}}

// newService requests the endpoints and keys of the provider, and returns a service. Its engine is
// not started.
func newService(ctx context.Context, work string, c config) (*service, error) {
	client := &http.Client{Timeout: provider}
	p, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), client), c.issuer)
	if err != nil {
		return nil, fmt.Errorf("provider %q: %w", c.issuer, err)
	}
	var more struct {
		End string `json:"end_session_endpoint"`
	}
	if err := p.Claims(&more); err != nil {
		return nil, fmt.Errorf("provider %q: %w", c.issuer, err)
	}
	var reg courier.Registry
	courier.RegisterFunc(&reg, "demo.greet", func(context.Context, *courier.Context, struct{}) (struct{}, error) { return struct{}{}, nil }, nil)
	s := &service{
		engine: engine.New(memstore.New(), &reg, &engine.Options{Workspace: work}), routes: http.NewServeMux(),
		oauth: oauth2.Config{
			ClientID: c.client, ClientSecret: c.secret, Endpoint: p.Endpoint(), RedirectURL: c.url + "/callback",
			Scopes: []string{oidc.ScopeOpenID, "profile", "groups"},
		},
		verifier: p.Verifier(&oidc.Config{ClientID: c.client}),
		end:      more.End, url: c.url, secure: strings.HasPrefix(c.url, "https:"), roles: make(map[string]access.Role),
	}
	s.sessions = session.New[user]("/login", s.secure)
	if _, err := s.engine.Jobs().Define(ctx, courier.Job{Name: "greet", Steps: []courier.StepSpec{{Type: "demo.greet"}}}, nil); err != nil {
		return nil, err
	}
	s.pages = dashboard.New(s.engine, &dashboard.Options{
		Access:    access.Policy{Who: s.who, Role: s.role, Challenge: "Session"},
		LogoutURL: "/logout", Log: slog.Default(),
	})
	s.routes.Handle(home, s.sessions.Pages(s.pages))
	s.routes.HandleFunc("GET /login", s.login)
	s.routes.HandleFunc("GET /callback", s.callback)
	s.routes.HandleFunc("GET /logout", s.logoutPage)
	s.routes.HandleFunc("POST /logout", s.logout)
	s.routes.Handle("GET /{$}", http.RedirectHandler(home, http.StatusSeeOther))
	return s, nil
}

// handler refuses forms that other sites send.
func (s *service) handler() http.Handler {
	return http.NewCrossOriginProtection().Handler(s.routes)
}

// who returns the user who makes a request to the pages or the API. The name in the audit is the
// subject at the provider, because it never changes.
func (s *service) who(r *http.Request) (access.Principal, error) {
	u, ok := s.sessions.User(r)
	if !ok {
		return access.Principal{}, &access.Error{Unknown: true, Text: "log in at /login"}
	}
	return access.Principal{ID: u.id, Name: u.name}, nil
}

func (s *service) role(_ context.Context, p access.Principal, _ string) access.Role {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.roles[p.ID]
}

// attempt is the cookie of a login that has begun: the state, nonce and PKCE verifier of the
// request to the provider, and the page that the user wanted to open. An answer of the provider is
// only accepted from the browser that has the cookie.
func (s *service) attempt(values url.Values) *http.Cookie {
	c := &http.Cookie{Name: "login", Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: s.secure, MaxAge: int(login.Seconds())}
	if s.secure {
		c.Name = "__Host-login"
	}
	if values == nil {
		c.MaxAge = -1
	}
	c.Value = base64.RawURLEncoding.EncodeToString([]byte(values.Encode()))
	return c
}

// login sends the browser to the provider.
func (s *service) login(w http.ResponseWriter, r *http.Request) {
	v := url.Values{
		"state": {rand.Text()}, "nonce": {rand.Text()}, "verifier": {oauth2.GenerateVerifier()},
		"next": {session.Local(r.URL.Query().Get("next"), home)},
	}
	if len(v.Get("next")) > 1000 { // a browser does not keep a long cookie
		v.Set("next", home)
	}
	http.SetCookie(w, s.attempt(v))
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, s.oauth.AuthCodeURL(v.Get("state"), oidc.Nonce(v.Get("nonce")), oauth2.S256ChallengeOption(v.Get("verifier"))), http.StatusSeeOther)
}

// callback handles the request with which the provider sends the browser back.
func (s *service) callback(w http.ResponseWriter, r *http.Request) {
	var v url.Values
	if c, err := r.Cookie(s.attempt(nil).Name); err == nil {
		if text, err := base64.RawURLEncoding.DecodeString(c.Value); err == nil {
			v, _ = url.ParseQuery(string(text))
		}
	}
	http.SetCookie(w, s.attempt(nil))
	u, err := s.identify(r.Context(), v, r.URL.Query())
	if err != nil {
		slog.Warn("a login has failed", "from", r.RemoteAddr, "error", err)
		show(w, http.StatusUnauthorized, "You are not logged in", `<p>The log of the service says why. <a href="/login">Try again</a></p>`)
		return
	}
	s.sessions.Begin(w, r, u)
	http.Redirect(w, r, session.Local(v.Get("next"), home), http.StatusSeeOther)
}

// identify returns the user who has logged in at the provider. V has the values in the browser's
// cookie, and answer the values from the provider.
func (s *service) identify(ctx context.Context, v, answer url.Values) (u user, err error) {
	state := v.Get("state")
	switch {
	case state == "" || subtle.ConstantTimeCompare([]byte(state), []byte(answer.Get("state"))) == 0:
		return u, errors.New("the state is not that of a login which this browser has begun")
	case answer.Get("code") == "":
		return u, fmt.Errorf("the provider answers %.200q: %.500q", answer.Get("error"), answer.Get("error_description"))
	}
	ctx, cancel := context.WithTimeout(ctx, provider)
	defer cancel()
	token, err := s.oauth.Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(v.Get("verifier")))
	if err != nil {
		return u, err
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return u, errors.New("the provider has sent no ID token")
	}
	id, err := s.verifier.Verify(ctx, raw) // issuer, audience, expiry, signature
	if err != nil {
		return u, err
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(v.Get("nonce"))) == 0 {
		return u, errors.New("the ID token is for another login")
	}
	var claims struct {
		Name   string   `json:"name"`
		Groups []string `json:"groups"`
	}
	if err := id.Claims(&claims); err != nil {
		return u, err
	}
	role := access.None
	for _, g := range groups {
		if slices.Contains(claims.Groups, g.name) {
			role = g.role
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roles[id.Subject] = role
	return user{id: id.Subject, name: claims.Name, idToken: raw}, nil
}

func (s *service) logoutPage(w http.ResponseWriter, r *http.Request) {
	show(w, http.StatusOK, "Log out", `<form method="post"><p><button>Log out</button></p></form>`)
}

// logout ends the session here. If the provider has an address for logging out, it also ends the
// session there.
func (s *service) logout(w http.ResponseWriter, r *http.Request) {
	u, known := s.sessions.User(r)
	s.sessions.End(w, r)
	to, err := url.Parse(s.end)
	if !known || s.end == "" || err != nil {
		show(w, http.StatusOK, "You are logged out", `<p><a href="/login">Log in</a></p>`)
		return
	}
	q := to.Query()
	q.Set("id_token_hint", u.idToken)
	q.Set("post_logout_redirect_uri", s.url+"/")
	to.RawQuery = q.Encode()
	http.Redirect(w, r, to.String(), http.StatusSeeOther)
}

var page = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{{.Title}}</title></head>
<body><main><h1>{{.Title}}</h1>
{{.Body}}
</main></body></html>
`))

// show answers with a page. Its policy has no form-action, because browsers also apply that to the
// redirect from the form to the provider.
func show(w http.ResponseWriter, status int, title string, body template.HTML) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = page.Execute(w, map[string]any{"Title": title, "Body": body})
}
