package sftp

import (
	"context"
)

// The requests. Paths and handles are sent as they are; an error is either a
// *statusError, with which the client lives on, or what the client has ended
// with, or the cause with which ctx ended.

func pathPacket(typ byte, path string) packet { return newPacket(typ, len(path)+16).string(path) }

func (c *client) realpath(ctx context.Context, path string) (string, error) {
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

// stat follows links at the end of the path, lstat does not.
func (c *client) stat(ctx context.Context, path string) (attrs, error) {
	return c.attrs(ctx, pathPacket(fxpStat, path))
}

func (c *client) lstat(ctx context.Context, path string) (attrs, error) {
	return c.attrs(ctx, pathPacket(fxpLstat, path))
}

func (c *client) attrs(ctx context.Context, p packet) (attrs, error) {
	s, err := c.do(ctx, p, fxpAttrs)
	if err != nil {
		return attrs{}, err
	}
	return c.scanAttrs(s)
}

// attrsOf is the answer to a request for attributes that was sent.
func (c *client) attrsOf(ctx context.Context, cl *call) (attrs, error) {
	s, err := c.expect(ctx, cl, fxpAttrs)
	if err != nil {
		return attrs{}, err
	}
	return c.scanAttrs(s)
}

func (c *client) scanAttrs(s *scanner) (attrs, error) {
	a := s.attrs()
	if s.bad {
		return attrs{}, c.broken("the attributes of a file are damaged")
	}
	return a, nil
}

// open opens a file with the flags of the protocol and returns its handle.
func (c *client) open(ctx context.Context, path string, flags uint32) (string, error) {
	return c.handle(ctx, openPacket(path, flags))
}

func openPacket(path string, flags uint32) packet {
	return pathPacket(fxpOpen, path).uint32(flags).uint32(0) // no attributes: the server's defaults
}

func (c *client) opendir(ctx context.Context, path string) (string, error) {
	return c.handle(ctx, pathPacket(fxpOpendir, path))
}

func (c *client) handle(ctx context.Context, p packet) (string, error) {
	s, err := c.do(ctx, p, fxpHandle)
	if err != nil {
		return "", err
	}
	return c.scanHandle(s)
}

// handleOf is the answer to a request for a handle that was sent.
func (c *client) handleOf(ctx context.Context, cl *call) (string, error) {
	s, err := c.expect(ctx, cl, fxpHandle)
	if err != nil {
		return "", err
	}
	return c.scanHandle(s)
}

func (c *client) scanHandle(s *scanner) (string, error) {
	h := s.string()
	if s.bad || len(h) > 256 {
		return "", c.broken("the handle of a file is damaged")
	}
	return h, nil
}

func (c *client) close(ctx context.Context, handle string) error {
	_, err := c.do(ctx, pathPacket(fxpClose, handle), fxpStatus)
	return err
}

// readdir returns the next entries of a directory and how many bytes they
// took. At the end its error is the status for that.
func (c *client) readdir(ctx context.Context, handle string) ([]entry, int, error) {
	s, err := c.do(ctx, pathPacket(fxpReaddir, handle), fxpName)
	if err != nil {
		return nil, 0, err
	}
	size := len(s.rest)
	var entries []entry
	for range s.uint32() {
		e := s.entry()
		if s.bad {
			return nil, 0, c.broken("a listing is damaged")
		}
		entries = append(entries, e)
	}
	return entries, size, nil
}

func (c *client) remove(ctx context.Context, path string) error {
	_, err := c.do(ctx, pathPacket(fxpRemove, path), fxpStatus)
	return err
}

// setAttrs changes the permissions and times that a has.
func (c *client) setAttrs(ctx context.Context, path string, a attrs) error {
	p := pathPacket(fxpSetstat, path).uint32(a.flags & (attrPermissions | attrTimes))
	if a.flags&attrPermissions != 0 {
		p = p.uint32(a.mode)
	}
	if a.flags&attrTimes != 0 {
		p = p.uint32(a.mtime).uint32(a.mtime)
	}
	_, err := c.do(ctx, p, fxpStatus)
	return err
}

// mkdir makes a directory with the server's default permissions.
func (c *client) mkdir(ctx context.Context, path string) error {
	_, err := c.do(ctx, pathPacket(fxpMkdir, path).uint32(0), fxpStatus)
	return err
}

func (c *client) rmdir(ctx context.Context, path string) error {
	_, err := c.do(ctx, pathPacket(fxpRmdir, path), fxpStatus)
	return err
}

// rename is meant to fail if the new path exists; not all servers comply.
func (c *client) rename(ctx context.Context, oldpath, newpath string) error {
	_, err := c.do(ctx, renamePacket(oldpath, newpath), fxpStatus)
	return err
}

func renamePacket(oldpath, newpath string) packet {
	return pathPacket(fxpRename, oldpath).string(newpath)
}

// canReplace reports whether the server offers that a renaming replaces a file.
func (c *client) canReplace() bool { return c.ext[extPosixRename] == "1" }

// replacePacket renames and atomically replaces what has the new path.
func replacePacket(oldpath, newpath string) packet {
	return pathPacket(fxpExtended, extPosixRename).string(oldpath).string(newpath)
}

// canSync reports whether the server offers fsync.
func (c *client) canSync() bool { return c.ext[extFsync] == "1" }

// syncPacket makes what was written durable, where the server offers that.
func syncPacket(handle string) packet { return pathPacket(fxpExtended, extFsync).string(handle) }

// unlessUnsupported forgives a server that has advertised what it doesn't do.
func unlessUnsupported(err error) error {
	if s, ok := err.(*statusError); ok && s.code == statusUnsupported {
		return nil
	}
	return err
}

func readPacket(handle string, off int64, n int) packet {
	return newPacket(fxpRead, len(handle)+16).string(handle).uint64(uint64(off)).uint32(uint32(n))
}
