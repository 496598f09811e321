package httpapi

import (
	"errors"
	"net/http"
	"strings"
)

// ErrKeyReused is the problem of a request whose idempotency key was used before with other
// parameters: a function of [Handler.Func] returns it where the enqueuing has found a
// [courier.ErrConflict].
var ErrKeyReused = problemf(codeKeyReused, "this Idempotency-Key was used before with other parameters, and nothing was created: send the same parameters, or another key")

// Func returns a handler for a mux of the host, beside the API, that refuses what the API
// refuses: web pages elsewhere, and what panics. It asks nobody who he is. F answers a request,
// or returns an error before it has written anything: the answer is the problem document
// that the API has for the error. One that matches [courier.ErrInvalid] is 400,
// [courier.ErrNotFound] 404, a [courier.TransitionError] 409; what is none of package courier's
// is 503, with an incident under which the log has the error.
func (h *Handler) Func(f func(w http.ResponseWriter, r *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, path, _ := strings.Cut(r.Pattern, "/")
		c := &call{h: h, w: w, r: r, root: h.root()}
		c.route = &route{method: r.Method, path: path}
		c.protected(func() error {
			if h.origins.err != nil {
				return h.origins.err
			}
			err := f(w, r)
			if big, ok := errors.AsType[*http.MaxBytesError](err); ok {
				return problemf(codeTooLarge, "the request has more than %d bytes", big.Limit)
			}
			return err
		})
	})
}

// ReadJSON reads the body of a request as the API does: an object in JSON of at most
// [Options].MaxBody bytes, with the names of the fields of v and no others, each once. The error
// is one that a function of [Handler.Func] returns.
func (h *Handler) ReadJSON(w http.ResponseWriter, r *http.Request, v any) error {
	return (&call{h: h, w: w, r: r}).body(v)
}

// root is the URL of the API, which ends with a slash.
func (h *Handler) root() string {
	if strings.HasSuffix(h.opt.URL, "/") {
		return h.opt.URL
	}
	return h.opt.URL + "/"
}
