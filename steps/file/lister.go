package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/dirwatch"
	"github.com/courierhq/courier/internal/localfile"
)

// A Lister lists directories of the machine for monitors. Regular files count;
// links, directories and the temporary files of Courier's transfers do not.
type Lister struct {
	roots  []string
	limits Limits
}

var _ courier.Watcher = (*Lister)(nil)

// NewLister returns a lister of the given directories and the directories below
// them. Give it the same directories as Roots of the engine's options, since
// steps could not read files elsewhere. A nil opt means the defaults. Of the
// limits, MaxMatches is the maximum number of files in a directory, and
// MaxPathBytes the maximum total length of their paths.
func NewLister(roots []string, opt *Options) *Lister {
	if opt == nil {
		opt = &Options{}
	}
	return &Lister{roots: roots, limits: opt.Limits.withDefaults()}
}

// Least returns one second.
func (l *Lister) Least() time.Duration { return time.Second }

// Check reports whether the path is absolute and below the roots.
func (l *Lister) Check(t courier.Directory) error {
	_, _, err := l.locate(t)
	return err
}

// locate finds the root that confines a directory, and the path of the
// directory below it.
func (l *Lister) locate(t courier.Directory) (root, rel string, err error) {
	dir := filepath.Clean(filepath.FromSlash(t.Path))
	switch {
	case t.Connection != "":
		return "", "", fmt.Errorf("connection_id: %q is given, but the directory is one of the machine; leave it out", t.Connection)
	case strings.ContainsRune(t.Path, 0):
		return "", "", fmt.Errorf("path: %q contains a NUL character", t.Path)
	case !filepath.IsAbs(dir):
		return "", "", fmt.Errorf("path: %q is not absolute", t.Path)
	}
	for _, r := range l.roots {
		r = filepath.Clean(r)
		if below, err := filepath.Rel(r, dir); err == nil && filepath.IsLocal(below) && len(r) > len(root) {
			root, rel = r, below
		}
	}
	if root == "" {
		allowed := "none are"
		if len(l.roots) > 0 {
			allowed = "allowed are " + strings.Join(l.roots, ", ")
		}
		return "", "", fmt.Errorf("path: %q lies outside the allowed directories (%s)", t.Path, allowed)
	}
	return root, rel, nil
}

// open opens a directory. It refuses links on the path that lead out of the
// root.
func (l *Lister) open(t courier.Directory) (*os.Root, error) {
	root, rel, err := l.locate(t)
	if err != nil {
		return nil, err
	}
	top, err := os.OpenRoot(root)
	if err != nil {
		return nil, localfile.Error(root, err)
	}
	defer top.Close()
	dir, err := top.OpenRoot(rel)
	return dir, localfile.Error(t.Path, err)
}

// List returns the files of a directory.
func (l *Lister) List(ctx context.Context, _ *courier.Context, t courier.Directory) (courier.Listing, error) {
	root, err := l.open(t)
	if err != nil {
		return courier.Listing{}, err
	}
	defer root.Close()
	dir, err := root.Open(".")
	if err != nil {
		return courier.Listing{}, localfile.Error(t.Path, err)
	}
	defer dir.Close()
	var got courier.Listing
	paths := 0
	for {
		const few = 256
		entries, err := dir.ReadDir(few)
		for _, e := range entries {
			if err := l.add(&got, &paths, root, t.Path, e); err != nil {
				return courier.Listing{}, err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return got, nil
		case err != nil:
			return courier.Listing{}, localfile.Error(t.Path, err)
		case ctx.Err() != nil:
			return courier.Listing{}, context.Cause(ctx)
		}
	}
}

// add adds a file to a listing. Paths is the total length of the listing's
// paths in bytes.
func (l *Lister) add(got *courier.Listing, paths *int, root *os.Root, dir string, e fs.DirEntry) error {
	if !e.Type().IsRegular() || strings.Contains(e.Name(), sideMark) {
		return nil
	}
	info, err := root.Lstat(e.Name())
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil // gone since, or another
	}
	if err != nil {
		return localfile.Error(filepath.Join(dir, e.Name()), err)
	}
	if len(got.Files) == l.limits.MaxMatches {
		return fmt.Errorf("%q: holds more than %d files; clean it up, or raise the limit in file.Options", dir, l.limits.MaxMatches)
	}
	name := filepath.Join(dir, e.Name())
	if *paths += len(name); *paths > l.limits.MaxPathBytes {
		return fmt.Errorf("%q: the paths of its files have more than %d bytes; clean it up, or raise MaxPathBytes in file.Options", dir, l.limits.MaxPathBytes)
	}
	got.Files = append(got.Files, courier.ListedFile{
		Name: e.Name(), Path: name, Size: info.Size(), Modified: info.ModTime().UTC().Truncate(time.Microsecond),
	})
	return nil
}

// Watch calls changed after files were created, written and closed, moved or
// removed in a directory, until ctx ends. Only the next listing finds changes
// that other machines make on network storage, and changes that were too many
// to be reported one by one. The error is [errors.ErrUnsupported] on systems
// other than Linux.
func (l *Lister) Watch(ctx context.Context, t courier.Directory, changed func()) error {
	root, err := l.open(t)
	if err != nil {
		return err
	}
	defer root.Close()
	dir, err := root.Open(".")
	if err != nil {
		return localfile.Error(t.Path, err)
	}
	defer dir.Close()
	return dirwatch.Watch(ctx, dir, t.Path, changed)
}
