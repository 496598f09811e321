package pgpstream

import (
	"bytes"
	"errors"
	"io"
	"math"

	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// The limits for the number of packets. A packet, and each piece of one, takes about as much time
// as a kilobyte of content, however small it is. The library skips unknown packets, so the sender
// decides how many a message has. A message may take freeReads reads, and beyond that one for
// every readBytes of its size. Pieces of 64 bytes, which no program makes, take
// half of the allowed reads.
const (
	freeReads = 1 << 18
	readBytes = 16
)

// maxNested is the maximum number of bytes unpacked from compressed data inside other compressed
// data, unless a limit is configured. The library unpacks these itself, so their packets are not
// counted.
const maxNested = 32 << 20

// nestedLimit returns the limit for nested compressed data in a message that may unpack to limit
// bytes.
func nestedLimit(configured, limit int64) int64 {
	if configured > 0 {
		return packetsLimit(limit)
	}
	return min(maxNested, packetsLimit(limit))
}

// packetsLimit returns the limit for the packets of a content of n bytes.
func packetsLimit(n int64) int64 {
	const overhead = 1 << 20 // headers and signatures
	return n + min(overhead, math.MaxInt64-n)
}

// A packetLimiter reads packets for the library. It returns a MessageError if they take too many
// reads for their content.
type packetLimiter struct {
	r           io.Reader
	reads, read int64
	head        []byte // of what was read, at most headBytes
	err         error
}

// headBytes is the number of bytes of a packet that show why it cannot be read.
const headBytes = 64

// unreadableSignature returns the reason why the library ignores the signature with which packets
// begin. It is "" if they do not begin with a signature, or if the signature can be read.
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

// failed returns the error of the packetLimiter. A nil packetLimiter has none.
func (l *packetLimiter) failed() error {
	if l == nil {
		return nil
	}
	return l.err
}
