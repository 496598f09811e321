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
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
)

// Download is the step "sftp.download". It downloads one file, or those files
// of a directory whose names match a pattern.
type Download struct {
	Connections Connections // must not be nil
}

// DownloadConfig is the configuration of [Download].
type DownloadConfig struct {
	ConnectionID  string `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath    string `json:"remote_path" courier:"required" doc:"the file to download, or a directory; taken from the login directory unless it begins with a slash"`
	Pattern       string `json:"pattern,omitempty" doc:"in a directory, download only files whose names match, such as *.csv or {a,b}-*"`
	LocalPath     string `json:"local_path,omitempty" doc:"the file to write; an existing directory or a path that ends in / gets the file under its remote name; by default the attempt's own directory"`
	ExpectedSize  *int64 `json:"expected_size,omitempty" doc:"bytes that a single file must have, such as context:loop.current_item.size"`
	IgnoreMissing bool   `json:"ignore_missing,omitempty" doc:"nothing to download is no error"`
	OnUnsafeName  string `json:"on_unsafe_name" default:"skip" doc:"what to do about names in the directory that can't be used: skip or fail"`
}

// DownloadOutput is the output of [Download].
type DownloadOutput struct {
	DownloadedFile  string    `json:"downloaded_file,omitempty" doc:"the file, if there is exactly one"`
	DownloadedFiles []string  `json:"downloaded_files" doc:"all files, in the order of their remote names"`
	FileCount       int       `json:"file_count" doc:"length of downloaded_files"`
	Size            int64     `json:"size" doc:"bytes of all files"`
	Modified        time.Time `json:"modified,omitzero" doc:"when the file was last changed on the server, if there is exactly one"`
	SkippedCount    int       `json:"skipped_count" doc:"entries of the directory left out because their names can't be used"`
}

var (
	_ courier.Step[DownloadConfig, DownloadOutput] = Download{}
	_ courier.Validator[DownloadConfig]            = Download{}
	_ courier.Cleaner[DownloadConfig]              = Download{}
)

func (cfg DownloadConfig) search() search {
	return search{pattern: cfg.Pattern, unsafe: cfg.OnUnsafeName}
}

func (cfg DownloadConfig) check() error {
	var size error
	if cfg.ExpectedSize != nil && *cfg.ExpectedSize < 0 {
		size = fmt.Errorf("expected_size: %d is negative", *cfg.ExpectedSize)
	}
	return permanent(checkPath("remote_path", cfg.RemotePath), cfg.search().check(), size)
}

// A remoteFile is a file to download.
type remoteFile struct {
	remote string
	local  string
	size   int64
	mtime  time.Time
}

// Execute downloads the files. An existing local file is replaced when its
// successor is complete.
func (d Download) Execute(ctx context.Context, job *courier.Context, cfg DownloadConfig) (DownloadOutput, error) {
	out := DownloadOutput{DownloadedFiles: []string{}}
	if err := cfg.check(); err != nil {
		return out, err
	}
	err := use(ctx, job, d.Connections, cfg.ConnectionID, func(s *session) error {
		files, skipped, err := s.toDownload(ctx, job, cfg)
		if err != nil {
			return err
		}
		var total int64
		for _, f := range files {
			total += f.size
		}
		clients := s.clients(ctx, total)
		err = inParallel(ctx, len(files), manyFiles, func(ctx context.Context, i int) error {
			return s.fetch(ctx, job, &files[i], cfg.ExpectedSize, share(clients, i, len(files)))
		})
		if err != nil {
			return err
		}
		out.SkippedCount = skipped
		return out.add(job, files)
	})
	return out, err
}

func (out *DownloadOutput) add(job *courier.Context, files []remoteFile) error {
	for _, f := range files {
		p, err := job.Path(f.local)
		if err != nil {
			return err
		}
		out.DownloadedFiles = append(out.DownloadedFiles, p)
		out.Size += f.size
	}
	if out.FileCount = len(files); out.FileCount == 1 {
		out.DownloadedFile, out.Modified = out.DownloadedFiles[0], files[0].mtime
	}
	return nil
}

// toDownload finds out which files to download, and where to.
func (s *session) toDownload(ctx context.Context, job *courier.Context, cfg DownloadConfig) ([]remoteFile, int, error) {
	a, err := s.stat(ctx, cfg.RemotePath)
	if err != nil {
		if cfg.IgnoreMissing && errors.Is(err, fs.ErrNotExist) {
			return nil, 0, nil
		}
		if errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(path.Base(cfg.RemotePath), "*?{") {
			err = courier.Permanent(fmt.Errorf("%w; for several files set remote_path to their directory, and pattern to the pattern of their names", err))
		}
		return nil, 0, s.fault("download", cfg.RemotePath, err)
	}
	if a.isDir() {
		return s.directoryToDownload(ctx, job, cfg)
	}
	if cfg.Pattern != "" {
		return nil, 0, s.fault("download", cfg.RemotePath, courier.Permanent(errors.New("is not a directory, so there is nothing for pattern to choose from")))
	}
	local, err := cfg.singleTarget(job)
	if err != nil {
		return nil, 0, s.fault("download", cfg.RemotePath, err)
	}
	return []remoteFile{{remote: cfg.RemotePath, local: local, size: int64(min(a.size, math.MaxInt64))}}, 0, nil
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

func (s *session) directoryToDownload(ctx context.Context, job *courier.Context, cfg DownloadConfig) ([]remoteFile, int, error) {
	fault := func(err error) error { return s.fault("download", cfg.RemotePath, courier.Permanent(err)) }
	if cfg.ExpectedSize != nil {
		return nil, 0, fault(errors.New("is a directory; expected_size is for a single file"))
	}
	dir := cfg.LocalPath
	if dir == "" {
		dir = job.Dir()
	} else if info, err := job.Stat(dir); err == nil && !info.IsDir() {
		return nil, 0, fault(fmt.Errorf("is a directory, so local_path must be one too, but %s is a file", safename.Quote(dir)))
	}
	found, skipped, err := s.files(ctx, job, cfg.RemotePath, cfg.search())
	if err != nil {
		return nil, 0, err
	}
	if len(found) == 0 && !cfg.IgnoreMissing {
		what := "no files"
		if cfg.Pattern != "" {
			what = "no files that match " + safename.Quote(cfg.Pattern)
		}
		return nil, 0, fault(fmt.Errorf("the directory has %s; if that is in order, set ignore_missing", what))
	}
	files := make([]remoteFile, len(found))
	taken := make(map[string]string)
	for i, f := range found {
		files[i] = remoteFile{remote: f.Path, local: joinLocal(dir, f.Name), size: f.Size}
		if other, ok := taken[localKey(f.Name)]; ok {
			return nil, 0, fault(fmt.Errorf("%s and %s would be the same local file; download them with steps of their own", safename.Quote(other), safename.Quote(f.Name)))
		}
		taken[localKey(f.Name)] = f.Name
	}
	return files, skipped, nil
}

// localKey is equal for names that are the same file on this system.
func localKey(name string) string {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		return strings.ToLower(name)
	}
	return name
}

// fetch downloads one file over the given channels and completes its
// description.
func (s *session) fetch(ctx context.Context, job *courier.Context, f *remoteFile, expected *int64, clients []*client) error {
	before, err := s.stat(ctx, f.remote)
	if err != nil {
		return s.fault("download", f.remote, err)
	}
	if !before.isFile() {
		return s.fault("download", f.remote, courier.Permanent(errors.New("is not a regular file")))
	}
	size, err := before.fileSize()
	if err != nil {
		return s.fault("download", f.remote, courier.Permanent(err))
	}
	if expected != nil && *expected != size {
		return s.fault("download", f.remote, fmt.Errorf("has %d bytes instead of the %d that expected_size says", size, *expected))
	}
	f.size, f.mtime = size, before.modified()
	w, err := job.Create(f.local)
	if err != nil {
		return fmt.Errorf("local file: %w", err)
	}
	defer w.Close() // discards, unless committed
	m := &meter{job: job, item: f.remote, total: size}
	if err := s.copyTo(ctx, clients, f.remote, before, w, m); err != nil {
		return s.fault("download", f.remote, err)
	}
	setTime(job, f.local, f.mtime)
	if err := m.while(w.Commit); err != nil {
		return fmt.Errorf("local file: %w", err)
	}
	m.finish()
	return nil
}

// copyTo writes the content of a remote file to w. It fails if the file isn't,
// before, during and after, the one that was seen before.
func (s *session) copyTo(ctx context.Context, clients []*client, remote string, before attrs, w *courier.PendingFile, m *meter) error {
	open, err := s.openLanes(ctx, clients, remote, flagRead)
	if err != nil {
		return err
	}
	r := reading{lanes: open, size: m.total, to: w, progress: m.at}
	err = r.run(ctx)
	closeLanes(ctx, open)
	if err != nil {
		return err
	}
	after, err := s.stat(ctx, remote)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // some servers hand out a file only once; what was read is complete
	case err != nil:
		return err
	case !before.sameFile(after):
		return errChanged
	}
	return nil
}

// setTime gives the file that is being written the time it has on the server.
// Where that is impossible, it has the present time.
func setTime(job *courier.Context, name string, mtime time.Time) {
	if mtime.IsZero() {
		return
	}
	root, rel, err := job.Root(name)
	if err != nil {
		return
	}
	side := filepath.Join(filepath.Dir(rel), job.SideName(filepath.Base(rel)))
	if err := root.Chtimes(side, mtime, mtime); err != nil {
		job.Log().Debug("the time of a file can't be set", "file", name, "error", err)
	}
}

// Validate logs in and checks that the file or directory is there.
func (d Download) Validate(ctx context.Context, job *courier.Context, cfg DownloadConfig) error {
	if err := cfg.check(); err != nil {
		return err
	}
	if cfg.LocalPath != "" {
		if _, err := job.Path(cfg.LocalPath); err != nil {
			return fmt.Errorf("local_path: %w", err)
		}
	}
	return test(ctx, job, d.Connections, cfg.ConnectionID, func(s *session) error {
		if job.Unresolved("remote_path") {
			return nil
		}
		a, err := s.stat(ctx, cfg.RemotePath)
		if err != nil {
			return s.fault("download", cfg.RemotePath, err)
		}
		if a.isDir() {
			return s.checkDirectory(ctx, cfg.RemotePath)
		}
		h, err := s.open(ctx, cfg.RemotePath, flagRead)
		if err == nil {
			s.closeHandle(ctx, h)
		}
		return s.fault("download", cfg.RemotePath, err)
	})
}

// Cleanup removes the unfinished local files of earlier attempts. It needs no
// connection.
func (d Download) Cleanup(_ context.Context, job *courier.Context, cfg DownloadConfig) error {
	if cfg.LocalPath == "" {
		return cleanAttempts(job)
	}
	if isLocalDirectory(job, cfg.LocalPath) {
		return cleanDirectory(job, cfg.LocalPath)
	}
	return job.RemoveSideFiles(cfg.LocalPath)
}

// cleanAttempts cleans the directories of all attempts so far.
func cleanAttempts(job *courier.Context) error {
	dir := job.Dir()
	if dir == "." {
		return cleanDirectory(job, dir)
	}
	var errs []error
	for n := job.Attempt(); n >= 1; n-- {
		errs = append(errs, cleanDirectory(job, path.Join(path.Dir(dir), strconv.Itoa(n))))
	}
	return errors.Join(errs...)
}

// cleanDirectory removes the side files of this step from a local directory.
func cleanDirectory(job *courier.Context, dir string) error {
	root, rel, err := job.Root(dir)
	if err != nil {
		return err
	}
	d, err := root.Open(rel)
	if err != nil {
		return ignoreMissing(err)
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return ignoreMissing(err)
	}
	var errs []error
	for _, name := range names {
		if final, _, ok := strings.Cut(name, sideMark); ok && job.IsSideName(final, name) {
			errs = append(errs, ignoreMissing(root.Remove(filepath.Join(rel, name))))
		}
	}
	return errors.Join(errs...)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
