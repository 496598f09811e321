package httpapi

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi/internal/files"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/mount"
	"github.com/courierhq/courier/internal/uuid7"
	"github.com/courierhq/courier/store"
)

// A Handler is the API of an engine, below any path that ends with a slash.
type Handler struct {
	e       *engine.Engine
	desk    *desk.Desk
	opt     Options
	log     *slog.Logger
	mux     *http.ServeMux
	routes  map[string]*route // by their patterns in mux
	origins *origins
	shares  *files.Shares

	bodyTimeout time.Duration // shorter in tests
	ids         uuid7.Source  // for executions whose files are stored before they are created

	closing    func() // closes the channel closed
	closed     context.Context
	openAPI    func() []byte
	openAPITag string
}

// New returns the API of an engine, which need not be started. Nil options are the defaults.
// Mistakes in the options are logged, and are in the answer to each request.
func New(e *engine.Engine, opt *Options) *Handler {
	h := &Handler{e: e, mux: http.NewServeMux(), routes: make(map[string]*route), bodyTimeout: bodyTimeout}
	if opt != nil {
		h.opt = *opt
	}
	if h.opt.MaxBody <= 0 {
		h.opt.MaxBody = 1 << 20
	}
	if h.opt.MaxUpload <= 0 {
		h.opt.MaxUpload = 1 << 30
	}
	if h.opt.MaxFiles <= 0 {
		h.opt.MaxFiles = 100
	}
	if h.opt.MinRate == 0 {
		h.opt.MinRate = 8 << 10
	}
	h.shares = &files.Shares{MaxUploads: h.opt.MaxUploads, MaxPending: h.opt.MaxPending, MaxInputs: h.opt.MaxInputs, Inputs: h.inputsOf}
	if h.shares.MaxUploads <= 0 {
		h.shares.MaxUploads = 32
	}
	if h.shares.MaxPending <= 0 {
		h.shares.MaxPending = 4 << 30
	}
	if d, ok := h.opt.Depot.(*depot.Directory); ok && d.InputRoom() > 0 {
		if h.opt.MaxPending <= 0 {
			h.shares.MaxPending = min(h.shares.MaxPending, d.InputRoom()/2)
		}
		if h.opt.MaxInputs == 0 {
			h.shares.MaxInputs = d.InputRoom() / 4 * 3
		}
	}
	h.log = h.opt.Log
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	h.closed, h.closing = context.WithCancel(context.Background())
	h.desk = desk.New(e, &desk.Options{Access: h.opt.Access, Via: "api", Streams: h.opt.MaxStreams, StreamsOf: h.opt.MaxStreamsOf, Examined: h.opt.MaxExamined, Depot: h.opt.Depot, Log: h.log})
	h.origins = newOrigins(h.opt.Access.Origins)
	if h.origins.err != nil {
		h.log.Error("the API can't answer requests", "error", h.origins.err)
	}
	for i := range table {
		t := &table[i]
		h.routes[t.pattern()] = t
		h.mux.HandleFunc(t.pattern(), func(http.ResponseWriter, *http.Request) {}) // the routes are in h.routes
	}
	h.openAPI = sync.OnceValue(h.document)
	if _, err := securitySchemes(&h.opt.Access); err != nil {
		h.log.Error("the OpenAPI document lacks security schemes", "error", err)
	}
	return h
}

// Close ends the streams of events and the calls that wait. From then on readyz answers that the
// service is stopping. Register Close with http.Server.RegisterOnShutdown, because Shutdown waits
// for streams and does not end them.
func (h *Handler) Close() { h.closing() }

// OpenAPI returns the OpenAPI document of the API, which is served at v1/openapi.json.
func (h *Handler) OpenAPI() []byte { return h.openAPI() }

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{h: h, w: w, r: r, path: mount.Below(r)}
	c.root = mount.Up(c.path)
	c.protected(c.serve)
}

// protected answers with what f writes, or with the problem of its error or panic. It refuses
// requests that a browser makes for other web pages.
func (c *call) protected(f func() error) {
	head := c.w.Header()
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Cache-Control", "no-store")
	head.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	defer func() {
		if p := recover(); p == http.ErrAbortHandler {
			panic(p)
		} else if p != nil {
			c.h.log.Error("the API has panicked", "panic", p, "stack", string(debug.Stack()))
			c.fail(errPanic)
		}
	}()
	if c.h.origins.answered(c) {
		return
	}
	if err := f(); err != nil {
		c.fail(err)
	}
}

var errPanic = errors.New("panic in the API")

// serve finds the route of the call and serves it.
func (c *call) serve() error {
	if c.h.origins.err != nil {
		return c.h.origins.err
	}
	if p := c.r.Pattern; p != "" && !strings.HasSuffix(p, "/") && !strings.HasSuffix(p, "...}") {
		return problemf(codeInternal, "the API of this service is mounted at a pattern without a slash at its end, so that nothing below it is found: write mux.Handle(%q, ...)", p+"/")
	}
	if c.path == "/" || c.path == "/v1" {
		c.w.Header().Set("Location", "v1/")
		return c.nothing(http.StatusPermanentRedirect)
	}
	inner := mount.At(c.r, c.path)
	if inner == nil || !mount.IsClean(c.path) {
		return problemf(codeNotFound, "there is nothing at this path: see openapi.json for what there is")
	}
	pattern, allow := mount.Match(c.h.mux, inner)
	if c.route = c.h.routes[pattern]; c.route == nil {
		if allow != "" {
			c.w.Header().Set("Allow", allow)
			return problemf(codeMethod, "this path has other methods: %s", allow)
		}
		return problemf(codeNotFound, "there is nothing at this path: see openapi.json for what there is")
	}
	c.r = inner
	if err := c.checkQuery(); err != nil {
		return err
	}
	if c.route.open || c.route.id == metricsRoute && c.h.opt.Access.MayScrape(c.r) {
		return c.route.do(c)
	}
	v, err := c.h.desk.Enter(c.r)
	if err != nil {
		return err
	}
	c.Visit = v
	if err = c.allow(); err == nil {
		err = c.route.do(c)
	}
	if no, ok := errors.AsType[*access.Error](err); ok && !no.Unknown {
		a := store.Action{Verb: c.route.id, Kind: c.route.kind(), Name: c.r.PathValue("name") + c.r.PathValue("scope"), Reason: no.Text}
		if x := &c.execution; x.ID != "" {
			a.Name, a.Job, a.Execution = x.Job, x.Job, x.ID
		}
		v.Refused(c.ctx(), a)
	}
	return err
}

// newIncident returns an id under which an error is logged that the client must not see.
func newIncident() string { return strings.ToLower(rand.Text()[:12]) }
