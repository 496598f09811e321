//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// An entry is a line of the program's log.
type entry struct {
	Time       time.Time
	Msg        string
	URL        string
	Pages      string
	Execution  string
	Step       int
	Error      string
	Status     string
	NextStep   int `json:"next_step"`
	HandedOver int `json:"handed_over"`
	Begun      int
	Waiting    int
}

// A program is the service in a process of its own.
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	tmp   string
	url   string
	token string
	log   chan entry // closed at the end of the output
}

// start starts the program and waits until it listens.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	p := &program{t: t, tmp: t.TempDir(), log: make(chan entry, 1000)}
	p.cmd = exec.CommandContext(ctx, self, append([]string{"-addr", "127.0.0.1:0"}, args...)...)
	// The race detector would add a second to the end of the program.
	p.cmd.Env = append(os.Environ(), programEnv+"=1", "TMPDIR="+p.tmp, "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.log)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var e entry
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				e.Msg = lines.Text()
			}
			p.log <- e
		}
	}()
	t.Cleanup(func() {
		cancel()
		for range p.log {
		}
		p.cmd.Wait()
	})
	e := p.await("listening")
	p.url = e.URL
	_, p.token, _ = strings.Cut(e.Pages, "?token=")
	return p
}

// await reads the log up to a message.
func (p *program) await(msg string) entry {
	p.t.Helper()
	for e := range p.log {
		if e.Msg == msg {
			return e
		}
	}
	p.t.Fatalf("the program ended without saying %q", msg)
	return entry{}
}

func (p *program) signal() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
}

// ended requires that the program ends well, and leaves nothing behind.
func (p *program) ended() {
	p.t.Helper()
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("the program's end: %v", err)
	}
	if left, err := os.ReadDir(p.tmp); err != nil || len(left) > 0 {
		p.t.Errorf("the program left %v, %v", left, err)
	}
	if c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://")); err == nil {
		c.Close()
		p.t.Error("somebody still listens")
	}
}

const (
	api  = "/courier/api/v1"
	jobs = api + "/jobs/report/executions"
)

// A load is a number of clients that send requests until nobody answers.
type load struct {
	url     string
	token   string
	stopped atomic.Bool // from here on, requests may find nobody
	clients sync.WaitGroup

	mu         sync.Mutex
	accepted   map[string]bool
	unanswered int
	errs       []error
}

// send is what one client does.
func (l *load) send(client int) {
	c := &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second}
	defer c.CloseIdleConnections()
	for i := range 10_000 {
		r, err := http.NewRequest(http.MethodPost, l.url+jobs, strings.NewReader(`{"params": {"customer": "acme", "seconds": 0.2}}`))
		if err != nil {
			l.wrong(err)
			return
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", fmt.Sprint(client, "-", i))
		var v view
		answered, err := l.do(c, r, http.StatusAccepted, &v)
		if answered && err == nil {
			l.mu.Lock()
			l.accepted[string(v.ID)] = true
			l.mu.Unlock()
		}
		if answered && err == nil && i%8 == 0 {
			if r, err = http.NewRequest(http.MethodGet, l.url+api+"/executions/"+string(v.ID), nil); err == nil {
				answered, err = l.do(c, r, http.StatusOK, &v)
			}
		}
		if err != nil {
			l.wrong(err)
		}
		if !answered || err != nil {
			return
		}
	}
}

// do sends a request. An answer that has begun must be whole.
func (l *load) do(c *http.Client, r *http.Request, status int, v any) (answered bool, err error) {
	r.Header.Set("Authorization", "Bearer "+l.token)
	resp, err := c.Do(r)
	if err != nil {
		if !l.stopped.Load() {
			return false, err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.unanswered++
		return false, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode != status {
		return true, fmt.Errorf("%s %s: %s", r.Method, r.URL, resp.Status)
	}
	if err := json.NewDecoder(resp.Body).Decode(v); err != nil {
		return true, fmt.Errorf("half an answer to %s %s: %w", r.Method, r.URL, err)
	}
	return true, nil
}

func (l *load) wrong(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

// A history is what the log tells of the executions.
type history struct {
	open, ended   map[string]int // steps by execution
	running, done int            // executions
	lastEnd       time.Time
	engineStopped time.Time
	handed        map[string]entry
	stopped       entry
}

func (h *history) read(t *testing.T, e entry) {
	switch id := e.Execution; e.Msg {
	case "step began":
		if h.open[id]++; h.open[id] != 1 || e.Step != h.ended[id] {
			t.Errorf("execution %s began step %d after %d steps had ended", id, e.Step, h.ended[id])
		}
		if e.Step == 0 {
			h.running++
		}
	case "step ended":
		h.open[id]--
		h.ended[id]++
		h.lastEnd = e.Time
		if e.Error != "" {
			t.Errorf("step %d of execution %s was broken off: %s", e.Step, id, e.Error)
		}
		if h.ended[id] == 3 {
			h.running--
			h.done++
		}
	case "handed over":
		h.handed[id] = e
	case "stopped":
		h.stopped = e
	case "engine stopped":
		h.engineStopped = e.Time
	case "stopping", "execution started", "execution completed": // the last two are the engine's
	default:
		t.Errorf("the program says %+v", e)
	}
}

// TestStopUnderLoad sends SIGTERM while 100 executions are running, more are
// waiting and clients enqueue still more.
func TestStopUnderLoad(t *testing.T) {
	p := start(t, "-running", "100")
	l := &load{url: p.url, token: p.token, accepted: make(map[string]bool)}
	for i := range 8 {
		l.clients.Go(func() { l.send(i) })
	}
	h := &history{open: make(map[string]int), ended: make(map[string]int), handed: make(map[string]entry)}
	var at time.Time
	for e := range p.log {
		h.read(t, e)
		if h.running == 100 && h.done >= 100 && at.IsZero() {
			l.stopped.Store(true)
			at = time.Now()
			p.signal()
		}
	}
	p.ended()
	gone := time.Since(at)
	l.clients.Wait()
	if err := errors.Join(l.errs...); err != nil {
		t.Error(err)
	}
	if at.IsZero() {
		t.Fatalf("%d executions were done, and there never were 100 running at once", h.done)
	}
	after := h.engineStopped.Sub(h.lastEnd)
	t.Logf("%d accepted, %d done, %d handed over (%d begun, %d waiting), engine stopped %v after the last step, process gone %v after the signal",
		len(l.accepted), h.done, h.stopped.HandedOver, h.stopped.Begun, h.stopped.Waiting, after, gone)
	if after < 0 || after > time.Second || gone > 10*time.Second {
		t.Errorf("engine stopped %v after the last step, process gone %v after the signal", after, gone)
	}
	h.check(t, l)
}

// check compares what was accepted with what became of it. An execution whose
// last step ended during the stop may be handed over too, to be completed.
func (h *history) check(t *testing.T, l *load) {
	t.Helper()
	for id, n := range h.open {
		e, handed := h.handed[id]
		switch {
		case n != 0:
			t.Errorf("execution %s began step %d, which did not end", id, h.ended[id])
		case !handed && h.ended[id] < 3:
			t.Errorf("execution %s, of which %d steps had ended, was not handed over", id, h.ended[id])
		case handed && (e.NextStep != h.ended[id] || e.Status != "queued"):
			t.Errorf("execution %s was handed over as %s at step %d, when %d steps had ended", id, e.Status, e.NextStep, h.ended[id])
		}
	}
	waiting := 0
	for id := range l.accepted {
		_, begun := h.open[id]
		if _, handed := h.handed[id]; !begun && !handed {
			waiting++
		}
	}
	s := h.stopped
	if s.HandedOver != s.Begun+s.Waiting || s.Begun != len(h.handed) || s.Begun == 0 || s.Waiting == 0 {
		t.Errorf("handed over: %+v, %d of them begun", s, len(h.handed))
	}
	// What was created last may not have reached its client any more.
	if s.Waiting < waiting || s.Waiting > waiting+l.unanswered {
		t.Errorf("%d are said to be waiting, of %d that clients know and %d that got no answer", s.Waiting, waiting, l.unanswered)
	}
}

// enqueue creates an execution of the job.
func (p *program) enqueue(params string) {
	p.t.Helper()
	r, err := http.NewRequest(http.MethodPost, p.url+"/reports/acme", strings.NewReader(params))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+p.token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		p.t.Fatalf("enqueue: %s", resp.Status)
	}
}

// TestStopAnswers shows that a request that has begun before the stop is
// answered, and that what it creates is handed over.
func TestStopAnswers(t *testing.T) {
	p := start(t)
	addr := strings.TrimPrefix(p.url, "http://")
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n", "/reports/acme", addr, p.token)
	answers := bufio.NewReader(c)
	answer := func(status int) {
		t.Helper()
		resp, err := http.ReadResponse(answers, nil)
		if err != nil || resp.StatusCode != status {
			t.Fatalf("answer: %+v, %v; want %d", resp, err, status)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Errorf("half an answer: %v", err)
		}
	}
	answer(http.StatusContinue) // its handler is waiting for the body
	p.signal()
	p.await("engine stopped")
	fmt.Fprint(c, "{}")
	answer(http.StatusAccepted)
	if e := p.await("stopped"); e.HandedOver != 1 || e.Waiting != 1 {
		t.Errorf("%+v", e)
	}
	p.ended()
}

// TestStopLosesPatience shows that a step that takes too long is broken off and
// will be repeated.
func TestStopLosesPatience(t *testing.T) {
	p := start(t, "-patience", "100ms")
	p.enqueue(`{"seconds": 3600}`)
	p.await("step began")
	p.signal()
	if e := p.await("step ended"); e.Error != "courier: engine stopped" {
		t.Errorf("the step ended with %q", e.Error)
	}
	if e := p.await("handed over"); e.NextStep != 0 || e.Status != "queued" {
		t.Errorf("%+v", e)
	}
	p.await("stopped")
	for e := range p.log {
		t.Errorf("after the end, the program says %+v", e)
	}
	p.ended()
}

// TestDrain shows that a stopping service says so while it still accepts, and
// that a second signal ends it at once.
func TestDrain(t *testing.T) {
	p := start(t, "-drain", "1h")
	p.signal()
	p.await("stopping")
	resp, err := http.Get(p.url + api + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a stopping service is %s", resp.Status)
	}
	p.enqueue(`{"seconds": 3600}`)
	p.await("step began")
	p.signal()
	for range p.log {
	}
	err = p.cmd.Wait()
	if s, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGTERM {
		t.Errorf("after a second signal: %v", err)
	}
}
