package sftpclient

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/pkg/sftp"
)

// The requests. Paths are sent as they are; an error is either a [*StatusError], with
// which the client lives on, or what the client has ended with, or the cause with which
// ctx ended.

// Realpath returns the absolute path that the server has for path.
func (c *Client) Realpath(ctx context.Context, path string) (string, error) {
	var name string
	err := c.do(ctx, &call{typ: fxpRealpath, path: path}, func() (err error) { name, err = c.sftp.RealPath(path); return err })
	if err != nil {
		return "", err // name may still be written to
	}
	return name, nil
}

// Stat returns what the server tells of a path. It follows links.
func (c *Client) Stat(ctx context.Context, path string) (Attrs, error) {
	return c.look(ctx, fxpStat, path)
}

// Lstat returns what the server tells of a path. It does not follow links.
func (c *Client) Lstat(ctx context.Context, path string) (Attrs, error) {
	return c.look(ctx, fxpLstat, path)
}

func (c *Client) look(ctx context.Context, typ byte, path string) (Attrs, error) {
	l := &look{call: &call{typ: typ, path: path}}
	err := c.do(ctx, l.call, func() error { return l.at(c) })
	return l.attrs(err)
}

// A look asks for attributes.
type look struct {
	*call
	info os.FileInfo
}

func (l *look) at(c *Client) (err error) {
	if l.typ == fxpLstat {
		l.info, err = c.sftp.Lstat(l.path)
	} else {
		l.info, err = c.sftp.Stat(l.path)
	}
	return err
}

// attrs returns what has come, unless there is an error.
func (l *look) attrs(err error) (Attrs, error) {
	if err != nil {
		return Attrs{}, err
	}
	return attrsOf(l.info, l.flags), nil
}

// attrsOf returns the attributes of a file, of which those with flags were sent.
func attrsOf(info os.FileInfo, flags uint32) Attrs {
	s := info.Sys().(*sftp.FileStat)
	return Attrs{Flags: flags, Size: s.Size, Mode: s.Mode, Mtime: s.Mtime}
}

// startLook begins to ask for the attributes of a path.
func (c *Client) startLook(ctx context.Context, typ byte, path string) (*look, error) {
	l := &look{call: &call{typ: typ, path: path}}
	return l, c.start(ctx, l.call, func() (int, error) { return 0, l.at(c) })
}

// wait waits for the attributes.
func (l *look) wait(ctx context.Context, c *Client) (Attrs, error) {
	return l.attrs(c.wait(ctx, l.call))
}

// A File is a file that is open on a channel.
type File struct {
	*Client
	file   *sftp.File
	handle string

	calls struct {
		sync.Mutex
		under []*call // that may be under way
	}
}

// Open opens a file with flags of package os.
func (c *Client) Open(ctx context.Context, path string, flags int) (*File, error) {
	f, cl := &File{Client: c}, &call{typ: fxpOpen, path: path}
	if err := c.do(ctx, cl, func() error { return f.open(path, flags) }); err != nil {
		return nil, err
	}
	f.handle = cl.file
	return f, nil
}

func (f *File) open(path string, flags int) (err error) {
	f.file, err = f.sftp.OpenFile(path, flags)
	return err
}

// read begins to read into data from off on.
func (f *File) read(ctx context.Context, data []byte, off int64) (*call, error) {
	cl := &call{typ: fxpRead, off: off, want: len(data), moved: make(chan struct{}, 1)}
	return cl, f.use(ctx, cl, func() (int, error) { return f.file.ReadAt(data, off) })
}

// gotOf is how many bytes of data have come for a call.
func (c *Client) gotOf(cl *call) int {
	c.guard.mu.Lock()
	defer c.guard.mu.Unlock()
	return cl.got
}

// write begins to write data at off. Data may be used again when it has returned without
// an error.
func (f *File) write(ctx context.Context, data []byte, off int64) (*call, error) {
	cl := &call{typ: fxpWrite, off: off}
	return cl, f.use(ctx, cl, func() (int, error) { return f.file.WriteAt(data, off) })
}

// use starts a call on an open file.
func (f *File) use(ctx context.Context, cl *call, run func() (int, error)) error {
	err := f.start(ctx, cl, run)
	f.calls.Lock()
	defer f.calls.Unlock()
	if len(f.calls.under) == cap(f.calls.under) {
		under := f.calls.under[:0]
		for _, c := range f.calls.under {
			select {
			case <-c.done:
			default:
				under = append(under, c)
			}
		}
		clear(f.calls.under[len(under):])
		f.calls.under = under
	}
	f.calls.under = append(f.calls.under, cl)
	return err
}

// startClose begins to close a file with which nothing is under way.
func (f *File) startClose(ctx context.Context) (*call, error) {
	cl := &call{typ: fxpClose}
	return cl, f.start(ctx, cl, func() (int, error) { return 0, f.file.Close() })
}

// errBusy ends a connection with requests that nobody waits for any more.
var errBusy = errors.New("abandoned requests were not answered in time; the connection is closed")

// Close closes a file whose content no longer matters, even if ctx has ended while the
// connection lives on. What is under way with it is waited for; if that does not end
// within 5 seconds, the connection is given up.
func (f *File) Close(ctx context.Context) {
	ctx, cancel := Detached(ctx)
	defer cancel()
	f.calls.Lock()
	under := f.calls.under
	f.calls.Unlock()
	for _, cl := range under {
		if cl.done == nil {
			continue // it was never begun
		}
		select {
		case <-cl.done:
		case <-f.dead:
			return
		case <-ctx.Done():
			f.fail(errBusy)
			return
		}
	}
	if cl, err := f.startClose(ctx); err == nil {
		f.wait(ctx, cl)
	}
}

// Remove deletes a file or a link.
func (c *Client) Remove(ctx context.Context, path string) error {
	return c.do(ctx, &call{typ: fxpRemove, path: path}, func() error { return c.sftp.Remove(path) })
}

// SetAttrs changes the permissions and times that a has, by a request for each.
func (c *Client) SetAttrs(ctx context.Context, path string, a Attrs) error {
	if a.Flags&AttrPermissions != 0 {
		if err := c.do(ctx, &call{typ: fxpSetstat, path: path}, func() error { return c.sftp.Chmod(path, os.FileMode(a.Mode)) }); err != nil {
			return err
		}
	}
	if a.Flags&AttrTimes == 0 {
		return nil
	}
	at := time.Unix(int64(a.Mtime), 0)
	return c.do(ctx, &call{typ: fxpSetstat, path: path}, func() error { return c.sftp.Chtimes(path, at, at) })
}

// Mkdir makes a directory with the server's default permissions.
func (c *Client) Mkdir(ctx context.Context, path string) error {
	return c.do(ctx, &call{typ: fxpMkdir, path: path}, func() error { return c.sftp.Mkdir(path) })
}

// Rmdir removes an empty directory.
func (c *Client) Rmdir(ctx context.Context, path string) error {
	return c.do(ctx, &call{typ: fxpRmdir, path: path}, func() error { return c.sftp.RemoveDirectory(path) })
}

// Rename is meant to fail if the new path exists; not all servers comply.
func (c *Client) Rename(ctx context.Context, oldpath, newpath string) error {
	cl, err := c.startRename(ctx, oldpath, newpath, false)
	if err == nil {
		err = c.wait(ctx, cl)
	}
	return err
}

// CanReplace reports whether the server offers that a renaming replaces a file.
func (c *Client) CanReplace() bool { return c.offers(extPosixRename) }

// canSync reports whether the server offers fsync.
func (c *Client) canSync() bool { return c.offers(extFsync) }

func (c *Client) offers(extension string) bool {
	version, _ := c.sftp.HasExtension(extension)
	return version == "1"
}

func (c *Client) startRename(ctx context.Context, from, to string, replace bool) (*call, error) {
	cl := &call{typ: fxpRename, path: from}
	rename := c.sftp.Rename
	if replace {
		cl.typ, rename = fxpExtended, c.sftp.PosixRename
	}
	return cl, c.start(ctx, cl, func() (int, error) { return 0, rename(from, to) })
}

// RenameAndStat renames, and looks if the old name is gone, in one round trip. With
// replace, an existing file with the new path is replaced atomically, where
// canReplace is true.
func (c *Client) RenameAndStat(ctx context.Context, from, to string, replace bool) (gone bool, err error) {
	cl, err := c.startRename(ctx, from, to, replace)
	if err != nil {
		return false, err
	}
	l, failed := c.startLook(ctx, fxpLstat, from)
	if err := c.wait(ctx, cl); err != nil {
		return false, err
	}
	if failed != nil {
		return false, failed
	}
	_, err = l.wait(ctx, c)
	return errors.Is(err, fs.ErrNotExist), nil
}
