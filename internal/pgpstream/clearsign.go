package pgpstream

import (
	"bufio"
	"bytes"
	"io"
	"strings"
)

const (
	clearBegin = "-----BEGIN PGP SIGNED MESSAGE-----"
	clearEnd   = "-----BEGIN " + armorSignature + "-----"
	// maxClearLine is the maximum length of a line that is signed: GnuPG
	// truncates lines after 19,995 bytes.
	maxClearLine = 19_000
	// maxReadLine is the maximum length of a line that is read.
	maxReadLine = 128 << 10
	// blanks are the characters that the signature does not cover at the end of
	// a line.
	blanks = " \t\r\n"
)

// A textWriter writes the text of a clear-signed message. It omits the blanks
// at the ends of lines, since the signature does not cover them. Every line
// ends with a line feed.
type textWriter struct {
	w     *bufio.Writer
	sig   *signatureWriter
	line  []byte // that has not ended yet
	lines int
}

func newTextWriter(w *bufio.Writer, sig *signatureWriter) (*textWriter, error) {
	_, err := w.WriteString(clearBegin + "\nHash: " + sig.hashName() + "\n\n")
	return &textWriter{w: w, sig: sig}, err
}

// Write implements io.Writer. Its error is a MessageError if the content is not
// text that can be clear-signed.
func (t *textWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		piece := p
		if end >= 0 {
			piece = p[:end+1]
		}
		p = p[len(piece):]
		if len(t.line)+len(piece) > maxClearLine {
			return 0, messageErrorf("can't be clearsigned: its line %d is longer than %d bytes, which GnuPG would cut off; make an inline or detached signature", t.lines+1, maxClearLine)
		}
		t.line = append(t.line, piece...)
		if end >= 0 {
			if err := t.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

// flush writes a line.
func (t *textWriter) flush() error {
	line := bytes.TrimRight(t.line, blanks)
	if bytes.IndexByte(line, 0) >= 0 {
		return messageErrorf("can't be clearsigned: it is not text (its line %d has a NUL byte); make an inline or detached signature", t.lines+1)
	}
	if t.lines++; t.lines > 1 {
		t.sig.Write([]byte("\r\n"))
	}
	t.sig.Write(line)
	t.line = t.line[:0]
	if bytes.HasPrefix(line, []byte("-")) {
		t.w.WriteString("- ")
	}
	t.w.Write(line)
	return t.w.WriteByte('\n')
}

// Close writes the last line if it has no line end.
func (t *textWriter) Close() error {
	if len(t.line) == 0 {
		return nil
	}
	return t.flush()
}

// A textReader reads the text of a clear-signed message in the form that its
// signature covers: without escapes and blanks at the ends of lines, and with
// CR LF between them. Its errors are MessageErrors, or errors of the underlying
// reader.
type textReader struct {
	r       *bufio.Reader
	content io.Writer // gets the text as a file; may be nil
	begun   bool
	next    []byte // not yet read, in space
	space   []byte
	lines   int
}

func newTextReader(r io.Reader, content io.Writer) *textReader {
	return &textReader{r: bufio.NewReaderSize(r, maxReadLine), content: content}
}

// Read implements io.Reader. After io.EOF the next byte of r is the first byte
// after the line that begins the signature.
func (t *textReader) Read(p []byte) (int, error) {
	if !t.begun {
		if err := t.head(); err != nil {
			return 0, err
		}
		t.begun = true
	}
	for len(t.next) == 0 {
		line, err := t.line()
		switch {
		case err != nil:
			return 0, err
		case string(line) == clearEnd:
			return 0, io.EOF
		case bytes.HasPrefix(line, []byte("- ")):
			line = line[2:]
		case bytes.HasPrefix(line, []byte("-")):
			return 0, messageErrorf("is damaged: a line of its text begins with a dash that is not escaped")
		}
		if err := t.take(line); err != nil {
			return 0, err
		}
	}
	n := copy(p, t.next)
	t.next = t.next[n:]
	return n, nil
}

func (t *textReader) take(line []byte) error {
	t.space = t.space[:0]
	if t.lines++; t.lines > 1 {
		t.space = append(t.space, "\r\n"...)
	}
	t.space = append(t.space, line...)
	t.next = t.space
	if t.content == nil {
		return nil
	}
	for _, part := range [][]byte{line, {'\n'}} {
		if _, err := t.content.Write(part); err != nil {
			return outputError(err)
		}
	}
	return nil
}

// line reads a line without the blanks at its end.
func (t *textReader) line() ([]byte, error) {
	line, err := t.r.ReadSlice('\n')
	switch {
	case err == bufio.ErrBufferFull:
		return nil, messageErrorf("has a line that is longer than %d KiB", maxReadLine>>10)
	case err == io.EOF:
		return nil, messageErrorf("is cut short: its signature is missing")
	case err != nil:
		return nil, err
	}
	return bytes.TrimRight(line, blanks), nil
}

// head reads up to the empty line before the text.
func (t *textReader) head() error {
	line, err := t.line()
	for err == nil && len(line) == 0 {
		line, err = t.line()
	}
	if err != nil {
		return err
	}
	if string(bytes.TrimPrefix(line, []byte(byteOrderMark))) != clearBegin {
		return messageErrorf("holds something before the signed text, which the signature does not cover")
	}
	for {
		line, err := t.line()
		switch {
		case err != nil:
			return err
		case len(line) == 0:
			return nil
		case !bytes.HasPrefix(line, []byte("Hash: ")):
			return messageErrorf("has a line in its head that is not allowed there: %s", Printable(string(line), 60))
		}
	}
}

// isClearsigned reports whether the beginning of a file is that of a
// clear-signed message.
func isClearsigned(head []byte) bool {
	return len(head) > 0 && head[0]&0x80 == 0 && bytes.Contains(head, []byte(clearBegin)) ||
		bytes.HasPrefix(head, []byte(byteOrderMark+clearBegin))
}

// clearSignature reads a clear-signed message to its end and returns the
// packets of its signature.
func clearSignature(r io.Reader) ([]byte, error) {
	text := newTextReader(r, nil)
	if _, err := io.Copy(io.Discard, text); err != nil {
		return nil, err
	}
	return signaturePackets(io.MultiReader(strings.NewReader(clearEnd+"\n"), text.r))
}

// maxSignatureBytes is the maximum size of the signatures of one file.
const maxSignatureBytes = 1 << 20

// signaturePackets reads a detached signature, binary or armored.
func signaturePackets(r io.Reader) ([]byte, error) {
	src, err := newMessageReader(r, armorSignature)
	if err != nil {
		return nil, err
	}
	var sig bytes.Buffer
	n, err := io.Copy(&sig, io.LimitReader(src, maxSignatureBytes+1))
	switch {
	case err != nil:
		return nil, err
	case n > maxSignatureBytes:
		return nil, messageErrorf("is larger than %d KiB, too large for a signature", maxSignatureBytes>>10)
	}
	return sig.Bytes(), nil
}
