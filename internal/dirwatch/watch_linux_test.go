package dirwatch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/dirwatch"
)

// watch watches a directory until the test ends, and returns what is sent after changes. Between is
// called after the directory was opened.
func watch(t *testing.T, dir string, between func() error) <-chan struct{} {
	t.Helper()
	f, err := os.Open(dir)
	if err == nil && between != nil {
		err = between()
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := errors.New("the test has ended")
	ctx, end := context.WithCancelCause(context.Background())
	changed, done := make(chan struct{}, 1000), make(chan error, 1)
	go func() { done <- dirwatch.Watch(ctx, f, dir, func() { changed <- struct{}{} }) }()
	t.Cleanup(func() {
		end(ended)
		if err := <-done; err != ended {
			t.Errorf("watching ended with %v", err)
		}
		f.Close()
	})
	return changed
}

// TestWatch: each kind of change is reported, also of a directory that was moved after it was
// opened. What is read is not.
func TestWatch(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(dir string, n int) error // the n-th change
		tell bool
	}{
		"made": {func(dir string, n int) error { return os.Mkdir(filepath.Join(dir, fmt.Sprint("d", n)), 0o755) }, true},
		"written": {func(dir string, n int) error {
			return os.WriteFile(filepath.Join(dir, fmt.Sprint(n)), []byte("x"), 0o644)
		}, true},
		"moved in": {func(dir string, n int) error {
			return os.Rename(filepath.Join(dir+".out", fmt.Sprint(n)), filepath.Join(dir, fmt.Sprint("m", n)))
		}, true},
		"moved out": {func(dir string, n int) error {
			return os.Rename(filepath.Join(dir, fmt.Sprint(n)), filepath.Join(dir+".out", fmt.Sprint(n)))
		}, true},
		"removed": {func(dir string, n int) error { return os.Remove(filepath.Join(dir, fmt.Sprint(n))) }, true},
		"read":    {func(dir string, n int) error { _, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(n))); return err }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := filepath.Join(t.TempDir(), "in")
			dir := at + ".moved"
			if err := errors.Join(os.Mkdir(at, 0o755), os.Mkdir(dir+".out", 0o755)); err != nil {
				t.Fatal(err)
			}
			const files = 500
			for i := range files {
				err := errors.Join(os.WriteFile(filepath.Join(at, fmt.Sprint(i)), nil, 0o644), os.WriteFile(filepath.Join(dir+".out", fmt.Sprint(i)), nil, 0o644))
				if err != nil {
					t.Fatal(err)
				}
			}
			changed := watch(t, at, func() error { return os.Rename(at, dir) })
			tick := time.NewTicker(20 * time.Millisecond) // the watch may begin later
			defer tick.Stop()
			most := files
			if !c.tell {
				most = 50
			}
			for n := range most {
				if err := c.do(dir, n); err != nil {
					t.Fatal(err)
				}
				select {
				case <-changed:
					if !c.tell {
						t.Error("it is reported")
					}
					return
				case <-tick.C:
				}
			}
			if c.tell {
				t.Error("nothing is reported")
			}
		})
	}
}

// TestGathered: many changes in half a second are few reports.
func TestGathered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	changed := watch(t, dir, nil)
	reports := 0
	tick, quiet := time.NewTicker(time.Millisecond), time.NewTimer(time.Hour)
	defer tick.Stop()
	for n := 0; ; {
		select {
		case <-tick.C:
			if n++; n > 400 {
				tick.Stop()
				quiet.Reset(1500 * time.Millisecond)
			} else if err := os.WriteFile(filepath.Join(dir, "a"), []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
		case <-changed:
			reports++
		case <-quiet.C:
			if reports == 0 || reports > 10 {
				t.Errorf("%d reports", reports)
			}
			return
		}
	}
}

// TestNoDirectory: the error of what can't be watched names it.
func TestNoDirectory(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := dirwatch.Watch(t.Context(), f, "in/a", nil); err == nil || !strings.Contains(err.Error(), `inotify: "in/a": not a directory`) {
		t.Errorf("%v", err)
	}
}
