package sftpserver

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"
)

func (s *session) open(r Request) ([]byte, error) {
	if len(s.handles) >= maxHandles {
		return nil, errHandles
	}
	// WriteAt refuses files opened with O_APPEND; write does it by itself.
	f, err := s.openRegular(local(r.Path), r.Flag&^os.O_APPEND)
	if err != nil {
		return nil, err
	}
	return s.add(r, &handle{path: r.Path, file: f, append: r.Flag&os.O_APPEND != 0}), nil
}

// openRegular opens name if there is nothing but a regular file: opening a pipe
// could block for ever.
func (s *session) openRegular(name string, flag int) (*os.File, error) {
	if info, err := s.root().Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	return s.root().OpenFile(name, flag, 0o600)
}

// file returns the handle of an open file.
func (s *session) file(r Request) (*handle, error) {
	if h := s.handles[r.Handle]; h != nil && h.file != nil {
		return h, nil
	}
	return nil, errHandle
}

func (s *session) read(r Request) ([]byte, error) {
	h, err := s.file(r)
	if err != nil {
		return nil, err
	}
	if s.data == nil {
		s.data = make([]byte, s.server.opt.MaxRead)
	}
	n, err := h.file.ReadAt(s.data[:min(r.Length, int64(len(s.data)))], r.Offset)
	if err != nil && (n == 0 || err != io.EOF) {
		return nil, err
	}
	return r.Contents(s.data[:n]), nil
}

func (s *session) write(r Request) error {
	h, err := s.file(r)
	if err != nil {
		return err
	}
	if h.append {
		info, err := h.file.Stat()
		if err != nil {
			return err
		}
		r.Offset = info.Size()
	}
	_, err = h.file.WriteAt(r.Data, r.Offset)
	return err
}

func (s *session) closeHandle(r Request) error {
	h := s.handles[r.Handle]
	if h == nil {
		return errHandle
	}
	delete(s.handles, r.Handle)
	if h.file == nil {
		return nil
	}
	return h.file.Close()
}

func (s *session) fsync(r Request) error {
	h, err := s.file(r)
	if err != nil {
		return err
	}
	return h.file.Sync()
}

// setstat changes a file by its handle if it has one, or else by its path.
func (s *session) setstat(r Request) error {
	name, a := local(r.Path), r.attrs
	f := interface {
		Truncate(int64) error
		Chmod(os.FileMode) error
	}(byName{s, name})
	if r.byHandle {
		h, err := s.file(r)
		if err != nil {
			return err
		}
		f = h.file
	}
	if a.flags&attrOwner != 0 {
		return fs.ErrPermission
	}
	if a.flags&attrSize != 0 {
		if err := f.Truncate(r.Length); err != nil {
			return err
		}
	}
	if a.flags&attrPermissions != 0 {
		if err := f.Chmod(a.mode); err != nil {
			return err
		}
	}
	if a.flags&attrTimes != 0 {
		return s.root().Chtimes(name, a.atime, a.mtime)
	}
	return nil
}

// A byName changes a file that is not open.
type byName struct {
	s    *session
	name string
}

// Truncate sets the size of a regular file.
func (b byName) Truncate(size int64) error {
	f, err := b.s.openRegular(b.name, os.O_WRONLY)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// Chmod sets the permissions of a file or directory.
func (b byName) Chmod(mode os.FileMode) error { return b.s.root().Chmod(b.name, mode) }

// renameNew renames unless the new name is taken. A link tells that without a
// race; where links are impossible, as for directories, looking must do.
func (s *session) renameNew(oldname, newname string) error {
	root := s.root()
	err := root.Link(oldname, newname)
	if err == nil {
		if err = root.Remove(oldname); err != nil {
			root.Remove(newname)
		}
		return err
	}
	if _, err := root.Lstat(newname); err == nil {
		return fs.ErrExist
	}
	return root.Rename(oldname, newname)
}

func (s *session) remove(name string, dir bool) error {
	info, err := s.root().Lstat(name)
	switch {
	case err != nil:
		return err
	case info.IsDir() && !dir:
		return errNotRegular
	case dir && !info.IsDir():
		return errNotDirectory
	}
	return s.root().Remove(name)
}

func (s *session) stat(r Request) ([]byte, error) {
	stat := s.root().Stat
	if r.Method == "lstat" {
		stat = s.root().Lstat
	}
	if r.byHandle {
		h, err := s.file(r)
		if err != nil {
			return nil, err
		}
		stat = func(string) (os.FileInfo, error) { return h.file.Stat() }
	}
	info, err := stat(local(r.Path))
	if err != nil {
		return nil, err
	}
	return r.Attributes(s.attrs(r.Path, info)), nil
}

// attrs returns what clients are to see of the file at p. A nil info stands for
// a file that doesn't exist.
func (s *session) attrs(p string, info os.FileInfo) Attrs {
	a := Attrs{Mode: 0o600, ModTime: time.Unix(0, 0)}
	if info != nil {
		a = Attrs{Size: info.Size(), Mode: info.Mode(), ModTime: info.ModTime()}
	}
	if s.server.opt.Attrs != nil {
		s.server.opt.Attrs(p, &a)
	}
	return a
}
