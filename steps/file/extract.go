package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/archive"
	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/internal/transfer"
)

// extract checks the archive and unpacks it into the side directory. When it
// returns, everything is durable, and the journal says so.
func (x *extraction) extract(ctx context.Context) (err error) {
	src, err := at(x.job, x.archive)
	if err != nil {
		return err
	}
	f, from, err := src.source(x.job)
	if err != nil {
		return err
	}
	defer f.Close()
	a, err := x.open(ctx, src.name, f)
	if err != nil {
		return err
	}
	if err := x.acceptable(a); err != nil {
		return err
	}
	if err := x.sweep(""); err != nil {
		return err
	}
	x.effect("make")
	if err := x.makeSide(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, localfile.Error(x.side.name, x.side.root.RemoveAll(x.side.rel)))
		}
	}()
	if err := x.fits(a, src.name); err != nil {
		return err
	}
	if err := x.fill(ctx, a, src.name); err != nil {
		return err
	}
	after, err := f.Stat()
	if err != nil {
		return localfile.Error(src.name, err)
	}
	if localfile.Identify(after) != localfile.Identify(from) {
		return fmt.Errorf("archive %q changed while it was being unpacked; nothing was unpacked", src.name)
	}
	return x.writeNote()
}

// acceptable refuses a destination to which nothing can be published, before
// the archive is unpacked.
func (x *extraction) acceptable(a archive.Archive) error {
	info, err := x.dst.root.Stat(x.dst.rel)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if there, err := x.dst.exists(); there || err != nil {
			return courier.Permanent(fmt.Errorf("output directory %q is a link that leads nowhere", x.dst.name))
		}
		return nil
	case err != nil:
		return localfile.Error(x.dst.name, err)
	case !info.IsDir():
		return courier.Permanent(fmt.Errorf("output directory %q is %s", x.dst.name, localfile.Kind(info.Mode())))
	case x.ifExists == Overwrite:
		return a.Check(x.roomAlong)
	}
	d, err := x.dst.openDir()
	if err != nil {
		return err
	}
	defer d.Close()
	names, err := d.Readdirnames(10)
	if err != nil && err != io.EOF {
		return localfile.Error(x.dst.name, err)
	}
	for _, name := range names {
		if _, base := sideOf(x.dst); x.dst.rel != "." || !stepcontext.Of(x.job).IsSideName(base, name) {
			return courier.Permanent(fmt.Errorf("output directory %q exists and is not empty; name another one, or set if_exists to overwrite", x.dst.name))
		}
	}
	return nil
}

// roomAlong calls room for an entry and the directories above it. It checks
// each directory once, however many entries are in it.
func (x *extraction) roomAlong(name string, dir bool) error {
	if x.there == nil {
		x.there = make(map[string]bool)
	}
	for i := 0; i < len(name); i++ {
		if name[i] != '/' {
			continue
		}
		there, known := x.there[name[:i]]
		if !known {
			var err error
			if there, err = x.room(name[:i], true); err != nil {
				return err
			}
			x.there[name[:i]] = there
		}
		if !there {
			return nil
		}
	}
	_, err := x.room(name, dir)
	return err
}

// room refuses to put a file in the place of a directory, or a directory in the
// place of a file, and to replace a file unless the configuration allows it. It
// reports whether name exists.
func (x *extraction) room(name string, dir bool) (bool, error) {
	to, err := x.dst.in(x.job, name)
	if err != nil {
		return false, err
	}
	info, err := to.look()
	switch {
	case err != nil || info == nil:
		return false, err
	case dir && info.IsDir():
		return true, nil
	case dir:
		return true, courier.Permanent(fmt.Errorf("%q is %s, but the archive has a directory of that name; nothing was published", to.name, localfile.Kind(info.Mode())))
	case !info.Mode().IsRegular():
		return true, courier.Permanent(fmt.Errorf("%q is %s, but the archive has a file of that name; nothing was published", to.name, localfile.Kind(info.Mode())))
	case x.ifExists != Overwrite:
		return true, courier.Permanent(fmt.Errorf("%q exists; set if_exists to overwrite to have it replaced", to.name))
	}
	return true, nil
}

// makeSide makes the side directory, empty.
func (x *extraction) makeSide() error {
	if err := x.job.Files().MkdirAll(filepath.Dir(x.side.name)); err != nil {
		return localfile.Error(x.dst.name, err)
	}
	return localfile.Error(x.side.name, x.side.root.Mkdir(x.side.rel, x.perm(0o777)))
}

// fits refuses an archive for which the disk has too little room, before the
// disk is full.
func (x *extraction) fits(a archive.Archive, name string) error {
	if free, ok := transfer.Room(x.side.root, x.side.rel); ok && uint64(a.Size()) > free {
		return fmt.Errorf("archive %q unpacks to %d bytes, but the file system of %q has only %d left; nothing was unpacked: make room, then try again", name, a.Size(), x.dst.name, free)
	}
	return nil
}

// perm protects the files in the workspace from other users of the machine.
// Elsewhere the umask of the process decides, as for every new file.
func (x *extraction) perm(mode fs.FileMode) fs.FileMode {
	if x.job.Files().StepDir() != "" && !filepath.IsAbs(x.dst.name) {
		return mode & 0o700
	}
	return mode
}

// fill unpacks all entries. Whatever their names are, they are unpacked only
// into the side directory.
func (x *extraction) fill(ctx context.Context, a archive.Archive, name string) error {
	root, err := x.side.root.OpenRoot(x.side.rel)
	if err != nil {
		return localfile.Error(x.side.name, err)
	}
	defer root.Close()
	to := archive.Directory{
		Root: root, Name: x.dst.name, DirMode: x.perm(0o777), FileMode: x.perm(0o666),
		Entry:    func() { x.effect("unpack") },
		Progress: func(done, total int64) { x.job.Progress(done, total, name) },
		Guard:    func(ctx context.Context) (context.Context, *transfer.Guard) { return x.limits.guard(ctx, x.side) },
	}
	if x.ifExists == Overwrite {
		to.Accept = x.roomAlong
	}
	got, err := a.Unpack(ctx, to)
	if err != nil {
		return err
	}
	x.note.Files, x.note.Dirs = got.Files, got.Dirs
	for i := len(x.note.Dirs) - 1; i >= 0; i-- {
		if err := localfile.SyncDir(root, filepath.FromSlash(x.note.Dirs[i])); err != nil {
			return localfile.Error(x.side.name, err)
		}
	}
	if err := localfile.SyncDir(root, "."); err != nil {
		return localfile.Error(x.side.name, err)
	}
	return make(dirSet).sync(x.side.root, x.side.dir())
}

// writeNote records the result of extract for later attempts.
func (x *extraction) writeNote() error {
	info, err := x.side.stat()
	if err != nil {
		return err
	}
	x.note.Archive, x.note.Output = x.archive, x.output
	x.note.Directory, x.note.Side, x.note.Inode = x.dst.name, x.side.name, localfile.Inode(info)
	x.note.Attempt = x.job.ExecutionAttempt()
	if x.former != nil {
		x.note.own(x.former)
	}
	x.effect("mark ready")
	return x.journal.start(x.note)
}

// own takes over the directory of a former note.
func (n *unzipNote) own(former *unzipNote) {
	n.Inode, n.Own = former.Inode, true
	have := make(map[string]bool, len(n.Files))
	for _, f := range n.Files {
		have[f.Name] = true
	}
	for _, f := range slices.Concat(former.Files, former.Stale) {
		if !have[f.Name] {
			n.Stale = append(n.Stale, f)
		}
	}
}

// publish moves the unpacked files to their final place.
func (x *extraction) publish() error {
	err := x.swap()
	if err != nil {
		return fmt.Errorf("publish %q: %w", x.dst.name, err)
	}
	x.effect("mark published")
	x.published = true
	if err := x.journal.add(publishedMark{true}, false); err != nil {
		return err
	}
	return nil
}

// removeSide removes the rest of the side directory after everything is
// published.
func (x *extraction) removeSide() error {
	x.effect("remove side")
	return localfile.Error(x.side.name, x.side.root.RemoveAll(x.side.rel))
}

// swap renames the side directory or its content.
func (x *extraction) swap() error {
	there, err := x.dst.exists()
	if err != nil {
		return err
	}
	if there {
		return x.merge()
	}
	x.effect("swap")
	if err := x.side.root.Rename(x.side.rel, x.dst.rel); err != nil {
		return localfile.Error(x.dst.name, err)
	}
	x.effect("sync")
	return make(dirSet).sync(x.dst.root, x.dst.dir())
}

// merge renames the files one by one into the existing directory. It renames
// nothing before it has checked all files for room; files that an earlier
// attempt has renamed stay.
func (x *extraction) merge() error {
	var left []place // files that are still to be renamed
	for _, dir := range x.note.Dirs {
		if _, err := x.room(dir, true); err != nil {
			return err
		}
	}
	for _, f := range x.note.Files {
		from, err := x.side.in(x.job, f.Name)
		if err != nil {
			return err
		}
		if info, err := from.look(); err != nil {
			return err
		} else if info == nil {
			continue
		}
		if _, err := x.room(f.Name, false); err != nil {
			return err
		}
		left = append(left, from)
	}
	for _, dir := range x.note.Dirs {
		to, err := x.dst.in(x.job, dir)
		if err != nil {
			return err
		}
		if err := to.root.Mkdir(to.rel, x.perm(0o777)); err != nil && !errors.Is(err, fs.ErrExist) {
			return localfile.Error(to.name, err)
		}
	}
	for _, from := range left {
		below := from.rel[len(x.side.rel):]
		to := place{root: from.root, rel: filepath.Join(x.dst.rel, below), name: filepath.Join(x.dst.name, below)}
		if err := stepcontext.Of(x.job).SetAside(to.name, from.name); err != nil {
			return err
		}
		x.effect("merge")
		x.job.Progress(0, -1, x.dst.name) // it is no progress, but no stall either
		if err := from.root.Rename(from.rel, to.rel); err != nil {
			return localfile.Error(from.name, err)
		}
	}
	return x.syncAll()
}

// syncAll makes the names of all files in their directories durable.
func (x *extraction) syncAll() error {
	x.effect("sync")
	synced := make(dirSet)
	for _, dir := range append([]string{"."}, x.note.Dirs...) {
		p, err := x.dst.in(x.job, dir)
		if err == nil {
			err = synced.sync(p.root, p.rel)
		}
		// Whoever the files are for may have taken them, and the directory.
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return localfile.Error(p.name, err)
		}
	}
	return nil
}
