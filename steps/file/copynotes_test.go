package file

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/courierhq/courier"
)

// TestCopyOverOwn: a new attempt of the execution that dies while it replaces the copy
// of the attempt before leaves that known as the step's own.
func TestCopyOverOwn(t *testing.T) {
	for _, value := range []IfExists{Skip, Fail} {
		work, allowed := t.TempDir(), t.TempDir()
		source, target := filepath.Join(allowed, "a"), filepath.Join(allowed, "b")
		cfg := CopyConfig{SourcePath: courier.Pattern(source), DestinationPath: target, IfExists: value}
		in := func(attempt int) *courier.Context {
			return courier.NewContext(courier.ContextConfig{Execution: "x", Workspace: work, Roots: []string{allowed}, Attempt: attempt, ExecutionAttempt: attempt})
		}
		run := func(attempt int, content string) {
			job := in(attempt)
			defer job.Close()
			if err := os.WriteFile(source, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := Copy{}.Execute(t.Context(), job, cfg)
			if got, _ := os.ReadFile(target); err != nil || out.Skipped || string(got) != content {
				t.Errorf("%s, attempt %d: %+v, %v, the copy is %q", value, attempt, out, err, got)
			}
		}
		run(1, "first")
		// The second attempt notes down its copy, and dies before that has its name.
		job := in(2)
		own, err := openCopies(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		w, err := job.Files().Create(target)
		if err != nil {
			t.Fatal(err)
		}
		if err := own.note(target, w, 2); err != nil {
			t.Fatal(err)
		}
		w.Close()
		own.journal.Close()
		job.Close()
		run(3, "the third")
	}
}
