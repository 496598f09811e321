package pgpstream

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"io"
	"regexp"
)

const (
	byteOrderMark = "\uFEFF"
	// headSize is the maximum size of the text before an armored message, and of the lines of its
	// header.
	headSize = 64 << 10
	// charSize is the number of base64 characters decoded at once.
	charSize = 32 << 10
)

var (
	armorBegin = regexp.MustCompile(`(?m)^-----BEGIN (PGP [A-Z0-9 ,/]{1,40})-----[ \t\r]*$`)
	armorBlank = regexp.MustCompile(`(?m)^[ \t\r]*$`)
)

// The kinds of armor.
const (
	armorMessage   = "PGP MESSAGE"
	armorSignature = "PGP SIGNATURE"
)

// endLine returns the last line of an armor.
func endLine(kind string) []byte { return []byte("-----END " + kind + "-----") }

// A messageReader reads the packets of the one message in a file, binary or armored. It returns
// io.EOF only at the end of the file: an armored message must have its last line, and nothing may
// follow.
//
// The library replaces every error of its reader, so the messageReader stores its own error: a
// MessageError, or an error of the underlying reader.
type messageReader struct {
	n   int64 // bytes of packets read so far
	err error // other than io.EOF; nothing is read after it

	r       *bufio.Reader
	armored bool
	end     []byte // the last line of the armor
	chars   []byte // base64 text that is not decoded yet
	out     []byte // decoded and not yet read, in space
	space   []byte
	padded  bool // the base64 text has come to its end
	ended   bool // the last line of the armor has been read
}

// newMessageReader detects the form of the message from the beginning of r. If the message is
// armored, the armor must be of the given kind.
func newMessageReader(r io.Reader, kind string) (*messageReader, error) {
	s := &messageReader{r: bufio.NewReaderSize(r, bufSize), end: endLine(kind)}
	head, err := s.r.Peek(headSize)
	if err != nil && err != io.EOF {
		return nil, err
	}
	head = head[:min(len(head), headSize)]
	switch {
	case len(head) == 0:
		return nil, messageErrorf("is empty")
	case bytes.HasPrefix(head, []byte(byteOrderMark)):
	case head[0]&0x80 != 0: // the first byte of every packet
		return s, nil
	}
	s.armored = true
	begin := armorBegin.FindSubmatchIndex(bytes.TrimPrefix(head, []byte(byteOrderMark)))
	if begin == nil {
		return nil, messageErrorf("is not an OpenPGP message, neither binary nor armored")
	}
	skip := len(head) - len(bytes.TrimPrefix(head, []byte(byteOrderMark)))
	if found := string(head[skip+begin[2] : skip+begin[3]]); found != kind {
		return nil, messageErrorf("is a %s, not %s", found, kindName[kind])
	}
	body := head[min(skip+begin[1]+1, len(head)):]
	blank := armorBlank.FindIndex(body)
	if blank == nil || blank[0] == len(body) {
		return nil, messageErrorf("is damaged: the header of its armor does not end in the first %d KiB", headSize>>10)
	}
	_, err = s.r.Discard(len(head) - len(body) + blank[1])
	s.chars, s.space = make([]byte, 0, charSize+bufSize), make([]byte, charSize)
	return s, err
}

// kindName is the text in errors for the expected content of an armor.
var kindName = map[string]string{armorMessage: "an OpenPGP message", armorSignature: "a detached signature"}

// Read implements io.Reader.
func (s *messageReader) Read(p []byte) (int, error) {
	if s.err != nil || len(p) == 0 {
		return 0, s.err
	}
	n, err := 0, error(nil)
	if s.armored {
		n, err = s.readArmored(p)
	} else {
		n, err = s.r.Read(p)
	}
	s.n += int64(n)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

func (s *messageReader) readArmored(p []byte) (int, error) {
	for len(s.out) == 0 {
		if s.ended && len(s.chars) == 0 {
			return 0, s.rest()
		}
		if err := s.fill(); err != nil {
			return 0, err
		}
		if err := s.decode(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}

// fill collects base64 text, line by line, until there is enough or the armor ends. Lines may
// have any length.
func (s *messageReader) fill() error {
	for !s.ended && len(s.chars) < charSize {
		line, err := s.r.ReadSlice('\n')
		if err != nil && err != io.EOF && err != bufio.ErrBufferFull {
			return err
		}
		line = bytes.TrimSpace(line)
		const checksumLine = 5 // "=" and four characters; nobody checks it any more
		switch {
		case bytes.Equal(line, s.end):
			s.ended = true
		case len(line) == checksumLine && line[0] == '=':
			s.padded = true
		case len(line) == 0:
		case s.padded && len(bytes.Trim(line, "=")) > 0:
			return messageErrorf("is damaged: text follows where its armor should end")
		default:
			s.chars = append(s.chars, line...)
			s.padded = line[len(line)-1] == '='
		}
		if err == io.EOF && !s.ended {
			return messageErrorf("is cut short: the last line of its armor is missing")
		}
	}
	return nil
}

// decode decodes the collected text; an incomplete group of four characters waits for the rest.
func (s *messageReader) decode() error {
	whole := min(len(s.chars)&^3, charSize)
	if whole < len(s.chars) && s.ended && whole < charSize {
		return messageErrorf("is damaged: its armor ends in the middle of a group of characters")
	}
	n, err := base64.StdEncoding.Decode(s.space, s.chars[:whole])
	if err != nil {
		return messageErrorf("is damaged: its armor has characters that are not base64")
	}
	s.out = s.space[:n]
	s.chars = s.chars[:copy(s.chars, s.chars[whole:])]
	return nil
}

// rest checks that only blanks follow the armor.
func (s *messageReader) rest() error {
	for {
		piece, err := s.r.ReadSlice('\n')
		if len(bytes.TrimSpace(piece)) > 0 {
			return messageErrorf("holds something after the end of the message; a file must hold one message")
		}
		if err != nil && err != bufio.ErrBufferFull {
			return err
		}
	}
}
