package sftp

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
)

// Cleanup removes the unfinished local files of earlier attempts, other than
// those that resume keeps. It needs a connection only where a file may
// have been moved aside on the server.
func (d Download) Cleanup(ctx context.Context, job *courier.Context, cfg DownloadConfig) error {
	if err := cfg.clean(job); err != nil || !cfg.after().Moves() {
		return err
	}
	t := &downloading{Download: d, job: job, cfg: cfg}
	found, err := t.recall(ctx)
	if err != nil || !found {
		return err
	}
	return use(ctx, job, d.Connections, cfg.ConnectionID, func(s *session) error {
		if s.CanReplace() {
			return nil
		}
		moved := make([]localFile, len(t.files))
		for i, f := range t.files {
			moved[i].final = t.archived(f)
		}
		return s.fault("clean up", cfg.MoveTo, s.restore(ctx, job, moved, job.Attempt()))
	})
}

func (cfg DownloadConfig) clean(job *courier.Context) error {
	if cfg.LocalPath == "" {
		return cleanAttempts(job)
	}
	if remote.IsLocalDirectory(job, cfg.LocalPath) {
		return cleanDirectory(job, cfg.LocalPath)
	}
	return job.RemoveSideFiles(cfg.LocalPath)
}

// Rollback is Cleanup. If the execution is cancelled, it removes what
// resume has kept, too.
func (d Download) Rollback(ctx context.Context, job *courier.Context, cfg DownloadConfig) error {
	err := d.Cleanup(ctx, job, cfg)
	if !cfg.resumes() || !job.Cancelled() {
		return err
	}
	switch {
	case cfg.LocalPath == "":
		return errors.Join(err, removeAllParts(job, attemptDirs(job)...))
	case remote.IsLocalDirectory(job, cfg.LocalPath):
		return errors.Join(err, removeAllParts(job, cfg.LocalPath))
	}
	return errors.Join(err, removeParts(job, cfg.LocalPath))
}

// attemptDirs lists the directories of all attempts so far, the latest first.
func attemptDirs(job *courier.Context) []string {
	dir := job.Dir()
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
	return remote.EachBelow(job, dir, func(root *os.Root, rel string) error {
		name := filepath.Base(rel)
		if final, _, ok := strings.Cut(name, remote.SideMark); ok && job.IsSideName(final, name) {
			return remote.IgnoreMissing(root.Remove(rel))
		}
		return nil
	})
}

// eachName calls f with each name in a local directory, which rel is below
// root. That there is no such directory is no error.
func eachName(job *courier.Context, dir string, f func(root *os.Root, rel, name string) error) error {
	root, rel, err := job.Root(dir)
	if err != nil {
		return err
	}
	d, err := root.Open(rel)
	if err != nil {
		return remote.IgnoreMissing(err)
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return remote.IgnoreMissing(err)
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, f(root, rel, name))
	}
	return errors.Join(errs...)
}
