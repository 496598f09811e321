package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/stepcontext"
)

// A downloadNote is what sftp.download notes down when all is downloaded, so
// that a later attempt knows what is its own, even if the sources are gone.
type downloadNote struct {
	RemotePath string       `json:"remote_path"`
	Pattern    string       `json:"pattern"`
	LocalPath  string       `json:"local_path"`
	Files      []remoteFile `json:"files"`
	Unsafe     int          `json:"unsafe"`
	NotReady   int          `json:"not_ready"`
	At         time.Time    `json:"at"`
	Attempt    int          `json:"attempt"` // of the execution
}

func (t *downloading) remembers() bool {
	return t.cfg.resumes() || t.cfg.AfterTransfer != AfterKeep
}

// note notes down what is downloaded, where that matters.
func (t *downloading) note(ctx context.Context) error {
	kept := func(f remoteFile) bool { return t.cfg.keeps(f.Size) }
	if t.cfg.AfterTransfer == AfterKeep && !slices.ContainsFunc(t.files, kept) {
		return nil
	}
	notes, err := t.openNotes(ctx)
	if err == nil && t.cfg.AfterTransfer != AfterKeep {
		var local []string
		for _, f := range t.files {
			if !f.Skipped {
				local = append(local, f.Local)
			}
		}
		err = stepcontext.Of(t.Job).Hold(local...)
	}
	if err != nil {
		return err
	}
	t.at = time.Now()
	return notes.write(downloadNote{t.cfg.RemotePath, t.cfg.Pattern.String(), t.cfg.LocalPath, t.files, t.unsafe, t.notReady, t.at, t.Job.ExecutionAttempt()})
}

// recall takes over what an earlier attempt has noted down, and reports whether
// there is anything.
func (t *downloading) recall(ctx context.Context) (bool, error) {
	if !t.remembers() {
		return false, nil
	}
	notes, err := t.openNotes(ctx)
	if err != nil {
		return false, err
	}
	var n downloadNote
	if found, err := notes.read(&n); err != nil || !found || n.RemotePath != t.cfg.RemotePath || n.Pattern != t.cfg.Pattern.String() || n.LocalPath != t.cfg.LocalPath {
		return false, err
	}
	t.files, t.unsafe, t.notReady, t.at = n.Files, n.Unsafe, n.NotReady, n.At
	for i := range t.files {
		t.files[i].Size = t.files[i].Was.Size
	}
	t.former = n.Attempt < t.Job.ExecutionAttempt()
	return true, nil
}

// openNotes opens the notes about what is downloaded. Where the sources go, they
// last over all attempts of the execution.
func (t *downloading) openNotes(ctx context.Context) (*notebook, error) {
	if t.cfg.AfterTransfer == AfterKeep {
		return t.notes(ctx, "download")
	}
	return t.lastingNotes(ctx, "download")
}

// claimFormer is claim for what an earlier attempt of the execution has downloaded.
// A file that is gone on both sides was taken away by a later step of that attempt,
// which knows. It reports false if the job has made one of the sources again, or
// one that is still there has to be downloaded again.
func (t *downloading) claimFormer(ctx context.Context) (bool, error) {
	for _, f := range t.files {
		if f.Skipped {
			continue
		}
		info, err := t.Job.Files().Stat(f.Local)
		there := err == nil && info.Mode().IsRegular() && info.Size() == f.Size
		var source Info
		err = t.Use(ctx, func(s Server) (err error) {
			source, err = s.Stat(ctx, f.Remote)
			if errors.Is(err, fs.ErrNotExist) {
				source, err = Info{}, nil
			}
			return s.Fault("download", f.Remote, err)
		})
		if err != nil {
			return false, err
		}
		if gone := source == (Info{}); !gone && source.Identity() == f.Was && !there {
			return false, nil
		} else if !gone && source.Identity() != f.Was {
			if remade, err := t.remade(f.Remote); err != nil || remade {
				return false, err
			}
		}
		if !there {
			t.Job.Log().Warn("an earlier attempt of the execution has downloaded a file, and a later step has taken it away", "file", f.Local)
			continue
		}
		if err := t.Job.Files().Wrote(f.Local); err != nil {
			return false, err
		}
	}
	return true, nil
}

// claim reports whether all that an earlier attempt has downloaded is there
// and, if the sources are kept, still what they hold. It moves files from the
// directory of that attempt to this one's.
func (t *downloading) claim(ctx context.Context) (bool, error) {
	if t.former {
		return t.claimFormer(ctx)
	}
	for i := range t.files {
		if f := &t.files[i]; f.Skipped {
			if _, err := t.Job.Files().Stat(f.Local); errors.Is(err, fs.ErrNotExist) && t.cfg.AfterTransfer == AfterKeep {
				return false, nil // what was in the way is gone
			}
		} else if !t.own(f) {
			if t.cfg.AfterTransfer == AfterKeep {
				return false, nil
			}
			return false, courier.Permanent(fmt.Errorf("local file %s: an earlier attempt has downloaded it, but it is gone or has changed; "+
				"the remote one may be gone too: %w", safename.Quote(t.files[i].Local), fs.ErrNotExist))
		}
	}
	if t.cfg.AfterTransfer == AfterKeep {
		same := true
		err := t.Use(ctx, func(s Server) error {
			for _, f := range t.files {
				a, err := s.Stat(ctx, f.Remote)
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					return s.Fault("download", f.Remote, err)
				}
				same = same && (err != nil || a.Identity() == f.Was)
			}
			return nil
		})
		if err != nil || !same {
			return false, err
		}
	}
	for _, f := range t.files {
		if f.Skipped {
			continue
		}
		if err := t.Job.Files().Wrote(f.Local); err != nil {
			return false, err
		}
	}
	return true, nil
}

// own finds the local file, which may be in the directory of an earlier
// attempt, and has it in this one's.
func (t *downloading) own(f *remoteFile) bool {
	there := func(name string) bool {
		info, err := t.Job.Files().Stat(name)
		return err == nil && info.Mode().IsRegular() && info.Size() == f.Size
	}
	if t.cfg.LocalPath != "" || t.Job.Files().Dir() == "." {
		return there(f.Local)
	}
	f.Local = JoinLocal(t.Job.Files().Dir(), f.Below)
	for _, dir := range attemptDirs(t.Job) {
		old := JoinLocal(dir, f.Below)
		if !there(old) {
			continue
		}
		if old == f.Local {
			return true
		}
		root, rel, err := t.Job.Files().Root(f.Local)
		if err == nil {
			err = errors.Join(root.MkdirAll(filepath.Dir(rel), 0o700), root.Rename(filepath.FromSlash(old), rel), SyncAbove(root, rel))
		}
		return err == nil
	}
	return false
}
