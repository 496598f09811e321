package httpapi

import (
	"errors"
	"net/http"
	"strings"
)

// Func returns a handler for a mux of the host, under a pattern of the host: for requests
// that the API has no route for, such as those of a host that shows executions in its own
// words. It does for f what the API does for its routes. Requests of web pages elsewhere, and
// those of visitors whom [Options.Access] does not know, are refused. The body is read, at most
// [Options].MaxBody bytes of it.
//
// The answer of f is written as JSON with the status. An error of f is answered with its
// problem document: one that matches [courier.ErrNotFound], [courier.ErrInvalid] or
// [courier.ErrConflict], or is a *[courier.TransitionError] or a *[access.Error], with its text;
// others are in the log only, as panics are. F may set headers of w, and must write nothing
// else to it. What the visitor may do is for f to decide: it asks for no right.
//
//	mux.Handle("GET /jobs/{jobId}", api.Func(getJob))
func (h *Handler) Func(f func(w http.ResponseWriter, r *Received) (status int, answer any, err error)) http.Handler {
	e := &endpoint{h: h, root: rootOf(h.opt.URL)}
	e.err = e.check()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, path, _ := strings.Cut(r.Pattern, "/")
		c := &call{h: h, w: w, r: r, root: e.root, route: &route{method: r.Method, path: path}}
		c.protected(func() error { return e.function(c, f) })
	})
}

// function answers a call with what f returns.
func (e *endpoint) function(c *call, f func(http.ResponseWriter, *Received) (int, any, error)) error {
	err := errors.Join(e.err, e.h.origins.err)
	if err == nil {
		c.Visit, err = e.h.desk.Enter(c.r)
	}
	if err != nil {
		return err
	}
	raw, err := c.readBody()
	if err != nil {
		return err
	}
	r, err := e.receive(c, raw, nil)
	if err != nil {
		return err
	}
	status, answer, err := f(c.w, r)
	if err != nil {
		return err
	}
	return c.answer(status, answer)
}
