package sftp

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connfile"
	"github.com/courierhq/courier/internal/remote"
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
	ConnectionID  string          `json:"connection_id" courier:"required" doc:"the connection to use"`
	LocalPath     courier.Pattern `json:"local_path" courier:"required" doc:"the file to upload, or a pattern"`
	RemotePath    string          `json:"remote_path,omitempty" courier:"path" doc:"its path on the server; an existing directory or a path that ends in / gets the file under its local name; by default the login directory"`
	IfExists      string          `json:"if_exists" default:"overwrite" enum:"overwrite,skip,fail" doc:"what to do if the remote file exists: overwrite, skip or fail"`
	Glob          *bool           `json:"glob,omitempty" doc:"whether local_path is a pattern; by default, if it has * or ? and no file has that name"`
	IgnoreMissing bool            `json:"ignore_missing,omitempty" doc:"nothing to upload is no error"`

	Resume         bool            `json:"resume,omitempty" doc:"go on where an interrupted attempt stopped, if the local file still has the size and time it had then and what the server has of it is right; needs a workspace"`
	SkipIfSame     bool            `json:"skip_if_same,omitempty" doc:"a remote file that has the size and time of the local one already counts as uploaded; useful with preserve"`
	Preserve       string          `json:"preserve" default:"none" enum:"none,times,modes,all" doc:"what the remote file takes over: none, times, modes or all"`
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
	_ courier.Rollbacker[UploadConfig]         = Upload{}
)

func (cfg UploadConfig) check() error {
	return connfile.Permanent(checkPath("remote_path", cfg.RemotePath), remote.UploadConfig(cfg).Check())
}

// Execute uploads the files.
func (u Upload) Execute(ctx context.Context, job *courier.Context, cfg UploadConfig) (UploadOutput, error) {
	if err := cfg.check(); err != nil {
		return UploadOutput{UploadedFiles: []string{}, SkippedFiles: []string{}}, err
	}
	out, err := remote.Upload(ctx, account(job, u.Connections, cfg.ConnectionID), remote.UploadConfig(cfg))
	return UploadOutput(out), err
}

// Validate logs in and checks that the remote directory is there.
func (u Upload) Validate(ctx context.Context, job *courier.Context, cfg UploadConfig) error {
	if err := cfg.check(); err != nil {
		return err
	}
	return remote.ValidateUpload(ctx, account(job, u.Connections, cfg.ConnectionID), remote.UploadConfig(cfg))
}

// Cleanup removes the unfinished remote files of earlier attempts, other than those
// that resume keeps.
func (u Upload) Cleanup(ctx context.Context, job *courier.Context, cfg UploadConfig) error {
	if err := cfg.check(); err != nil {
		return err
	}
	return remote.CleanupUpload(ctx, account(job, u.Connections, cfg.ConnectionID), remote.UploadConfig(cfg))
}

// Rollback is Cleanup. If the execution is cancelled, it removes what
// resume has kept, too.
func (u Upload) Rollback(ctx context.Context, job *courier.Context, cfg UploadConfig) error {
	if err := cfg.check(); err != nil {
		return err
	}
	return remote.RollbackUpload(ctx, account(job, u.Connections, cfg.ConnectionID), remote.UploadConfig(cfg))
}
