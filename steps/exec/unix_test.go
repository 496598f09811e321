//go:build unix

package exec_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/exec"
)

// shell is a bench with a shell as a program of the host's.
func shell(t *testing.T) *bench {
	b := newBench(t)
	b.opt.Programs["sh"] = exec.Program{Path: "/bin/sh", Args: []string{"-c"}, Env: []string{"PATH=/usr/bin:/bin"}}
	b.opt.Grace = 300 * time.Millisecond
	return b
}

// alive reports whether the process whose number is in a file is there.
func (b *bench) alive(name string) bool {
	pid, err := strconv.Atoi(strings.TrimSpace(b.read(name)))
	if err != nil {
		b.t.Error(err)
		return false
	}
	for range 50 { // its end may need a moment, and somebody who takes note of it
		if syscall.Kill(pid, 0) != nil {
			return false
		}
		if stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil && strings.Contains(string(stat), ") Z ") {
			return false
		}
		time.Sleep(10 * time.Millisecond)
	}
	return true
}

// Nothing of a program is left when the step ends, however it ends.
func TestNoOrphans(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		most   time.Duration
	}{
		"ends by itself":        {"sleep 100 & echo $! > child; echo $$ > self", 2 * time.Second},
		"holds the pipes":       {"sleep 100 >&1 2>&2 & echo $! > child; echo $$ > self; echo out", 2 * time.Second},
		"ends by TERM":          {"sleep 100 & echo $! > child; echo $$ > self; wait", 2 * time.Second},
		"does not want to":      {"trap '' TERM; sleep 100 & echo $! > child; echo $$ > self; while :; do sleep 0.1; done", 2 * time.Second},
		"forks without end":     {"echo $$ > self; echo $$ > child; f() { while :; do sleep 0.01 & sleep 0.01; done; }; f & f & f & wait", 2 * time.Second},
		"child that won't stop": {"sh -c 'trap \"\" TERM; echo $$ > child; while :; do sleep 0.1; done' & echo $$ > self; wait", 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := shell(t)
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			start := time.Now()
			if !strings.HasPrefix(name, "ends by itself") && !strings.HasPrefix(name, "holds") {
				time.AfterFunc(500*time.Millisecond, func() { start = time.Now(); cancel(courier.ErrCancelled) })
			}
			_, err := b.call(ctx, object{"program": "sh", "args": []string{c.script}})
			if took := time.Since(start); took > c.most {
				t.Errorf("it took %v", took)
			}
			if want := context.Cause(ctx); !errors.Is(err, want) {
				t.Errorf("the error is %v, want %v", err, want)
			}
			for _, file := range []string{"child", "self"} {
				if b.alive(file) {
					t.Errorf("%s is alive", file)
				}
			}
		})
	}
}

// TERM comes first, so that a program can tidy up.
func TestGrace(t *testing.T) {
	b := shell(t)
	b.opt.Grace = 0 // 5 s
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(300*time.Millisecond, func() { cancel(courier.ErrTimeout) })
	_, err := b.call(ctx, object{"program": "sh", "args": []string{"trap 'echo tidy > tidied; exit 0' TERM; while :; do sleep 0.05; done"}})
	if !errors.Is(err, courier.ErrTimeout) || b.read("tidied") != "tidy\n" {
		t.Errorf("the error is %v", err)
	}
}

// Arguments reach the program as they are.
func TestArguments(t *testing.T) {
	b := shell(t)
	args := []string{`for a; do printf '<%s>' "$a"; done`, "self", "a b", "$(id)", "; rm -rf x", "*", "'", "", "-rf", "å\n"}
	out, err := b.run(object{"program": "sh", "args": args})
	if want := "<" + strings.Join(args[2:], "><") + ">"; err != nil || out.Stdout != want {
		t.Errorf("%q, %v; want %q", out.Stdout, err, want)
	}
	out, err = b.run(object{"program": "sh", "args": []string{"pwd; read x || echo nothing"}, "directory": "sub/dir"})
	if dir, _ := filepath.EvalSymlinks(b.dir); err != nil || out.Stdout != dir+"/sub/dir\nnothing\n" {
		t.Errorf("%q, %v", out.Stdout, err)
	}
}

// Limits hold from the first instruction on, for the program and what it
// starts, the lower of the host's and the job's.
func TestLimits(t *testing.T) {
	b := shell(t)
	if runtime.GOOS != "linux" {
		b.fails(object{"program": "sh", "args": []string{"true"}, "limits": object{"cpu_seconds": 1}}, true, "only Linux has")
		return
	}
	sh := b.opt.Programs["sh"]
	sh.Limits = exec.Limits{Files: 64, FileSize: 1 << 20}
	b.opt.Programs["sh"] = sh
	out, err := b.run(object{"program": "sh", "args": []string{"ulimit -n; ulimit -f; ulimit -t; sh -c 'ulimit -v'; echo child >&2"},
		"limits": object{"open_files": 1000, "cpu_seconds": 5, "memory_bytes": 512 << 20, "file_bytes": 512 << 10}})
	if want := "64\n1024\n5\n524288\n"; err != nil || out.Stdout != want || out.Stderr != "child\n" {
		t.Errorf("limits are %q, %v; want %q", out.Stdout, err, want)
	}
	start := time.Now()
	b.fails(object{"program": "sh", "args": []string{"while :; do :; done"}, "limits": object{"cpu_seconds": 1}}, false, "perhaps because of its limits")
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	if _, err := b.run(object{"program": "sh", "args": []string{"exec dd if=/dev/zero of=big bs=65536 count=100"}}); err == nil {
		t.Error("a file larger than its limit was written")
	}
	if n := len(b.read("big")); n != 1<<20 {
		t.Errorf("the file has %d bytes", n)
	}
	for range 50 { // tracing and letting go leaves nothing behind
		if _, err := b.run(object{"program": "sh", "args": []string{"true"}}); err != nil {
			t.Fatal(err)
		}
	}
	sh.Path = filepath.Join(b.dir, "gone")
	b.opt.Programs["sh"] = sh
	b.fails(object{"program": "sh"}, true, "can't be started")
}
