package sftp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/parallel"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/sftpclient"
	"github.com/courierhq/courier/internal/transfer"
)

// isLost reports whether err ends a connection, so that another may do better.
func isLost(err error) bool {
	return connerr.IsLost(err) || errors.Is(err, sftpclient.ErrSilence)
}

// errOtherContent says that a comparison has found a difference.
var errOtherContent = errors.New("the content differs when it is read again")

// compareWhole reads a remote file again and compares it with the local one.
func compareWhole(ctx context.Context, l sftpclient.File, src io.ReaderAt, m *remote.Meter) error {
	same, err := sftpclient.CompareRange(ctx, l, src, 0, m.Total, m.Compared)
	if err == nil && same < m.Total {
		err = errOtherContent
	}
	return err
}

// checkSidecar compares what was downloaded with the checksum beside it.
func (s *session) checkSidecar(ctx context.Context, file string, src io.ReaderAt, m *remote.Meter) error {
	sidecar := file + remote.SidecarSuffix
	text, err := s.readSmall(ctx, sidecar)
	if err != nil {
		return fmt.Errorf("checksum in %s: %w", safename.Quote(sidecar), err)
	}
	return remote.CheckSidecar(ctx, sidecar, text, src, m.Total, m.Beat)
}

// readSmall returns the content of a small remote file.
func (s *session) readSmall(ctx context.Context, file string) (string, error) {
	a, err := s.Stat(ctx, file)
	if err != nil {
		return "", err
	}
	size, err := a.FileSize()
	if err != nil || size > remote.MaxSidecar || !a.IsFile() {
		return "", remote.ErrNoSidecar
	}
	h, err := s.Open(ctx, file, sftpclient.FlagRead)
	if err != nil {
		return "", err
	}
	defer s.CloseHandle(ctx, h)
	var text bytes.Buffer
	r := sftpclient.Reading{Workers: sftpclient.OneWorker(s.Client, h), Size: size, To: &text, Progress: func(int64) {}}
	err = r.Run(ctx)
	return text.String(), err
}

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
	Remote string   `json:"remote"`
	Below  string   `json:"below"`
	Local  string   `json:"local"`
	Was    identity `json:"was"`
	Timed  bool     `json:"timed"` // the server tells the time

	Skipped bool `json:"skipped,omitempty"` // the local file is another's
}

func (t *downloading) remembers() bool {
	return t.cfg.resumes() || t.cfg.AfterTransfer != remote.AfterKeep
}

// note notes down what is downloaded, where that matters.
func (t *downloading) note(ctx context.Context) error {
	kept := func(f remoteFile) bool { return t.cfg.keeps(f.size) }
	if t.cfg.AfterTransfer == remote.AfterKeep && !slices.ContainsFunc(t.files, kept) {
		return nil
	}
	notes, err := t.openNotes(ctx)
	if err == nil && t.cfg.AfterTransfer != remote.AfterKeep {
		err = remote.HoldDownloads(t.job, t.files, func(f remoteFile) string {
			if f.skipped {
				return ""
			}
			return f.local
		})
	}
	if err != nil {
		return err
	}
	t.at = time.Now()
	n := downloadNote{t.cfg.RemotePath, t.cfg.Pattern.String(), t.cfg.LocalPath, []downloadedFile{}, t.unsafe, t.notReady, t.at, t.job.ExecutionAttempt()}
	for _, f := range t.files {
		n.Files = append(n.Files, downloadedFile{f.remote, f.below, f.local, f.was, !f.mtime.IsZero(), f.skipped})
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
		r := remoteFile{remote: f.Remote, below: f.Below, local: f.Local, size: int64(f.Was.Size), was: f.Was, skipped: f.Skipped}
		if f.Timed {
			r.mtime = sftpclient.Attrs{Flags: sftpclient.AttrTimes, Mtime: f.Was.Modified}.Modified()
		}
		t.files = append(t.files, r)
	}
	t.former = n.Attempt < t.job.ExecutionAttempt()
	return true, nil
}

// openNotes opens the notes about what is downloaded. Where the sources go, they
// last over all attempts of the execution.
func (t *downloading) openNotes(ctx context.Context) (*notebook, error) {
	if t.cfg.AfterTransfer == remote.AfterKeep {
		return openNotes(ctx, t.job, "download")
	}
	return openLasting(ctx, t.job, "download")
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
		info, err := t.job.Stat(f.local)
		there := err == nil && info.Mode().IsRegular() && info.Size() == f.size
		var source sftpclient.Attrs
		err = use(ctx, t.job, t.Connections, t.cfg.ConnectionID, func(s *session) (err error) {
			source, err = s.Stat(ctx, f.remote)
			if errors.Is(err, fs.ErrNotExist) {
				source, err = sftpclient.Attrs{}, nil
			}
			return s.fault("download", f.remote, err)
		})
		if err != nil {
			return false, err
		}
		if gone := source == (sftpclient.Attrs{}); !gone && identify(source) == f.was && !there {
			return false, nil
		} else if !gone && identify(source) != f.was {
			if remade, err := remote.Remade(t.job, "sftp", t.cfg.ConnectionID, f.remote); err != nil || remade {
				return false, err
			}
		}
		if !there {
			t.job.Log().Warn("an earlier attempt of the execution has downloaded a file, and a later step has taken it away", "file", f.local)
			continue
		}
		if err := t.job.Wrote(f.local); err != nil {
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
			if _, err := t.job.Stat(f.local); errors.Is(err, fs.ErrNotExist) && t.cfg.AfterTransfer == remote.AfterKeep {
				return false, nil // what was in the way is gone
			}
		} else if !t.own(f) {
			if t.cfg.AfterTransfer == remote.AfterKeep {
				return false, nil
			}
			return false, courier.Permanent(fmt.Errorf("local file %s: an earlier attempt has downloaded it, but it is gone or has changed; "+
				"the remote one may be gone too: %w", safename.Quote(t.files[i].local), fs.ErrNotExist))
		}
	}
	if t.cfg.AfterTransfer == remote.AfterKeep {
		same := true
		err := use(ctx, t.job, t.Connections, t.cfg.ConnectionID, func(s *session) error {
			for _, f := range t.files {
				a, err := s.Stat(ctx, f.remote)
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					return s.fault("download", f.remote, err)
				}
				same = same && (err != nil || identify(a) == f.was)
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
		if err := t.job.Wrote(f.local); err != nil {
			return false, err
		}
	}
	return true, nil
}

// own finds the local file, which may be in the directory of an earlier
// attempt, and has it in this one's.
func (t *downloading) own(f *remoteFile) bool {
	there := func(name string) bool {
		info, err := t.job.Stat(name)
		return err == nil && info.Mode().IsRegular() && info.Size() == f.size
	}
	if t.cfg.LocalPath != "" || t.job.Dir() == "." {
		return there(f.local)
	}
	f.local = remote.JoinLocal(t.job.Dir(), f.below)
	for _, dir := range attemptDirs(t.job) {
		old := remote.JoinLocal(dir, f.below)
		if !there(old) {
			continue
		}
		if old == f.local {
			return true
		}
		root, rel, err := t.job.Root(f.local)
		if err == nil {
			err = errors.Join(root.MkdirAll(filepath.Dir(rel), 0o700), root.Rename(filepath.FromSlash(old), rel), remote.SyncAbove(root, rel))
		}
		return err == nil
	}
	return false
}

// archived is where after_transfer puts a remote file.
func (t *downloading) archived(f remoteFile) string {
	return remote.Join(trimSlashes(t.cfg.MoveTo), t.cfg.after().Name(f.below, t.at))
}

// after does with the sources what after_transfer says. What isn't what was
// downloaded any more stays.
func (t *downloading) after(ctx context.Context) error {
	return use(ctx, t.job, t.Connections, t.cfg.ConnectionID, func(s *session) error {
		if err := t.makeArchive(ctx, s); err != nil {
			return err
		}
		return parallel.Do(ctx, len(t.files), manyFiles, func(ctx context.Context, i int) error {
			return s.fault(t.cfg.AfterTransfer, t.files[i].remote, t.afterOne(ctx, s, &t.files[i]))
		})
	})
}

// makeArchive makes the directories into which files are moved.
func (t *downloading) makeArchive(ctx context.Context, s *session) error {
	if !t.cfg.after().Moves() {
		return nil
	}
	made := make(map[string]bool)
	for _, f := range t.files {
		dir, _ := remote.Split(t.archived(f))
		if made[dir] {
			continue
		}
		if t.former { // a later step of that attempt may have removed it
			if a, err := s.Stat(ctx, f.remote); err == nil && identify(a) != f.was || errors.Is(err, fs.ErrNotExist) {
				continue
			}
		}
		if err := s.makeDirectories(ctx, dir); err != nil {
			return s.fault("move to", dir, err)
		}
		made[dir] = true
	}
	return nil
}

func (t *downloading) afterOne(ctx context.Context, s *session, f *remoteFile) error {
	if f.skipped {
		return nil // nobody knows what the local file is
	}
	a, err := s.Stat(ctx, f.remote)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return t.removeDone(ctx, s, f)
	case err != nil:
		return err
	case identify(a) != f.was:
		t.job.Log().Warn("a file has changed since it was downloaded; it stays", "connection", s.id, "file", f.remote)
		return nil
	}
	if t.cfg.AfterTransfer == remote.AfterDelete {
		err = s.Remove(ctx, f.remote)
	} else {
		move := renaming{
			connections: t.Connections, job: t.job, id: t.cfg.ConnectionID,
			from: f.remote, to: t.archived(*f), size: f.size, ifExists: transfer.IfExistsOverwrite, what: "the downloaded file",
		}
		err = move.run(ctx, s)
		if err == nil {
			err = remote.Produced(t.job, "sftp", t.cfg.ConnectionID, move.to)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return t.removeDone(ctx, s, f)
}

// removeDone removes the companion of a file that is gone.
func (t *downloading) removeDone(ctx context.Context, s *session, f *remoteFile) error {
	if t.cfg.DoneFile == "" {
		return nil
	}
	err := s.Remove(ctx, remote.DonePath(t.cfg.DoneFile, f.remote))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
