package courier_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/courierhq/courier"
)

// TestDryRunContext: in a dry run files can be read, and nothing can be written.
func TestDryRunContext(t *testing.T) {
	root := t.TempDir()
	workspace := filepath.Join(t.TempDir(), "none", "0198")
	there := filepath.Join(root, "there")
	if err := os.WriteFile(there, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	job := courier.NewContext(courier.ContextConfig{Execution: "0198", Workspace: workspace, Roots: []string{root}, DryRun: true})
	defer job.Close()
	if !job.DryRun() || new(courier.Context).DryRun() {
		t.Error("DryRun does not tell whether it is one")
	}
	f, err := job.Files().Open(there)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if text, err := io.ReadAll(f); string(text) != "content" {
		t.Errorf("read %q, %v", text, err)
	}
	for _, name := range []string{"a", "a/b", filepath.Join(root, "a")} {
		if _, err := job.Files().Stat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("stat %s: %v", name, err)
		}
	}
	if _, err := job.Files().Path("../a"); err == nil {
		t.Error("a path that leads out of the workspace is no error any more")
	}
	for name, write := range map[string]func(string) error{
		"create": func(name string) error { _, err := job.Files().Create(name); return err },
		"mkdir":  job.Files().MkdirAll, "remove": job.Files().Remove, "report": job.Files().Wrote, "sweep": job.Files().RemoveSideFiles,
	} {
		for _, file := range []string{"a", there} {
			if err := write(file); err == nil || !courier.IsPermanent(err) || !strings.Contains(err.Error(), "a dry run writes nothing") {
				t.Errorf("%s %s: %v", name, file, err)
			}
		}
	}
	if _, err := os.Stat(filepath.Dir(workspace)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a workspace: %v", err)
	}
	if text, err := os.ReadFile(there); string(text) != "content" {
		t.Errorf("the file is %q, %v", text, err)
	}
}
