package remote

import (
	"context"
	"errors"
	"io/fs"

	"github.com/courierhq/courier"
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
