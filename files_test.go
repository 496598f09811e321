package courier_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/stepcontext"
)

// attempt returns the context of one attempt of step 3.
func attempt(t *testing.T, workspace string, n int, roots ...string) *courier.Context {
	t.Helper()
	job := courier.NewContext(courier.ContextConfig{
		Execution: "0198c2f0-0000-7000-8000-000000000001",
		Step:      3, Iteration: []int{2, 0}, Attempt: n,
		Workspace: workspace, Roots: roots,
	})
	t.Cleanup(func() { job.Close() })
	return job
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestContextDirs(t *testing.T) {
	for _, c := range []struct {
		cfg       courier.ContextConfig
		dir, step string
	}{
		{courier.ContextConfig{}, ".", ""},
		{courier.ContextConfig{Step: 4, Attempt: 2}, ".", ""},
		{courier.ContextConfig{Workspace: "w", Step: 4}, "4/1", "4"},
		{courier.ContextConfig{Workspace: "w", Step: 4, Iteration: []int{7, 1}, Attempt: 3}, "4/7/1/3", "4/7/1"},
		{courier.ContextConfig{Workspace: "w", Step: 4, ExecutionAttempt: 2}, "again-2/4/1", "again-2/4"},
	} {
		job := courier.NewContext(c.cfg)
		if job.Files().Dir() != c.dir || job.Files().StepDir() != c.step {
			t.Errorf("%+v: Dir %q, StepDir %q; want %q, %q", c.cfg, job.Files().Dir(), job.Files().StepDir(), c.dir, c.step)
		}
	}
}

// A path that is wrong today is wrong tomorrow: no policy should retry it.
func TestContextRefusesForGood(t *testing.T) {
	job := attempt(t, t.TempDir(), 1, t.TempDir())
	for _, name := range []string{"", "..", "../x", "a/../../x", "/", "/etc/passwd", "a\x00b", string(filepath.Separator) + "tmp"} {
		if _, err := job.Files().Path(name); !courier.IsPermanent(err) {
			t.Errorf("Path(%q): error %v, want a permanent one", name, err)
		}
		if _, _, err := job.Files().Root(name); !courier.IsPermanent(err) {
			t.Errorf("Root(%q): error %v, want a permanent one", name, err)
		}
	}
}

// However the workspace is spelled, its files have one name.
func TestContextPathOfWorkspace(t *testing.T) {
	dir := t.TempDir()
	for _, spelled := range []string{dir, dir + "/", dir + "/x/.."} {
		job := attempt(t, spelled, 1)
		if p, err := job.Files().Path(filepath.Join(dir, "a", "b")); p != "a/b" || err != nil {
			t.Errorf("workspace %q: Path = %q, %v; want a/b", spelled, p, err)
		}
	}
}

func TestCreateMakesDirectories(t *testing.T) {
	dir := t.TempDir()
	job := attempt(t, dir, 1)
	for _, name := range []string{"a/b/c/one", "a/b/two", "three"} {
		w, err := job.Files().Create(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(w, name)
		if err := w.Commit(); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(dir, name)); string(b) != name || err != nil {
			t.Errorf("%s holds %q, %v", name, b, err)
		}
		if got := names(t, filepath.Join(dir, path.Dir(name))); !slices.Contains(got, path.Base(name)) || strings.Contains(strings.Join(got, " "), "courier-tmp") {
			t.Errorf("beside %s: %v", name, got)
		}
	}
}

// What killed attempts leave is removed, whatever the final names were, and
// nothing else is.
func TestRemoveSideFiles(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("ä", 120)
	var left []string
	for n := 1; n <= 3; n++ {
		job := attempt(t, dir, n)
		for _, base := range []string{"a", "b", long} {
			left = append(left, stepcontext.Of(job).SideName(base))
		}
	}
	other := courier.NewContext(courier.ContextConfig{Execution: "other", Step: 3, Iteration: []int{2, 0}})
	keep := []string{"a", "b.courier-tmp", "c.courier-tmp-1", stepcontext.Of(other).SideName("a")}
	for _, name := range slices.Concat(left, keep) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	job := attempt(t, dir, 3)
	if err := job.Files().RemoveSideFiles("a"); err != nil {
		t.Fatal(err)
	}
	want := append(slices.Clone(keep), stepcontext.Of(job).SideName("b"), stepcontext.Of(job).SideName(long))
	slices.Sort(want)
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("after RemoveSideFiles: %q, want %q", got, want)
	}
	for _, name := range []string{"b", long} {
		if err := job.Files().RemoveSideFiles(name); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(keep)
	if got := names(t, dir); !slices.Equal(got, keep) {
		t.Errorf("in the end: %q, want %q", got, keep)
	}
	if err := job.Files().RemoveSideFiles("none/such"); err != nil {
		t.Errorf("without the directory: %v", err)
	}
}

// A retry that writes many files into one directory must not list it for each.
func TestCreateInLargeDirectory(t *testing.T) {
	dir := t.TempDir()
	const n = 2000
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("old-", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	job := attempt(t, dir, 2)
	if _, err := job.Files().Create("first"); err != nil {
		t.Fatal(err)
	}
	allocs := testing.AllocsPerRun(1, func() {
		w, err := job.Files().Create("second")
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
	})
	if allocs > n/2 {
		t.Errorf("Create allocates %v times in a directory of %d files, so it lists it again", allocs, n)
	}
}

func TestOpenSaysWhereRelativePathsStart(t *testing.T) {
	job := courier.NewContext(courier.ContextConfig{Workspace: t.TempDir()})
	defer job.Close()
	_, err := job.Files().Open("in/a.txt")
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "in/a.txt") || !strings.Contains(err.Error(), "workspace") {
		t.Errorf("Open of a missing file: %v", err)
	}
}

// TestNoWayOut: links lead out of the workspace in none of the ways in which
// package os has once let them (CVE-2025-22873, CVE-2026-27139, CVE-2026-32282,
// CVE-2026-39822).
func TestNoWayOut(t *testing.T) {
	out, work := t.TempDir(), t.TempDir()
	job := attempt(t, work, 1)
	err := errors.Join(os.WriteFile(filepath.Join(out, "secret"), []byte("secret"), 0o600), os.Mkdir(filepath.Join(work, "d"), 0o700),
		os.WriteFile(filepath.Join(work, "d", "secret"), []byte("1"), 0o600))
	for link, target := range map[string]string{"link": out, "file": filepath.Join(out, "secret"), "up": "..", "d/up": "../.."} {
		err = errors.Join(err, os.Symlink(target, filepath.Join(work, link)))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"link/secret", "link//secret", "./link/secret", "link/./secret", "link/x", "link/x/y", "file", "file/", "../secret", "d/../../secret",
		"up/" + filepath.Base(out) + "/secret", "d/up/" + filepath.Base(out) + "/secret", "link/../link/secret",
	} {
		if f, err := job.Files().Open(name); err == nil {
			text, _ := io.ReadAll(f)
			f.Close()
			if string(text) == "secret" {
				t.Errorf("%s can be read", name)
			}
		}
		if info, err := job.Files().Stat(name); err == nil && info.Size() == int64(len("secret")) && info.Mode().IsRegular() {
			t.Errorf("%s is described", name)
		}
		if f, err := job.Files().Create(name); err == nil {
			f.WriteString("ours")
			f.Commit() // which replaces a link at most
			f.Close()
		}
		job.Files().MkdirAll(name + "/z")
	}
	root, _, err := job.Files().Root("d")
	if err != nil {
		t.Fatal(err)
	}
	if err := root.Chmod("link/secret", 0o644); err == nil {
		t.Error("Chmod follows a link")
	}
	// A directory that is exchanged for a link after it was opened.
	d, err := root.Open("d")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := errors.Join(os.Rename(filepath.Join(work, "d"), filepath.Join(work, "old")), os.Symlink(out, filepath.Join(work, "d"))); err != nil {
		t.Fatal(err)
	}
	infos, _ := d.Readdir(-1)
	for _, info := range infos {
		if info.Name() == "secret" && info.Size() != 1 {
			t.Errorf("what is described is the file outside: %v", info)
		}
	}
	for _, name := range []string{"link/", "link/secret", "link/.", "up/"} {
		job.Files().Remove(name)
	}
	if got := names(t, out); len(got) != 1 {
		t.Errorf("outside is %q", got)
	}
	text, err := os.ReadFile(filepath.Join(out, "secret"))
	info, _ := os.Stat(filepath.Join(out, "secret"))
	if err != nil || string(text) != "secret" || info.Mode().Perm() != 0o600 {
		t.Errorf("the file outside is %q, %v, %v", text, info, err)
	}
}
