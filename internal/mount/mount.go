// Package mount finds out where a handler is mounted, and which of its routes a request is
// for: a service mounts the API and the pages below any path, and need not say where.
package mount

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Below returns the path of a request below the place where the handler is mounted, with a
// slash at its beginning and as it is escaped. The host need not say where that is: it is
// the pattern that has matched, unless a handler such as http.StripPrefix has cut it off,
// which the request line shows.
func Below(r *http.Request) string {
	path := r.URL.EscapedPath()
	_, pattern, _ := strings.Cut(r.Pattern, "/") // behind method and host
	mount := Segments(pattern)
	if i := slices.IndexFunc(mount, func(s string) bool { return strings.HasSuffix(s, "...}") || s == "{$}" }); i >= 0 {
		mount = mount[:i]
	}
	if cut, ok := strings.CutSuffix(linePath(r), path); ok && cut != "" && endsWith(Segments(cut), mount) {
		return path
	}
	for range mount {
		_, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		path = "/" + rest
	}
	return path
}

// linePath is the path in the request line, which may be a whole URL.
func linePath(r *http.Request) string {
	line, _, _ := strings.Cut(r.RequestURI, "?")
	if strings.HasPrefix(line, "/") {
		return line
	}
	if u, err := url.Parse(line); err == nil {
		return u.EscapedPath()
	}
	return ""
}

// Segments returns what stands between the slashes of a path, without empty ones.
func Segments(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// endsWith reports whether a path ends with what a pattern matches.
func endsWith(path, pattern []string) bool {
	if len(path) < len(pattern) {
		return false
	}
	for i, s := range path[len(path)-len(pattern):] {
		if p := pattern[i]; p != s && !strings.HasPrefix(p, "{") {
			return false
		}
	}
	return true
}

// At returns the request with another escaped path; nil if that is none.
func At(r *http.Request, path string) *http.Request {
	plain, err := url.PathUnescape(path)
	if err != nil {
		return nil
	}
	inner := new(http.Request)
	*inner = *r
	u := *r.URL
	u.Path, u.RawPath = plain, path
	inner.URL = &u
	return inner
}

// IsClean reports whether a path has neither empty segments nor "." or "..", as
// http.ServeMux would otherwise redirect it to another one, and is text. The last one may
// be empty.
func IsClean(path string) bool {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, s := range parts {
		plain, err := url.PathUnescape(s)
		if err != nil || plain == "." || plain == ".." || s == "" && i < len(parts)-1 {
			return false
		}
	}
	return true
}

// Up returns the relative reference that leads from a request's path to the root of the
// handler, "../" for each segment.
func Up(path string) string {
	return strings.Repeat("../", strings.Count(strings.TrimPrefix(path, "/"), "/"))
}

// Match returns the pattern of a mux that a request matches, and sets its path values. If
// only its method is wrong, the pattern is empty and allow has the methods that are there.
// The handlers of the mux must do nothing.
func Match(mux *http.ServeMux, r *http.Request) (pattern, allow string) {
	none := noBody{header: make(http.Header)}
	_, pattern = mux.Handler(r)
	mux.ServeHTTP(&none, r)
	if pattern == "" && none.status == http.StatusMethodNotAllowed {
		allow = none.header.Get("Allow")
	}
	return pattern, allow
}

// A noBody takes the status and the headers of an answer, and drops its text.
type noBody struct {
	header http.Header
	status int
}

func (b *noBody) Header() http.Header         { return b.header }
func (b *noBody) WriteHeader(status int)      { b.status = status }
func (b *noBody) Write(p []byte) (int, error) { return len(p), nil }
