package remote

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/courierhq/courier"
)

// A counted file system says how often directories are read.
type counted struct {
	fs.ReadDirFS
	reads int
}

func (c *counted) ReadDir(name string) ([]fs.DirEntry, error) {
	c.reads++
	return c.ReadDirFS.ReadDir(name)
}

// Each file is found once, and each directory read once, whatever the pattern.
func TestFind(t *testing.T) {
	tree := fstest.MapFS{"top.csv": {}, "a.txt": {}, "link": {Mode: fs.ModeSymlink | 0o777, Data: []byte("a")}}
	dir := ""
	for range 30 {
		dir += "a/"
		tree[dir+"x.csv"] = &fstest.MapFile{}
		tree[dir+"b/y.csv"] = &fstest.MapFile{}
	}
	for pattern, want := range map[string]struct{ files, reads int }{
		"*.csv":                               {1, 1},
		"a/*.csv":                             {1, 2},
		"*/*.csv":                             {1, 2},
		"a/b/y.csv":                           {1, 3},
		"**/x.csv":                            {30, 61},
		"**/*.csv":                            {61, 61},
		strings.Repeat("**/", 30) + "*.csv":   {61, 61},
		strings.Repeat("**/a/", 12) + "*.csv": {19, 61},
		strings.Repeat("**/*/", 12) + "*.csv": {39, 61},
		"{a,b}/{a,b}/*.csv":                   {2, 61},
		"none/*":                              {0, 1},
	} {
		c := &counted{ReadDirFS: tree}
		found, err := find(c, pattern)
		if err != nil || len(found) != want.files || c.reads > want.reads {
			t.Errorf("%.40s: %d files by reading %d directories, %v; want %d and %d", pattern, len(found), c.reads, err, want.files, want.reads)
		}
		if slices.Sort(found); len(slices.Compact(found)) != want.files {
			t.Errorf("%.40s: a file is found twice", pattern)
		}
	}
	if _, err := find(fstest.MapFS{}, "*"); err != nil {
		t.Error(err)
	}
}

// Patterns that stand for very many are refused before anything is compared.
func TestPatternsThatMultiply(t *testing.T) {
	pattern := strings.Repeat("{a,b}", 30) + "*"
	if err := (Search{Pattern: pattern, Unsafe: UnsafeSkip}).Check(); err == nil || !strings.Contains(err.Error(), "pattern: the braces of") {
		t.Errorf("the error is %v", err)
	}
	glob := true
	job := courier.NewContext(courier.ContextConfig{Workspace: t.TempDir()})
	defer job.Close()
	if _, _, err := (Sources{LocalPath: pattern, Glob: &glob}).Find(job); !courier.IsPermanent(err) || !strings.Contains(fmt.Sprint(err), "stand for more than 1000") {
		t.Errorf("the error is %v", err)
	}
}
