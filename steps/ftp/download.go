package ftp

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
)

// Download is the step "ftp.download". It downloads one file, or those files
// below a directory that match a pattern, with the directories they are in.
type Download struct {
	Connections Connections // must not be nil
}

// DownloadConfig is the configuration of [Download].
type DownloadConfig struct {
	remote.DownloadFiles
	OnUnsafeName  string `json:"on_unsafe_name" default:"skip" enum:"skip,fail" doc:"what to do about entries of the directory that can't be used: skip or fail"`
	ParallelFiles int    `json:"parallel_files" default:"4" min:"1" max:"16" doc:"how many files to download at a time; the connection's max_sessions is the most"`
	Resume        *bool  `json:"resume,omitempty" doc:"go on where an interrupted attempt stopped, if the remote file still has the size and time it had then; by default for files of 1 MiB or more; true for files of any size; false begins anew"`
	SkipIfSame    bool   `json:"skip_if_same,omitempty" doc:"a local file that has the size and time of the remote one already counts as downloaded, whoever has written it"`
	Preserve      string `json:"preserve" default:"times" enum:"none,times" doc:"what the local file takes over: none or times; FTP tells no modes"`
	remote.DownloadOptions
}

// DownloadOutput is the output of [Download].
type DownloadOutput struct {
	remote.Downloaded
	UnsafeCount   int `json:"unsafe_count" doc:"entries of the directory left out because they can't be used or understood"`
	NotReadyCount int `json:"not_ready_count" doc:"files of the directory left out because of stable_seconds or done_file"`
}

var (
	_ courier.Step[DownloadConfig, DownloadOutput] = Download{}
	_ courier.Validator[DownloadConfig]            = Download{}
	_ courier.Cleaner[DownloadConfig]              = Download{}
	_ courier.Rollbacker[DownloadConfig]           = Download{}
)

// shared is cfg without what only FTP has.
func (cfg DownloadConfig) shared() remote.DownloadConfig {
	return remote.DownloadConfig{
		DownloadFiles: cfg.DownloadFiles, OnUnsafeName: cfg.OnUnsafeName, Resume: cfg.Resume, SkipIfSame: cfg.SkipIfSame,
		Preserve: cfg.Preserve, DownloadOptions: cfg.DownloadOptions,
	}
}

// Execute downloads the files. An existing local file is replaced when its
// successor is complete.
func (d Download) Execute(ctx context.Context, job *courier.Context, cfg DownloadConfig) (DownloadOutput, error) {
	out, err := remote.Download(ctx, parallelAccount(job, d.Connections, cfg.ConnectionID, cfg.ParallelFiles), cfg.shared())
	return DownloadOutput(out), err
}

// Validate logs in and checks that the file or directory is there.
func (d Download) Validate(ctx context.Context, job *courier.Context, cfg DownloadConfig) error {
	return remote.ValidateDownload(ctx, account(job, d.Connections, cfg.ConnectionID), cfg.shared())
}

// Cleanup removes the unfinished local files of earlier attempts, except those
// with which the next goes on. It needs a connection only where a file may have
// been moved aside on the server.
func (d Download) Cleanup(ctx context.Context, job *courier.Context, cfg DownloadConfig) error {
	return remote.CleanupDownload(ctx, account(job, d.Connections, cfg.ConnectionID), cfg.shared())
}

// Rollback is Cleanup. If the execution is cancelled, it removes what resume has
// kept, too.
func (d Download) Rollback(ctx context.Context, job *courier.Context, cfg DownloadConfig) error {
	return remote.RollbackDownload(ctx, account(job, d.Connections, cfg.ConnectionID), cfg.shared())
}
