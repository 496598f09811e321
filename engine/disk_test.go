//go:build unix

package engine_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store/storetest"
)

// inProcess runs the test that calls it in a process of its own, with an
// environment variable set, as an ordinary user: what it does to the process
// can't be undone, and no directory is read-only for root. It reports whether
// this is that process.
func inProcess(t *testing.T) bool {
	t.Helper()
	const env = "COURIER_TEST_IN_PROCESS"
	if os.Getenv(env) == t.Name() {
		return true
	}
	dir, err := os.MkdirTemp("", "courier-test-") // all may pass through, unlike t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), env+"="+t.Name(), "TMPDIR="+dir, "GOCOVERDIR="+dir)
	cmd.Dir = dir
	if os.Geteuid() == 0 {
		const nobody = 65534
		binary, err := os.ReadFile(exe) // where it lies is closed to others
		if err != nil {
			t.Fatal(err)
		}
		cmd.Path = filepath.Join(dir, "engine.test")
		if err := errors.Join(os.WriteFile(cmd.Path, binary, 0o755), os.Chmod(dir, 0o777)); err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody, NoSetGroups: true}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// TestDiskFullAndReadOnly lets a step write when there is no room for its file,
// and when its directory is read-only: a failure of the step each, from which a
// resume goes on when the cause is gone.
func TestDiskFullAndReadOnly(t *testing.T) {
	if inProcess(t) {
		synctest.Test(t, testDiskFullAndReadOnly)
	}
}

func testDiskFullAndReadOnly(t *testing.T) {
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	h := couriertest.New(t, &engine.Options{Workspace: dir, Slots: 1})
	size := 0
	h.Stub("demo.write", func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
		w, err := job.Files().Create(job.Files().Dir() + "/out.bin")
		if err != nil {
			return nil, err
		}
		defer w.Close()
		if _, err := w.Write(make([]byte, size)); err != nil {
			return nil, err
		}
		return nil, w.Commit()
	})
	h.Stub("demo.good", nil)
	if err := h.Engine.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"w", "good"} {
		steps := map[string]string{"w": `{"type": "demo.write"}, {"type": "demo.write"}`, "good": `{"type": "demo.good"}`}[name]
		if _, err := h.Engine.Jobs().Define(t.Context(), h.Job(fmt.Sprintf(`{"name": %q, "steps": [%s]}`, name, steps)), nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, trouble := range []struct {
		name, want   string
		reason       courier.Reason
		begin, ended func() error
	}{
		{"full", "file too large", courier.ReasonSpace, func() error {
			size = 200 << 10
			return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 100 << 10, Max: old.Max})
		}, func() error { return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old) }},
		{"read-only", "permission denied", courier.ReasonPermission, func() error { return os.Chmod(dir, 0o500) }, func() error { return os.Chmod(dir, 0o700) }},
	} {
		if err := trouble.begin(); err != nil {
			t.Fatal(err)
		}
		x, err := h.Engine.Enqueue(t.Context(), "w", nil)
		if err != nil {
			t.Fatal(err)
		}
		r := h.Wait(x.ID).RequireState(courier.Failed).RequireError(trouble.want).RequireTrace("0 demo.write failed")
		if r.Failure.Reason != trouble.reason || r.Failure.Step != 0 {
			t.Errorf("%s: failure %+v", trouble.name, r.Failure)
		}
		var left []string
		filepath.Walk(filepath.Join(dir, string(x.ID)), func(path string, info os.FileInfo, err error) error {
			if err == nil && info.Mode().IsRegular() {
				left = append(left, path)
			}
			return nil
		})
		if len(left) > 0 {
			t.Errorf("%s: left are %s", trouble.name, left)
		}
		good, err := h.Engine.Enqueue(t.Context(), "good", nil)
		if err != nil {
			t.Fatal(err)
		}
		h.Wait(good.ID).RequireState(courier.Completed)
		if err := errors.Join(trouble.ended(), errOf(h.Engine.Resume(t.Context(), x.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}))); err != nil {
			t.Fatal(err)
		}
		h.Wait(x.ID).RequireState(courier.Completed).RequireTrace("0 demo.write failed", "0 demo.write#2 completed", "1 demo.write completed")
		synctest.Wait() // until its files are removed
		if err := storetest.CheckExecution(t.Context(), h.Store, x.ID); err != nil {
			t.Error(err)
		}
	}
}
