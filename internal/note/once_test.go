package note_test

import (
	"errors"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/note"
	"github.com/courierhq/courier/internal/stepcontext"
)

// What a step has begun is known to later attempts, and the result too.
func TestOnce(t *testing.T) {
	dir := t.TempDir()
	once := func(attempt int) note.Once[told] { return note.Once[told]{Job: at(t, dir, 1, attempt)} }
	want := func(attempt int, begun bool, output *told) {
		t.Helper()
		out, got, err := once(attempt).Earlier()
		if got != begun || err != nil || (out == nil) != (output == nil) || out != nil && *out != *output {
			t.Errorf("attempt %d finds %v, %v, %v; want %v, %v", attempt, out, got, err, output, begun)
		}
	}
	want(1, false, nil)
	if err := once(1).Begin(); err != nil {
		t.Fatal(err)
	}
	want(2, true, nil)
	if err := once(2).Forget(); err != nil {
		t.Fatal(err)
	}
	want(3, false, nil)
	done := told{"done", "12345678901234567890"}
	if err := errors.Join(once(3).Begin(), once(3).Complete(done)); err != nil {
		t.Fatal(err)
	}
	want(4, true, &done)

	nowhere := note.Once[told]{Job: stepcontext.Of(&courier.Context{})}
	if err := nowhere.Begin(); !errors.Is(err, note.ErrNoPlace) || !courier.IsPermanent(err) {
		t.Errorf("without a workspace: %v", err)
	}
}
