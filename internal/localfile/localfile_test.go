package localfile_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/localfile"
)

// TestKind: each kind of file has a name for messages, and a link is one whatever it leads to.
func TestKind(t *testing.T) {
	for mode, want := range map[fs.FileMode]string{
		0o644: "a regular file", fs.ModeDir | 0o755: "a directory", fs.ModeSymlink | 0o777: "a symbolic link", fs.ModeNamedPipe: "a pipe",
		fs.ModeSocket: "a socket", fs.ModeDevice: "a device", fs.ModeDevice | fs.ModeCharDevice: "a device", fs.ModeIrregular: "a special file",
	} {
		if got := localfile.Kind(mode); got != want {
			t.Errorf("%v is %q, want %q", mode, got, want)
		}
	}
}

// TestError: an error of package os begins with the name that the caller gives the file, and still
// matches what it matched. A link that leads out of a root is no mistake that a retry mends.
func TestError(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.WriteFile("file", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(root.Name(), "out")); err != nil {
		t.Fatal(err)
	}
	_, missing := root.Stat("none")
	_, through := root.Stat("file/below")
	_, escapes := root.Stat("out/passwd")
	_, above := root.Stat("../x")
	renamed := root.Rename("none", "other")
	plain := errors.New("it broke")
	for name, c := range map[string]struct {
		err       error
		text      string
		missing   bool
		permanent bool
	}{
		"missing":       {missing, `"in\n/a": no such file or directory`, true, false},
		"through":       {through, `"in\n/a": not a directory`, true, false},
		"renamed":       {renamed, `"in\n/a": no such file or directory`, true, false},
		"out by a link": {escapes, `"in\n/a": a link on this path leads out of the allowed directory, so it is not followed`, false, true},
		"out by dots":   {above, `"in\n/a": a link on this path leads out of the allowed directory, so it is not followed`, false, true},
		"another":       {plain, "it broke", false, false},
		"wrapped":       {fmt.Errorf("copy: %w", missing), "copy: " + missing.Error(), true, false},
	} {
		got := localfile.Error("in\n/a", c.err)
		if got == nil || got.Error() != c.text || localfile.Missing(got) != c.missing || courier.IsPermanent(got) != c.permanent {
			t.Errorf("%s: %v, missing %v, permanent %v", name, got, localfile.Missing(got), courier.IsPermanent(got))
		}
	}
	if localfile.Error("a", nil) != nil || localfile.Missing(nil) {
		t.Error("no error is one")
	}
}

// TestShorten: a name in a message has 200 bytes of valid UTF-8 at most.
func TestShorten(t *testing.T) {
	for name, want := range map[string]string{
		"a.csv": "a.csv", strings.Repeat("x", 200): strings.Repeat("x", 200), strings.Repeat("x", 201): strings.Repeat("x", 200) + "...",
		strings.Repeat("語", 100): strings.Repeat("語", 66) + "...",
	} {
		if got := localfile.Shorten(name); got != want || !utf8.ValidString(got) {
			t.Errorf("%q became %q", name, got)
		}
	}
}

// TestIdentity: a file is the same after a rename, and another one after it was written, touched or
// replaced by a copy.
func TestIdentity(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a")
	stat := func(name string) fs.FileInfo {
		t.Helper()
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	at := time.Date(2026, 11, 20, 8, 0, 0, 1, time.UTC)
	write := func(name, text string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(name, []byte(text), 0o644), os.Chtimes(name, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	write(name, "text")
	id := localfile.Identify(stat(name))
	write(filepath.Join(dir, "copy"), "text")
	if id.Is(nil) || (localfile.Identity{}).Is(stat(name)) || !id.Is(stat(name)) {
		t.Error("a file is itself, and nothing is not")
	}
	if id.Is(stat(filepath.Join(dir, "copy"))) && localfile.Inode(stat(name)) != 0 {
		t.Error("a copy of the same size and time is the file")
	}
	moved := filepath.Join(dir, "moved")
	if err := os.Rename(name, moved); err != nil || !id.Is(stat(moved)) {
		t.Errorf("after a rename it is another file (%v)", err)
	}
	write(moved, "longer text")
	if id.Is(stat(moved)) {
		t.Error("a longer file is the same one")
	}
	write(moved, "TEXT")
	if err := os.Chtimes(moved, at, at.Add(1)); err != nil || id.Is(stat(moved)) {
		t.Errorf("a file with another time is the same one (%v)", err)
	}
}

// TestAccess: what is not there can't be read, and nothing can be made in what is no directory.
func TestAccess(t *testing.T) {
	dir := t.TempDir()
	file, none := filepath.Join(dir, "a"), filepath.Join(dir, "none")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(localfile.MayRead(file), localfile.MayRead(dir), localfile.MayWrite(dir)); err != nil {
		t.Error(err)
	}
	if err := localfile.MayRead(none); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o700)
	if os.Getuid() != 0 && localfile.MayWrite(dir) == nil {
		t.Error("a directory that can't be written can")
	}
}

// TestSyncDir: the names of a directory are made durable. Its error is that of a directory that is
// not there.
func TestSyncDir(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.Mkdir("in", 0o755); err != nil {
		t.Fatal(err)
	}
	for dir, missing := range map[string]bool{".": false, "in": false, "none": true} {
		if err := localfile.SyncDir(root, dir); localfile.Missing(err) != missing || !missing && err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
