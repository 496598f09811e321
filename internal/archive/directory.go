package archive

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/readahead"
	"github.com/courierhq/courier/internal/transfer"
)

// A Directory is the directory into which an archive is unpacked. Functions may be nil.
//
// When [Archive.Unpack] returns, files are durable, but not their names: the caller must make the
// directories durable.
type Directory struct {
	Root *os.Root // an empty directory; it stays open
	Name string   // its path, for errors

	DirMode, FileMode fs.FileMode // permissions, of which the process's mask takes some away

	// Accept is called for each entry that was not known to [Archive.Check], before the entry is
	// created. Its error ends the unpacking.
	Accept func(name string, dir bool) error
	// Entry is called before each entry.
	Entry func()
	// Progress reports the done and the total bytes, either of the archive or of its unpacked
	// content.
	Progress func(done, total int64)
	// Guard returns a context that ends when the disk has too little room, and the guard, which
	// gets the number of bytes written. Without a guard the disk may become full.
	Guard func(context.Context) (context.Context, *transfer.Guard)
}

const (
	readAheadSize = 256 << 10
	// readAheadFrom is the minimum size of a content for which reading ahead is worthwhile.
	readAheadFrom = 2 << 20
)

// An unpacker creates the files and directories of an archive in a [Directory].
type unpacker struct {
	Directory
	archive string // name of the archive
	got     Unpacked
	made    map[string]bool // directories
	dir     string          // the last directory that something was made in, if it was not Root
	open    *os.Root        // that directory
	done    int64           // bytes
	synced  int64           // bytes
	guard   *transfer.Guard
	disk    context.Context // that guard ends
}

// newUnpacker starts to unpack the archive called archive. The unpacker must be closed.
func newUnpacker(ctx context.Context, to Directory, archive string) *unpacker {
	u := &unpacker{Directory: to, archive: archive, made: map[string]bool{".": true}, disk: ctx}
	if to.Guard != nil {
		u.disk, u.guard = to.Guard(ctx)
	}
	return u
}

// Close closes the directory that the unpacker has opened.
func (u *unpacker) Close() {
	u.leave()
	if u.guard != nil {
		u.guard.End()
	}
}

// entry begins an entry.
func (u *unpacker) entry() {
	if u.Entry != nil {
		u.Entry()
	}
}

func (u *unpacker) progress(done, total int64) {
	if u.Progress != nil {
		u.Progress(done, total)
	}
}

// mkdir makes a directory below Root, with its parent directories.
func (u *unpacker) mkdir(dir string) error {
	if u.made[dir] {
		return nil
	}
	if err := u.mkdir(path.Dir(dir)); err != nil {
		return err
	}
	in, err := u.enter(path.Dir(dir))
	if err != nil {
		return err
	}
	if err := in.Mkdir(path.Base(dir), u.DirMode); err != nil {
		return err
	}
	u.made[dir] = true
	u.got.Dirs = append(u.got.Dirs, dir)
	return nil
}

// enter returns a directory that was made. It keeps the last directory open, since opening one
// takes a system call for each of its parents, for each of thousands of files.
func (u *unpacker) enter(dir string) (*os.Root, error) {
	from, rel := u.Root, dir
	switch {
	case dir == ".":
		return u.Root, nil
	case u.open != nil && dir == u.dir:
		return u.open, nil
	case u.open != nil && path.Dir(dir) == u.dir:
		from, rel = u.open, path.Base(dir)
	}
	open, err := from.OpenRoot(filepath.FromSlash(rel))
	if err != nil {
		return nil, err
	}
	u.leave()
	u.dir, u.open = dir, open
	return open, nil
}

// leave closes the directory that enter keeps open.
func (u *unpacker) leave() {
	if u.open != nil {
		u.open.Close()
		u.open = nil
	}
}

// file creates a file of exactly size bytes. Whatever r returns, it reads at most one byte more.
// A nil report means none. Sum, which may be nil too, gets the content.
func (u *unpacker) file(ctx context.Context, f File, modified time.Time, r io.Reader, sum io.Writer, report func()) error {
	if err := u.mkdir(path.Dir(f.Name)); err != nil {
		return err
	}
	in, err := u.enter(path.Dir(f.Name))
	if err != nil {
		return err
	}
	base := path.Base(f.Name)
	w, err := in.OpenFile(base, os.O_WRONLY|os.O_CREATE|os.O_EXCL, u.FileMode)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := u.content(ctx, f.Size, w, r, sum, report); err != nil {
		return err
	}
	if !modified.IsZero() {
		if now := time.Now(); modified.After(now) {
			modified = now
		} else if first := time.Unix(0, 0); modified.Before(first) {
			modified = first
		}
		if err := in.Chtimes(base, time.Time{}, modified); err != nil {
			return err
		}
	}
	if err := w.Sync(); err != nil {
		return err
	}
	u.got.Files = append(u.got.Files, f)
	return w.Close()
}

// content writes exactly size bytes from r to w.
func (u *unpacker) content(ctx context.Context, size int64, w *os.File, r io.Reader, sum io.Writer, report func()) error {
	to := io.Writer(w)
	if sum != nil {
		to = io.MultiWriter(w, sum)
	}
	r = io.LimitReader(r, size+1)
	if size >= readAheadFrom {
		a := readahead.New(r, readAheadSize)
		defer a.Close()
		r = a
	}
	var syncErr error
	before, begun := u.done, int64(0)
	n, err := transfer.Copy(u.disk, to, r, func(done int64) {
		u.guard.At(before + done)
		if u.done = before + done; done/transfer.WriteBehind != begun {
			begun = done / transfer.WriteBehind
			localfile.StartWriting(w)
		}
		if u.done-u.synced >= syncEvery && syncErr == nil {
			u.synced, syncErr = u.done, w.Sync()
		}
		if report != nil {
			report()
		}
	})
	switch {
	case err != nil:
		return err
	case syncErr != nil:
		return syncErr
	case n != size:
		return fmt.Errorf("%w: %d bytes instead of %d", ErrDamaged, n, size)
	}
	return nil
}
