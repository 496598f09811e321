package depot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/safename"
)

// DirOptions are the options of [Dir]. The zero value is the default.
type DirOptions struct {
	// Most is the maximum number of bytes on the disk that the files of the depot may take,
	// including pending ones; 0 means that only the disk limits them. A file counts with its
	// content and its description, rounded up to blocks of 4 KiB, plus 512 bytes for its inode
	// and its name. The directories for the inputs and for the results of an execution count 8
	// KiB each. The marks of [RemovedKey] do not count. All processes on the directory must have
	// the same Most. Together they never exceed it if the file system has locks (flock, or
	// LockFileEx) that work between their hosts. Otherwise each process sees the writes of the
	// others after at most a minute.
	Most int64
	// ForResults is the number of bytes of Most that inputs cannot use, so that executions can
	// store their results despite any number of uploads. 0 means a quarter, and a negative number
	// nothing.
	ForResults int64
}

// A Directory is a [Depot] in a directory. [Dir] opens one. Several processes may use it at the
// same time, also on several hosts that share the directory.
//
// Below the directory, files/<execution>/in and files/<execution>/out have a file for each key.
// Its name is a hash of the key and, for people, the end of the key. The file has the content and
// then its [Info] as JSON, so that one rename publishes both. Names from outside never become
// file names. Files that are being written are in the directory pending. Each process has a
// locked file there. When a process has died, any other process removes its files, at its next
// retention run, or before it reports that the depot is full. On a file system without locks they
// are removed a day after they were last written to. The directory stores has an empty file for
// each store whose retention uses the depot. The name of the file is the id of the store.
type Directory struct {
	root  *os.Root
	table table
	// before is called before each operation that changes the directory. Tests use it to make
	// operations fail. It is nil otherwise.
	before func(op, name string) error

	stores stores

	mu     sync.Mutex
	synced map[string]bool // directories whose names are durable
}

var (
	_ Depot           = (*Directory)(nil)
	_ ExecutionLister = (*Directory)(nil)
)

const (
	filesDir   = "files"
	pendingDir = "pending"
)

// Dir opens the depot in a directory, which it creates if it does not exist. Only the current
// user gets access to the directories and files that it creates. It removes the pending files of
// processes that have died. A nil opt means the defaults. Close frees the resources of the depot.
func Dir(dir string, opt *DirOptions) (*Directory, error) {
	if opt == nil {
		opt = &DirOptions{}
	}
	if dir == "" {
		return nil, courier.Errorf(courier.ErrInvalid, "depot: the directory is empty; give a path")
	}
	if opt.Most < 0 {
		return nil, courier.Errorf(courier.ErrInvalid, "depot %q: Most is %d bytes; give a positive number, or 0 for no limit", dir, opt.Most)
	}
	if opt.Most > 0 && opt.ForResults >= opt.Most {
		return nil, courier.Errorf(courier.ErrInvalid, "depot %q: ForResults is %d bytes, and Most %d, so that no input fits; give less, or 0 for a quarter", dir, opt.ForResults, opt.Most)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("depot: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("depot: %w", err)
	}
	d := &Directory{root: root, synced: make(map[string]bool)}
	d.table.most, d.table.results = opt.Most, max(opt.ForResults, 0)
	if opt.ForResults == 0 {
		d.table.results = opt.Most / 4
	}
	if err := d.prepare(); err != nil {
		d.Close()
		return nil, fmt.Errorf("depot %q: %w", dir, err)
	}
	return d, nil
}

// prepare makes the directories, removes files of dead processes, and counts the files.
func (d *Directory) prepare() error {
	for _, name := range []string{filesDir, pendingDir, storesDir} {
		if err := d.root.MkdirAll(name, 0o700); err != nil {
			return err
		}
	}
	if err := localfile.SyncDir(d.root, "."); err != nil {
		return err
	}
	if err := d.register(); err != nil {
		return err
	}
	return d.sweep()
}

// Close closes the depot. Open and pending files can no longer be used.
func (d *Directory) Close() error { return errors.Join(d.table.leave(d.root), d.root.Close()) }

// InputRoom returns the maximum number of bytes for inputs, according to [DirOptions]; 0 means
// that only the disk limits them.
func (d *Directory) InputRoom() int64 { return d.table.most - d.table.results }

// fault calls before, which may make an operation fail.
func (d *Directory) fault(op, name string) error {
	if d.before == nil {
		return nil
	}
	return d.before(op, name)
}

// Open implements [Depot].
func (d *Directory) Open(ctx context.Context, key string) (Object, error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	f, info, err := d.open(fileName(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, courier.Errorf(courier.ErrNotFound, "depot: there is no file %s", safename.Quote(key))
	}
	if err == nil && info.Key != key {
		f.Close()
		err = damaged("it belongs to %s", safename.Quote(info.Key))
	}
	if err != nil {
		return nil, fmt.Errorf("depot: file %s: %w", safename.Quote(key), err)
	}
	return NewObject(ctx, info, newContent(f, info)), nil
}

// open opens a file and reads its description.
func (d *Directory) open(name string) (*os.File, Info, error) {
	f, err := d.root.OpenFile(name, os.O_RDONLY|localfile.Nonblock, 0)
	if err != nil {
		return nil, Info{}, err
	}
	info, err := readInfo(f)
	if err != nil {
		f.Close()
		return nil, Info{}, err
	}
	return f, info, nil
}

// List implements [Depot].
func (d *Directory) List(ctx context.Context, prefix string) ([]Info, error) {
	if err := CheckPrefix(prefix); err != nil {
		return nil, err
	}
	var all []Info
	err := d.each(ctx, prefix, func(name string) error {
		f, info, err := d.open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err != nil {
			return fmt.Errorf("depot: file %q: %w", name, err)
		}
		if HasPrefix(info.Key, prefix) {
			all = append(all, info)
		}
		return f.Close()
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b Info) int { return strings.Compare(a.Key, b.Key) })
	return all, nil
}

// each calls visit with the names of the files that may match a prefix.
func (d *Directory) each(ctx context.Context, prefix string, visit func(name string) error) error {
	id, rest, _ := strings.Cut(strings.TrimSuffix(prefix, "/"), "/")
	executions := []courier.ExecutionID{courier.ExecutionID(id)}
	if id == "" {
		var err error
		if executions, err = d.Executions(ctx); err != nil {
			return err
		}
	}
	kind, name, _ := strings.Cut(rest, "/")
	if kind == inputs && name != "" { // nothing is below an input
		return visit(fileName(prefix))
	}
	for _, x := range executions {
		dir := path.Join(filesDir, string(x))
		for _, sub := range []string{inputs, results, removed} {
			if kind != "" && kind != sub {
				continue
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if sub == removed {
				if err := visit(fileName(RemovedKey(x))); err != nil {
					return err
				}
				continue
			}
			if err := d.eachIn(path.Join(dir, sub), visit); err != nil {
				return err
			}
		}
	}
	return nil
}

// eachIn calls visit with the names of the files in a directory.
func (d *Directory) eachIn(dir string, visit func(name string) error) error {
	entries, err := d.readDir(dir)
	for _, e := range entries {
		if err == nil && e.Type().IsRegular() {
			err = visit(path.Join(dir, e.Name()))
		}
	}
	return err
}

// readDir returns the entries of a directory; it returns none if the directory does not exist.
func (d *Directory) readDir(name string) ([]fs.DirEntry, error) {
	f, err := d.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("depot: %w", err)
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // removed since it was opened
	}
	if err != nil {
		return nil, fmt.Errorf("depot: directory %q: %w", name, err)
	}
	return entries, nil
}

// Executions implements [ExecutionLister].
func (d *Directory) Executions(ctx context.Context) ([]courier.ExecutionID, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	entries, err := d.readDir(filesDir)
	if err != nil {
		return nil, err
	}
	var all []courier.ExecutionID
	for _, e := range entries {
		if e.IsDir() && checkExecution(e.Name()) == nil {
			all = append(all, courier.ExecutionID(e.Name()))
		}
	}
	slices.Sort(all)
	return all, nil
}

// makeDir makes a directory below files for a pending file, and makes its name and the names of
// its parents durable. The pending file has reserved the room that the directory counts.
func (d *Directory) makeDir(p *pending, dir string) error {
	d.mu.Lock()
	known := d.synced[dir]
	d.mu.Unlock()
	if known {
		if _, err := d.root.Stat(dir); err == nil {
			return nil
		}
	}
	if err := d.fault("mkdir", dir); err != nil {
		return err
	}
	err := d.change(func(l *ledger) error {
		_, gone := d.root.Lstat(dir)
		err := d.root.MkdirAll(filepath.FromSlash(dir), 0o700)
		if errors.Is(err, fs.ErrExist) { // it was made and removed by others in between
			if _, gone := d.root.Lstat(dir); gone != nil {
				return gone
			}
			err = d.root.MkdirAll(filepath.FromSlash(dir), 0o700)
		}
		if err == nil && gone != nil && path.Dir(dir) != filesDir { // that of a mark does not count
			l.Committed += dirBytes
			d.release(l, p, min(dirBytes, p.held))
		}
		return err
	})
	if err != nil {
		return err
	}
	// Another process may have made it, and not yet synced it.
	for above := path.Dir(dir); above != "."; above = path.Dir(above) {
		if err := d.syncDir(above); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	const most = 10_000
	if len(d.synced) >= most {
		clear(d.synced)
	}
	d.synced[dir] = true
	return nil
}

func (d *Directory) syncDir(dir string) error {
	if err := d.fault("syncdir", dir); err != nil {
		return err
	}
	return localfile.SyncDir(d.root, dir)
}

// syncNames makes the changes of a directory durable. If the directory no longer exists, another
// process has removed it, and nothing needs to be durable.
func (d *Directory) syncNames(dir string) error {
	if err := d.syncDir(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
