//go:build unix

package localfile_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/localfile"
)

// TestPipe: opening a pipe that nobody writes does not wait, and one is not opened as a directory.
func TestPipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 2)
	go func() {
		f, err := os.OpenFile(name, os.O_RDONLY|localfile.Nonblock, 0)
		if err == nil {
			err = f.Close()
		}
		opened <- err
		_, err = os.OpenFile(name, os.O_RDONLY|localfile.OpenDirectory, 0)
		opened <- err
	}()
	for _, want := range []bool{false, true} {
		select {
		case err := <-opened:
			if localfile.IsNotDir(err) != want || !want && err != nil {
				t.Errorf("opened: %v", err)
			}
		case <-time.After(time.Minute):
			t.Fatal("it waits for somebody who writes")
		}
	}
	if info, err := os.Lstat(name); err != nil || localfile.Kind(info.Mode()) != "a pipe" {
		t.Errorf("%v, %v", info, err)
	}
}

// TestIsOtherDevice: only the rename that would have to copy is one.
func TestIsOtherDevice(t *testing.T) {
	wrapped := func(err error) error { return fmt.Errorf("move: %w", &os.LinkError{Op: "rename", Err: err}) }
	if !localfile.IsOtherDevice(wrapped(syscall.EXDEV)) || localfile.IsOtherDevice(wrapped(syscall.EACCES)) || localfile.IsOtherDevice(nil) {
		t.Error("the errors of a rename are not told apart")
	}
	if localfile.Missing(wrapped(syscall.EACCES)) || !localfile.Missing(&fs.PathError{Err: syscall.ENOTDIR}) {
		t.Error("the errors of a path are not told apart")
	}
}
