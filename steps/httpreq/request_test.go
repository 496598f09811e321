package httpreq_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// What is configured arrives, and what arrives is returned.
func TestExchange(t *testing.T) {
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		user, password, _ := r.BasicAuth()
		w.Header().Set("X-Seen", fmt.Sprintf("%s %s %q len=%d type=%s auth=%s/%s/%s key=%s accept=%s x=%s", r.Method, r.URL, body, r.ContentLength,
			r.Header.Get("Content-Type"), user, password, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), r.Header.Get("Idempotency-Key"), r.Header.Get("Accept-Encoding"), r.Header.Get("X-Mine")))
	})
	for _, c := range []struct {
		name string
		cfg  object
		want []string
		not  string
	}{
		{"get", object{"query": object{"q": "a b&c", "z": "1"}, "url": s.URL + "/p?x=1#part"}, []string{"GET /p?x=1&q=a+b%26c&z=1 \"\"", "accept=identity"}, "courier-"},
		{"text", object{"method": "POST", "body": "hej"}, []string{`POST / "hej" len=3 type=text/plain; charset=utf-8`, "key=courier-0198c2f0-0000-7000-8000-000000000001-2 "}, ""},
		{"json", object{"method": "PUT", "json": object{"a": []int{1}}, "content_type": "application/vnd.api+json"}, []string{`"{\"a\":[1]}"`, "type=application/vnd.api+json"}, ""},
		{"file", object{"method": "PUT", "body_path": "up.txt"}, []string{`"content" len=7 type=application/octet-stream`}, ""},
		{"empty post", object{"method": "POST"}, []string{`"" len=0`}, ""},
		{"basic", object{"username": "u", "password": "p:w"}, []string{"auth=u/p:w/"}, ""},
		{"bearer", object{"bearer_token": "tok"}, []string{"auth=//tok"}, ""},
		{"headers", object{"method": "POST", "headers": object{"x-mine": "v", "Idempotency-Key": "k"}}, []string{"x=v", "key=k "}, ""},
		{"own key", object{"idempotency_key": "mine"}, []string{"key=mine "}, ""},
		{"no key", object{"method": "DELETE", "idempotency_key": "none"}, []string{"key= "}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.write("up.txt", "content")
			c.cfg["response_headers"] = []string{"x-seen", "missing"}
			if c.cfg["url"] == nil {
				c.cfg["url"] = s.URL + "/"
			}
			out, err := b.run(c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			seen := out.Headers["x-seen"]
			for _, want := range c.want {
				if !strings.Contains(seen, want) {
					t.Errorf("the server saw %s, want %s", seen, want)
				}
			}
			if c.not != "" && strings.Contains(seen, c.not) {
				t.Errorf("the server saw %s with %s", seen, c.not)
			}
			if _, ok := out.Headers["missing"]; ok || out.Status != 200 {
				t.Errorf("output is %+v", out)
			}
		})
	}
}

// Content becomes text, a value, or a file.
func TestContent(t *testing.T) {
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.URL.Query().Get("type"))
		io.WriteString(w, r.URL.Query().Get("content"))
	})
	url := func(typ, content string) object {
		return object{"url": s.URL, "query": object{"type": typ, "content": content}}
	}
	b := newBench(t)
	out, err := b.run(url("application/problem+json; charset=utf-8", `{"n": 12345678901234567890.10}`))
	if err != nil || string(out.JSON) != `{"n":12345678901234567890.10}` || out.Size != 30 || out.Body == "" {
		t.Errorf("JSON: %+v, %v", out, err)
	}
	if out, err = b.run(url("text/plain", "æøå")); err != nil || out.Body != "æøå" || out.JSON != nil {
		t.Errorf("text: %+v, %v", out, err)
	}
	b.fails(url("application/json", "{"), false, "should be JSON")
	b.fails(url("application/json", strings.Repeat("[", 200)+strings.Repeat("]", 200)), true, "nested more than 64 times")
	b.fails(url("text/plain", "a\x00b"), true, "is not text")
	b.fails(object{"url": s.URL + "?content=%ff%fe"}, true, "output_path")
	sum := sha256.Sum256([]byte("data"))
	hash := hex.EncodeToString(sum[:])
	file := url("", "data")
	file["output_path"], file["sha256"] = "dir/f", strings.ToUpper(hash)
	if out, err = b.run(file); err != nil || out.DownloadedFile != "dir/f" || out.SHA256 != hash || out.Size != 4 || b.read("dir/f") != "data" {
		t.Errorf("file: %+v, %v", out, err)
	}
	wrong := url("", "tampered")
	wrong["output_path"], wrong["sha256"] = "dir/f", hash
	b.fails(wrong, false, "not that of sha256")
	wrong["output_path"] = ""
	b.fails(wrong, false, "not that of sha256")
	if b.read("dir/f") != "data" || len(b.files()) != 1 {
		t.Errorf("left are %v", b.files())
	}
}

// Which statuses are failures, and of which kind.
func TestStatus(t *testing.T) {
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		var n int
		fmt.Sscan(r.URL.Path[1:], &n)
		w.WriteHeader(n)
		fmt.Fprintf(w, "told\x1b[2J you")
	})
	b := newBench(t)
	for _, n := range []int{400, 401, 403, 404, 405, 409, 410, 422, 451} {
		b.fails(object{"url": fmt.Sprintf("%s/%d", s.URL, n)}, true, fmt.Sprintf("status %d", n))
	}
	for _, n := range []int{408, 425, 429, 500, 502, 503, 504, 599} {
		b.fails(object{"url": fmt.Sprintf("%s/%d", s.URL, n)}, false, fmt.Sprintf("status %d", n))
	}
	b.fails(object{"url": s.URL + "/404"}, true, `: "told\x1b[2J you"; check the url`)
	b.fails(object{"url": s.URL + "/200", "expected_status": []any{201}}, true, "status 200 (OK)")
	for _, ok := range []any{404, "404", "4xx", "400-404"} {
		if out, err := b.run(object{"url": s.URL + "/404", "expected_status": []any{ok}}); err != nil || out.Status != 404 {
			t.Errorf("%v: %v, %v", ok, out, err)
		}
	}
}

// A configuration that can't work is refused before anything is sent, with the
// field that is wrong.
func TestBadConfig(t *testing.T) {
	b := newBench(t)
	b.opt.AllowPlain = false
	const url = "https://127.0.0.1:1/"
	for want, cfg := range map[string]object{
		"config: url: is required":                        {"url": ""},
		"url: the URL has no scheme":                      {"url": "example.com/x"},
		"http is refused":                                 {"url": "http://example.com"},
		`the scheme "ftp" is refused`:                     {"url": "ftp://example.com"},
		`the scheme "file" is refused`:                    {"url": "file:///etc/passwd"},
		"the URL has no host":                             {"url": "https:///x"},
		"a user name or a password":                       {"url": "https://u:topsecret@example.com"},
		"the URL is malformed":                            {"url": "https://example.com/%zz"},
		"the URL is malformed:":                           {"url": "https://exam ple.com/"},
		`method: "FETCH" is not one of`:                   {"url": url, "method": "FETCH"},
		"only one of body, json and":                      {"url": url, "method": "POST", "body": "x", "json": 1},
		"sends no body":                                   {"url": url, "body": "x"},
		`"Host" is set by the client itself`:              {"url": url, "headers": object{"Host": "evil"}},
		`"transfer-encoding" is set by`:                   {"url": url, "headers": object{"transfer-encoding": "chunked"}},
		`the value of "X-A" contains a control character`: {"url": url, "headers": object{"X-A": "topsecret\r\nX-B: 1"}},
		`"X A" is not the name of a header`:               {"url": url, "headers": object{"X A": "1"}},
		"the value of \"Authorization\" contains":         {"url": url, "bearer_token": "topsecret\n"},
		"username: must not contain a colon":              {"url": url, "username": "a:b", "password": "topsecret"},
		"one of username and bearer_token":                {"url": url, "username": "a", "bearer_token": "topsecret"},
		"Authorization can't be given together":           {"url": url, "headers": object{"authorization": "x"}, "bearer_token": "topsecret"},
		"expected_status: must be":                        {"url": url, "expected_status": []any{99}},
		"must be statuses between 100 and 599":            {"url": url, "expected_status": []any{"2x"}},
		"max_redirects: must be at most 10":               {"url": url, "max_redirects": 11},
		"response_timeout_seconds: must be":               {"url": url, "response_timeout_seconds": -1},
		"max_retry_wait_seconds: must be":                 {"url": url, "max_retry_wait_seconds": 1e9},
		"sha256: must be 64":                              {"url": url, "sha256": "abc"},
		"resume: needs the method GET and an output_path": {"url": url, "resume": true},
		"give only one of output_path and once":           {"url": url, "once": true, "output_path": "x"},
		"max_bytes: must be at least 0":                   {"url": url, "max_bytes": -1},
		"Range can't be given together with resume":       {"url": url, "resume": true, "output_path": "x", "headers": object{"Range": "bytes=1-"}},
	} {
		b.fails(cfg, true, want)
	}
	if strings.Contains(b.log.String(), "topsecret") {
		t.Errorf("the log is %s", b.log.String())
	}
}

// The step returns within a second after its context has ended, whatever the
// server does.
func TestCancel(t *testing.T) {
	silent := server(t, func(w http.ResponseWriter, r *http.Request) {
		select { // a server that has not read a request does not see its end
		case <-r.Context().Done():
		case <-time.After(2 * time.Second):
		}
	})
	body := server(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "begin")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	busy := server(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	for name, cfg := range map[string]object{
		"silent":  {"url": silent.URL},
		"body":    {"url": body.URL},
		"file":    {"url": body.URL, "output_path": "f"},
		"waiting": {"url": busy.URL},
		"upload":  {"url": silent.URL, "method": "PUT", "body_path": "big"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write("big", strings.Repeat("x", 20<<20))
			soon(t, func(ctx context.Context) error {
				_, err := b.call(ctx, cfg)
				return err
			})
			if got := b.files(); len(got) != 1 {
				t.Errorf("left are %v", got)
			}
		})
	}
}

// Where the server says when to come back, the step waits for it, if that
// isn't too long.
func TestRetryAfter(t *testing.T) {
	var requests atomic.Int32
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		n := requests.Add(1)
		switch {
		case r.URL.Path == "/long":
			w.Header().Set("Retry-After", "3600")
		case n == 1:
			w.Header().Set("Retry-After", "1")
		case n == 2:
			w.Header().Set("Retry-After", time.Now().Add(time.Second).UTC().Format(http.TimeFormat))
		default:
			fmt.Fprint(w, "done")
			return
		}
		w.WriteHeader(http.StatusTooManyRequests)
	})
	b := newBench(t)
	start := time.Now()
	out, err := b.run(object{"url": s.URL})
	if took := time.Since(start); err != nil || out.Body != "done" || took < 2*time.Second || requests.Load() != 3 {
		t.Errorf("after %v and %d requests: %+v, %v", took, requests.Load(), out, err)
	}
	b.fails(object{"url": s.URL + "/long"}, false, "asks to come back after 1h0m0s")
	requests.Store(0)
	b.fails(object{"url": s.URL, "max_retry_wait_seconds": 0}, false, "asks to come back after 1s")
	if requests.Load() != 1 {
		t.Errorf("%d requests without a wait", requests.Load())
	}
}

// Once means once.
func TestOnce(t *testing.T) {
	var requests, status atomic.Int32
	status.Store(200)
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if status.Load() == 0 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(int(status.Load()))
		fmt.Fprint(w, "reply")
	})
	cfg := object{"url": s.URL, "method": "POST", "once": true}
	b := newBench(t)
	for range 3 {
		if out, err := b.run(cfg); err != nil || out.Body != "reply" || requests.Load() != 1 {
			t.Errorf("%d requests: %+v, %v", requests.Load(), out, err)
		}
	}
	again := func(code int32) {
		b = newBench(t)
		requests.Store(0)
		status.Store(code)
	}
	again(422)
	b.fails(cfg, true, "status 422")
	if status.Store(200); requests.Load() != 1 {
		t.Errorf("%d requests", requests.Load())
	}
	if _, err := b.run(cfg); err != nil {
		t.Errorf("after a refusal: %v", err)
	}
	for _, bad := range []int32{0, 500} {
		again(bad)
		b.fails(cfg, true, "may have acted")
		b.fails(cfg, true, "is not sent again")
		if requests.Load() != 1 {
			t.Errorf("status %d: %d requests", bad, requests.Load())
		}
	}
	b, cfg["url"] = newBench(t), "http://127.0.0.1:1"
	b.fails(cfg, false, "connect to http://127.0.0.1:1")
	b.fails(cfg, false, "connect to http://127.0.0.1:1") // nothing was sent, so it may be tried again
}
