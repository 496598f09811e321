package httpapi

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/courierhq/courier/internal/mount"
)

// ErrKeyReused is the problem of a request whose idempotency key was used before with other
// parameters. A function of [Handler.Func] returns it when Enqueue returns [courier.ErrConflict].
var ErrKeyReused = problemf(codeKeyReused, "this Idempotency-Key was used before with other parameters, and nothing was created: send the same parameters, or another key")

// Func returns a handler that the host registers in its own mux, beside the API. Like the API, it
// refuses requests that a browser makes for other web pages, and answers a panic with a problem
// document. It does not authenticate the caller. F answers a request, or returns an error before it
// has written anything. The answer to an error is the same problem document as in the API: 400 if
// the error matches [courier.ErrInvalid], 404 for [courier.ErrNotFound], 409 for a
// [courier.TransitionError]. An error that is not of package courier is answered with 503 and an
// incident, under which the error is logged. Without [Options].URL the handler serves no request.
//
//	mux.Handle("GET /jobs/{jobId}", api.Func(getJob))
func (h *Handler) Func(f func(w http.ResponseWriter, r *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.beside(w, r).protected(func() error {
			err := cmp.Or(h.origins.err, h.checkURL())
			if err == nil {
				err = f(w, r)
			}
			if big, ok := errors.AsType[*http.MaxBytesError](err); ok {
				return problemf(codeTooLarge, "the request has more than %d bytes", big.Limit)
			}
			return err
		})
	})
}

// Routes returns a handler that serves mux. Requests that match no pattern of mux are answered as
// in the API: with a problem document, and with the header Allow if the method is wrong.
func (h *Handler) Routes(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		h.beside(w, r).protected(func() error {
			if _, allow := mount.Match(mux, r); allow != "" {
				w.Header().Set("Allow", allow)
				return problemf(codeMethod, "this path has other methods: %s", allow)
			}
			return problemf(codeNotFound, "there is nothing at this path")
		})
	})
}

// beside returns the call of a request to a handler of the host.
func (h *Handler) beside(w http.ResponseWriter, r *http.Request) *call {
	_, path, _ := strings.Cut(r.Pattern, "/")
	return &call{h: h, w: w, r: r, root: h.root(), route: &route{method: r.Method, path: path}}
}

// ReadJSON reads the body of a request as the API does: an object in JSON of at most
// [Options].MaxBody bytes, with the names of the fields of v and no others, each once. The error is
// one that a function of [Handler.Func] can return.
func (h *Handler) ReadJSON(w http.ResponseWriter, r *http.Request, v any) error {
	return h.beside(w, r).body(v)
}

// WriteJSON answers a request with a value in JSON.
func (h *Handler) WriteJSON(w http.ResponseWriter, r *http.Request, status int, v any) error {
	return h.beside(w, r).answer(status, v)
}

// checkURL returns an error if the URL of the API is not known.
func (h *Handler) checkURL() error {
	u, err := url.Parse(h.root())
	switch {
	case h.opt.URL == "":
		return problemf(codeInternal, `Options.URL of this service is missing, so that nobody knows where the API is that this endpoint refers to: write where it is mounted, such as "/courier/api/"`)
	case err != nil || u.RawQuery != "" || u.Fragment != "" || u.User != nil || !strings.HasPrefix(u.Path, "/") || (u.Scheme == "") != (u.Host == ""):
		return problemf(codeInternal, `Options.URL of this service is no address of an API: write a URL or a path, such as "https://ops.example.com/courier/api/"`)
	}
	return nil
}

// root is the URL of the API, which ends with a slash.
func (h *Handler) root() string {
	if strings.HasSuffix(h.opt.URL, "/") {
		return h.opt.URL
	}
	return h.opt.URL + "/"
}
