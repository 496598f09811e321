package remote

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/stepcontext"
)

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
		if info, err := t.Job.Files().Stat(f.Local); err != nil || Identify(info) != f.Was {
			return false, nil
		}
	}
	t.files, t.several, t.at = n.Files, n.Several, n.At
	return true, nil
}

// An UploadNote is what a step notes down when all is uploaded, so that a later
// attempt knows, even if the sources are gone.
type UploadNote struct {
	LocalPath  string      `json:"local_path"`
	RemotePath string      `json:"remote_path"`
	Several    bool        `json:"several"`
	Files      []LocalFile `json:"files"`
	At         time.Time   `json:"at"`
	Attempt    int         `json:"attempt"` // of the execution
}

// Done reports whether a note of an earlier attempt of the execution says what
// this one has to upload: whether the job has not made any of the files again.
func (n UploadNote) Done(ctx context.Context, job *courier.Context, q Sources) (bool, error) {
	if n.Attempt == job.ExecutionAttempt() {
		return true, nil
	}
	was := make(map[string]LocalIdentity)
	for _, f := range n.Files {
		was[f.Local] = f.Was
	}
	now, _ := q.Former(ctx, job)
	for _, f := range now {
		info, err := job.Files().Stat(f.Local)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return false, err
		}
		if Identify(info) == was[f.Local] {
			continue
		}
		if remade, err := stepcontext.Of(job).Remade(f.Local); remade || err != nil {
			return false, err
		}
	}
	return true, nil
}
