package sftpserver

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
)

// Packet types and status codes of SFTP version 3.
const (
	fxpInit          = 1
	fxpVersion       = 2
	fxpOpen          = 3
	fxpClose         = 4
	fxpRead          = 5
	fxpWrite         = 6
	fxpLstat         = 7
	fxpFstat         = 8
	fxpSetstat       = 9
	fxpFsetstat      = 10
	fxpOpendir       = 11
	fxpReaddir       = 12
	fxpRemove        = 13
	fxpMkdir         = 14
	fxpRmdir         = 15
	fxpRealpath      = 16
	fxpStat          = 17
	fxpRename        = 18
	fxpReadlink      = 19
	fxpSymlink       = 20
	fxpStatus        = 101
	fxpHandle        = 102
	fxpData          = 103
	fxpName          = 104
	fxpAttrs         = 105
	fxpExtended      = 200
	fxpExtendedReply = 201

	fxOK               = 0
	fxEOF              = 1
	fxNoSuchFile       = 2
	fxPermissionDenied = 3
	fxFailure          = 4
	fxBadMessage       = 5
	fxNoConnection     = 6
	fxConnectionLost   = 7
	fxOpUnsupported    = 8

	attrSize        = 1 << 0
	attrOwner       = 1 << 1
	attrPermissions = 1 << 2
	attrTimes       = 1 << 3
)

const (
	maxPacket = 256 << 10 // bytes of a packet after its length, as in OpenSSH
	maxData   = 255 << 10 // file bytes in a packet
)

// The extensions of a server, by their names on the wire.
const (
	extPosixRename = "posix-rename@openssh.com"
	extFsync       = "fsync@openssh.com"
	extLimits      = "limits@openssh.com"
)

// readPacket reads a packet into buf, which it grows as needed, and returns it
// with its length before it. The error is [io.EOF] at the end of the session.
func readPacket(r io.Reader, buf []byte) ([]byte, error) {
	if cap(buf) < 1<<10 {
		buf = make([]byte, 1<<10)
	}
	if _, err := io.ReadFull(r, buf[:4]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(buf[:4])
	if n == 0 || n > maxPacket {
		return nil, errors.New("length of packet out of range")
	}
	if size := 4 + int(n); size > cap(buf) {
		buf = append(make([]byte, 0, size), buf[:4]...)
	}
	buf = buf[:4+n]
	if _, err := io.ReadFull(r, buf[4:]); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	return buf, nil
}

// newPacket returns a packet of the given type that consists of its length and
// the bodies.
func newPacket(typ byte, bodies ...[]byte) []byte {
	n := 1
	for _, body := range bodies {
		n += len(body)
	}
	b := make([]byte, 0, 4+n)
	b = appendUint32(b, uint32(n))
	b = append(b, typ)
	for _, body := range bodies {
		b = append(b, body...)
	}
	return b
}

// versionPacket is the answer to a client's first packet.
func (o *Options) versionPacket() []byte {
	b := appendUint32(nil, 3)
	for _, ext := range []struct {
		name, version string
		off           bool
	}{
		{extPosixRename, "1", o.NoPosixRename},
		{extFsync, "1", o.NoFsync},
		{extLimits, "1", o.NoLimits},
	} {
		if !ext.off {
			b = appendString(appendString(b, ext.name), ext.version)
		}
	}
	return newPacket(fxpVersion, b)
}

// limitsPacket is the answer to an extended request for limits.
func (o *Options) limitsPacket(id uint32) []byte {
	b := appendUint32(nil, id)
	for _, limit := range []uint64{maxPacket, uint64(o.MaxRead), maxData, maxHandles} {
		b = binary.BigEndian.AppendUint64(b, limit)
	}
	return newPacket(fxpExtendedReply, b)
}

func appendUint32(b []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(b, v) }

func appendString(b []byte, s string) []byte {
	return append(appendUint32(b, uint32(len(s))), s...)
}

func appendAttrs(b []byte, a Attrs) []byte {
	b = appendUint32(b, attrSize|attrPermissions|attrTimes)
	b = binary.BigEndian.AppendUint64(b, uint64(a.Size))
	b = appendUint32(b, wireMode(a.Mode))
	b = appendUint32(b, uint32(a.ModTime.Unix()))
	return appendUint32(b, uint32(a.ModTime.Unix()))
}

// wireMode returns mode as Unix has it.
func wireMode(mode os.FileMode) uint32 {
	m := uint32(mode.Perm())
	switch mode.Type() {
	case os.ModeDir:
		return m | 0o040000
	case os.ModeSymlink:
		return m | 0o120000
	case os.ModeNamedPipe:
		return m | 0o010000
	case os.ModeSocket:
		return m | 0o140000
	case os.ModeDevice:
		return m | 0o060000
	case os.ModeDevice | os.ModeCharDevice:
		return m | 0o020000
	}
	return m | 0o100000
}

// A scanner takes a packet apart. Once it has run short of bytes it returns
// zero values.
type scanner struct {
	rest  []byte
	short bool
}

func (s *scanner) bytes(n int) []byte {
	if n < 0 || n > len(s.rest) {
		s.rest, s.short = nil, true
		return nil
	}
	b := s.rest[:n]
	s.rest = s.rest[n:]
	return b
}

func (s *scanner) uint32() uint32 {
	if b := s.bytes(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (s *scanner) uint64() uint64 {
	if b := s.bytes(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (s *scanner) string() string { return string(s.bytes(int(s.uint32()))) }
