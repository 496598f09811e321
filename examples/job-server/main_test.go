package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/internal/test/process"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

func TestMain(m *testing.M) {
	definitions = append(definitions, testDefinitions()...)
	engine.RunIsolated(stepTypes)
	process.Run(func(string) error { main(); return nil })
	flag.Set("test.parallel", "8") // they wait for processes most of the time
	pgtest.Main(m)
}

// workParams are the parameters of the definitions of these tests.
type workParams struct {
	Seconds float64 `json:"seconds"`
	Fails   int     `json:"fails"`   // how many attempts fail
	Grab    int     `json:"grab"`    // MiB of memory
	Deaf    bool    `json:"deaf"`    // to the signal to stop
	Signals bool    `json:"signals"` // it listens for them itself
	Report  bool    `json:"report"`  // the environment
	Emit    int     `json:"emit"`    // how many events
}

func testDefinitions() []Definition {
	params := map[string]any{
		"seconds": courier.Param{Type: "number", Default: 0, Min: 0}, "fails": courier.Param{Type: "integer", Default: 0}, "grab": courier.Param{Type: "integer", Default: 0},
		"deaf": courier.Param{Type: "boolean", Default: false}, "signals": courier.Param{Type: "boolean", Default: false}, "report": courier.Param{Type: "boolean", Default: false}, "emit": courier.Param{Type: "integer", Default: 0},
	}
	hook := func(name string) Hook {
		return func(_ context.Context, n notify.Notification) error {
			hooked.Lock()
			defer hooked.Unlock()
			if hooked.calls != nil {
				call := name
				if n.Error != "" {
					call += ": " + n.Error
				}
				hooked.calls[string(n.Execution)] = append(hooked.calls[string(n.Execution)], call)
			}
			return nil
		}
	}
	return []Definition{
		{Key: "test.work", Version: 1, Params: params, Run: runs(work)},
		{Key: "test.work", Version: 2, Params: params, Run: runs(work)},
		{Key: "test.limited", Version: 1, Params: params, ConcurrencyLimit: 2, DefaultMaxAttempts: 1, Timeout: time.Minute, Run: runs(work)},
		{
			Key: "test.hooked", Version: 1, Params: params, DefaultMaxAttempts: 1, Run: runs(work),
			OnStart: hook("onStart"), OnSuccess: hook("onSuccess"), OnFail: hook("onFail"), OnEnd: hook("onEnd"),
		},
	}
}

// hooked has the hooks that were called, by job.
var hooked struct {
	sync.Mutex
	calls map[string][]string
}

func work(ctx context.Context, job *courier.Context, p workParams) error {
	job.Log().Info("working", "attempt", job.ExecutionAttempt())
	for n := range p.Emit {
		if err := job.Emit("progress", map[string]int{"n": n + 1}); err != nil {
			return err
		}
	}
	if p.Report {
		if err := job.Emit("process", map[string]any{"pid": os.Getpid(), "environment": os.Environ()}); err != nil {
			return err
		}
	}
	var all [][]byte
	for range p.Grab {
		all = append(all, bytes.Repeat([]byte{1}, 1<<20))
	}
	if len(all) < p.Grab || p.Fails >= job.ExecutionAttempt() {
		return fmt.Errorf("attempt %d is to fail", job.ExecutionAttempt())
	}
	ended := ctx.Done()
	if p.Deaf || p.Signals {
		ended = nil
	}
	var signals chan os.Signal
	if p.Signals {
		signals = make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		job.Log().Info("listening")
	}
	select {
	case <-time.After(time.Duration(p.Seconds * float64(time.Second))):
		return nil
	case s := <-signals:
		job.Log().Info("told by a signal", "signal", s.String())
		return errors.New("it was told to stop")
	case <-ended:
		return context.Cause(ctx)
	}
}

// A client sends requests to a server.
type client struct {
	*testing.T
	do func(*http.Request) (*http.Response, error)
	at string
}

// An object is a JSON object.
type object = map[string]any

// send sends a request, and returns the answer, which must have the status.
func (c *client) send(method, path, body string, status int) (object, http.Header) {
	c.Helper()
	r, err := http.NewRequest(method, c.at+path, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.do(r)
	if err != nil {
		c.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.Fatal(err)
	}
	if resp.StatusCode != status {
		c.Fatalf("%s %s %s: %d %s; want %d", method, path, body, resp.StatusCode, text, status)
	}
	v := make(object)
	if err := json.Unmarshal(text, &v); err != nil {
		c.Fatalf("%s %s: %v: %s", method, path, err, text)
	}
	return v, resp.Header
}

// problem sends a request that is refused with a problem document.
func (c *client) problem(method, path, body string, status int, code string, texts ...string) {
	c.Helper()
	p, head := c.send(method, path, body, status)
	if p["code"] != code || head.Get("Content-Type") != "application/problem+json" {
		c.Errorf("%s %s %s: %v", method, path, body, p)
	}
	for _, text := range texts {
		if !strings.Contains(fmt.Sprint(p["detail"]), text) {
			c.Errorf("%s %s %s: %v lacks %q", method, path, body, p["detail"], text)
		}
	}
}

// start starts a job of a definition, such as test.work, with parameters and other fields.
func (c *client) start(key, params string, more ...string) string {
	c.Helper()
	if params == "" {
		params = "{}"
	}
	fields := append([]string{fmt.Sprintf(`"definitionKey": %q, "params": %s`, key, params)}, more...)
	got, _ := c.send("POST", "/v1/jobs", "{"+strings.Join(fields, ", ")+"}", http.StatusAccepted)
	if len(got) != 2 || len(got["jobId"].(string)) != 36 {
		c.Errorf("%v", got)
	}
	return got["jobId"].(string)
}

func (c *client) get(id string) object {
	c.Helper()
	got, _ := c.send("GET", "/v1/jobs/"+id, "", http.StatusOK)
	return got
}

// is requires the status of a job.
func (c *client) is(id, status string) object {
	c.Helper()
	j := c.get(id)
	if j["status"] != status {
		c.Errorf("%s is %v, want %s", id, j, status)
	}
	return j
}

// await waits until a job has a status.
func (c *client) await(id, status string) object {
	c.Helper()
	var j object
	process.Until(c.T, func() (any, bool) {
		j = c.get(id)
		if s := j["status"]; s != status && (s == "succeeded" || s == "failed" || s == "cancelled") {
			c.Fatalf("%v; want %s", j, status)
		}
		return j, j["status"] == status
	})
	return j
}

// cancel cancels a job, and returns the status that the answer has.
func (c *client) cancel(id string) string {
	c.Helper()
	got, _ := c.send("POST", "/v1/jobs/"+id+"/cancel", "", http.StatusAccepted)
	return got["status"].(string)
}

// instant reads a field that is an instant.
func (c *client) instant(j object, field string) time.Time {
	c.Helper()
	text, _ := j[field].(string)
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		c.Errorf("%s: %v in %v", field, err, j)
	}
	return at
}

// An event is one of a stream.
type event struct {
	id, kind string
	data     object
}

// stream reads the events of a job until the stream ends, from behind an id on.
func (c *client) stream(id, after string) (list []event) {
	c.Helper()
	r, err := http.NewRequest("GET", c.at+"/v1/jobs/"+id+"/events", nil)
	if err != nil {
		c.Fatal(err)
	}
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	resp, err := c.do(r)
	if err != nil {
		c.Fatal(err)
	}
	defer resp.Body.Close()
	if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" {
		c.Fatalf("the stream is %s", kind)
	}
	var e event
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			e.id = value
		case "event":
			e.kind = value
		case "data":
			if err := json.Unmarshal([]byte(value), &e.data); err != nil || e.data["type"] != e.kind || e.data["jobId"] != id {
				c.Errorf("%v in %s", err, value)
			}
			list, e = append(list, e), event{}
		}
	}
	return list
}

func kinds(list []event) (all []string) {
	for _, e := range list {
		if e.kind != "heartbeat" {
			all = append(all, e.kind)
		}
	}
	return all
}

// A world is servers on one memory store in virtual time, and a client of the first. Jobs run in
// the servers.
type world struct {
	client
	on      *memstore.Store
	servers []*server
}

// virtual runs f in virtual time with a server that is not started.
func virtual(t *testing.T, f func(w *world), args ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{on: memstore.New()}
		w.T = t
		w.add(args...)
		w.do = w.direct
		w.at = "http://localhost"
		defer func() {
			for _, s := range w.servers {
				s.close()
				s.api.Close()
				if err := s.engine.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}()
		f(w)
	})
}

// direct answers a request by the first server without a network.
func (w *world) direct(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	in := httptest.NewRequestWithContext(w.Context(), r.Method, r.URL.String(), r.Body)
	in.Header = r.Header
	w.servers[0].api.Routes(w.servers[0].routes).ServeHTTP(rec, in)
	return rec.Result(), nil
}

// add adds a server on the store.
func (w *world) add(args ...string) *server {
	w.Helper()
	set, err := parse(append([]string{"-in-process", "-workspace", w.TempDir()}, args...))
	if err != nil {
		w.Fatal(err)
	}
	s, err := newServer(w.Context(), set, w.on, slog.New(slog.DiscardHandler))
	if err != nil {
		w.Fatal(err)
	}
	w.servers = append(w.servers, s)
	return s
}

// begin starts the servers.
func (w *world) begin() {
	w.Helper()
	for _, s := range w.servers {
		if err := s.engine.Start(w.Context()); err != nil {
			w.Fatal(err)
		}
	}
}

// count returns how many jobs have a status.
func (w *world) count(status string) int {
	w.Helper()
	got, _ := w.send("GET", "/v1/jobs?limit=1000&status="+status, "", http.StatusOK)
	return len(got["items"].([]any))
}

// A program is a server in a process of its own.
type program struct {
	client
	*process.Process
}

// launch starts the program on a free port. It has printed its commands then.
func launch(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{Process: process.Start(t, process.Options{
		Args: append([]string{"-addr", "127.0.0.1:0", "-workspace", t.TempDir()}, args...),
		Env:  []string{"CANCEL_GRACE_MS=300", "WEBHOOK_SECRET=" + hookSecret}, Last: "/metrics",
	})}
	p.client = client{T: t, do: http.DefaultClient.Do, at: p.URL}
	return p
}

// hookSecret signs the webhooks.
const hookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// onBoth runs f with a program on each store.
func onBoth(t *testing.T, f func(t *testing.T, p *program), args ...string) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		f(t, launch(t, args...))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		f(t, launch(t, append(args, "-database", pgtest.URL(t))...))
	})
}

// list returns all executions of the store.
func (w *world) list() []courier.Execution {
	w.Helper()
	list, err := w.servers[0].engine.Executions().List(w.Context(), store.Filter{Limit: 1000})
	if err != nil {
		w.Fatal(err)
	}
	slices.Reverse(list)
	return list
}
