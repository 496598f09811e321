package synced

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// TestSyncedBeforeCompletion runs a pipeline of all steps that write local
// files and requires of each: content synced, then renamed, then the
// directories synced, then recorded as completed.
func TestSyncedBeforeCompletion(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	prepare(t, dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{t: t, dir: dir, disk: newDisk()}
	if err := trace(self, []string{childArg, dir}, w.look); err != nil {
		t.Fatal(err)
	}
	for _, fault := range w.disk.faults {
		t.Error(fault)
	}
	if len(w.done) != len(steps) {
		t.Errorf("%d of %d steps were seen to complete", len(w.done), len(steps))
	}
	for i, m := range w.done {
		if m.Step != i || len(m.Files) == 0 {
			t.Errorf("completed in place %d: %+v", i, m)
		}
	}
}

// A watcher tells a disk what the traced process does below a directory.
type watcher struct {
	t    *testing.T
	dir  string
	disk *disk
	done []mark
}

// copyFileRange is a number that package syscall does not have.
var copyFileRange = map[string]uint64{"amd64": 326, "arm64": 285}[runtime.GOARCH]

// The notes that look makes at the entry of a call.
type (
	syncing struct {
		inode inode
		began int
	}
	renaming struct{ path string }
	making   struct{ path string }
)

// look is called before and after each system call.
func (w *watcher) look(c *call) {
	switch c.number {
	case syscall.SYS_WRITE, syscall.SYS_PWRITE64, syscall.SYS_WRITEV, syscall.SYS_FTRUNCATE, syscall.SYS_SENDFILE, syscall.SYS_FALLOCATE:
		w.write(c, c.args[0])
	case syscall.SYS_SPLICE, copyFileRange:
		w.write(c, c.args[2])
	case syscall.SYS_FSYNC, syscall.SYS_FDATASYNC:
		if c.entry {
			if path := c.file(c.args[0]); w.below(path) {
				c.note = syncing{inodeOf(c.opened(c.args[0])), w.disk.tick()}
			}
		} else if n, ok := c.note.(syncing); ok && c.result == 0 {
			w.disk.sync(n.inode, n.began)
		}
	case syscall.SYS_RENAMEAT:
		if c.entry {
			c.note = renaming{filepath.Clean(c.path(c.args[2], c.args[3]))}
		} else if n, ok := c.note.(renaming); ok && c.result == 0 && w.below(n.path) {
			w.rename(n.path)
		}
	case syscall.SYS_MKDIRAT:
		w.make(c)
	case syscall.SYS_OPENAT:
		if c.args[2]&syscall.O_CREAT != 0 {
			w.make(c)
		}
	}
}

func (w *watcher) below(path string) bool { return strings.HasPrefix(path, w.dir+"/") }

// object describes what has a name. What has gone is a fault: nothing is
// removed that these tests look at.
func (w *watcher) object(path string) object {
	info, err := os.Lstat(path)
	if err != nil {
		w.t.Errorf("a file is gone while it is looked at: %v", err)
	}
	return object{inodeOf(info), path}
}

func inodeOf(info fs.FileInfo) inode {
	if info == nil {
		return 0
	}
	return inode(info.Sys().(*syscall.Stat_t).Ino)
}

// write takes note of new content, and of marks.
func (w *watcher) write(c *call, fd uint64) {
	path := c.file(fd)
	if !w.below(path) {
		return
	}
	if path != filepath.Join(w.dir, markName) {
		w.disk.change(inodeOf(c.opened(fd)))
		return
	}
	if !c.entry {
		return
	}
	var m mark
	if err := json.Unmarshal(c.memory(c.args[1], int(c.args[2])), &m); err != nil {
		w.t.Errorf("mark: %v", err)
		return
	}
	w.complete(m)
}

// make takes note of a new name.
func (w *watcher) make(c *call) {
	if c.entry {
		path := filepath.Clean(c.path(c.args[0], c.args[1]))
		if _, err := os.Lstat(path); w.below(path) && err != nil {
			c.note = making{path}
		}
	} else if n, ok := c.note.(making); ok && c.result >= 0 {
		w.disk.change(w.object(filepath.Dir(n.path)).inode)
	}
}

func (w *watcher) rename(path string) {
	objects := []object{w.object(path)}
	filepath.WalkDir(path, func(name string, _ fs.DirEntry, err error) error {
		if err == nil && name != path {
			objects = append(objects, w.object(name))
		}
		return nil
	})
	w.disk.rename(objects, w.object(filepath.Dir(path)).inode)
}

// complete checks what a step is about to be recorded with.
func (w *watcher) complete(m mark) {
	w.done = append(w.done, m)
	before := len(w.disk.faults)
	for _, path := range m.Files {
		var above []object
		for dir := filepath.Dir(path); w.below(dir); dir = filepath.Dir(dir) {
			above = append(above, w.object(dir))
		}
		file := w.object(path)
		if steps[m.Step] == moveInside {
			w.disk.change(file.inode)
			w.disk.sync(file.inode, w.disk.tick())
		}
		w.disk.complete(file, above)
	}
	for i := range w.disk.faults[before:] {
		w.disk.faults[before+i] = m.Type + ": " + w.disk.faults[before+i]
	}
}
