package sftp

import (
	"context"
	"errors"
	"io/fs"

	"github.com/courierhq/courier/internal/remote"
)

// find finds the files to upload, those that are ready.
func (t *uploading) find(ctx context.Context) error {
	files, several, err := t.cfg.sources().FindReady(ctx, t.job, t.cfg.StableSeconds)
	t.files, t.several = localFiles(files), several
	return err
}

func (cfg UploadConfig) sources() remote.Sources {
	return remote.Sources{LocalPath: cfg.LocalPath, Glob: cfg.Glob, IgnoreMissing: cfg.IgnoreMissing}
}

func localFiles(sources []remote.Source) []localFile {
	files := make([]localFile, len(sources))
	for i, f := range sources {
		files[i] = localFile{local: f.Local, below: f.Below, size: f.Size}
	}
	return files
}

// setTargets gives each file its remote path.
func (s *session) setTargets(ctx context.Context, cfg UploadConfig, files []localFile, several bool) error {
	targets, err := cfg.sources().Targets(sourcesOf(files), several, cfg.RemotePath, func() (bool, bool, error) {
		a, err := s.Stat(ctx, cfg.RemotePath)
		if errors.Is(err, fs.ErrNotExist) {
			return false, false, nil
		}
		return err == nil, a.IsDir(), err
	})
	for i, target := range targets {
		files[i].final = target
	}
	return s.fault("upload to", cfg.RemotePath, err)
}

// makeParents makes the directories below remote_path that hold the files.
func (s *session) makeParents(ctx context.Context, cfg UploadConfig, files []localFile) error {
	for _, dir := range remote.Directories(cfg.RemotePath, sourcesOf(files)) {
		if err := s.makeDirectory(ctx, dir); err != nil {
			return s.fault("make directory", dir, err)
		}
	}
	return nil
}

func sourcesOf(files []localFile) []remote.Source {
	sources := make([]remote.Source, len(files))
	for i, f := range files {
		sources[i] = remote.Source{Local: f.local, Below: f.below}
	}
	return sources
}
