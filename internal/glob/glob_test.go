package glob_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/glob"
)

func TestSplit(t *testing.T) {
	lit := courier.Literal
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
	if glob.Looks(p, nil) || !glob.Looks(p, &yes) || glob.Looks("in/*", &no) || !glob.Looks("in/*", nil) {
		t.Error("Looks takes a value for a pattern, or a pattern for a path")
	}
	if _, rest := glob.Split(glob.Whole(p, &yes)); rest != "*" || glob.Whole(p, nil) != p {
		t.Errorf("glob true leaves %q", rest)
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
	root, rel, err := job.Root(filepath.Join(dir, "a"))
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
	if err != nil || !slices.Equal(regular, []string{"own.csv"}) || !slices.Equal(other, []string{"dir", "file"}) {
		t.Errorf("found %q and %q, %v", regular, other, err)
	}
}
