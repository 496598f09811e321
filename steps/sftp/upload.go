package sftp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
)

// Upload is the step "sftp.upload". It uploads one file, or all that a pattern
// finds.
//
// A file is written beside its final name and renamed when it is complete. A
// server that can't rename onto an existing file (it doesn't offer
// posix-rename@openssh.com) has that file moved aside just before, so that for
// a moment there is none; if the renaming fails, it is moved back.
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
	IfExists      string `json:"if_exists" default:"overwrite" doc:"what to do if the remote file exists: overwrite, skip or fail"`
	Glob          *bool  `json:"glob,omitempty" doc:"whether local_path is a pattern; by default, if it has * or ? and no file has that name"`
	IgnoreMissing bool   `json:"ignore_missing,omitempty" doc:"nothing to upload is no error"`
	VerifyContent bool   `json:"verify_content,omitempty" doc:"read each file back and compare it before it gets its name; its size is always compared"`
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

// The values of if_exists.
const (
	ifExistsOverwrite = "overwrite"
	ifExistsSkip      = "skip"
	ifExistsFail      = "fail"
)

func (cfg UploadConfig) check() error {
	return permanent(checkPath("remote_path", cfg.RemotePath),
		oneOf("if_exists", cfg.IfExists, ifExistsOverwrite, ifExistsSkip, ifExistsFail))
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
	files, several, err := cfg.sources(job)
	if err != nil || len(files) == 0 {
		return out, err
	}
	err = use(ctx, job, u.Connections, cfg.ConnectionID, func(s *session) error {
		if err := s.setTargets(ctx, cfg, files, several); err != nil {
			return err
		}
		var total int64
		for _, f := range files {
			total += f.size
		}
		clients := s.clients(ctx, total)
		return inParallel(ctx, len(files), manyFiles, func(ctx context.Context, i int) error {
			p := putting{connections: u.Connections, job: job, cfg: cfg, file: &files[i], clients: share(clients, i, len(files))}
			return p.run(ctx, s)
		})
	})
	if err == nil && job.Attempt() > 1 {
		// Cleanup has done this, but the server may only now have come to the
		// last requests of an attempt whose connection was lost.
		err = use(ctx, job, u.Connections, cfg.ConnectionID, func(s *session) error {
			return s.removeLeftovers(ctx, job, files, job.Attempt()-1)
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
		a, err := s.stat(ctx, cfg.RemotePath)
		switch {
		case err == nil && a.isDir():
			return nil
		case err == nil && cfg.IfExists == ifExistsFail:
			return s.fault("upload to", cfg.RemotePath, courier.Permanent(fmt.Errorf("exists, and if_exists is %q: %w", ifExistsFail, os.ErrExist)))
		case err == nil:
			return nil
		case !errors.Is(err, fs.ErrNotExist) || strings.HasSuffix(cfg.RemotePath, "/"):
			return s.fault("upload to", cfg.RemotePath, err)
		}
		dir, _ := split(cfg.RemotePath)
		a, err = s.stat(ctx, dir)
		if err == nil && !a.isDir() {
			err = courier.Permanent(errors.New("is not a directory"))
		}
		return s.fault("upload to", dir, err)
	})
}

// Cleanup removes the unfinished remote files of earlier attempts.
func (u Upload) Cleanup(ctx context.Context, job *courier.Context, cfg UploadConfig) error {
	if err := cfg.check(); err != nil {
		return err
	}
	files, several, err := cfg.sources(job)
	if err != nil || len(files) == 0 {
		// The source is gone. What it was called is known only if it was one
		// file.
		if cfg.isPattern(true) {
			return nil
		}
		files, several = []localFile{cfg.single()}, false
	}
	return use(ctx, job, u.Connections, cfg.ConnectionID, func(s *session) error {
		err := s.setTargets(ctx, cfg, files, several)
		if courier.IsPermanent(err) {
			return nil // where nothing can be written, nothing was left
		} else if err != nil {
			return err
		}
		return s.removeLeftovers(ctx, job, files, job.Attempt())
	})
}
