package arch_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// unraced matches a test that does nothing under the race detector.
var unraced = regexp.MustCompile(`func (Test\w+)\(t \*testing\.T\) \{\n\tif raced\.On \{\n\t\treturn\b`)

// TestUnracedTestsRun: a test that does nothing under the race detector is one of those that
// .ci/test runs without it.
func TestUnracedTestsRun(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(root, ".ci/test"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, p := range load(t).Packages {
		for _, f := range p.Files {
			for _, m := range unraced.FindAllSubmatch(f.Source, -1) {
				found++
				if !regexp.MustCompile(`[(|^]` + string(m[1]) + `[$)|]`).Match(script) {
					t.Errorf("%s: %s does nothing under the race detector, and .ci/test does not run it without", f.Path, m[1])
				}
			}
		}
	}
	if found < 5 {
		t.Errorf("%d tests were found, so the expression is out of date", found)
	}
}
