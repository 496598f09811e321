package storetest

import (
	"os"
	"regexp"
	"testing"
)

// The table in docs/store.md names every case once, and no other.
func TestTableNamesAllCases(t *testing.T) {
	page, err := os.ReadFile("../../docs/store.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]int)
	for _, m := range regexp.MustCompile("(?m)^\\| .+ \\| `([a-z]+/[a-z0-9_]+)` \\|$").FindAllSubmatch(page, -1) {
		listed[string(m[1])]++
	}
	for _, g := range groups() {
		for _, c := range g.Cases {
			name := g.Name + "/" + c.Name
			if listed[name] != 1 {
				t.Errorf("case %s is in the table %d times, want once", name, listed[name])
			}
			delete(listed, name)
		}
	}
	for name := range listed {
		t.Errorf("the table names the case %s, which does not exist", name)
	}
}
