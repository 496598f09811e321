package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/steps/file"
)

// TestNotesOfTheLastPass begins a job again behind a loop that an operator had
// started again: its steps go on with the notes of that pass, and not with those of
// the first one, so nothing is taken twice, and what the pass has taken is there.
func TestNotesOfTheLastPass(t *testing.T) {
	in := t.TempDir()
	couriertest.Virtual(t, &engine.Options{Roots: []string{in}}, func(t *testing.T, h *couriertest.Harness) {
		file.Register(h.Registry, nil)
		source := filepath.ToSlash(filepath.Join(in, "a"))
		write := func(content string) {
			if err := os.WriteFile(source, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		taken := 0
		h.Stub("demo.takes", func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
			root, rel, err := job.Files().Root(stepcontext.Of(job).NoteDir() + "/taken")
			if err != nil {
				return nil, err
			}
			if _, err := root.Stat(rel); err == nil {
				return nil, nil
			}
			taken++
			return nil, errors.Join(root.MkdirAll(filepath.Dir(rel), 0o700), root.WriteFile(rel, nil, 0o600))
		})
		var held []string
		failures := 3
		h.Stub("demo.fails", func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
			root, rel, err := job.Files().Root("w/a")
			if err != nil {
				return nil, err
			}
			content, err := root.ReadFile(rel)
			if held = append(held, string(content)); err != nil {
				return nil, err
			}
			if failures--; failures >= 0 {
				return nil, errBoom
			}
			return nil, nil
		})
		write("first")
		r := h.Run(h.Job(`{"name": "a", "failure_policy": {"type": "retry_job", "max_retries": 1}, "steps": [
			{"type": "flow.foreach", "config": {"source": ["x"], "on_resume": "restart"}},
			{"type": "demo.takes"},
			{"type": "file.move", "config": {"source_path": "`+source+`", "destination_path": "w/a"}},
			{"type": "demo.fails"}, {"type": "flow.end"}]}`), nil).RequireState(courier.Failed)
		if taken != 1 {
			t.Errorf("the first pass has taken %d times", taken)
		}
		write("second")
		if err := errors.Join(errOf(h.Engine.Resume(t.Context(), r.ID, &courier.ResumeOptions{By: courier.By{Actor: "ops"}})), h.Engine.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
		r = h.Wait(r.ID).RequireState(courier.Completed)
		if r.Attempt != 3 || taken != 2 {
			t.Errorf("attempt %d, taken %d times, want once in each pass", r.Attempt, taken)
		}
		if want := []string{"first", "first", "second", "second"}; len(held) != 4 || held[1] != want[1] || held[2] != want[2] || held[3] != want[3] {
			t.Errorf("the files were %q, want %q", held, want)
		}
	})
}
