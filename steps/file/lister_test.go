package file_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/file"
)

func target(dir string) courier.Directory { return courier.Directory{Path: dir} }

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestLister lists regular files, and nothing else.
func TestLister(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "in")
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "a"), "12345")
	write(t, filepath.Join(dir, "b.courier-tmp-1"), "1")
	write(t, filepath.Join(dir, "sub", "c"), "1")
	if err := os.Symlink(filepath.Join(dir, "a"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2024, 2, 3, 4, 5, 6, 789, time.UTC)
	if err := os.Chtimes(filepath.Join(dir, "a"), at, at); err != nil {
		t.Fatal(err)
	}
	l := file.NewLister([]string{root}, nil)
	got, err := l.List(t.Context(), nil, target(dir))
	want := courier.ListedFile{Name: "a", Path: filepath.Join(dir, "a"), Size: 5, Modified: at.Truncate(time.Microsecond)}
	if err != nil || len(got.Files) != 1 || got.Files[0] != want {
		t.Errorf("listed %+v, %v; want %+v", got, err, want)
	}
}

// TestListerOfManyFiles lists more than are read at once, up to the limit.
func TestListerOfManyFiles(t *testing.T) {
	dir := t.TempDir()
	var want []string
	for i := range 600 {
		name := "f" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + time.Duration(i).String()
		write(t, filepath.Join(dir, name), "")
		want = append(want, name)
	}
	got, err := file.NewLister([]string{dir}, nil).List(t.Context(), nil, target(dir))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range got.Files {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("%d names, want %d", len(names), len(want))
	}
	few := file.NewLister([]string{dir}, &file.Options{Limits: file.Limits{MaxMatches: 599}})
	if got, err := few.List(t.Context(), nil, target(dir)); err == nil || len(got.Files) > 0 || !strings.Contains(err.Error(), "more than 599 files") {
		t.Errorf("listed %d files, %v", len(got.Files), err)
	}
	few = file.NewLister([]string{dir}, &file.Options{Limits: file.Limits{MaxPathBytes: 599 * len(dir)}})
	if got, err := few.List(t.Context(), nil, target(dir)); err == nil || len(got.Files) > 0 || !strings.Contains(err.Error(), "raise MaxPathBytes") {
		t.Errorf("listed %d files, %v", len(got.Files), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := file.NewLister([]string{dir}, nil).List(ctx, nil, target(dir)); !errors.Is(err, context.Canceled) {
		t.Errorf("after a cancel: %v", err)
	}
}

// TestListerStaysInItsRoots refuses other directories, and links that lead
// there.
func TestListerStaysInItsRoots(t *testing.T) {
	root, other := t.TempDir(), t.TempDir()
	write(t, filepath.Join(other, "secret"), "1")
	if err := os.Symlink(other, filepath.Join(root, "out")); err != nil {
		t.Fatal(err)
	}
	l := file.NewLister([]string{root}, nil)
	for _, tt := range []struct {
		target courier.Directory
		want   string
	}{
		{target(other), "outside the allowed directories (allowed are " + root + ")"},
		{target(root + "/../" + filepath.Base(other)), "outside the allowed directories"},
		{target("in"), "is not absolute"},
		{target(root + "/a\x00b"), "NUL"},
		{courier.Directory{Path: root, Connection: "acme"}, "connection_id: "},
	} {
		if err := l.Check(tt.target); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("check %q: %v, want %q", tt.target, err, tt.want)
		}
		if got, err := l.List(t.Context(), nil, tt.target); err == nil {
			t.Errorf("listed %q: %+v", tt.target, got)
		}
	}
	for dir, want := range map[string]string{"out": "leads out of the allowed directory", "missing": "no such file"} {
		got, err := l.List(t.Context(), nil, target(filepath.Join(root, dir)))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("listed %q: %+v, %v", dir, got, err)
		}
	}
	if err := file.NewLister(nil, nil).Check(target(root)); err == nil || !strings.Contains(err.Error(), "none are") {
		t.Errorf("without roots: %v", err)
	}
	if err := l.Check(target(root)); err != nil {
		t.Error(err)
	}
}

// TestListerWatches tells of files that come, and ends when it is told to.
func TestListerWatches(t *testing.T) {
	root := t.TempDir()
	l := file.NewLister([]string{root}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changed, ended := make(chan struct{}, 100), make(chan error, 1)
	go func() { ended <- l.Watch(ctx, target(root), func() { changed <- struct{}{} }) }()
	if runtime.GOOS != "linux" {
		if err := <-ended; !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("ended with %v", err)
		}
		return
	}
	write := func(n int) {
		if err := os.WriteFile(filepath.Join(root, "a"), []byte{byte(n)}, 0o600); err != nil {
			t.Error(err)
		}
	}
	for told, n := false, 0; !told; n++ { // it takes a moment to begin
		write(n)
		select {
		case <-changed:
			told = true
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(100 * time.Millisecond):
		}
	}
	for len(changed) > 0 {
		<-changed
	}
	for n := range 50 { // told of together
		write(n)
	}
	<-changed
	time.Sleep(700 * time.Millisecond)
	if more := len(changed); more > 1 {
		t.Errorf("told %d times more of changes at once", more)
	}
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("it goes on after the end of its context")
	}
	if err := l.Watch(t.Context(), target(filepath.Join(root, "missing")), nil); err == nil {
		t.Error("watched what is not there")
	}
}
