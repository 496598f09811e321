package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/bandwidth"
	"github.com/courierhq/courier/internal/transfer"
)

// An UploadConfig is the configuration of a step that uploads files, as its step
// type describes it.
type UploadConfig struct {
	ConnectionID  string
	LocalPath     courier.Pattern
	RemotePath    string
	IfExists      string
	Glob          *bool
	IgnoreMissing bool

	Resume         bool
	SkipIfSame     bool
	Preserve       string
	Checksum       string
	AfterTransfer  string
	MoveTo         string
	StableSeconds  float64
	DoneFile       courier.Pattern
	BandwidthLimit int64
}

// An UploadOutput is its output.
type UploadOutput struct {
	UploadedFile  string
	UploadedFiles []string
	SkippedFiles  []string
	Skipped       bool
	Reason        string
	FileCount     int
	Size          int64
}

func (cfg UploadConfig) after() After {
	return After{Action: cfg.AfterTransfer, MoveTo: cfg.MoveTo}
}

func (cfg UploadConfig) sources() Sources {
	return Sources{LocalPath: cfg.LocalPath, Glob: cfg.Glob, IgnoreMissing: cfg.IgnoreMissing}
}

// Check reports what is wrong with cfg besides its paths.
func (cfg UploadConfig) Check() error {
	return errors.Join(cfg.after().Check(), CheckDoneFile(cfg.DoneFile), bandwidth.CheckRate(cfg.BandwidthLimit))
}

// A localFile is a file to upload.
type localFile struct {
	local   string // as the Context takes it
	below   string // local path below the fixed part of the pattern, with slashes
	final   string // remote path
	size    int64
	was     LocalIdentity
	skipped bool
}

// An uploading is one execution of the step.
type uploading struct {
	Account
	cfg   UploadConfig
	limit *bandwidth.Limiter

	files   []localFile
	several bool      // local_path is a pattern
	at      time.Time // when all was uploaded
}

// Upload uploads the files. A file is written beside its final name and renamed when
// it is complete.
func Upload(ctx context.Context, a Account, cfg UploadConfig) (UploadOutput, error) {
	out := UploadOutput{UploadedFiles: []string{}, SkippedFiles: []string{}}
	t := &uploading{Account: a, cfg: cfg, limit: bandwidth.New(cfg.BandwidthLimit)}
	done, err := t.recall(ctx)
	if err == nil && !done {
		err = t.find(ctx)
		if err == nil && len(t.files) == 0 {
			return out, nil
		}
		if err == nil {
			err = t.all(ctx)
		}
		for _, f := range t.files {
			if err == nil && !f.skipped {
				err = t.produced(f.final)
			}
		}
	}
	if err == nil && a.Job.StartNumber() > 1 {
		// Cleanup has done this, but the server may only now have come to the
		// last requests of an attempt whose connection was lost.
		err = a.Use(ctx, func(s Server) error {
			return a.removeLeftovers(ctx, s, t.written(), a.Job.StartNumber()-1)
		})
	}
	if err == nil && cfg.AfterTransfer != AfterKeep {
		err = cfg.after().Local(ctx, a.Job, t.uploaded(), t.at)
	}
	if err != nil {
		return out, err
	}
	out.add(t.files)
	return out, nil
}

// all uploads the files and what belongs to them, and notes down which. It goes on
// when the connection was lost, if that is wanted.
func (t *uploading) all(ctx context.Context) error {
	err := t.use(ctx, t.cfg.Resume, func(s Server) error {
		if err := t.setTargets(ctx, s); err != nil {
			return err
		}
		return t.makeParents(ctx, s)
	})
	if err != nil {
		return err
	}
	b := Batch{Sizes: make([]int64, len(t.files)), Storing: true, Resumes: func(int) bool { return t.cfg.Resume }}
	for i, f := range t.files {
		b.Sizes[i] = f.size
	}
	b.Move = func(ctx context.Context, s Server, i int) error {
		u := fileUpload{uploading: t, file: &t.files[i]}
		return u.run(ctx, s)
	}
	if err := t.Each(ctx, b); err != nil {
		return err
	}
	if t.cfg.Checksum == ChecksumSidecar || t.cfg.DoneFile != "" {
		if err := t.use(ctx, t.cfg.Resume, func(s Server) error { return t.companions(ctx, s) }); err != nil {
			return err
		}
	}
	return t.note(ctx)
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
		out.Skipped, out.Reason = true, transfer.ReasonExists
	}
}

// ValidateUpload logs in and checks that the remote directory is there.
func ValidateUpload(ctx context.Context, a Account, cfg UploadConfig) error {
	job := a.Job
	if !job.Unresolved("local_path") {
		if _, err := job.Path(cfg.LocalPath.String()); err != nil {
			return fmt.Errorf("local_path: %w", err)
		}
	}
	if cfg.MoveTo != "" && !job.Unresolved("move_to") {
		if _, err := job.Path(cfg.MoveTo); err != nil {
			return fmt.Errorf("move_to: %w", err)
		}
	}
	return a.Validate(ctx, func(s Server) error {
		if job.Unresolved("remote_path") || cfg.RemotePath == "" {
			return nil
		}
		info, err := s.Stat(ctx, cfg.RemotePath)
		switch {
		case err == nil && info.IsDir():
			return nil
		case err == nil && cfg.IfExists == transfer.IfExistsFail:
			return s.Fault("upload to", cfg.RemotePath, transfer.ErrExists(""))
		case err == nil:
			return nil
		case !errors.Is(err, fs.ErrNotExist) || strings.HasSuffix(cfg.RemotePath, "/"):
			return s.Fault("upload to", cfg.RemotePath, err)
		}
		dir, _ := Split(cfg.RemotePath)
		if dir == "." {
			return nil
		}
		info, err = s.Stat(ctx, dir)
		if err == nil && !info.IsDir() {
			err = courier.Permanent(errors.New("is not a directory"))
		}
		return s.Fault("upload to", dir, err)
	})
}
