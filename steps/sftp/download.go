package sftp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/bandwidth"
	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/sftpclient"
	"github.com/courierhq/courier/internal/transfer"
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

func (cfg DownloadConfig) search() remote.Search {
	return remote.Search{Pattern: glob.Whole(cfg.Pattern, cfg.Glob).Escaped(), Unsafe: cfg.OnUnsafeName, Links: cfg.FollowLinks}
}

func (cfg DownloadConfig) after() remote.After {
	return remote.After{Action: cfg.AfterTransfer, MoveTo: cfg.MoveTo}
}

// resumes reports whether an attempt goes on where another one stopped.
func (cfg DownloadConfig) resumes() bool { return cfg.Resume == nil || *cfg.Resume }

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
	remote string
	below  string // path below the directory that was searched; of a single file its name
	local  string
	size   int64
	mtime  time.Time
	was    identity
	plain  bool // a regular file when it was found: opening it doesn't block the server

	skipped bool // it was there already and was left as it is
}

// A downloading is one execution of the step.
type downloading struct {
	Download
	job   *courier.Context
	cfg   DownloadConfig
	limit *bandwidth.Limiter

	files    []remoteFile
	unsafe   int
	notReady int
	at       time.Time // when all was downloaded
	former   bool      // files are those of an earlier attempt of the execution
}

// Execute downloads the files. An existing local file is replaced when its
// successor is complete.
func (d Download) Execute(ctx context.Context, job *courier.Context, cfg DownloadConfig) (DownloadOutput, error) {
	out := DownloadOutput{DownloadedFiles: []string{}, SkippedFiles: []string{}}
	if err := cfg.check(); err != nil {
		return out, err
	}
	t := &downloading{Download: d, job: job, cfg: cfg, limit: bandwidth.New(cfg.BandwidthLimit)}
	done, err := t.recall(ctx)
	if err == nil && done {
		done, err = t.claim(ctx)
	}
	if err == nil && !done {
		err = t.all(ctx)
	}
	if err == nil && cfg.AfterTransfer != remote.AfterKeep {
		err = t.after(ctx)
	}
	if err != nil {
		return out, err
	}
	out.UnsafeCount, out.NotReadyCount = t.unsafe, t.notReady
	return out, out.add(job, t.files)
}

// all downloads the files, and goes on where it was when the connection was
// lost, if that is wanted.
func (t *downloading) all(ctx context.Context) error {
	f := func() error {
		err := use(ctx, t.job, t.Connections, t.cfg.ConnectionID, func(s *session) error { return t.run(ctx, s) })
		if err != nil {
			return err
		}
		return t.note(ctx)
	}
	if !t.cfg.resumes() {
		return f()
	}
	return remote.Reconnecting(ctx, t.job, t.cfg.ConnectionID, isLost, f)
}

func (t *downloading) run(ctx context.Context, s *session) error {
	if err := t.find(ctx, s); err != nil {
		return err
	}
	var total int64
	for _, f := range t.files {
		total += f.size
	}
	defer s.Prepare(ctx, total, len(t.files))()
	clients := s.ClientsFor(ctx, total, len(t.files))
	return eachFile(ctx, len(t.files), func(i int) int64 { return t.files[i].size }, func(ctx context.Context, i int) error {
		return t.fetch(ctx, s, &t.files[i], clients[i%len(clients)])
	})
}

func (out *DownloadOutput) add(job *courier.Context, files []remoteFile) error {
	for _, f := range files {
		p, err := job.Path(f.local)
		if err != nil {
			return err
		}
		out.DownloadedFiles = append(out.DownloadedFiles, p)
		if f.skipped {
			out.SkippedFiles = append(out.SkippedFiles, p)
			continue
		}
		out.FileCount++
		out.Size += f.size
	}
	if len(files) == 1 {
		out.DownloadedFile, out.Modified = out.DownloadedFiles[0], files[0].mtime
	}
	if len(files) > 0 && out.FileCount == 0 {
		out.Skipped, out.Reason = true, transfer.ReasonExists
	}
	return nil
}

// fetch downloads one file over the given channel, which others may join, and
// completes its description.
func (t *downloading) fetch(ctx context.Context, s *session, f *remoteFile, c *sftpclient.Client) error {
	if t.isQuick(f, c) {
		if done, err := t.fetchAtOnce(ctx, s, f, c); done || err != nil {
			return err
		}
	}
	before, err := s.Stat(ctx, f.remote)
	if err == nil {
		err = t.describe(f, before)
	}
	if err != nil {
		return s.fault("download", f.remote, err)
	}
	if done, err := t.there(ctx, f); done || err != nil {
		return err
	}
	ctx, guard := t.limits(s).Guard(ctx)
	defer guard.End()
	w, err := t.create(s, f, guard)
	if err != nil {
		return err
	}
	defer w.Close() // discards, unless committed or kept for the next attempt
	m := &remote.Meter{Job: t.job, Item: f.remote, Total: f.size, Guard: guard}
	if err := t.copyTo(ctx, s, c, f, before, w, m); err != nil {
		return s.fault("download", f.remote, err)
	}
	return t.publish(ctx, f, before, w, m)
}

// target is where the file goes.
func (t *downloading) target(f *remoteFile) remote.Target {
	return remote.Target{Job: t.job, Family: "sftp", Local: f.local, IfExists: t.cfg.IfExists}
}

// there reports whether the local file need not be downloaded.
func (t *downloading) there(ctx context.Context, f *remoteFile) (done bool, err error) {
	if t.cfg.SkipIfSame && t.isSame(f) {
		return true, t.job.Wrote(f.local)
	}
	f.skipped, err = t.target(f).Skips(ctx)
	return f.skipped, err
}

// describe completes the description of a file by what the server tells.
func (t *downloading) describe(f *remoteFile, a sftpclient.Attrs) error {
	if !a.IsFile() {
		return courier.Permanent(errors.New("is not a regular file"))
	}
	size, err := a.FileSize()
	if err != nil {
		return courier.Permanent(err)
	}
	if expected := t.cfg.ExpectedSize; expected != nil && *expected != size {
		return fmt.Errorf("has %d bytes instead of the %d that expected_size says", size, *expected)
	}
	f.size, f.mtime, f.was = size, a.Modified(), identify(a)
	return nil
}

// publish gives the local file its final name.
func (t *downloading) publish(ctx context.Context, f *remoteFile, before sftpclient.Attrs, w local, m *remote.Meter) error {
	t.preserve(f, before, w)
	err := m.While(func() (err error) {
		f.skipped, err = t.target(f).Commit(ctx, w)
		return err
	})
	if err != nil {
		return fmt.Errorf("local file: %w", err)
	}
	m.Finish()
	if p, ok := w.(*partial); ok && f.skipped {
		return p.restart() // nothing is left for another attempt to go on with
	}
	return nil
}

// isSame reports whether the local file is what is to be downloaded, as far as
// size and time tell.
func (t *downloading) isSame(f *remoteFile) bool {
	info, err := t.job.Stat(f.local)
	return err == nil && info.Mode().IsRegular() && info.Size() == f.size && !f.mtime.IsZero() && info.ModTime().Equal(f.mtime)
}

func (t *downloading) limits(s *session) transfer.Limits {
	return s.limits.Capped(t.cfg.MaxBytes).Slowed(t.cfg.BandwidthLimit)
}

// create begins the local file, or goes on with it, if it may be as large as it
// is.
func (t *downloading) create(s *session, f *remoteFile, guard *transfer.Guard) (w local, err error) {
	if err := guard.Allows(f.size); err != nil {
		return nil, s.fault("download", f.remote, err)
	}
	if t.cfg.keeps(f.size) {
		w, err = openPartial(t.job, f.local, partNote{f.remote, f.was, remote.Boot()})
	} else {
		w, err = t.job.Create(f.local)
	}
	if err != nil {
		return nil, fmt.Errorf("local file %q: %w", f.local, err)
	}
	have := int64(0)
	if p, ok := w.(*partial); ok {
		have = p.start
	}
	if err = remote.Fits(t.job, f.local, guard, f.size, have); err != nil {
		w.Close()
		return nil, s.fault("download", f.remote, err)
	}
	return w, nil
}

// copyTo writes the content of a remote file to w. It fails if the file isn't,
// before, during and after, the one that was seen before.
func (t *downloading) copyTo(ctx context.Context, s *session, c *sftpclient.Client, f *remoteFile, before sftpclient.Attrs, w local, m *remote.Meter) error {
	open, err := s.OpenWorkers(ctx, c, f.remote, sftpclient.FlagRead, m.Total)
	if err != nil {
		return err
	}
	r := sftpclient.Reading{Workers: open, Size: m.Total, To: w, Progress: m.At, Limit: t.limit}
	if p, ok := w.(*partial); ok {
		err = p.checkTail(ctx, open.Files[0], m.Compared)
		r.Asked, r.Wrote = p.start, p.start
	}
	if err == nil {
		err = r.Run(ctx)
	}
	if err == nil && t.cfg.Checksum == remote.ChecksumReadBack {
		err = compareWhole(ctx, open.Files[0], w, m)
	}
	wrong := false
	if err == nil && t.cfg.Checksum == remote.ChecksumSidecar {
		err = s.checkSidecar(ctx, f.remote, w, m)
		wrong = err != nil
	}
	if err != nil {
		open.Close(ctx)
	} else {
		after, e := open.CloseAndStat(ctx, f.remote)
		err = sftpclient.HeldStill(before, after, e)
	}
	if p, ok := w.(*partial); ok && (wrong || isChanged(err)) {
		err = errors.Join(err, p.restart())
	}
	return err
}

// isChanged reports whether what was downloaded is of no use.
func isChanged(err error) bool {
	return errors.Is(err, sftpclient.ErrShrank) || errors.Is(err, sftpclient.ErrGrew) || errors.Is(err, connerr.ErrChanged) || errors.Is(err, errOtherContent)
}

// preserve gives the file that is being written the time and the mode that it
// has on the server. Where that is impossible, it has the usual ones.
func (t *downloading) preserve(f *remoteFile, before sftpclient.Attrs, w local) {
	if remote.Modes(t.cfg.Preserve) && before.Flags&sftpclient.AttrPermissions != 0 {
		if err := w.Chmod(fs.FileMode(before.Mode)&0o777 | 0o600); err != nil {
			t.job.Log().Debug("the mode of a file can't be set", "file", f.local, "error", err)
		}
	}
	if !remote.Times(t.cfg.Preserve) || f.mtime.IsZero() {
		return
	}
	root, rel, err := t.job.Root(f.local)
	if err != nil {
		return
	}
	side := filepath.Join(filepath.Dir(rel), t.job.SideName(filepath.Base(rel)))
	if p, ok := w.(*partial); ok {
		side = p.part
	}
	if err := root.Chtimes(side, f.mtime, f.mtime); err != nil {
		t.job.Log().Debug("the time of a file can't be set", "file", f.local, "error", err)
	}
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
		a, err := s.Stat(ctx, cfg.RemotePath)
		if err != nil {
			return s.fault("download", cfg.RemotePath, err)
		}
		if a.IsDir() {
			return s.checkDirectory(ctx, cfg.RemotePath)
		}
		h, err := s.Open(ctx, cfg.RemotePath, sftpclient.FlagRead)
		if err == nil {
			s.CloseHandle(ctx, h)
		}
		return s.fault("download", cfg.RemotePath, err)
	})
}
