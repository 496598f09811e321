package remote_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/remote"
)

// A pattern uploads no link of a partner to a file of another, neither one that is
// there nor one that takes the place of a file that was found.
func TestSourcesFollowNoLinks(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a/own.csv": "own", "a/swapped.csv": "own", "b/payroll.csv": "secret"} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(name, to string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, "a", name)); err != nil {
			t.Fatalf("the file system has no links: %v", err)
		}
	}
	link("link.csv", "../b/payroll.csv")
	link("dir", "../b")
	job := courier.NewContext(courier.ContextConfig{Execution: "x", Workspace: t.TempDir(), Roots: []string{dir}})
	defer job.Close()
	for _, pattern := range []string{"a/*", "a/*.csv", "a/**", "a/*/*", "a/{link,own,swapped}.csv", "*/link.csv"} {
		glob := true
		q := remote.Sources{LocalPath: courier.Pattern(filepath.ToSlash(dir) + "/" + pattern), Glob: &glob, IgnoreMissing: true}
		found, several, err := q.Find(t.Context(), job)
		if err != nil || !several {
			t.Errorf("%s: %t, %v", pattern, several, err)
		}
		for _, f := range found {
			if strings.Contains(f.Local, "link") || strings.Contains(f.Below, "dir/") || strings.Contains(f.Local, "payroll") {
				t.Errorf("%s finds %q", pattern, f.Local)
			}
		}
	}
	q := remote.Sources{LocalPath: courier.Pattern(filepath.ToSlash(dir) + "/a/*.csv")}
	found, _, err := q.Find(t.Context(), job)
	if err != nil || len(found) != 2 {
		t.Fatal(found, err)
	}
	if err := os.Remove(found[1].Local); err != nil {
		t.Fatal(err)
	}
	link("swapped.csv", "../b/payroll.csv")
	if f, err := q.Open(job, found[1].Local); err == nil {
		f.Close()
		t.Error("a link that has taken the place of a file is opened")
	}
	f, err := q.Open(job, found[0].Local)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// A star that a value has put into done_file stands for itself.
func TestDoneFileOfValues(t *testing.T) {
	literal := courier.Pattern(glob.Literal("*") + ".done")
	both := courier.Pattern(glob.Literal("*") + "-*.done")
	for _, c := range []struct {
		p    courier.Pattern
		want string
	}{{"*.done", "in/x.csv.done"}, {literal, "in/*.done"}, {both, "in/*-x.csv.done"}, {"ready", "in/ready"}} {
		if got := remote.DonePath(c.p, "in/x.csv"); got != c.want {
			t.Errorf("DonePath(%q) = %q, want %q", c.p, got, c.want)
		}
	}
	if remote.IsDoneName(literal, "x.done") || !remote.IsDoneName(literal, "*.done") || !remote.IsDoneName("*.done", "x.done") {
		t.Error("a literal star stands for other names, or a star does not")
	}
}
