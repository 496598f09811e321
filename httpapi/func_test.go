package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store/memstore"
)

// A function of the host is told who makes the request and what is in it, and answers with a
// status and JSON.
func TestFuncAnswers(t *testing.T) {
	virtual(t, nil, func(w *world) {
		e := &endpoint{w, http.NewServeMux()}
		e.mux.Handle("/things/{thing}", w.api.Func(func(rw http.ResponseWriter, r *httpapi.Received) (int, any, error) {
			rw.Header().Set("Location", "/elsewhere")
			return http.StatusCreated, fmt.Sprint(r.Principal.ID, " ", r.Method, " ", r.Route["thing"], " ", r.Query, " ", r.Body, " ", string(r.Raw)), nil
		}))
		header := http.Header{"X-User": {"nobody"}, "Content-Type": {"application/json"}}
		a := e.send("POST", "/things/a%20b?x=1", "[1.50]", header)
		var got string
		a.want(http.StatusCreated, &got)
		if got != "nobody POST a b [{x [1]}] [1.50] [1.50]" || a.Header().Get("Location") != "/elsewhere" || a.Header().Get("Content-Type") != "application/json" || a.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%q %v", got, a.Header())
		}
		if a := e.send("GET", "/things/c", "", header); a.Code != http.StatusCreated || !strings.Contains(a.Body.String(), "nobody GET c") {
			t.Errorf("%d %s", a.Code, a.Body)
		}
		if a := e.send("HEAD", "/things/c", "", header); a.Code != http.StatusCreated || a.Body.Len() != 0 {
			t.Errorf("%d %s", a.Code, a.Body)
		}
	})
}

// What a function of the host returns as an error is answered with a problem document; who is
// not known, pages elsewhere, and bodies that can't be read don't reach it.
func TestFuncRefuses(t *testing.T) {
	virtual(t, &httpapi.Options{Access: policy(), MaxBody: 100, URL: "https://ops.example.com/api"}, func(w *world) {
		e := &endpoint{w, http.NewServeMux()}
		var fails error
		called := 0
		e.mux.Handle("/thing", w.api.Func(func(http.ResponseWriter, *httpapi.Received) (int, any, error) {
			if called++; fails == nil {
				panic(canarySecret)
			}
			return 0, nil, fails
		}))
		for _, c := range []struct {
			err    error
			status int
			code   string
			text   string
		}{
			{courier.Errorf(courier.ErrNotFound, "there is no thing"), http.StatusNotFound, "not_found", "there is no thing"},
			{courier.Errorf(courier.ErrInvalid, "it is odd"), http.StatusBadRequest, "invalid", "it is odd"},
			{courier.Errorf(courier.ErrConflict, "somebody has it"), http.StatusConflict, "conflict", "somebody has it"},
			{courier.Errorf(&courier.TransitionError{From: courier.Completed}, "it is done"), http.StatusConflict, "transition", "it is done"},
			{&access.Error{Text: "it is not yours"}, http.StatusForbidden, "forbidden", "it is not yours"},
			{errors.New(canarySecret), http.StatusServiceUnavailable, "unavailable", "incident"},
			{nil, http.StatusInternalServerError, "internal", "incident"},
		} {
			fails = c.err
			a := e.send("POST", "/thing", "", nil)
			a.problem(c.status, c.code, c.text)
			var p struct{ Type string }
			if a.want(c.status, &p); p.Type != "https://ops.example.com/api/v1/problems/"+c.code || strings.Contains(a.Body.String(), canarySecret) {
				t.Errorf("%s", a.Body)
			}
		}
		calls := called
		e.send("POST", "/thing", "", http.Header{"X-User": {"stranger"}}).problem(http.StatusUnauthorized, "unauthenticated")
		e.send("POST", "/thing", "", http.Header{"X-User": {"admin"}, "Origin": {"https://elsewhere.example"}, "Sec-Fetch-Site": {"cross-site"}}).problem(http.StatusForbidden, "forbidden")
		e.send("POST", "/thing", strings.Repeat("x", 101), nil).problem(http.StatusRequestEntityTooLarge, "too_large")
		e.send("POST", "/thing", "{", http.Header{"X-User": {"admin"}, "Content-Type": {"application/json"}}).problem(http.StatusBadRequest, "invalid")
		if called != calls {
			t.Errorf("%d calls, not %d", called, calls)
		}
	})
}

// Without the URL of the API no function is called, as no endpoint is.
func TestFuncNeedsURL(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	api := httpapi.New(w.engine, &httpapi.Options{Access: policy()})
	e := &endpoint{w, http.NewServeMux()}
	e.mux.Handle("/thing", api.Func(func(http.ResponseWriter, *httpapi.Received) (int, any, error) {
		return http.StatusOK, nil, context.Canceled
	}))
	e.send("GET", "/thing", "", nil).problem(http.StatusInternalServerError, "internal", "Options.URL")
}
