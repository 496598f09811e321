package pgproxy

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"slices"
)

const (
	maxOpening = 10_000 // what a server takes
	maxTyped   = 1 << 30

	askSSL    = 1234<<16 | 5679
	askGSSENC = 1234<<16 | 5680
)

var errFrame = errors.New("bytes that are no message")

// A frame is a message as it is sent.
type frame struct {
	raw  []byte
	head int // bytes before the body
}

// declined is the answer to a request for encryption.
var declined = frame{raw: []byte("N")}

// readFrame reads one message. Those with which a client opens a connection
// have no type.
func readFrame(r *bufio.Reader, opening bool) (frame, error) {
	head, least, most := 5, 4, maxTyped
	if opening {
		head, least, most = 4, 8, maxOpening
	}
	raw := make([]byte, head)
	if _, err := io.ReadFull(r, raw); err != nil {
		return frame{}, err
	}
	n := int64(binary.BigEndian.Uint32(raw[head-4:]))
	if n < int64(least) || n > int64(most) {
		return frame{}, errFrame
	}
	raw = slices.Grow(raw, int(n)-4)[:head+int(n)-4]
	_, err := io.ReadFull(r, raw[head:])
	return frame{raw, head}, err
}

func (f frame) body() []byte { return f.raw[f.head:] }

// kind returns the type of the message, or 0.
func (f frame) kind() byte {
	if f.head < 5 {
		return 0
	}
	return f.raw[0]
}

// asks reports whether an opening message asks for encryption, so that another
// opening message follows the answer.
func (f frame) asks() bool {
	code := binary.BigEndian.Uint32(f.body())
	return code == askSSL || code == askGSSENC
}
