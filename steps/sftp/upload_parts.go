package sftp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/transfer"
)

// A localIdentity tells a local file from another that has its name at another
// time, as far as size and time can.
type localIdentity struct {
	Size     int64 `json:"size"`
	Modified int64 `json:"modified"` // in nanoseconds since 1970
}

func identifyLocal(info fs.FileInfo) localIdentity {
	return localIdentity{info.Size(), info.ModTime().UnixNano()}
}

// An uploadPart is what an interrupted upload of one file has left on the
// server, for a later attempt to go on with.
type uploadPart struct {
	notes *notebook
	note  uploadPartNote
}

// An uploadPartNote is noted down before the part is made.
type uploadPartNote struct {
	Final string        `json:"final"`
	Part  string        `json:"part"` // remote path
	Was   localIdentity `json:"was"`  // of the source; zero if the part is of no use
	Acked int64         `json:"acked"`
}

const partNotes = "part-"

// openPart reads what is noted down of the file. A part of another source is
// removed.
func (p *putting) openPart(ctx context.Context, s *session) (*uploadPart, error) {
	notes, err := openNotes(ctx, p.job, fmt.Sprintf("%s%08x", partNotes, crc32.ChecksumIEEE([]byte(p.file.final))))
	if err != nil {
		return nil, err
	}
	u := &uploadPart{notes: notes}
	found, err := notes.read(&u.note)
	if err != nil {
		return nil, err
	}
	if found && u.note.Final == p.file.final && u.note.Was == p.file.was {
		return u, nil
	}
	if found && u.note.Part != "" {
		if err := s.remove(ctx, u.note.Part); err != nil && !isStatus(err) {
			return nil, err
		}
	}
	dir, name := split(p.file.final)
	id := crc32.ChecksumIEEE(fmt.Appendf(nil, "%d %d", p.file.was.Size, p.file.was.Modified)) >> 4
	part := strings.TrimSuffix(partName(p.job, name), partSuffix)
	u.note = uploadPartNote{Final: p.file.final, Part: join(dir, fmt.Sprintf("%s.%07x%s", part, id, partSuffix)), Was: p.file.was}
	if err := s.remove(ctx, u.note.Part); err != nil && !isStatus(err) {
		return nil, err
	}
	return u, notes.write(u.note)
}

// reached says how much of the file the server has confirmed.
func (u *uploadPart) reached(acked int64) {
	if u != nil {
		u.note.Acked = acked
	}
}

// keep notes down how far the part has got.
func (u *uploadPart) keep() error { return u.notes.write(u.note) }

// forget notes down that the part is of no use.
func (u *uploadPart) forget() error {
	if u == nil {
		return nil
	}
	u.note.Was = localIdentity{-1, -1}
	return u.notes.write(u.note)
}

// isWorthKeeping reports whether what is on the server may be gone on with
// after err.
func isWorthKeeping(err error) bool { return !courier.IsPermanent(err) && !isChanged(err) }

// resumeAt returns how much of the part on the server is right, for the rest to
// be added.
//
// What the server has confirmed counts as right. So does what lies further back
// than a client has requests under way, for it was confirmed before the rest
// was sent. What comes after may have holes, and is read and compared; so is
// the end in any case.
func (p *putting) resumeAt(ctx context.Context, s *session) (int64, error) {
	a, err := s.stat(ctx, p.side)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	size, err := a.fileSize()
	if err != nil || size > p.file.size || size == 0 {
		return 0, nil
	}
	from := max(min(p.part.note.Acked, size), size-maxChannels*windowBytes)
	from = max(0, min(from, size-tailBytes))
	h, err := s.open(ctx, p.side, flagRead)
	if isStatus(err) {
		return 0, nil // it may not be read, so nothing proves that it is right
	} else if err != nil {
		return 0, err
	}
	defer s.closeHandle(ctx, h)
	same, err := compareRange(ctx, lane{s.client, h}, p.src, from, size, p.meter.beat)
	switch {
	case isStatus(err):
		return 0, nil
	case err != nil:
		return 0, err
	case same == from && from < size:
		return 0, nil // not even the beginning is right
	}
	return same, nil
}

// preserve gives the side file the time and the mode of the local one. A server
// that refuses has its way.
func (p *putting) preserve(ctx context.Context, s *session, local fs.FileInfo) error {
	var a attrs
	if at := local.ModTime().Unix(); times(p.cfg.Preserve) && at >= 0 && at < 1<<32 {
		a.flags, a.mtime = a.flags|attrTimes, uint32(at)
	}
	if modes(p.cfg.Preserve) {
		a.flags, a.mode = a.flags|attrPermissions, uint32(local.Mode().Perm())
	}
	if a.flags == 0 {
		return nil
	}
	err := s.setAttrs(ctx, p.side, a)
	if isStatus(err) {
		p.job.Log().Warn("the server doesn't set times or modes of a file", "connection", p.cfg.ConnectionID, "file", p.file.final, "reason", err.Error())
		return nil
	}
	return err
}

// written lists the remote files that the step writes, companions included.
func (t *uploading) written() []localFile {
	all := slices.Clone(t.files)
	for _, f := range t.files {
		dir, name := split(f.final)
		if t.cfg.Checksum == checksumSidecar {
			all = append(all, localFile{final: f.final + sidecarSuffix})
		}
		if t.cfg.DoneFile != "" {
			all = append(all, localFile{final: join(dir, doneName(t.cfg.DoneFile, name))})
		}
	}
	return all
}

// companions writes the files with checksums and, when all is there, the done
// files.
func (t *uploading) companions(ctx context.Context) error {
	if t.cfg.Checksum != checksumSidecar && t.cfg.DoneFile == "" {
		return nil
	}
	return use(ctx, t.job, t.Connections, t.cfg.ConnectionID, func(s *session) error {
		done := make(map[string]bool)
		for _, f := range t.files {
			dir, name := split(f.final)
			if f.skipped {
				continue
			}
			if t.cfg.DoneFile != "" {
				done[join(dir, doneName(t.cfg.DoneFile, name))] = true
			}
			if t.cfg.Checksum != checksumSidecar {
				continue
			}
			text, err := t.sidecar(ctx, f)
			if err == nil {
				err = t.putText(ctx, s, f.final+sidecarSuffix, text+"  "+name+"\n")
			}
			if err != nil {
				return s.fault("upload", f.final+sidecarSuffix, err)
			}
		}
		for name := range done {
			if err := t.putText(ctx, s, name, ""); err != nil {
				return s.fault("upload", name, err)
			}
		}
		return nil
	})
}

// sidecar returns the checksum of a local file.
func (t *uploading) sidecar(ctx context.Context, f localFile) (string, error) {
	src, err := t.job.Open(f.local)
	if err != nil {
		return "", fmt.Errorf("local file: %w", err)
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return "", fmt.Errorf("local file: %w", err)
	}
	if identifyLocal(info) != f.was && f.was != (localIdentity{}) {
		return "", fmt.Errorf("local file: %w", errChanged)
	}
	m := &meter{job: t.job, item: f.final, total: f.size, done: f.size}
	return sum(ctx, src, f.size, m.beat)
}

// putText writes a small remote file, in place of what is there.
func (t *uploading) putText(ctx context.Context, s *session, final, text string) error {
	dir, name := split(final)
	side := join(dir, t.job.SideName(name))
	h, err := s.open(ctx, side, flagWrite|flagCreate|flagTruncate)
	if err == nil {
		err = finishing{[]lane{{s.client, h}}, side, int64(len(text)), strings.NewReader(text)}.run(ctx)
	}
	if err != nil {
		return err
	}
	r := renaming{
		connections: t.Connections, job: t.job, id: t.cfg.ConnectionID,
		from: side, to: final, size: int64(len(text)), ifExists: ifExistsOverwrite, what: "the complete file",
	}
	return r.run(ctx, s)
}

// An uploadNote is what sftp.upload notes down when all is uploaded, so that a
// later attempt knows, even if the sources are gone.
type uploadNote struct {
	LocalPath  string         `json:"local_path"`
	RemotePath string         `json:"remote_path"`
	Several    bool           `json:"several"`
	Files      []uploadedFile `json:"files"`
}

type uploadedFile struct {
	Local   string        `json:"local"`
	Below   string        `json:"below"`
	Final   string        `json:"final"`
	Was     localIdentity `json:"was"`
	Skipped bool          `json:"skipped,omitempty"`
}

func (t *uploading) remembers() bool { return t.cfg.ResumePartial || t.cfg.AfterTransfer != afterKeep }

// note notes down what is uploaded, where that matters.
func (t *uploading) note(ctx context.Context) error {
	if !t.remembers() {
		return nil
	}
	notes, err := openNotes(ctx, t.job, "upload")
	if err != nil {
		return err
	}
	n := uploadNote{LocalPath: t.cfg.LocalPath, RemotePath: t.cfg.RemotePath, Several: t.several}
	for _, f := range t.files {
		n.Files = append(n.Files, uploadedFile{f.local, f.below, f.final, f.was, f.skipped})
	}
	return notes.write(n)
}

// recall takes over what an earlier attempt has uploaded, and reports whether
// that was all. If the sources are kept, they must still be the same.
func (t *uploading) recall(ctx context.Context) (bool, error) {
	if !t.remembers() {
		return false, nil
	}
	notes, err := openNotes(ctx, t.job, "upload")
	if err != nil {
		return false, err
	}
	var n uploadNote
	if found, err := notes.read(&n); err != nil || !found || n.LocalPath != t.cfg.LocalPath || n.RemotePath != t.cfg.RemotePath {
		return false, err
	}
	var files []localFile
	for _, f := range n.Files {
		if t.cfg.AfterTransfer == afterKeep {
			if info, err := t.job.Stat(f.Local); err != nil || identifyLocal(info) != f.Was {
				return false, nil
			}
		}
		files = append(files, localFile{local: f.Local, below: f.Below, final: f.Final, size: f.Was.Size, was: f.Was, skipped: f.Skipped})
	}
	t.files, t.several = files, n.Several
	return true, nil
}

// after does with the sources what after_transfer says. What isn't what was
// uploaded any more stays, and so do files that were skipped.
func (t *uploading) after(ctx context.Context) error {
	for _, f := range t.files {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if f.skipped {
			continue
		}
		if err := t.afterOne(ctx, f); err != nil {
			return fmt.Errorf("%s local file %s: %w", t.cfg.AfterTransfer, safename.Quote(f.local), err)
		}
	}
	return nil
}

func (t *uploading) afterOne(ctx context.Context, f localFile) error {
	info, err := t.job.Stat(f.local)
	gone := errors.Is(err, fs.ErrNotExist)
	to := joinLocal(t.cfg.MoveTo, f.below)
	switch {
	case err != nil && !gone:
		return err
	case !gone && identifyLocal(info) != f.was:
		t.job.Log().Warn("a file has changed since it was uploaded; it stays", "file", f.local)
		return nil
	case t.cfg.AfterTransfer == afterDelete:
		return t.job.Remove(f.local)
	case !gone:
		if err := moveLocal(ctx, t.job, f.local, to, info); err != nil {
			return err
		}
	}
	return errors.Join(t.job.Wrote(to), t.job.Removed(f.local))
}

// moveLocal moves a local file, by copying it where it must.
func moveLocal(ctx context.Context, job *courier.Context, from, to string, info fs.FileInfo) error {
	if err := job.MkdirAll(path.Dir(to)); err != nil {
		return err
	}
	a, relA, err := job.Root(from)
	if err != nil {
		return err
	}
	b, relB, err := job.Root(to)
	if err != nil {
		return err
	}
	if a == b && a.Rename(relA, relB) == nil {
		return errors.Join(courier.SyncDir(b, filepath.Dir(relB)), courier.SyncDir(a, filepath.Dir(relA)))
	}
	src, err := job.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	w, err := job.Create(to)
	if err != nil {
		return err
	}
	defer w.Close()
	if _, err := transfer.Copy(ctx, w, src, func(done int64) { job.Progress(done, info.Size(), to) }); err != nil {
		return err
	}
	side := filepath.Join(filepath.Dir(relB), job.SideName(filepath.Base(relB)))
	if err := errors.Join(w.Chmod(info.Mode().Perm()), b.Chtimes(side, info.ModTime(), info.ModTime())); err != nil {
		return err
	}
	if err := w.Commit(); err != nil {
		return err
	}
	return job.Remove(from)
}

// Cleanup removes the unfinished remote files of earlier attempts.
func (u Upload) Cleanup(ctx context.Context, job *courier.Context, cfg UploadConfig) error {
	if err := cfg.check(); err != nil {
		return err
	}
	files, several, err := cfg.sources(job)
	if err != nil || len(files) == 0 {
		// The source is gone. What it was called is known only if it was one
		// file.
		if cfg.isPattern(true) {
			return nil
		}
		files, several = []localFile{cfg.single()}, false
	}
	return use(ctx, job, u.Connections, cfg.ConnectionID, func(s *session) error {
		err := s.setTargets(ctx, cfg, files, several)
		if courier.IsPermanent(err) {
			return nil // where nothing can be written, nothing was left
		} else if err != nil {
			return err
		}
		t := &uploading{cfg: cfg, files: files}
		return s.removeLeftovers(ctx, job, t.written(), job.Attempt())
	})
}

// Rollback is Cleanup. If the execution is cancelled, it removes what
// resume_partial has kept, too.
func (u Upload) Rollback(ctx context.Context, job *courier.Context, cfg UploadConfig) error {
	err := u.Cleanup(ctx, job, cfg)
	if !cfg.ResumePartial || !job.Cancelled() || job.StepDir() == "" {
		return err
	}
	var parts []string
	e := eachName(job, job.StepDir(), func(root *os.Root, rel, name string) error {
		if !strings.HasPrefix(name, "sftp-"+partNotes) || !strings.HasSuffix(name, ".json") {
			return nil
		}
		text, err := root.ReadFile(filepath.Join(rel, name))
		if err != nil {
			return err
		}
		var note uploadPartNote
		if err := json.Unmarshal(text, &note); err != nil {
			return err
		}
		parts = append(parts, note.Part)
		return nil
	})
	if err = errors.Join(err, e); err != nil || len(parts) == 0 {
		return err
	}
	return use(ctx, job, u.Connections, cfg.ConnectionID, func(s *session) error {
		for _, part := range parts {
			if err := s.remove(ctx, part); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return s.fault("clean up", part, err)
			}
		}
		return nil
	})
}
