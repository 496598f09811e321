package courier

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/courierhq/courier/internal/errtext"
	"github.com/courierhq/courier/internal/localfile"
)

// A PendingFile is a file that is being written. Until Commit it has a temporary name in
// the directory of its final name, so that nobody ever sees an incomplete file under the
// final name.
//
//	w, err := job.Files().Create(cfg.Target)
//	if err != nil {
//		return out, err
//	}
//	defer w.Close() // discards, unless committed
//	if _, err := io.Copy(w, r); err != nil {
//		return out, err
//	}
//	return out, w.Commit()
type PendingFile struct {
	*os.File
	job  *Context
	root *os.Root
	name string // as the step gave it
	rel  string // final name below root
	side string // present name below root
	made string // directory below root in which Create made directories
	done bool

	written atomic.Int64 // bytes, by Write and WriteAt
}

// writeBehind is how much is written between two times that the kernel is told
// to begin writing it to the disk. Without that it waits for much more, and the
// sync at the end would have nearly all of the file to wait for.
const writeBehind = 8 << 20

// wrote counts what was written.
func (p *PendingFile) wrote(n int) {
	if now := p.written.Add(int64(n)); now/writeBehind != (now-int64(n))/writeBehind {
		localfile.StartWriting(p.File)
	}
}

// Create starts a file that Commit will publish as name, and makes the directories
// above it. It removes files that earlier attempts of the same step have left in the
// same directory for name.
func (files Files) Create(name string) (*PendingFile, error) {
	if err := files.job.before("create", name); err != nil {
		return nil, err
	}
	root, rel, err := files.job.targetOf(name)
	if err != nil {
		return nil, err
	}
	made, err := files.job.mkdirAll(root, filepath.Dir(rel))
	if err != nil {
		return nil, err
	}
	if err := files.job.removeSideFiles(name); err != nil {
		return nil, err
	}
	side := filepath.Join(filepath.Dir(rel), files.job.inside().SideName(filepath.Base(rel)))
	mode := fs.FileMode(0o666)
	if files.job.dirMode(root) == 0o700 {
		mode = 0o600
	}
	f, err := root.OpenFile(side, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, placed(root, err)
	}
	return &PendingFile{File: f, job: files.job, root: root, name: name, rel: rel, side: side, made: made}, nil
}

// targetOf is rootOf for a name that a file is to get.
func (c *Context) targetOf(name string) (root *os.Root, rel string, err error) {
	root, rel, err = c.rootOf(name)
	if err == nil && (rel == "." || strings.HasSuffix(name, "/")) {
		err = fmt.Errorf("path %q: is a directory, not a file name", errtext.Shorten(name, 200))
	}
	return root, rel, err
}

// mkdirAll creates the directory dir below root and those above it, and
// returns the lowest one that was there before.
func (c *Context) mkdirAll(root *os.Root, dir string) (above string, err error) {
	above = dir
	for above != "." {
		if _, err := root.Stat(above); err == nil {
			break
		}
		above = filepath.Dir(above)
	}
	if above == dir {
		return above, nil
	}
	return above, placed(root, root.MkdirAll(dir, c.dirMode(root)))
}

// Write writes like [os.File.Write].
func (p *PendingFile) Write(b []byte) (int, error) {
	if err := p.job.before("write", p.name); err != nil {
		return 0, err
	}
	n, err := p.File.Write(b)
	p.wrote(n)
	return n, err
}

// WriteAt writes like [os.File.WriteAt].
func (p *PendingFile) WriteAt(b []byte, off int64) (int, error) {
	if err := p.job.before("write", p.name); err != nil {
		return 0, err
	}
	n, err := p.File.WriteAt(b, off)
	p.wrote(n)
	return n, err
}

// WriteString writes like [os.File.WriteString].
func (p *PendingFile) WriteString(s string) (int, error) {
	if err := p.job.before("write", p.name); err != nil {
		return 0, err
	}
	return p.File.WriteString(s)
}

// ReadFrom copies like [os.File.ReadFrom].
func (p *PendingFile) ReadFrom(r io.Reader) (int64, error) {
	if p.job.cfg.OnFile != nil {
		return io.Copy(struct{ io.Writer }{p}, r) // each write is announced
	}
	return p.File.ReadFrom(r)
}

// Commit makes the content durable, renames the file to its final name,
// replacing what was there, and reports it by [Files.Wrote]. If the file may be the only
// copy of content that no step has delivered, the execution keeps it.
func (p *PendingFile) Commit() error {
	if p.done {
		return fmt.Errorf("%s: %w", p.name, os.ErrClosed)
	}
	err := p.job.before("sync", p.name)
	if err == nil {
		err = p.File.Sync()
	}
	if e := p.File.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = p.job.inside().SetAside(p.name, p.sideName())
	}
	if err == nil {
		err = p.job.before("rename", p.name)
	}
	if err == nil {
		err = placed(p.root, p.root.Rename(p.side, p.rel))
	}
	p.done = true
	if err != nil {
		return errors.Join(err, ignoreNotExist(p.root.Remove(p.side)))
	}
	if err := p.job.before("sync", path.Dir(filepath.ToSlash(p.name))); err != nil {
		return err
	}
	if err := syncAbove(p.root, p.rel, p.made); err != nil {
		return err
	}
	if err := p.job.Files().Wrote(p.name); err != nil {
		return err
	}
	at, err := p.job.Files().Path(p.name)
	if err != nil {
		return err
	}
	return p.job.madeFile(at)
}

// Close discards the file unless it was committed.
func (p *PendingFile) Close() error {
	if p.done {
		return nil
	}
	p.done = true
	return errors.Join(p.File.Close(), ignoreNotExist(p.root.Remove(p.side)))
}

// sideMark is what every side file has in its name, so that people and
// partners' patterns can tell it.
const sideMark = ".courier-tmp"

// maxName is the longest file name that common file systems take, in bytes.
const maxName = 255

// RemoveSideFiles removes the side files for name that attempts of this step, including
// this one, have left. A step's Cleanup calls it for its targets. It looks only into the
// directory of name. A target in [Files.Dir] is in another directory in each attempt.
func (files Files) RemoveSideFiles(name string) error {
	if err := files.job.before("sweep", name); err != nil {
		return err
	}
	return files.job.removeSideFiles(name)
}

func (c *Context) removeSideFiles(name string) error {
	if c.inside().StartNumber() == 1 && c.cfg.Workspace != "" && c.cfg.Execution != "" && !c.cfg.Cancelled {
		return c.removeOwnSide(name)
	}
	root, rel, err := c.rootOf(name)
	if err != nil {
		return err
	}
	if err := c.sweep(root, filepath.Dir(rel)); err != nil {
		return err
	}
	return c.removeOwnSide(name)
}

// sweep removes from the directory dir below root what earlier attempts of
// this step have left there under side names, whatever the final names. A
// directory is listed only once, for a step may write many files into it.
func (c *Context) sweep(root *os.Root, dir string) error {
	key := filepath.Join(root.Name(), dir)
	c.mu.Lock()
	swept := c.swept[key]
	c.mu.Unlock()
	if swept {
		return nil
	}
	d, err := root.OpenFile(dir, os.O_RDONLY|localfile.Nonblock, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	own := c.inside().sidePrefix("") + strconv.Itoa(c.inside().StartNumber())
	entries, err := d.ReadDir(-1)
	for _, e := range entries {
		name := e.Name()
		if i := strings.LastIndex(name, sideMark); i > 0 && c.inside().IsSideName(name[:i], name) && !strings.HasSuffix(name, own) && !e.IsDir() {
			err = errors.Join(err, ignoreNotExist(root.Remove(filepath.Join(dir, name))))
		}
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.swept == nil {
		c.swept = make(map[string]bool)
	}
	c.swept[key] = true
	return nil
}

// removeOwnSide removes what this attempt has left beside name; for the first
// attempt that is all there can be.
func (c *Context) removeOwnSide(name string) error {
	root, rel, err := c.rootOf(name)
	if err != nil {
		return err
	}
	return ignoreNotExist(root.Remove(filepath.Join(filepath.Dir(rel), c.inside().SideName(filepath.Base(rel)))))
}

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// syncAbove makes the name rel below root durable, and those of the directories above it up to
// made.
func syncAbove(root *os.Root, rel, made string) error {
	for dir := filepath.Dir(rel); ; dir = filepath.Dir(dir) {
		if err := localfile.SyncDir(root, dir); err != nil || dir == made || dir == "." {
			return err
		}
	}
}

// sideName is the present name of the file, in the form in which the step gave the final one.
func (p *PendingFile) sideName() string {
	return path.Join(path.Dir(filepath.ToSlash(p.name)), filepath.Base(p.side))
}
