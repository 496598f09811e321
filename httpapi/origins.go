package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// origins decides about requests that a browser makes for other web pages.
type origins struct {
	list  []string
	guard *http.CrossOriginProtection
	err   error // the list is wrong; no request is served
}

func newOrigins(list []string) *origins {
	o := &origins{list: list, guard: http.NewCrossOriginProtection()}
	for _, origin := range list {
		u, err := url.Parse(origin)
		if err == nil && (u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin) {
			err = fmt.Errorf("it is not an origin")
		}
		if err == nil {
			err = o.guard.AddTrustedOrigin(origin)
		}
		if err != nil {
			o.err = problemf(codeInternal, "Access.Origins of this service has an entry that is not an origin: write scheme, host and port alone, such as https://ops.example.com")
		}
	}
	return o
}

// exposed are the headers of answers that a web page may read.
const exposed = "ETag, Link, Location, Retry-After, Preference-Applied"

// answered answers the preflight request of a browser, and a request for a web page that is not
// allowed. It reports whether it has answered.
func (o *origins) answered(c *call) bool {
	origin := c.r.Header.Get("Origin")
	head := c.w.Header()
	if origin != "" {
		head.Add("Vary", "Origin")
	}
	if origin != "" && slices.Contains(o.list, origin) {
		head.Set("Access-Control-Allow-Origin", origin)
		head.Set("Access-Control-Allow-Credentials", "true")
		head.Set("Access-Control-Expose-Headers", exposed)
		if method := c.r.Header.Get("Access-Control-Request-Method"); c.r.Method == http.MethodOptions && method != "" {
			head.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, DELETE")
			head.Set("Access-Control-Allow-Headers", strings.Join([]string{"Authorization", "Content-Type", "Idempotency-Key", "If-Match", "If-None-Match", "Last-Event-ID", "Prefer"}, ", "))
			head.Set("Access-Control-Max-Age", "600")
			_ = c.nothing(http.StatusNoContent)
			return true
		}
	}
	if err := o.guard.Check(c.r); err != nil {
		c.fail(problemf(codeForbidden, "a web page elsewhere may not use this service from a browser: its operators permit pages by Access.Origins"))
		return true
	}
	return false
}
