package depot

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

// TestLinksLeadNowhere: a link in the directory of a depot that leads out of it is not
// followed, whoever has put it there.
func TestLinksLeadNowhere(t *testing.T) {
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	d := filled(t, dir)
	key := InputKey(other, "a")
	if err := os.Symlink(outside, filepath.Join(dir, filesDir, string(other))); err != nil {
		t.Fatal(err)
	}
	final := filepath.Join(dir, fileName(InputKey(some, "link")))
	if err := os.Symlink(filepath.Join(outside, "secret"), final); err != nil {
		t.Fatal(err)
	}
	if err := write(t, d, key, "x"); err == nil {
		t.Error("a file was written through a link")
	}
	for _, k := range []string{key, InputKey(some, "link")} {
		if o, err := d.Open(t.Context(), k); err == nil {
			o.Close()
			t.Errorf("%s was opened through a link", k)
		}
	}
	if got := shown(t, d); strings.Contains(got, "secret") || strings.Contains(got, "link") {
		t.Errorf("listed are %q", got)
	}
	if err := d.Remove(t.Context(), string(some)); err != nil {
		t.Error(err)
	}
	_ = d.Remove(t.Context(), string(other))
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 1 {
		t.Errorf("outside there are %v, %v", entries, err)
	}
}

// TestDamaged: a file that is not as Commit has left it is neither opened nor listed, and
// the error says what to do. Retention removes it in its time.
func TestDamaged(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"empty":             func([]byte) []byte { return nil },
		"cut":               func(b []byte) []byte { return b[:len(b)-1] },
		"cut in the middle": func(b []byte) []byte { return append(b[:3:3], b[10:]...) },
		"longer":            func(b []byte) []byte { return append(b, b...) },
		"another's":         func(b []byte) []byte { return []byte(strings.Replace(string(b), "/b\"", "/x\"", 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d := openAt(t, dir)
			key := ResultKey(some, "b")
			if err := write(t, d, key, "some content that is long"); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, fileName(key))
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, damage(content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err = d.Open(t.Context(), key)
			if courier.ClassOf(err) != courier.ReasonIntegrity || !courier.IsPermanent(err) || !strings.Contains(err.Error(), "restore it") {
				t.Errorf("open: %v", err)
			}
			if name != "another's" { // List can't know by which key it would be opened
				if _, err = d.List(t.Context(), ""); courier.ClassOf(err) != courier.ReasonIntegrity {
					t.Errorf("list: %v", err)
				}
			}
			x := courier.Execution{ID: some, State: courier.Completed}
			c, err := newCleaner(d, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if files, err := c.files(t.Context(), x.ID); err != nil || len(files) != 1 {
				t.Errorf("retention sees %v, %v", files, err)
			}
			if err := write(t, d, key, "new"); err != nil {
				t.Errorf("a damaged file can't be replaced: %v", err)
			}
		})
	}
}

// TestShorter: a file that becomes shorter while it is read gives an error, and no end.
func TestShorter(t *testing.T) {
	dir := t.TempDir()
	d := openAt(t, dir)
	key := InputKey(some, "a")
	if err := write(t, d, key, strings.Repeat("x", 1000)); err != nil {
		t.Fatal(err)
	}
	o, err := d.Open(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if err := os.Truncate(filepath.Join(dir, fileName(key)), 10); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(o); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("read: %v", err)
	}
}

// TestPrivate: other users of the machine get at nothing.
func TestPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	filled(t, dir)
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the permissions %v", name, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
