package remote

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
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
		return s.Fault("clean up", cfg.MoveTo, a.restore(ctx, s, moved, a.Job.StartNumber()))
	})
}

func (cfg DownloadConfig) clean(job *courier.Context) error {
	if cfg.LocalPath == "" {
		return cleanAttempts(job)
	}
	if IsLocalDirectory(job, cfg.LocalPath) {
		return cleanDirectory(job, cfg.LocalPath)
	}
	return job.RemoveSideFiles(cfg.LocalPath)
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
	return EachBelow(job, dir, func(root *os.Root, rel string) error {
		name := filepath.Base(rel)
		if final, _, ok := strings.Cut(name, SideMark); ok && job.IsSideName(final, name) {
			return IgnoreMissing(root.Remove(rel))
		}
		return nil
	})
}
