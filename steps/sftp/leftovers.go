package sftp

import (
	"context"
	"errors"
	"io/fs"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/parallel"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/sftpclient"
)

// fewNames is up to how many names it is cheaper to remove files by guessing
// than to list a directory.
const fewNames = 64

// removeLeftovers removes the side files of the attempts up to last. Their
// names are known, so this works where listing is not allowed.
func (s *session) removeLeftovers(ctx context.Context, job *courier.Context, files []localFile, last int) error {
	if !s.CanReplace() {
		if err := s.restore(ctx, job, files, last); err != nil {
			return s.fault("clean up", "", err)
		}
	}
	byDir := make(map[string][]string)
	for _, f := range files {
		dir, name := remote.Split(f.final)
		byDir[dir] = append(byDir[dir], remote.SideNames(job, name, last)...)
	}
	for dir, names := range byDir {
		if len(names) > fewNames {
			names = s.present(ctx, dir, names)
		}
		err := parallel.Do(ctx, len(names), manyRequests, func(ctx context.Context, i int) error {
			p := remote.Join(dir, names[i])
			err := s.Remove(ctx, p)
			if !sftpclient.IsStatus(err) {
				return err
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if _, e := s.Lstat(ctx, p); e == nil {
				job.Log().Warn("what an earlier attempt left behind can't be removed", "connection", s.id, "file", p, "reason", err.Error())
			}
			return nil
		})
		if err != nil {
			return s.fault("clean up", dir, err)
		}
	}
	return nil
}

// present narrows names down to those that dir holds, where that can be told.
func (s *session) present(ctx context.Context, dir string, names []string) []string {
	wanted := make(map[string]bool, len(names))
	for _, n := range names {
		wanted[n] = true
	}
	var found []string
	err := s.each(ctx, dir, func(e sftpclient.Entry) error {
		if wanted[e.Name] {
			found = append(found, e.Name)
			delete(wanted, e.Name)
		}
		return nil
	}, func() {})
	if err != nil {
		return names
	}
	return found
}

// restore moves back what an attempt moved aside, unless its successor is in
// place.
func (s *session) restore(ctx context.Context, job *courier.Context, files []localFile, last int) error {
	return parallel.Do(ctx, len(files), manyRequests, func(ctx context.Context, i int) error {
		dir, name := remote.Split(files[i].final)
		for _, old := range remote.SideNames(job, name+remote.AsideSuffix, last) {
			old = remote.Join(dir, old)
			_, err := s.Lstat(ctx, old)
			if err == nil {
				if _, e := s.Lstat(ctx, files[i].final); errors.Is(e, fs.ErrNotExist) {
					err = s.Rename(ctx, old, files[i].final)
				} else if e == nil {
					err = s.Remove(ctx, old)
				} else {
					err = e
				}
			}
			if err != nil && !sftpclient.IsStatus(err) {
				return err
			}
		}
		return nil
	})
}
