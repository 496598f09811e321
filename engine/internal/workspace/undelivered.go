package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/note"
)

// Stopped takes note of the files that steps hold and have not delivered while the execution
// does not get past a place, which is a step in an iteration. Until Passed is called for the
// place, no step replaces one of them; see [inside.Context]. Pending says whether a
// file was held on the way to the place, and not in an item that was over before.
func (w Tree) Stopped(id courier.ExecutionID, place string, pending func(note.HeldFile) bool) error {
	root, err := w.open(id)
	if root == nil {
		return err
	}
	defer root.Close()
	lines, err := note.ReadLines[note.HeldFile](root, note.Held)
	if err != nil || len(lines) == 0 {
		return err
	}
	last := make(map[string]note.HeldFile)
	for _, f := range lines {
		last[f.Path] = f
	}
	var paths []string
	for p, f := range last {
		if pending(f) {
			paths = append(paths, p)
		}
	}
	known, err := note.ReadUndelivered(root)
	if err != nil {
		return err
	}
	var list []note.UndeliveredFile
	err = walkFiles(root, paths, func(f courier.File) {
		if !slices.Contains(known[f.Path], place) && !strings.HasPrefix(f.Path, note.Top+"/") {
			list = append(list, note.UndeliveredFile{Path: f.Path, Place: place})
		}
	})
	if len(list) == 0 {
		return err
	}
	return errors.Join(err, note.AppendLines(root, note.Undelivered, true, list))
}

// Passed takes note that a step was completed at a place.
func (w Tree) Passed(id courier.ExecutionID, place string) error {
	root, err := w.open(id)
	if root == nil {
		return err
	}
	defer root.Close()
	files, err := note.ReadUndelivered(root)
	for _, places := range files {
		if slices.Contains(places, place) {
			return note.AppendLines(root, note.Undelivered, true, []note.UndeliveredFile{{Place: place}})
		}
	}
	return err
}

// Undelivered reports whether the workspace has files of which Stopped has taken note, or
// whether that can't be found out.
func (w Tree) Undelivered(id courier.ExecutionID) bool {
	root, err := w.open(id)
	if root == nil {
		return err != nil
	}
	defer root.Close()
	files, err := note.ReadUndelivered(root)
	for name := range files {
		if _, gone := root.Lstat(name); !errors.Is(gone, fs.ErrNotExist) {
			return true
		}
	}
	return err != nil
}

// keptAside reports whether the workspace has files that were kept aside, or whether that
// can't be found out.
func (w Tree) keptAside(id courier.ExecutionID) bool {
	entries, err := os.ReadDir(path.Join(w.Of(id), note.Top, note.Aside))
	return len(entries) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist)
}
