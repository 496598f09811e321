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
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/internal/transfer"
	"github.com/courierhq/courier/steps/fileserver"
)

// An UploadConfig is the configuration of a step that uploads files. The step types
// describe the fields that each protocol has in its own way.
type UploadConfig struct {
	fileserver.UploadFields
	Resume   bool
	Preserve string
}

func (cfg UploadConfig) after() After {
	return After{Action: cfg.AfterTransfer, MoveTo: cfg.MoveTo}
}

func (cfg UploadConfig) sources() Sources {
	return Sources{LocalPath: cfg.LocalPath, Glob: cfg.Glob, IgnoreMissing: cfg.IgnoreMissing}
}

// check reports what is wrong with cfg.
func (cfg UploadConfig) check(a Account) error {
	return courier.Permanent(errors.Join(a.CheckPath("remote_path", cfg.RemotePath), cfg.after().Check(),
		CheckDoneFile(cfg.DoneFile), bandwidth.CheckRate(cfg.BandwidthLimit)))
}

// An uploading is one execution of the step.
type uploading struct {
	Account
	cfg   UploadConfig
	limit *bandwidth.Limiter

	cursor  *cursor
	files   []LocalFile
	several bool      // local_path is a pattern
	at      time.Time // when all was uploaded
}

// Upload uploads the files. A file is written beside its final name and renamed when
// it is complete.
func Upload(ctx context.Context, a Account, cfg UploadConfig) (fileserver.UploadOutput, error) {
	out := fileserver.UploadOutput{UploadedFiles: []string{}, SkippedFiles: []string{}}
	if err := cfg.check(a); err != nil {
		return out, err
	}
	t := &uploading{Account: a, cfg: cfg, limit: bandwidth.New(cfg.BandwidthLimit), cursor: openCursor(a.Job)}
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
			if err == nil && !f.Skipped {
				err = t.produced(f.Final)
			}
		}
	}
	if err == nil && stepcontext.Of(a.Job).StartNumber() > 1 {
		// Cleanup has done this, but the server may only now have come to the
		// last requests of an attempt whose connection was lost.
		err = a.Use(ctx, func(s Server) error {
			return a.removeLeftovers(ctx, s, t.written(), stepcontext.Of(a.Job).StartNumber()-1)
		})
	}
	if err == nil && cfg.AfterTransfer != AfterKeep {
		err = cfg.after().Local(ctx, a.Job, t.files, t.at)
	}
	if err != nil {
		return out, err
	}
	for _, f := range t.files {
		if err == nil && !f.Skipped {
			err = a.Job.Files().ReportRemote(courier.File{Path: f.Final, Size: f.Size, Connection: a.ID})
		}
	}
	addUploads(&out, t.files)
	return out, err
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
		b.Sizes[i] = f.Size
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

func addUploads(out *fileserver.UploadOutput, files []LocalFile) {
	for _, f := range files {
		out.UploadedFiles = append(out.UploadedFiles, f.Final)
		if f.Skipped {
			out.SkippedFiles = append(out.SkippedFiles, f.Final)
			continue
		}
		out.FileCount++
		out.Size += f.Size
	}
	if len(files) == 1 {
		out.UploadedFile = files[0].Final
	}
	if out.FileCount == 0 {
		out.Skipped, out.Reason = true, transfer.ReasonExists
	}
}

// ValidateUpload logs in and checks that the remote directory is there.
func ValidateUpload(ctx context.Context, a Account, cfg UploadConfig) error {
	if err := cfg.check(a); err != nil {
		return err
	}
	job := a.Job
	if !job.Unresolved("local_path") {
		if _, err := job.Files().Path(cfg.LocalPath.String()); err != nil {
			return fmt.Errorf("local_path: %w", err)
		}
	}
	if cfg.MoveTo != "" && !job.Unresolved("move_to") {
		if _, err := job.Files().Path(cfg.MoveTo); err != nil {
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

// find finds the files to upload, those that are ready.
func (t *uploading) find(ctx context.Context) error {
	files, several, err := t.cfg.sources().FindReady(ctx, t.Job, t.cfg.StableSeconds)
	t.files, t.several = files, several
	return err
}

// setTargets gives each file its remote path.
func (t *uploading) setTargets(ctx context.Context, s Server) error {
	cfg := t.cfg
	targets, err := cfg.sources().Targets(t.files, t.several, cfg.RemotePath, func() (bool, bool, error) {
		a, err := s.Stat(ctx, cfg.RemotePath)
		if errors.Is(err, fs.ErrNotExist) {
			return false, false, nil
		}
		return err == nil, a.IsDir(), err
	})
	for i, target := range targets {
		t.files[i].Final = target
	}
	return s.Fault("upload to", cfg.RemotePath, err)
}

// makeParents makes the directories below remote_path that hold the files.
func (t *uploading) makeParents(ctx context.Context, s Server) error {
	for _, dir := range Directories(t.cfg.RemotePath, t.files) {
		if err := makeDirectory(ctx, s, dir); err != nil {
			return s.Fault("make directory", dir, err)
		}
	}
	return nil
}
