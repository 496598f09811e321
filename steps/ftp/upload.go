package ftp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/bandwidth"
	"github.com/courierhq/courier/internal/parallel"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/transfer"
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
	ConnectionID  string          `json:"connection_id" courier:"required" doc:"the connection to use"`
	LocalPath     courier.Pattern `json:"local_path" courier:"required" doc:"the file to upload, or a pattern, such as out/*.csv, or out/** for all directories below too"`
	RemotePath    string          `json:"remote_path,omitempty" courier:"path" doc:"its path on the server; an existing directory or a path that ends in / gets the file under its local name, with the directories that the pattern has found; by default the login directory"`
	IfExists      string          `json:"if_exists" default:"overwrite" enum:"overwrite,skip,fail" doc:"what to do if the remote file exists: overwrite, skip or fail"`
	Glob          *bool           `json:"glob,omitempty" doc:"whether local_path is a pattern; by default, if it has * or ? and no file has that name"`
	IgnoreMissing bool            `json:"ignore_missing,omitempty" doc:"nothing to upload is no error"`
	ParallelFiles int             `json:"parallel_files" default:"4" min:"1" max:"16" doc:"how many files to upload at a time; the connection's max_sessions is the most"`

	Resume         bool            `json:"resume,omitempty" doc:"go on where an interrupted attempt stopped, if the local file still has the size and time it had then; needs a workspace"`
	SkipIfSame     bool            `json:"skip_if_same,omitempty" doc:"a remote file that has the size and time of the local one already counts as uploaded; useful with preserve"`
	Preserve       string          `json:"preserve" default:"none" enum:"none,times" doc:"what the remote file takes over: none, or times, if the server offers that (MFMT); FTP tells no modes"`
	Checksum       string          `json:"checksum" default:"none" enum:"none,read_back,sidecar" doc:"how to make the content checkable: none; read_back reads each file back and compares it before it gets its name; sidecar writes the SHA-256 into a remote file of the same name and .sha256"`
	AfterTransfer  string          `json:"after_transfer" default:"keep" enum:"keep,delete,move,archive" doc:"what to do with the local files when all are uploaded: keep, delete, move, or archive, which is move with the time added to each name"`
	MoveTo         string          `json:"move_to,omitempty" courier:"path" doc:"the local directory into which move and archive move them, with the directories that the pattern has found; it is made if it is missing"`
	StableSeconds  float64         `json:"stable_seconds,omitempty" min:"0" max:"86400" doc:"upload only files whose size and time have not changed for so many seconds"`
	DoneFile       courier.Pattern `json:"done_file,omitempty" doc:"name of an empty remote file that is written beside each file when all are uploaded; * stands for the file's name, such as in *.done"`
	BandwidthLimit int64           `json:"bandwidth_limit,omitempty" min:"0" doc:"bytes per second of the whole step at most; 0 means no limit"`
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

func (cfg UploadConfig) after() remote.After {
	return remote.After{Action: cfg.AfterTransfer, MoveTo: cfg.MoveTo}
}

func (cfg UploadConfig) check() error {
	return remote.Permanent(checkPath("remote_path", cfg.RemotePath), cfg.after().Check(),
		remote.CheckDoneFile(cfg.DoneFile), bandwidth.CheckRate(cfg.BandwidthLimit))
}

// A localFile is a file to upload.
type localFile struct {
	local   string // as the Context takes it
	below   string // local path below the fixed part of the pattern, with slashes
	final   string // remote path
	size    int64
	was     remote.LocalIdentity
	skipped bool
}

// An uploading is one execution of the step.
type uploading struct {
	Upload
	job   *courier.Context
	cfg   UploadConfig
	limit *bandwidth.Limiter

	files   []localFile
	several bool      // local_path is a pattern
	at      time.Time // when all was uploaded
}

// Execute uploads the files.
func (u Upload) Execute(ctx context.Context, job *courier.Context, cfg UploadConfig) (UploadOutput, error) {
	out := UploadOutput{UploadedFiles: []string{}, SkippedFiles: []string{}}
	if err := cfg.check(); err != nil {
		return out, err
	}
	t := &uploading{Upload: u, job: job, cfg: cfg, limit: bandwidth.New(cfg.BandwidthLimit)}
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
				err = remote.Produced(job, "ftp", cfg.ConnectionID, f.final)
			}
		}
	}
	if err == nil && job.Attempt() > 1 {
		// Cleanup has done this, but the server may only now have come to the
		// last requests of an attempt whose connection was lost.
		err = t.use(ctx, func(s *session) error {
			return s.removeLeftovers(ctx, job, t.written(), job.Attempt()-1, false)
		})
	}
	if err == nil {
		err = cfg.after().Local(ctx, job, t.uploaded(), t.at)
	}
	if err != nil {
		return out, err
	}
	out.add(t.files)
	return out, nil
}

// use calls f with a session. What the connection gives up has been said.
func (t *uploading) use(ctx context.Context, f func(*session) error) error {
	return more(ctx, t.job, t.Connections, t.cfg.ConnectionID, f)
}

// all uploads the files and what belongs to them, and writes down which.
func (t *uploading) all(ctx context.Context) error {
	err := use(ctx, t.job, t.Connections, t.cfg.ConnectionID, func(s *session) error {
		if err := s.setTargets(ctx, t.cfg, t.files, t.several); err != nil {
			return err
		}
		return s.makeParents(ctx, t.cfg, t.files)
	})
	if err != nil {
		return err
	}
	err = parallel.Do(ctx, len(t.files), t.cfg.ParallelFiles, func(ctx context.Context, i int) error {
		return reconnecting(ctx, t.job, t.cfg.ConnectionID, t.cfg.Resume, func() error {
			return t.use(ctx, func(s *session) error {
				p := putting{job: t.job, cfg: t.cfg, file: &t.files[i], limit: t.limit}
				return p.run(ctx, s)
			})
		})
	})
	if err == nil {
		err = t.companions(ctx)
	}
	if err != nil {
		return err
	}
	return t.note()
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

// Validate logs in and checks that the remote directory is there.
func (u Upload) Validate(ctx context.Context, job *courier.Context, cfg UploadConfig) error {
	if err := cfg.check(); err != nil {
		return err
	}
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
	return test(ctx, job, u.Connections, cfg.ConnectionID, func(s *session) error {
		if job.Unresolved("remote_path") || cfg.RemotePath == "" {
			return nil
		}
		n, err := s.Stat(ctx, cfg.RemotePath)
		switch {
		case err == nil && n.IsDir:
			return nil
		case err == nil && cfg.IfExists == transfer.IfExistsFail:
			return s.fault("upload to", cfg.RemotePath, transfer.ErrExists(""))
		case err == nil:
			return nil
		case !errors.Is(err, fs.ErrNotExist) || strings.HasSuffix(cfg.RemotePath, "/"):
			return s.fault("upload to", cfg.RemotePath, err)
		}
		dir := path.Dir(cfg.RemotePath)
		if dir == "." {
			return nil
		}
		n, err = s.Stat(ctx, dir)
		if err == nil && !n.IsDir {
			err = courier.Permanent(errors.New("is not a directory"))
		}
		return s.fault("upload to", dir, err)
	})
}
