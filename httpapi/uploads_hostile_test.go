package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// nothing requires that there is no execution, and no file in the depot.
func (w *world) nothing(d depot.Depot) {
	w.Helper()
	w.holds(d, 0, 0)
}

// holds requires numbers of executions and of files in the depot.
func (w *world) holds(d depot.Depot, executions, files int) {
	w.Helper()
	list, err := d.List(w.Context(), "")
	if err != nil || len(list) != files {
		w.Errorf("the depot has %v, %v; want %d files", list, err, files)
	}
	all, err := w.engine.Executions().List(w.Context(), store.Filter{})
	if err != nil || len(all) != executions {
		w.Errorf("%d executions, %v; want %d", len(all), err, executions)
	}
}

// A name that is none of a file in one directory, or that another file has, is refused, and
// no file is kept. The answer does not repeat it: it may turn around the text beside it.
func TestUploadNames(t *testing.T) {
	d := new(couriertest.Depot)
	w := withFiles(t, d, nil)
	for what, name := range map[string]string{
		"a path": "../zq81-sent", "an absolute path": "/etc/zq81-sent", "a path of Windows": `..\\zq81-sent`, "a drive": `C:\\zq81-sent`, "dots": "..", "a dot": ".",
		"a dot at the end": "zq81-sent.", "right to left": "zq81-sent\u202egpj.exe", "no UTF-8": "zq81-sent\xff",
		"long": strings.Repeat("zq81-sent", 456), "the same": "first.csv", "the same but for case": "FIRST.csv", "the same but for its form": "e\u0301.csv",
	} {
		a := w.upload([]part{{"a", "first.csv", "1"}, {"b", "\u00e9.csv", "2"}, {"c", name, "3"}})
		a.problem(http.StatusBadRequest, "unsafe_name", "/files/2", "name")
		if strings.Contains(a.Body.String(), sent) {
			t.Errorf("%s: it is sent back: %s", what, a.Body)
		}
		w.nothing(d)
	}
	// What is strange, but no danger, is kept as it is.
	for _, name := range []string{"-rf", "a b", "$(id)", "'", "%2e%2e", strings.Repeat("n", 255), "日本.csv"} {
		id := w.uploaded([]part{{"a", name, "1"}})
		if _, ok := d.Content(depot.InputKey(courier.ExecutionID(id), name)); !ok {
			t.Errorf("%q is not in the depot", name)
		}
	}
}

// A body that is no form with files is refused with what to do, and leaves nothing.
func TestUploadBodies(t *testing.T) {
	d := new(couriertest.Depot)
	w := withFiles(t, d, &httpapi.Options{MaxUpload: 1000, MaxFiles: 3, MaxBody: 5000})
	file := part{"a", "a.csv", "1"}
	for _, c := range []struct {
		what   string
		parts  []part
		status int
		code   string
		texts  []string
	}{
		{"no part", nil, 400, "missing_file", nil},
		{"no file", []part{{"customer", "", "acme"}}, 400, "missing_file", []string{"-F"}},
		{"a form without a choice", []part{{"a", "", ""}}, 400, "missing_file", nil},
		{"unknown parameter", []part{file, {"custmer", "", "x"}}, 400, "invalid", []string{"customer"}},
		{"wrong types", []part{file, {"copies", "", sent}, {"urgent", "", sent}, {"day", "", sent}}, 400, "invalid", []string{"copies", "urgent", "day"}},
		{"a number out of bounds", []part{file, {"copies", "", "0"}}, 400, "invalid", []string{"copies"}},
		{"params that are no JSON", []part{file, {"params", "", "{" + sent}}, 400, "invalid", []string{"/params"}},
		{"params that are a list", []part{file, {"params", "", "[]"}}, 400, "invalid", []string{"object"}},
		{"a repeated name in params", []part{file, {"params", "", `{"text": "a", "text": "b"}`}}, 400, "invalid", []string{"repeated"}},
		{"deep params", []part{file, {"params", "", strings.Repeat("[", 500) + strings.Repeat("]", 500)}}, 400, "invalid", []string{"/params"}},
		{"files in params", []part{file, {"params", "", `{"files": []}`}}, 400, "invalid", []string{"/params/files"}},
		{"files as a field", []part{file, {"files", "", sent}}, 400, "invalid", []string{"file name"}},
		{"a field twice", []part{file, {"text", "", "a"}, {"text", "", "b"}}, 400, "invalid", []string{"/text", "more than once"}},
		{"in params too", []part{file, {"text", "", "a"}, {"params", "", `{"text": "b"}`}}, 400, "invalid", []string{"/params/text"}},
		{"binary field", []part{file, {"text", "", "\x00\xff"}}, 400, "invalid", []string{"file name"}},
		{"no name", []part{file, {"", "", "x"}}, 400, "invalid", []string{"part 2"}},
		{"all mistakes at once", []part{file, {"files", "", "x"}, {"text", "", "\x00"}, {"params", "", "1"}}, 400, "invalid", []string{"/files", "/text", "/params"}},
		{"too many files", []part{file, {"a", "b", ""}, {"a", "c", ""}, {"a", "d", ""}}, 413, "too_large", []string{"MaxFiles"}},
		{"too large", []part{{"a", "b", strings.Repeat("x", 600)}, {"a", "c", strings.Repeat("x", 401)}}, 413, "too_large", []string{"MaxUpload"}},
		{"much too large", []part{{"a", "b", strings.Repeat("x", 10_000)}}, 413, "too_large", []string{"MaxUpload"}},
		{"a foreign user", []part{file, {"user_id", "", "ben"}}, 403, "forbidden", []string{"user_id"}},
	} {
		a := w.upload(c.parts)
		a.what += " with " + c.what
		a.problem(c.status, c.code, c.texts...)
		w.nothing(d)
	}
	good, kind := form(file)
	for what, c := range map[string]struct{ kind, body, text string }{
		"no boundary":              {"multipart/form-data", good, "boundary"},
		"another boundary":         {"multipart/form-data; boundary=other", good, "ended too early"},
		"no parts":                 {"multipart/form-data; boundary=x", "garbage", "ended too early"},
		"no end":                   {kind, good[:len(good)-8], "ended too early"},
		"part without disposition": {"multipart/form-data; boundary=x", "--x\r\nA: b\r\n\r\n1\r\n--x--\r\n", "Content-Disposition"},
		"part that is attached":    {"multipart/form-data; boundary=x", "--x\r\nContent-Disposition: attachment; filename=a\r\n\r\n1\r\n--x--\r\n", "form-data"},
		"broken headers":           {"multipart/form-data; boundary=x", "--x\r\n:::\r\n\r\n1\r\n--x--\r\n", "RFC 7578"},
	} {
		a := w.post("v1/jobs/report/executions", c.body, "Content-Type", c.kind)
		a.what += " with " + what
		a.problem(http.StatusBadRequest, "invalid", c.text)
		w.nothing(d)
	}
	// Wherever it is cut off, also where a part has ended.
	two, kind := form(file, part{"b", "b.csv", "2"})
	for n := range len(two) - 3 {
		if n > 0 {
			w.post("v1/jobs/report/executions", two[:n], "Content-Type", kind).problem(http.StatusBadRequest, "invalid")
		}
	}
	w.nothing(d)
	w.post("v1/jobs/report/executions", good, "Content-Type", "multipart/mixed; boundary=x").problem(http.StatusUnsupportedMediaType, "media_type")
	w.as("admin").post("v1/jobs/none/executions", good, "Content-Type", kind).problem(http.StatusNotFound, "not_found")
	w.as("nobody").post("v1/jobs/report/executions", good, "Content-Type", kind).problem(http.StatusNotFound, "not_found")
	w.nothing(d)
}

// What a body has besides its files is bounded: fields, headers of parts, and what stands
// before the first part.
func TestUploadOverhead(t *testing.T) {
	d := new(couriertest.Depot)
	w := withFiles(t, d, &httpapi.Options{MaxBody: 5000})
	much := strings.Repeat("x", 1<<20)
	for what, body := range map[string]string{
		"a field":  "--x\r\nContent-Disposition: form-data; name=text\r\n\r\n" + much + "\r\n--x--\r\n",
		"a header": "--x\r\nContent-Disposition: form-data; name=text\r\nX: " + much + "\r\n\r\n\r\n--x--\r\n",
		"fields":   strings.Repeat("--x\r\nContent-Disposition: form-data; name=text\r\n\r\n\r\n", 20_000) + "--x--\r\n",
		"preamble": strings.Repeat("garbage\r\n", 200_000) + "--x--\r\n",
	} {
		r := httptest.NewRequest("POST", "/v1/jobs/report/executions", iotest.DataErrReader(struct{ io.Reader }{strings.NewReader(body)}))
		r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
		r.Header.Set("X-User", "ann")
		rec := httptest.NewRecorder()
		w.api.ServeHTTP(rec, r)
		answer{w, rec, what}.problem(http.StatusRequestEntityTooLarge, "too_large", "MaxBody")
		w.nothing(d)
	}
}

// Without a depot there are neither uploads nor results, and a job that does not declare
// files takes none.
func TestUploadNotTaken(t *testing.T) {
	w := newWorld(t, memstore.New(), &httpapi.Options{Access: policy()})
	w.as("ann").upload([]part{{"a", "a.csv", "1"}}).problem(http.StatusNotImplemented, "not_supported", "Options.Depot")
	w.get("v1/executions/"+w.start("report", "")+"/results").problem(http.StatusNotImplemented, "not_supported", "Options.Depot")
	d := new(couriertest.Depot)
	w = newWorld(t, memstore.New(), &httpapi.Options{Access: policy(), Depot: d})
	w.as("ann").upload([]part{{"a", "a.csv", "1"}}).problem(http.StatusBadRequest, "invalid", `"files"`)
	w.nothing(d)
}

// A depot without room is 507, and hurts nobody else: nothing is kept, and what fits is.
func TestUploadFull(t *testing.T) {
	dir, err := depot.Dir(t.TempDir(), &depot.DirOptions{Most: 110_000, ForResults: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for name, d := range map[string]depot.Depot{"directory": dir, "memory": &couriertest.Depot{Most: 100_000}} {
		t.Run(name, func(t *testing.T) {
			w := withFiles(t, d, &httpapi.Options{MaxPending: 1 << 20, MaxInputs: -1})
			w.upload([]part{{"a", "a.csv", strings.Repeat("x", 60_000)}, {"a", "b.csv", strings.Repeat("x", 60_000)}}).problem(http.StatusInsufficientStorage, "full", "room")
			w.nothing(d)
			w.uploaded([]part{{"a", "a.csv", strings.Repeat("x", 90_000)}})
			w.holds(d, 1, 1)
		})
	}
}

// Who sends many uploads at once, and lets them drip, takes a share of the depot, and others
// have room.
func TestUploadShares(t *testing.T) {
	dir, err := depot.Dir(t.TempDir(), &depot.DirOptions{Most: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	w := withFiles(t, dir, &httpapi.Options{MaxUploads: 4})
	addr := w.served()
	begin := func(size int) net.Conn {
		return w.dial(addr, "Content-Length: 2000000", beginFile+strings.Repeat("x", size))
	}
	status := func(conn net.Conn) (int, string) {
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	// Half of the 6 MiB for inputs is 3 MiB.
	begin(1 << 20)
	begin(1 << 20)
	time.Sleep(100 * time.Millisecond)
	if code, text := status(begin(1_800_000)); code != http.StatusInsufficientStorage || !strings.Contains(text, "MaxPending") {
		t.Errorf("beyond the share: %d %s", code, text)
	}
	begin(1000)
	begin(1000)
	time.Sleep(100 * time.Millisecond)
	w.upload([]part{{"a", "a.csv", "1"}}).problem(http.StatusServiceUnavailable, "unavailable", "MaxUploads")
	w.as("otto").uploaded([]part{{"a", "a.csv", strings.Repeat("x", 2<<20)}})
}

// The files of executions that wait count for who has sent them, so that others have room.
func TestUploadsThatWait(t *testing.T) {
	dir, err := depot.Dir(t.TempDir(), &depot.DirOptions{Most: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	w := withFiles(t, dir, nil) // without a worker; three quarters of the 6 MiB for inputs are 4.5 MiB
	files := func(size int) []part { return []part{{"a", "a.csv", strings.Repeat("x", size)}} }
	id := w.uploaded(files(2 << 20))
	w.uploaded(files(2 << 20))
	w.upload(files(1<<20)).problem(http.StatusInsufficientStorage, "full", "MaxInputs")
	w.as("otto").uploaded(files(1 << 20))
	if _, err := w.engine.Cancel(t.Context(), courier.ExecutionID(id), &courier.CancelOptions{By: courier.By{Actor: "ann"}}); err != nil {
		t.Fatal(err)
	}
	// Another process counts anew.
	w.api = httpapi.New(w.engine, &httpapi.Options{Access: policy(), Depot: dir})
	w.as("ann").uploaded(files(512 << 10))
}

// Empty files take room too.
func TestEmptyUploadsThatWait(t *testing.T) {
	dir, err := depot.Dir(t.TempDir(), &depot.DirOptions{Most: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	w := withFiles(t, dir, &httpapi.Options{MaxInputs: 100 * 4096})
	var files []part
	for i := range 100 {
		files = append(files, part{"a", fmt.Sprint(i, ".csv"), ""})
	}
	w.uploaded(files)
	w.api = httpapi.New(w.engine, &httpapi.Options{Access: policy(), Depot: dir, MaxInputs: 100 * 4096}) // counts anew
	w.upload(files).problem(http.StatusInsufficientStorage, "full", "MaxInputs")
}

// The same key with the same files is answered as the first request, and leaves no second
// set of files; with others it is refused.
func TestUploadTwice(t *testing.T) {
	d := new(couriertest.Depot)
	w := withFiles(t, d, nil)
	parts := []part{{"a", "a.csv", "1"}, {"a", "b.csv", "2"}, {"text", "", "x"}}
	first := w.upload(parts, "Idempotency-Key", "k").want(http.StatusAccepted, nil)
	again := w.upload(parts, "Idempotency-Key", "k").want(http.StatusAccepted, nil)
	if first.Body.String() != again.Body.String() || first.Header().Get("Location") != again.Header().Get("Location") {
		t.Errorf("%s %s", first.Body, again.Body)
	}
	w.holds(d, 1, 2)
	for what, other := range map[string][]part{
		"other content": {{"a", "a.csv", "1"}, {"a", "b.csv", "3"}, {"text", "", "x"}}, "another name": {{"a", "a.csv", "1"}, {"a", "c.csv", "2"}, {"text", "", "x"}},
		"fewer files": {{"a", "a.csv", "1"}, {"text", "", "x"}}, "another parameter": {{"a", "a.csv", "1"}, {"a", "b.csv", "2"}, {"text", "", "y"}},
	} {
		a := w.upload(other, "Idempotency-Key", "k")
		a.what += " with " + what
		a.problem(http.StatusUnprocessableEntity, "idempotency_key_reused")
		w.holds(d, 1, 2)
	}
	w.as("stan").upload(parts, "Idempotency-Key", "k").want(http.StatusAccepted, nil) // another principal's key
	w.holds(d, 2, 4)
}

// Uploads with one key at the same time make one execution.
func TestUploadsAtOnce(t *testing.T) {
	d := new(couriertest.Depot)
	w := withFiles(t, d, nil)
	body, kind := form(part{"a", "a.csv", "1"}, part{"a", "b.csv", strings.Repeat("x", 100_000)})
	var all sync.WaitGroup
	answers := make([]*httptest.ResponseRecorder, 16)
	for i := range answers {
		answers[i] = httptest.NewRecorder()
		all.Go(func() {
			r := httptest.NewRequest("POST", "/v1/jobs/report/executions", strings.NewReader(body))
			r.Header.Set("Content-Type", kind)
			r.Header.Set("X-User", "ann")
			r.Header.Set("Idempotency-Key", "k")
			w.api.ServeHTTP(answers[i], r)
		})
	}
	all.Wait()
	for _, a := range answers {
		if a.Code != http.StatusAccepted || a.Body.String() != answers[0].Body.String() {
			t.Errorf("%d %s", a.Code, a.Body)
		}
	}
	w.holds(d, 1, 2)
}

// An unreliable is a store that loses answers, or is away.
type unreliable struct {
	*memstore.Store
	lose, away bool
}

func (u *unreliable) Enqueue(ctx context.Context, list []store.NewExecution) ([]store.Enqueued, error) {
	if u.away {
		return nil, errors.New("the store is away")
	}
	got, err := u.Store.Enqueue(ctx, list)
	if u.lose {
		u.lose = false
		return nil, errors.New("the answer is lost")
	}
	return got, err
}

// If nobody knows whether the execution was created, the files stay: it may have been. Those
// without an execution are removed after a day.
func TestUploadOutcomeOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(couriertest.Depot)
		w := withFiles(t, d, nil)
		s := &unreliable{Store: w.store, lose: true}
		var reg courier.Registry
		w.engine = engine.New(s, &reg, &engine.Options{Workspace: t.TempDir()})
		w.api = httpapi.New(w.engine, &httpapi.Options{Access: policy(), Depot: d})
		w.uploaded([]part{{"a", "a.csv", "1"}})
		w.holds(d, 1, 1)
		s.away = true
		w.upload([]part{{"a", "a.csv", "1"}}).problem(http.StatusServiceUnavailable, "unavailable")
		w.holds(d, 1, 2)
		for _, want := range []int{2, 1} {
			if err := depot.CleanOnce(t.Context(), d, w.engine.Executions(), nil); err != nil {
				t.Error(err)
			}
			list, err := d.List(t.Context(), "")
			if n := len(list); err != nil || n < want || want == 2 && n != 2 {
				t.Errorf("%v, %v", list, err)
			}
			time.Sleep(25 * time.Hour)
		}
	})
}

// A served is a server on the network over the API of a world.
func (w *world) served() string {
	w.Helper()
	server := httptest.NewUnstartedServer(w.api)
	server.Config.ReadTimeout, server.Config.WriteTimeout = 300*time.Millisecond, 300*time.Millisecond
	server.Start()
	w.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// dial sends the head of an upload and the beginning of its body over a connection.
func (w *world) dial(addr, length, begin string) net.Conn {
	w.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(conn, "POST /v1/jobs/report/executions HTTP/1.1\r\nHost: localhost\r\nX-User: ann\r\nContent-Type: multipart/form-data; boundary=x\r\n%s\r\n\r\n%s", length, begin)
	return conn
}

const (
	beginFile = "--x\r\nContent-Disposition: form-data; name=a; filename=a.csv\r\n\r\n"
	endForm   = "\r\n--x--\r\n"
)

// An upload that takes longer than the host's server gives a request is taken as long as
// bytes come.
func TestUploadTakesTime(t *testing.T) {
	d := new(couriertest.Depot)
	w := withFiles(t, d, nil)
	conn := w.dial(w.served(), fmt.Sprint("Content-Length: ", 200_000+len(beginFile)+len(endForm)), beginFile)
	for range 20 {
		time.Sleep(50 * time.Millisecond)
		if _, err := io.WriteString(conn, strings.Repeat("x", 10_000)); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = io.WriteString(conn, endForm)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusAccepted {
		t.Fatalf("%+v, %v", resp, err)
	}
	w.holds(d, 1, 1)
}

// A body that stops, comes a byte at a time, lies about its length or has no end makes no
// execution, and leaves no files.
func TestUploadCut(t *testing.T) {
	d := new(couriertest.Depot)
	w := withFiles(t, d, &httpapi.Options{MaxUpload: 10 << 20})
	w.api.SetBodyTimeout(200 * time.Millisecond)
	addr := w.served()
	answered := func(conn net.Conn, status int, text string) {
		t.Helper()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != status || !strings.Contains(string(body), text) {
			t.Errorf("%d %s, %v; want %d %s", resp.StatusCode, body, err, status, text)
		}
		w.nothing(d)
	}
	two := beginFile + "1\r\n--x\r\nContent-Disposition: form-data; name=a; filename=b.csv\r\n\r\n2"
	answered(w.dial(addr, "Content-Length: 1000", two), http.StatusBadRequest, "too early")
	half := w.dial(addr, "Content-Length: 1000", two)
	_ = half.(*net.TCPConn).CloseWrite()
	answered(half, http.StatusBadRequest, "too early")
	answered(w.dial(addr, "Content-Length: 100000000", ""), http.StatusRequestEntityTooLarge, "MaxUpload")
	answered(w.dial(addr, "Content-Length: 70", two+"\r\n--x--\r\n"), http.StatusBadRequest, "too early")

	slow := w.dial(addr, "Content-Length: 100000", two)
	go func() {
		for {
			if _, err := io.WriteString(slow, "x"); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	answered(slow, http.StatusBadRequest, "bytes a second")

	endless := w.dial(addr, "Transfer-Encoding: chunked", "")
	go func() {
		chunk := strings.Repeat("x", 0x10000)
		fmt.Fprintf(endless, "%x\r\n%s\r\n", len(beginFile), beginFile)
		for {
			if _, err := fmt.Fprintf(endless, "10000\r\n%s\r\n", chunk); err != nil {
				return
			}
		}
	}()
	answered(endless, http.StatusRequestEntityTooLarge, "MaxUpload")

	gone := w.dial(addr, "Content-Length: 1000", two)
	gone.Close()
	time.Sleep(100 * time.Millisecond)
	w.nothing(d)
}
