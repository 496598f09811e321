package file

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/transfer"
)

// checkPath checks a path as far as Validate can. The path must be allowed. For
// an absolute path, its parent directory, which no step makes, must exist, and
// an existing file must be readable. Relative paths are not checked further,
// since workspaces are empty before an execution. The findings are logged.
func checkPath(job *courier.Context, field, name string, madeByStep bool) error {
	return check(job, field, name, func(p place) ([]any, error) {
		if !madeByStep && p.rel != "." {
			if _, err := p.root.Stat(p.dir()); err != nil {
				return nil, localfile.Error(filepath.Dir(p.name), err)
			}
		}
		info, err := p.root.Stat(p.rel)
		switch {
		case errors.Is(err, fs.ErrNotExist) || localfile.IsNotDir(err):
			return []any{"found", "nothing yet"}, nil
		case err != nil:
			return nil, localfile.Error(p.name, err)
		}
		if err := localfile.MayRead(filepath.Join(p.root.Name(), p.rel)); err != nil {
			return nil, fmt.Errorf("%q: can't be read by this worker: %w; give its user the permission", p.name, err)
		}
		if info.Mode().IsRegular() {
			return []any{"found", localfile.Kind(info.Mode()), "size", info.Size()}, nil
		}
		return []any{"found", localfile.Kind(info.Mode())}, nil
	})
}

// checkTarget is checkPath for a file or directory that a step makes: the
// nearest existing directory must be writable. The free space on its file
// system is logged.
func checkTarget(job *courier.Context, field, name string) error {
	return check(job, field, name, func(p place) ([]any, error) {
		found, dir := "nothing yet", p.rel
		for {
			info, err := p.root.Stat(dir)
			if err == nil && dir == p.rel {
				found = localfile.Kind(info.Mode())
			}
			if err == nil && info.IsDir() {
				break
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !localfile.IsNotDir(err) {
				return nil, localfile.Error(p.name, err)
			}
			dir = filepath.Dir(dir)
		}
		full := filepath.Join(p.root.Name(), dir)
		if err := localfile.MayWrite(full); err != nil {
			return nil, fmt.Errorf("%q: directory %q can't be written to by this worker: %w; give its user the permission, or another path", p.name, full, err)
		}
		facts := []any{"found", found, "writable", true}
		if free, ok := transfer.Room(p.root, dir); ok {
			facts = append(facts, "free_bytes", free)
		}
		return facts, nil
	})
}

// check checks a path that is not a value of an earlier step, and logs the
// result of look.
func check(job *courier.Context, field, name string, look func(place) ([]any, error)) error {
	if job.Unresolved(field) {
		return nil
	}
	if _, err := job.Files().Path(name); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	log := job.Log().With("field", field)
	if !filepath.IsAbs(filepath.FromSlash(name)) { // in the workspace, which isn't made for this
		log.Info("the path can be used", "path", name, "below", "the workspace")
		return nil
	}
	p, err := at(job, name)
	var facts []any
	if err == nil {
		facts, err = look(p)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	log.With("path", p.name, "below", p.root.Name()).Info("the path can be used", facts...)
	return nil
}
