package arch_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^):]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	fenced  = regexp.MustCompile("(?ms)^ *```.*?^ *```")
)

// anchor is the fragment by which a heading is linked to.
func anchor(heading string) string {
	return strings.ReplaceAll(strings.ToLower(dropped.ReplaceAllString(heading, "")), " ", "-")
}

// pages returns the text of all pages, by their paths.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "testdata" || name != "." && strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if err != nil || path.Ext(name) != ".md" {
			return err
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		all[name] = fenced.ReplaceAllString(string(text), "")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestLinks follows the links between the project's own pages, to their headings too.
func TestLinks(t *testing.T) {
	all := pages(t)
	for page, text := range all {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			name, fragment, _ := strings.Cut(m[1], "#")
			target := path.Join(path.Dir(page), name)
			if name == "" {
				target = page
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
				continue
			}
			if fragment == "" {
				continue
			}
			found := false
			for _, h := range heading.FindAllStringSubmatch(all[target], -1) {
				found = found || anchor(h[1]) == fragment
			}
			if !found {
				t.Errorf("%s links to %s, and %s has no such heading", page, m[1], target)
			}
		}
	}
}

// TestIndex: docs/README.md leads to every page of the documentation.
func TestIndex(t *testing.T) {
	all := pages(t)
	for page := range all {
		if below, ok := strings.CutPrefix(page, "docs/"); ok && below != "README.md" && !strings.Contains(all["docs/README.md"], "]("+below) {
			t.Errorf("docs/README.md has no link to %s", below)
		}
	}
}
