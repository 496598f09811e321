package exec_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/exec"
	"github.com/courierhq/courier/steps/steptest"
)

type object = map[string]any

// TestMain makes the test's own program one that steps can run.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "act" {
		os.Exit(act(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func act(args []string) int {
	switch args[0] {
	case "upper":
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			fmt.Println(strings.ToUpper(lines.Text()))
		}
		fmt.Fprintln(os.Stderr, "done")
	case "write":
		if err := os.WriteFile(args[1], []byte(args[2]), 0o600); err != nil {
			return 1
		}
	case "append":
		f, err := os.OpenFile(args[1], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return 1
		}
		defer f.Close()
		fmt.Fprintln(f, "ran")
	case "env":
		fmt.Println(strings.Join(os.Environ(), "\n"))
	case "pour":
		n, _ := strconv.Atoi(args[1])
		w := os.Stdout
		if len(args) > 2 {
			w = os.Stderr
		}
		io.Copy(w, io.LimitReader(zeros{}, int64(n)))
		fmt.Fprint(w, "the end")
	case "wait":
		time.Sleep(time.Minute)
	case "exit":
		fmt.Fprintln(os.Stderr, strings.Join(args[2:], " "))
		n, _ := strconv.Atoi(args[1])
		return n
	}
	return 0
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '0'
	}
	return len(b), nil
}

// self allows the test's own program.
func self(t testing.TB) *exec.Options {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &exec.Options{Programs: map[string]exec.Program{"self": {Path: path, Args: []string{"act"}, AllowEnv: []string{"GIVEN", "OTHER"}, Env: []string{"FIXED=fixed", "OTHER=host", "GORACE=atexit_sleep_ms=0"}}}}
}

// TestContract holds the step against the contract for retries.
func TestContract(t *testing.T) {
	for _, c := range []struct {
		name   string
		cfg    object
		except []string
	}{
		{name: "outputs", cfg: object{"args": []string{"upper"}, "stdin": "hello"}},
		{name: "files", cfg: object{"args": []string{"upper"}, "stdin_path": "in.txt", "stdout_path": "out/up.txt", "stderr_path": "err.txt"}},
		{name: "own file", cfg: object{"args": []string{"write", "made.txt", "text"}, "output_files": []string{"made.txt"}}},
		{name: "pattern", cfg: object{"args": []string{"write", "made.txt", "text"}, "output_files": []string{"made*"}}},
		// What is done at most once can only be repeated when it is complete.
		{name: "once", cfg: object{"args": []string{"append", "log.txt"}, "output_files": []string{"log.txt"}, "once": true},
			except: []string{"interrupt", "fail", "panic", "cut off", "cancel", "twice"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.cfg["program"] = "self"
			steptest.Run(t, steptest.Case{
				Packages: []string{steptest.All},
				Register: func(r *courier.Registry) { exec.Register(r, self(t)) },
				Setup: func(w *steptest.World) {
					w.Write("in.txt", strings.Repeat("hello\n", 1000))
					w.Write("out/up.txt", "old")
				},
				Config: c.cfg,
				Except: c.except,
				Tidy:   true, Places: 6,
			})
		})
	}
	var r courier.Registry
	exec.Register(&r, nil)
	steptest.Cover(t, &r, "exec.run")
}
