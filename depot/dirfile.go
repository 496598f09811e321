package depot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
)

// fileName is the name of the file of a key, below the root of a [Directory]. Whatever the key
// is, the parts of the name are short, and contain only lower-case letters, digits, dots, hyphens
// and underscores.
func fileName(key string) string {
	sum := sha256.Sum256([]byte(key))
	id, rest, _ := strings.Cut(key, "/")
	kind, _, _ := strings.Cut(rest, "/")
	base := hex.EncodeToString(sum[:16]) + "-" + hint(path.Base(key))
	if kind == removed {
		return path.Join(filesDir, id, base)
	}
	return path.Join(filesDir, id, kind, base)
}

// hint returns the part of a file name that lets people recognize the key.
func hint(name string) string {
	const most = 60
	plain := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '.' || r == '-':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, name)
	return strings.TrimRight(plain[max(0, len(plain)-most):], ".")
}

// A file ends with its description, the length of the description in 8 hexadecimal digits, and
// mark.
const (
	mark      = "cdepot1\n"
	tailSize  = 8 + len(mark)
	maxFooter = 4 << 10 // a key is at most twice as long in JSON
)

// footer returns the bytes after the content of a file.
func footer(info Info) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(info); err != nil {
		return nil, err
	}
	fmt.Fprintf(&b, "%08x%s", b.Len(), mark)
	return b.Bytes(), nil
}

// readInfo reads the description at the end of a file.
func readInfo(f *os.File) (Info, error) {
	stat, err := f.Stat()
	if err != nil {
		return Info{}, err
	}
	if !stat.Mode().IsRegular() {
		return Info{}, damaged("it is not a regular file")
	}
	end := make([]byte, min(maxFooter, stat.Size()))
	if _, err := f.ReadAt(end, stat.Size()-int64(len(end))); err != nil && err != io.EOF {
		return Info{}, err
	}
	info, n, err := parseFooter(end)
	if err == nil && (info.Size < 0 || info.Size != stat.Size()-int64(n)) {
		err = damaged("it has %d bytes of content, and should have %d", stat.Size()-int64(n), info.Size)
	}
	return info, err
}

// parseFooter parses the description at the end of end, and returns the total length n of the
// footer.
func parseFooter(end []byte) (info Info, n int, err error) {
	tail := len(end) - tailSize
	if tail < 0 || string(end[tail+8:]) != mark {
		return info, 0, damaged("its description is missing")
	}
	length, err := strconv.ParseUint(string(end[tail:tail+8]), 16, 32)
	if err != nil || length > uint64(tail) {
		return info, 0, damaged("its description has a wrong length")
	}
	if err := json.Unmarshal(end[tail-int(length):tail], &info); err != nil {
		return info, 0, damaged("its description is not readable: %v", err)
	}
	return info, int(length) + tailSize, nil
}

// damaged returns the error of a file that differs from what Commit has written.
func damaged(format string, args ...any) error {
	err := fmt.Errorf("the file is damaged: "+format+"; restore it from a backup, or remove it", args...)
	return courier.WithClass(courier.Permanent(err), courier.ReasonIntegrity)
}

// A content is the content of an open file of a [Directory].
type content struct {
	*io.SectionReader
	f *os.File
}

func newContent(f *os.File, info Info) *content {
	return &content{io.NewSectionReader(f, 0, info.Size), f}
}

// Read implements [io.Reader].
func (c *content) Read(p []byte) (int, error) {
	n, err := c.SectionReader.Read(p)
	if err == io.EOF {
		if at, _ := c.Seek(0, io.SeekCurrent); at < c.Size() {
			err = errors.Join(damaged("it has become shorter"), io.ErrUnexpectedEOF)
		}
	}
	return n, err
}

// Close implements [io.Closer].
func (c *content) Close() error { return c.f.Close() }
