package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/steps/file"
)

// TestRetryJobAfterMove fails a job behind steps that took files away, and begins
// it again: the file that only the workspace holds is not lost, what the job makes
// again is moved again, and what came from elsewhere stays.
func TestRetryJobAfterMove(t *testing.T) {
	in := t.TempDir()
	couriertest.Virtual(t, &engine.Options{Roots: []string{in}}, func(t *testing.T, h *couriertest.Harness) {
		file.Register(h.Registry, nil)
		write := func(name, content string) {
			if err := os.WriteFile(filepath.Join(in, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("a", "the only one")
		write("source", "first")
		fails := 1
		h.Stub("demo.fails", func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
			if fails--; fails < 0 {
				return nil, nil
			}
			write("a", "another's")
			write("source", "second")
			return nil, errBoom
		})
		var held string
		h.Stub("demo.looks", func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
			f, err := job.Files().Open("taken/b")
			if err != nil {
				return nil, err
			}
			defer f.Close()
			text := make([]byte, 100)
			n, _ := f.Read(text)
			held = string(text[:n])
			return nil, nil
		})
		at := func(name string) string { return filepath.ToSlash(filepath.Join(in, name)) }
		r := h.Run(h.Job(`{"name": "a", "failure_policy": "retry_job", "steps": [
			{"type": "file.move", "config": {"source_path": "`+at("a")+`", "destination_path": "taken/a"}},
			{"type": "file.move", "config": {"source_path": "taken/a", "destination_path": "taken/b"}},
			{"type": "file.copy", "config": {"source_path": "`+at("source")+`", "destination_path": "c"}},
			{"type": "file.move", "config": {"source_path": "c", "destination_path": "`+at("out")+`"}},
			{"type": "demo.looks"}, {"type": "demo.fails"}]}`), nil).RequireState(courier.Completed)
		if r.Attempt != 2 || held != "the only one" {
			t.Errorf("attempt %d has %q", r.Attempt, held)
		}
		for name, want := range map[string]string{"a": "another's", "out": "second"} {
			if got, err := os.ReadFile(filepath.Join(in, name)); string(got) != want {
				t.Errorf("%s holds %q, %v, want %q", name, got, err, want)
			}
		}
	})
}

// TestNotesOfARestartedLoop lets an operator start a loop again that moves a file,
// after putting a new one in its place: what the first pass noted down does not
// decide, and what the second one did is known when the job is begun again.
func TestNotesOfARestartedLoop(t *testing.T) {
	in := t.TempDir()
	couriertest.Virtual(t, &engine.Options{Roots: []string{in}}, func(t *testing.T, h *couriertest.Harness) {
		file.Register(h.Registry, nil)
		a, out := filepath.ToSlash(filepath.Join(in, "a")), filepath.ToSlash(filepath.Join(in, "out"))
		write := func(content string) {
			if err := os.WriteFile(a, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var dirs []string
		h.Stub("demo.fails", func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
			if dirs = append(dirs, stepcontext.Of(job).NoteDir()); len(dirs) < 4 {
				return nil, errBoom
			}
			return nil, nil
		})
		write("first")
		r := h.Run(h.Job(`{"name": "a", "failure_policy": {"type": "retry_job", "max_retries": 1}, "steps": [
			{"type": "flow.foreach", "config": {"source": ["x"], "on_resume": "restart"}},
			{"type": "file.move", "config": {"source_path": "`+a+`", "destination_path": "`+out+`"}},
			{"type": "demo.fails"}, {"type": "flow.end"}]}`), nil).RequireState(courier.Failed)
		write("second")
		if err := errors.Join(errOf(h.Engine.Resume(t.Context(), r.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}})), h.Engine.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
		r = h.Wait(r.ID).RequireState(courier.Completed)
		if got, err := os.ReadFile(out); r.Attempt != 3 || string(got) != "second" {
			t.Errorf("attempt %d moved %q, %v", r.Attempt, got, err)
		}
		if len(dirs) != 4 || dirs[0] != dirs[1] || dirs[2] == dirs[1] {
			t.Errorf("the notes were in %q", dirs)
		}
	})
}

// TestRetryJobKeepsFirstCause fails the second attempt of a job for another reason
// than the first.
func TestRetryJobKeepsFirstCause(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.a", func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
			if job.ExecutionAttempt() == 1 && !job.Repeated() {
				return nil, errBoom
			}
			if !job.Repeated() {
				t.Error("the step does not know that it was started before")
			}
			return nil, os.ErrNotExist
		})
		r := h.Run(h.Job(`{"name": "a", "failure_policy": {"type": "retry_job", "max_retries": 2}, "steps": [{"type": "demo.a"}]}`), nil).RequireState(courier.Failed)
		if r.Attempt != 3 || !strings.HasSuffix(r.Failure.Message, "; attempt 1 of the job had failed in step 0 (demo.a) with: "+errBoom.Error()) {
			t.Errorf("attempt %d: %s", r.Attempt, r.Failure.Message)
		}
	})
}
