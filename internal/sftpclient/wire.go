package sftpclient

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier/internal/safename"
)

// The part of SFTP version 3 that this package uses, as draft-ietf-secsh-filexfer-02 and
// OpenSSH's PROTOCOL file describe it.
const (
	version3 = 3

	fxpInit          = 1
	fxpVersion       = 2
	fxpOpen          = 3
	fxpClose         = 4
	fxpRead          = 5
	fxpWrite         = 6
	fxpLstat         = 7
	fxpFstat         = 8
	fxpSetstat       = 9
	fxpOpendir       = 11
	fxpReaddir       = 12
	fxpRemove        = 13
	fxpMkdir         = 14
	fxpRmdir         = 15
	fxpRealpath      = 16
	fxpStat          = 17
	fxpRename        = 18
	fxpStatus        = 101
	fxpHandle        = 102
	fxpData          = 103
	fxpName          = 104
	fxpAttrs         = 105
	fxpExtended      = 200
	fxpExtendedReply = 201

	AttrSize        = 1 << 0
	attrOwner       = 1 << 1
	AttrPermissions = 1 << 2
	AttrTimes       = 1 << 3
	attrExtended    = 1 << 31

	extPosixRename = "posix-rename@openssh.com"
	extFsync       = "fsync@openssh.com"
	extLimits      = "limits@openssh.com"
)

const (
	// maxPacket is the maximum length of an accepted packet, in bytes after the length field. It
	// is the limit of package sftp. OpenSSH and others do not send longer packets.
	maxPacket = 256 << 10

	// DefaultChunk is the number of bytes of file data in a packet that every server accepts;
	// maxChunk is the number that OpenSSH accepts.
	DefaultChunk = 32 << 10
	maxChunk     = 255 << 10
	minChunk     = 512
)

// Status codes. Codes above 8 belong to later versions of the protocol, but some servers send
// them in version 3 too.
const (
	statusOK          = 0
	statusEOF         = 1
	statusNoSuchFile  = 2
	statusPermission  = 3
	statusFailure     = 4
	StatusBadMessage  = 5
	StatusUnsupported = 8
	statusNoSuchPath  = 10
	StatusExists      = 11
)

var statusTexts = map[uint32]string{
	statusEOF:         "the end of the file is reached",
	statusNoSuchFile:  "no such file or directory",
	statusPermission:  "permission denied",
	statusFailure:     "the server reports a failure",
	StatusBadMessage:  "the server doesn't understand the request",
	6:                 "the server reports that it has no connection",
	7:                 "the server reports that its connection is lost",
	StatusUnsupported: "the server doesn't support this operation",
	9:                 "the server reports an invalid handle",
	statusNoSuchPath:  "no such directory",
	StatusExists:      "the file already exists",
	12:                "the file or its disk is write-protected",
	13:                "there is no medium",
	14:                "no space is left on the server",
	15:                "the quota on the server is used up",
	16:                "the server doesn't know the user",
	17:                "the server reports a lock conflict",
}

// A StatusError says that the server has refused a request. It matches [fs.ErrNotExist],
// [fs.ErrExist] and [fs.ErrPermission] according to its code.
type StatusError struct {
	Code    uint32
	Message string // the server's own words; hostile
}

// Error states the meaning of the code, and quotes the server.
func (e *StatusError) Error() string {
	text := statusTexts[e.Code]
	if text == "" {
		text = fmt.Sprintf("the server reports status %d", e.Code)
	}
	if e.Message == "" || slices.Contains(plainWords, strings.ToLower(e.Message)) {
		return text
	}
	return text + " (its words: " + safename.Quote(e.Message) + ")"
}

// plainWords are the texts of servers that add nothing to the code.
var plainWords = []string{
	"no such file", "no such file or directory", "permission denied", "failure", "end of file", "eof",
	"bad message", "operation unsupported",
}

// Is matches the errors of package fs.
func (e *StatusError) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return e.Code == statusNoSuchFile || e.Code == statusNoSuchPath
	case fs.ErrPermission:
		return e.Code == statusPermission
	case fs.ErrExist:
		return e.Code == StatusExists
	}
	return false
}

// IsStatus reports whether err is the server's answer to a request, so that the connection can
// still be used.
func IsStatus(err error) bool {
	_, ok := errors.AsType[*StatusError](err)
	return ok
}

// A scanner parses a packet from the server. After missing data, bad is set and everything reads
// as zero.
type scanner struct {
	rest []byte
	bad  bool
}

func (s *scanner) bytes(n uint64) []byte {
	if s.bad || n > uint64(len(s.rest)) {
		s.bad, s.rest = true, nil
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

func (s *scanner) string() string { return string(s.bytes(uint64(s.uint32()))) }

// Attrs are the attributes of a file that a server sends. The flag of a missing attribute is not
// set.
type Attrs struct {
	Flags uint32
	Size  uint64
	Mode  uint32 // as Unix has it, with the type
	Mtime uint32 // seconds since 1970
}

func (s *scanner) attrs() Attrs {
	a := Attrs{Flags: s.uint32()}
	if a.Flags&AttrSize != 0 {
		a.Size = s.uint64()
	}
	if a.Flags&attrOwner != 0 {
		s.uint64()
	}
	if a.Flags&AttrPermissions != 0 {
		a.Mode = s.uint32()
	}
	if a.Flags&AttrTimes != 0 {
		s.uint32()
		a.Mtime = s.uint32()
	}
	if a.Flags&attrExtended != 0 {
		for range s.uint32() {
			s.string()
			s.string()
			if s.bad {
				break
			}
		}
	}
	return a
}

// The types in a Unix mode.
const (
	ModeType    = 0o170000
	ModeDir     = 0o040000
	ModeRegular = 0o100000
	modeLink    = 0o120000
)

// IsDir reports whether the server says that the file is a directory.
func (a Attrs) IsDir() bool { return a.Mode&ModeType == ModeDir }

// IsLink reports whether the server says that the file is a link.
func (a Attrs) IsLink() bool { return a.Mode&ModeType == modeLink }

// IsFile reports whether the file is a regular file, or the server does not state its type.
func (a Attrs) IsFile() bool { return a.Mode&ModeType == ModeRegular || a.Mode&ModeType == 0 }

// FileSize returns the size, or an error if the server sent no size or an impossible one.
func (a Attrs) FileSize() (int64, error) {
	switch {
	case a.Flags&AttrSize == 0:
		return 0, errors.New("the server doesn't report the size of the file")
	case a.Size > math.MaxInt64:
		return 0, fmt.Errorf("the server gives a size of %d bytes, which no file has", a.Size)
	}
	return int64(a.Size), nil
}

// Modified returns the modification time, or the zero time if the server sent none.
func (a Attrs) Modified() time.Time {
	if a.Flags&AttrTimes == 0 {
		return time.Time{}
	}
	return time.Unix(int64(a.Mtime), 0).UTC()
}

// SameFile reports whether a and b, attributes of a path at different times, are of the same
// content, as far as size and time show that.
func (a Attrs) SameFile(b Attrs) bool {
	return a.Size == b.Size && a.Mtime == b.Mtime && (a.Flags^b.Flags)&(AttrSize|AttrTimes) == 0
}

// An Entry is one name of a listing, exactly as the server sent it.
type Entry struct {
	Name  string
	Attrs Attrs
}

// entry parses one entry of a listing. If a server sends no type, the type is taken from the long
// form, which is meant for human readers. Plain says that the name is a valid file name, and that
// size, type and time were sent.
func (s *scanner) entry() (e Entry, plain bool) {
	e.Name = s.string()
	long := s.bytes(uint64(s.uint32()))
	e.Attrs = s.attrs()
	if e.Attrs.Mode&ModeType == 0 && len(long) > 0 {
		switch long[0] {
		case 'd':
			e.Attrs.Mode |= ModeDir
		case 'l':
			e.Attrs.Mode |= modeLink
		}
		return e, false
	}
	const usual = AttrSize | AttrPermissions | AttrTimes
	return e, e.Attrs.Flags&usual == usual && e.Attrs.Mode&ModeType != 0 && path.Base(e.Name) == e.Name
}
