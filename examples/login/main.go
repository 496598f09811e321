// Command login serves the pages of package dashboard, and the API below them, behind its own login
// page, with sessions, two roles and a logout. It uses only the standard library.
// docs/how-to/log-in.md explains it; examples/login-oidc does the same with OpenID Connect.
//
//	go run ./examples/login
//
// Open the address that the program logs, and log in as ann, who is a viewer, or as otto, who is an
// operator. Their passwords are in the log too; they are made anew at each start.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/examples/login/session"
	"github.com/courierhq/courier/store/memstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		slog.Error("the service has failed", "error", err)
		os.Exit(1)
	}
}

// A service is an engine with pages for users who have logged in.
type service struct {
	engine   *engine.Engine
	pages    *dashboard.Handler
	users    *users
	sessions *session.Store[string] // by the id of the user
	routes   *http.ServeMux
}

// home is where the pages are mounted.
const home = "/courier/"

// newService returns a service. Its engine is not started. Secure says that browsers reach the
// service by https, through a proxy that ends TLS.
func newService(ctx context.Context, work string, us *users, secure bool) (*service, error) {
	var reg courier.Registry
	courier.RegisterFunc(&reg, "demo.greet", func(context.Context, *courier.Context, struct{}) (struct{}, error) { return struct{}{}, nil }, nil)
	s := &service{
		engine: engine.New(memstore.New(), &reg, &engine.Options{Workspace: work}),
		users:  us, sessions: session.New[string]("/login", secure), routes: http.NewServeMux(),
	}
	if _, err := s.engine.Jobs().Define(ctx, courier.Job{Name: "greet", Steps: []courier.StepSpec{{Type: "demo.greet"}}}, nil); err != nil {
		return nil, err
	}
	s.pages = dashboard.New(s.engine, &dashboard.Options{
		Access:    access.Policy{Who: s.who, Role: s.role, Challenge: "Session"},
		LogoutURL: "/logout", Log: slog.Default(),
	})
	s.routes.Handle(home, s.sessions.Pages(s.pages))
	s.routes.HandleFunc("GET /login", s.loginPage)
	s.routes.HandleFunc("POST /login", s.login)
	s.routes.HandleFunc("GET /logout", s.logoutPage)
	s.routes.HandleFunc("POST /logout", s.logout)
	s.routes.Handle("GET /{$}", http.RedirectHandler(home, http.StatusSeeOther))
	return s, nil
}

// handler refuses forms that other sites send.
func (s *service) handler() http.Handler {
	return http.NewCrossOriginProtection().Handler(s.routes)
}

// who returns the user who makes a request to the pages or the API.
func (s *service) who(r *http.Request) (access.Principal, error) {
	id, ok := s.sessions.User(r)
	u := s.users.byID[id]
	if !ok || u == nil {
		return access.Principal{}, &access.Error{Unknown: true, Text: "log in at /login"}
	}
	return access.Principal{ID: u.id, Name: u.name}, nil
}

// role returns the role of a user. It is called again while a stream is open.
func (s *service) role(_ context.Context, p access.Principal, _ string) access.Role {
	if u := s.users.byID[p.ID]; u != nil {
		return u.role
	}
	return access.None
}

var page = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{{.Title}}</title></head>
<body><main><h1>{{.Title}}</h1>
{{with .Problem}}<p role="alert">{{.}}</p>{{end}}
<form method="post">
{{if .Login}}<p><label>Name <input name="name" autocomplete="username" required autofocus></label></p>
<p><label>Password <input name="password" type="password" autocomplete="current-password" required></label></p>{{end}}
<p><button>{{.Title}}</button></p>
</form></main></body></html>
`))

// show answers with a form. The form is sent to the address of the page, with its query.
func show(w http.ResponseWriter, status int, title, problem string, login bool) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = page.Execute(w, map[string]any{"Title": title, "Problem": problem, "Login": login})
}

func (s *service) loginPage(w http.ResponseWriter, r *http.Request) {
	show(w, http.StatusOK, "Log in", "", true)
}

func (s *service) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	u := s.users.check(r.Context(), r.PostFormValue("name"), r.PostFormValue("password"))
	if u == nil {
		slog.Warn("a login has failed", "name", r.PostFormValue("name"), "from", r.RemoteAddr)
		show(w, http.StatusUnauthorized, "Log in", "The name or the password is wrong. After 5 wrong passwords a user has to wait for a minute.", true)
		return
	}
	s.sessions.Begin(w, r, u.id)
	http.Redirect(w, r, session.Local(r.URL.Query().Get("next"), home), http.StatusSeeOther)
}

func (s *service) logoutPage(w http.ResponseWriter, r *http.Request) {
	show(w, http.StatusOK, "Log out", "", false)
}

func (s *service) logout(w http.ResponseWriter, r *http.Request) {
	s.sessions.End(w, r)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// run serves requests until ctx ends.
func run(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("login", flag.ContinueOnError)
	addr := f.String("addr", "127.0.0.1:8080", "the `address` to listen at")
	secure := f.Bool("https", false, "browsers reach the service by https, through a proxy")
	if err := f.Parse(args); err != nil {
		return err
	}
	passwords := []string{rand.Text(), rand.Text()}
	ann, err := newUser("ann", "Ann", access.Viewer, rounds, passwords[0])
	if err != nil {
		return err
	}
	otto, err := newUser("otto", "Otto", access.Operator, rounds, passwords[1])
	if err != nil {
		return err
	}
	us, err := newUsers(ann, otto)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "login-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	s, err := newService(ctx, work, us, *secure)
	if err != nil {
		return err
	}
	if err := s.engine.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	defer s.engine.Stop(context.WithoutCancel(ctx))
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	server.RegisterOnShutdown(s.pages.Close)
	slog.Info("listening", "pages", "http://"+l.Addr().String()+home, "ann", passwords[0], "otto", passwords[1])
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return server.Shutdown(end)
}
