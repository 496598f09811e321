package ftp

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"time"

	"github.com/courierhq/courier/internal/filesync"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
)

// A destination is a local file under construction. Close discards it, or keeps
// it for the next attempt, unless Commit has published it.
type destination interface {
	io.Writer
	io.ReaderAt
	Stat() (fs.FileInfo, error)
	Commit() error
	Close() error
}

// A partFile is a local file under construction that outlives an attempt that
// fails, so that the next goes on with it.
type partFile struct {
	*os.File
	job  *courier.Context
	root *os.Root
	name string // final name, as configured
	part string // present name below root
	rel  string // final name below root
	done bool
}

// begin returns the destination for f, and how much of it is there already.
func (cfg DownloadConfig) begin(job *courier.Context, f *remoteFile, now proof) (destination, int64, error) {
	if !cfg.keeps(now.Size) {
		w, err := job.Create(f.local)
		return w, 0, err
	}
	if err := job.MkdirAll(path.Dir(filepath.ToSlash(f.local))); err != nil {
		return nil, 0, err
	}
	root, rel, err := job.Root(f.local)
	if err != nil {
		return nil, 0, err
	}
	p := &partFile{job: job, root: root, name: f.local, rel: rel, part: filepath.Join(filepath.Dir(rel), partName(job, filepath.Base(rel)))}
	var then proof
	n := cfg.noteOn(job, f)
	known, err := n.read(&then)
	if err != nil {
		return nil, 0, err
	}
	if known && then.equal(now) && then.Boot != "" && then.Boot == now.Boot {
		if cfg.LocalPath == "" {
			p.adopt(f.Below)
		}
		if offset, err := p.reopen(now.Size); err == nil {
			return p, offset, nil
		}
	}
	if err := remote.IgnoreMissing(root.Remove(p.part)); err != nil {
		return nil, 0, err
	}
	if err := n.write(now); err != nil {
		return nil, 0, err
	}
	p.File, err = root.OpenFile(p.part, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	return p, 0, err
}

// noteOn returns the note about a file, which is the same for all attempts, also
// where each writes to a directory of its own.
func (cfg DownloadConfig) noteOn(job *courier.Context, f *remoteFile) slip {
	if cfg.LocalPath == "" {
		return noteOn(job, "below the attempt: "+f.Below)
	}
	return noteOn(job, f.local)
}

// adopt takes the part of an earlier attempt, which had a directory of its own, if
// there is one.
func (p *partFile) adopt(below string) {
	dir := p.job.Dir()
	if _, err := p.root.Lstat(p.part); err == nil || dir == "." {
		return
	}
	for n := p.job.Attempt() - 1; n >= 1; n-- {
		old := path.Join(path.Dir(dir), strconv.Itoa(n), path.Dir(below), filepath.Base(p.part))
		if p.root.Rename(filepath.FromSlash(old), p.part) == nil {
			return
		}
	}
}

// reopen opens the file at its end, which lies below size.
func (p *partFile) reopen(size int64) (int64, error) {
	info, err := p.root.Lstat(p.part)
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() || info.Size() > size {
		return 0, errors.New("is something else")
	}
	f, err := p.root.OpenFile(p.part, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	offset, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		f.Close()
		return 0, err
	}
	p.File = f
	return offset, nil
}

// restart empties the file.
func (p *partFile) restart() error {
	if err := p.Truncate(0); err != nil {
		return err
	}
	_, err := p.Seek(0, io.SeekStart)
	return err
}

// Commit makes the content durable and gives the file its final name.
func (p *partFile) Commit() error {
	err := p.Sync()
	if e := p.File.Close(); err == nil {
		err = e
	}
	p.done = true
	if err == nil {
		err = p.root.Rename(p.part, p.rel)
	}
	if err != nil {
		return err
	}
	for dir := filepath.Dir(p.rel); ; dir = filepath.Dir(dir) {
		if err := filesync.SyncDir(p.root, dir); err != nil {
			return err
		}
		if dir == "." {
			return p.job.Wrote(p.name)
		}
	}
}

// Close keeps the file for the next attempt, unless it is empty.
func (p *partFile) Close() error {
	if p.done {
		return nil
	}
	p.done = true
	info, err := p.Stat()
	err = errors.Join(err, p.File.Close())
	if err == nil && info.Size() == 0 {
		err = p.root.Remove(p.part)
	}
	return err
}

// discard removes the file, whose content is of no use.
func (p *partFile) discard() {
	p.Close()
	p.root.Remove(p.part)
}

// removePart removes what an attempt has left for the next.
func removePart(job *courier.Context, local string) error {
	root, rel, err := job.Root(local)
	if err != nil {
		return err
	}
	return remote.IgnoreMissing(root.Remove(filepath.Join(filepath.Dir(rel), partName(job, filepath.Base(rel)))))
}

// setTime gives the file that is being written the time it has on the server.
// Where that is impossible, it has the present time.
func setTime(job *courier.Context, name string, w destination, mtime time.Time) {
	if mtime.IsZero() {
		return
	}
	root, rel, err := job.Root(name)
	if err != nil {
		return
	}
	side := filepath.Join(filepath.Dir(rel), job.SideName(filepath.Base(rel)))
	if p, ok := w.(*partFile); ok {
		side = p.part
	}
	if err := root.Chtimes(side, mtime, mtime); err != nil {
		job.Log().Debug("the time of a file can't be set", "file", name, "error", err)
	}
}

// localIs reports whether there is a regular file of that size.
func localIs(job *courier.Context, name string, size int64) (fs.FileInfo, bool) {
	info, err := job.Stat(name)
	return info, err == nil && info.Mode().IsRegular() && info.Size() == size
}
