package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/internal/test/process"
)

func TestMain(m *testing.M) {
	engine.RunIsolated(clientTypes)
	process.Run(func(string) error { main(); return nil })
	flag.Set("test.parallel", "8") // they wait for processes most of the time
	pgtest.Main(m)
}

// A user sends requests to a server.
type user struct {
	*testing.T
	name string
	do   func(*http.Request) (*http.Response, error)
	at   string
}

type object = map[string]any

// form makes a body of files and fields: those with a dot in their names are files.
func form(parts ...string) (string, string) {
	var body bytes.Buffer
	f := multipart.NewWriter(&body)
	for i := 0; i < len(parts); i += 2 {
		var w io.Writer
		if strings.Contains(parts[i], ".") {
			w, _ = f.CreateFormFile("file", parts[i])
		} else {
			w, _ = f.CreateFormField(parts[i])
		}
		io.WriteString(w, parts[i+1])
	}
	f.Close()
	return body.String(), f.FormDataContentType()
}

// send sends a request, and returns the answer.
func (u *user) send(method, path, body string, head ...string) (*http.Response, []byte) {
	u.Helper()
	r, err := http.NewRequest(method, u.at+path, strings.NewReader(body))
	if err != nil {
		u.Fatal(err)
	}
	for i := 0; i < len(head); i += 2 {
		r.Header.Set(head[i], head[i+1])
	}
	resp, err := u.do(r)
	if err != nil {
		u.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		u.Fatal(err)
	}
	return resp, text
}

// upload uploads a script with files, and returns the id of the job.
func (u *user) upload(script string, files ...string) string {
	u.Helper()
	body, kind := form(append([]string{"run.sh", script, "user_id", u.name, "service", "demo"}, files...)...)
	resp, text := u.send("POST", "/upload", body, "Content-Type", kind)
	var got object
	if err := json.Unmarshal(text, &got); err != nil || resp.StatusCode != http.StatusAccepted || len(got) != 2 {
		u.Fatalf("%d %s", resp.StatusCode, text)
	}
	id := got["id"].(string)
	if got["status"] != "Queued" || resp.Header.Get("Location") != "/download/"+id {
		u.Errorf("%v %v", got, resp.Header)
	}
	return id
}

// problem requires a problem document.
func (u *user) problem(status int, code, text string, method, path, body string, head ...string) {
	u.Helper()
	resp, got := u.send(method, path, body, head...)
	var p struct{ Code, Detail string }
	if err := json.Unmarshal(got, &p); err != nil || resp.StatusCode != status || p.Code != code || !strings.Contains(p.Detail, text) {
		u.Errorf("%s %s: %d %s; want %d %s with %q", method, path, resp.StatusCode, got, status, code, text)
	}
}

// look returns the state of a job; of a completed one the files in the ZIP instead.
func (u *user) look(id string) (object, map[string]string) {
	u.Helper()
	resp, text := u.send("GET", "/download/"+id, "")
	if resp.StatusCode != http.StatusOK {
		u.Fatalf("%d %s", resp.StatusCode, text)
	}
	if resp.Header.Get("Content-Type") == "application/zip" {
		return object{"status": "Completed"}, u.unzip(text)
	}
	var got object
	if err := json.Unmarshal(text, &got); err != nil || got["id"] != id || got["status"] == "Completed" {
		u.Fatalf("%v: %s", err, text)
	}
	return got, nil
}

func (u *user) unzip(text []byte) map[string]string {
	u.Helper()
	z, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		u.Fatal(err)
	}
	files := make(map[string]string)
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			u.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			u.Fatal(err)
		}
		files[f.Name] = string(content)
	}
	return files
}

// await waits until a job has a state, and returns the states that were seen before, its last
// answer, and the files of a completed one.
func (u *user) await(id, want string) (seen []string, got object, files map[string]string) {
	u.Helper()
	process.Until(u.T, func() (any, bool) {
		got, files = u.look(id)
		s := got["status"].(string)
		if len(seen) == 0 || seen[len(seen)-1] != s {
			seen = append(seen, s)
		}
		if s != want && (s == "Completed" || s == "Failed" || s == "Cleaned") {
			u.Fatalf("%v: %v; want %s", seen, got, want)
		}
		return seen, s == want
	})
	return seen, got, files
}

// A program is a server or a client in a process of its own.
type program struct {
	user
	*process.Process
}

const token = "a token of these tests"

// launch starts a server, a client, or both, on a free port. At the end of the test it is stopped.
func launch(t *testing.T, role string, args ...string) *program {
	t.Helper()
	if !slices.Contains(args, "-addr") {
		args = append(args, "-addr", "127.0.0.1:0")
	}
	last := "/download/ID"
	if role == "client" {
		last = "job-orchestrator client: "
	}
	if role != "" {
		args = append([]string{role}, args...)
	}
	p := &program{Process: process.Start(t, process.Options{Args: args, Env: []string{"ORCHESTRATOR_TOKEN=" + token}, Last: last})}
	p.user = user{T: t, name: "ann", do: http.DefaultClient.Do, at: p.URL}
	t.Cleanup(p.End)
	return p
}

// onBoth runs f with a server and a client, each on a store of its own kind.
func onBoth(t *testing.T, f func(t *testing.T, s *program), quota int) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		c := launch(t, "client")
		f(t, launch(t, "server", "-service", fmt.Sprintf("demo=%d@%s", quota, c.at)))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		c := launch(t, "client", "-database", pgtest.URL(t), "-dir", t.TempDir())
		f(t, launch(t, "server", "-database", pgtest.URL(t), "-dir", t.TempDir(), "-service", fmt.Sprintf("demo=%d@%s", quota, c.at)))
	})
}

// freeAddr returns an address that nobody listens at.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// direct is a user of a part of this process, without a network.
func direct(t *testing.T, p *part) *user {
	return &user{T: t, name: "ann", at: "http://localhost", do: func(r *http.Request) (*http.Response, error) {
		rec := httptest.NewRecorder()
		in := httptest.NewRequestWithContext(t.Context(), r.Method, r.URL.String(), r.Body)
		in.Header = r.Header
		p.handler().ServeHTTP(rec, in)
		return rec.Result(), nil
	}}
}

// zipped returns a ZIP of files.
func zipped(t *testing.T, files ...string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		w, err := z.Create(files[i])
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, files[i+1])
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
