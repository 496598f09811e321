package synced

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A disk is what can be said of a file system after a power cut: a file's
// content survives if the file was synced after it was last written, a name if
// its directory was synced after the name was made. Files and directories go by
// their inodes.
type disk struct {
	now     int                // counts calls
	changed map[inode]int      // when a file's content or a directory's names last changed
	synced  map[inode]int      // when the last sync began that succeeded
	named   map[inode][]string // the names that renames have given
	faults  []string
}

type inode uint64

func newDisk() *disk {
	return &disk{changed: make(map[inode]int), synced: make(map[inode]int), named: make(map[inode][]string)}
}

// tick returns the time, which differs at each call.
func (d *disk) tick() int {
	d.now++
	return d.now
}

// change takes note that a file was written, or that a directory got a name.
func (d *disk) change(i inode) { d.changed[i] = d.tick() }

// sync takes note of a sync that began at the given time. What was written
// since then may have missed it.
func (d *disk) sync(i inode, began int) { d.synced[i] = max(d.synced[i], began) }

func (d *disk) durable(i inode) bool { return d.synced[i] >= d.changed[i] }

func (d *disk) fault(format string, args ...any) {
	d.faults = append(d.faults, fmt.Sprintf(format, args...))
}

// An object is a file or directory at the time of a call.
type object struct {
	inode inode
	path  string
}

// sideMark is in the names that files have while they are written, and in
// those of notes.
const sideMark = ".courier-tmp"

// rename takes note that the objects, a file or a directory with all that is in
// it, got the first one's path. Nothing unsynced may get a final name.
func (d *disk) rename(objects []object, into inode) {
	d.change(into)
	d.named[objects[0].inode] = append(d.named[objects[0].inode], objects[0].path)
	if strings.Contains(filepath.Base(objects[0].path), sideMark) {
		return
	}
	for _, o := range objects {
		if !d.durable(o.inode) {
			d.fault("%s got its final name before its content was synced", o.path)
		}
	}
}

// complete takes note that a step is about to be recorded as completed which
// reports a file. Above are the directories that lead to it, the nearest first.
func (d *disk) complete(file object, above []object) {
	if d.changed[file.inode] == 0 {
		d.fault("%s was not seen being written", file.path)
	}
	if !d.durable(file.inode) {
		d.fault("%s was not synced before the step completed", file.path)
	}
	renamed := slices.Contains(d.named[file.inode], file.path)
	for _, dir := range above {
		renamed = renamed || slices.Contains(d.named[dir.inode], dir.path)
		if !d.durable(dir.inode) {
			d.fault("%s was not synced before the step completed, so the way to %s may be lost", dir.path, file.path)
		}
	}
	if !renamed {
		d.fault("%s was written under its final name", file.path)
	}
}

// TestDisk gives the model the calls of a step that does it right, and of steps
// that make one mistake.
func TestDisk(t *testing.T) {
	const file, dir, top inode = 1, 2, 3
	final, side := object{file, "/w/a/out"}, object{file, "/w/a/out.courier-tmp-1"}
	above := []object{{dir, "/w/a"}, {top, "/w"}}
	calls := []struct {
		name string
		do   func(d *disk)
	}{
		{"make directory", func(d *disk) { d.change(top) }},
		{"create", func(d *disk) { d.change(dir) }},
		{"write", func(d *disk) { d.change(file) }},
		{"sync file", func(d *disk) { d.sync(file, d.tick()) }},
		{"rename", func(d *disk) { d.rename([]object{final}, dir) }},
		{"sync directory", func(d *disk) { d.sync(dir, d.tick()) }},
		{"sync top", func(d *disk) { d.sync(top, d.tick()) }},
	}
	try := func(order ...int) []string {
		d := newDisk()
		for _, i := range order {
			calls[i].do(d)
		}
		d.complete(final, above)
		return d.faults
	}
	if faults := try(0, 1, 2, 3, 4, 5, 6); len(faults) > 0 {
		t.Errorf("in order: %q", faults)
	}
	for name, order := range map[string][]int{
		"sync of the file left out":         {0, 1, 2, 4, 5, 6},
		"sync of the file after the rename": {0, 1, 2, 4, 3, 5, 6},
		"sync of the file before the write": {0, 1, 3, 2, 4, 5, 6},
		"written again":                     {0, 1, 2, 3, 2, 4, 5, 6},
		"no rename":                         {0, 1, 2, 3, 5, 6},
		"directory left out":                {0, 1, 2, 3, 4, 6},
		"directory before the rename":       {0, 1, 2, 3, 5, 4, 6},
		"directory above left out":          {0, 1, 2, 3, 4, 5},
		"nothing written":                   {0, 1, 3, 4, 5, 6},
	} {
		if len(try(order...)) == 0 {
			t.Errorf("%s: no fault", name)
		}
	}
	d := newDisk()
	d.change(file)
	if d.rename([]object{side}, dir); len(d.faults) > 0 {
		t.Errorf("a side file may be renamed: %q", d.faults)
	}
	began := d.tick()
	d.change(file)
	if d.sync(file, began); d.durable(file) {
		t.Error("what was written during a sync counts as synced")
	}
}
