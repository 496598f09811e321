package glob_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/glob"
)

func TestSplit(t *testing.T) {
	lit := glob.Literal
	for _, c := range []struct {
		p          courier.Pattern
		base, rest string
	}{
		{"*.csv", ".", "*.csv"},
		{"in/*.csv", "in", "*.csv"},
		{"/*", "/", "*"},
		{"/in/a/**", "/in/a", "**"},
		{"in/x", "in", "x"},
		{`in\*/x*`, "in*", "x*"},
		{courier.Pattern("/in/" + lit("a[1]") + "/*"), "/in/a[1]", "*"},
		{courier.Pattern("/in/" + lit("*")), "/in", `\*`},
		{courier.Pattern(lit("/in/*/x") + "*"), "/in/*", `x*`},
		{courier.Pattern(lit("/in/*") + "*"), "/in", `\**`},
		{courier.Pattern(lit("*")), ".", `\*`},
		{courier.Pattern("in/" + lit("a?/b?") + "/*/" + lit("c?")), "in/a?/b?", `*/c\?`},
	} {
		if base, rest := glob.Split(c.p); base != c.base || rest != c.rest {
			t.Errorf("Split(%q) = %q, %q, want %q, %q", string(c.p), base, rest, c.base, c.rest)
		}
	}
	yes, no := true, false
	p := courier.Pattern("in/" + lit("*"))
	if glob.Looks(p, nil) || !glob.Looks(p, &yes) || glob.Looks(courier.Pattern("in/*"), &no) || !glob.Looks(courier.Pattern("in/*"), nil) {
		t.Error("Looks takes a value for a pattern, or a pattern for a path")
	}
	if _, rest := glob.Split(glob.Whole(p, &yes)); rest != "*" || glob.Whole(p, nil) != p {
		t.Errorf("glob true leaves %q", rest)
	}
}

func TestDepth(t *testing.T) {
	for rest, want := range map[string]int{"*": 1, "*/x": 2, "a*/b/c": 3, "**": -1, "*/**/x": -1} {
		if got := glob.Depth(rest); got != want {
			t.Errorf("Depth(%q) = %d, want %d", rest, got, want)
		}
	}
}

// A tree is a directory with files, and a context whose roots have it.
type tree struct {
	t     *testing.T
	path  string
	dir   glob.Dir
	job   *courier.Context
	calls int // of Progress
}

func newTree(t *testing.T, files ...string) *tree {
	t.Helper()
	f := &tree{t: t, path: t.TempDir()}
	for _, n := range files {
		p := filepath.Join(f.path, n)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.job = courier.NewContext(courier.ContextConfig{
		Execution: "x", Workspace: t.TempDir(), Roots: []string{f.path}, OnProgress: func(courier.Progress) { f.calls++ },
	})
	t.Cleanup(func() { f.job.Close() })
	root, rel, err := f.job.Files().Root(f.path)
	if err != nil {
		t.Fatal(err)
	}
	f.dir = glob.Dir{Root: root, Rel: rel, Name: "in"}
	return f
}

// walk returns what Walk visits, sorted, after calling visit for each.
func (f *tree) walk(ctx context.Context, depth int, visit func(below string) error) ([]string, error) {
	var found []string
	err := glob.Walk(ctx, f.job, f.dir, depth, func(below string, _ fs.FileMode) error {
		found = append(found, below)
		if visit == nil {
			return nil
		}
		return visit(below)
	})
	slices.Sort(found)
	return found, err
}

func TestWalkDepth(t *testing.T) {
	f := newTree(t, "a", "d/b", "d/e/c", "d/e/f/g")
	for depth, want := range map[int][]string{
		1: {"a", "d"}, 2: {"a", "d", "d/b", "d/e"}, 3: {"a", "d", "d/b", "d/e", "d/e/c", "d/e/f"},
		-1: {"a", "d", "d/b", "d/e", "d/e/c", "d/e/f", "d/e/f/g"},
	} {
		if got, err := f.walk(t.Context(), depth, nil); err != nil || !slices.Equal(got, want) {
			t.Errorf("depth %d: %q, %v, want %q", depth, got, err, want)
		}
	}
}

// A walk ends with the error of visit, with the cause of the end of its context,
// and with the error about a directory as Fault makes it. A directory that is
// gone, or is a link by now, was never there.
func TestWalkEnds(t *testing.T) {
	bad, cause := errors.New("bad"), errors.New("cause")
	f := newTree(t, "d/a", "d/b")
	if got, err := f.walk(t.Context(), -1, func(string) error { return bad }); err != bad || len(got) != 1 {
		t.Errorf("visit fails: %q, %v", got, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	got, err := f.walk(ctx, -1, func(string) error { cancel(cause); return nil })
	if err != cause || len(got) != 1 {
		t.Errorf("cancelled on the way: %q, %v", got, err)
	}
	if got, err := f.walk(ctx, -1, nil); err != cause || len(got) != 0 {
		t.Errorf("cancelled before: %q, %v", got, err)
	}

	var where string
	f.dir.Fault = func(below string, err error) error {
		where = below
		return fmt.Errorf("seen: %w", err)
	}
	f.dir.Rel = filepath.Join(f.dir.Rel, "missing")
	if _, err := f.walk(t.Context(), -1, nil); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "seen: ") || where != "" {
		t.Errorf("no such directory: %v at %q", err, where)
	}
	f.dir.Fault = nil
	if _, err := f.walk(t.Context(), -1, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such directory, without Fault: %v", err)
	}

	for how, change := range map[string]func(path string) error{
		"removed": os.RemoveAll,
		"a link":  func(path string) error { return errors.Join(os.Rename(path, path+"2"), os.Symlink("d2", path)) },
		"a link that leads out": func(path string) error {
			return errors.Join(os.RemoveAll(path), os.Symlink(filepath.Dir(filepath.Dir(path)), path))
		},
		"a file": func(path string) error { return errors.Join(os.RemoveAll(path), os.WriteFile(path, nil, 0o600)) },
	} {
		f := newTree(t, "d/a", "e/b")
		got, err := f.walk(t.Context(), -1, func(below string) error {
			if below == "d" {
				return change(filepath.Join(f.path, "d"))
			}
			return nil
		})
		got = slices.DeleteFunc(got, func(below string) bool { return strings.HasPrefix(below, "d2") }) // listed or not
		if err != nil || !slices.Equal(got, []string{"d", "e", "e/b"}) {
			t.Errorf("a directory is %s: %q, %v", how, got, err)
		}
	}
}

// A walk reports progress after a thousand entries, so that it does not count as
// stalled, in however many directories they are.
func TestWalkProgress(t *testing.T) {
	var files []string
	for i := range 2100 {
		files = append(files, fmt.Sprintf("%d/%d", i%3, i))
	}
	f := newTree(t, files...)
	if got, err := f.walk(t.Context(), -1, nil); err != nil || len(got) != 2103 || f.calls != 1 {
		t.Errorf("%d entries, %d calls of Progress, %v", len(got), f.calls, err)
	}
}

// Links are named as links, and nothing behind them.
func TestWalkFollowsNoLinks(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []string{"a/own.csv", "b/payroll.csv"} {
		p := filepath.Join(dir, n)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"file": "../b/payroll.csv", "dir": "../b"} {
		if err := os.Symlink(to, filepath.Join(dir, "a", name)); err != nil {
			t.Fatalf("the file system has no links: %v", err)
		}
	}
	job := courier.NewContext(courier.ContextConfig{Execution: "x", Workspace: t.TempDir(), Roots: []string{dir}})
	defer job.Close()
	root, rel, err := job.Files().Root(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	var regular, other []string
	err = glob.Walk(context.Background(), job, glob.Dir{Root: root, Rel: rel}, -1, func(below string, typ fs.FileMode) error {
		if typ.IsRegular() {
			regular = append(regular, below)
		} else {
			other = append(other, below)
		}
		return nil
	})
	slices.Sort(other)
	if err != nil || !slices.Equal(regular, []string{"own.csv"}) || !slices.Equal(other, []string{"dir", "file"}) {
		t.Errorf("found %q and %q, %v", regular, other, err)
	}
}
