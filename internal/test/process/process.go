// Package process runs an example as a program of its own, for the tests of the example: the
// program is the test binary, which its TestMain turns into the example by [Run].
package process

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/test/lockedbuffer"
)

// Variable is the variable of the environment that says what a process of the test binary is.
const Variable = "COURIER_TEST_PROCESS"

// program is what a process is by default.
const program = "program"

// Run calls main and ends the process, if [Start] has started it, and returns at once in the
// test itself. As is that of the Options. Call it in TestMain before anything else.
func Run(main func(as string) error) {
	as := os.Getenv(Variable)
	if as == "" {
		return
	}
	if err := main(as); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Options are how a program is started.
type Options struct {
	Args []string
	Env  []string // besides that of the test; TMPDIR is a directory of the program alone
	As   string   // what Run passes on; empty means "program"
	// Last is a part of the last line that the program prints when it has begun.
	Last string
}

// A Process is a program that runs, or has run. At the end of the test it is killed, and its
// log shown if the test has failed.
type Process struct {
	URL     string   // at which it listens: the first that it has printed
	Printed []string // what it has printed when it had begun, by lines
	Log     lockedbuffer.Buffer
	t       *testing.T
	cmd     *exec.Cmd
	tmp     string
}

// url is the beginning of what a program serves.
var url = regexp.MustCompile(`http://[0-9.:]+`)

// Start starts a program, and waits until it has begun.
func Start(t *testing.T, o Options) *Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{t: t, cmd: exec.Command(self, o.Args...), tmp: t.TempDir()}
	as := o.As
	if as == "" {
		as = program
	}
	// The race detector would add a second to the end of the program.
	p.cmd.Env = append(append(os.Environ(), "TMPDIR="+p.tmp, "GORACE=atexit_sleep_ms=0", Variable+"="+as), o.Env...)
	p.cmd.Stderr = &p.Log
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("the log of %v:\n%s", o.Args, p.Log.String())
		}
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if p.Printed = append(p.Printed, lines.Text()); p.URL == "" {
			p.URL = url.FindString(lines.Text())
		}
		if strings.Contains(lines.Text(), o.Last) {
			go io.Copy(io.Discard, out)
			return p
		}
	}
	p.Kill()
	t.Fatalf("the program did not begin; it printed %q and wrote %s", p.Printed, p.Log.String())
	return nil
}

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Commands are the curl commands that it has printed.
func (p *Process) Commands() (commands []string) {
	for _, line := range p.Printed {
		if strings.HasPrefix(line, "curl ") {
			commands = append(commands, line)
		}
	}
	return commands
}

// Curl executes a command with curl that it has printed, and returns the status and the body of
// the answer.
func (p *Process) Curl(command string) (status int, body string) {
	p.t.Helper()
	out := p.Shell("", command+` -sS -w '\n%{http_code}'`)
	if strings.HasPrefix(out, "HTTP/") { // by -i
		_, out, _ = strings.Cut(out, "\r\n\r\n")
	}
	at := strings.LastIndexByte(out, '\n')
	if _, err := fmt.Sscan(out[at+1:], &status); err != nil {
		p.t.Fatalf("%s: %v: %s", command, err, out)
	}
	return status, out[:at]
}

// Shell executes a command that it has printed, in a directory, and returns its output.
func (p *Process) Shell(dir, command string) string {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), "sh", "-c", command)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		p.t.Fatalf("%s: %v: %s", command, err, out)
	}
	return string(out)
}

// Send sends a request by a connection of its own, with headers as names and values, and
// returns the answer. An error says that there is none.
func (p *Process) Send(method, path, body string, headers ...string) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, p.URL+path, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp, raw, err
}

// Signal sends a signal to the process.
func (p *Process) Signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// Kill ends the process without a warning, unless it has ended.
func (p *Process) Kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

// Died waits for the end of the process, which must not be a good one.
func (p *Process) Died() {
	p.t.Helper()
	if err := p.cmd.Wait(); err == nil {
		p.t.Error("the program has not died")
	}
}

// Stop ends the process as an operator does, and requires that it ends well and leaves nothing.
func (p *Process) Stop() {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("the program's end: %v\n%s", err, p.Log.String())
	}
	if left, err := os.ReadDir(p.tmp); err != nil || len(left) > 0 {
		p.t.Errorf("the program left %v, %v", left, err)
	}
}

// End stops the process, unless it has ended.
func (p *Process) End() {
	p.t.Helper()
	if p.cmd.ProcessState == nil {
		p.Stop()
	}
}

// Until looks every 10 ms until it has found what it waits for. After 30 s it ends the test with
// what it has seen last.
func Until(t *testing.T, look func() (seen any, found bool)) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		seen, found := look()
		if found {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after 30 s there is %+v", seen)
		}
	}
}
