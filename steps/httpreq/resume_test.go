package httpreq_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/httpreq"
)

// A shelf serves one file, and cuts connections off.
type shelf struct {
	mu      sync.Mutex
	content string
	tag     string
	cut     int // after so many bytes; 0 means not at all
	sent    int
	ranges  []string
	answer  func(w http.ResponseWriter, r *http.Request) bool // instead
}

func (s *shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ranges = append(s.ranges, r.Header.Get("Range"))
	if s.answer != nil && s.answer(w, r) {
		return
	}
	if s.tag != "" {
		w.Header().Set("ETag", s.tag)
	}
	http.ServeContent(&cutting{w, s}, r, "", pageTime, strings.NewReader(s.content))
}

// now calls f while nothing is served.
func (s *shelf) now(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// cutting aborts the response when the shelf says so.
type cutting struct {
	http.ResponseWriter
	s *shelf
}

func (c *cutting) Write(b []byte) (int, error) {
	if c.s.cut > 0 && len(b) > c.s.cut {
		n, _ := c.ResponseWriter.Write(b[:c.s.cut])
		c.ResponseWriter.(http.Flusher).Flush()
		time.Sleep(20 * time.Millisecond) // so that what was sent arrives
		c.s.sent += n
		panic(http.ErrAbortHandler)
	}
	n, err := c.ResponseWriter.Write(b)
	c.s.sent += n
	if c.s.cut > 0 {
		c.s.cut -= n
	}
	return n, err
}

// A download that is cut off at many places goes on where it ended, and no
// byte that had arrived is sent twice.
func TestResume(t *testing.T) {
	const size = 1 << 20
	content := strings.Repeat("0123456789abcdef", size/16)
	for cut := 10_001; cut < size; cut += 100_000 {
		s := &shelf{content: content, tag: `"v1"`, cut: cut}
		b := newBench(t)
		cfg := object{"url": server(t, s.ServeHTTP).URL + "/f", "output_path": "f", "resume": true}
		b.fails(cfg, false, "ends in the middle")
		first := b.bytes
		if got := b.files(); strings.Contains(strings.Join(got, " "), "f.courier-tmp") || len(got) != 2 {
			t.Errorf("left are %v", got)
		}
		s.now(func() { s.cut = 0 })
		out, err := b.run(cfg)
		if err != nil || out.Status != 200 || out.Size != size || b.read("f") != content {
			t.Errorf("cut at %d: %+v, %v", cut, out, err)
		}
		s.now(func() {
			if s.sent != size || first <= 0 || first+b.bytes != size {
				t.Errorf("cut at %d: %d bytes were sent for %d; the attempts count %d and %d", cut, s.sent, size, first, b.bytes)
			}
		})
		if got := b.files(); len(got) != 1 {
			t.Errorf("left are %v", got)
		}
	}
}

// What is not certainly the rest of the same content is not appended.
func TestResumeOfAnother(t *testing.T) {
	first, second := strings.Repeat("a", 300_000), strings.Repeat("b", 310_000)
	lie := func(header, contentRange, tag, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("Range") == "" {
				return false
			}
			w.Header().Set("Content-Range", contentRange)
			w.Header().Set("ETag", tag)
			if header != "" {
				w.Header().Set("Content-Encoding", header)
			}
			w.WriteHeader(http.StatusPartialContent)
			io.WriteString(w, body)
			return true
		}
	}
	for name, change := range map[string]func(s *shelf){
		"another tag": func(s *shelf) { s.tag = `"v2"` },
		"no tag":      func(s *shelf) { s.tag = "" },
		"weak tag":    func(s *shelf) { s.tag = `W/"v1"` },
		"shorter":     func(s *shelf) { s.content, s.tag = "bb", `"v2"` },
		"ignores ranges": func(s *shelf) {
			s.answer = func(w http.ResponseWriter, r *http.Request) bool { io.WriteString(w, s.content); return true }
		},
		"wrong start": func(s *shelf) { s.answer = lie("", "bytes 5-9/10", `"v1"`, "bbbbb") },
		"wrong tag":   func(s *shelf) { s.answer = lie("", "bytes 200000-309999/310000", `"v2"`, strings.Repeat("b", 110_000)) },
		"encoded": func(s *shelf) {
			s.answer = lie("gzip", "bytes 200000-309999/310000", `"v1"`, strings.Repeat("b", 110_000))
		},
		"not to the end": func(s *shelf) { s.answer = lie("", "bytes 200000-200004/310000", `"v1"`, "bbbbb") },
		"nonsense":       func(s *shelf) { s.answer = lie("", "bytes -1--1/x", `"v1"`, "bbbbb") },
		"no such range": func(s *shelf) {
			s.answer = func(w http.ResponseWriter, r *http.Request) bool {
				bad := r.Header.Get("Range") != ""
				if bad {
					w.WriteHeader(416)
				}
				return bad
			}
		},
		"another address":   nil,
		"part is missing":   nil,
		"part is truncated": nil,
	} {
		t.Run(name, func(t *testing.T) {
			s := &shelf{content: first, tag: `"v1"`, cut: 200_000}
			b := newBench(t)
			url := server(t, s.ServeHTTP).URL
			cfg := object{"url": url + "/f", "output_path": "f", "resume": true}
			b.fails(cfg, false, "ends in the middle")
			s.now(func() { s.cut, s.content = 0, second })
			switch {
			case change != nil:
				s.now(func() { change(s) })
			case name == "another address":
				cfg["url"] = url + "/f?other=1"
			case name == "part is missing":
				b.write("2/download-1.courier-tmp", "")
			default:
				b.write("2/download-1.courier-tmp", "aaa")
			}
			if out, err := b.run(cfg); err != nil || out.Status != 200 || b.read("f") != s.content {
				t.Errorf("%+v, %v", out, err)
			}
		})
	}
	s := &shelf{content: first, tag: `"v1"`, cut: 200_000}
	b := newBench(t)
	cfg := object{"url": server(t, s.ServeHTTP).URL, "output_path": "f", "resume": true, "max_bytes": 250_000}
	b.fails(cfg, true, "has more than 250000 bytes")
	delete(cfg, "max_bytes")
	b.fails(cfg, false, "ends in the middle")
	s.now(func() { s.cut = 0 })
	cfg["max_bytes"] = 250_000
	b.fails(cfg, true, "has more than 250000 bytes")
}

// Nothing that is sent in confidence shows anywhere, even if a server sends it
// back.
func TestSecrets(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, "%s %s %s %s %v", r.URL.RawQuery, r.Header.Get("Authorization"), r.Header.Get("X-Api-Key"), body, r.Header)
	}
	s := server(t, echo)
	away := raw(t, func(c net.Conn) { io.WriteString(c, "HTTP/1.1 canary-bearer\r\n\r\n") })
	for _, url := range []string{s.URL, "http://127.0.0.1:1", away, "http://10.0.0.1", s.URL + "/canary-path"} {
		for _, cfg := range []object{
			{"bearer_token": "canary-bearer"},
			{"username": "canary-user", "password": "canary-password"},
			{"headers": object{"X-Api-Key": "canary-key", "Authorization": "Token canary-token"}, "bearer_token": ""},
			{"query": object{"sig": "canary &sig"}},
			{"method": "POST", "bearer_token": "canary\nbroken"},
		} {
			if url == away && cfg["bearer_token"] != "canary-bearer" {
				continue // that is what it sends back
			}
			b := newBench(t)
			cfg["url"] = url + "?key=canary-query"
			_, err := b.run(cfg)
			if err == nil {
				t.Fatal("no error")
			}
			text := strings.ReplaceAll(err.Error(), "canary-user", "") + b.log.String()
			if strings.Contains(text, "canary") || strings.Contains(text, "Y2FuYXJ5") {
				t.Errorf("a secret shows in %s", text)
			}
			if left := b.files(); len(left) != 0 {
				t.Errorf("left are %v", left)
			}
		}
	}
}

// Validate tests the connection and sends nothing.
func TestValidate(t *testing.T) {
	requests := 0
	s := server(t, func(http.ResponseWriter, *http.Request) { requests++ })
	b := newBench(t)
	step, job := httpreq.Request{Options: b.opt}, b.job()
	defer job.Close()
	if err := step.Validate(t.Context(), job, httpreq.RequestConfig{Method: "POST", URL: s.URL}); err != nil || requests != 0 {
		t.Errorf("%d requests, %v", requests, err)
	}
	for want, cfg := range map[string]httpreq.RequestConfig{
		"connect to http://127.0.0.1:1":   {Method: "GET", URL: "http://127.0.0.1:1/?secret=canary"},
		"10.0.0.1 is not public":          {Method: "GET", URL: "http://10.0.0.1/"},
		"body_path: path \"/etc/passwd\"": {Method: "PUT", URL: s.URL, BodyPath: "/etc/passwd"},
		"output_path: path":               {Method: "GET", URL: s.URL, OutputPath: "/etc/x"},
	} {
		if err := step.Validate(t.Context(), job, cfg); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	dry := courier.NewContext(courier.ContextConfig{Workspace: b.dir, Unresolved: []string{"url"}})
	defer dry.Close()
	if err := step.Validate(t.Context(), dry, httpreq.RequestConfig{}); err != nil {
		t.Errorf("with an unknown url: %v", err)
	}
}
