package steptest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/courierhq/courier/internal/note"
)

// startedAgain executes a completed step as part of the next attempt of the
// execution.
func (tr *trial) startedAgain() {
	tr.t.Helper()
	tr.each([]visit{{0, next}}, func(w *World, _ visit) {
		w.Helper()
		made, err := w.madeBefore()
		if err != nil {
			w.Error(err)
			return
		}
		a := w.newAttempt(1, 0, nil, false)
		a.execute(false, nil)
		inTime := a.wait()
		a.close()
		if where := "an undisturbed run"; !inTime || a.err != nil {
			w.broken(where, ruleRuns, a.failure())
			return
		}
		w.newWorker()
		w.again = 2
		w.job = nil
		if err := errors.Join(w.empty(), w.remake(made)); err != nil {
			w.Error(err)
			return
		}
		where := "after a complete attempt, in the next attempt of the execution"
		b := w.newAttempt(1, 0, nil, false)
		defer b.close()
		b.execute(false, nil)
		if !b.wait() || b.err != nil {
			w.broken(where, ruleJobAgain, b.failure())
			return
		}
		tr.complete(w, where, b, ruleJobAgain)
	})
}

// A setupFile is a file or directory that Setup put into the workspace.
type setupFile struct {
	name    string
	mode    fs.FileMode
	time    time.Time
	content string // of a file, or what a link leads to
}

// madeBefore lists the content of the workspace.
func (w *World) madeBefore() (made []setupFile, err error) {
	err = filepath.WalkDir(w.Work, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == w.Work {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		f := setupFile{name: p, mode: info.Mode(), time: info.ModTime()}
		switch {
		case f.mode&fs.ModeSymlink != 0:
			f.content, err = os.Readlink(p)
		case f.mode.IsRegular():
			var content []byte
			content, err = os.ReadFile(p)
			f.content = string(content)
		}
		made = append(made, f)
		return err
	})
	return made, err
}

// remake creates the setup files again.
func (w *World) remake(made []setupFile) error {
	for _, f := range made {
		var err error
		switch {
		case f.mode.IsDir():
			err = os.MkdirAll(f.name, f.mode.Perm())
		case f.mode&fs.ModeSymlink != 0:
			err = os.Symlink(f.content, f.name)
		case f.mode.IsRegular():
			err = errors.Join(os.WriteFile(f.name, []byte(f.content), f.mode.Perm()), os.Chtimes(f.name, f.time, f.time))
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// empty empties the workspace as an engine does before it restarts the job.
func (w *World) empty() error {
	root, err := os.OpenRoot(w.Work)
	if err != nil {
		return err
	}
	defer root.Close()
	held, err := note.ReadHeld(root)
	if err != nil {
		return err
	}
	if slices.Contains(held, ".") {
		return nil
	}
	return removeBut(root, ".", append(held, note.Top))
}
