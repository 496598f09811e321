//go:build linux

package isolated_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/lockedbuffer"
	"github.com/courierhq/courier/store"
)

// TestEnvironment checks what a child can see of the worker: neither its environment, nor its
// secrets, nor those of other steps.
func TestEnvironment(t *testing.T) {
	t.Setenv("COURIER_TEST_SECRET", "worker-secret")
	t.Setenv("COURIER_TEST_PASSED", "passed")
	t.Setenv("TZ", "Europe/Berlin")
	b := newBench(t, func(o *engine.Options) {
		o.Isolate = map[string]courier.Isolation{"test.do": {Env: []string{"COURIER_TEST_PASSED"}}}
	})
	_, list, err := b.run(`[{"type": "test.do", "config": {"what": "environment", "secret": "secret:other"}}, {"type": "test.do", "config": {"what": "proc", "secret": "secret:other"}}]`, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out doOutput
	if err := json.Unmarshal(list[0].Outputs, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"COURIER_TEST_PASSED=passed", "TZ=Europe/Berlin", "TMPDIR=" + filepath.Join(b.dir, "work", "isolated-"), "\n" + filepath.Join(b.dir, "work", "isolated-")} {
		if !strings.Contains(out.Text, want) {
			t.Errorf("the child has %s, without %q", out.Text, want)
		}
	}
	if args := fmt.Sprintf("%q", os.Args); !strings.Contains(out.Text, args) {
		t.Errorf("the child has the arguments %s, want %s", out.Text, args)
	}
	if !strings.Contains(string(list[1].Outputs), ` 500\n"`) {
		t.Errorf("the system ends the worker before the child, which sees %s", list[1].Outputs)
	}
	for _, s := range list {
		if strings.Contains(string(s.Outputs), "worker-secret") || strings.Contains(string(s.Outputs), "HOME=") || strings.Contains(string(s.Outputs), "not-for-this-step") {
			t.Errorf("a child sees %s", s.Outputs)
		}
	}
}

// TestLimits checks that a child that uses too much fails alone, with the reason.
func TestLimits(t *testing.T) {
	b := newBench(t, func(o *engine.Options) {
		o.Isolate = map[string]courier.Isolation{"test.do": {Memory: 48 << 20}, "test.*": {CPU: time.Second}}
	})
	for _, c := range []struct{ typ, config, want string }{
		{"test.do", `{"what": "eat"}`, "the step's process ran out of memory: it needed more than the 50331648 bytes of courier.Isolation.Memory"},
		{"test.do", `{"what": "output", "arg": "1000000"}`, ""},
		{"test.tidy", `{"what": "burn"}`, "the step's process was killed after 1s of processor time, the limit of courier.Isolation.CPU"},
	} {
		_, list, _ := b.run(`[{"type": "`+c.typ+`", "config": `+c.config+`}]`, nil)
		if s := list[0]; s.Error != c.want || (c.want != "") != (s.Reason == courier.ReasonCrashed) {
			t.Errorf("%s %s: %s: %q, want %q", c.typ, c.config, s.Reason, s.Error, c.want)
		}
	}
}

// TestRetried checks that a crash is repeated as the policy says, after a Cleanup in a
// process of its own.
func TestRetried(t *testing.T) {
	b := newBench(t, nil)
	_, list, _ := b.run(`[{"type": "test.tidy", "config": {"what": "kill", "arg": "x"}, "failure_policy": {"type": "retry_step", "max_retries": 1, "backoff_base_seconds": 0, "retry_on": ["crashed"]}}]`, nil)
	if len(list) != 2 || list[1].Reason != courier.ReasonCrashed || !strings.Contains(list[1].Log, "msg=cleanup pid=") || strings.Contains(list[1].Log, fmt.Sprint("pid=", os.Getpid())) {
		t.Errorf("the attempts are %+v", list)
	}
}

// wait returns when a step of an execution has reported progress.
func (b *bench) enqueued(steps string) courier.ExecutionID {
	b.Helper()
	var job courier.Job
	if err := json.Unmarshal([]byte(`{"name": "w", "steps": `+steps+`}`), &job); err != nil {
		b.Fatal(err)
	}
	if _, err := b.e.Jobs().Define(b.Context(), job, nil); err != nil {
		b.Fatal(err)
	}
	begun := make(chan struct{}, 100)
	stop := b.e.Observe(func(ev courier.Event) {
		if ev.Type == courier.EventStepProgress {
			begun <- struct{}{}
		}
	})
	defer stop()
	if err := b.e.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = b.e.Stop(context.Background()) })
	x, err := b.e.Enqueue(b.Context(), "w", nil)
	if err != nil {
		b.Fatal(err)
	}
	select {
	case <-begun:
	case <-time.After(20 * time.Second):
		b.Fatal("the step has not begun")
	}
	return x.ID
}

// TestCancel checks that a child is told of a cancel, and that one which does not stop is
// killed when the grace period is over, and not later than 100 ms after.
func TestCancel(t *testing.T) {
	for _, c := range []struct {
		what, want string
		least      time.Duration
	}{
		{"wait", "cancelled: courier: cancelled", 0},
		{"hang", "cancelled: the step's process did not stop within 500ms and was killed", 500 * time.Millisecond},
	} {
		b := newBench(t, func(o *engine.Options) {
			o.Isolate = map[string]courier.Isolation{"test.*": {Grace: 500 * time.Millisecond}}
		})
		rolled := filepath.Join(b.dir, "rolled-back")
		id := b.enqueued(`[{"type": "test.tidy", "config": {"what": "` + c.what + `", "arg": "` + rolled + `"}}]`)
		began := time.Now()
		if _, err := b.e.Cancel(b.Context(), id, &courier.CancelOptions{By: courier.By{}}); err != nil {
			t.Fatal(err)
		}
		x, err := b.e.Wait(b.Context(), id)
		took := time.Since(began)
		list, _ := b.e.Executions().StepsPage(b.Context(), store.StepFilter{Execution: id, Details: true})
		if x.State != courier.Cancelled || len(list) != 1 || list[0].Error != c.want {
			t.Errorf("%s: %s (%v), %+v", c.what, x.State, err, list)
		}
		if text, err := os.ReadFile(rolled); err != nil || !strings.HasSuffix(string(text), " true") || strings.HasPrefix(string(text), fmt.Sprint(os.Getpid(), " ")) {
			t.Errorf("%s: the rollback has written %q (%v)", c.what, text, err)
		}
		// The rollback has a process of its own, which takes its time too.
		if took < c.least || took > c.least+5*time.Second {
			t.Errorf("%s: the end took %v", c.what, took)
		}
		t.Logf("%s: %v", c.what, took)
		b.nothingLeft()
	}
}

// TestTerminate checks that a child with Terminate gets SIGTERM when it is cancelled, with the
// programs that it runs: one that notes the signal has noted it, and one that ignores it is
// killed when the grace period is over. Without Terminate there is no signal.
func TestTerminate(t *testing.T) {
	const grace = 500 * time.Millisecond
	for _, c := range []struct {
		what      string
		terminate bool
		want      string
		least     time.Duration
	}{
		{"terminated", true, "cancelled: courier: cancelled", 0},
		{"terminated", false, "cancelled: the step's process did not stop within 500ms and was killed", grace},
		{"deaf", true, "cancelled: the step's process did not stop within 500ms and was killed", grace},
		{"wait", true, "cancelled: courier: cancelled", 0},
	} {
		b := newBench(t, func(o *engine.Options) {
			o.Isolate = map[string]courier.Isolation{"test.do": {Grace: grace, Terminate: c.terminate}}
		})
		note := filepath.Join(b.dir, "note")
		id := b.enqueued(`[{"type": "test.do", "config": {"what": "` + c.what + `", "arg": "` + note + `"}}]`)
		began := time.Now()
		if _, err := b.e.Cancel(b.Context(), id, &courier.CancelOptions{By: courier.By{}}); err != nil {
			t.Fatal(err)
		}
		x, err := b.e.Wait(b.Context(), id)
		took := time.Since(began)
		list, _ := b.e.Executions().StepsPage(b.Context(), store.StepFilter{Execution: id, Details: true})
		if x.State != courier.Cancelled || len(list) != 1 || list[0].Error != c.want || took < c.least {
			t.Errorf("%s, %v: %s (%v) after %v, %+v", c.what, c.terminate, x.State, err, took, list)
		}
		own, _ := os.ReadFile(note)
		program, _ := os.ReadFile(note + ".program")
		told := ""
		if c.what == "terminated" && c.terminate {
			told = "terminated told\n"
		}
		if got := strings.TrimSpace(string(own) + " " + string(program)); got != strings.TrimSpace(told) {
			t.Errorf("%s, %v: noted is %q, want %q", c.what, c.terminate, got, told)
		}
		b.nothingLeft()
	}
}

// TestSignalsOfOthers checks that signals of others than the worker end no step, as systemd
// sends them to all processes of a service that stops.
func TestSignalsOfOthers(t *testing.T) {
	for _, terminate := range []bool{false, true} {
		b := newBench(t, func(o *engine.Options) {
			o.Isolate = map[string]courier.Isolation{"test.do": {Terminate: terminate}}
		})
		if _, list, err := b.run(`[{"type": "test.do", "config": {"what": "signalled"}}]`, nil); err != nil {
			t.Errorf("Terminate %v: %v, %+v", terminate, err, list)
		}
	}
}

// TestTimeouts checks that timeouts are those of the attempt, whatever the child does.
func TestTimeouts(t *testing.T) {
	b := newBench(t, func(o *engine.Options) { o.Grace = 200 * time.Millisecond })
	for _, c := range []struct {
		fields, want string
		reason       courier.Reason
	}{
		{`"config": {"what": "wait"}, "timeout_seconds": 0.3`, "timed out after 300ms", courier.ReasonTimeout},
		{`"config": {"what": "hang"}, "timeout_seconds": 0.3`, "timed out after 300ms; the step returned: the step's process did not stop within 200ms and was killed", courier.ReasonTimeout},
		{`"config": {"what": "hang"}, "stall_timeout_seconds": 0.3`, "stalled: no progress for 300ms; the step returned: the step's process did not stop within 200ms and was killed", courier.ReasonStalled},
	} {
		began := time.Now()
		_, list, _ := b.run(`[{"type": "test.do", `+c.fields+`}]`, nil)
		if s := list[0]; s.Error != c.want || s.Reason != c.reason {
			t.Errorf("%s: %s: %q, want %q", c.fields, s.Reason, s.Error, c.want)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: it took %v", c.fields, took)
		}
	}
}

// gone waits until a process has ended.
func gone(t *testing.T, pid int, most time.Duration) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if _, after, _ := strings.Cut(string(stat), ") "); err != nil || strings.HasPrefix(after, "Z") {
			return
		}
		if time.Since(began) > most {
			t.Errorf("process %d is still there after %v", pid, most)
			_ = syscall.Kill(pid, syscall.SIGKILL)
			return
		}
	}
}

// pidIn waits for a file with the number of a process.
func pidIn(t *testing.T, name string) int {
	t.Helper()
	for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(5 * time.Millisecond) {
		text, _ := os.ReadFile(name)
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && strings.HasSuffix(string(text), "\n") {
			return pid
		}
	}
	t.Fatal("no process was started")
	return 0
}

// TestFamily checks that what a child has started ends with it.
func TestFamily(t *testing.T) {
	b := newBench(t, nil)
	pids := filepath.Join(b.dir, "pid")
	_, list, _ := b.run(`[{"type": "test.do", "config": {"what": "family", "arg": "`+pids+`"}, "timeout_seconds": 1}]`, nil)
	if list[0].Reason != courier.ReasonTimeout {
		t.Errorf("the attempt has ended with %q", list[0].Error)
	}
	gone(t, pidIn(t, pids), time.Second)
}

// TestParentGone checks that a child ends with all that it has started: within a second when
// its parent is killed, and when the lease of its parent has ended if that is stopped. The
// parent is another copy of the test program.
func TestParentGone(t *testing.T) {
	for _, c := range []struct {
		signal syscall.Signal
		most   time.Duration
	}{{syscall.SIGKILL, time.Second}, {syscall.SIGSTOP, parentLease + time.Second}} {
		dir := t.TempDir()
		parent := exec.Command(os.Args[0], "-test.run=^TestIsParent$", "-test.v")
		parent.Env = append(os.Environ(), "COURIER_TEST_PARENT="+dir, "TMPDIR="+t.TempDir()) // it can remove nothing
		out := new(lockedbuffer.Buffer)
		parent.Stdout, parent.Stderr = out, out
		if err := parent.Start(); err != nil {
			t.Fatal(err)
		}
		family := pidIn(t, filepath.Join(dir, "pid"))
		child := parentOf(t, parentOf(t, family)) // the shell is in between
		time.Sleep(2 * parentLease)               // a parent that is at work is heard of
		if err := syscall.Kill(child, 0); err != nil {
			t.Errorf("the child has gone before its parent: %v", err)
		}
		if err := parent.Process.Signal(c.signal); err != nil {
			t.Fatal(err)
		}
		gone(t, child, c.most)
		gone(t, family, c.most)
		_ = parent.Process.Kill()
		_ = parent.Wait()
		if t.Failed() {
			t.Log(out.String())
		}
	}
}

// parentLease is the lease of the parent of TestParentGone.
const parentLease = time.Second

// parentOf returns the parent of a process.
func parentOf(t *testing.T, pid int) int {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	if err != nil || len(fields) < 2 {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(fields[1])
	if err != nil || n <= 1 {
		t.Fatalf("the parent of %d is %d (%v)", pid, n, err)
	}
	return n
}

// TestIsParent is the parent of TestParentGone, and nothing otherwise.
func TestIsParent(t *testing.T) {
	dir := os.Getenv("COURIER_TEST_PARENT")
	if dir == "" {
		return
	}
	b := newBench(t, func(o *engine.Options) { o.Lease = parentLease })
	b.run(`[{"type": "test.do", "config": {"what": "family", "arg": "`+filepath.Join(dir, "pid")+`"}, "timeout_seconds": 30}]`, nil)
}

// TestValidate checks that a dry run calls Validate in a process of its own.
func TestValidate(t *testing.T) {
	b := newBench(t, nil)
	var job courier.Job
	if err := json.Unmarshal([]byte(`{"name": "j", "steps": [{"type": "test.tidy", "config": {"arg": "invalid", "what": "${context:params.a}"}}]}`), &job); err != nil {
		t.Fatal(err)
	}
	r, err := b.e.Jobs().DryRun(t.Context(), job, nil)
	if err != nil || r.OK() || !strings.Contains(r.Steps[0].Message, "finds it invalid, unresolved is true") || strings.Contains(r.Steps[0].Message, fmt.Sprint("process ", os.Getpid(), " ")) {
		t.Errorf("the report is %v (%v)", r, err)
	}
	b.nothingLeft()
}

// TestAsked checks which steps run in processes of their own: a definition can only add.
func TestAsked(t *testing.T) {
	b := newBench(t, func(o *engine.Options) { o.Isolate = map[string]courier.Isolation{"test.tidy": {}} })
	_, list, err := b.run(`[{"type": "test.do"}, {"type": "test.do", "isolate": true}, {"type": "test.tidy", "isolate": false}]`, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, own := range []bool{false, true, true} {
		var out doOutput
		if err := json.Unmarshal(list[i].Outputs, &out); err != nil || (out.PID != os.Getpid()) != own {
			t.Errorf("step %d: %s (%v)", i, list[i].Outputs, err)
		}
	}
	_, err = b.e.Jobs().Define(t.Context(), courier.Job{Name: "k", Steps: []courier.StepSpec{{Type: "flow.foreach", Isolate: true, Config: map[string]any{"source": []any{1}}}, {Type: "flow.end"}}}, nil)
	if d, ok := errors.AsType[*courier.DefinitionError](err); !ok || len(d.Problems) != 1 || d.Problems[0].Field != "isolate" {
		t.Errorf("isolate on a marker: %v", err)
	}
}

// TestBadOptions checks what an engine with options that have no meaning says.
func TestBadOptions(t *testing.T) {
	b := newBench(t, func(o *engine.Options) {
		o.Isolate = map[string]courier.Isolation{"test.do": {Memory: 1 << 20, CPU: time.Millisecond, Grace: -1, Env: []string{"A=b"}}, "test.dont": {}, "fiel.*": {}, "*": {}}
	})
	err := b.e.Start(t.Context())
	for _, want := range []string{`Isolate["test.do"]: Memory: 1048576 bytes is less than`, `Isolate["test.do"]: CPU: 1ms is less than a second`, `Isolate["test.do"]: Grace: -1ns is negative`, `Env: "A=b" is not the name`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, without %q", err, want)
		}
	}
	b = newBench(t, func(o *engine.Options) {
		o.Isolate = map[string]courier.Isolation{"test.dont": {}, "fiel.*": {}, "file.*": {}, "*": {}}
	})
	err = b.e.Start(t.Context())
	for _, want := range []string{`no step type is called "test.dont"; did you mean "test.do"?`, `no step type is called "fiel.*"`} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), `"file.*"`) {
			t.Errorf("the error is %v, without %q", err, want)
		}
	}
}
