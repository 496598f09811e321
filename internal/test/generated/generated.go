// Package generated compares the parts of documents that are made from the code.
package generated

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Part fails the test unless a part of a page is as it is made now. The part stands between two
// lines, of which the first one says how to make it anew. With update it is written.
func Part(t testing.TB, page, begin, end, part string, update bool) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want, err := replaced(string(text), begin, end, part)
	switch {
	case err != nil:
		t.Fatalf("%s: %v", page, err)
	case want == string(text):
	case update:
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("a part of %s is not what the code says; it begins behind this line, which says how to write it:\n%s", page, begin)
	}
}

// replaced puts a part between two lines of a text.
func replaced(text, begin, end, part string) (string, error) {
	before, rest, begun := strings.Cut(text, begin)
	_, after, ended := strings.Cut(rest, end)
	if !begun || !ended {
		return "", fmt.Errorf("these two lines are missing:\n%s%s", begin, end)
	}
	return before + begin + part + end + after, nil
}
