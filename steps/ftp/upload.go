package ftp

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/steps/fileserver"
)

// Upload is the step "ftp.upload". It uploads one file, or all files that a
// pattern finds.
//
// A file is written beside its final name and renamed when it is complete. If
// the server refuses to rename onto an existing file, that file is moved aside
// just before, so that for a moment no file has the name; if the renaming
// fails, it is moved back.
//
// If an attempt fails after some of several files have got their names, the
// next attempt uploads all of them again. If the receiver must not see that,
// upload each file in a step of its own, in a flow.foreach.
type Upload struct {
	Connections Connections // must not be nil
}

// UploadConfig is the configuration of [Upload].
type UploadConfig struct {
	fileserver.UploadFields
	ParallelFiles int    `json:"parallel_files" default:"4" min:"1" max:"16" doc:"number of files at a time, at most max_sessions of the connection"`
	Resume        bool   `json:"resume,omitempty" doc:"go on where an interrupted attempt stopped, if the local file still has its size and time; needs a workspace"`
	Preserve      string `json:"preserve" default:"none" enum:"none,times" doc:"what the remote file takes over: none, or times if the server has MFMT"`
}

var (
	_ courier.Step[UploadConfig, fileserver.UploadOutput] = Upload{}
	_ courier.Validator[UploadConfig]                     = Upload{}
	_ courier.Cleaner[UploadConfig]                       = Upload{}
	_ courier.Rollbacker[UploadConfig]                    = Upload{}
)

// shared returns cfg without the fields that only FTP has.
func (cfg UploadConfig) shared() remote.UploadConfig {
	return remote.UploadConfig{UploadFields: cfg.UploadFields, Resume: cfg.Resume, Preserve: cfg.Preserve}
}

// Execute uploads the files.
func (u Upload) Execute(ctx context.Context, job *courier.Context, cfg UploadConfig) (fileserver.UploadOutput, error) {
	return remote.Upload(ctx, parallelAccount(job, u.Connections, cfg.ConnectionID, cfg.ParallelFiles), cfg.shared())
}

// Validate logs in and checks that the remote directory exists.
func (u Upload) Validate(ctx context.Context, job *courier.Context, cfg UploadConfig) error {
	return remote.ValidateUpload(ctx, account(job, u.Connections, cfg.ConnectionID), cfg.shared())
}

// Cleanup removes the unfinished remote files of earlier attempts, except those
// that the next attempt continues.
func (u Upload) Cleanup(ctx context.Context, job *courier.Context, cfg UploadConfig) error {
	return remote.CleanupUpload(ctx, account(job, u.Connections, cfg.ConnectionID), cfg.shared())
}

// Rollback is Cleanup. If the execution is cancelled, it also removes the files
// that resume has kept.
func (u Upload) Rollback(ctx context.Context, job *courier.Context, cfg UploadConfig) error {
	return remote.RollbackUpload(ctx, account(job, u.Connections, cfg.ConnectionID), cfg.shared())
}
