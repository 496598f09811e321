package ftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"path"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/transfer"
)

// Download is the step "ftp.download". It downloads one file, or those files
// below a directory that match a pattern.
type Download struct {
	Connections Connections // must not be nil
}

// DownloadConfig is the configuration of [Download].
type DownloadConfig struct {
	ConnectionID        string `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath          string `json:"remote_path" courier:"required" doc:"the file to download, or a directory; taken from the login directory unless it begins with a slash"`
	Pattern             string `json:"pattern,omitempty" doc:"in a directory, download only files that match, such as *.csv, {a,b}-*, or **/*.csv for all directories below too"`
	LocalPath           string `json:"local_path,omitempty" doc:"the file to write; an existing directory or a path that ends in / gets the file under its remote name; by default the attempt's own directory"`
	Idempotency         string `json:"idempotency" default:"overwrite" doc:"overwrite; skip_if_exists to leave local files that exist as they are; or resume to go on where an earlier attempt ended, and to leave files that have the size and time of the remote ones; resume needs local_path"`
	ExpectedSize        *int64 `json:"expected_size,omitempty" doc:"bytes that a single file must have, such as context:loop.current_item.size"`
	IgnoreMissing       bool   `json:"ignore_missing,omitempty" doc:"nothing to download is no error"`
	OnUnsafeName        string `json:"on_unsafe_name" default:"skip" doc:"what to do about entries of the directory that can't be used: skip or fail"`
	DeleteAfterDownload bool   `json:"delete_after_download,omitempty" doc:"delete the remote files once all of them are safe here"`
	ParallelFiles       int    `json:"parallel_files" default:"4" doc:"how many files to download at a time; the connection's max_sessions is the most"`
}

// DownloadOutput is the output of [Download].
type DownloadOutput struct {
	DownloadedFile  string    `json:"downloaded_file,omitempty" doc:"the file, if there is exactly one"`
	DownloadedFiles []string  `json:"downloaded_files" doc:"all files, in the order of their remote paths, those that were there already included"`
	FileCount       int       `json:"file_count" doc:"length of downloaded_files"`
	Size            int64     `json:"size" doc:"bytes of all files"`
	Modified        time.Time `json:"modified,omitzero" doc:"when the file was last changed on the server, if there is exactly one"`
	SkippedCount    int       `json:"skipped_count" doc:"entries of the directory left out because they can't be used or understood"`
	Skipped         bool      `json:"skipped" doc:"whether nothing was downloaded because everything was there already"`
	Reason          string    `json:"reason,omitempty" doc:"file_exists or already_complete when skipped is true"`
}

var (
	_ courier.Step[DownloadConfig, DownloadOutput] = Download{}
	_ courier.Validator[DownloadConfig]            = Download{}
	_ courier.Cleaner[DownloadConfig]              = Download{}
)

// The values of idempotency.
const (
	idempotencyOverwrite = "overwrite"
	idempotencySkip      = "skip_if_exists"
	idempotencyFail      = "fail_if_exists"
	idempotencyResume    = "resume"
)

func (cfg DownloadConfig) search() search {
	return search{pattern: cfg.Pattern, unsafe: cfg.OnUnsafeName}
}

func (cfg DownloadConfig) check() error {
	var size, place error
	if cfg.ExpectedSize != nil && *cfg.ExpectedSize < 0 {
		size = fmt.Errorf("expected_size: %d is negative", *cfg.ExpectedSize)
	}
	if cfg.Idempotency == idempotencyResume && cfg.LocalPath == "" {
		place = errors.New("idempotency: resume needs local_path, since each attempt has a directory of its own")
	}
	return remote.Permanent(checkPath("remote_path", cfg.RemotePath), cfg.search().check(), size, place, checkParallel(cfg.ParallelFiles),
		remote.OneOf("idempotency", cfg.Idempotency, idempotencyOverwrite, idempotencySkip, idempotencyResume))
}

func checkParallel(n int) error {
	if n < 1 || n > maxSessions {
		return fmt.Errorf("parallel_files: must be from 1 to %d, not %d", maxSessions, n)
	}
	return nil
}

// A remoteFile is a file to download.
type remoteFile struct {
	Remote   string    `json:"remote"`
	Local    string    `json:"local"` // as outputs have it
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified,omitzero"`
	Skipped  string    `json:"skipped,omitempty"` // the reason

	local string // as the Context takes it
}

// A downloaded is what is written down before remote files are deleted.
type downloaded struct {
	Files   []remoteFile `json:"files"`
	Skipped int          `json:"skipped"`
}

// Execute downloads the files. An existing local file is replaced when its
// successor is complete.
func (d Download) Execute(ctx context.Context, job *courier.Context, cfg DownloadConfig) (DownloadOutput, error) {
	out := DownloadOutput{DownloadedFiles: []string{}}
	if err := cfg.check(); err != nil {
		return out, err
	}
	var all downloaded
	ledger := noteOn(job, "downloaded")
	if cfg.DeleteAfterDownload && job.Repeated() {
		known, err := ledger.read(&all)
		if err != nil {
			return out, err
		}
		if known {
			return all.output(), d.deleteRemote(ctx, job, cfg, all)
		}
	}
	err := use(ctx, job, d.Connections, cfg.ConnectionID, func(s *session) (err error) {
		all.Files, all.Skipped, err = s.toDownload(ctx, job, cfg)
		return err
	})
	if err == nil {
		err = remote.InParallel(ctx, len(all.Files), cfg.ParallelFiles, func(ctx context.Context, i int) error {
			return more(ctx, job, d.Connections, cfg.ConnectionID, func(s *session) error {
				return s.fetch(ctx, job, &all.Files[i], cfg)
			})
		})
	}
	if err != nil {
		return out, err
	}
	if cfg.DeleteAfterDownload && len(all.Files) > 0 {
		if err := ledger.write(all); err != nil {
			return out, err
		}
		err = d.deleteRemote(ctx, job, cfg, all)
	}
	return all.output(), err
}

func (all downloaded) output() DownloadOutput {
	out := DownloadOutput{DownloadedFiles: []string{}, FileCount: len(all.Files), SkippedCount: all.Skipped}
	skipped := 0
	for _, f := range all.Files {
		out.DownloadedFiles = append(out.DownloadedFiles, f.Local)
		out.Size += f.Size
		if f.Skipped != "" {
			skipped++
			out.Reason = f.Skipped
		}
	}
	if len(all.Files) == 1 {
		out.DownloadedFile, out.Modified = all.Files[0].Local, all.Files[0].Modified
	}
	if out.Skipped = skipped > 0 && skipped == len(all.Files); !out.Skipped {
		out.Reason = ""
	}
	return out
}

// deleteRemote deletes the remote files. One that is no longer what was
// downloaded stays.
func (d Download) deleteRemote(ctx context.Context, job *courier.Context, cfg DownloadConfig, all downloaded) error {
	return use(ctx, job, d.Connections, cfg.ConnectionID, func(s *session) error {
		for _, f := range all.Files {
			job.Progress(0, -1, f.Remote)
			if _, ok := localIs(job, f.Local, f.Size); !ok {
				return s.fault("delete", f.Remote, courier.Permanent(fmt.Errorf("the local file %s is no longer what was downloaded, so the remote one is kept", safename.Quote(f.Local))))
			}
			if err := job.Wrote(f.Local); err != nil {
				return err
			}
			if f.Skipped == "file_exists" {
				continue // nobody knows what the local file is
			}
			n, err := s.stat(ctx, f.Remote)
			if err == nil && (n.isDir || n.size != f.Size || !n.modified.Equal(f.Modified)) {
				job.Log().Warn("a file was changed after it was downloaded, and is not deleted", "connection", s.id, "file", safename.Quote(f.Remote))
				continue
			}
			if err == nil {
				err = s.remove(ctx, f.Remote)
			}
			if err != nil && errors.Is(err, fs.ErrNotExist) {
				if _, e := s.stat(ctx, f.Remote); errors.Is(e, fs.ErrNotExist) {
					continue
				}
			}
			if err != nil {
				return s.fault("delete", f.Remote, err)
			}
		}
		return nil
	})
}

// toDownload finds out which files to download, and where to.
func (s *session) toDownload(ctx context.Context, job *courier.Context, cfg DownloadConfig) ([]remoteFile, int, error) {
	n, err := s.stat(ctx, cfg.RemotePath)
	if err != nil {
		if cfg.IgnoreMissing && errors.Is(err, fs.ErrNotExist) {
			return nil, 0, nil
		}
		if errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(path.Base(cfg.RemotePath), "*?{") {
			err = courier.Permanent(fmt.Errorf("%w; for several files set remote_path to their directory, and pattern to the pattern of their names", err))
		}
		return nil, 0, s.fault("download", cfg.RemotePath, err)
	}
	if n.isDir {
		return s.directoryToDownload(ctx, job, cfg)
	}
	if cfg.Pattern != "" {
		return nil, 0, s.fault("download", cfg.RemotePath, courier.Permanent(errors.New("is not a directory, so there is nothing for pattern to choose from")))
	}
	local, err := cfg.singleTarget(job)
	if err != nil {
		return nil, 0, s.fault("download", cfg.RemotePath, err)
	}
	return []remoteFile{{Remote: cfg.RemotePath, local: local, Size: n.size}}, 0, nil
}

// singleTarget is where a single file goes.
func (cfg DownloadConfig) singleTarget(job *courier.Context) (string, error) {
	dir := cfg.LocalPath
	if dir == "" {
		dir = job.Dir()
	} else if !remote.IsLocalDirectory(job, dir) {
		return dir, nil
	}
	_, name := remote.Split(cfg.RemotePath)
	if err := safename.Check(name); err != nil {
		return "", courier.Permanent(fmt.Errorf("%w, so it can't be the name of a local file; set local_path to a file", err))
	}
	return remote.JoinLocal(dir, name), nil
}

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
	found, skipped, err := s.find(ctx, job, cfg.RemotePath, cfg.search())
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
		files[i] = remoteFile{Remote: f.Path, local: remote.JoinLocal(dir, f.below), Size: f.Size}
		if other, ok := taken[remote.LocalKey(f.below)]; ok {
			return nil, 0, fault(fmt.Errorf("%s and %s would be the same local file; download them with steps of their own", safename.Quote(other), safename.Quote(f.below)))
		}
		taken[remote.LocalKey(f.below)] = f.below
	}
	return files, skipped, nil
}

// fetch downloads one file and completes its description.
func (s *session) fetch(ctx context.Context, job *courier.Context, f *remoteFile, cfg DownloadConfig) error {
	fault := func(err error) error { return s.fault("download", f.Remote, err) }
	n, err := s.stat(ctx, f.Remote)
	switch {
	case err != nil:
		return fault(err)
	case n.isDir:
		return fault(courier.Permanent(errors.New("is not a file")))
	case n.size < 0:
		return fault(courier.Permanent(errors.New("the server doesn't tell its size, so whether all of it has come could not be told")))
	case cfg.ExpectedSize != nil && *cfg.ExpectedSize != n.size:
		return fault(fmt.Errorf("has %d bytes instead of the %d that expected_size says", n.size, *cfg.ExpectedSize))
	}
	f.Size, f.Modified = n.size, n.modified
	if f.Local, err = job.Path(f.local); err != nil {
		return err
	}
	now := proof{Server: s.addr, Path: f.Remote, Size: n.size, Modified: n.modified, Boot: boot()}
	if done, err := cfg.there(job, f, now); done || err != nil {
		return err
	}
	w, offset, err := cfg.begin(job, f, now)
	if err != nil {
		return fmt.Errorf("local file: %w", err)
	}
	defer w.Close()
	m := &remote.Meter{Job: job, Item: f.Remote, Total: n.size}
	if err := s.copyTo(ctx, f.Remote, n, w, offset, m); err != nil {
		return fault(err)
	}
	setTime(job, f.local, w, f.Modified)
	if cfg.Idempotency != idempotencyOverwrite {
		now.Complete = true
		if err := noteOn(job, f.local).write(now); err != nil {
			return err
		}
	}
	if err := m.While(w.Commit); err != nil {
		return fmt.Errorf("local file: %w", err)
	}
	m.Finish()
	return nil
}

// there reports whether the local file need not be downloaded. That an earlier
// attempt of this step has written it doesn't count as having been there.
func (cfg DownloadConfig) there(job *courier.Context, f *remoteFile, now proof) (bool, error) {
	if cfg.Idempotency == idempotencyOverwrite {
		return false, nil
	}
	info, err := job.Stat(f.local)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("local file: %w", err)
	}
	var then proof
	if job.Repeated() {
		known, err := noteOn(job, f.local).read(&then)
		if err != nil {
			return false, err
		}
		if known && then.Complete && then.equal(now) && info.Mode().IsRegular() && info.Size() == now.Size {
			return true, job.Wrote(f.local)
		}
	}
	if cfg.Idempotency == idempotencySkip {
		f.Skipped, f.Size, f.Modified = "file_exists", info.Size(), time.Time{}
		return true, nil
	}
	if info.Mode().IsRegular() && info.Size() == now.Size && !now.Modified.IsZero() && info.ModTime().Equal(now.Modified) {
		f.Skipped = "already_complete"
		return true, nil
	}
	return false, nil
}

// copyTo writes the content of a remote file from offset on to w. It fails if
// the file isn't, after that, the one that was seen before.
func (s *session) copyTo(ctx context.Context, file string, before node, w destination, offset int64, m *remote.Meter) error {
	err := s.retrieve(ctx, file, before.size, w, offset, m)
	part, _ := w.(*partFile)
	if _, refused := errors.AsType[*restartError](err); refused {
		if err = part.restart(); err == nil {
			err = s.retrieve(ctx, file, before.size, w, 0, m)
		}
	}
	if err != nil {
		if part != nil && errors.Is(err, remote.ErrChanged) {
			part.discard()
		}
		return missing(err)
	}
	after, err := s.stat(ctx, file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // some servers hand out a file only once; what was read is complete
	case err != nil:
		return err
	case !before.sameFile(after):
		if part != nil {
			part.discard()
		}
		return remote.ErrChanged
	}
	return nil
}

// retrieve writes what lies between offset and size to w.
func (s *session) retrieve(ctx context.Context, file string, size int64, w io.Writer, offset int64, m *remote.Meter) error {
	m.At(offset)
	if offset == size && offset > 0 {
		return nil
	}
	var got int64
	err := s.transfer(ctx, "RETR", file, offset, false, func(conn net.Conn) error {
		var err error
		limited := &io.LimitedReader{R: source{conn}, N: min(size-offset, math.MaxInt64-1) + 1}
		got, err = transfer.Copy(ctx, w, limited, func(done int64) { m.At(offset + done) })
		if err == nil && got > size-offset {
			err = fmt.Errorf("the server sends more than the %d bytes that it says the file has: %w", size, remote.ErrChanged)
		}
		return err
	})
	if err == nil && got != size-offset {
		err = fmt.Errorf("the server has sent %d bytes of %d, and confirms that this is all", offset+got, size)
	}
	return err
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
		n, err := s.stat(ctx, cfg.RemotePath)
		if err == nil && n.isDir {
			return s.checkDirectory(ctx, cfg.RemotePath)
		}
		return s.fault("download", cfg.RemotePath, err)
	})
}

// Cleanup removes the unfinished local files of earlier attempts, except those
// with which the next goes on. It needs no connection.
func (d Download) Cleanup(_ context.Context, job *courier.Context, cfg DownloadConfig) error {
	resume := cfg.Idempotency == idempotencyResume
	switch {
	case cfg.LocalPath == "":
		return cleanAttempts(job)
	case remote.IsLocalDirectory(job, cfg.LocalPath):
		return cleanDirectory(job, cfg.LocalPath, resume && job.Cancelled())
	}
	if resume && job.Cancelled() {
		if err := removePart(job, cfg.LocalPath); err != nil {
			return err
		}
	}
	return job.RemoveSideFiles(cfg.LocalPath)
}
