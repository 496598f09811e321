package sftpserver

import (
	"io"
	"path"
	"slices"
)

// listPart is how many entries one answer has at most, as in OpenSSH.
const listPart = 100

// list opens a directory. The names in its listing are those of this moment.
func (s *session) list(r Request) ([]byte, error) {
	if len(s.handles) >= maxHandles {
		return nil, errHandles
	}
	name := local(r.Path)
	info, err := s.root().Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, errNotDirectory
	}
	d, err := s.root().Open(name)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	if s.server.opt.Names != nil {
		names = s.server.opt.Names(r.Path, names)
	}
	return s.add(r, &handle{path: r.Path, names: names}), nil
}

func (s *session) readdir(r Request) ([]byte, error) {
	h := s.handles[r.Handle]
	if h == nil || h.file != nil {
		return nil, errHandle
	}
	var entries []Entry
	for len(entries) < listPart && len(h.names) > 0 {
		if e, ok := s.entry(h.path, h.names[0]); ok {
			entries = append(entries, e)
		}
		h.names = h.names[1:]
		h.sent++
	}
	if len(entries) == 0 {
		return nil, io.EOF
	}
	return r.Names(entries...), nil
}

// entry returns what is listed under name. It reports false if the file has
// vanished since the directory was opened, unless a hook made its name up.
func (s *session) entry(dir, name string) (Entry, bool) {
	p := path.Join(dir, name)
	info, err := s.root().Lstat(local(p))
	if err != nil && s.server.opt.Names == nil {
		return Entry{}, false
	}
	a := s.attrs(p, info)
	return Entry{Name: name, LongName: longName(name, a), Attrs: &a}, true
}
