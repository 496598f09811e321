package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckRoots names each root that is not there, or is no directory, with the option.
func TestCheckRoots(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := CheckRoots([]string{dir}); err != nil {
		t.Error(err)
	}
	missing := filepath.Join(dir, "missing")
	err := CheckRoots([]string{missing, dir, file})
	for _, part := range []string{"engine.Options.Roots[0], " + missing + ": no such file", "engine.Options.Roots[2], " + file + ": is not a directory", "make the directory"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v lacks %q", err, part)
		}
	}
}

// TestWritable tries to write where the workspaces are, and leaves nothing there.
func TestWritable(t *testing.T) {
	dir := t.TempDir()
	if err := (Tree{dir}).Writable(); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v is left, %v", entries, err)
	}
	if err := (Tree{filepath.Join(dir, "missing")}).Writable(); err == nil || !strings.Contains(err.Error(), "engine.Options.Workspace") {
		t.Errorf("of a directory that is not there: %v", err)
	}
}
