package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/parallel"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/transfer"
)

// A downloadNote is what sftp.download notes down when all is downloaded, so
// that a later attempt knows what is its own, even if the sources are gone.
type downloadNote struct {
	RemotePath string           `json:"remote_path"`
	Pattern    string           `json:"pattern"`
	LocalPath  string           `json:"local_path"`
	Files      []downloadedFile `json:"files"`
	Unsafe     int              `json:"unsafe"`
	NotReady   int              `json:"not_ready"`
	At         time.Time        `json:"at"`
	Attempt    int              `json:"attempt"` // of the execution
}

type downloadedFile struct {
	Remote  string   `json:"remote"`
	Below   string   `json:"below"`
	Local   string   `json:"local"`
	Was     Identity `json:"was"`
	Skipped bool     `json:"skipped,omitempty"` // the local file is another's
}

func (t *downloading) remembers() bool {
	return t.cfg.resumes() || t.cfg.AfterTransfer != AfterKeep
}

// note notes down what is downloaded, where that matters.
func (t *downloading) note(ctx context.Context) error {
	kept := func(f remoteFile) bool { return t.cfg.keeps(f.size) }
	if t.cfg.AfterTransfer == AfterKeep && !slices.ContainsFunc(t.files, kept) {
		return nil
	}
	notes, err := t.openNotes(ctx)
	if err == nil && t.cfg.AfterTransfer != AfterKeep {
		var local []string
		for _, f := range t.files {
			if !f.skipped {
				local = append(local, f.local)
			}
		}
		err = t.Job.Hold(local...)
	}
	if err != nil {
		return err
	}
	t.at = time.Now()
	n := downloadNote{t.cfg.RemotePath, t.cfg.Pattern.String(), t.cfg.LocalPath, []downloadedFile{}, t.unsafe, t.notReady, t.at, t.Job.ExecutionAttempt()}
	for _, f := range t.files {
		n.Files = append(n.Files, downloadedFile{f.remote, f.below, f.local, f.was, f.skipped})
	}
	return notes.write(n)
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
	t.unsafe, t.notReady, t.at = n.Unsafe, n.NotReady, n.At
	for _, f := range n.Files {
		t.files = append(t.files, remoteFile{remote: f.Remote, below: f.Below, local: f.Local, size: f.Was.Size, mtime: f.Was.Modified, was: f.Was, skipped: f.Skipped})
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
		if f.skipped {
			continue
		}
		info, err := t.Job.Stat(f.local)
		there := err == nil && info.Mode().IsRegular() && info.Size() == f.size
		var source Info
		err = t.Use(ctx, func(s Server) (err error) {
			source, err = s.Stat(ctx, f.remote)
			if errors.Is(err, fs.ErrNotExist) {
				source, err = Info{}, nil
			}
			return s.Fault("download", f.remote, err)
		})
		if err != nil {
			return false, err
		}
		if gone := source == (Info{}); !gone && source.Identity() == f.was && !there {
			return false, nil
		} else if !gone && source.Identity() != f.was {
			if remade, err := t.remade(f.remote); err != nil || remade {
				return false, err
			}
		}
		if !there {
			t.Job.Log().Warn("an earlier attempt of the execution has downloaded a file, and a later step has taken it away", "file", f.local)
			continue
		}
		if err := t.Job.Wrote(f.local); err != nil {
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
		if f := &t.files[i]; f.skipped {
			if _, err := t.Job.Stat(f.local); errors.Is(err, fs.ErrNotExist) && t.cfg.AfterTransfer == AfterKeep {
				return false, nil // what was in the way is gone
			}
		} else if !t.own(f) {
			if t.cfg.AfterTransfer == AfterKeep {
				return false, nil
			}
			return false, courier.Permanent(fmt.Errorf("local file %s: an earlier attempt has downloaded it, but it is gone or has changed; "+
				"the remote one may be gone too: %w", safename.Quote(t.files[i].local), fs.ErrNotExist))
		}
	}
	if t.cfg.AfterTransfer == AfterKeep {
		same := true
		err := t.Use(ctx, func(s Server) error {
			for _, f := range t.files {
				a, err := s.Stat(ctx, f.remote)
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					return s.Fault("download", f.remote, err)
				}
				same = same && (err != nil || a.Identity() == f.was)
			}
			return nil
		})
		if err != nil || !same {
			return false, err
		}
	}
	for _, f := range t.files {
		if f.skipped {
			continue
		}
		if err := t.Job.Wrote(f.local); err != nil {
			return false, err
		}
	}
	return true, nil
}

// own finds the local file, which may be in the directory of an earlier
// attempt, and has it in this one's.
func (t *downloading) own(f *remoteFile) bool {
	there := func(name string) bool {
		info, err := t.Job.Stat(name)
		return err == nil && info.Mode().IsRegular() && info.Size() == f.size
	}
	if t.cfg.LocalPath != "" || t.Job.Dir() == "." {
		return there(f.local)
	}
	f.local = JoinLocal(t.Job.Dir(), f.below)
	for _, dir := range attemptDirs(t.Job) {
		old := JoinLocal(dir, f.below)
		if !there(old) {
			continue
		}
		if old == f.local {
			return true
		}
		root, rel, err := t.Job.Root(f.local)
		if err == nil {
			err = errors.Join(root.MkdirAll(filepath.Dir(rel), 0o700), root.Rename(filepath.FromSlash(old), rel), SyncAbove(root, rel))
		}
		return err == nil
	}
	return false
}

// archived is where after_transfer puts a remote file.
func (t *downloading) archived(f remoteFile) string {
	return Join(TrimSlashes(t.cfg.MoveTo), t.cfg.after().Name(f.below, t.at))
}

// after does with the sources what after_transfer says. What isn't what was
// downloaded any more stays.
func (t *downloading) after(ctx context.Context) error {
	return t.Use(ctx, func(s Server) error {
		if err := t.makeArchive(ctx, s); err != nil {
			return err
		}
		return parallel.Do(ctx, len(t.files), s.Traits().Requests, func(ctx context.Context, i int) error {
			return s.Fault(t.cfg.AfterTransfer, t.files[i].remote, t.afterOne(ctx, s, &t.files[i]))
		})
	})
}

// makeArchive makes the directories into which files are moved.
func (t *downloading) makeArchive(ctx context.Context, s Server) error {
	if !t.cfg.after().Moves() {
		return nil
	}
	made := make(map[string]bool)
	for _, f := range t.files {
		dir, _ := Split(t.archived(f))
		if made[dir] {
			continue
		}
		if t.former { // a later step of that attempt may have removed it
			if a, err := s.Stat(ctx, f.remote); err == nil && a.Identity() != f.was || errors.Is(err, fs.ErrNotExist) {
				continue
			}
		}
		if err := makeDirectories(ctx, s, dir); err != nil {
			return s.Fault("move to", dir, err)
		}
		made[dir] = true
	}
	return nil
}

func (t *downloading) afterOne(ctx context.Context, s Server, f *remoteFile) error {
	if f.skipped {
		return nil // nobody knows what the local file is
	}
	a, err := s.Stat(ctx, f.remote)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return t.removeDone(ctx, s, f)
	case err != nil:
		return err
	case a.Identity() != f.was:
		t.Job.Log().Warn("a file has changed since it was downloaded; it stays", "connection", t.ID, "file", f.remote)
		return nil
	}
	if t.cfg.AfterTransfer == AfterDelete {
		err = removeGone(ctx, s, f.remote)
	} else if to := t.archived(*f); path.Clean(to) == path.Clean(f.remote) {
		return nil
	} else {
		move := renaming{
			account: t.Account, from: f.remote, to: to, size: f.size, ifExists: transfer.IfExistsOverwrite, what: "the downloaded file",
		}
		err = move.run(ctx, s)
		if err == nil {
			err = t.produced(move.to)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return t.removeDone(ctx, s, f)
}

// removeDone removes the companion of a file that is gone.
func (t *downloading) removeDone(ctx context.Context, s Server, f *remoteFile) error {
	if t.cfg.DoneFile == "" {
		return nil
	}
	return removeGone(ctx, s, DonePath(t.cfg.DoneFile, f.remote))
}
