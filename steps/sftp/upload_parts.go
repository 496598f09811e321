package sftp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/sftpclient"
	"github.com/courierhq/courier/internal/transfer"
)

// An uploadPart is what an interrupted upload of one file has left on the
// server, for a later attempt to go on with.
type uploadPart struct {
	notes *notebook
	note  uploadPartNote
}

// An uploadPartNote is noted down before the part is made.
type uploadPartNote struct {
	Final string               `json:"final"`
	Part  string               `json:"part"` // remote path
	Was   remote.LocalIdentity `json:"was"`  // of the source; zero if the part is of no use
	Acked int64                `json:"acked"`
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
		if err := s.Remove(ctx, u.note.Part); err != nil && !sftpclient.IsStatus(err) {
			return nil, err
		}
	}
	dir, name := remote.Split(p.file.final)
	id := crc32.ChecksumIEEE(fmt.Appendf(nil, "%d %d", p.file.was.Size, p.file.was.Modified)) >> 4
	part := strings.TrimSuffix(partName(p.job, name), partSuffix)
	u.note = uploadPartNote{Final: p.file.final, Part: remote.Join(dir, fmt.Sprintf("%s.%07x%s", part, id, partSuffix)), Was: p.file.was}
	if err := s.Remove(ctx, u.note.Part); err != nil && !sftpclient.IsStatus(err) {
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
	u.note.Was = remote.LocalIdentity{Size: -1, Modified: -1}
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
	a, err := s.Stat(ctx, p.side)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	size, err := a.FileSize()
	if err != nil || size > p.file.size || size == 0 {
		return 0, nil
	}
	from := max(min(p.part.note.Acked, size), size-sftpclient.MaxChannels*sftpclient.WindowBytes)
	from = max(0, min(from, size-tailBytes))
	h, err := s.Open(ctx, p.side, sftpclient.FlagRead)
	if sftpclient.IsStatus(err) {
		return 0, nil // it may not be read, so nothing proves that it is right
	} else if err != nil {
		return 0, err
	}
	defer s.CloseHandle(ctx, h)
	same, err := sftpclient.CompareRange(ctx, sftpclient.File{Client: s.Client, Handle: h}, p.src, from, size, p.meter.Compared)
	switch {
	case sftpclient.IsStatus(err):
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
	var a sftpclient.Attrs
	if at := local.ModTime().Unix(); remote.Times(p.cfg.Preserve) && at >= 0 && at < 1<<32 {
		a.Flags, a.Mtime = a.Flags|sftpclient.AttrTimes, uint32(at)
	}
	if remote.Modes(p.cfg.Preserve) {
		a.Flags, a.Mode = a.Flags|sftpclient.AttrPermissions, uint32(local.Mode().Perm())
	}
	if a.Flags == 0 {
		return nil
	}
	err := s.SetAttrs(ctx, p.side, a)
	if sftpclient.IsStatus(err) {
		p.job.Log().Warn("the server doesn't set times or modes of a file", "connection", p.cfg.ConnectionID, "file", p.file.final, "reason", err.Error())
		return nil
	}
	return err
}

// written lists the remote files that the step writes, companions included.
func (t *uploading) written() []localFile {
	all := slices.Clone(t.files)
	for _, f := range t.files {
		if t.cfg.Checksum == remote.ChecksumSidecar {
			all = append(all, localFile{final: f.final + remote.SidecarSuffix})
		}
		if t.cfg.DoneFile != "" {
			all = append(all, localFile{final: remote.DonePath(t.cfg.DoneFile, f.final)})
		}
	}
	return all
}

// companions writes the files with checksums and, when all is there, the done
// files.
func (t *uploading) companions(ctx context.Context) error {
	if t.cfg.Checksum != remote.ChecksumSidecar && t.cfg.DoneFile == "" {
		return nil
	}
	return use(ctx, t.job, t.Connections, t.cfg.ConnectionID, func(s *session) error {
		done := make(map[string]bool)
		for _, f := range t.files {
			if f.skipped {
				continue
			}
			if t.cfg.DoneFile != "" {
				done[remote.DonePath(t.cfg.DoneFile, f.final)] = true
			}
			if t.cfg.Checksum != remote.ChecksumSidecar {
				continue
			}
			_, name := remote.Split(f.final)
			sum, err := f.source().Sum(ctx, t.job, f.final)
			if err == nil {
				err = t.putText(ctx, s, f.final+remote.SidecarSuffix, remote.SidecarText(sum, name))
			}
			if err != nil {
				return s.fault("upload", f.final+remote.SidecarSuffix, err)
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

// putText writes a small remote file, in place of what is there.
func (t *uploading) putText(ctx context.Context, s *session, final, text string) error {
	dir, name := remote.Split(final)
	side := remote.Join(dir, t.job.SideName(name))
	h, err := s.Open(ctx, side, sftpclient.FlagWrite|sftpclient.FlagCreate|sftpclient.FlagTruncate)
	if err == nil {
		err = sftpclient.Finish(ctx, []sftpclient.File{{Client: s.Client, Handle: h}}, side, int64(len(text)), strings.NewReader(text))
	}
	if err != nil {
		return err
	}
	r := renaming{
		connections: t.Connections, job: t.job, id: t.cfg.ConnectionID,
		from: side, to: final, size: int64(len(text)), ifExists: transfer.IfExistsOverwrite, what: "the complete file",
	}
	return r.run(ctx, s)
}

func (t *uploading) remembers() bool {
	return t.cfg.Resume || t.cfg.AfterTransfer != remote.AfterKeep
}

// openNotes opens the notes about what is uploaded. Where the sources go, they last
// over all attempts of the execution.
func (t *uploading) openNotes(ctx context.Context) (*notebook, error) {
	if t.cfg.AfterTransfer == remote.AfterKeep {
		return openNotes(ctx, t.job, "upload")
	}
	return openLasting(ctx, t.job, "upload")
}

// note notes down what is uploaded, where that matters.
func (t *uploading) note(ctx context.Context) error {
	if !t.remembers() {
		return nil
	}
	notes, err := t.openNotes(ctx)
	if err != nil {
		return err
	}
	t.at = time.Now()
	return notes.write(remote.UploadNote{
		LocalPath: t.cfg.LocalPath.String(), RemotePath: t.cfg.RemotePath, Several: t.several, Files: t.uploaded(), At: t.at, Attempt: t.job.ExecutionAttempt()})
}

// recall takes over what an earlier attempt has uploaded, and reports whether
// that was all. If the sources are kept, they must still be the same.
func (t *uploading) recall(ctx context.Context) (bool, error) {
	if !t.remembers() {
		return false, nil
	}
	notes, err := t.openNotes(ctx)
	if err != nil {
		return false, err
	}
	var n remote.UploadNote
	if found, err := notes.read(&n); err != nil || !found || n.LocalPath != t.cfg.LocalPath.String() || n.RemotePath != t.cfg.RemotePath {
		return false, err
	}
	if done, err := n.Done(ctx, t.job, t.cfg.sources()); err != nil || !done {
		return false, err
	}
	var files []localFile
	for _, f := range n.Files {
		if t.cfg.AfterTransfer == remote.AfterKeep {
			if info, err := t.job.Stat(f.Local); err != nil || remote.Identify(info) != f.Was {
				return false, nil
			}
		}
		files = append(files, localFile{local: f.Local, below: f.Below, final: f.Final, size: f.Was.Size, was: f.Was, skipped: f.Skipped})
	}
	t.files, t.several, t.at = files, n.Several, n.At
	return true, nil
}

func (f localFile) source() remote.Uploaded {
	return remote.Uploaded{Local: f.local, Below: f.below, Final: f.final, Was: f.was, Skipped: f.skipped}
}

// uploaded describes the files for notes.
func (t *uploading) uploaded() []remote.Uploaded {
	files := make([]remote.Uploaded, len(t.files))
	for i, f := range t.files {
		files[i] = f.source()
	}
	return files
}

// Cleanup removes the unfinished remote files of earlier attempts.
func (u Upload) Cleanup(ctx context.Context, job *courier.Context, cfg UploadConfig) error {
	if err := cfg.check(); err != nil {
		return err
	}
	sources, several := cfg.sources().Former(ctx, job)
	if len(sources) == 0 {
		return nil
	}
	files := localFiles(sources)
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
// resume has kept, too.
func (u Upload) Rollback(ctx context.Context, job *courier.Context, cfg UploadConfig) error {
	err := u.Cleanup(ctx, job, cfg)
	if !cfg.Resume || !job.Cancelled() || job.StepDir() == "" {
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
			if err := s.Remove(ctx, part); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return s.fault("clean up", part, err)
			}
		}
		return nil
	})
}
