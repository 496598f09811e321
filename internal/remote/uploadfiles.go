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
	t.files, t.several = localFiles(files), several
	return err
}

func localFiles(sources []Source) []localFile {
	files := make([]localFile, len(sources))
	for i, f := range sources {
		files[i] = localFile{local: f.Local, below: f.Below, size: f.Size}
	}
	return files
}

// setTargets gives each file its remote path.
func (t *uploading) setTargets(ctx context.Context, s Server) error {
	cfg := t.cfg
	targets, err := cfg.sources().Targets(sourcesOf(t.files), t.several, cfg.RemotePath, func() (bool, bool, error) {
		a, err := s.Stat(ctx, cfg.RemotePath)
		if errors.Is(err, fs.ErrNotExist) {
			return false, false, nil
		}
		return err == nil, a.IsDir(), err
	})
	for i, target := range targets {
		t.files[i].final = target
	}
	return s.Fault("upload to", cfg.RemotePath, err)
}

// makeParents makes the directories below remote_path that hold the files.
func (t *uploading) makeParents(ctx context.Context, s Server) error {
	for _, dir := range Directories(t.cfg.RemotePath, sourcesOf(t.files)) {
		if err := makeDirectory(ctx, s, dir); err != nil {
			return s.Fault("make directory", dir, err)
		}
	}
	return nil
}

func sourcesOf(files []localFile) []Source {
	sources := make([]Source, len(files))
	for i, f := range files {
		sources[i] = Source{Local: f.local, Below: f.below}
	}
	return sources
}

// written lists the remote files that the step writes, companions included.
func (t *uploading) written() []string {
	var all []string
	for _, f := range t.files {
		all = append(all, f.final)
		if t.cfg.Checksum == ChecksumSidecar {
			all = append(all, f.final+SidecarSuffix)
		}
		if t.cfg.DoneFile != "" {
			all = append(all, DonePath(t.cfg.DoneFile, f.final))
		}
	}
	return all
}

// companions writes the files with checksums and, when all is there, the done
// files.
func (t *uploading) companions(ctx context.Context, s Server) error {
	done := make(map[string]bool)
	for _, f := range t.files {
		if f.skipped {
			continue
		}
		if t.cfg.DoneFile != "" {
			done[DonePath(t.cfg.DoneFile, f.final)] = true
		}
		if t.cfg.Checksum != ChecksumSidecar {
			continue
		}
		_, name := Split(f.final)
		sum, err := f.source().Sum(ctx, t.Job, f.final)
		if err == nil {
			err = t.putText(ctx, s, f.final+SidecarSuffix, SidecarText(sum, name))
		}
		if err != nil {
			return s.Fault("upload", f.final+SidecarSuffix, err)
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
		LocalPath: t.cfg.LocalPath.String(), RemotePath: t.cfg.RemotePath, Several: t.several, Files: t.uploaded(), At: t.at, Attempt: t.Job.ExecutionAttempt()})
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
	var files []localFile
	for _, f := range n.Files {
		if t.cfg.AfterTransfer == AfterKeep {
			if info, err := t.Job.Stat(f.Local); err != nil || Identify(info) != f.Was {
				return false, nil
			}
		}
		files = append(files, localFile{local: f.Local, below: f.Below, final: f.Final, size: f.Was.Size, was: f.Was, skipped: f.Skipped})
	}
	t.files, t.several, t.at = files, n.Several, n.At
	return true, nil
}

func (f localFile) source() Uploaded {
	return Uploaded{Local: f.local, Below: f.below, Final: f.final, Was: f.was, Skipped: f.skipped}
}

// uploaded describes the files for notes.
func (t *uploading) uploaded() []Uploaded {
	files := make([]Uploaded, len(t.files))
	for i, f := range t.files {
		files[i] = f.source()
	}
	return files
}

// CleanupUpload removes the unfinished remote files of earlier attempts, other than
// those that resume keeps.
func CleanupUpload(ctx context.Context, a Account, cfg UploadConfig) error {
	sources, several := cfg.sources().Former(ctx, a.Job)
	if len(sources) == 0 {
		return nil
	}
	t := &uploading{Account: a, cfg: cfg, files: localFiles(sources), several: several}
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
	if !cfg.Resume || !a.Job.Cancelled() {
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
