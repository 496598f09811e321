package ftp

import (
	"context"
	"fmt"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/bandwidth"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/parallel"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/transfer"
)

// Download is the step "ftp.download". It downloads one file, or those files
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
	OnUnsafeName  string          `json:"on_unsafe_name" default:"skip" enum:"skip,fail" doc:"what to do about entries of the directory that can't be used: skip or fail"`
	ParallelFiles int             `json:"parallel_files" default:"4" min:"1" max:"16" doc:"how many files to download at a time; the connection's max_sessions is the most"`

	Resume         *bool           `json:"resume,omitempty" doc:"go on where an interrupted attempt stopped, if the remote file still has the size and time it had then; by default for files of 1 MiB or more; true for files of any size; false begins anew"`
	SkipIfSame     bool            `json:"skip_if_same,omitempty" doc:"a local file that has the size and time of the remote one already counts as downloaded, whoever has written it"`
	Preserve       string          `json:"preserve" default:"times" enum:"none,times" doc:"what the local file takes over: none or times; FTP tells no modes"`
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
	UnsafeCount     int       `json:"unsafe_count" doc:"entries of the directory left out because they can't be used or understood"`
	NotReadyCount   int       `json:"not_ready_count" doc:"files of the directory left out because of stable_seconds or done_file"`
}

var (
	_ courier.Step[DownloadConfig, DownloadOutput] = Download{}
	_ courier.Validator[DownloadConfig]            = Download{}
	_ courier.Cleaner[DownloadConfig]              = Download{}
)

func (cfg DownloadConfig) search() remote.Search {
	return remote.Search{Pattern: glob.Whole(cfg.Pattern, cfg.Glob).Escaped(), Unsafe: cfg.OnUnsafeName, Links: cfg.FollowLinks}
}

func (cfg DownloadConfig) after() remote.After {
	return remote.After{Action: cfg.AfterTransfer, MoveTo: cfg.MoveTo}
}

// keeps reports whether the unfinished local file of a remote one of size bytes
// is kept for another attempt. Of a small one that costs more than it saves.
func (cfg DownloadConfig) keeps(size int64) bool {
	if cfg.Resume != nil {
		return *cfg.Resume
	}
	return size >= remote.WorthKeeping
}

func (cfg DownloadConfig) check() error {
	return remote.Permanent(checkPath("remote_path", cfg.RemotePath), cfg.search().Check(),
		cfg.after().Check(), checkPath("move_to", cfg.MoveTo),
		remote.CheckDoneFile(cfg.DoneFile), bandwidth.CheckRate(cfg.BandwidthLimit))
}

// A remoteFile is a file to download.
type remoteFile struct {
	Remote   string    `json:"remote"`
	Below    string    `json:"below"` // path below the directory that was searched; of a single file its name
	Local    string    `json:"local"` // as outputs have it
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified,omitzero"`
	Skipped  bool      `json:"skipped,omitempty"` // it was there already and was left as it is

	local string // as the Context takes it
}

// A downloaded is what is written down before remote files are deleted or
// moved.
type downloaded struct {
	Files    []remoteFile `json:"files"`
	Unsafe   int          `json:"unsafe"`
	NotReady int          `json:"not_ready"`
	At       time.Time    `json:"at"` // when all was downloaded

	RemotePath string `json:"remote_path"`
	Pattern    string `json:"pattern"`
	LocalPath  string `json:"local_path"`
	Attempt    int    `json:"attempt"` // of the execution
}

// A downloading is one execution of the step.
type downloading struct {
	Download
	job   *courier.Context
	cfg   DownloadConfig
	limit *bandwidth.Limiter

	downloaded
}

// Execute downloads the files. An existing local file is replaced when its
// successor is complete.
func (d Download) Execute(ctx context.Context, job *courier.Context, cfg DownloadConfig) (DownloadOutput, error) {
	if err := cfg.check(); err != nil {
		return DownloadOutput{}, err
	}
	t := &downloading{Download: d, job: job, cfg: cfg, limit: bandwidth.New(cfg.BandwidthLimit)}
	known, err := t.recall(ctx)
	if err == nil && !known {
		err = t.all(ctx)
	}
	if err == nil {
		err = t.after(ctx)
	}
	if err != nil {
		return DownloadOutput{}, err
	}
	return t.output(), nil
}

// all downloads the files, and writes down which.
func (t *downloading) all(ctx context.Context) error {
	err := use(ctx, t.job, t.Connections, t.cfg.ConnectionID, func(s *session) error { return t.find(ctx, s) })
	if err != nil {
		return err
	}
	err = parallel.Do(ctx, len(t.Files), t.cfg.ParallelFiles, func(ctx context.Context, i int) error {
		return reconnecting(ctx, t.job, t.cfg.ConnectionID, t.cfg.keeps(t.Files[i].Size), func() error {
			return more(ctx, t.job, t.Connections, t.cfg.ConnectionID, func(s *session) error {
				return t.fetch(ctx, s, &t.Files[i])
			})
		})
	})
	if err != nil {
		return err
	}
	return t.note()
}

func (all downloaded) output() DownloadOutput {
	out := DownloadOutput{DownloadedFiles: []string{}, SkippedFiles: []string{}, UnsafeCount: all.Unsafe, NotReadyCount: all.NotReady}
	for _, f := range all.Files {
		out.DownloadedFiles = append(out.DownloadedFiles, f.Local)
		if f.Skipped {
			out.SkippedFiles = append(out.SkippedFiles, f.Local)
			continue
		}
		out.FileCount++
		out.Size += f.Size
	}
	if len(all.Files) == 1 {
		out.DownloadedFile, out.Modified = all.Files[0].Local, all.Files[0].Modified
	}
	if len(all.Files) > 0 && out.FileCount == 0 {
		out.Skipped, out.Reason = true, transfer.ReasonExists
	}
	return out
}

// Validate logs in and checks that the file or directory is there.
func (d Download) Validate(ctx context.Context, job *courier.Context, cfg DownloadConfig) error {
	if err := cfg.check(); err != nil {
		return err
	}
	if cfg.LocalPath != "" {
		if _, err := job.Path(cfg.LocalPath); err != nil {
			return fmt.Errorf("local_path: %w", err)
		}
	}
	return test(ctx, job, d.Connections, cfg.ConnectionID, func(s *session) error {
		if job.Unresolved("remote_path") {
			return nil
		}
		n, err := s.Stat(ctx, cfg.RemotePath)
		if err == nil && n.IsDir {
			return s.checkDirectory(ctx, cfg.RemotePath)
		}
		return s.fault("download", cfg.RemotePath, err)
	})
}
