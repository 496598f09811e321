package sftp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
)

// find finds out which files to download, and where to.
func (t *downloading) find(ctx context.Context, s *session) (err error) {
	cfg := t.cfg
	a, err := s.stat(ctx, cfg.RemotePath)
	if err != nil {
		if cfg.IgnoreMissing && errors.Is(err, fs.ErrNotExist) {
			t.files = nil
			return nil
		}
		if errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(path.Base(cfg.RemotePath), "*?{") {
			err = courier.Permanent(fmt.Errorf("%w; for several files set remote_path to their directory, and pattern to the pattern of their names", err))
		}
		return s.fault("download", cfg.RemotePath, err)
	}
	if a.isDir() {
		t.files, t.skipped, err = t.findInDirectory(ctx, s)
		return err
	}
	if cfg.Pattern != "" {
		return s.fault("download", cfg.RemotePath, courier.Permanent(errors.New("is not a directory, so there is nothing for pattern to choose from")))
	}
	if err := t.awaitReady(ctx, s, a); err != nil {
		return s.fault("download", cfg.RemotePath, err)
	}
	local, err := cfg.singleTarget(t.job)
	if err != nil {
		return s.fault("download", cfg.RemotePath, err)
	}
	t.files = []remoteFile{{remote: cfg.RemotePath, local: local, size: int64(min(a.size, math.MaxInt64)), plain: a.mode&modeType == modeRegular}}
	return nil
}

// awaitReady reports why a single file can't be downloaded yet.
func (t *downloading) awaitReady(ctx context.Context, s *session, first attrs) error {
	if t.cfg.DoneFile != "" {
		dir, name := split(t.cfg.RemotePath)
		done := join(dir, doneName(t.cfg.DoneFile, name))
		if _, err := s.stat(ctx, done); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("is not ready: its done_file %s is not there yet", safename.Quote(done))
		} else if err != nil {
			return err
		}
	}
	if t.cfg.StableSeconds == 0 {
		return nil
	}
	if err := waitStable(ctx, t.job, t.cfg.StableSeconds, t.cfg.RemotePath); err != nil {
		return err
	}
	second, err := s.stat(ctx, t.cfg.RemotePath)
	if err == nil && !first.sameFile(second) {
		err = fmt.Errorf("is not ready: it has changed within the %d seconds of stable_seconds", t.cfg.StableSeconds)
	}
	return err
}

// singleTarget is where a single file goes.
func (cfg DownloadConfig) singleTarget(job *courier.Context) (string, error) {
	dir := cfg.LocalPath
	if dir == "" {
		dir = job.Dir()
	} else if !isLocalDirectory(job, dir) {
		return dir, nil
	}
	_, name := split(cfg.RemotePath)
	if err := safename.Check(name); err != nil {
		return "", courier.Permanent(fmt.Errorf("%w, so it can't be the name of a local file; set local_path to a file", err))
	}
	return joinLocal(dir, name), nil
}

// isLocalDirectory reports whether a file is meant to go into p.
func isLocalDirectory(job *courier.Context, p string) bool {
	if os.IsPathSeparator(p[len(p)-1]) {
		return true
	}
	info, err := job.Stat(p)
	return err == nil && info.IsDir()
}

func joinLocal(dir, name string) string { return path.Join(filepath.ToSlash(dir), name) }

func (t *downloading) findInDirectory(ctx context.Context, s *session) ([]remoteFile, int, error) {
	cfg := t.cfg
	fault := func(err error) error { return s.fault("download", cfg.RemotePath, courier.Permanent(err)) }
	if cfg.ExpectedSize != nil {
		return nil, 0, fault(errors.New("is a directory; expected_size is for a single file"))
	}
	dir := cfg.LocalPath
	if dir == "" {
		dir = t.job.Dir()
	} else if info, err := t.job.Stat(dir); err == nil && !info.IsDir() {
		return nil, 0, fault(fmt.Errorf("is a directory, so local_path must be one too, but %s is a file", safename.Quote(dir)))
	}
	found, skipped, err := t.ready(ctx, s)
	if err != nil {
		return nil, 0, err
	}
	if len(found) == 0 && !cfg.IgnoreMissing {
		what := "no files"
		if cfg.Pattern != "" {
			what = "no files that match " + safename.Quote(cfg.Pattern)
		}
		if t.notReady > 0 {
			return nil, 0, s.fault("download", cfg.RemotePath, fmt.Errorf("the directory has %s that are ready, but %d that are not yet", what, t.notReady))
		}
		return nil, 0, fault(fmt.Errorf("the directory has %s; if that is in order, set ignore_missing", what))
	}
	files := make([]remoteFile, len(found))
	taken := make(map[string]string)
	for i, f := range found {
		files[i] = remoteFile{remote: f.Path, local: joinLocal(dir, f.Name), size: f.Size, plain: f.plain}
		if other, ok := taken[localKey(f.Name)]; ok {
			return nil, 0, fault(fmt.Errorf("%s and %s would be the same local file; download them with steps of their own", safename.Quote(other), safename.Quote(f.Name)))
		}
		taken[localKey(f.Name)] = f.Name
	}
	return files, skipped, nil
}

// ready lists the files of the directory that match and are ready, and counts
// those whose names can't be used.
func (t *downloading) ready(ctx context.Context, s *session) ([]File, int, error) {
	q := t.cfg.search()
	if t.cfg.DoneFile != "" {
		q.pattern = "" // the companions need not match
	}
	all, skipped, err := s.files(ctx, t.job, t.cfg.RemotePath, q)
	if err != nil {
		return nil, 0, err
	}
	if t.cfg.StableSeconds > 0 && len(all) > 0 {
		if err := waitStable(ctx, t.job, t.cfg.StableSeconds, t.cfg.RemotePath); err != nil {
			return nil, 0, err
		}
	}
	names := make(map[string]bool, len(all))
	for _, f := range all {
		names[f.Name] = true
	}
	before := make(map[string]File)
	if t.cfg.StableSeconds > 0 && len(all) > 0 {
		for _, f := range all {
			before[f.Name] = f
		}
		if all, skipped, err = s.files(ctx, t.job, t.cfg.RemotePath, q); err != nil {
			return nil, 0, err
		}
	}
	wanted := t.cfg.search()
	var found []File
	t.notReady = 0
	for _, f := range all {
		switch old, seen := before[f.Name]; {
		case !wanted.matches(f.Name), isDoneName(t.cfg.DoneFile, f.Name), t.cfg.Checksum == checksumSidecar && strings.HasSuffix(f.Name, sidecarSuffix):
		case t.cfg.DoneFile != "" && !names[doneName(t.cfg.DoneFile, f.Name)],
			t.cfg.StableSeconds > 0 && (!seen || old.Size != f.Size || !old.Modified.Equal(f.Modified)):
			t.notReady++
		default:
			found = append(found, f)
		}
	}
	return found, skipped, nil
}

// localKey is equal for names that are the same file on this system.
func localKey(name string) string {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		return strings.ToLower(name)
	}
	return name
}
