package file

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/courierhq/courier/internal/filesync"
	"github.com/courierhq/courier/internal/transfer"
)

// An unpacker makes the files and directories of an archive below root.
type unpacker struct {
	*extraction
	root   *os.Root
	name   string          // of the archive
	made   map[string]bool // directories
	dir    string          // the last directory that something was made in, if it was not root
	open   *os.Root        // that directory
	done   int64           // bytes
	synced int64           // bytes
	guard  *transfer.Guard
	disk   context.Context // that guard ends
}

// mkdir makes a directory below root, with those above it.
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
	if err := in.Mkdir(path.Base(dir), u.perm(0o777)); err != nil {
		return err
	}
	u.made[dir] = true
	u.note.Dirs = append(u.note.Dirs, dir)
	return nil
}

// enter returns a directory that was made. It keeps the last one open: to go
// through all that are above it takes as many calls of the system as there are,
// for each of thousands of files.
func (u *unpacker) enter(dir string) (*os.Root, error) {
	from, rel := u.root, dir
	switch {
	case dir == ".":
		return u.root, nil
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

// leave closes what enter keeps open.
func (u *unpacker) leave() {
	if u.open != nil {
		u.open.Close()
		u.open = nil
	}
}

// file makes a file of exactly size bytes. However many r gives, no more than
// one byte beyond them is taken. A nil report means none; sum, which may be
// nil too, is given the content.
func (u *unpacker) file(ctx context.Context, f unpacked, modified time.Time, r io.Reader, sum io.Writer, report func()) error {
	if err := u.mkdir(path.Dir(f.Name)); err != nil {
		return err
	}
	in, err := u.enter(path.Dir(f.Name))
	if err != nil {
		return err
	}
	base := path.Base(f.Name)
	w, err := in.OpenFile(base, os.O_WRONLY|os.O_CREATE|os.O_EXCL, u.perm(0o666))
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
		if err := setModified(in, base, modified); err != nil {
			return err
		}
	}
	if err := w.Sync(); err != nil {
		return err
	}
	u.note.Files = append(u.note.Files, f)
	return w.Close()
}

func (u *unpacker) content(ctx context.Context, size int64, w *os.File, r io.Reader, sum io.Writer, report func()) error {
	to := io.Writer(w)
	if sum != nil {
		to = io.MultiWriter(w, sum)
	}
	r = io.LimitReader(r, size+1)
	if size >= aheadFrom {
		a := readAhead(r)
		defer a.stop()
		r = a
	}
	var syncErr error
	before, begun := u.done, int64(0)
	n, err := transfer.Copy(u.disk, to, r, func(done int64) {
		u.guard.At(before + done)
		if u.done = before + done; done/transfer.WriteBehind != begun {
			begun = done / transfer.WriteBehind
			filesync.StartWriting(w)
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
		return fmt.Errorf("%w: %d bytes instead of %d", errDamaged, n, size)
	}
	return nil
}
