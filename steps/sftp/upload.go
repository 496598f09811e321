package sftp

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/steps/fileserver"
)

// Upload is the step "sftp.upload". It uploads one file, or all files that a pattern finds.
//
// A file is written beside its final name and renamed when it is complete. If the server does not
// offer posix-rename@openssh.com, it cannot rename onto an existing file. Then that file is moved
// aside just before, so that for a moment no file has the name; if the renaming fails, it is
// moved back.
//
// If an attempt fails after some of several files have got their names, the next attempt uploads
// all of them again. If the receiver must not see that, upload each file in a step of its own, in
// a flow.foreach.
type Upload struct {
	Connections Connections // must not be nil
}

// UploadConfig is the configuration of [Upload].
type UploadConfig struct {
	fileserver.UploadFields
	Resume   bool   `json:"resume,omitempty" doc:"go on where an interrupted attempt stopped, if the local file still has its size and time; needs a workspace"`
	Preserve string `json:"preserve" default:"none" enum:"none,times,modes,all" doc:"what the remote file takes over: none, times, modes or all"`
}

var (
	_ courier.Step[UploadConfig, fileserver.UploadOutput] = Upload{}
	_ courier.Validator[UploadConfig]                     = Upload{}
	_ courier.Cleaner[UploadConfig]                       = Upload{}
	_ courier.Rollbacker[UploadConfig]                    = Upload{}
)

// Execute uploads the files.
func (u Upload) Execute(ctx context.Context, job *courier.Context, cfg UploadConfig) (fileserver.UploadOutput, error) {
	return remote.Upload(ctx, account(job, u.Connections, cfg.ConnectionID), remote.UploadConfig(cfg))
}

// Validate logs in and checks that the remote directory exists.
func (u Upload) Validate(ctx context.Context, job *courier.Context, cfg UploadConfig) error {
	return remote.ValidateUpload(ctx, account(job, u.Connections, cfg.ConnectionID), remote.UploadConfig(cfg))
}

// Cleanup removes the unfinished remote files of earlier attempts, except those that resume
// keeps.
func (u Upload) Cleanup(ctx context.Context, job *courier.Context, cfg UploadConfig) error {
	return remote.CleanupUpload(ctx, account(job, u.Connections, cfg.ConnectionID), remote.UploadConfig(cfg))
}

// Rollback is Cleanup. If the execution is cancelled, it also removes the files that resume has
// kept.
func (u Upload) Rollback(ctx context.Context, job *courier.Context, cfg UploadConfig) error {
	return remote.RollbackUpload(ctx, account(job, u.Connections, cfg.ConnectionID), remote.UploadConfig(cfg))
}
