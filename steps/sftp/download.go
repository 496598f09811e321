package sftp

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/steps/fileserver"
)

// Download is the step "sftp.download". It downloads one file, or the files
// below a directory that match a pattern, with their directories.
type Download struct {
	Connections Connections // must not be nil
}

// DownloadConfig is the configuration of [Download].
type DownloadConfig struct {
	fileserver.DownloadFields
	Preserve string `json:"preserve" default:"times" enum:"none,times,modes,all" doc:"what the local file takes over: none, times, modes or all"`
}

var (
	_ courier.Step[DownloadConfig, fileserver.DownloadOutput] = Download{}
	_ courier.Validator[DownloadConfig]                       = Download{}
	_ courier.Cleaner[DownloadConfig]                         = Download{}
	_ courier.Rollbacker[DownloadConfig]                      = Download{}
)

// Execute downloads the files. An existing local file is replaced when the new
// file is complete.
func (d Download) Execute(ctx context.Context, job *courier.Context, cfg DownloadConfig) (fileserver.DownloadOutput, error) {
	return remote.Download(ctx, account(job, d.Connections, cfg.ConnectionID), remote.DownloadConfig(cfg))
}

// Validate logs in and checks that the file or directory exists.
func (d Download) Validate(ctx context.Context, job *courier.Context, cfg DownloadConfig) error {
	return remote.ValidateDownload(ctx, account(job, d.Connections, cfg.ConnectionID), remote.DownloadConfig(cfg))
}

// Cleanup removes the unfinished local files of earlier attempts, except those
// that resume keeps. It opens a connection only if a file may have been moved
// aside on the server.
func (d Download) Cleanup(ctx context.Context, job *courier.Context, cfg DownloadConfig) error {
	return remote.CleanupDownload(ctx, account(job, d.Connections, cfg.ConnectionID), remote.DownloadConfig(cfg))
}

// Rollback is Cleanup. If the execution is cancelled, it also removes the files
// that resume has kept.
func (d Download) Rollback(ctx context.Context, job *courier.Context, cfg DownloadConfig) error {
	return remote.RollbackDownload(ctx, account(job, d.Connections, cfg.ConnectionID), remote.DownloadConfig(cfg))
}
