package ftp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
)

// Upload is the step "ftp.upload". It uploads one file, or all that a pattern
// finds.
//
// A file is written beside its final name and renamed when it is complete.
// Where a server refuses to rename onto an existing file, that file is moved
// aside just before, so that for a moment there is none; if the renaming fails,
// it is moved back.
//
// If an attempt fails after some of several files have got their names, the
// next uploads all of them again. Where whoever receives them must not see that,
// upload each in a step of its own, in a flow.foreach.
type Upload struct {
	Connections Connections // must not be nil
}

// UploadConfig is the configuration of [Upload].
type UploadConfig struct {
	ConnectionID  string `json:"connection_id" courier:"required" doc:"the connection to use"`
	LocalPath     string `json:"local_path" courier:"required" doc:"the file to upload, or a pattern"`
	RemotePath    string `json:"remote_path,omitempty" doc:"its path on the server; an existing directory or a path that ends in / gets the file under its local name; by default the login directory"`
	Idempotency   string `json:"idempotency" default:"overwrite" doc:"overwrite; skip_if_exists to leave remote files that exist as they are; fail_if_exists; or resume to overwrite, and to go on where an earlier attempt ended"`
	Glob          *bool  `json:"glob,omitempty" doc:"whether local_path is a pattern; by default, if it has * or ? and no file has that name"`
	IgnoreMissing bool   `json:"ignore_missing,omitempty" doc:"nothing to upload is no error"`
	VerifyContent bool   `json:"verify_content,omitempty" doc:"read each file back and compare it before it gets its name; its size is always compared"`
	PreserveTime  bool   `json:"preserve_time,omitempty" doc:"give the remote file the local one's time of change, if the server offers that (MFMT)"`
	ParallelFiles int    `json:"parallel_files" default:"4" doc:"how many files to upload at a time; the connection's max_sessions is the most"`
}

// UploadOutput is the output of [Upload].
type UploadOutput struct {
	UploadedFile  string   `json:"uploaded_file,omitempty" doc:"remote path of the file, if there is exactly one"`
	UploadedFiles []string `json:"uploaded_files" doc:"remote paths of all files, in the order of their local ones, those that were there already included"`
	SkippedFiles  []string `json:"skipped_files" doc:"those of uploaded_files that were there already and were left as they are"`
	Skipped       bool     `json:"skipped" doc:"whether nothing was uploaded because everything was there already"`
	Reason        string   `json:"reason,omitempty" doc:"file_exists when skipped is true"`
	FileCount     int      `json:"file_count" doc:"how many files were uploaded"`
	Size          int64    `json:"size" doc:"of what was uploaded, in bytes"`
}

var (
	_ courier.Step[UploadConfig, UploadOutput] = Upload{}
	_ courier.Validator[UploadConfig]          = Upload{}
	_ courier.Cleaner[UploadConfig]            = Upload{}
)

func (cfg UploadConfig) check() error {
	return remote.Permanent(checkPath("remote_path", cfg.RemotePath), checkParallel(cfg.ParallelFiles),
		remote.OneOf("idempotency", cfg.Idempotency, idempotencyOverwrite, idempotencySkip, idempotencyFail, idempotencyResume))
}

// A localFile is a file to upload.
type localFile struct {
	local   string // as the Context takes it
	below   string // local path below the fixed part of the pattern, with slashes
	final   string // remote path
	size    int64
	skipped bool
}

// Execute uploads the files.
func (u Upload) Execute(ctx context.Context, job *courier.Context, cfg UploadConfig) (UploadOutput, error) {
	out := UploadOutput{UploadedFiles: []string{}, SkippedFiles: []string{}}
	if err := cfg.check(); err != nil {
		return out, err
	}
	sources, several, err := cfg.sources().Find(job)
	if err != nil || len(sources) == 0 {
		return out, err
	}
	files := localFiles(sources)
	err = use(ctx, job, u.Connections, cfg.ConnectionID, func(s *session) error {
		return s.setTargets(ctx, cfg, files, several)
	})
	if err == nil {
		err = remote.InParallel(ctx, len(files), cfg.ParallelFiles, func(ctx context.Context, i int) error {
			return more(ctx, job, u.Connections, cfg.ConnectionID, func(s *session) error {
				p := putting{job: job, cfg: cfg, file: &files[i]}
				return p.run(ctx, s)
			})
		})
	}
	if err == nil && job.Attempt() > 1 {
		// Cleanup has done this, but the server may only now have come to the
		// last requests of an attempt whose connection was lost.
		err = more(ctx, job, u.Connections, cfg.ConnectionID, func(s *session) error {
			return s.removeLeftovers(ctx, job, files, job.Attempt()-1, false)
		})
	}
	if err != nil {
		return out, err
	}
	out.add(files)
	return out, nil
}

func (out *UploadOutput) add(files []localFile) {
	for _, f := range files {
		out.UploadedFiles = append(out.UploadedFiles, f.final)
		if f.skipped {
			out.SkippedFiles = append(out.SkippedFiles, f.final)
			continue
		}
		out.FileCount++
		out.Size += f.size
	}
	if len(files) == 1 {
		out.UploadedFile = files[0].final
	}
	if out.FileCount == 0 {
		out.Skipped, out.Reason = true, "file_exists"
	}
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
	sources := make([]remote.Source, len(files))
	for i, f := range files {
		sources[i] = remote.Source{Local: f.local, Below: f.below}
	}
	targets, err := cfg.sources().Targets(sources, several, cfg.RemotePath, func() (bool, bool, error) {
		n, err := s.stat(ctx, cfg.RemotePath)
		if errors.Is(err, fs.ErrNotExist) {
			return false, false, nil
		}
		return err == nil, n.isDir, err
	})
	for i, target := range targets {
		files[i].final = target
	}
	return s.fault("upload to", cfg.RemotePath, err)
}

// Validate logs in and checks that the remote directory is there.
func (u Upload) Validate(ctx context.Context, job *courier.Context, cfg UploadConfig) error {
	if err := cfg.check(); err != nil {
		return err
	}
	if !job.Unresolved("local_path") {
		if _, err := job.Path(cfg.LocalPath); err != nil {
			return fmt.Errorf("local_path: %w", err)
		}
	}
	return test(ctx, job, u.Connections, cfg.ConnectionID, func(s *session) error {
		if job.Unresolved("remote_path") || cfg.RemotePath == "" {
			return nil
		}
		n, err := s.stat(ctx, cfg.RemotePath)
		switch {
		case err == nil && n.isDir:
			return nil
		case err == nil && cfg.Idempotency == idempotencyFail:
			return s.fault("upload to", cfg.RemotePath, errExists)
		case err == nil:
			return nil
		case !errors.Is(err, fs.ErrNotExist) || strings.HasSuffix(cfg.RemotePath, "/"):
			return s.fault("upload to", cfg.RemotePath, err)
		}
		dir := path.Dir(cfg.RemotePath)
		if dir == "." {
			return nil
		}
		n, err = s.stat(ctx, dir)
		if err == nil && !n.isDir {
			err = courier.Permanent(errors.New("is not a directory"))
		}
		return s.fault("upload to", dir, err)
	})
}

// errExists is the refusal to replace a file.
var errExists = courier.Permanent(fmt.Errorf("exists, and idempotency is %q: %w", idempotencyFail, os.ErrExist))

// Cleanup removes the unfinished remote files of earlier attempts, except those
// with which the next goes on.
func (u Upload) Cleanup(ctx context.Context, job *courier.Context, cfg UploadConfig) error {
	if err := cfg.check(); err != nil {
		return err
	}
	sources, several := cfg.sources().Former(job)
	if len(sources) == 0 {
		return nil
	}
	files := localFiles(sources)
	return use(ctx, job, u.Connections, cfg.ConnectionID, func(s *session) error {
		err := s.setTargets(ctx, cfg, files, several)
		if courier.IsPermanent(err) {
			return nil // where nothing can be written, nothing was left
		} else if err != nil {
			return err
		}
		return s.removeLeftovers(ctx, job, files, job.Attempt(), cfg.Idempotency == idempotencyResume && job.Cancelled())
	})
}
