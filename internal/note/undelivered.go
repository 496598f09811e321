package note

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/courierhq/courier/internal/localfile"
)

// An UndeliveredFile is a file that was held when the execution stopped at a place. Without a
// path, a step was completed at the place. Without a place, the file was kept aside.
type UndeliveredFile struct {
	Path  string `json:"path,omitempty"`
	Place string `json:"place,omitempty"`
}

// ReadUndelivered returns the places at which files are undelivered, by their paths.
func ReadUndelivered(workspace *os.Root) (map[string][]string, error) {
	lines, err := ReadLines[UndeliveredFile](workspace, Undelivered)
	if err != nil || lines == nil {
		return nil, err
	}
	files := make(map[string][]string)
	for _, f := range lines {
		switch {
		case f.Place == "":
			delete(files, f.Path)
		case f.Path == "":
			for p, places := range files {
				if files[p] = slices.DeleteFunc(places, func(at string) bool { return at == f.Place }); len(files[p]) == 0 {
					delete(files, p)
				}
			}
		case !slices.Contains(files[f.Path], f.Place):
			files[f.Path] = append(files[f.Path], f.Place)
		}
	}
	return files, nil
}

// FindAside returns where KeepAside keeps a file of a workspace before another one takes its
// place; "" if it needs not, because the other one has the same content, or there is no regular
// file. The path has slashes.
func FindAside(workspace *os.Root, p string, other *os.File) (aside string, err error) {
	f, err := workspace.Open(filepath.FromSlash(p))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	was, err := f.Stat()
	if err != nil || !was.Mode().IsRegular() {
		return "", err
	}
	if same, err := sameContent(f, other, was.Size()); same || err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		aside = path.Join(Top, Aside, strconv.Itoa(n), p)
		info, err := workspace.Lstat(filepath.FromSlash(aside))
		if errors.Is(err, fs.ErrNotExist) || err == nil && os.SameFile(info, was) { // of an attempt that was interrupted
			return aside, nil
		}
		if err != nil {
			return "", err
		}
	}
}

// KeepAside gives a file the second name that FindAside has found, and takes note of that. If
// there are no links, it makes a copy. All is durable when it returns.
func KeepAside(workspace *os.Root, p, aside string) error {
	from, to := filepath.FromSlash(p), filepath.FromSlash(aside)
	if err := workspace.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if err := workspace.Link(from, to); err != nil && !errors.Is(err, fs.ErrExist) {
		if err := copyFile(workspace, from, to); err != nil {
			return err
		}
	}
	for dir := filepath.Dir(to); ; dir = filepath.Dir(dir) {
		if err := localfile.SyncDir(workspace, dir); err != nil {
			return err
		}
		if dir == "." {
			return AppendLines(workspace, Undelivered, true, []UndeliveredFile{{Path: p}})
		}
	}
}

// copyFile copies a file of a workspace to a name that nothing has.
func copyFile(workspace *os.Root, from, to string) error {
	src, err := workspace.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	const side = ".new"
	dst, err := workspace.OpenFile(to+side, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = io.Copy(dst, src); err == nil {
		err = dst.Sync()
	}
	if err = errors.Join(err, dst.Close()); err != nil {
		return err
	}
	return workspace.Rename(to+side, to)
}

// sameContent reports whether two files, of which the first one has a size, have the same
// content.
func sameContent(one, two *os.File, size int64) (bool, error) {
	if info, err := two.Stat(); err != nil || info.Size() != size {
		return false, err
	}
	x, y := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(one, x)
		m, other := io.ReadFull(two, y)
		switch ended := err == io.EOF || err == io.ErrUnexpectedEOF; {
		case !bytes.Equal(x[:n], y[:m]):
			return false, nil
		case ended:
			return true, nil
		case err != nil || other != nil:
			return false, errors.Join(err, other)
		}
	}
}
