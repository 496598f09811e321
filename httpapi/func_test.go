package httpapi_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/httpapi"
)

// TestFunc: a handler of the host answers errors as the API does, and has its protection.
func TestFunc(t *testing.T) {
	virtual(t, nil, func(w *world) {
		var fails error
		mux := http.NewServeMux()
		mux.Handle("POST /own/{id}", w.api.Func(func(rw http.ResponseWriter, r *http.Request) error {
			if fails != nil {
				return fails
			}
			_, err := io.WriteString(rw, r.PathValue("id"))
			return err
		}))
		mux.Handle("POST /json", w.api.Func(func(rw http.ResponseWriter, r *http.Request) error {
			var v struct {
				N int `json:"n"`
			}
			err := w.api.ReadJSON(rw, r, &v)
			if err != nil {
				return err
			}
			return w.api.WriteJSON(rw, r, http.StatusCreated, v)
		}))
		mux.Handle("POST /long", w.api.Func(func(rw http.ResponseWriter, r *http.Request) error {
			_, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, 2))
			return fmt.Errorf("read: %w", err)
		}))
		mux.Handle("POST /panics", w.api.Func(func(http.ResponseWriter, *http.Request) error { panic("no") }))
		e := &endpoint{w, mux}
		send := func() answer { return e.send("POST", "/own/7", "", nil) }
		if a := send(); a.Code != http.StatusOK || a.Body.String() != "7" || a.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%d %s %v", a.Code, a.Body, a.Header())
		}
		for _, c := range []struct {
			err    error
			status int
			code   string
		}{
			{fmt.Errorf("x: %w", courier.ErrInvalid), http.StatusBadRequest, "invalid"},
			{courier.Errorf(courier.ErrNotFound, "there is no seven"), http.StatusNotFound, "not_found"},
			{&courier.TransitionError{From: courier.Completed, To: courier.Cancelled}, http.StatusConflict, "transition"},
			{httpapi.ErrKeyReused, http.StatusUnprocessableEntity, "idempotency_key_reused"},
			{errors.New("the disk of 10.0.0.7"), http.StatusServiceUnavailable, "unavailable"},
		} {
			fails = c.err
			if a := send(); !strings.Contains(a.Body.String(), `"type":"/api/v1/problems/`+c.code+`"`) || strings.Contains(a.Body.String(), "10.0.0.7") {
				t.Errorf("%s", a.Body)
			} else {
				a.problem(c.status, c.code)
			}
		}
		if !strings.Contains(w.log.String(), "10.0.0.7") {
			t.Errorf("%s", w.log)
		}
		isJSON := http.Header{"Content-Type": {"application/json"}}
		if a := e.send("POST", "/json", `{"n": 7}`, isJSON); a.Code != http.StatusCreated || a.Body.String() != `{"n":7}`+"\n" || a.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%d %s %v", a.Code, a.Body, a.Header())
		}
		e.send("POST", "/json", `{"m": 7}`, isJSON).problem(http.StatusBadRequest, "invalid", "m")
		e.send("POST", "/json", `{"n": 7}`, nil).problem(http.StatusUnsupportedMediaType, "media_type")
		e.send("POST", "/json", `{"n": 1`+strings.Repeat("0", 1<<20), isJSON).problem(http.StatusRequestEntityTooLarge, "too_large")
		e.send("POST", "/long", "123", nil).problem(http.StatusRequestEntityTooLarge, "too_large", "2 bytes")
		e.send("POST", "/panics", "", nil).problem(http.StatusInternalServerError, "internal")
		fails = nil
		e.send("POST", "/own/7", "", http.Header{"Sec-Fetch-Site": {"cross-site"}}).problem(http.StatusForbidden, "forbidden")
	})
}

// TestRoutes: what the mux of the host lacks is answered as the API answers it, and the mux serves the rest.
func TestRoutes(t *testing.T) {
	virtual(t, nil, func(w *world) {
		mux, own := http.NewServeMux(), http.NewServeMux()
		own.HandleFunc("POST /own/{id}", func(rw http.ResponseWriter, r *http.Request) { io.WriteString(rw, r.PathValue("id")) })
		own.HandleFunc("GET /tree/", func(rw http.ResponseWriter, r *http.Request) { io.WriteString(rw, r.URL.Path) })
		mux.Handle("/", w.api.Routes(own))
		e := &endpoint{w, mux}
		if a := e.send("POST", "/own/7", "", nil); a.Body.String() != "7" {
			t.Errorf("%s", a.Body)
		}
		if a := e.send("GET", "/tree/a", "", nil); a.Body.String() != "/tree/a" {
			t.Errorf("%s", a.Body)
		}
		a := e.send("PUT", "/own/7", "", nil)
		if a.problem(http.StatusMethodNotAllowed, "method_not_allowed", "POST"); a.Header().Get("Allow") != "POST" {
			t.Errorf("%v", a.Header())
		}
		e.send("GET", "/none", "", nil).problem(http.StatusNotFound, "not_found")
		if a := e.send("GET", "/tree", "", nil); a.Code != http.StatusTemporaryRedirect && a.Code != http.StatusMovedPermanently {
			t.Errorf("%d", a.Code)
		}
	})
}
