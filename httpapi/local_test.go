package httpapi_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store/memstore"
)

// Without Access nobody is let in: not a program on this host either. What asks nobody is
// there.
func TestNobody(t *testing.T) {
	w := newWorld(t, memstore.New(), &httpapi.Options{})
	for _, r := range httpapi.Table() {
		req := httptest.NewRequest(r.Method, "http://localhost/"+fill(r.Path, "00000000-0000-7000-8000-000000000000"), nil)
		req.RemoteAddr = "127.0.0.1:1"
		rec := httptest.NewRecorder()
		if w.api.ServeHTTP(rec, req); (rec.Code == http.StatusForbidden) == r.Open {
			t.Errorf("%s %s: %d", r.Method, r.Path, rec.Code)
		}
	}
}

// A service with Local lets in who has its token, on this host, and who says so itself.
func TestLocal(t *testing.T) {
	policy := access.Local()
	w := newWorld(t, memstore.New(), &httpapi.Options{Access: policy})
	if other := access.Local(); len(policy.Token()) < 20 || policy.Token() == other.Token() {
		t.Errorf("%q, %q", policy.Token(), other.Token())
	}
	bearer := "Bearer " + policy.Token()
	for _, c := range []struct {
		from, host, header, authorization string
		status                            int
	}{
		{"127.0.0.1:1", "localhost:8080", "", bearer, 202},
		{"[::1]:1", "[::1]:8080", "", bearer, 202},
		{"127.0.0.1:1", "127.0.0.1", "", "bearer " + policy.Token(), 202},
		{"[::ffff:127.0.0.1]:1", "localhost", "", bearer, 202},
		{"127.0.0.1:1", "localhost", "", "", 401},
		{"127.0.0.1:1", "localhost", "", "Bearer", 401},
		{"127.0.0.1:1", "localhost", "", "Bearer x", 401},
		{"127.0.0.1:1", "localhost", "", bearer + "x", 401},
		{"127.0.0.1:1", "localhost", "", "Basic " + policy.Token(), 401},
		{"192.0.2.1:1", "localhost", "", bearer, 403},
		{"127.0.0.1:1", "courier.example.com", "", bearer, 403}, // DNS that was bound anew
		{"127.0.0.1:1", "localhost.example.com", "", bearer, 403},
		{"127.0.0.1:1", "", "", bearer, 403},
		{"127.0.0.1:1", "localhost", "X-Forwarded-For", bearer, 403},
		{"127.0.0.1:1", "localhost", "Forwarded", bearer, 403},
		{"", "localhost", "", bearer, 403},
		{"@", "localhost", "", bearer, 403}, // a Unix socket
	} {
		r := httptest.NewRequest("POST", "/v1/jobs/report/executions", nil)
		r.RemoteAddr, r.Host = c.from, c.host
		if c.header != "" {
			r.Header.Set(c.header, "192.0.2.1")
		}
		if c.authorization != "" {
			r.Header.Set("Authorization", c.authorization)
		}
		rec := httptest.NewRecorder()
		w.api.ServeHTTP(rec, r)
		if rec.Code != c.status || c.status == 401 && rec.Header().Get("WWW-Authenticate") == "" || strings.Contains(rec.Body.String(), policy.Token()) {
			t.Errorf("%+v: %d %s", c, rec.Code, rec.Body)
		}
	}
	if list, err := w.engine.Journal(t.Context(), filterBy("local")); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestReboundNames has a page elsewhere bind its name anew to this host, so that for the
// browser this service is the page's own origin, and use every route, even with the token.
func TestReboundNames(t *testing.T) {
	policy := access.Local()
	w := newWorld(t, memstore.New(), &httpapi.Options{Access: policy})
	x, err := w.engine.Enqueue(t.Context(), "report", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{
		"evil.example.com", "evil.example.com:8080", "localhost.evil.example.com", "127.0.0.1.evil.example.com", "localhost.", "localhost@evil.example.com", "evil.example.com:80:localhost", "[::1].evil.example.com", "0x7f.1", "0.0.0.0", "127.1",
	} {
		for _, r := range httpapi.Table() {
			if r.Open {
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // of a stream that begins
			req := httptest.NewRequestWithContext(ctx, r.Method, "http://localhost/"+fill(r.Path, string(x.ID)), strings.NewReader("{}"))
			req.RemoteAddr, req.Host = "127.0.0.1:1", host
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Authorization", "Bearer "+policy.Token())
			req.Header.Set("Origin", "http://"+host)
			req.Header.Set("Sec-Fetch-Site", "same-origin")
			rec := httptest.NewRecorder()
			if w.api.ServeHTTP(rec, req); rec.Code != http.StatusForbidden || strings.Contains(rec.Body.String(), string(x.ID)) {
				t.Errorf("%s: %s %s: %d %.200s", host, r.Method, r.Path, rec.Code, rec.Body)
			}
			cancel()
		}
	}
}

// A proxy on this host that passes requests on under the name of the upstream and adds no
// header makes nobody an admin. There are two: that of Go, and one that speaks as nginx does
// with proxy_pass alone.
func TestBehindProxies(t *testing.T) {
	policy := access.Local()
	w := newWorld(t, memstore.New(), &httpapi.Options{Access: policy})
	var seen http.Header
	upstream := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		seen.Set("Host", r.Host)
		w.api.ServeHTTP(rw, r)
	}))
	defer upstream.Close()
	at, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	rewriting := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at) }})
	defer rewriting.Close()
	plain := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { asNginx(t, rw, r, at.Host) }))
	defer plain.Close()
	for name, proxy := range map[string]string{"ReverseProxy": rewriting.URL, "nginx": plain.URL} {
		for authorization, status := range map[string]int{"": http.StatusUnauthorized, "Bearer " + policy.Token(): http.StatusOK} {
			r, err := http.NewRequestWithContext(t.Context(), "PUT", proxy+"/v1/limits/global", strings.NewReader(`{"running": 1}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Host = "courier.example.com"
			r.Header.Set("Content-Type", "application/json")
			if authorization != "" {
				r.Header.Set("Authorization", authorization)
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode/100 != status/100 {
				t.Errorf("%s, %q: %s; want %d", name, authorization, resp.Status, status)
			}
			if seen.Get("Host") != at.Host || seen.Get("X-Forwarded-For") != "" {
				t.Errorf("%s hides nothing: %v", name, seen)
			}
		}
	}
}

// asNginx passes a request on as nginx does with proxy_pass and no proxy_set_header: by
// HTTP/1.0, with the name of the upstream as the host, Connection: close, and nothing about
// the client.
func asNginx(t *testing.T, w http.ResponseWriter, r *http.Request, upstream string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	c, err := net.Dial("tcp", upstream)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	head := r.Header.Clone()
	head.Del("Connection")
	var b strings.Builder
	b.WriteString(r.Method + " " + r.URL.RequestURI() + " HTTP/1.0\r\nHost: " + upstream + "\r\nConnection: close\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n")
	_ = head.Write(&b)
	b.WriteString("\r\n" + string(body))
	if _, err := io.WriteString(c, b.String()); err != nil {
		t.Error(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), r)
	if err != nil {
		t.Error(err)
		return
	}
	defer resp.Body.Close()
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}
