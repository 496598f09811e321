package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
)

// find finds out which files to download, and where to.
func (t *downloading) find(ctx context.Context, s Server) (err error) {
	cfg := t.cfg
	fault := func(err error) error { return s.Fault("download", cfg.RemotePath, err) }
	a, err := s.Stat(ctx, cfg.RemotePath)
	switch {
	case s.Missing(err) && cfg.IgnoreMissing:
		t.files = nil
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fault(NotAFile(cfg.RemotePath, err))
	case err != nil:
		return fault(err)
	case a.IsDir():
		return fault(t.findInDirectory(ctx, s))
	case cfg.Pattern != "":
		return fault(ErrNoDirectory)
	}
	if err := t.awaitReady(ctx, s, a); err != nil {
		return fault(err)
	}
	local, err := SingleTarget(t.Job, cfg.LocalPath, cfg.RemotePath)
	if err != nil {
		return fault(err)
	}
	_, name := Split(cfg.RemotePath)
	t.files = []remoteFile{{Remote: cfg.RemotePath, Below: name, Local: local, Size: max(0, a.Size), Plain: a.Kind == KindFile}}
	return nil
}

// awaitReady reports why a single file can't be downloaded yet.
func (t *downloading) awaitReady(ctx context.Context, s Server, first Info) error {
	exists := func(p string) (bool, error) {
		_, err := s.Stat(ctx, p)
		return err == nil, IgnoreMissing(err)
	}
	return t.cfg.readiness().Await(ctx, t.Job, t.cfg.RemotePath, exists, func() (bool, error) {
		second, err := s.Stat(ctx, t.cfg.RemotePath)
		return first.Same(second), err
	})
}

func (t *downloading) findInDirectory(ctx context.Context, s Server) error {
	cfg := t.cfg
	if cfg.ExpectedSize != nil {
		return courier.Permanent(errors.New("is a directory; expected_size is for a single file"))
	}
	dir, err := TargetDirectory(t.Job, cfg.LocalPath)
	if err != nil {
		return err
	}
	found, skipped, notReady, err := cfg.readiness().Find(ctx, t.Job, cfg.search(), s, cfg.RemotePath)
	if err != nil {
		return err
	}
	if len(found) == 0 && !cfg.IgnoreMissing {
		return NothingFound(cfg.Pattern, notReady)
	}
	targets, err := Targets(dir, found)
	if err != nil {
		return err
	}
	t.files, t.unsafe, t.notReady = make([]remoteFile, len(found)), skipped, notReady
	for i, f := range found {
		t.files[i] = remoteFile{Remote: f.Path, Below: f.Below, Local: targets[i], Size: f.Size, Plain: f.Regular}
	}
	return nil
}

// SingleTarget is where a single file goes, for the values of local_path and
// remote_path.
func SingleTarget(job *courier.Context, localPath, remotePath string) (string, error) {
	dir := localPath
	if dir == "" {
		dir = job.Files().Dir()
	} else if !IsLocalDirectory(job, dir) {
		return dir, nil
	}
	_, name := Split(remotePath)
	if err := safename.Check(name); err != nil {
		return "", courier.Permanent(fmt.Errorf("%w, so it can't be the name of a local file; set local_path to a file", err))
	}
	return JoinLocal(dir, name), nil
}

// TargetDirectory is where the files of a directory go, for the value of
// local_path.
func TargetDirectory(job *courier.Context, localPath string) (string, error) {
	if localPath == "" {
		return job.Files().Dir(), nil
	}
	if info, err := job.Files().Stat(localPath); err == nil && !info.IsDir() {
		return "", courier.Permanent(fmt.Errorf("is a directory, so local_path must be one too, but %s is a file", safename.Quote(localPath)))
	}
	return localPath, nil
}

// Targets returns where each file goes below a local directory, and refuses
// files that would be the same there.
func Targets(dir string, found []Entry) ([]string, error) {
	targets := make([]string, len(found))
	taken := make(map[string]string)
	for i, f := range found {
		key := LocalKey(f.Below)
		if other, ok := taken[key]; ok {
			return nil, courier.Permanent(fmt.Errorf("%s and %s would be the same local file; download them in separate steps", safename.Quote(other), safename.Quote(f.Below)))
		}
		taken[key] = f.Below
		targets[i] = JoinLocal(dir, f.Below)
	}
	return targets, nil
}

// NothingFound is the error of a directory without files to download, of which
// so many are not ready.
func NothingFound(pattern courier.Pattern, notReady int) error {
	what := "no files"
	if pattern != "" {
		what += " that match " + safename.Quote(pattern.String())
	}
	if notReady > 0 {
		return fmt.Errorf("the directory has %s that are ready, but %d that are not yet", what, notReady)
	}
	return courier.Permanent(fmt.Errorf("the directory has %s; if that is not an error, set ignore_missing", what))
}

// NotAFile adds to the error that there is no file what a path with the
// characters of a pattern may have been meant to be.
func NotAFile(remotePath string, err error) error {
	if strings.ContainsAny(path.Base(remotePath), "*?{") {
		return courier.Permanent(fmt.Errorf("%w; for several files set remote_path to their directory, and pattern to the pattern of their names", err))
	}
	return err
}

// ErrNoDirectory is the error of a pattern for what is not a directory.
var ErrNoDirectory = courier.Permanent(errors.New("is not a directory, so there is nothing for pattern to choose from"))
