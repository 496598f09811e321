package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/parallel"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/internal/transfer"
)

// The values of after_transfer.
const (
	AfterKeep    = "keep"
	AfterDelete  = "delete"
	AfterMove    = "move"
	AfterArchive = "archive"
)

// An After says what happens to the sources when all are transferred.
type After struct {
	Action string // one of the values of after_transfer
	MoveTo string // the directory for AfterMove and AfterArchive
}

// Check reports what is wrong with a.
func (a After) Check() error {
	switch {
	case a.Moves() && a.MoveTo == "":
		return fmt.Errorf("move_to: is missing; after_transfer is %s, which needs a directory", a.Action)
	case !a.Moves() && a.MoveTo != "":
		return fmt.Errorf("move_to: is given, but after_transfer is %s, not move or archive", safename.Quote(a.Action))
	}
	return nil
}

// Moves reports whether sources get other names.
func (a After) Moves() bool { return a.Action == AfterMove || a.Action == AfterArchive }

// Name is what the source that is called below, a path relative to where the
// sources are, is called relative to MoveTo. At is when all was transferred;
// AfterArchive puts it into the name.
func (a After) Name(below string, at time.Time) string {
	if a.Action != AfterArchive {
		return below
	}
	dir, name := path.Split(below)
	suffix := path.Ext(name)
	if suffix == name { // a dot file
		suffix = ""
	}
	return dir + strings.TrimSuffix(name, suffix) + "-" + at.UTC().Format("20060102T150405.000000Z") + suffix
}

// Local does with local files what a says. What isn't what was uploaded any more
// stays, and so do files that were skipped. At is when all was uploaded, the
// same in all attempts.
func (a After) Local(ctx context.Context, job *courier.Context, files []LocalFile, at time.Time) error {
	for _, f := range files {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if f.Skipped || a.Action == AfterKeep {
			continue
		}
		if err := a.local(ctx, job, f, at); err != nil {
			return fmt.Errorf("%s local file %s: %w", a.Action, safename.Quote(f.Local), err)
		}
	}
	return nil
}

func (a After) local(ctx context.Context, job *courier.Context, f LocalFile, at time.Time) error {
	info, err := job.Files().Stat(f.Local)
	gone := errors.Is(err, fs.ErrNotExist)
	to := JoinLocal(a.MoveTo, a.Name(f.Below, at))
	switch {
	case err != nil && !gone:
		return err
	case !gone && Identify(info) != f.Was:
		job.Log().Warn("a file has changed since it was uploaded; it stays", "file", f.Local)
		return nil
	case a.Action == AfterDelete:
		// Files.Remove and Files.Move keep notes of their own. They leave a file that has come
		// since an earlier attempt of the job; this one was uploaded, so it goes.
		if err := stepcontext.Of(job).HoldDeleted(f.Local); err != nil {
			return err
		}
		return stepcontext.Of(job).Unlink(f.Local)
	case !gone:
		if err := stepcontext.Of(job).HoldMoved(f.Local, to); err != nil {
			return err
		}
		if err := job.Files().Replace(ctx, to, f.Local); err != nil {
			return err
		}
		return stepcontext.Of(job).Removed(f.Local)
	}
	return errors.Join(job.Files().Wrote(to), stepcontext.Of(job).Removed(f.Local))
}

// archived is where after_transfer puts a remote file.
func (t *downloading) archived(f remoteFile) string {
	return Join(TrimSlashes(t.cfg.MoveTo), t.cfg.after().Name(f.Below, t.at))
}

// after does with the sources what after_transfer says. What isn't what was
// downloaded any more stays.
func (t *downloading) after(ctx context.Context) error {
	return t.Use(ctx, func(s Server) error {
		if err := t.makeArchive(ctx, s); err != nil {
			return err
		}
		return parallel.Do(ctx, len(t.files), s.Traits().Requests, func(ctx context.Context, i int) error {
			return s.Fault(t.cfg.AfterTransfer, t.files[i].Remote, t.afterOne(ctx, s, &t.files[i]))
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
			if a, err := s.Stat(ctx, f.Remote); err == nil && a.Identity() != f.Was || errors.Is(err, fs.ErrNotExist) {
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
	if f.Skipped {
		return nil // nobody knows what the local file is
	}
	a, err := s.Stat(ctx, f.Remote)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return t.removeDone(ctx, s, f)
	case err != nil:
		return err
	case a.Identity() != f.Was:
		t.Job.Log().Warn("a file has changed since it was downloaded; it stays", "connection", t.ID, "file", f.Remote)
		return nil
	}
	if t.cfg.AfterTransfer == AfterDelete {
		err = removeGone(ctx, s, f.Remote)
	} else if to := t.archived(*f); path.Clean(to) == path.Clean(f.Remote) {
		return nil
	} else {
		move := renaming{
			account: t.Account, from: f.Remote, to: to, size: f.Size, ifExists: transfer.IfExistsOverwrite, what: "the downloaded file",
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
