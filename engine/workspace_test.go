package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
)

// writer is a step that leaves a file of ten bytes, and then waits, fails or
// returns, as the parameter "then" says.
func writer(c ctx, job *courier.Context, cfg map[string]any) (map[string]any, error) {
	w, err := job.Files().Create(job.Files().Dir() + "/left.txt")
	if err != nil {
		return nil, err
	}
	defer w.Close()
	if _, err = w.WriteString("0123456789"); err == nil {
		err = w.Commit()
	}
	if err != nil {
		return nil, err
	}
	switch cfg["then"] {
	case "fail":
		return nil, errors.New("boom")
	case "wait":
		select {
		case <-c.Done():
			return nil, contextCause(c)
		case <-time.After(time.Minute):
		}
	}
	return nil, nil
}

const writerJob = `{"name": "w", "failure_policy": %s, "params": {"then": ""}, "steps": [{"type": "demo.write"}, {"type": "demo.write", "config": {"then": "context:params.then"}}]}`

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Stat(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// TestWorkspaceByState looks for the directory in every state, in which engines
// that sweep everything at once come by each time.
func TestWorkspaceByState(t *testing.T) {
	retry := `{"type": "retry_step", "backoff_base_seconds": 600, "backoff_max_seconds": 600}`
	for _, test := range []struct {
		name, policy, then string
		act                func(t *testing.T, e *engine.Engine, id courier.ExecutionID) error
		status             string
		kept               bool
		bytes              int64
	}{
		{"running", `"stop"`, "wait", nil, "running", true, 0},
		{"backing off", retry, "fail", nil, "scheduled", true, 0},
		{"failed", `"stop"`, "fail", nil, "failed", true, 20},
		{"completed", `"stop"`, "", nil, "completed", false, 20},
		{"skipped", `"skip_and_continue"`, "fail", nil, "completed", false, 20},
		{"paused", `"stop"`, "wait", func(t *testing.T, e *engine.Engine, id courier.ExecutionID) error {
			_, err := e.Pause(t.Context(), id, courier.By{Actor: "ops"})
			time.Sleep(2 * time.Minute)
			return err
		}, "paused", true, 0},
		{"paused in a backoff", retry, "fail", func(t *testing.T, e *engine.Engine, id courier.ExecutionID) error {
			return errOf(e.Pause(t.Context(), id, courier.By{Actor: "ops"}))
		}, "paused", true, 0},
		{"cancelled while running", `"stop"`, "wait", func(t *testing.T, e *engine.Engine, id courier.ExecutionID) error {
			return errOf(e.Cancel(t.Context(), id, &courier.CancelOptions{By: courier.By{Actor: "ops"}}))
		}, "cancelled", false, 20},
		{"cancelled when failed", `"stop"`, "fail", func(t *testing.T, e *engine.Engine, id courier.ExecutionID) error {
			return errOf(e.Cancel(t.Context(), id, &courier.CancelOptions{By: courier.By{Actor: "ops"}}))
		}, "cancelled", false, 20},
		{"handed over", `"stop"`, "wait", func(t *testing.T, e *engine.Engine, _ courier.ExecutionID) error {
			c, cancel := contextWithCancel(t)
			cancel()
			return e.Stop(c)
		}, "queued", true, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				h := couriertest.New(t, &engine.Options{Workspace: dir})
				h.Stub("demo.write", writer)
				h.Stub("demo.last", nil)
				job := h.Job(strings.Replace(writerJob, "%s", test.policy, 1))
				job.Steps = append(job.Steps, courier.StepSpec{Type: "demo.last"})
				if _, err := h.Engine.Jobs().Define(t.Context(), job, nil); err != nil {
					t.Fatal(err)
				}
				if err := h.Engine.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				x, err := h.Engine.Enqueue(t.Context(), "w", &courier.EnqueueOptions{Params: m{"then": test.then}})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if test.act != nil {
					if err := test.act(t, h.Engine, x.ID); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				path := filepath.Join(dir, string(x.ID))
				if test.kept {
					age(t, path, 365*24*time.Hour)
				}
				sweepOnce(t, h, dir)
				if x, _ = h.Engine.Executions().Get(t.Context(), x.ID); x.Status(time.Now()) != test.status {
					t.Fatalf("the execution is %s, want %s", x.Status(time.Now()), test.status)
				}
				if got := exists(t, path); got != test.kept {
					t.Errorf("the workspace is there: %v, want %v", got, test.kept)
				}
				if x.DiskBytes != test.bytes {
					t.Errorf("disk use %d, want %d", x.DiskBytes, test.bytes)
				}
			})
		})
	}
}

// sweepOnce lets another engine on the same directory start, which sweeps.
func sweepOnce(t *testing.T, h *couriertest.Harness, dir string) {
	t.Helper()
	e := engine.New(h.Store, new(courier.Registry), &engine.Options{Workspace: dir})
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	if err := e.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestSweep has directories of every kind and age, and two engines that sweep
// them at the same time, one of which can't ask the store.
func TestSweep(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		dir := t.TempDir()
		h.Stub("demo.write", writer)
		e := engine.New(h.Store, h.Registry, &engine.Options{Workspace: dir})
		run := func(then string) courier.ExecutionID {
			x, _ := e.Run(t.Context(), h.Job(strings.Replace(writerJob, "%s", `"stop"`, 1)), &courier.EnqueueOptions{Params: m{"then": then}})
			return x.ID
		}
		const day = 24 * time.Hour
		unknown := "00000000-0000-7000-8000-00000000000"
		want := map[string]bool{ // whether it stays
			string(run("fail")): true,
			unknown + "1":       false,
			unknown + "2":       true,
			"not-an-execution":  true,
			unknown + "3-more":  true,
		}
		completed := string(run(""))
		want[completed] = false // what a removal that failed has left
		for name := range want {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Join(path, "0", "1"), 0o700); err != nil {
				t.Fatal(err)
			}
			for _, f := range []string{"a", "b", "c"} {
				if err := os.WriteFile(filepath.Join(path, "0", "1", f), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			age(t, path, 7*day+time.Minute)
		}
		age(t, filepath.Join(dir, unknown+"2"), 7*day-time.Minute)
		outside := t.TempDir()
		if err := os.Symlink(outside, filepath.Join(dir, unknown+"4")); err != nil {
			t.Fatal(err)
		}
		want[unknown+"4"] = true
		if err := os.WriteFile(filepath.Join(dir, unknown+"5"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		age(t, filepath.Join(dir, unknown+"5"), 365*day)
		want[unknown+"5"] = true // a file is not ours

		blind := engine.New(noAnswers{h.Store}, new(courier.Registry), &engine.Options{Workspace: dir})
		if err := blind.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if list, _ := os.ReadDir(dir); len(list) != len(want) {
			t.Errorf("an engine that can't ask the store has left %v", list)
		}
		for name, old := range map[string]time.Duration{"isolated-1": 7*day + time.Minute, "isolated-2": day} { // of processes of steps
			if err := os.MkdirAll(filepath.Join(dir, name, "x"), 0o700); err != nil {
				t.Fatal(err)
			}
			age(t, filepath.Join(dir, name), old)
			want[name] = old < 7*day
		}
		var others []*engine.Engine
		for range 3 {
			others = append(others, engine.New(h.Store, new(courier.Registry), &engine.Options{Workspace: dir}))
		}
		for _, o := range others {
			if err := o.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		for name, stays := range want {
			if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != stays {
				t.Errorf("%s: %v, should stay: %v", name, err, stays)
			}
		}
		time.Sleep(2 * time.Hour) // the next sweep finds the one that was too young
		synctest.Wait()
		if exists(t, filepath.Join(dir, unknown+"2")) {
			t.Error("no second sweep")
		}
		for _, o := range append(others, blind) {
			if err := o.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if strings.Contains(h.Log(), "sweep") {
			t.Errorf("log: %s", h.Log())
		}
	})
}

// noAnswers is a store that can't say anything about executions.
type noAnswers struct{ store.Store }

func (noAnswers) Execution(ctx, courier.ExecutionID) (courier.Execution, error) {
	return courier.Execution{}, errors.New("the network is down")
}

// TestTwoEnginesInOneDirectory lets two engines work on many executions in one
// tree, each of which must find only its own files.
func TestTwoEnginesInOneDirectory(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		dir := t.TempDir()
		h.Stub("demo.note", func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
			w, err := job.Files().Create("note.txt")
			if err != nil {
				return nil, err
			}
			w.WriteString(string(job.Execution()))
			time.Sleep(time.Second)
			return nil, w.Commit()
		})
		h.Stub("demo.check", func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
			f, err := job.Files().Open("note.txt")
			if err != nil {
				return nil, err
			}
			defer f.Close()
			text := make([]byte, 100)
			n, err := f.Read(text)
			if got := string(text[:n]); got != string(job.Execution()) {
				return nil, errors.Join(err, errors.New("found the note of "+got))
			}
			return nil, nil
		})
		var engines []*engine.Engine
		for range 2 {
			engines = append(engines, engine.New(h.Store, h.Registry, &engine.Options{Workspace: dir}))
		}
		if _, err := h.Engine.Jobs().Define(t.Context(), h.Job(`{"name": "n", "steps": [{"type": "demo.note"}, {"type": "demo.check"}]}`), nil); err != nil {
			t.Fatal(err)
		}
		var ids []courier.ExecutionID
		for range 20 {
			x, err := h.Engine.Enqueue(t.Context(), "n", nil)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, x.ID)
		}
		for _, e := range engines {
			if err := e.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range ids {
			h.Wait(id).RequireState(courier.Completed)
		}
		for _, e := range engines {
			if err := e.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("left are %v, %v", left, err)
		}
	})
}

// TestWorkspaceCanBeRepaired starts an engine in a directory that is no good,
// and again when it is; then somebody removes it while the engine works.
func TestWorkspaceCanBeRepaired(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		dir := filepath.Join(t.TempDir(), "work")
		h.Stub("demo.write", writer)
		if _, err := h.Engine.Jobs().Define(t.Context(), h.Job(strings.Replace(writerJob, "%s", `"stop"`, 1)), nil); err != nil {
			t.Fatal(err)
		}
		e := engine.New(h.Store, h.Registry, &engine.Options{Workspace: dir})
		if err := os.WriteFile(dir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "not a directory") || !strings.Contains(err.Error(), dir) {
			t.Errorf("Start on a file: %v", err)
		}
		if err := errors.Join(os.Remove(dir), os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)); err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "0700") {
			t.Errorf("Start on a directory that others can write to: %v", err)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context()); err != nil {
			t.Fatalf("Start after the repair: %v", err)
		}
		for _, broken := range []func() error{
			func() error { return nil },
			func() error { return os.RemoveAll(dir) }, // as cleaners of temporary directories do
		} {
			if err := broken(); err != nil {
				t.Fatal(err)
			}
			x, err := e.Enqueue(t.Context(), "w", nil)
			if err != nil {
				t.Fatal(err)
			}
			h.Wait(x.ID).RequireState(courier.Completed)
			if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("directory: %v, %v", info, err)
			}
		}
		// What fails while it is no good can be resumed when it is good again.
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		x, err := e.Enqueue(t.Context(), "w", nil)
		if err != nil {
			t.Fatal(err)
		}
		h.Wait(x.ID).RequireState(courier.Failed).RequireError("0700")
		if err := errors.Join(os.Chmod(dir, 0o700), errOf(e.Resume(t.Context(), x.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}))); err != nil {
			t.Fatal(err)
		}
		h.Wait(x.ID).RequireState(courier.Completed)
		if err := e.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A worker that is lost in its first step has not told anybody of its files.
// Who takes over in the same directory removes them all the same.
func TestFilesOfALostWorkerAreRemoved(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		dir := t.TempDir()
		e := engine.New(h.Store, h.Registry, &engine.Options{Workspace: dir})
		h.Stub("demo.a", nil)
		if _, err := e.Jobs().Define(t.Context(), h.Job(`{"name": "a", "steps": [{"type": "demo.a"}]}`), nil); err != nil {
			t.Fatal(err)
		}
		x, err := e.Enqueue(t.Context(), "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		claimDead(t, h, x.ID)
		left := filepath.Join(dir, string(x.ID), "0", "1")
		if err := os.MkdirAll(left, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.Wait(x.ID).RequireState(courier.Completed)
		if exists(t, left) {
			t.Error("files of the lost worker are left")
		}
		if err := e.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
