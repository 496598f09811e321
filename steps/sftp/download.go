package sftp

import (
	"context"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connfile"
	"github.com/courierhq/courier/internal/remote"
)

// Download is the step "sftp.download". It downloads one file, or those files
// below a directory that match a pattern, with the directories they are in.
type Download struct {
	Connections Connections // must not be nil
}

// DownloadConfig is the configuration of [Download].
type DownloadConfig struct {
	ConnectionID  string          `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath    string          `json:"remote_path" courier:"required,path" doc:"the file to download, or a directory; taken from the login directory unless it begins with a slash"`
	Pattern       courier.Pattern `json:"pattern,omitempty" doc:"in a directory, download only files that match, such as *.csv, {a,b}-*, or **/*.csv for all directories below too"`
	Glob          *bool           `json:"glob,omitempty" doc:"true makes all of pattern count, also what values have put into it; by default only what the definition says itself"`
	FollowLinks   bool            `json:"follow_links,omitempty" doc:"links to files in the directory count as files; by default they are left out, since who may make a link could so name files of others"`
	LocalPath     string          `json:"local_path,omitempty" courier:"path" doc:"the file to write; an existing directory or a path that ends in / gets the file under its remote name; by default the attempt's own directory"`
	IfExists      string          `json:"if_exists" default:"overwrite" enum:"overwrite,skip,fail" doc:"what to do if the local file exists: overwrite, skip or fail"`
	ExpectedSize  *int64          `json:"expected_size,omitempty" min:"0" doc:"bytes that a single file must have, such as context:loop.current_item.size"`
	IgnoreMissing bool            `json:"ignore_missing,omitempty" doc:"nothing to download is no error"`
	OnUnsafeName  string          `json:"on_unsafe_name" default:"skip" enum:"skip,fail" doc:"what to do about names in the directory that can't be used: skip or fail"`

	Resume         *bool           `json:"resume,omitempty" doc:"go on where an interrupted attempt stopped, if the remote file still has the size and time it had then; by default for files of 1 MiB or more; true for files of any size; false begins anew"`
	SkipIfSame     bool            `json:"skip_if_same,omitempty" doc:"a local file that has the size and time of the remote one already counts as downloaded, whoever has written it"`
	Preserve       string          `json:"preserve" default:"times" enum:"none,times,modes,all" doc:"what the local file takes over: none, times, modes or all"`
	Checksum       string          `json:"checksum" default:"none" enum:"none,read_back,sidecar" doc:"how to check the content: none; read_back reads the remote file again and compares; sidecar compares with the SHA-256 in the remote file of the same name and .sha256"`
	AfterTransfer  string          `json:"after_transfer" default:"keep" enum:"keep,delete,move,archive" doc:"what to do with the remote files when all are downloaded: keep, delete, move, or archive, which is move with the time added to each name"`
	MoveTo         string          `json:"move_to,omitempty" courier:"path" doc:"the remote directory into which move and archive move them, with the directories below remote_path; it is made if it is missing"`
	StableSeconds  float64         `json:"stable_seconds,omitempty" min:"0" max:"86400" doc:"download only files whose size and time have not changed for so many seconds"`
	DoneFile       courier.Pattern `json:"done_file,omitempty" doc:"download only files that have a companion of this name in their directory; * stands for the file's name, such as in *.done"`
	BandwidthLimit int64           `json:"bandwidth_limit,omitempty" min:"0" doc:"bytes per second of the whole step at most; 0 means no limit"`
	MaxBytes       int64           `json:"max_bytes,omitempty" min:"0" doc:"the most bytes of a file, at most what the connection allows; 0 means that"`
}

// DownloadOutput is the output of [Download].
type DownloadOutput struct {
	DownloadedFile  string    `json:"downloaded_file,omitempty" file:"local_path" doc:"the file, if there is exactly one"`
	DownloadedFiles []string  `json:"downloaded_files" file:"local_path" doc:"all files, in the order of their remote paths, those that were there already included"`
	SkippedFiles    []string  `json:"skipped_files" doc:"those of downloaded_files that were there already and were left as they are"`
	Skipped         bool      `json:"skipped" doc:"whether nothing was downloaded because everything was there already"`
	Reason          string    `json:"reason,omitempty" doc:"file_exists when skipped is true"`
	FileCount       int       `json:"file_count" doc:"how many files were downloaded"`
	Size            int64     `json:"size" doc:"of what was downloaded, in bytes"`
	Modified        time.Time `json:"modified,omitzero" doc:"when the file was last changed on the server, if there is exactly one"`
	UnsafeCount     int       `json:"unsafe_count" doc:"entries of the directory left out because their names can't be used"`
	NotReadyCount   int       `json:"not_ready_count" doc:"files of the directory left out because of stable_seconds or done_file"`
}

var (
	_ courier.Step[DownloadConfig, DownloadOutput] = Download{}
	_ courier.Validator[DownloadConfig]            = Download{}
	_ courier.Cleaner[DownloadConfig]              = Download{}
	_ courier.Rollbacker[DownloadConfig]           = Download{}
)

func (cfg DownloadConfig) check() error {
	return connfile.Permanent(checkPath("remote_path", cfg.RemotePath), checkPath("move_to", cfg.MoveTo), remote.DownloadConfig(cfg).Check())
}

// Execute downloads the files. An existing local file is replaced when its
// successor is complete.
func (d Download) Execute(ctx context.Context, job *courier.Context, cfg DownloadConfig) (DownloadOutput, error) {
	if err := cfg.check(); err != nil {
		return DownloadOutput{DownloadedFiles: []string{}, SkippedFiles: []string{}}, err
	}
	out, err := remote.Download(ctx, account(job, d.Connections, cfg.ConnectionID), remote.DownloadConfig(cfg))
	return DownloadOutput(out), err
}

// Validate logs in and checks that the file or directory is there.
func (d Download) Validate(ctx context.Context, job *courier.Context, cfg DownloadConfig) error {
	if err := cfg.check(); err != nil {
		return err
	}
	return remote.ValidateDownload(ctx, account(job, d.Connections, cfg.ConnectionID), remote.DownloadConfig(cfg))
}

// Cleanup removes the unfinished local files of earlier attempts, other than
// those that resume keeps. It needs a connection only where a file may
// have been moved aside on the server.
func (d Download) Cleanup(ctx context.Context, job *courier.Context, cfg DownloadConfig) error {
	return remote.CleanupDownload(ctx, account(job, d.Connections, cfg.ConnectionID), remote.DownloadConfig(cfg))
}

// Rollback is Cleanup. If the execution is cancelled, it removes what
// resume has kept, too.
func (d Download) Rollback(ctx context.Context, job *courier.Context, cfg DownloadConfig) error {
	return remote.RollbackDownload(ctx, account(job, d.Connections, cfg.ConnectionID), remote.DownloadConfig(cfg))
}
