package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/filesync"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
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

// A LocalIdentity tells a local file from another that has its name at another
// time, as far as size and time can.
type LocalIdentity struct {
	Size     int64 `json:"size"`
	Modified int64 `json:"modified"` // in nanoseconds since 1970
}

// Identify returns the identity of a local file.
func Identify(info fs.FileInfo) LocalIdentity {
	return LocalIdentity{info.Size(), info.ModTime().UnixNano()}
}

// Sum returns the SHA-256 of the local file. Item is what progress is reported
// on. It fails if the file isn't any more what it was, unless Was is zero.
func (f LocalFile) Sum(ctx context.Context, job *courier.Context, item string) (string, error) {
	src, err := job.Open(f.Local)
	if err != nil {
		return "", fmt.Errorf("local file: %w", err)
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return "", fmt.Errorf("local file: %w", err)
	}
	if Identify(info) != f.Was && f.Was != (LocalIdentity{}) {
		return "", fmt.Errorf("local file: %w", connerr.ErrChanged)
	}
	m := &Meter{Job: job, Item: item, Total: info.Size(), Done: info.Size()}
	return Sum(ctx, src, info.Size(), m.Beat)
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
		info, err := job.Stat(f.Local)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return false, err
		}
		if Identify(info) == was[f.Local] {
			continue
		}
		if remade, err := job.Remade(f.Local); remade || err != nil {
			return false, err
		}
	}
	return true, nil
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
	info, err := job.Stat(f.Local)
	gone := errors.Is(err, fs.ErrNotExist)
	to := JoinLocal(a.MoveTo, a.Name(f.Below, at))
	switch {
	case err != nil && !gone:
		return err
	case !gone && Identify(info) != f.Was:
		job.Log().Warn("a file has changed since it was uploaded; it stays", "file", f.Local)
		return nil
	case a.Action == AfterDelete:
		return errors.Join(job.HoldDeleted(f.Local), job.Remove(f.Local))
	case !gone:
		if err := job.HoldMoved(f.Local, to); err != nil {
			return err
		}
		if err := moveLocal(ctx, job, f.Local, to, info); err != nil {
			return err
		}
	}
	return errors.Join(job.Wrote(to), job.Removed(f.Local))
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
		return errors.Join(filesync.SyncDir(b, filepath.Dir(relB)), filesync.SyncDir(a, filepath.Dir(relA)))
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
