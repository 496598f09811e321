package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/httpapi"
)

// A client that sends all of 10 MiB before it reads, and one that reads meanwhile, get the
// problem of each refusal, and no reset.
func TestRefusedWhileSending(t *testing.T) {
	const large = 10 << 20
	dir, err := depot.Dir(t.TempDir(), &depot.DirOptions{Most: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	content := strings.Repeat("x", large)
	body, kind := form(part{"f", "a.csv", content})
	unsafe, unsafeKind := form(part{"f", "../a", content})
	server := func(d depot.Depot, opt *httpapi.Options) string {
		w := withFiles(t, d, opt)
		mux := http.NewServeMux()
		mux.Handle("/", w.api)
		mux.Handle("POST /in", w.api.Async("report", &httpapi.AsyncOptions{Files: true}))
		s := httptest.NewServer(mux)
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	full, small := server(dir, nil), server(new(couriertest.Depot), &httpapi.Options{MaxUpload: 1 << 20})
	for _, c := range []struct {
		what, host, path, user, kind, body string
		status                             int
	}{
		{"a full depot", full, "/v1/jobs/report/executions", "ann", kind, body, 507},
		{"a full depot of an endpoint", full, "/in", "admin", "text/csv", content, 507},
		{"too large", small, "/v1/jobs/report/executions", "ann", kind, body, 413},
		{"too large for an endpoint", small, "/in", "admin", "text/csv", content, 413},
		{"a bad name", small, "/v1/jobs/report/executions", "ann", unsafeKind, unsafe, 400},
		{"no job", small, "/v1/jobs/none/executions", "admin", kind, body, 404},
		{"no right", small, "/v1/jobs/report/executions", "nobody", kind, body, 404},
		{"large JSON", small, "/v1/jobs/report/executions", "ann", "application/json", `"` + content + `"`, 413},
		{"no such path", small, "/v1/nothing", "ann", "application/json", content, 404},
	} {
		for _, chunked := range []bool{false, true} {
			for round := range 3 {
				status, err := sendAll(c.host, c.path, c.user, c.kind, c.body, chunked)
				if c.status == 400 && !chunked && status == 413 {
					status = 400 // its length alone is too large
				}
				if err != nil || status != c.status {
					t.Errorf("%s, chunked %t, round %d: who sends all first reads %d, %v; want %d", c.what, chunked, round, status, err, c.status)
				}
			}
			r, _ := http.NewRequestWithContext(t.Context(), "POST", "http://"+c.host+c.path, strings.NewReader(c.body))
			if chunked {
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(c.body)), -1
			}
			r.Header.Set("X-User", c.user)
			r.Header.Set("Content-Type", c.kind)
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Errorf("%s, chunked %t: %v", c.what, chunked, err)
				continue
			}
			if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), `"code"`) {
				t.Errorf("%s, chunked %t: %s, %v", c.what, chunked, text, err)
			}
			resp.Body.Close()
		}
	}
}

// sendAll sends a request as a whole, and then reads the status of its answer.
func sendAll(host, path, user, kind, body string, chunked bool) (status int, err error) {
	conn, err := net.Dial("tcp", host)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nX-User: %s\r\nContent-Type: %s\r\n", path, host, user, kind)
	if chunked {
		body = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
		head += "Transfer-Encoding: chunked\r\n\r\n"
	} else {
		head += fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body))
	}
	if _, err = io.WriteString(conn, head+body); err != nil {
		return 0, err
	}
	time.Sleep(20 * time.Millisecond) // a reset that is on its way takes the answer away
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}
