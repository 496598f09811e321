package sftpclient

import (
	"context"
	"errors"
	"io/fs"
)

// The requests. Paths and handles are sent as they are; an error is either a
// *statusError, with which the client lives on, or what the client has ended
// with, or the cause with which ctx ended.

func pathPacket(typ byte, path string) packet { return newPacket(typ, len(path)+16).string(path) }

// Realpath returns the absolute path that the server has for path.
func (c *Client) Realpath(ctx context.Context, path string) (string, error) {
	s, err := c.do(ctx, pathPacket(fxpRealpath, path), fxpName)
	if err != nil {
		return "", err
	}
	if n := s.uint32(); n != 1 {
		return "", c.broken("it answers with several names where one was asked for")
	}
	name := s.string()
	if s.bad || name == "" {
		return "", c.broken("it answers without the name that was asked for")
	}
	return name, nil
}

// Stat returns what the server tells of a path. It follows links.
func (c *Client) Stat(ctx context.Context, path string) (Attrs, error) {
	return c.attrs(ctx, pathPacket(fxpStat, path))
}

// Lstat returns what the server tells of a path. It does not follow links.
func (c *Client) Lstat(ctx context.Context, path string) (Attrs, error) {
	return c.attrs(ctx, pathPacket(fxpLstat, path))
}

func (c *Client) attrs(ctx context.Context, p packet) (Attrs, error) {
	s, err := c.do(ctx, p, fxpAttrs)
	if err != nil {
		return Attrs{}, err
	}
	return c.scanAttrs(s)
}

// attrsOf is the answer to a request for attributes that was sent.
func (c *Client) attrsOf(ctx context.Context, cl *call) (Attrs, error) {
	s, err := c.expect(ctx, cl, fxpAttrs)
	if err != nil {
		return Attrs{}, err
	}
	return c.scanAttrs(s)
}

func (c *Client) scanAttrs(s *scanner) (Attrs, error) {
	a := s.attrs()
	if s.bad {
		return Attrs{}, c.broken("the attributes of a file are damaged")
	}
	return a, nil
}

// Open opens a file with the flags of the protocol and returns its handle.
func (c *Client) Open(ctx context.Context, path string, flags uint32) (string, error) {
	return c.handle(ctx, openPacket(path, flags))
}

func openPacket(path string, flags uint32) packet {
	return pathPacket(fxpOpen, path).uint32(flags).uint32(0) // no attributes: the server's defaults
}

func (c *Client) opendir(ctx context.Context, path string) (string, error) {
	return c.handle(ctx, pathPacket(fxpOpendir, path))
}

func (c *Client) handle(ctx context.Context, p packet) (string, error) {
	s, err := c.do(ctx, p, fxpHandle)
	if err != nil {
		return "", err
	}
	return c.scanHandle(s)
}

// handleOf is the answer to a request for a handle that was sent.
func (c *Client) handleOf(ctx context.Context, cl *call) (string, error) {
	s, err := c.expect(ctx, cl, fxpHandle)
	if err != nil {
		return "", err
	}
	return c.scanHandle(s)
}

func (c *Client) scanHandle(s *scanner) (string, error) {
	h := s.string()
	if s.bad || len(h) > 256 {
		return "", c.broken("the handle of a file is damaged")
	}
	return h, nil
}

func (c *Client) close(ctx context.Context, handle string) error {
	_, err := c.do(ctx, pathPacket(fxpClose, handle), fxpStatus)
	return err
}

// readdir returns the next entries of a directory and how many bytes they
// took. At the end its error is the status for that.
func (c *Client) readdir(ctx context.Context, handle string) ([]Entry, int, error) {
	s, err := c.do(ctx, pathPacket(fxpReaddir, handle), fxpName)
	if err != nil {
		return nil, 0, err
	}
	size := len(s.rest)
	var entries []Entry
	for range s.uint32() {
		e := s.entry()
		if s.bad {
			return nil, 0, c.broken("a listing is damaged")
		}
		entries = append(entries, e)
	}
	return entries, size, nil
}

// Remove deletes a file or a link.
func (c *Client) Remove(ctx context.Context, path string) error {
	_, err := c.do(ctx, pathPacket(fxpRemove, path), fxpStatus)
	return err
}

// SetAttrs changes the permissions and times that a has.
func (c *Client) SetAttrs(ctx context.Context, path string, a Attrs) error {
	p := pathPacket(fxpSetstat, path).uint32(a.Flags & (AttrPermissions | AttrTimes))
	if a.Flags&AttrPermissions != 0 {
		p = p.uint32(a.Mode)
	}
	if a.Flags&AttrTimes != 0 {
		p = p.uint32(a.Mtime).uint32(a.Mtime)
	}
	_, err := c.do(ctx, p, fxpStatus)
	return err
}

// Mkdir makes a directory with the server's default permissions.
func (c *Client) Mkdir(ctx context.Context, path string) error {
	_, err := c.do(ctx, pathPacket(fxpMkdir, path).uint32(0), fxpStatus)
	return err
}

// Rmdir removes an empty directory.
func (c *Client) Rmdir(ctx context.Context, path string) error {
	_, err := c.do(ctx, pathPacket(fxpRmdir, path), fxpStatus)
	return err
}

// Rename is meant to fail if the new path exists; not all servers comply.
func (c *Client) Rename(ctx context.Context, oldpath, newpath string) error {
	_, err := c.do(ctx, renamePacket(oldpath, newpath), fxpStatus)
	return err
}

func renamePacket(oldpath, newpath string) packet {
	return pathPacket(fxpRename, oldpath).string(newpath)
}

// CanReplace reports whether the server offers that a renaming replaces a file.
func (c *Client) CanReplace() bool { return c.ext[extPosixRename] == "1" }

// replacePacket renames and atomically replaces what has the new path.
func replacePacket(oldpath, newpath string) packet {
	return pathPacket(fxpExtended, extPosixRename).string(oldpath).string(newpath)
}

// canSync reports whether the server offers fsync.
func (c *Client) canSync() bool { return c.ext[extFsync] == "1" }

// syncPacket makes what was written durable, where the server offers that.
func syncPacket(handle string) packet { return pathPacket(fxpExtended, extFsync).string(handle) }

// unlessUnsupported forgives a server that has advertised what it doesn't do.
func unlessUnsupported(err error) error {
	if s, ok := err.(*StatusError); ok && s.Code == StatusUnsupported {
		return nil
	}
	return err
}

func readPacket(handle string, off int64, n int) packet {
	return newPacket(fxpRead, len(handle)+16).string(handle).uint64(uint64(off)).uint32(uint32(n))
}

// RenameAndStat renames, and looks if the old name is gone, in one round trip. With
// replace, an existing file with the new path is replaced atomically, where
// canReplace is true.
func (c *Client) RenameAndStat(ctx context.Context, from, to string, replace bool) (gone bool, err error) {
	p := renamePacket(from, to)
	if replace {
		p = replacePacket(from, to)
	}
	var b batch
	b.add(p, nil)
	b.add(pathPacket(fxpLstat, from), nil)
	calls, err := b.send(c)
	if err == nil {
		_, err = c.expect(ctx, calls[0], fxpStatus)
	}
	if err != nil {
		return false, err
	}
	_, err = c.attrsOf(ctx, calls[1])
	return errors.Is(err, fs.ErrNotExist), nil
}
