// Package confined runs part of a test in a process of its own, on which a
// limit or the lack of rights is imposed, and which may die: a process can't get
// rid of them again.
//
// The test's TestMain calls [Main] with the tasks that may be run in this way,
// and the test calls [Run].
package confined

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Limits are what a process has to do with. The zero value is no limit.
type Limits struct {
	// FileSize is the largest size of a file in bytes. A write beyond it fails,
	// as it does on a full disk. 0 means no limit.
	FileSize uint64
	// Memory is how many bytes of memory the process may have, those included
	// that its garbage collector has not given back yet. It dies if it needs
	// more, which is [ErrMemory]. 0 means no limit.
	Memory uint64
	// Nobody takes the rights of root away, if the process has them.
	Nobody bool
}

// ErrKilled is the end of a process that a signal ended.
var ErrKilled = errors.New("the process was killed")

// ErrMemory is the end of a process that needed more memory than Limits allow.
var ErrMemory = errors.New("the process needs more memory than it may have")

// A Task is what a process does with the argument of Run, which is JSON.
type Task func(arg []byte) error

// spec is in the environment of a process that Run starts.
const spec = "COURIER_CONFINED"

// failed is its exit code when the task has failed.
const failed = 3

type order struct {
	Task   string
	Limits Limits
	Arg    json.RawMessage
}

// Main runs the tests of m, or the task that Run has started this process for,
// and returns the exit code.
func Main(m *testing.M, tasks map[string]Task) int {
	text := os.Getenv(spec)
	if text == "" {
		return m.Run()
	}
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		panic(err)
	}
	o.Limits.Apply()
	if err := tasks[o.Task](o.Arg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return failed
	}
	return 0
}

// Run runs a task in another process and returns its error, as text. The error
// is [ErrKilled] if the process was killed, and [ErrMemory] if it had not enough
// memory. Anything else that it writes, or
// another end, fails the test.
func Run(t testing.TB, task string, l Limits, arg any) error {
	t.Helper()
	raw, err := json.Marshal(arg)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(order{task, l, raw})
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^$")
	cmd.Env = append(os.Environ(), spec+"="+string(text), "GOCOVERDIR="+os.TempDir())
	out, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil && len(out) == 0:
		return nil
	case ok && !exit.Exited():
		return ErrKilled
	case ok && exit.ExitCode() == failed:
		return errors.New(strings.TrimSpace(string(out)))
	case l.Memory > 0 && ranOut(out):
		return ErrMemory
	}
	t.Fatalf("%s: %v\n%s", task, err, out)
	return nil
}

// ranOut reports whether a process that was refused memory ended with such a
// text. Not every part of Go's runtime looks for the refusal: some take the
// address 0 for memory.
func ranOut(out []byte) bool {
	for _, text := range []string{"out of memory", "cannot allocate memory", "failed to create new OS thread", "SIGSEGV: segmentation violation\nPC="} {
		if bytes.Contains(out, []byte(text)) {
			return true
		}
	}
	return false
}
