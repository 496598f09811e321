package sftp

import (
	"context"
	"errors"
	"io/fs"
	"math"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/sftpclient"
)

// find finds out which files to download, and where to.
func (t *downloading) find(ctx context.Context, s *session) (err error) {
	cfg := t.cfg
	fault := func(err error) error { return s.fault("download", cfg.RemotePath, err) }
	a, err := s.Stat(ctx, cfg.RemotePath)
	switch {
	case errors.Is(err, fs.ErrNotExist) && cfg.IgnoreMissing:
		t.files = nil
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fault(remote.NotAFile(cfg.RemotePath, err))
	case err != nil:
		return fault(err)
	case a.IsDir():
		return fault(t.findInDirectory(ctx, s))
	case cfg.Pattern != "":
		return fault(remote.ErrNoDirectory)
	}
	if err := t.awaitReady(ctx, s, a); err != nil {
		return fault(err)
	}
	local, err := remote.SingleTarget(t.job, cfg.LocalPath, cfg.RemotePath)
	if err != nil {
		return fault(err)
	}
	_, name := remote.Split(cfg.RemotePath)
	t.files = []remoteFile{{remote: cfg.RemotePath, below: name, local: local, size: int64(min(a.Size, math.MaxInt64)), plain: a.Mode&sftpclient.ModeType == sftpclient.ModeRegular}}
	return nil
}

func (cfg DownloadConfig) readiness() remote.Readiness {
	return remote.Readiness{StableSeconds: cfg.StableSeconds, DoneFile: cfg.DoneFile, Checksum: cfg.Checksum}
}

// awaitReady reports why a single file can't be downloaded yet.
func (t *downloading) awaitReady(ctx context.Context, s *session, first sftpclient.Attrs) error {
	exists := func(p string) (bool, error) {
		_, err := s.Stat(ctx, p)
		return err == nil, remote.IgnoreMissing(err)
	}
	return t.cfg.readiness().Await(ctx, t.job, t.cfg.RemotePath, exists, func() (bool, error) {
		second, err := s.Stat(ctx, t.cfg.RemotePath)
		return first.SameFile(second), err
	})
}

func (t *downloading) findInDirectory(ctx context.Context, s *session) error {
	cfg := t.cfg
	if cfg.ExpectedSize != nil {
		return courier.Permanent(errors.New("is a directory; expected_size is for a single file"))
	}
	dir, err := remote.TargetDirectory(t.job, cfg.LocalPath)
	if err != nil {
		return err
	}
	found, skipped, notReady, err := cfg.readiness().Find(ctx, t.job, cfg.search(), lister{s}, cfg.RemotePath)
	if err != nil {
		return err
	}
	if len(found) == 0 && !cfg.IgnoreMissing {
		return remote.NothingFound(cfg.Pattern, notReady)
	}
	targets, err := remote.Targets(dir, found)
	if err != nil {
		return err
	}
	t.files, t.unsafe, t.notReady = make([]remoteFile, len(found)), skipped, notReady
	for i, f := range found {
		t.files[i] = remoteFile{remote: f.Path, below: f.Below, local: targets[i], size: f.Size, plain: f.Regular}
	}
	return nil
}
