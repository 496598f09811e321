package ftp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/safename"
)

// Delete is the step "ftp.delete". It deletes a file, or those files below a
// directory that match a pattern.
type Delete struct {
	Connections Connections // must not be nil
}

// DeleteConfig is the configuration of [Delete].
type DeleteConfig struct {
	ConnectionID  string          `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath    string          `json:"remote_path" courier:"required,path" doc:"the file, or with pattern the directory; taken from the login directory unless it begins with a slash"`
	Pattern       courier.Pattern `json:"pattern,omitempty" doc:"in a directory, delete the files that match, such as *.csv, {a,b}-*, or **/*.csv for all directories below too"`
	Glob          *bool           `json:"glob,omitempty" doc:"true makes all of pattern count, also what values have put into it; by default only what the definition says itself"`
	IgnoreMissing bool            `json:"ignore_missing,omitempty" doc:"nothing to delete is no error"`
	OnUnsafeName  string          `json:"on_unsafe_name" default:"skip" doc:"what to do about entries of the directory that can't be used: skip or fail"`
}

// DeleteOutput is the output of [Delete].
type DeleteOutput struct {
	DeletedFiles []string `json:"deleted_files" doc:"remote paths of the files"`
	FileCount    int      `json:"file_count" doc:"length of deleted_files"`
}

var (
	_ courier.Step[DeleteConfig, DeleteOutput] = Delete{}
	_ courier.Validator[DeleteConfig]          = Delete{}
)

func (cfg DeleteConfig) search() remote.Search {
	return remote.Search{Pattern: glob.Whole(cfg.Pattern, cfg.Glob).Escaped(), Unsafe: cfg.OnUnsafeName, Links: true}
}

func (cfg DeleteConfig) check() error {
	return remote.Permanent(checkPath("remote_path", cfg.RemotePath), cfg.search().Check())
}

// Execute deletes the files. What an earlier attempt has found and written down
// is deleted, whether it is still there or not.
func (d Delete) Execute(ctx context.Context, job *courier.Context, cfg DeleteConfig) (DeleteOutput, error) {
	out := DeleteOutput{DeletedFiles: []string{}}
	if err := cfg.check(); err != nil {
		return out, err
	}
	err := use(ctx, job, d.Connections, cfg.ConnectionID, func(s *session) error {
		ledger, known, err := noteOn(job, "deleted"), false, error(nil)
		if job.Repeated() {
			if known, err = ledger.read(&out.DeletedFiles); err != nil {
				return err
			}
		}
		if !known {
			if out.DeletedFiles, err = s.toDelete(ctx, job, cfg); err != nil {
				return err
			}
			if err := ledger.write(out.DeletedFiles); err != nil {
				return err
			}
		}
		for _, p := range out.DeletedFiles {
			job.Progress(0, -1, p)
			if err := s.delete(ctx, p); err != nil {
				return s.fault("delete", p, err)
			}
		}
		return nil
	})
	out.FileCount = len(out.DeletedFiles)
	return out, err
}

// toDelete finds the files.
func (s *session) toDelete(ctx context.Context, job *courier.Context, cfg DeleteConfig) ([]string, error) {
	files := []string{}
	if cfg.Pattern == "" {
		n, err := s.stat(ctx, cfg.RemotePath)
		switch {
		case errors.Is(err, fs.ErrNotExist) && cfg.IgnoreMissing:
			return files, nil
		case err == nil && n.isDir:
			err = courier.Permanent(errors.New("is a directory; to delete files in it set pattern, to remove it use ftp.rmdir"))
		}
		return append(files, cfg.RemotePath), s.fault("delete", cfg.RemotePath, err)
	}
	found, _, err := cfg.search().Find(ctx, job, lister{s}, cfg.RemotePath)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 && !cfg.IgnoreMissing {
		return nil, s.fault("delete", cfg.RemotePath, courier.Permanent(fmt.Errorf("the directory has no files that match %s; if that is in order, set ignore_missing", safename.Quote(cfg.Pattern.String()))))
	}
	for _, f := range found {
		files = append(files, f.Path)
	}
	return files, nil
}

// delete deletes a file. That it is gone is no error.
func (s *session) delete(ctx context.Context, p string) error {
	err := s.remove(ctx, p)
	if !isReply(err) {
		return err
	}
	if _, e := s.stat(ctx, p); errors.Is(e, fs.ErrNotExist) {
		return nil
	} else if e != nil && !isReply(e) {
		return e
	}
	return err
}

// Validate logs in.
func (d Delete) Validate(ctx context.Context, job *courier.Context, cfg DeleteConfig) error {
	if err := cfg.check(); err != nil {
		return err
	}
	return test(ctx, job, d.Connections, cfg.ConnectionID, nil)
}

// Rename is the step "ftp.rename". It renames or moves a file or directory.
//
// Where a server refuses to rename onto an existing file, that file is deleted
// just before, so that for a moment there is none.
type Rename struct {
	Connections Connections // must not be nil
}

// RenameConfig is the configuration of [Rename].
type RenameConfig struct {
	ConnectionID string `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath   string `json:"remote_path" courier:"required,path" doc:"what to rename; taken from the login directory unless it begins with a slash"`
	NewPath      string `json:"new_path" courier:"required,path" doc:"its new path; an existing directory or a path that ends in / gets it under its name"`
	Idempotency  string `json:"idempotency" default:"overwrite" doc:"what to do if there is a file with the new path: overwrite, skip_if_exists to leave both as they are, or fail_if_exists"`
}

// RenameOutput is the output of [Rename].
type RenameOutput struct {
	RenamedFile string `json:"renamed_file" doc:"the new path"`
	Skipped     bool   `json:"skipped" doc:"whether nothing was renamed because the new path was taken"`
	Reason      string `json:"reason,omitempty" doc:"file_exists when skipped is true"`
}

var (
	_ courier.Step[RenameConfig, RenameOutput] = Rename{}
	_ courier.Validator[RenameConfig]          = Rename{}
)

func (cfg RenameConfig) check() error {
	return remote.Permanent(checkPath("remote_path", cfg.RemotePath), checkPath("new_path", cfg.NewPath), checkTarget(cfg.RemotePath),
		remote.OneOf("idempotency", cfg.Idempotency, idempotencyOverwrite, idempotencySkip, idempotencyFail))
}

// A renaming is what is written down before the renaming.
type renaming struct {
	To   string `json:"to"`
	Dir  bool   `json:"dir"`
	Size int64  `json:"size"`
}

// Execute renames.
func (r Rename) Execute(ctx context.Context, job *courier.Context, cfg RenameConfig) (RenameOutput, error) {
	var out RenameOutput
	if err := cfg.check(); err != nil {
		return out, err
	}
	err := use(ctx, job, r.Connections, cfg.ConnectionID, func(s *session) (err error) {
		out, err = s.renameStep(ctx, job, cfg)
		return s.fault("rename", cfg.RemotePath, err)
	})
	return out, err
}

func (s *session) renameStep(ctx context.Context, job *courier.Context, cfg RenameConfig) (out RenameOutput, err error) {
	var was renaming
	ledger, known := noteOn(job, "renamed"), false
	if job.Repeated() {
		if known, err = ledger.read(&was); err != nil {
			return out, err
		}
	}
	from, err := s.stat(ctx, cfg.RemotePath)
	if errors.Is(err, fs.ErrNotExist) && known {
		if to, e := s.stat(ctx, was.To); e == nil && to.isDir == was.Dir && (to.isDir || to.size == was.Size) {
			return RenameOutput{RenamedFile: was.To}, nil // by an earlier attempt
		} else if e != nil && !isReply(e) {
			return out, e
		}
	}
	if err != nil {
		return out, err
	}
	now := renaming{To: cfg.NewPath, Dir: from.isDir, Size: from.size}
	target, err := s.stat(ctx, cfg.NewPath)
	if strings.HasSuffix(cfg.NewPath, "/") || err == nil && target.isDir {
		now.To = remote.Join(cfg.NewPath, path.Base(cfg.RemotePath))
		target, err = s.stat(ctx, now.To)
	}
	out.RenamedFile = now.To
	exists := err == nil
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return out, err
	case exists && path.Clean(now.To) == path.Clean(cfg.RemotePath):
		return out, nil
	case exists && cfg.Idempotency == idempotencySkip:
		out.Skipped, out.Reason = true, "file_exists"
		return out, nil
	case exists && (cfg.Idempotency == idempotencyFail || target.isDir || from.isDir):
		return out, courier.Permanent(fmt.Errorf("%s exists: %w", safename.Quote(now.To), fs.ErrExist))
	}
	if err := ledger.write(now); err != nil {
		return out, err
	}
	err = s.rename(ctx, cfg.RemotePath, now.To)
	if isReply(err) && exists {
		if err = s.remove(ctx, now.To); err == nil {
			err = s.rename(ctx, cfg.RemotePath, now.To)
		}
	}
	return out, err
}

// Validate logs in and checks that there is something to rename.
func (r Rename) Validate(ctx context.Context, job *courier.Context, cfg RenameConfig) error {
	if job.Unresolved("remote_path") || job.Unresolved("new_path") {
		return test(ctx, job, r.Connections, cfg.ConnectionID, nil)
	}
	if err := cfg.check(); err != nil {
		return err
	}
	return test(ctx, job, r.Connections, cfg.ConnectionID, func(s *session) error {
		_, err := s.stat(ctx, cfg.RemotePath)
		return s.fault("rename", cfg.RemotePath, err)
	})
}
