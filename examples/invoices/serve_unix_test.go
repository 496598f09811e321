//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// programEnv makes the test binary the program itself.
const programEnv = "COURIER_TEST_INVOICES"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A program is the example in a process of its own.
type program struct {
	t         *testing.T
	cmd       *exec.Cmd
	tmp, addr string
	token     string
	rest      chan string // what it prints later
}

var served = regexp.MustCompile(`^The dashboard is at http://([0-9.:]+)/\?token=(\w+) `)

// start starts the program with -serve and waits until it serves.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	p := &program{t: t, tmp: t.TempDir(), rest: make(chan string, 1)}
	p.cmd = exec.CommandContext(ctx, self, append([]string{"-serve"}, args...)...)
	p.cmd.Env = append(os.Environ(), programEnv+"=1", "TMPDIR="+p.tmp, "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = os.Stderr
	stdout, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		p.cmd.Wait()
	})
	var out strings.Builder
	for lines := bufio.NewReader(stdout); ; {
		line, err := lines.ReadString('\n')
		out.WriteString(line)
		if m := served.FindStringSubmatch(line); m != nil {
			p.addr, p.token = m[1], m[2]
			go func() {
				rest, _ := io.ReadAll(lines)
				p.rest <- string(rest)
			}()
			return p
		}
		if err != nil {
			t.Fatalf("the program ended without serving: %v\n%s", err, &out)
		}
	}
}

// ask sends a request and returns the answer, which must have the status.
func (p *program) ask(method, path, accept string, status int) *http.Response {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, "http://"+p.addr+path, strings.NewReader("{}"))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", accept)
	r.Header.Set("Authorization", "Bearer "+p.token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	if resp.StatusCode != status {
		p.t.Fatalf("%s %s: %s; want %d", method, path, resp.Status, status)
	}
	return resp
}

// page returns a page of the dashboard.
func (p *program) page(path string) string {
	p.t.Helper()
	resp := p.ask(http.MethodGet, path, "text/html", http.StatusOK)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b)
}

// await waits until an execution has the state.
func (p *program) await(id, state string) {
	p.t.Helper()
	var x struct{ State string }
	for range 3000 {
		if err := json.Unmarshal([]byte(p.page("/api/v1/executions/"+id)), &x); err != nil {
			p.t.Fatal(err)
		}
		if x.State == state {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	p.t.Fatalf("execution %s is %s; want %s", id, x.State, state)
}

func (p *program) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// ended requires that the program ends without an error, and leaves nothing behind.
func (p *program) ended() {
	p.t.Helper()
	rest := <-p.rest
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("the program's end: %v\n%s", err, rest)
	}
	if left, err := os.ReadDir(p.tmp); err != nil || len(left) > 0 {
		p.t.Errorf("the program left %v, %v", left, err)
	}
	if c, err := net.Dial("tcp", p.addr); err == nil {
		c.Close()
		p.t.Error("somebody still listens")
	}
}

// TestServe resumes an execution that has failed, starts it again, and interrupts the program
// while a browser follows its page.
func TestServe(t *testing.T) {
	p := start(t, "-fail-at", "sftp.download[2]")
	m := regexp.MustCompile(`href="\./executions/([0-9a-f-]{36})"`).FindStringSubmatch(p.page("/"))
	if m == nil {
		t.Fatalf("the first page has no link to the execution that has failed:\n%s", p.page("/"))
	}
	requireText(t, p.page("/executions/"+m[1]), "daily-partner-invoices", "this failure was asked for with -fail-at", `value="resume"`)
	requireText(t, p.page("/connections"), "127.0.0.1:")
	p.ask(http.MethodPost, "/api/v1/executions/"+m[1]+"/resume", "", http.StatusAccepted).Body.Close()
	p.await(m[1], "completed")
	again := p.ask(http.MethodPost, "/api/v1/executions/"+m[1]+"/rerun", "", http.StatusAccepted)
	var x struct{ ID string }
	err := json.NewDecoder(again.Body).Decode(&x)
	again.Body.Close()
	if err != nil || x.ID == "" || x.ID == m[1] {
		t.Fatalf("started again: %+v, %v", x, err)
	}
	p.await(x.ID, "completed")
	stream := p.ask(http.MethodGet, "/api/v1/events", "text/event-stream", http.StatusOK)
	defer stream.Body.Close()
	p.signal(os.Interrupt)
	p.ended()
	http.DefaultClient.CloseIdleConnections()
}

// TestServeCompleted shows an execution that has completed, until the program is asked to
// terminate.
func TestServeCompleted(t *testing.T) {
	p := start(t, "-addr", "127.0.0.1:0")
	requireText(t, p.page("/executions"), "daily-partner-invoices", "completed")
	p.signal(syscall.SIGTERM)
	p.ended()
}
