package ftp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/transfer"
)

// note writes down what is downloaded, where the sources go away.
func (t *downloading) note() error {
	if t.cfg.AfterTransfer == remote.AfterKeep || len(t.Files) == 0 {
		return nil
	}
	err := remote.HoldDownloads(t.job, t.Files, func(f remoteFile) string {
		if f.Skipped {
			return ""
		}
		return f.Local
	})
	if err != nil {
		return err
	}
	t.At = time.Now()
	t.RemotePath, t.Pattern, t.LocalPath, t.Attempt = t.cfg.RemotePath, t.cfg.Pattern.String(), t.cfg.LocalPath, t.job.ExecutionAttempt()
	return lastingNote(t.job, "downloaded").write(t.downloaded)
}

// recall takes over what an earlier attempt has written down, and reports
// whether there is anything.
func (t *downloading) recall(ctx context.Context) (bool, error) {
	if t.cfg.AfterTransfer == remote.AfterKeep {
		return false, nil
	}
	var then downloaded
	known, err := lastingNote(t.job, "downloaded").read(&then)
	if err != nil || !known || then.RemotePath != t.cfg.RemotePath || then.Pattern != t.cfg.Pattern.String() || then.LocalPath != t.cfg.LocalPath {
		return false, err
	}
	if then.Attempt < t.job.ExecutionAttempt() {
		if known, err = t.holds(ctx, then.Files); err != nil || !known {
			return false, err
		}
	}
	t.downloaded = then
	return true, nil
}

// holds reports whether what an earlier attempt of the execution has downloaded
// need not be downloaded again: the local file is there, or was taken away by a
// later step of that attempt, which knows; and the job has not made the source
// again.
func (t *downloading) holds(ctx context.Context, files []remoteFile) (held bool, err error) {
	err = use(ctx, t.job, t.Connections, t.cfg.ConnectionID, func(s *session) error {
		held = true
		for _, f := range files {
			if f.Skipped {
				continue
			}
			_, there := localIs(t.job, f.Local, f.Size)
			n, err := s.Stat(ctx, f.Remote)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				continue
			case err != nil:
				return s.fault("download", f.Remote, err)
			case n.Size == f.Size && n.Modified.Equal(f.Modified):
				held = held && there
				continue
			}
			remade, err := remote.Remade(t.job, "ftp", t.cfg.ConnectionID, f.Remote)
			if err != nil {
				return err
			}
			held = held && !remade
		}
		return nil
	})
	return held, err
}

// after does with the remote files what after_transfer says. One that is no
// longer what was downloaded stays.
func (t *downloading) after(ctx context.Context) error {
	if t.cfg.AfterTransfer == remote.AfterKeep || len(t.Files) == 0 {
		return nil
	}
	return use(ctx, t.job, t.Connections, t.cfg.ConnectionID, func(s *session) error {
		if err := t.makeArchive(ctx, s); err != nil {
			return err
		}
		for _, f := range t.Files {
			t.job.Progress(0, -1, f.Remote)
			if err := t.afterOne(ctx, s, f); err != nil {
				return s.fault(t.cfg.AfterTransfer, f.Remote, err)
			}
		}
		return nil
	})
}

// archived is where after_transfer puts a remote file.
func (t *downloading) archived(f remoteFile) string {
	return remote.Join(t.cfg.MoveTo, t.cfg.after().Name(f.Below, t.At))
}

// makeArchive makes the directories into which files are moved.
func (t *downloading) makeArchive(ctx context.Context, s *session) error {
	if !t.cfg.after().Moves() {
		return nil
	}
	made := make(map[string]bool)
	for _, f := range t.Files {
		dir, _ := remote.Split(t.archived(f))
		if made[dir] {
			continue
		}
		if t.Attempt < t.job.ExecutionAttempt() { // a later step of that attempt may have removed it
			n, err := s.Stat(ctx, f.Remote)
			if err == nil && (n.Size != f.Size || !n.Modified.Equal(f.Modified)) || errors.Is(err, fs.ErrNotExist) {
				continue
			}
		}
		if err := s.makeAll(ctx, dir); err != nil {
			return err
		}
		made[dir] = true
	}
	return nil
}

func (t *downloading) afterOne(ctx context.Context, s *session, f remoteFile) error {
	if f.Skipped {
		return nil // nobody knows what the local file is
	}
	_, there := localIs(t.job, f.Local, f.Size)
	if !there && t.Attempt < t.job.ExecutionAttempt() {
		t.job.Log().Warn("an earlier attempt of the execution has downloaded a file, and a later step has taken it away", "file", safename.Quote(f.Local))
		return nil
	} else if !there {
		return courier.Permanent(fmt.Errorf("the local file %s is no longer what was downloaded, so the remote one is kept", safename.Quote(f.Local)))
	}
	if err := t.job.Wrote(f.Local); err != nil {
		return err
	}
	n, err := s.Stat(ctx, f.Remote)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return t.removeDone(ctx, s, f)
	case err != nil:
		return err
	case n.IsDir || n.Size != f.Size || !n.Modified.Equal(f.Modified):
		t.job.Log().Warn("a file has changed since it was downloaded; it stays", "connection", s.id, "file", safename.Quote(f.Remote))
		return nil
	case t.cfg.AfterTransfer == remote.AfterDelete:
		err = s.delete(ctx, f.Remote)
	case path.Clean(t.archived(f)) == path.Clean(f.Remote):
		return nil
	default:
		m := moving{job: t.job, from: f.Remote, to: t.archived(f), size: f.Size, ifExists: transfer.IfExistsOverwrite, what: "the downloaded file"}
		err = m.run(ctx, s)
		if err == nil {
			err = remote.Produced(t.job, "ftp", t.cfg.ConnectionID, m.to)
		}
	}
	if err != nil {
		return err
	}
	return t.removeDone(ctx, s, f)
}

// removeDone removes the companion of a file that is gone.
func (t *downloading) removeDone(ctx context.Context, s *session, f remoteFile) error {
	if t.cfg.DoneFile == "" {
		return nil
	}
	return s.delete(ctx, remote.DonePath(t.cfg.DoneFile, f.Remote))
}

// Cleanup removes the unfinished local files of earlier attempts, except those
// with which the next goes on. It needs a connection only where a file may have
// been moved aside on the server.
func (d Download) Cleanup(ctx context.Context, job *courier.Context, cfg DownloadConfig) error {
	if err := cfg.clean(job); err != nil || !cfg.after().Moves() {
		return err
	}
	t := &downloading{Download: d, job: job, cfg: cfg}
	if _, err := lastingNote(job, "downloaded").read(&t.downloaded); err != nil || len(t.Files) == 0 {
		return err
	}
	return use(ctx, job, d.Connections, cfg.ConnectionID, func(s *session) error {
		for _, f := range t.Files {
			job.Progress(0, -1, f.Remote)
			if err := s.restore(ctx, job, t.archived(f), job.Attempt()); err != nil {
				return s.fault("clean up", t.archived(f), err)
			}
		}
		return nil
	})
}

func (cfg DownloadConfig) clean(job *courier.Context) error {
	switch {
	case cfg.LocalPath == "":
		return cleanAttempts(job)
	case remote.IsLocalDirectory(job, cfg.LocalPath):
		return cleanDirectory(job, cfg.LocalPath, job.Cancelled())
	}
	if job.Cancelled() {
		if err := removePart(job, cfg.LocalPath); err != nil {
			return err
		}
	}
	return job.RemoveSideFiles(cfg.LocalPath)
}
