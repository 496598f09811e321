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

// The requests. Paths are sent unchanged. An error is a [*StatusError], after which the client
// can still be used, or the error that has ended the client, or the cause of ctx.

// Realpath returns the server's absolute path for path.
func (c *Client) Realpath(ctx context.Context, path string) (string, error) {
	var name string
	err := c.do(ctx, &call{typ: fxpRealpath, path: path}, func() (err error) { name, err = c.sftp.RealPath(path); return err })
	if err != nil {
		return "", err // name may still be written to
	}
	return name, nil
}

// Stat returns the attributes of a path. It follows links.
func (c *Client) Stat(ctx context.Context, path string) (Attrs, error) {
	return c.look(ctx, fxpStat, path)
}

// Lstat returns the attributes of a path. It does not follow links.
func (c *Client) Lstat(ctx context.Context, path string) (Attrs, error) {
	return c.look(ctx, fxpLstat, path)
}

func (c *Client) look(ctx context.Context, typ byte, path string) (Attrs, error) {
	l := &look{call: &call{typ: typ, path: path}}
	err := c.do(ctx, l.call, func() error { return l.at(c) })
	return l.attrs(err)
}

// A look is a request for attributes.
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

// attrs returns the received attributes, unless there is an error.
func (l *look) attrs(err error) (Attrs, error) {
	if err != nil {
		return Attrs{}, err
	}
	return attrsOf(l.info, l.flags), nil
}

// attrsOf returns the attributes of a file. Flags says which of them were sent.
func attrsOf(info os.FileInfo, flags uint32) Attrs {
	s := info.Sys().(*sftp.FileStat)
	return Attrs{Flags: flags, Size: s.Size, Mode: s.Mode, Mtime: s.Mtime}
}

// startLook starts to ask for the attributes of a path.
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

// Open opens a file with the flags of package os.
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

// read starts to read into data from off.
func (f *File) read(ctx context.Context, data []byte, off int64) (*call, error) {
	cl := &call{typ: fxpRead, off: off, want: len(data), moved: make(chan struct{}, 1)}
	return cl, f.use(ctx, cl, func() (int, error) { return f.file.ReadAt(data, off) })
}

// gotOf returns the number of bytes that have arrived for a call.
func (c *Client) gotOf(cl *call) int {
	c.guard.mu.Lock()
	defer c.guard.mu.Unlock()
	return cl.got
}

// write starts to write data at off. Data may be reused after it has returned without an error.
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

// startClose starts to close a file without requests in flight.
func (f *File) startClose(ctx context.Context) (*call, error) {
	cl := &call{typ: fxpClose}
	return cl, f.start(ctx, cl, func() (int, error) { return 0, f.file.Close() })
}

// errBusy ends a connection with abandoned requests.
var errBusy = errors.New("abandoned requests were not answered in time; the connection is closed")

// Close closes a file whose content no longer matters, even if ctx has ended, as long as the
// connection is open. It waits for the file's requests in flight; if they do not end within 5
// seconds, it ends the connection.
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

// SetAttrs changes the permissions and times that a contains, with one request for each.
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

// Rename fails if the new path exists, but not all servers comply with that.
func (c *Client) Rename(ctx context.Context, oldpath, newpath string) error {
	cl, err := c.startRename(ctx, oldpath, newpath, false)
	if err == nil {
		err = c.wait(ctx, cl)
	}
	return err
}

// CanReplace reports whether the server can replace a file by a rename.
func (c *Client) CanReplace() bool { return c.offers(extPosixRename) }

// canSync reports whether the server supports fsync.
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

// RenameAndStat renames, and checks whether the old name is gone, in one round trip. With
// replace, an existing file at the new path is replaced atomically, if CanReplace is true.
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
