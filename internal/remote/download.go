package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/bandwidth"
	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/internal/transfer"
	"github.com/courierhq/courier/steps/fileserver"
)

// A DownloadConfig is the configuration of a step that downloads files. The step types
// describe the fields that each protocol has in its own way.
type DownloadConfig struct {
	fileserver.DownloadFields
	Preserve string
}

func (cfg DownloadConfig) search() Search {
	return Search{Pattern: glob.Whole(cfg.Pattern, cfg.Glob).Escaped(), Unsafe: cfg.OnUnsafeName, Links: cfg.FollowLinks}
}

func (cfg DownloadConfig) after() After {
	return After{Action: cfg.AfterTransfer, MoveTo: cfg.MoveTo}
}

func (cfg DownloadConfig) readiness() Readiness {
	return Readiness{StableSeconds: cfg.StableSeconds, DoneFile: cfg.DoneFile, Checksum: cfg.Checksum}
}

// resumes reports whether an attempt goes on where another one stopped.
func (cfg DownloadConfig) resumes() bool { return cfg.Resume == nil || *cfg.Resume }

// keeps reports whether the unfinished local file of a remote one of size bytes
// is kept for another attempt. Of a small one that costs more than it saves.
func (cfg DownloadConfig) keeps(size int64) bool {
	if cfg.Resume != nil {
		return *cfg.Resume
	}
	return size >= WorthKeeping
}

// check reports what is wrong with cfg.
func (cfg DownloadConfig) check(a Account) error {
	return courier.Permanent(errors.Join(a.CheckPath("remote_path", cfg.RemotePath), a.CheckPath("move_to", cfg.MoveTo),
		cfg.search().Check(), cfg.after().Check(), CheckDoneFile(cfg.DoneFile), bandwidth.CheckRate(cfg.BandwidthLimit)))
}

// A remoteFile is a file to download. The notes of a step hold its JSON form.
type remoteFile struct {
	Remote  string   `json:"remote"`
	Below   string   `json:"below"`             // path below the directory that was searched; of a single file its name
	Local   string   `json:"local"`             // as the Context takes it
	Was     Identity `json:"was"`               // of the remote file; zero until the server was asked
	Skipped bool     `json:"skipped,omitempty"` // the local file was there already and was left as it is

	Size  int64 `json:"-"`
	Plain bool  `json:"-"` // a regular file when it was found: opening it doesn't block the server
}

// A downloading is one execution of the step.
type downloading struct {
	Account
	cfg   DownloadConfig
	limit *bandwidth.Limiter

	cursor   *cursor
	files    []remoteFile
	unsafe   int
	notReady int
	at       time.Time // when all was downloaded
	former   bool      // files are those of an earlier attempt of the execution
}

// Download downloads the files. An existing local file is replaced when its
// successor is complete.
func Download(ctx context.Context, a Account, cfg DownloadConfig) (fileserver.DownloadOutput, error) {
	out := fileserver.DownloadOutput{DownloadedFiles: []string{}, SkippedFiles: []string{}}
	t := &downloading{Account: a, cfg: cfg, limit: bandwidth.New(cfg.BandwidthLimit), cursor: openCursor(a.Job)}
	if err := cfg.check(a); err != nil {
		return out, err
	}
	done, err := t.recall(ctx)
	if err == nil && done {
		done, err = t.claim(ctx)
	}
	if err == nil && !done {
		err = t.all(ctx)
	}
	if err == nil && cfg.AfterTransfer != AfterKeep {
		err = t.after(ctx)
	}
	if err != nil {
		return out, err
	}
	out.UnsafeCount, out.NotReadyCount = t.unsafe, t.notReady
	for _, f := range t.files {
		if err == nil && !f.Skipped {
			err = a.Job.Files().ReportRemote(courier.File{Path: f.Remote, Size: f.Size, Connection: a.ID, Received: true})
		}
	}
	return out, errors.Join(err, addDownloads(&out, a.Job, t.files))
}

// all finds the files, downloads them, and notes down which, where that matters. It
// goes on when the connection was lost, if that is wanted.
func (t *downloading) all(ctx context.Context) error {
	if err := t.use(ctx, t.cfg.resumes(), func(s Server) error { return t.find(ctx, s) }); err != nil {
		return err
	}
	b := Batch{Sizes: make([]int64, len(t.files))}
	b.Resumes = func(i int) bool { return t.Persists && t.cfg.resumes() || t.cfg.keeps(t.files[i].Size) }
	for i, f := range t.files {
		b.Sizes[i] = f.Size
	}
	b.Move = func(ctx context.Context, s Server, i int) error { return t.fetch(ctx, s, &t.files[i]) }
	if err := t.Each(ctx, b); err != nil {
		return err
	}
	return t.note(ctx)
}

func addDownloads(out *fileserver.DownloadOutput, job *courier.Context, files []remoteFile) error {
	for _, f := range files {
		p, err := job.Files().Path(f.Local)
		if err != nil {
			return err
		}
		out.DownloadedFiles = append(out.DownloadedFiles, p)
		if f.Skipped {
			out.SkippedFiles = append(out.SkippedFiles, p)
			continue
		}
		out.FileCount++
		out.Size += f.Size
	}
	if len(files) == 1 {
		out.DownloadedFile, out.Modified = out.DownloadedFiles[0], files[0].Was.Modified
	}
	if len(files) > 0 && out.FileCount == 0 {
		out.Skipped, out.Reason = true, transfer.ReasonExists
	}
	return nil
}

// smallFile is how many bytes a small file has at most. Many of them are moved at a
// time.
const smallFile = 64 << 10

// isQuick reports whether a file is one to fetch with as few round trips as
// possible: small, and without anything special to be done about it.
func (t *downloading) isQuick(f *remoteFile) bool {
	return f.Plain && f.Size <= smallFile && t.limit == nil && !t.cfg.keeps(f.Size) &&
		!t.cfg.SkipIfSame && t.cfg.IfExists == transfer.IfExistsOverwrite && t.cfg.Checksum == ChecksumNone
}

// fetch downloads one file, and completes its description.
func (t *downloading) fetch(ctx context.Context, s Server, f *remoteFile) error {
	fault := func(err error) error { return s.Fault("download", f.Remote, err) }
	if t.isQuick(f) {
		var failed error
		limit := int64(smallFile)
		if allowed := t.limits(s).MaxBytes; allowed >= 0 {
			limit = min(limit, allowed)
		}
		done, err := s.RetrieveSmall(ctx, f.Remote, limit, func(before Info, content []byte) {
			if failed = fault(t.describe(f, before)); failed == nil {
				failed = t.write(ctx, s, f, before, func(_ context.Context, w Destination, _ *Meter) error {
					_, err := w.Write(content)
					return err
				})
			}
		})
		if failed != nil {
			return failed
		}
		if err != nil || done {
			return fault(err)
		}
	}
	before, err := s.Stat(ctx, f.Remote)
	if err == nil {
		err = t.describe(f, before)
	}
	if err != nil {
		return fault(err)
	}
	if done, err := t.there(ctx, f); done || err != nil {
		return err
	}
	return t.write(ctx, s, f, before, func(ctx context.Context, w Destination, m *Meter) error {
		return t.copyTo(ctx, s, f, before, w, m)
	})
}

// write makes the local file, has it filled, and publishes it.
func (t *downloading) write(ctx context.Context, s Server, f *remoteFile, before Info, fill func(context.Context, Destination, *Meter) error) error {
	ctx, guard := t.limits(s).Guard(ctx)
	defer guard.End()
	w, err := t.create(s, f, guard)
	if err != nil {
		return err
	}
	defer w.Close() // discards, unless committed or kept for the next attempt
	m := &Meter{Job: t.Job, Item: f.Remote, Total: f.Size, Guard: guard}
	part, kept := w.(*partial)
	end := func(error) {}
	if kept {
		end = t.cursor.follow(f.Size, part.synced)
	}
	m.Stage("transfer")
	err = fill(ctx, w, m)
	end(err)
	if err != nil {
		return s.Fault("download", f.Remote, err)
	}
	if err = t.publish(ctx, f, before, w, m); err == nil && kept {
		t.cursor.set(part.at(), true)
	}
	return err
}

// limits bound what one file may cost.
func (t *downloading) limits(s Server) transfer.Limits {
	return s.Traits().Limits.Capped(t.cfg.MaxBytes).Slowed(t.cfg.BandwidthLimit)
}

// target is where the file goes.
func (t *downloading) target(f *remoteFile) Target {
	return Target{Job: t.Job, Family: t.Family, Local: f.Local, IfExists: t.cfg.IfExists}
}

// there reports whether the local file need not be downloaded.
func (t *downloading) there(ctx context.Context, f *remoteFile) (done bool, err error) {
	if t.cfg.SkipIfSame && t.isSame(f) {
		return true, t.Job.Files().Wrote(f.Local)
	}
	f.Skipped, err = t.target(f).Skips(ctx)
	return f.Skipped, err
}

// describe completes the description of a file by what the server tells.
func (t *downloading) describe(f *remoteFile, info Info) error {
	if !info.MayBeFile() {
		return courier.Permanent(errors.New("is not a regular file"))
	}
	size, err := info.FileSize()
	if err != nil {
		return courier.Permanent(err)
	}
	if expected := t.cfg.ExpectedSize; expected != nil && *expected != size {
		return fmt.Errorf("has %d bytes instead of the %d that expected_size says", size, *expected)
	}
	f.Size, f.Was = size, info.Identity()
	return nil
}

// publish gives the local file its final name.
func (t *downloading) publish(ctx context.Context, f *remoteFile, before Info, w Destination, m *Meter) error {
	t.preserve(f, before, w)
	m.Stage("rename")
	err := m.While(func() (err error) {
		f.Skipped, err = t.target(f).Commit(ctx, w)
		return err
	})
	if err != nil {
		return fmt.Errorf("local file: %w", err)
	}
	m.Finish()
	if p, ok := w.(*partial); ok && f.Skipped {
		return p.restart() // nothing is left for another attempt to go on with
	}
	return nil
}

// isSame reports whether the local file is what is to be downloaded, as far as
// size and time tell.
func (t *downloading) isSame(f *remoteFile) bool {
	info, err := t.Job.Files().Stat(f.Local)
	return err == nil && info.Mode().IsRegular() && info.Size() == f.Size && !f.Was.Modified.IsZero() && info.ModTime().Equal(f.Was.Modified)
}

// create begins the local file, or goes on with it, if it may be as large as it
// is.
func (t *downloading) create(s Server, f *remoteFile, guard *transfer.Guard) (w Destination, err error) {
	if err := guard.Allows(f.Size); err != nil {
		return nil, s.Fault("download", f.Remote, err)
	}
	if t.cfg.keeps(f.Size) {
		n := partNote{Server: s.Traits().Addr, Remote: f.Remote, Was: f.Was, Boot: Boot()}
		w, err = openPartial(t.Job, f.Local, n, t.cursor, !s.Traits().ComparesEnd)
	} else {
		w, err = t.Job.Files().Create(f.Local)
	}
	if err != nil {
		return nil, fmt.Errorf("local file %q: %w", f.Local, err)
	}
	have := int64(0)
	if p, ok := w.(*partial); ok {
		have = p.start
	}
	if err = Fits(t.Job, f.Local, guard, f.Size, have); err != nil {
		w.Close()
		return nil, s.Fault("download", f.Remote, err)
	}
	return w, nil
}

// copyTo writes the content of a remote file to w, and checks it. It fails if the
// file isn't, before, during and after, the one that was seen before. What is of no
// use is not kept.
func (t *downloading) copyTo(ctx context.Context, s Server, f *remoteFile, before Info, w Destination, m *Meter) error {
	r := Retrieval{Path: f.Remote, Before: before, To: w, Limit: t.limit, At: m.At, Compared: m.Compared}
	part, _ := w.(*partial)
	if part != nil {
		r.From = m.From(part.start)
	}
	err := s.Retrieve(ctx, r)
	if errors.Is(err, ErrNoResume) && part != nil {
		if err = part.restart(); err == nil {
			r.From = m.From(0)
			err = s.Retrieve(ctx, r)
		}
	}
	wrong := errors.Is(err, connerr.ErrChanged)
	if err == nil {
		err = t.verify(ctx, s, f.Remote, w, m)
		wrong = err != nil && !t.IsLost(err) && ctx.Err() == nil
	}
	if part != nil && wrong {
		err = errors.Join(err, part.restart())
	}
	return err
}

// verify checks the content that has arrived, where that is wanted.
func (t *downloading) verify(ctx context.Context, s Server, file string, w Destination, m *Meter) error {
	if t.cfg.Checksum != ChecksumNone {
		m.Stage("verify")
	}
	switch t.cfg.Checksum {
	case ChecksumReadBack:
		same, err := s.Same(ctx, file, w, m.Total, m.Compared)
		if err == nil && !same {
			err = ErrOtherContent
		}
		return err
	case ChecksumSidecar:
		sidecar := file + SidecarSuffix
		text, err := readSmall(ctx, s, sidecar)
		if err != nil {
			return fmt.Errorf("checksum in %s: %w", safename.Quote(sidecar), err)
		}
		return CheckSidecar(ctx, sidecar, text, w, m.Total, m.Beat)
	}
	return nil
}

// A memory is a Destination in memory.
type memory struct {
	Destination
	text strings.Builder
}

// Write appends p.
func (m *memory) Write(p []byte) (int, error) { return m.text.Write(p) }

// readSmall returns the content of a file with a checksum.
func readSmall(ctx context.Context, s Server, file string) (string, error) {
	info, err := s.Stat(ctx, file)
	if err != nil {
		return "", err
	}
	if size, err := info.FileSize(); err != nil || size > MaxSidecar || !info.MayBeFile() {
		return "", ErrNoSidecar
	}
	var m memory
	err = s.Retrieve(ctx, Retrieval{Path: file, Before: info, To: &m, At: func(int64) {}, Compared: func(int64) {}})
	return m.text.String(), err
}

// HeldStill judges a second look at a file, which may have ended with err, after its
// content was read.
func HeldStill(before, after Info, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // some servers hand out a file only once; what was read is complete
	case err != nil:
		return err
	case !before.Same(after):
		return connerr.ErrChanged
	}
	return nil
}

// preserve gives the file that is being written the time and the mode that it
// has on the server. Where that is impossible, it has the usual ones.
func (t *downloading) preserve(f *remoteFile, before Info, w Destination) {
	if Modes(t.cfg.Preserve) && before.HasMode {
		if err := w.Chmod(before.Mode&0o777 | 0o600); err != nil {
			t.Job.Log().Debug("the mode of a file can't be set", "file", f.Local, "error", err)
		}
	}
	if !Times(t.cfg.Preserve) || f.Was.Modified.IsZero() {
		return
	}
	root, rel, err := t.Job.Files().Root(f.Local)
	if err != nil {
		return
	}
	side := filepath.Join(filepath.Dir(rel), stepcontext.Of(t.Job).SideName(filepath.Base(rel)))
	if p, ok := w.(*partial); ok {
		side = p.part
	}
	if err := root.Chtimes(side, f.Was.Modified, f.Was.Modified); err != nil {
		t.Job.Log().Debug("the time of a file can't be set", "file", f.Local, "error", err)
	}
}

// ValidateDownload logs in and checks that the file or directory is there.
func ValidateDownload(ctx context.Context, a Account, cfg DownloadConfig) error {
	if err := cfg.check(a); err != nil {
		return err
	}
	if cfg.LocalPath != "" {
		if _, err := a.Job.Files().Path(cfg.LocalPath); err != nil {
			return fmt.Errorf("local_path: %w", err)
		}
	}
	return a.Validate(ctx, func(s Server) error {
		if a.Job.Unresolved("remote_path") {
			return nil
		}
		info, err := s.Stat(ctx, cfg.RemotePath)
		if err == nil && info.IsDir() {
			return s.CheckDirectory(ctx, cfg.RemotePath)
		}
		if err == nil {
			err = s.CheckFile(ctx, cfg.RemotePath)
		}
		return s.Fault("download", cfg.RemotePath, err)
	})
}
