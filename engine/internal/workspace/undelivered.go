package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/notefile"
)

// Stopped takes note of the files that steps hold and have not delivered while the execution
// does not get past a place, which is a step in an iteration. Until Passed is called for the
// place, no step replaces one of them; see [courier.Context.SetAside]. Pending says whether a
// file was held on the way to the place, and not in an item that was over before.
func (w Tree) Stopped(id courier.ExecutionID, place string, pending func(notefile.HeldFile) bool) error {
	root, err := w.open(id)
	if root == nil {
		return err
	}
	defer root.Close()
	lines, err := notefile.Read[notefile.HeldFile](root, notefile.Held)
	if err != nil || len(lines) == 0 {
		return err
	}
	last := make(map[string]notefile.HeldFile)
	for _, f := range lines {
		last[f.Path] = f
	}
	var paths []string
	for p, f := range last {
		if pending(f) {
			paths = append(paths, p)
		}
	}
	known, err := notefile.ReadUndelivered(root)
	if err != nil {
		return err
	}
	var list []notefile.UndeliveredFile
	err = walkFiles(root, paths, func(f courier.File) {
		if !slices.Contains(known[f.Path], place) && !strings.HasPrefix(f.Path, notefile.Top+"/") {
			list = append(list, notefile.UndeliveredFile{Path: f.Path, Place: place})
		}
	})
	if len(list) == 0 {
		return err
	}
	return errors.Join(err, notefile.Append(root, notefile.Undelivered, true, list))
}

// Passed takes note that a step was completed at a place.
func (w Tree) Passed(id courier.ExecutionID, place string) error {
	root, err := w.open(id)
	if root == nil {
		return err
	}
	defer root.Close()
	files, err := notefile.ReadUndelivered(root)
	for _, places := range files {
		if slices.Contains(places, place) {
			return notefile.Append(root, notefile.Undelivered, true, []notefile.UndeliveredFile{{Place: place}})
		}
	}
	return err
}

// keptAside reports whether the workspace has files that were kept aside, or whether that
// can't be found out.
func (w Tree) keptAside(id courier.ExecutionID) bool {
	entries, err := os.ReadDir(path.Join(w.Of(id), notefile.Top, notefile.Aside))
	return len(entries) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist)
}
