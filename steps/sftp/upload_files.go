package sftp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
)

// find finds the files to upload, those that are ready.
func (t *uploading) find(ctx context.Context) (err error) {
	t.files, t.several, err = t.cfg.sources(t.job)
	if err != nil || len(t.files) == 0 || t.cfg.StableSeconds == 0 {
		return err
	}
	before := make(map[string]localIdentity)
	look := func(f localFile) (localIdentity, bool) {
		info, err := t.job.Stat(f.local)
		if err != nil {
			return localIdentity{}, false
		}
		return identifyLocal(info), true
	}
	for _, f := range t.files {
		before[f.local], _ = look(f)
	}
	if err := waitStable(ctx, t.job, t.cfg.StableSeconds, t.cfg.LocalPath); err != nil {
		return err
	}
	var ready []localFile
	for _, f := range t.files {
		if now, ok := look(f); ok && now == before[f.local] {
			ready = append(ready, f)
		}
	}
	if len(ready) == 0 && !t.cfg.IgnoreMissing || len(ready) < len(t.files) && !t.several {
		return fmt.Errorf("local_path: %s is not ready: it has changed within the %d seconds of stable_seconds", safename.Quote(t.cfg.LocalPath), t.cfg.StableSeconds)
	}
	t.files = ready
	return nil
}

// sources finds the local files, in order. Several is set if local_path is a
// pattern.
func (cfg UploadConfig) sources(job *courier.Context) (files []localFile, several bool, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("local_path: %w", err)
		}
	}()
	info, err := job.Stat(cfg.LocalPath)
	missing := errors.Is(err, fs.ErrNotExist)
	switch several = cfg.isPattern(missing); {
	case several:
		if files, err = cfg.matches(job); err != nil || len(files) > 0 || cfg.IgnoreMissing {
			return files, true, err
		}
		return nil, true, courier.Permanent(fmt.Errorf("no file matches %s; if that is in order, set ignore_missing", safename.Quote(cfg.LocalPath)))
	case missing && cfg.IgnoreMissing:
		return nil, false, nil
	case missing:
		return nil, false, courier.Permanent(err)
	case err != nil:
		return nil, false, err
	case info.IsDir():
		return nil, false, courier.Permanent(fmt.Errorf("%s is a directory; for the files in it add /*", safename.Quote(cfg.LocalPath)))
	}
	single := cfg.single()
	single.size = info.Size()
	return []localFile{single}, false, nil
}

// isPattern reports whether local_path is a pattern. What exists under the very
// name is none, unless the configuration says so.
func (cfg UploadConfig) isPattern(missing bool) bool {
	if cfg.Glob != nil {
		return *cfg.Glob
	}
	return missing && strings.ContainsAny(cfg.LocalPath, "*?")
}

func (cfg UploadConfig) single() localFile {
	return localFile{local: cfg.LocalPath, below: path.Base(filepath.ToSlash(cfg.LocalPath))}
}

// matches lists the regular files that local_path stands for as a pattern.
func (cfg UploadConfig) matches(job *courier.Context) ([]localFile, error) {
	pattern := filepath.ToSlash(cfg.LocalPath)
	if !doublestar.ValidatePattern(pattern) {
		return nil, courier.Permanent(fmt.Errorf("%s is malformed as a pattern", safename.Quote(cfg.LocalPath)))
	}
	base, rest := doublestar.SplitPattern(pattern)
	root, rel, err := job.Root(base)
	if err != nil {
		return nil, err
	}
	dir, err := fs.Sub(root.FS(), filepath.ToSlash(rel))
	if err != nil {
		return nil, err
	}
	found, err := doublestar.Glob(dir, rest, doublestar.WithNoFollow(), doublestar.WithFailOnIOErrors())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	slices.Sort(found)
	var files []localFile
	for _, f := range found {
		info, err := fs.Stat(dir, f)
		if err == nil && info.Mode().IsRegular() && !isSideFile(path.Base(f)) {
			files = append(files, localFile{local: path.Join(base, f), below: f, size: info.Size()})
		}
	}
	return files, nil
}

// setTargets gives each file its remote path.
func (s *session) setTargets(ctx context.Context, cfg UploadConfig, files []localFile, several bool) error {
	fault := func(err error) error { return s.fault("upload to", cfg.RemotePath, err) }
	into := cfg.RemotePath == "" || strings.HasSuffix(cfg.RemotePath, "/")
	if !into {
		a, err := s.stat(ctx, cfg.RemotePath)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fault(err)
		}
		into = err == nil && a.isDir()
		if several && !into {
			return fault(courier.Permanent(errors.New("is not a directory, but local_path is a pattern for several files; remote_path must name an existing directory, or end in a slash")))
		}
	}
	for i := range files {
		f := &files[i]
		if !into {
			f.final = cfg.RemotePath
			continue
		}
		for name := range strings.SplitSeq(f.below, "/") {
			if err := safename.Check(name); err != nil {
				return fault(courier.Permanent(fmt.Errorf("local file %s: %w, so it can't be used on the server; set remote_path to a file", safename.Quote(f.local), err)))
			}
		}
		f.final = join(cfg.RemotePath, f.below)
	}
	return nil
}
