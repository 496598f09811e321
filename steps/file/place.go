package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/stepcontext"
)

// A place is a path that a step may use, relative to the directory that
// confines it.
type place struct {
	name string // in the form of [courier.Files.Path]
	root *os.Root
	rel  string // below root, "." for root itself
}

// at finds the place of a path.
func at(job *courier.Context, name string) (place, error) {
	p, err := job.Files().Path(name)
	if err != nil {
		return place{}, err
	}
	root, rel, err := job.Files().Root(name)
	if err != nil {
		return place{}, localfile.Error(p, err)
	}
	return place{name: p, root: root, rel: rel}, nil
}

// in finds the place of a name below p, which has slashes.
func (p place) in(job *courier.Context, below string) (place, error) {
	return at(job, filepath.Join(p.name, filepath.FromSlash(below)))
}

// beside finds the place of a name in the same directory as p.
func (p place) beside(job *courier.Context, base string) (place, error) {
	return at(job, filepath.Join(filepath.Dir(p.name), base))
}

// openDir opens the directory p.
func (p place) openDir() (*os.File, error) {
	d, err := p.root.OpenFile(p.rel, os.O_RDONLY|localfile.OpenDirectory, 0)
	return d, localfile.Error(p.name, err)
}

// base returns the last element of the path.
func (p place) base() string { return path.Base(filepath.ToSlash(p.name)) }

// dir returns the directory that holds p, below root.
func (p place) dir() string { return filepath.Dir(p.rel) }

// stat describes p itself, not the target of a link.
func (p place) stat() (fs.FileInfo, error) {
	info, err := p.root.Lstat(p.rel)
	return info, localfile.Error(p.name, err)
}

// exists reports whether p exists, even if only as a link.
func (p place) exists() (bool, error) {
	_, err := p.stat()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// source opens and describes the regular file at p, or the target of a link at
// p.
func (p place) source(job *courier.Context) (*os.File, fs.FileInfo, error) {
	// What isn't a regular file isn't even opened: for some devices that alone
	// does something. Open sees to it that nothing changes in between.
	info, err := p.root.Stat(p.rel)
	if err == nil && !info.Mode().IsRegular() {
		return nil, nil, courier.Permanent(fmt.Errorf("%q is %s, not a regular file", p.name, localfile.Kind(info.Mode())))
	}
	if err != nil {
		return nil, nil, localfile.Error(p.name, err)
	}
	f, err := job.Files().Open(p.name)
	if err != nil {
		return nil, nil, localfile.Error(p.name, err)
	}
	if info, err = f.Stat(); err != nil {
		f.Close()
		return nil, nil, localfile.Error(p.name, err)
	}
	return f, info, nil
}

// target finds the place of the file that a target path means for a source
// called name.
func target(job *courier.Context, given, name string) (place, error) {
	p, err := at(job, given)
	if err != nil {
		return p, err
	}
	into := isDirName(given)
	if !into {
		info, err := p.root.Stat(p.rel)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return p, localfile.Error(p.name, err)
		}
		into = err == nil && info.IsDir()
	}
	if into {
		return p.in(job, name)
	}
	return p, nil
}

// isDirName reports whether a path by itself means a directory.
func isDirName(name string) bool {
	return strings.HasSuffix(name, "/") || runtime.GOOS == "windows" && strings.HasSuffix(name, `\`)
}

// replaceable describes the file at p; it returns nil if there is none. It
// refuses anything that a file cannot replace.
func (p place) replaceable() (fs.FileInfo, error) {
	info, err := p.root.Lstat(p.rel)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, localfile.Error(p.name, err)
	case info.Mode().IsRegular() || info.Mode()&fs.ModeSymlink != 0:
		return info, nil
	}
	return nil, courier.Permanent(fmt.Errorf("%q is %s; a file can't take its place", p.name, localfile.Kind(info.Mode())))
}

// produced records that the step has made the directory at p.
func produced(job *courier.Context, p place) error { return stepcontext.Of(job).Produced(p.name) }
