package remote

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/note"
	"github.com/courierhq/courier/internal/transfer"
)

// find finds the files to upload, those that are ready.
func (t *uploading) find(ctx context.Context) error {
	files, several, err := t.cfg.sources().FindReady(ctx, t.Job, t.cfg.StableSeconds)
	t.files, t.several = files, several
	return err
}

// setTargets gives each file its remote path.
func (t *uploading) setTargets(ctx context.Context, s Server) error {
	cfg := t.cfg
	targets, err := cfg.sources().Targets(t.files, t.several, cfg.RemotePath, func() (bool, bool, error) {
		a, err := s.Stat(ctx, cfg.RemotePath)
		if errors.Is(err, fs.ErrNotExist) {
			return false, false, nil
		}
		return err == nil, a.IsDir(), err
	})
	for i, target := range targets {
		t.files[i].Final = target
	}
	return s.Fault("upload to", cfg.RemotePath, err)
}

// makeParents makes the directories below remote_path that hold the files.
func (t *uploading) makeParents(ctx context.Context, s Server) error {
	for _, dir := range Directories(t.cfg.RemotePath, t.files) {
		if err := makeDirectory(ctx, s, dir); err != nil {
			return s.Fault("make directory", dir, err)
		}
	}
	return nil
}

// written lists the remote files that the step writes, companions included.
func (t *uploading) written() []string {
	var all []string
	for _, f := range t.files {
		all = append(all, f.Final)
		if t.cfg.Checksum == ChecksumSidecar {
			all = append(all, f.Final+SidecarSuffix)
		}
		if t.cfg.DoneFile != "" {
			all = append(all, DonePath(t.cfg.DoneFile, f.Final))
		}
	}
	return all
}

// companions writes the files with checksums and, when all is there, the done
// files.
func (t *uploading) companions(ctx context.Context, s Server) error {
	done := make(map[string]bool)
	for _, f := range t.files {
		if f.Skipped {
			continue
		}
		if t.cfg.DoneFile != "" {
			done[DonePath(t.cfg.DoneFile, f.Final)] = true
		}
		if t.cfg.Checksum != ChecksumSidecar {
			continue
		}
		_, name := Split(f.Final)
		sum, err := f.Sum(ctx, t.Job, f.Final)
		if err == nil {
			err = t.putText(ctx, s, f.Final+SidecarSuffix, SidecarText(sum, name))
		}
		if err != nil {
			return s.Fault("upload", f.Final+SidecarSuffix, err)
		}
	}
	for name := range done {
		if err := t.putText(ctx, s, name, ""); err != nil {
			return s.Fault("upload", name, err)
		}
	}
	return nil
}

// putText writes a small remote file, in place of what is there.
func (t *uploading) putText(ctx context.Context, s Server, final, text string) error {
	dir, name := Split(final)
	side := Join(dir, t.Job.SideName(name))
	size := int64(len(text))
	m := &Meter{Job: t.Job, Item: final, Total: size}
	if _, err := s.Store(ctx, Storing{Path: side, Content: strings.NewReader(text), Size: size, Meter: m}); err != nil {
		return err
	}
	r := renaming{account: t.Account, from: side, to: final, size: size, ifExists: transfer.IfExistsOverwrite, what: "the complete file"}
	return r.run(ctx, s)
}

func (t *uploading) remembers() bool {
	return t.cfg.Resume || t.cfg.AfterTransfer != AfterKeep
}

// openNotes opens the notes about what is uploaded. Where the sources go, they last
// over all attempts of the execution.
func (t *uploading) openNotes(ctx context.Context) (*notebook, error) {
	if t.cfg.AfterTransfer == AfterKeep {
		return t.notes(ctx, "upload")
	}
	return t.lastingNotes(ctx, "upload")
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
	return notes.write(UploadNote{
		LocalPath: t.cfg.LocalPath.String(), RemotePath: t.cfg.RemotePath, Several: t.several, Files: t.files, At: t.at, Attempt: t.Job.ExecutionAttempt()})
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
	var n UploadNote
	if found, err := notes.read(&n); err != nil || !found || n.LocalPath != t.cfg.LocalPath.String() || n.RemotePath != t.cfg.RemotePath {
		return false, err
	}
	if done, err := n.Done(ctx, t.Job, t.cfg.sources()); err != nil || !done {
		return false, err
	}
	for i := range n.Files {
		f := &n.Files[i]
		f.Size = f.Was.Size
		if t.cfg.AfterTransfer != AfterKeep {
			continue
		}
		if info, err := t.Job.Stat(f.Local); err != nil || Identify(info) != f.Was {
			return false, nil
		}
	}
	t.files, t.several, t.at = n.Files, n.Several, n.At
	return true, nil
}

// CleanupUpload removes the unfinished remote files of earlier attempts, other than
// those that resume keeps.
func CleanupUpload(ctx context.Context, a Account, cfg UploadConfig) error {
	if err := cfg.check(a); err != nil {
		return err
	}
	files, several := cfg.sources().Former(ctx, a.Job)
	if len(files) == 0 {
		return nil
	}
	t := &uploading{Account: a, cfg: cfg, files: files, several: several}
	return a.Use(ctx, func(s Server) error {
		err := t.setTargets(ctx, s)
		if courier.IsPermanent(err) {
			return nil // where nothing can be written, nothing was left
		} else if err != nil {
			return err
		}
		return a.removeLeftovers(ctx, s, t.written(), a.Job.StartNumber())
	})
}

// RollbackUpload is CleanupUpload. If the execution is cancelled, it removes what
// resume has kept, too.
func RollbackUpload(ctx context.Context, a Account, cfg UploadConfig) error {
	err := CleanupUpload(ctx, a, cfg)
	if !cfg.Resume || !a.Job.Cancelled() || cfg.check(a) != nil {
		return err
	}
	var kept []string
	e := note.Each(a.Job, a.Job.StepDir(), a.Family+"-"+partNotes, func(text []byte) error {
		var n uploadPartNote
		if err := json.Unmarshal(text, &n); err != nil {
			return err
		}
		kept = append(kept, n.Part)
		return nil
	})
	if err = errors.Join(err, e); err != nil || len(kept) == 0 {
		return err
	}
	return a.Use(ctx, func(s Server) error {
		for _, part := range kept {
			if err := removeGone(ctx, s, part); err != nil {
				return s.Fault("clean up", part, err)
			}
		}
		return nil
	})
}
