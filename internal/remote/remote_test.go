package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/note"
)

func TestArchiveNames(t *testing.T) {
	at := time.Date(2026, 5, 6, 7, 8, 9, 123456789, time.FixedZone("east", 3600))
	a := After{Action: AfterArchive, MoveTo: "old"}
	for below, want := range map[string]string{
		"a.csv": "a-20260506T060809.123456Z.csv", "a": "a-20260506T060809.123456Z", "sub/a.tar.gz": "sub/a.tar-20260506T060809.123456Z.gz",
		".hidden": ".hidden-20260506T060809.123456Z", "v1.2/a": "v1.2/a-20260506T060809.123456Z",
	} {
		if got := a.Name(below, at); got != want {
			t.Errorf("%q is archived as %q, want %q", below, got, want)
		}
		if got := (After{Action: AfterMove}).Name(below, at); got != below {
			t.Errorf("%q is moved as %q", below, got)
		}
	}
}

func TestDirectories(t *testing.T) {
	files := []LocalFile{{Below: "b/c/x"}, {Below: "a"}, {Below: "b/y"}, {Below: "d/z"}}
	for base, want := range map[string]string{"": "b b/c d", "in": "in/b in/b/c in/d", "/in/": "/in/b /in/b/c /in/d"} {
		if got := strings.Join(Directories(base, files), " "); got != want {
			t.Errorf("below %q: %q, want %q", base, got, want)
		}
	}
}

// TestReconnecting goes on after losses, so many of them, and after no other
// errors.
func TestReconnecting(t *testing.T) {
	lost, other := &connerr.LostError{Err: io.EOF}, errors.New("refused")
	fatal := courier.Permanent(other)
	for _, test := range []struct {
		outcomes []error
		calls    int
		want     []error
	}{
		{[]error{nil}, 1, nil},
		{[]error{lost, lost, lost, nil}, 4, nil},
		{[]error{lost, lost, lost, lost, nil}, 4, []error{lost}},
		{[]error{other, nil}, 1, []error{other}},
		{[]error{lost, other, nil}, 2, []error{lost, other}},
		{[]error{lost, fatal, nil}, 2, []error{fatal}},
	} {
		calls := 0
		job := courier.NewContext(courier.ContextConfig{})
		err := Reconnecting(t.Context(), job, "partner", connerr.IsLost, func() error {
			calls++
			if err := test.outcomes[calls-1]; err != nil {
				return fmt.Errorf("transfer: %w", err)
			}
			return nil
		})
		job.Close()
		if calls != test.calls || (err == nil) != (test.want == nil) || slices.ContainsFunc(test.want, func(want error) bool { return !errors.Is(err, want) }) {
			t.Errorf("%v: %v after %d calls, want %v after %d", test.outcomes, err, calls, test.want, test.calls)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	err := Reconnecting(ctx, courier.NewContext(courier.ContextConfig{}), "partner", connerr.IsLost, func() error {
		cancel(other)
		return lost
	})
	if err != other {
		t.Errorf("after the end of the context: %v", err)
	}
}

// TestAfterDelete: a local file is deleted after it is noted down that the workspace holds what is
// left of it. If the note can't be written, the file stays.
func TestAfterDelete(t *testing.T) {
	dir := t.TempDir()
	local, held := filepath.Join(dir, "a.csv"), filepath.Join(dir, note.Top, note.Held)
	if err := errors.Join(os.WriteFile(local, []byte("a"), 0o600), os.MkdirAll(held, 0o700)); err != nil { // no file can have that name
		t.Fatal(err)
	}
	job := courier.NewContext(courier.ContextConfig{Execution: "0198c0df-0000-7000-8000-000000000001", Workspace: dir})
	info, err := job.Files().Stat("a.csv")
	if err != nil {
		t.Fatal(err)
	}
	files := []LocalFile{{Local: "a.csv", Was: Identify(info)}}
	err = After{Action: AfterDelete}.Local(t.Context(), job, files, time.Now())
	if _, there := os.Stat(local); err == nil || there != nil {
		t.Errorf("the error is %v, and the file: %v", err, there)
	}
	if err := os.Remove(held); err != nil {
		t.Fatal(err)
	}
	err = After{Action: AfterDelete}.Local(t.Context(), job, files, time.Now())
	if _, there := os.Stat(local); err != nil || !errors.Is(there, os.ErrNotExist) {
		t.Errorf("later: the error is %v, and the file: %v", err, there)
	}
}
