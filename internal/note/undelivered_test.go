package note

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func workspace(t *testing.T) (*os.Root, string) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root, dir
}

func write(t *testing.T, dir, name, text string) *os.File {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestReadUndelivered reads lines in their order: a file stays undelivered until each step at
// which it was is completed, or until it was kept aside.
func TestReadUndelivered(t *testing.T) {
	root, dir := workspace(t)
	for _, c := range []struct {
		line UndeliveredFile
		want map[string][]string
	}{
		{UndeliveredFile{"a", "s[0]"}, map[string][]string{"a": {"s[0]"}}},
		{UndeliveredFile{"a", "s[0]"}, map[string][]string{"a": {"s[0]"}}},
		{UndeliveredFile{"b", "s[0]"}, map[string][]string{"a": {"s[0]"}, "b": {"s[0]"}}},
		{UndeliveredFile{"a", "t[]"}, map[string][]string{"a": {"s[0]", "t[]"}, "b": {"s[0]"}}},
		{UndeliveredFile{"", "s[0]"}, map[string][]string{"a": {"t[]"}}},
		{UndeliveredFile{"", "u[]"}, map[string][]string{"a": {"t[]"}}},
		{UndeliveredFile{"a", ""}, map[string][]string{}},
	} {
		if err := AppendLines(root, Undelivered, true, []UndeliveredFile{c.line}); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadUndelivered(root); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("after %+v: %v, %v; want %v", c.line, got, err, c.want)
		}
	}
	f, err := os.OpenFile(filepath.Join(dir, Top, Undelivered), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(`{"path": "c", "pl`); err != nil { // the machine went down
		t.Fatal(err)
	}
	if err := AppendLines(root, Undelivered, false, []UndeliveredFile{{"d", "s[1]"}}); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadUndelivered(root); err != nil || !reflect.DeepEqual(got, map[string][]string{"d": {"s[1]"}}) {
		t.Errorf("behind a line that was cut off: %v, %v", got, err)
	}
}

// TestKeepAside keeps files aside, also if that was interrupted in its midst, and where the
// file system has no links.
func TestKeepAside(t *testing.T) {
	root, dir := workspace(t)
	write(t, dir, "in.txt", "first")
	if got, err := FindAside(root, "in.txt", write(t, dir, "same", "first")); err != nil || got != "" {
		t.Errorf("of the same content: %q, %v", got, err)
	}
	if got, err := FindAside(root, "missing", write(t, dir, "other", "other")); err != nil || got != "" {
		t.Errorf("of nothing: %q, %v", got, err)
	}
	for range 2 { // an attempt that was interrupted behind the link has kept it already
		got, err := FindAside(root, "in.txt", write(t, dir, "other", "other"))
		if err != nil || got != ".notes/aside/1/in.txt" {
			t.Fatalf("%q, %v", got, err)
		}
		if err := KeepAside(root, "in.txt", got); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "in.txt")); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "in.txt", "2nd..")
	second, err := FindAside(root, "in.txt", write(t, dir, "other", "other"))
	if err != nil || second != ".notes/aside/2/in.txt" {
		t.Fatalf("%q, %v", second, err)
	}
	if err := os.MkdirAll(filepath.Join(dir, ".notes/aside/2"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := copyFile(root, "in.txt", second); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{".notes/aside/1/in.txt": "first", second: "2nd..", "in.txt": "2nd.."} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}
