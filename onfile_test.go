package courier_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/stepcontext"
)

// fileWork uses every operation that OnFile announces, and returns the first
// error.
func fileWork(job *courier.Context) error {
	create := func(name string, write func(w *courier.PendingFile) error) error {
		w, err := job.Files().Create(name)
		if err != nil {
			return err
		}
		defer w.Close()
		if err := write(w); err != nil {
			return err
		}
		return w.Commit()
	}
	for _, f := range []func() error{
		func() error { return job.Files().MkdirAll("in") },
		func() error {
			return create("in/a", func(w *courier.PendingFile) error {
				_, err := w.Write([]byte("a"))
				return err
			})
		},
		func() error {
			return create("b", func(w *courier.PendingFile) error {
				if _, err := w.WriteAt([]byte("b"), 1); err != nil {
					return err
				}
				_, err := io.WriteString(w, "B")
				return err
			})
		},
		func() error {
			r, err := job.Files().Open("in/a")
			if err != nil {
				return err
			}
			defer r.Close()
			return create("c", func(w *courier.PendingFile) error {
				_, err := io.Copy(w, struct{ io.Reader }{r})
				return err
			})
		},
		func() error { _, err := job.Files().Stat("c"); return err },
		func() error { _, _, err := job.Files().Root("."); return err },
		func() error { return job.Files().RemoveSideFiles("c") },
		func() error { return job.Files().Remove("in/a") },
		func() error { return stepcontext.Of(job).Removed("in/a") },
		func() error { return job.Files().Wrote("c") },
	} {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// Every operation is announced before it happens, once, and can be failed; a
// commit that fails leaves no side file, and one that failed late has happened.
func TestOnFile(t *testing.T) {
	want := []string{
		"mkdir in", "create in/a", "write in/a", "sync in/a", "rename in/a", "sync in", "report in/a",
		"create b", "write b", "write b", "sync b", "rename b", "sync .", "report b",
		"open in/a", "create c", "write c", "sync c", "rename c", "sync .", "report c",
		"stat c", "root .", "sweep c", "remove in/a", "report in/a", "report in/a", "report c",
	}
	var got []string
	failAt := 0
	errFault := errors.New("no such luck")
	run := func() (string, error) {
		dir := t.TempDir()
		got = nil
		job := courier.NewContext(courier.ContextConfig{Workspace: dir, OnFile: func(operation, name string) error {
			if got = append(got, operation+" "+name); len(got) == failAt {
				return errFault
			}
			return nil
		}})
		defer job.Close()
		return dir, fileWork(job)
	}
	dir, err := run()
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("%v, operations\n%q, want\n%q", err, got, want)
	}
	if b, err := os.ReadFile(dir + "/b"); err != nil || string(b) != "Bb" {
		t.Errorf("b holds %q, %v", b, err)
	}
	for failAt = 1; failAt <= len(want); failAt++ {
		dir, err := run()
		if !errors.Is(err, errFault) || len(got) != failAt {
			t.Errorf("%s failed: error %v after %q", want[failAt-1], err, got)
		}
		for _, name := range names(t, dir) {
			if strings.Contains(name, ".courier-tmp") {
				t.Errorf("%s failed: %s is left", want[failAt-1], name)
			}
		}
		_, statErr := os.Stat(dir + "/b")
		if committed := failAt > slices.Index(want, "rename b")+1; committed != (statErr == nil) {
			t.Errorf("%s failed: b: %v", want[failAt-1], statErr)
		}
	}
}

// A context whose work is over touches nothing, whatever the hook says.
func TestOnFileClosed(t *testing.T) {
	dir := t.TempDir()
	var job *courier.Context
	job = courier.NewContext(courier.ContextConfig{Workspace: dir, OnFile: func(string, string) error { return job.Close() }})
	if err := fileWork(job); !errors.Is(err, os.ErrClosed) {
		t.Errorf("error = %v", err)
	}
	if left := fmt.Sprint(names(t, dir)); left != "[]" {
		t.Errorf("files %s", left)
	}
}
