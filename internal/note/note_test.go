package note_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/inside"
	"github.com/courierhq/courier/internal/note"
	"github.com/courierhq/courier/internal/stepcontext"
)

// at returns the context of an attempt. The attempts of a step share a workspace.
func at(t *testing.T, workspace string, step, attempt int) inside.Context {
	t.Helper()
	job := courier.NewContext(courier.ContextConfig{Execution: "0198", Step: step, Attempt: attempt, Workspace: workspace})
	t.Cleanup(func() { job.Close() })
	return stepcontext.Of(job)
}

type told struct {
	Text string
	N    json.Number
}

func TestLaterAttemptsReadIt(t *testing.T) {
	dir := t.TempDir()
	var got told
	if found, err := note.Read(at(t, dir, 1, 1), "sent", &got); found || err != nil {
		t.Errorf("there is none: %v, %v", found, err)
	}
	for attempt, want := range []told{{"first", "12345678901234567890"}, {"second", "1.10"}} {
		if err := note.Write(at(t, dir, 1, attempt+1), "sent", want); err != nil {
			t.Fatal(err)
		}
		for later := range 3 {
			got = told{}
			if found, err := note.Read(at(t, dir, 1, attempt+1+later), "sent", &got); !found || err != nil || got != want {
				t.Errorf("attempt %d reads %v, %v, %v; want %v", attempt+1+later, got, found, err, want)
			}
		}
	}
	// It is this step's, and this name's.
	for name, job := range map[string]inside.Context{"sent": at(t, dir, 2, 1), "other": at(t, dir, 1, 2)} {
		if found, err := note.Read(job, name, &got); found || err != nil {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
	if err := note.Remove(at(t, dir, 1, 3), "sent"); err != nil {
		t.Error(err)
	}
	if found, err := note.Read(at(t, dir, 1, 3), "sent", &got); found || err != nil {
		t.Errorf("it is removed: %v, %v", found, err)
	}
	if err := note.Remove(at(t, dir, 1, 3), "sent"); err != nil {
		t.Errorf("it is removed again: %v", err)
	}
}

// A note is private, and patterns of jobs, which leave out what is unfinished,
// don't find it.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	if err := note.Write(at(t, dir, 1, 1), "sent", told{Text: "x"}); err != nil {
		t.Fatal(err)
	}
	files := 0
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		info, err := d.Info()
		if !strings.Contains(d.Name(), ".courier-tmp") || err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v, %v", p, info.Mode(), err)
		}
		return err
	})
	if files != 1 || err != nil {
		t.Errorf("%d files, %v", files, err)
	}
}

// A note is replaced as a whole: what a dead attempt left of one that it was
// writing changes nothing, and the next attempt writes over it.
func TestUnfinished(t *testing.T) {
	dir := t.TempDir()
	if err := note.Write(at(t, dir, 1, 1), "sent", told{Text: "whole"}); err != nil {
		t.Fatal(err)
	}
	notes, err := filepath.Glob(filepath.Join(dir, "*", "*-note.courier-tmp"))
	if more, _ := filepath.Glob(filepath.Join(dir, "*", "*", "*-note.courier-tmp")); len(notes) == 0 {
		notes = more
	}
	if len(notes) != 1 || err != nil {
		t.Fatalf("notes: %q, %v", notes, err)
	}
	for _, attempt := range []string{"1", "2"} {
		if err := os.WriteFile(notes[0]+".new"+attempt, []byte(`{"Text": "ha`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var got told
	if found, err := note.Read(at(t, dir, 1, 2), "sent", &got); !found || err != nil || got.Text != "whole" {
		t.Errorf("%v, %v, %v", got, found, err)
	}
	if err := note.Write(at(t, dir, 1, 2), "sent", told{Text: "next"}); err != nil {
		t.Error(err)
	}
	if found, err := note.Read(at(t, dir, 1, 2), "sent", &got); !found || err != nil || got.Text != "next" {
		t.Errorf("%v, %v, %v", got, found, err)
	}
	// One that is damaged itself is an error that names it, and no silence.
	if err := os.WriteFile(notes[0], []byte(`{"Text": "ha`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := note.Read(at(t, dir, 1, 2), "sent", &got); err == nil || !strings.Contains(err.Error(), "sent-note") {
		t.Errorf("a damaged note: %v", err)
	}
}

// A note can't be written where nothing lasts, and lies about nothing there.
func TestNoWorkspace(t *testing.T) {
	job := stepcontext.Of(courier.NewContext(courier.ContextConfig{Execution: "0198", Step: 1}))
	var got told
	if found, err := note.Read(job, "sent", &got); found || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	if err := note.Write(job, "sent", got); !errors.Is(err, note.ErrNoPlace) {
		t.Errorf("written nowhere: %v", err)
	}
	if err := note.Remove(job, "sent"); err != nil {
		t.Error(err)
	}
}

// What is no JSON is refused before the old note is touched.
func TestNoJSON(t *testing.T) {
	dir := t.TempDir()
	if err := note.Write(at(t, dir, 1, 1), "sent", told{Text: "whole"}); err != nil {
		t.Fatal(err)
	}
	if err := note.Write(at(t, dir, 1, 2), "sent", func() {}); err == nil || !strings.Contains(err.Error(), "sent-note") {
		t.Errorf("a function was noted: %v", err)
	}
	var got told
	if found, err := note.Read(at(t, dir, 1, 2), "sent", &got); !found || err != nil || got.Text != "whole" {
		t.Errorf("%v, %v, %v", got, found, err)
	}
}

// Each gives the notes whose names begin with a prefix, and no unfinished ones.
func TestEach(t *testing.T) {
	dir := t.TempDir()
	job := at(t, dir, 1, 1)
	each := func(dir string) (texts []string, err error) {
		err = note.Each(job, dir, "file-", func(text []byte) error { texts = append(texts, string(text)); return nil })
		return texts, err
	}
	for _, where := range []string{"", job.StepDir()} {
		if texts, err := each(where); len(texts) > 0 || err != nil {
			t.Errorf("nothing was written to %q: %q, %v", where, texts, err)
		}
	}
	for _, name := range []string{"file-1", "file-2", "sent"} {
		if err := note.Write(job, name, name); err != nil {
			t.Fatal(err)
		}
	}
	root, rel, err := job.Root(job.StepDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := root.WriteFile(filepath.Join(rel, "file-3-note.courier-tmp.new1"), []byte("unfinished"), 0o600); err != nil {
		t.Fatal(err)
	}
	texts, err := each(job.StepDir())
	slices.Sort(texts)
	if want := []string{`"file-1"`, `"file-2"`}; err != nil || !slices.Equal(texts, want) {
		t.Errorf("notes %q, %v; want %q", texts, err, want)
	}
	refused := errors.New("refused")
	if err := note.Each(job, job.StepDir(), "file-", func([]byte) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("an error of f: %v", err)
	}
}

// TestReplaceFails: whatever prevents the new content is an error, and the old one
// stays.
func TestReplaceFails(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, name := range []string{"side/below", "target/below"} {
		if err := root.MkdirAll(name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := root.WriteFile("file", []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string][2]string{
		"the directory is a file":       {"file/note", "file/note.new"},
		"the side file is a directory":  {"file", "side"},
		"the target is a directory":     {"target", "new"},
		"the side file is in no folder": {"file", "missing/new"},
	} {
		if err := note.Replace(root, c[0], c[1], []byte("new")); err == nil {
			t.Errorf("%s: no error", name)
		}
		if text, err := root.ReadFile("file"); string(text) != "old" || err != nil {
			t.Errorf("%s: the file has %q, %v", name, text, err)
		}
	}
}
