package pgpstream

import (
	"bytes"
	"errors"
	"io"
	"math"

	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// A packet, and each piece of one, costs about as much time as a kilobyte of
// content, however little it holds. The library skips packets that it does not
// know, so the sender decides how many a message has. A message may take
// freeReads reads, and beyond that one for each readBytes of it: with pieces of
// 64 bytes, which no program makes, it takes half as many.
const (
	freeReads = 1 << 18
	readBytes = 16
)

// maxNested is how much may unpack from compressed data where the library unpacks
// them by itself, which are those in other compressed data, unless a
// limit is configured. Those packets are not counted.
const maxNested = 32 << 20

// nestedLimit is the limit for compressed data in others, of a message that may unpack
// to limit bytes.
func nestedLimit(configured, limit int64) int64 {
	if configured > 0 {
		return packetsLimit(limit)
	}
	return min(maxNested, packetsLimit(limit))
}

// packetsLimit is the limit for the packets that hold a content of n bytes.
func packetsLimit(n int64) int64 {
	const overhead = 1 << 20 // headers and signatures
	return n + min(overhead, math.MaxInt64-n)
}

// A packetLimiter reads packets as the library asks for them. It ends with a MessageError
// where they take too many reads for what is in them.
type packetLimiter struct {
	r           io.Reader
	reads, read int64
	head        []byte // of what was read, at most headBytes
	err         error
}

// headBytes are enough of a packet to tell why it can't be read.
const headBytes = 64

// unreadableSignature says why the library leaves out the signature with which packets
// begin. It is "" if they begin with none, or with one that can be read.
func unreadableSignature(head []byte) string {
	p, err := packet.Read(bytes.NewReader(head))
	switch p.(type) {
	case *packet.OnePassSignature, *packet.Signature:
		if unsupported, ok := errors.AsType[pgperrors.UnsupportedError](err); ok {
			return notSupported(unsupported)
		}
	}
	return ""
}

// Read implements io.Reader.
func (l *packetLimiter) Read(p []byte) (int, error) {
	if l.err != nil {
		return 0, l.err
	}
	if l.reads++; l.reads > freeReads && l.reads > l.read/readBytes {
		l.err = messageErrorf("consists of too many tiny packets or pieces of packets: %d reads of %d bytes; create it with another program", l.reads, l.read)
		return 0, l.err
	}
	n, err := l.r.Read(p)
	if more := headBytes - len(l.head); more > 0 {
		l.head = append(l.head, p[:min(n, more)]...)
	}
	l.read += int64(n)
	return n, err
}

// failed returns the error with which it has ended. A nil packetLimiter has none.
func (l *packetLimiter) failed() error {
	if l == nil {
		return nil
	}
	return l.err
}
