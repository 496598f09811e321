package remote

import (
	"context"
	"errors"
	"io/fs"

	"github.com/courierhq/courier/internal/parallel"
)

// fewNames is up to how many names it is cheaper to remove files by guessing
// than to list a directory.
const fewNames = 64

// removeLeftovers removes the side files of the starts up to the one numbered last for the files
// with the given final paths. Their names are known, so this works where listing is
// not allowed.
func (a Account) removeLeftovers(ctx context.Context, s Server, finals []string, last int) error {
	if err := a.restore(ctx, s, finals, last); err != nil {
		return s.Fault("clean up", "", err)
	}
	byDir := make(map[string][]string)
	for _, f := range finals {
		dir, name := Split(f)
		byDir[dir] = append(byDir[dir], SideNames(a.Job, name, last)...)
	}
	for dir, names := range byDir {
		if len(names) > fewNames {
			names = present(ctx, s, dir, names)
		}
		err := parallel.Do(ctx, len(names), s.Traits().Requests, func(ctx context.Context, i int) error {
			a.Job.Progress(0, -1, dir)
			return a.removeSide(ctx, s, Join(dir, names[i]))
		})
		if err != nil {
			return s.Fault("clean up", dir, err)
		}
	}
	return nil
}

// removeSide removes a side file. That the server refuses is no error, but worth a
// warning if the file is there.
func (a Account) removeSide(ctx context.Context, s Server, p string) error {
	err := s.Remove(ctx, p)
	if err == nil || !s.Refused(err) {
		return err
	}
	switch _, e := s.Lstat(ctx, p); {
	case e == nil:
		a.Job.Log().Warn("what an earlier attempt left behind can't be removed", "connection", a.ID, "file", p, "reason", err.Error())
	case !s.Refused(e) && !errors.Is(e, fs.ErrNotExist):
		return e
	}
	return nil
}

// present narrows names down to those that dir holds, where that can be told.
func present(ctx context.Context, s Server, dir string, names []string) []string {
	wanted := make(map[string]bool, len(names))
	for _, n := range names {
		wanted[n] = true
	}
	var found []string
	unknown, err := s.List(ctx, dir, func(e Entry) error {
		if wanted[e.Name] {
			found = append(found, e.Name)
			delete(wanted, e.Name)
		}
		return nil
	})
	if err != nil || unknown > 0 {
		return names
	}
	return found
}

// restore moves back what an attempt has moved aside for one of the files, unless
// its successor is in place. Where the server replaces files at once, nothing was
// moved.
func (a Account) restore(ctx context.Context, s Server, finals []string, last int) error {
	if s.Traits().Replaces {
		return nil
	}
	return parallel.Do(ctx, len(finals), s.Traits().Requests, func(ctx context.Context, i int) error {
		a.Job.Progress(0, -1, finals[i])
		dir, name := Split(finals[i])
		for _, old := range SideNames(a.Job, name+AsideSuffix, last) {
			old = Join(dir, old)
			_, err := s.Lstat(ctx, old)
			if err == nil {
				if _, e := s.Lstat(ctx, finals[i]); errors.Is(e, fs.ErrNotExist) {
					_, err = s.Rename(ctx, old, finals[i], false)
				} else if e == nil {
					err = s.Remove(ctx, old)
				} else {
					err = e
				}
			}
			if err != nil && !s.Refused(err) && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	})
}
