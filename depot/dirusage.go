package depot

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/courierhq/courier"
)

// sizes returns the size on the disk of the inputs and results of each execution.
func (d *Directory) sizes(ctx context.Context) (map[courier.ExecutionID]int64, error) {
	executions, err := d.Executions(ctx)
	if err != nil {
		return nil, err
	}
	all := make(map[courier.ExecutionID]int64, len(executions))
	for _, x := range executions {
		for _, sub := range []string{inputs, results} {
			n, err := d.size(path.Join(filesDir, string(x), sub))
			if err != nil {
				return nil, err
			}
			all[x] += n
		}
	}
	return all, nil
}

// size returns the counted size of a directory and its files; 0 if it does not exist.
func (d *Directory) size(dir string) (n int64, err error) {
	entries, err := d.readDir(dir)
	if entries != nil {
		n = dirBytes
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			n += cost(info.Size())
		}
	}
	return n, err
}

// replace gives a pending file its final name, and counts it as committed.
func (d *Directory) replace(p *pending, final string) error {
	return d.change(func(l *ledger) error {
		var more int64
		if !isMark(p.key) {
			more = cost(p.size)
			if info, err := d.root.Lstat(final); err == nil {
				more -= cost(info.Size())
			}
		}
		if err := d.fault("rename", final); err != nil {
			return err
		}
		if err := d.root.Rename(p.name, final); err != nil {
			return err
		}
		l.Committed += more
		d.release(l, p, p.held)
		return nil
	})
}

// release releases n bytes of the room reserved for a pending file. Without a limit nothing is
// reserved, and nothing is locked.
func (d *Directory) release(l *ledger, p *pending, n int64) {
	if n == 0 {
		return
	}
	d.table.held -= n
	p.held -= n
	l.Held[d.table.writer] = d.table.held
}

// forget records that a directory may no longer exist.
func (d *Directory) forget(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.synced, dir)
}

// Remove implements [Depot].
func (d *Directory) Remove(ctx context.Context, prefix string) error {
	if err := CheckPrefix(prefix); err != nil {
		return err
	}
	id, rest, _ := strings.Cut(strings.TrimSuffix(prefix, "/"), "/")
	if id == "" {
		return errAll
	}
	dir := path.Join(filesDir, id)
	var err error
	switch rest {
	case "":
		// The mark goes last: as long as it is there, files are known to be removed.
		for _, sub := range []string{inputs, results} {
			err = errors.Join(err, d.removeDir(ctx, path.Join(dir, sub)))
		}
		if err == nil {
			err = d.removeFile(fileName(RemovedKey(courier.ExecutionID(id))))
		}
	case inputs, results:
		err = d.removeDir(ctx, path.Join(dir, rest))
	case removed:
		err = d.removeFile(fileName(prefix))
	default:
		err = d.removeSome(ctx, prefix)
	}
	if err == nil {
		err = d.syncGone(dir)
	}
	if err != nil {
		return fmt.Errorf("depot: remove %q: %w", prefix, err)
	}
	return nil
}

// removeEmpty removes the directories of an execution that contain no file, even if a file is
// added at the same time.
func (d *Directory) removeEmpty(x courier.ExecutionID) error {
	dir := path.Join(filesDir, string(x))
	if err := d.syncGone(dir); err != nil {
		return fmt.Errorf("depot: remove directory %q: %w", dir, err)
	}
	return nil
}

// syncGone removes the directory of an execution if it is empty, and makes the removals in it
// durable.
func (d *Directory) syncGone(dir string) error {
	if err := d.fault("remove", dir); err != nil {
		return err
	}
	err := d.change(func(l *ledger) error {
		for _, sub := range []string{inputs, results} {
			// It fails if something is in it, or nothing was there.
			if d.root.Remove(path.Join(dir, sub)) == nil {
				l.Committed -= dirBytes
			}
			d.forget(path.Join(dir, sub))
		}
		_ = d.root.Remove(dir)
		d.forget(dir)
		return nil
	})
	if err != nil {
		return err
	}
	err = d.syncDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = d.syncDir(filesDir)
	}
	return err
}

// removeSome removes the results below a prefix, or one file.
func (d *Directory) removeSome(ctx context.Context, prefix string) error {
	all, err := d.List(ctx, prefix)
	if err != nil {
		return err
	}
	var dir string
	for _, info := range all {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		name := fileName(info.Key)
		dir = path.Dir(name)
		if err := d.removeFile(name); err != nil {
			return err
		}
	}
	if dir == "" {
		return nil
	}
	return d.syncNames(dir)
}

// removeFile removes a file, if it exists.
func (d *Directory) removeFile(name string) error {
	if err := d.fault("remove", name); err != nil {
		return err
	}
	return d.change(func(l *ledger) error {
		info, err := d.root.Lstat(name)
		if err == nil {
			err = d.root.Remove(name)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && path.Dir(path.Dir(name)) != filesDir { // marks do not count
			l.Committed -= cost(info.Size())
		}
		return err
	})
}

// trashMark is the prefix of the names of directories that Remove has renamed, before it removes
// their files.
const trashMark = "removed-"

// removeDir removes a directory with its files. They disappear at once, by a rename, if the
// system allows that. Windows does not allow it if one of the files is open.
func (d *Directory) removeDir(ctx context.Context, dir string) error {
	if _, err := d.root.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := d.fault("rename", dir); err != nil {
		return err
	}
	trash := path.Join(pendingDir, trashMark+rand.Text())
	err := d.change(func(*ledger) error { return d.root.Rename(dir, trash) })
	d.forget(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		trash = dir
	} else if err := d.syncNames(path.Dir(dir)); err != nil {
		return err
	}
	return d.empty(ctx, trash)
}

// empty removes a directory and the files in it.
func (d *Directory) empty(ctx context.Context, dir string) error {
	err := d.eachIn(dir, func(name string) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return d.removeFile(name)
	})
	if err != nil {
		return err
	}
	return d.change(func(l *ledger) error {
		if _, err := d.root.Lstat(dir); err != nil {
			return nil // another process was first
		}
		err := d.root.RemoveAll(dir) // with what is no file of the depot
		if err == nil {
			l.Committed -= dirBytes
		}
		return err
	})
}

// pendingAge is the time without a write after which a pending file counts as a file of a dead
// process, if no lock can show that.
const pendingAge = 24 * time.Hour

// sweep removes the files of dead processes in the directory pending.
func (d *Directory) sweep() error {
	var err error
	if d.table.most > 0 {
		err = d.change(d.settle)
	} else {
		err = d.exclusively(func() error {
			_, err := d.bury(new(ledger))
			return err
		})
	}
	entries, e := d.readDir(pendingDir)
	if e != nil {
		return errors.Join(err, e)
	}
	for _, e := range entries {
		name := path.Join(pendingDir, e.Name())
		if e.IsDir() && strings.HasPrefix(e.Name(), trashMark) {
			err = errors.Join(err, d.empty(context.Background(), name))
			continue
		}
		info, e2 := e.Info()
		writer, _, isFile := strings.Cut(e.Name(), "-")
		if e2 != nil || time.Since(info.ModTime()) < pendingAge || writer == d.table.writer || isFile && d.table.file != nil || strings.HasSuffix(e.Name(), lockSuffix) {
			continue
		}
		if e3 := d.root.Remove(name); e3 != nil && !errors.Is(e3, fs.ErrNotExist) {
			err = errors.Join(err, e3)
		}
	}
	return err
}
