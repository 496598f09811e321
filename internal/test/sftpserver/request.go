package sftpserver

import (
	"encoding/binary"
	"fmt"
	"os"
	"time"
)

// A Request is a packet from a client. In the Op of a request to a hostile
// server, Path and Target are the raw bytes of the packet; with a handle, Path
// is what was opened under it.
type Request struct {
	Op
	ID     uint32
	Handle string
	Data   []byte // of a write; only valid until the request is answered

	byHandle bool
	attrs    setAttrs
	short    bool // the packet lacks bytes
}

// A setAttrs is what a setstat request wants to change.
type setAttrs struct {
	flags        uint32
	size         uint64
	mode         os.FileMode
	atime, mtime time.Time
}

var methods = map[byte]string{
	fxpInit: "init", fxpOpen: "open", fxpClose: "close", fxpRead: "read", fxpWrite: "write",
	fxpLstat: "lstat", fxpFstat: "stat", fxpStat: "stat", fxpSetstat: "setstat", fxpFsetstat: "setstat",
	fxpOpendir: "list", fxpReaddir: "readdir", fxpRemove: "remove", fxpMkdir: "mkdir", fxpRmdir: "rmdir",
	fxpRealpath: "realpath", fxpRename: "rename", fxpReadlink: "symlink", fxpSymlink: "symlink",
	fxpExtended: "extended",
}

// parseRequest takes a packet, which includes its length, apart.
func parseRequest(packet []byte) Request {
	typ, in := packet[4], scanner{rest: packet[5:]}
	r := Request{Op: Op{Method: methods[typ]}, ID: in.uint32()}
	switch typ {
	case fxpInit:
	case fxpClose, fxpRead, fxpWrite, fxpFstat, fxpFsetstat, fxpReaddir:
		r.Handle, r.byHandle = in.string(), true
	case fxpSymlink:
		r.Target, r.Path = in.string(), in.string()
	default:
		r.Path = in.string()
	}
	switch typ {
	case fxpOpen:
		r.Flag = openFlag(in.uint32())
	case fxpRead:
		r.Offset, r.Length = int64(in.uint64()), int64(in.uint32())
	case fxpWrite:
		r.Offset, r.Data = int64(in.uint64()), in.bytes(int(in.uint32()))
		r.Length = int64(len(r.Data))
	case fxpRename:
		r.Target = in.string()
	case fxpSetstat, fxpFsetstat:
		r.parseAttrs(&in)
	case fxpExtended:
		switch r.Path {
		case extFsync:
			r.Method, r.Path, r.Handle, r.byHandle = "fsync", "", in.string(), true
		case extPosixRename:
			r.Method, r.Path, r.Target = "posix-rename", in.string(), in.string()
		}
	}
	r.short = in.short
	return r
}

func (r *Request) parseAttrs(in *scanner) {
	r.Length = -1
	a := &r.attrs
	a.flags = in.uint32()
	if a.flags&attrSize != 0 {
		a.size = in.uint64()
		r.Length = int64(a.size)
	}
	if a.flags&attrOwner != 0 {
		in.bytes(8)
	}
	if a.flags&attrPermissions != 0 {
		a.mode = os.FileMode(in.uint32()).Perm()
	}
	if a.flags&attrTimes != 0 {
		a.atime = time.Unix(int64(in.uint32()), 0)
		a.mtime = time.Unix(int64(in.uint32()), 0)
	}
}

// openFlag turns the flags of an open packet into those of os.OpenFile.
func openFlag(wire uint32) int {
	flag := 0
	switch wire & 3 {
	case 2:
		flag = os.O_WRONLY
	case 3:
		flag = os.O_RDWR
	}
	for i, f := range []int{os.O_APPEND, os.O_CREATE, os.O_TRUNC, os.O_EXCL} {
		if wire&(4<<i) != 0 {
			flag |= f
		}
	}
	return flag
}

// Packet returns an answer to r of the given type, with body after the length,
// the type and the id.
func (r Request) Packet(typ byte, body []byte) []byte {
	return newPacket(typ, appendUint32(nil, r.ID), body)
}

// Status returns a status answer to r. Code 0 means success, 1 the end of a
// file or listing, 2 no such file, 3 permission denied, 4 any other failure.
func (r Request) Status(code uint32, message string) []byte {
	return r.Packet(fxpStatus, appendString(appendString(appendUint32(nil, code), message), ""))
}

// Names returns a part of a listing as an answer to r. Entries without Attrs are
// empty files.
func (r Request) Names(entries ...Entry) []byte {
	b := appendUint32(nil, uint32(len(entries)))
	for _, e := range entries {
		b = appendString(appendString(b, e.Name), e.LongName)
		if e.Attrs == nil {
			e.Attrs = &Attrs{Mode: 0o600, ModTime: time.Unix(0, 0)}
		}
		b = appendAttrs(b, *e.Attrs)
	}
	return r.Packet(fxpName, b)
}

// Attributes returns an answer to r, a stat request.
func (r Request) Attributes(a Attrs) []byte { return r.Packet(fxpAttrs, appendAttrs(nil, a)) }

// Contents returns an answer to r, a read request.
func (r Request) Contents(p []byte) []byte {
	return newPacket(fxpData, appendUint32(appendUint32(nil, r.ID), uint32(len(p))), p)
}

// Oversized returns the beginning of an answer to r, a read request, that claims
// to be n bytes long.
func (r Request) Oversized(n uint32) []byte {
	b := r.Contents(make([]byte, 1000))
	binary.BigEndian.PutUint32(b, n)
	return b
}

// An Entry is an element of a listing, sent exactly as it is.
type Entry struct {
	Name     string
	LongName string // as by ls -l; most clients ignore it
	Attrs    *Attrs // of a hostile server, nil means those of a file with Script.Content
}

// longName returns the line that people see who list a directory.
func longName(name string, a Attrs) string {
	when := a.ModTime.Format("Jan _2  2006")
	if age := time.Since(a.ModTime); age >= 0 && age < 180*24*time.Hour {
		when = a.ModTime.Format("Jan _2 15:04")
	}
	return fmt.Sprintf("%s 1 0 0 %12d %s %s", a.Mode, a.Size, when, name)
}
