package exec_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/exec"
)

// A bench runs attempts of one step in one workspace.
type bench struct {
	t       testing.TB
	opt     *exec.Options
	dir     string
	attempt int
	files   []courier.File // of the last attempt
	log     bytes.Buffer
}

func newBench(t testing.TB) *bench { return &bench{t: t, opt: self(t), dir: t.TempDir()} }

func (b *bench) call(ctx context.Context, cfg object) (out exec.RunOutput, err error) {
	b.t.Helper()
	var r courier.Registry
	exec.Register(&r, b.opt)
	typ, _ := r.Lookup("exec.run")
	if cfg["program"] == nil {
		cfg["program"] = "self"
	}
	config, err := json.Marshal(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.attempt++
	job := courier.NewContext(courier.ContextConfig{
		Execution: "e1", Step: 2, Attempt: b.attempt, Workspace: b.dir,
		Log: slog.New(slog.NewTextHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	defer job.Close()
	raw, err := typ.Execute(ctx, job, config)
	if raw != nil {
		if bad := json.Unmarshal(raw, &out); bad != nil {
			b.t.Error(bad)
		}
	}
	b.files = job.Reports().Files
	return out, err
}

func (b *bench) run(cfg object) (exec.RunOutput, error) {
	b.t.Helper()
	return b.call(context.Background(), cfg)
}

func (b *bench) fails(cfg object, permanent bool, want string) {
	b.t.Helper()
	_, err := b.run(cfg)
	if err == nil || !strings.Contains(err.Error(), want) {
		b.t.Errorf("the error is %v, want %q in it", err, want)
	} else if courier.IsPermanent(err) != permanent {
		b.t.Errorf("permanent is %v for %v", !permanent, err)
	}
}

func (b *bench) read(name string) string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.t.Error(err)
	}
	return string(text)
}

// The environment is exactly what was listed.
func TestEnvironment(t *testing.T) {
	t.Setenv("CANARY", "of the host")
	b := newBench(t)
	out, err := b.run(object{"args": []string{"env"}, "env": object{"GIVEN": "by the job", "OTHER": "too"}})
	if want := "FIXED=fixed\nGIVEN=by the job\nGORACE=atexit_sleep_ms=0\nOTHER=too\n"; err != nil || out.Stdout != want {
		t.Errorf("the environment is %q (%v), want %q", out.Stdout, err, want)
	}
	b.fails(object{"args": []string{"env"}, "env": object{"LD_PRELOAD": "evil.so"}}, true, `"LD_PRELOAD" may not be set`)
	b.fails(object{"args": []string{"env"}, "env": object{"GIVEN": "a\x00b"}}, true, "that no environment can hold")
	b.opt.Programs["self"] = exec.Program{Path: b.opt.Programs["self"].Path, Args: []string{"act"}}
	if out, err = b.run(object{"args": []string{"env"}}); err != nil || strings.TrimSpace(out.Stdout) != "" {
		t.Errorf("without a list the environment is %q (%v)", out.Stdout, err)
	}
}

// Only what the host names can run, and nothing of what a job says is a path or
// a command.
func TestAllowed(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"Self", "sel", "/bin/sh", "../self", "sh -c id", b.opt.Programs["self"].Path} {
		b.fails(object{"program": name}, true, "is not allowed")
	}
	b.fails(object{"args": []string{"a\x00b"}}, true, "NUL")
	b.fails(object{"args": make([]string, 1001)}, true, "more than 1000 arguments")
	b.fails(object{"stdin": "a", "stdin_path": "b"}, true, "give only one of stdin and stdin_path")
	b.fails(object{"stdout_path": "x", "stderr_path": "x"}, true, "must not be the same file")
	b.fails(object{"directory": "/tmp"}, true, "below the workspace")
	b.fails(object{"directory": "../x"}, true, "leads out of the workspace")
	b.fails(object{"limits": object{"open_files": -1}}, true, "limits.open_files: must be at least 0")
	if err := os.Symlink("/", filepath.Join(b.dir, "out")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.run(object{"directory": "out/tmp", "args": []string{"env"}}); err == nil {
		t.Error("a link leads out of the workspace")
	}
	b.opt.Programs["gone"] = exec.Program{Path: filepath.Join(b.dir, "gone")}
	b.fails(object{"program": "gone"}, true, "can't be started")
	b.opt = nil
	b.fails(object{"program": "self"}, true, "no programs are allowed")
	defer func() {
		if recover() == nil {
			t.Error("a relative path is registered")
		}
	}()
	b.opt = &exec.Options{Programs: map[string]exec.Program{"x": {Path: "bin/x"}}}
	b.run(object{"program": "x"})
}

// Output is bounded: the beginning of the one, the end of the other, and a
// failure where it goes to a file.
func TestOutput(t *testing.T) {
	b := newBench(t)
	b.opt.MaxOutput, b.opt.MaxBytes = 100, 1<<20
	out, err := b.run(object{"args": []string{"pour", "8000000"}})
	if err != nil || out.Stdout != strings.Repeat("0", 100) || !out.StdoutTruncated || out.StderrTruncated {
		t.Errorf("stdout is %.120q, %v", out.Stdout, err)
	}
	out, err = b.run(object{"args": []string{"pour", "100000", "err"}})
	if err != nil || out.Stderr != strings.Repeat("0", 93)+"the end" || !out.StderrTruncated {
		t.Errorf("stderr is %q, %v", out.Stderr, err)
	}
	out, err = b.run(object{"args": []string{"pour", "1000"}, "stdout_path": "dir/out"})
	if err != nil || out.StdoutFile != "dir/out" || len(b.read("dir/out")) != 1007 || out.Stdout != "" {
		t.Errorf("file: %+v, %v", out, err)
	}
	b.fails(object{"args": []string{"pour", "8000000"}, "stdout_path": "dir/out"}, true, "more than 1048576 bytes")
	b.fails(object{"args": []string{"exit", "3"}, "stdout_path": "dir/out"}, false, "exit status 3")
	if len(b.read("dir/out")) != 1007 {
		t.Error("a failed run has replaced the file")
	}
	if names, _ := filepath.Glob(filepath.Join(b.dir, "dir", "*")); len(names) != 1 {
		t.Errorf("left are %v", names)
	}
	b.fails(object{"args": []string{"exit", "0"}, "output_files": []string{"none"}}, false, "the program has not written it")
}

// Exit codes, and what a failure shows.
func TestFailure(t *testing.T) {
	b := newBench(t)
	if out, err := b.run(object{"args": []string{"exit", "7"}, "success_codes": []int{0, 7}}); err != nil || out.ExitCode != 7 {
		t.Errorf("%+v, %v", out, err)
	}
	b.fails(object{"args": []string{"exit", "0"}, "success_codes": []int{7}}, false, "exit status 0")
	_, err := b.run(object{"args": []string{"exit", "1", "bad", "canary-one", "\x1b[2J", "canary-two", strings.Repeat("x", 5000), "last"}, "env": object{"GIVEN": "canary-one"}, "stdin": "canary-two\n"})
	if err == nil || !strings.HasSuffix(err.Error(), "x last") || len(err.Error()) > 4500 {
		t.Errorf("the error is %v", err)
	}
	_, err = b.run(object{"args": []string{"exit", "1", "bad", "canary-one", "\x1b[2J", "canary-two"}, "env": object{"GIVEN": "canary-one"}, "stdin": "canary-two\n"})
	if err == nil || !strings.Contains(err.Error(), `bad [secret GIVEN] \x1b[2J [secret stdin]`) || strings.Contains(err.Error()+b.log.String(), "canary") {
		t.Errorf("the error is %v, the log %s", err, b.log.String())
	}
}

// Once means once.
func TestOnce(t *testing.T) {
	b := newBench(t)
	cfg := object{"args": []string{"append", "log"}, "once": true, "output_files": []string{"log"}}
	for range 3 {
		if out, err := b.run(cfg); err != nil || len(out.OutputFiles) != 1 || b.read("log") != "ran\n" {
			t.Errorf("%q: %+v, %v", b.read("log"), out, err)
		}
	}
	if err := os.Remove(filepath.Join(b.dir, "log")); err != nil {
		t.Fatal(err)
	}
	b.fails(cfg, false, "has not written it")
	b = newBench(t)
	b.fails(object{"args": []string{"exit", "1"}, "once": true}, true, "is not run again")
	b.fails(cfg, true, "an earlier attempt began to run it")
	b = newBench(t)
	program := b.opt.Programs["self"]
	b.opt.Programs["self"] = exec.Program{Path: filepath.Join(b.dir, "gone")}
	b.fails(cfg, true, "can't be started")
	b.opt.Programs["self"] = program
	if _, err := b.run(cfg); err != nil {
		t.Errorf("after a program that could not be started: %v", err)
	}
	b = newBench(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(200*time.Millisecond, func() { cancel(courier.ErrStopped) })
	if _, err := b.call(ctx, object{"args": []string{"wait"}, "once": true}); !errors.Is(err, courier.ErrStopped) {
		t.Errorf("interrupted: %v", err)
	}
	b.fails(cfg, true, "an earlier attempt began to run it")
}

// A dry run says what is wrong without running anything.
func TestValidate(t *testing.T) {
	b := newBench(t)
	var log bytes.Buffer
	step := exec.Run{Options: *b.opt}
	job := courier.NewContext(courier.ContextConfig{Workspace: b.dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
	defer job.Close()
	if err := step.Validate(t.Context(), job, exec.RunConfig{Program: "self", Args: []string{"write", "x", "y"}}); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"the program can be run", "program=self", "path=" + b.opt.Programs["self"].Path, "file=/", "size=", "mode=-rwx", "modified=20", "env=", "limits="} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("it tells\n%s\nwithout %q", log.String(), want)
		}
	}
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("#!"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.opt.Programs["plain"] = exec.Program{Path: plain}
	b.opt.Programs["gone"] = exec.Program{Path: filepath.Join(b.dir, "gone")}
	for want, cfg := range map[string]exec.RunConfig{
		`program "gone"`:          {Program: "gone"},
		"install it on this work": {Program: "gone"},
		"permission denied":       {Program: "plain"},
		"did you mean":            {Program: "selv"},
		"outside the workspace":   {Program: "self", StdoutPath: "/etc/x"},
		"leads out of the worksp": {Program: "self", StdinPath: "../x"},
	} {
		if err := step.Validate(t.Context(), job, cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", cfg, err, want)
		}
	}
	if entries, _ := os.ReadDir(b.dir); len(entries) != 0 {
		t.Errorf("made are %v", entries)
	}
}
