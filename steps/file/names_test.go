package file_test

import (
	"strings"
	"testing"

	"github.com/courierhq/courier/internal/test/hostile"
	"github.com/courierhq/courier/steps/file"
)

// No name that is hostile to other connectors gets into a directory from an
// archive, on any system, but for those that only a listing has to refuse:
// paths that stay inside, and a character that there may stand for another.
func TestHostileNamesOfAll(t *testing.T) {
	passing := map[string]bool{
		"sub/file": true, "~/x": true, "~root/.ssh/authorized_keys": true, "..;/x": true, "..\u2215/x": true, "x": true,
		"replaced\uFFFD": true, "\uFFFD": true,
	}
	for _, name := range hostile.Names() {
		if file.CheckEntryName(strings.TrimSuffix(name, "/")) == nil && !passing[strings.TrimSuffix(name, "/")] {
			t.Errorf("%.80q passes", name)
		}
	}
}
