package pgstore_test

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestOnlyLooksTouchExpectations: no statement but those of expectations themselves names their tables.
// So a checkpoint neither writes nor reads anything for them.
func TestOnlyLooksTouchExpectations(t *testing.T) {
	table := regexp.MustCompile(`courier\.(expectations|arrivals)\b`)
	n := 0
	err := fs.WalkDir(os.DirFS("sql"), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile("sql/" + path)
		if table.Match(text) {
			if n++; !strings.HasPrefix(path, "expectation/") {
				t.Errorf("%s names a table of expectations", path)
			}
		}
		return err
	})
	if err != nil || n < 5 {
		t.Errorf("%d statements, %v", n, err)
	}
}
