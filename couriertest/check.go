package couriertest

import (
	"io/fs"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
)

// Check reads the files of fsys that match the patterns, and checks the definitions
// in them as a whole with [engine.Check]. It fails the test with a list of all mistakes,
// and logs the warnings. A nil opt means the engine's defaults.
func Check(t testing.TB, fsys fs.FS, r *courier.Registry, opt *engine.Options, patterns ...string) engine.Bundle {
	t.Helper()
	files, err := engine.ReadFiles(fsys, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	b := engine.Check(files, r, opt)
	for _, w := range b.Warnings {
		t.Logf("warning: %s", w)
	}
	if err := b.Err(); err != nil {
		t.Error(err)
	}
	return b
}
