package dashboard

import (
	"cmp"
	"context"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/dashboard/internal/outcome"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/dashboard/internal/versions"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/mount"
	"github.com/courierhq/courier/store"
)

// A Handler serves the pages of an engine, and its API below api/. It can be mounted below any path
// that ends with a slash.
type Handler struct {
	e         *engine.Engine
	desk      *desk.Desk
	opt       Options
	log       *slog.Logger
	api       *httpapi.Handler
	mux       *http.ServeMux
	table     []page
	pages     map[string]*page // by their patterns in mux
	templates map[string]*template.Template
	assets    *assets
	guard     *http.CrossOriginProtection
	done      outcome.Recent
	versions  versions.Cache
	attention lastAttention

	closing func() // closes the channel closed
	closed  context.Context
}

// New returns the pages of an engine, which need not be started. Nil options are the
// defaults.
func New(e *engine.Engine, opt *Options) *Handler {
	h := &Handler{e: e, mux: http.NewServeMux(), pages: make(map[string]*page), guard: http.NewCrossOriginProtection()}
	if opt != nil {
		h.opt = *opt
	}
	h.opt.Title = cmp.Or(h.opt.Title, "Courier")
	h.log = h.opt.Log
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	h.closed, h.closing = context.WithCancel(context.Background())
	h.desk = desk.New(e, &desk.Options{Access: h.opt.Access, Via: "page", Depot: h.opt.Depot, Log: h.log})
	h.api = httpapi.New(e, &httpapi.Options{Access: h.opt.Access, URL: h.opt.URL, Depot: h.opt.Depot, Health: h.opt.Health, Log: h.log})
	h.assets = newAssets()
	h.templates = parseTemplates()
	h.table = slices.DeleteFunc(allPages(), func(p page) bool { return p.needs != nil && !p.needs(&h.opt) })
	for i := range h.table {
		p := &h.table[i]
		for _, pattern := range p.patterns() {
			h.pages[pattern] = p
			h.mux.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) {}) // the pages are in h.pages
		}
	}
	return h
}

// API returns the API below api/. A host uses it for [httpapi.Handler.Async], for example.
func (h *Handler) API() *httpapi.Handler { return h.api }

// Close ends the streams of pages and those of the API. Register it with
// http.Server.RegisterOnShutdown, because Shutdown waits for streams and does not end them.
func (h *Handler) Close() {
	h.closing()
	h.api.Close()
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := mount.Below(r)
	if rest, ok := strings.CutPrefix(path, "/api/"); ok {
		if inner := mount.At(r, "/"+rest); inner != nil {
			inner.Pattern = "" // the path is already the path below the API
			h.api.ServeHTTP(w, inner)
			if r.Method != http.MethodGet && r.Method != http.MethodHead {
				h.attention.forget()
			}
			return
		}
	}
	c := &call{h: h, w: w, r: r, path: path, root: cmp.Or(mount.Up(path), "./")}
	c.protected()
}

// policy is the Content-Security-Policy of all pages. It permits nothing from other hosts, and no
// script and no style in the text of a page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// protected answers with the page, or with the page of its error or panic.
func (c *call) protected() {
	head := c.w.Header()
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Cache-Control", "no-store")
	head.Set("Content-Security-Policy", policy)
	head.Set("Referrer-Policy", "same-origin")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	defer func() {
		if p := recover(); p == http.ErrAbortHandler {
			panic(p)
		} else if p != nil {
			c.h.log.Error("a page has panicked", "panic", p, "stack", string(debug.Stack()))
			c.fail(problem.ErrPanic)
		}
	}()
	if err := c.serve(); err != nil {
		c.fail(err)
	}
}

// serve finds the page of the call and serves it.
func (c *call) serve() error {
	if p := c.r.Pattern; p != "" && !strings.HasSuffix(p, "/") && !strings.HasSuffix(p, "...}") {
		return &problem.Error{
			Status: http.StatusInternalServerError, Title: "The pages are mounted without a slash at the end",
			Text: "Nothing below the pattern " + p + " is found, and no link can lead there.", Do: `Write mux.Handle("` + p + `/", ...) in the service.`,
		}
	}
	if c.path == "/api" {
		return c.redirect("api/")
	}
	inner := mount.At(c.r, c.path)
	if inner == nil || !mount.IsClean(c.path) || !jsontext.Storable(inner.URL.Path) {
		return problem.ErrNoPage
	}
	if name, ok := strings.CutPrefix(c.path, assetsPath); ok {
		return c.h.assets.serve(c, name)
	}
	pattern, allow := mount.Match(c.h.mux, inner)
	if c.page = c.h.pages[pattern]; c.page == nil {
		if allow != "" {
			c.w.Header().Set("Allow", allow)
			return &problem.Error{Status: http.StatusMethodNotAllowed, Title: "This page does not take this kind of request", Text: "It takes " + allow + ".", Do: "Open the page in a browser."}
		}
		return problem.ErrNoPage
	}
	c.r = inner
	if c.h.opt.Access.SignIn(c.w, c.r) {
		c.wrote = true
		return nil
	}
	v, err := c.h.desk.Enter(c.r)
	if err != nil {
		return err
	}
	c.Visit = v
	if err := c.h.guard.Check(c.r); err != nil {
		return c.strayed()
	}
	if err = c.readQuery(); err == nil {
		err = c.allow(c.page.op)
	}
	if err == nil && c.r.Method == http.MethodPost {
		return c.act()
	}
	if err == nil && c.isLive() {
		return c.live()
	}
	if err == nil && c.query.Get(csvParam) != "" {
		return c.csv()
	}
	if err == nil {
		return c.show(http.StatusOK, nil)
	}
	c.refused(c.page.name(), err)
	return err
}

// refused records in the journal that the visitor had no permission, if err says so.
func (c *call) refused(verb string, err error) {
	if no, ok := errors.AsType[*access.Error](err); ok && !no.Unknown {
		a := store.Action{Verb: verb, Kind: c.page.kind(), Name: c.r.PathValue("name"), Reason: no.Text}
		if c.page.on == onJob {
			a.Job = a.Name
		}
		if x := &c.execution; x.ID != "" {
			a.Name, a.Job, a.Execution = x.Job, x.Job, x.ID
		}
		c.Refused(c.ctx(), a)
	}
}
