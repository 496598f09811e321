package remote

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/note"
	"github.com/courierhq/courier/internal/parallel"
	"github.com/courierhq/courier/internal/stepcontext"
)

// CleanupDownload removes the unfinished local files of earlier attempts, other than
// those that resume keeps. It needs a connection only where a file may
// have been moved aside on the server.
func CleanupDownload(ctx context.Context, a Account, cfg DownloadConfig) error {
	if err := cfg.clean(a.Job); err != nil || !cfg.after().Moves() {
		return err
	}
	t := &downloading{Account: a, cfg: cfg}
	found, err := t.recall(ctx)
	if err != nil || !found {
		return err
	}
	return a.Use(ctx, func(s Server) error {
		moved := make([]string, len(t.files))
		for i, f := range t.files {
			moved[i] = t.archived(f)
		}
		return s.Fault("clean up", cfg.MoveTo, a.restore(ctx, s, moved, stepcontext.Of(a.Job).StartNumber()))
	})
}

func (cfg DownloadConfig) clean(job *courier.Context) error {
	if cfg.LocalPath == "" {
		return cleanAttempts(job)
	}
	if IsLocalDirectory(job, cfg.LocalPath) {
		return cleanDirectory(job, cfg.LocalPath)
	}
	return job.Files().RemoveSideFiles(cfg.LocalPath)
}

// RollbackDownload is CleanupDownload. If the execution is cancelled, it removes what
// resume has kept, too.
func RollbackDownload(ctx context.Context, a Account, cfg DownloadConfig) error {
	job := a.Job
	err := CleanupDownload(ctx, a, cfg)
	if !cfg.resumes() || !job.Cancelled() {
		return err
	}
	switch {
	case cfg.LocalPath == "":
		return errors.Join(err, removeAllParts(job, attemptDirs(job)...))
	case IsLocalDirectory(job, cfg.LocalPath):
		return errors.Join(err, removeAllParts(job, cfg.LocalPath))
	}
	return errors.Join(err, removeParts(job, cfg.LocalPath))
}

// attemptDirs lists the directories of all attempts so far, the latest first.
func attemptDirs(job *courier.Context) []string {
	dir := job.Files().Dir()
	if dir == "." {
		return []string{dir}
	}
	var dirs []string
	for n := job.Attempt(); n >= 1; n-- {
		dirs = append(dirs, path.Join(path.Dir(dir), strconv.Itoa(n)))
	}
	return dirs
}

// cleanAttempts cleans the directories of all attempts so far.
func cleanAttempts(job *courier.Context) error {
	var errs []error
	for _, dir := range attemptDirs(job) {
		errs = append(errs, cleanDirectory(job, dir))
	}
	return errors.Join(errs...)
}

// cleanDirectory removes the side files of this step from a local directory
// and those below it.
func cleanDirectory(job *courier.Context, dir string) error {
	own := stepcontext.Of(job)
	return EachBelow(job, dir, func(root *os.Root, rel string) error {
		name := filepath.Base(rel)
		if final, _, ok := strings.Cut(name, SideMark); ok && own.IsSideName(final, name) {
			return IgnoreMissing(root.Remove(rel))
		}
		return nil
	})
}

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
		a.Job.Log().Warn("files of an earlier attempt can't be removed", "connection", a.ID, "file", p, "reason", err.Error())
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

// CleanupUpload removes the unfinished remote files of earlier attempts, other than
// those that resume keeps.
func CleanupUpload(ctx context.Context, a Account, cfg UploadConfig) error {
	if err := cfg.check(a); err != nil {
		return err
	}
	files, several := cfg.sources().Former(ctx, a.Job)
	if len(files) == 0 {
		return nil
	}
	t := &uploading{Account: a, cfg: cfg, files: files, several: several}
	return a.Use(ctx, func(s Server) error {
		err := t.setTargets(ctx, s)
		if courier.IsPermanent(err) {
			return nil // where nothing can be written, nothing was left
		} else if err != nil {
			return err
		}
		return a.removeLeftovers(ctx, s, t.written(), stepcontext.Of(a.Job).StartNumber())
	})
}

// RollbackUpload is CleanupUpload. If the execution is cancelled, it removes what
// resume has kept, too.
func RollbackUpload(ctx context.Context, a Account, cfg UploadConfig) error {
	err := CleanupUpload(ctx, a, cfg)
	if !cfg.Resume || !a.Job.Cancelled() || cfg.check(a) != nil {
		return err
	}
	var kept []string
	for _, p := range openCursor(a.Job).parts { // of a worker with another workspace
		kept = append(kept, p.Part)
	}
	e := note.Each(stepcontext.Of(a.Job), a.Job.Files().StepDir(), a.Family+"-"+partNotes, func(text []byte) error {
		var n uploadPartNote
		if err := json.Unmarshal(text, &n); err != nil {
			return err
		}
		kept = append(kept, n.Part)
		return nil
	})
	if err = errors.Join(err, e); err != nil || len(kept) == 0 {
		return err
	}
	return a.Use(ctx, func(s Server) error {
		for _, part := range kept {
			if err := removeGone(ctx, s, part); err != nil {
				return s.Fault("clean up", part, err)
			}
		}
		return nil
	})
}
