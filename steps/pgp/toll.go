package pgp

import "io"

// A packet, and each piece of one, costs about as much time as a kilobyte of
// content, however little it holds. The library skips packets that it does not
// know, so who sends a message decides how many it has. A message may take
// freeReads reads, and beyond that one for each readBytes of it: with pieces of
// 64 bytes, which no program makes, it takes half as many.
const (
	freeReads = 1 << 18
	readBytes = 16
)

// maxNested is how much may unpack from compressed data where the library unpacks
// them by itself, which are those in other compressed data, unless max_bytes
// says something else. There nobody counts the packets.
const maxNested = 32 << 20

// nested is the limit for compressed data in others, of a message that may unpack
// to limit bytes.
func nested(configured, limit int64) int64 {
	if configured > 0 {
		return decompressed(limit)
	}
	return min(maxNested, decompressed(limit))
}

// A toll reads packets as the library asks for them. It ends with a messageError
// where they take too many reads for what is in them.
type toll struct {
	r           io.Reader
	reads, read int64
	err         error
}

// Read implements io.Reader.
func (t *toll) Read(p []byte) (int, error) {
	if t.err != nil {
		return 0, t.err
	}
	if t.reads++; t.reads > freeReads && t.reads > t.read/readBytes {
		t.err = about("is made of too many packets, or pieces of packets, that hold next to nothing: %d times something was read of %d bytes; have it made by another program", t.reads, t.read)
		return 0, t.err
	}
	n, err := t.r.Read(p)
	t.read += int64(n)
	return n, err
}

// failed returns the error with which it has ended. A nil toll has none.
func (t *toll) failed() error {
	if t == nil {
		return nil
	}
	return t.err
}
