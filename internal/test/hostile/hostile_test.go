package hostile

import (
	"runtime"
	"slices"
	"testing"

	"github.com/courierhq/courier/internal/safename"
)

func TestNames(t *testing.T) {
	names := Names()
	if len(names) < 200 {
		t.Errorf("only %d names", len(names))
	}
	seen := make(map[string]bool)
	for _, n := range slices.Concat(names, Windows(), Odd()) {
		if seen[n] {
			t.Errorf("%.80q is there twice", n)
		}
		seen[n] = true
	}
	for _, n := range names {
		if safename.Check(n) == nil {
			t.Errorf("%.80q is a good name", n)
		}
	}
	for _, n := range Odd() {
		if err := safename.Check(n); err != nil {
			t.Errorf("%.80q is no good name: %v", n, err)
		}
	}
	for _, n := range Windows() {
		if bad := safename.Check(n) != nil; bad != (runtime.GOOS == "windows") {
			t.Errorf("%.80q: refused is %v", n, bad)
		}
	}
}
