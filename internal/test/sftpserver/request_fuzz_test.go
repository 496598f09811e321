package sftpserver

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"testing"
)

// FuzzRequest writes a request as a client does and takes it apart, whole and
// cut off.
func FuzzRequest(f *testing.F) {
	for typ := range methods {
		f.Add(typ, uint32(9), "path", "target", []byte("data"), uint64(0o107644), uint32(attrSize|attrPermissions), uint16(7))
	}
	f.Add(byte(fxpExtended), uint32(1), extFsync, "1", []byte{}, uint64(0), uint32(0), uint16(0))
	f.Add(byte(fxpExtended), uint32(1), extPosixRename, "a", []byte("b"), uint64(0), uint32(0), uint16(30))
	f.Add(byte(0), uint32(0), "", "", []byte{}, uint64(0), uint32(0), uint16(0))
	f.Fuzz(func(t *testing.T, typ byte, id uint32, a, b string, data []byte, n uint64, flags uint32, cut uint16) {
		if len(data) > 1000 {
			data = data[:1000]
		}
		want := Request{Op: Op{Method: methods[typ], Path: a}, ID: id}
		body := appendString(appendUint32(nil, id), a)
		switch typ {
		case fxpInit:
			want.Path = ""
		case fxpClose, fxpFstat, fxpReaddir:
			want.Path, want.Handle = "", a
		case fxpOpen:
			body = appendUint32(appendUint32(body, flags), 0)
		case fxpRead:
			want.Path, want.Handle, want.Offset, want.Length = "", a, int64(n), int64(flags)
			body = appendUint32(binary.BigEndian.AppendUint64(body, n), flags)
		case fxpWrite:
			want.Path, want.Handle, want.Offset, want.Length = "", a, int64(n), int64(len(data))
			body = appendString(binary.BigEndian.AppendUint64(body, n), string(data))
		case fxpRename:
			want.Target = b
			body = appendString(body, b)
		case fxpSymlink:
			want.Target, want.Path = a, b
			body = appendString(body, b)
		case fxpSetstat, fxpFsetstat:
			flags &= attrSize | attrPermissions
			if typ == fxpFsetstat {
				want.Path, want.Handle = "", a
			}
			want.Length = -1
			body = appendUint32(body, flags)
			if flags&attrSize != 0 {
				want.Length = int64(n)
				body = binary.BigEndian.AppendUint64(body, n)
			}
			if flags&attrPermissions != 0 {
				body = appendUint32(body, uint32(n))
			}
		case fxpExtended:
			switch a {
			case extFsync:
				want.Method, want.Path, want.Handle = "fsync", "", b
			case extPosixRename:
				want.Method, want.Path, want.Target = "posix-rename", b, string(data)
			}
			body = appendString(appendString(body, b), string(data))
		}
		packet := newPacket(typ, body)
		read, err := readPacket(bytes.NewReader(packet), nil)
		if err != nil || !bytes.Equal(read, packet) {
			if len(packet) <= maxPacket {
				t.Fatalf("a packet of %d bytes is read as %d, %v", len(packet), len(read), err)
			}
			return
		}
		got := parseRequest(read)
		if got.short || got.Method != want.Method || got.Path != want.Path || got.Target != want.Target || got.Handle != want.Handle ||
			got.ID != want.ID || got.Offset != want.Offset || got.Length != want.Length || typ == fxpWrite && !bytes.Equal(got.Data, data) {
			t.Errorf("%+v is read as %+v", want, got)
		}
		if perm := got.attrs.mode; perm&^os.ModePerm != 0 {
			t.Errorf("a request sets the mode %v", perm)
		}
		// What is cut off is never more than what was sent.
		part := parseRequest(packet[:5+min(int(cut), len(body))])
		if len(part.Path)+len(part.Target)+len(part.Handle)+len(part.Data) > int(cut) {
			t.Errorf("%d bytes are read as %+v", cut, part)
		}
		if _, err := readPacket(bytes.NewReader(packet[:min(int(cut), len(packet)-1)]), nil); err == nil || err == io.EOF && cut > 0 {
			t.Errorf("a packet that is cut off is read: %v", err)
		}
	})
}
