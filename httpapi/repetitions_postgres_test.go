package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// childEnv makes the test binary a process that serves the API.
const childEnv = "COURIER_TEST_HTTPAPI"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		if err := child(); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	pgtest.Main(m)
}

// An order is what a child is told through its standard input.
type order struct {
	URL string
	Dir string // of the engine; the test removes it, since a child that is killed can't
	Die bool   // when it has created an execution, before it answers
}

// child serves the API of an engine that does no work, until the standard input ends.
func child() error {
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadBytes('\n')
	var o order
	if err == nil {
		err = json.Unmarshal(line, &o)
	}
	if err != nil {
		return err
	}
	e, done, err := open(context.Background(), o)
	if err != nil {
		return err
	}
	defer done()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	api := httpapi.New(e, &httpapi.Options{Access: clientOf("job"), URL: "/"})
	mux := http.NewServeMux()
	mux.Handle("/", api)
	mux.Handle("POST /jobs", api.Async("job", &httpapi.AsyncOptions{RequireKey: true}))
	fmt.Println("http://" + l.Addr().String())
	go func() { _ = http.Serve(l, mux) }()
	_, err = io.Copy(io.Discard, in)
	return err
}

// A mortal store ends its process when it has created executions.
type mortal struct{ *pgstore.Store }

func (m mortal) Enqueue(ctx context.Context, list []store.NewExecution) ([]store.Enqueued, error) {
	got, err := m.Store.Enqueue(ctx, list)
	if err != nil {
		return got, err
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		return nil, err
	}
	select {}
}

// open returns an engine on a database, which is not started, and what closes the store.
func open(ctx context.Context, o order) (*engine.Engine, func(), error) {
	pool, err := pgxpool.New(ctx, o.URL)
	if err != nil {
		return nil, nil, err
	}
	if _, err := pgstore.Migrate(ctx, pool, nil); err != nil {
		return nil, nil, err
	}
	pg, err := pgstore.New(ctx, pool, nil)
	if err != nil {
		return nil, nil, err
	}
	var s store.Store = pg
	if o.Die {
		s = mortal{pg}
	}
	var reg courier.Registry
	courier.RegisterFunc(&reg, "test.work", work, nil)
	e := engine.New(s, &reg, &engine.Options{Workspace: o.Dir})
	return e, func() { pg.Close(); pool.Close() }, nil
}

// A process serves the API.
type process struct {
	t   *testing.T
	url string
	cmd *exec.Cmd
	in  io.Closer
}

// serve starts a process on a database.
func serve(t *testing.T, o order) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o.Dir = t.TempDir()
	p := &process{t: t, cmd: exec.CommandContext(t.Context(), self)}
	p.cmd.Env = append(os.Environ(), childEnv+"=1", "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.in = in
	t.Cleanup(p.end)
	if err := json.NewEncoder(in).Encode(o); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	p.url = strings.TrimSpace(line)
	return p
}

// end lets the process end, and waits for it; one that was killed is gone.
func (p *process) end() {
	_ = p.in.Close()
	_ = p.cmd.Wait()
}

// send sends a request of ann, and returns the status and the body of the answer.
func (p *process) send(method, path, key, body string) (status int, got map[string]any, err error) {
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header = http.Header{"X-User": {"ann"}, "Content-Type": {"application/json"}}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	return resp.StatusCode, got, json.NewDecoder(resp.Body).Decode(&got)
}

// id sends a request that must be accepted, and returns the id of the execution.
func (p *process) id(method, path, key, body string, status int) string {
	p.t.Helper()
	code, got, err := p.send(method, path, key, body)
	if err != nil || code != status {
		p.t.Fatalf("%s %s: %d %v, %v; want %d", method, path, code, got, err, status)
	}
	id, _ := got["id"].(string)
	return id
}

// database returns the address of a database with the job "job", and an engine on it.
func database(t *testing.T) (string, *engine.Engine) {
	t.Helper()
	url := pgtest.URL(t)
	e, done, err := open(t.Context(), order{URL: url, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(done)
	(&world{T: t, engine: e}).define(courier.Job{})
	return url, e
}

// A process that dies when it has created an execution and has not answered leaves it there:
// the repeated request finds it in another process, whatever the way in.
func TestKilledBeforeTheAnswerOnPostgres(t *testing.T) {
	url, e := database(t)
	for path, body := range map[string]string{"/v1/jobs/job/executions": `{"params": {"text": "a"}}`, "/jobs": `{"text": "a"}`} {
		dying := serve(t, order{URL: url, Die: true})
		if status, got, err := dying.send("POST", path, "key "+path, body); err == nil {
			t.Fatalf("a process that was to die has answered with %d %v", status, got)
		}
		if err := dying.cmd.Wait(); err == nil || dying.cmd.ProcessState.Success() {
			t.Errorf("the process has ended with %v", err)
		}
		list, err := e.Executions().List(t.Context(), store.Filter{Limit: 1})
		if err != nil || len(list) != 1 || list[0].State != courier.Queued {
			t.Fatalf("%+v, %v", list, err)
		}
		other := serve(t, order{URL: url})
		for range 2 {
			if id := other.id("POST", path, "key "+path, body, http.StatusAccepted); id != string(list[0].ID) {
				t.Errorf("%s, not %s", id, list[0].ID)
			}
		}
		other.id("GET", "/v1/executions/"+string(list[0].ID), "", "", http.StatusOK)
	}
	if list, err := e.Executions().List(t.Context(), store.Filter{}); err != nil || len(list) != 2 {
		t.Errorf("%d executions, %v", len(list), err)
	}
}

// Two processes on one database are one API: what one has created the other shows, also when
// the first is gone; the same key at the same time in both creates one execution. Neither
// executes anything; a worker does.
func TestProcessesAreOneAPIOnPostgres(t *testing.T) {
	url, e := database(t)
	both := []*process{serve(t, order{URL: url}), serve(t, order{URL: url})}
	ids := make(chan string, 32)
	var all sync.WaitGroup
	for i := range cap(ids) {
		all.Go(func() {
			status, got, err := both[i%2].send("POST", "/jobs", "the same", `{"a": 1}`)
			if err != nil || status != http.StatusAccepted {
				t.Errorf("%d %v, %v", status, got, err)
			}
			ids <- fmt.Sprint(got["id"])
		})
	}
	all.Wait()
	close(ids)
	id := <-ids
	for other := range ids {
		if other != id {
			t.Errorf("one key, two executions: %s and %s", id, other)
		}
	}
	_, first, err := both[0].send("GET", "/v1/executions/"+id, "", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := both[0].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, second, err := both[1].send("GET", "/v1/executions/"+id, "", "")
	if err != nil || toJSON(t, first) != toJSON(t, second) || second["status"] != "queued" {
		t.Errorf("%v and then %v, %v", first, second, err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer e.Stop(context.WithoutCancel(t.Context()))
	if _, err := e.Wait(t.Context(), courier.ExecutionID(id)); err != nil {
		t.Fatal(err)
	}
	if _, got, err := both[1].send("GET", "/v1/executions/"+id, "", ""); err != nil || got["status"] != "completed" {
		t.Errorf("%v, %v", got, err)
	}
}
