package depot

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier"
)

// A usage counts the bytes of the files in a [Directory].
type usage struct {
	most int64 // 0: no limit

	// change is held while a file gets or loses its name, and while files are counted,
	// so that each is counted once.
	change sync.Mutex

	mu        sync.Mutex
	committed int64
	others    int64           // what other processes are writing, or have left
	held      int64           // reserved for pending files of this process
	own       map[string]bool // names of pending files of this process
	counted   time.Time       // when files were counted last
}

// begin notes a pending file of this process.
func (u *usage) begin(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.own == nil {
		u.own = make(map[string]bool)
	}
	u.own[name] = true
}

// end says that a pending file is gone, or committed, for which held bytes were reserved.
func (u *usage) end(name string, held int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.own, name)
	u.held -= held
}

// reserve makes room for n bytes of a pending file.
func (u *usage) reserve(n int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if taken := u.committed + u.others + u.held; u.most > 0 && n > u.most-taken {
		return full("the depot has %d of at most %d bytes, and %d more do not fit; remove files, shorten the retention, or raise Most in depot.DirOptions", taken, u.most, n)
	}
	u.held += n
	return nil
}

// add changes the count of committed bytes.
func (u *usage) add(n int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.committed += n
}

// set takes what was counted.
func (u *usage) set(committed, others int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.committed, u.others = committed, others
}

// stale reports whether the last count is older than age, and if so takes note of a new
// one. Where the clock has been put back, it is too.
func (u *usage) stale(age time.Duration) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if since := time.Since(u.counted); u.most == 0 || 0 <= since && since < age {
		return false
	}
	u.counted = time.Now()
	return true
}

func (u *usage) owns(name string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.own[name]
}

// recount counts the files if that was not done for the given time: other processes may
// have written or removed some. Without a limit it does nothing.
func (d *Directory) recount(age time.Duration) error {
	if err := d.count(age); err != nil {
		return fmt.Errorf("depot: %w", err)
	}
	return nil
}

func (d *Directory) count(age time.Duration) error {
	if !d.usage.stale(age) {
		return nil
	}
	d.usage.change.Lock()
	defer d.usage.change.Unlock()
	var committed, others int64
	sizes, err := d.sizes(context.Background())
	if err != nil {
		return err
	}
	for _, n := range sizes {
		committed += n
	}
	entries, err := d.readDir(pendingDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(pendingDir, e.Name())
		switch {
		case d.usage.owns(e.Name()):
		case e.IsDir():
			n, err := d.size(name)
			if err != nil {
				return err
			}
			committed += n // what Remove has begun to remove
		default:
			if info, err := e.Info(); err == nil {
				others += info.Size()
			}
		}
	}
	d.usage.set(committed, others)
	return nil
}

// sizes returns how many bytes the inputs and results of each execution have on the disk.
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

// size is that of the files in a directory.
func (d *Directory) size(dir string) (n int64, err error) {
	entries, err := d.readDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
	}
	return n, err
}

// replace gives a pending file its final name, and counts it as committed.
func (d *Directory) replace(name, final string, held int64) error {
	d.usage.change.Lock()
	defer d.usage.change.Unlock()
	var old int64
	if info, err := d.root.Lstat(final); err == nil && held > 0 {
		old = info.Size()
	}
	if err := d.fault("rename", final); err != nil {
		return err
	}
	if err := d.root.Rename(name, final); err != nil {
		return err
	}
	d.usage.end(path.Base(name), held)
	d.usage.add(held - old)
	return nil
}

// forget says that a directory may be gone.
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

// syncGone removes the directory of an execution if it is empty, and makes durable what
// was removed from it.
func (d *Directory) syncGone(dir string) error {
	if err := d.fault("remove", dir); err != nil {
		return err
	}
	for _, sub := range []string{inputs, results} {
		// They fail if something is in them, or nothing was there.
		_ = d.root.Remove(path.Join(dir, sub))
		d.forget(path.Join(dir, sub))
	}
	_ = d.root.Remove(dir)
	d.forget(dir)
	err := d.syncDir(dir)
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

// removeFile removes a file, if it is there.
func (d *Directory) removeFile(name string) error {
	if err := d.fault("remove", name); err != nil {
		return err
	}
	d.usage.change.Lock()
	defer d.usage.change.Unlock()
	info, err := d.root.Lstat(name)
	if err == nil {
		err = d.root.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && path.Dir(path.Dir(name)) != filesDir { // marks do not count
		d.usage.add(-info.Size())
	}
	return err
}

// trashMark begins the names of directories that Remove has taken away at once, and
// whose files it removes then.
const trashMark = "removed-"

// removeDir removes a directory with the files in it. They disappear at once, by a
// rename, where the system allows that: Windows does not if one of them is open.
func (d *Directory) removeDir(ctx context.Context, dir string) error {
	if _, err := d.root.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := d.fault("rename", dir); err != nil {
		return err
	}
	trash := path.Join(pendingDir, trashMark+rand.Text())
	d.usage.change.Lock()
	err := d.root.Rename(dir, trash)
	d.usage.change.Unlock()
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
	return d.root.RemoveAll(dir) // with what is no file of the depot
}

// pendingAge is after what time without a write a pending file counts as left by a
// process that died.
const pendingAge = 24 * time.Hour

// sweep removes what processes that died have left in the directory pending.
func (d *Directory) sweep() error {
	entries, err := d.readDir(pendingDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(pendingDir, e.Name())
		if e.IsDir() && strings.HasPrefix(e.Name(), trashMark) {
			err = errors.Join(err, d.empty(context.Background(), name))
			continue
		}
		info, e2 := e.Info()
		if e2 != nil || time.Since(info.ModTime()) < pendingAge || d.usage.owns(e.Name()) {
			continue
		}
		if e3 := d.root.Remove(name); e3 != nil && !errors.Is(e3, fs.ErrNotExist) {
			err = errors.Join(err, e3)
		}
	}
	return err
}
