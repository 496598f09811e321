package archive_test

import (
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/courierhq/courier/internal/archive"
	"github.com/courierhq/courier/internal/test/hostile"
)

// TestHostileNames: no name that is hostile to other connectors gets into a
// directory from an archive, on any system, but for those that only a listing has to refuse:
// paths that stay inside, and a character that there may stand for another.
func TestHostileNames(t *testing.T) {
	passing := map[string]bool{
		"sub/file": true, "~/x": true, "~root/.ssh/authorized_keys": true, "..;/x": true, "..\u2215/x": true, "x": true,
		"replaced\uFFFD": true, "\uFFFD": true,
	}
	for _, name := range hostile.Names() {
		if archive.CheckName(strings.TrimSuffix(name, "/")) == nil && !passing[strings.TrimSuffix(name, "/")] {
			t.Errorf("%.80q passes", name)
		}
	}
}

// FuzzName checks that a name that is accepted means one file below a directory, on
// every system.
func FuzzName(f *testing.F) {
	for _, name := range append(hostile.EntryNames(), hostile.GoodEntryNames()...) {
		f.Add(strings.TrimSuffix(name, "/"))
	}
	const base = "/base/dir"
	f.Fuzz(func(t *testing.T, name string) {
		if archive.CheckName(name) != nil {
			return
		}
		joined := filepath.ToSlash(filepath.Join(base, filepath.FromSlash(name)))
		switch {
		case joined != base+"/"+name:
			t.Errorf("%q becomes %q", name, joined)
		case !filepath.IsLocal(filepath.FromSlash(name)) || path.Clean(name) != name || !fs.ValidPath(name) || name == ".":
			t.Errorf("%q is not local or not clean", name)
		case !utf8.ValidString(name) || strings.ContainsAny(name, "\\\x00\r\n\x1b\u202e") || len(name) > 1 && name[1] == ':' && unicode.IsLetter(rune(name[0])):
			t.Errorf("%q has forbidden characters", name)
		}
		for _, e := range strings.Split(name, "/") {
			if e == "" || strings.Trim(e, ". ") == "" || strings.TrimRight(e, ". ") != e || len(e) > 255 {
				t.Errorf("%q has the element %q", name, e)
			}
		}
	})
}
