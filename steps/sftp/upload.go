package sftp

import (
	"context"

	"github.com/courierhq/courier"
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

// UploadConfig is the configuration of [Upload]. It has the fields of
// [remote.UploadConfig], into which it is converted: a new field is added to both, or to
// [remote.UploadOptions].
type UploadConfig struct {
	ConnectionID  string          `json:"connection_id" courier:"required" doc:"the connection to use"`
	LocalPath     courier.Pattern `json:"local_path" courier:"required" doc:"the file to upload, or a pattern"`
	RemotePath    string          `json:"remote_path,omitempty" courier:"path" doc:"its path on the server; an existing directory or a path that ends in / gets the file under its local name; by default the login directory"`
	IfExists      string          `json:"if_exists" default:"overwrite" enum:"overwrite,skip,fail" doc:"what to do if the remote file exists: overwrite, skip or fail"`
	Glob          *bool           `json:"glob,omitempty" doc:"whether local_path is a pattern; by default, if it has * or ? and no file has that name"`
	IgnoreMissing bool            `json:"ignore_missing,omitempty" doc:"nothing to upload is no error"`
	Resume        bool            `json:"resume,omitempty" doc:"go on where an interrupted attempt stopped, if the local file still has the size and time it had then and what the server has of it is right; needs a workspace"`
	SkipIfSame    bool            `json:"skip_if_same,omitempty" doc:"a remote file that has the size and time of the local one already counts as uploaded; useful with preserve"`
	Preserve      string          `json:"preserve" default:"none" enum:"none,times,modes,all" doc:"what the remote file takes over: none, times, modes or all"`
	remote.UploadOptions
}

// UploadOutput is the output of [Upload].
type UploadOutput remote.UploadOutput

var (
	_ courier.Step[UploadConfig, UploadOutput] = Upload{}
	_ courier.Validator[UploadConfig]          = Upload{}
	_ courier.Cleaner[UploadConfig]            = Upload{}
	_ courier.Rollbacker[UploadConfig]         = Upload{}
)

// Execute uploads the files.
func (u Upload) Execute(ctx context.Context, job *courier.Context, cfg UploadConfig) (UploadOutput, error) {
	out, err := remote.Upload(ctx, account(job, u.Connections, cfg.ConnectionID), remote.UploadConfig(cfg))
	return UploadOutput(out), err
}

// Validate logs in and checks that the remote directory is there.
func (u Upload) Validate(ctx context.Context, job *courier.Context, cfg UploadConfig) error {
	return remote.ValidateUpload(ctx, account(job, u.Connections, cfg.ConnectionID), remote.UploadConfig(cfg))
}

// Cleanup removes the unfinished remote files of earlier attempts, other than those
// that resume keeps.
func (u Upload) Cleanup(ctx context.Context, job *courier.Context, cfg UploadConfig) error {
	return remote.CleanupUpload(ctx, account(job, u.Connections, cfg.ConnectionID), remote.UploadConfig(cfg))
}

// Rollback is Cleanup. If the execution is cancelled, it removes what
// resume has kept, too.
func (u Upload) Rollback(ctx context.Context, job *courier.Context, cfg UploadConfig) error {
	return remote.RollbackUpload(ctx, account(job, u.Connections, cfg.ConnectionID), remote.UploadConfig(cfg))
}
