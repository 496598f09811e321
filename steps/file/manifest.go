package file

import (
	"bufio"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/transfer"
)

// Algorithm is a hash function.
type Algorithm string

// The algorithms. MD5 is for partners that need it: it detects accidental damage, but anyone can
// make two files with the same sum.
const (
	SHA256 Algorithm = "sha256"
	SHA512 Algorithm = "sha512"
	MD5    Algorithm = "md5"
)

// UnmarshalText refuses everything but the three values.
func (a *Algorithm) UnmarshalText(text []byte) error {
	return oneOf(a, string(text), "", SHA256, SHA512, MD5)
}

// new returns the hash function; an empty Algorithm means SHA-256.
func (a Algorithm) new() hash.Hash {
	switch a {
	case SHA512:
		return sha512.New()
	case MD5:
		return md5.New()
	}
	return sha256.New()
}

// algorithmOf returns the algorithm that fits a sum in hexadecimal digits.
func algorithmOf(sum string) (Algorithm, bool) {
	for _, a := range []Algorithm{SHA256, SHA512, MD5} {
		if len(sum) == 2*a.new().Size() {
			_, err := hex.DecodeString(sum)
			return a, err == nil
		}
	}
	return "", false
}

// A sumLine is a line of a manifest in the form of sha256sum.
type sumLine struct {
	sum  string // in small letters
	name string
}

// String returns the line. A name that would break it is escaped as sha256sum does, with a
// backslash before the sum.
func (l sumLine) String() string {
	name := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`).Replace(l.name)
	if name != l.name {
		return `\` + l.sum + "  " + name + "\n"
	}
	return l.sum + "  " + name + "\n"
}

// parseSumLine parses a line without its newline.
func parseSumLine(line string) (l sumLine, err error) {
	line, escaped := strings.CutPrefix(line, `\`)
	sum, name, ok := strings.Cut(line, " ")
	if _, isSum := algorithmOf(sum); !ok || !isSum || len(name) < 2 || name[0] != ' ' && name[0] != '*' {
		return l, errors.New("is not a sum, two spaces and a name, as sha256sum writes them")
	}
	name = name[1:]
	if escaped {
		if name, err = unescape(name); err != nil {
			return l, err
		}
	}
	return sumLine{strings.ToLower(sum), name}, nil
}

// unescape undoes the escaping of a name.
func unescape(name string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] != '\\' {
			b.WriteByte(name[i])
			continue
		}
		if i++; i == len(name) {
			return "", errors.New("has a name that ends in a backslash")
		}
		switch name[i] {
		case '\\':
			b.WriteByte('\\')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		default:
			return "", fmt.Errorf("has the unknown escape %q in its name", name[i-1:i+1])
		}
	}
	return b.String(), nil
}

// maxSumLine is the longest line of a manifest, in bytes.
const maxSumLine = 16 << 10

// readSums reads a manifest. It skips empty lines and lines that begin with #; the latter are
// passed to comment, which may be nil. The manifest may list at most most files, whose paths have
// at most paths bytes in total.
func readSums(ctx context.Context, r io.Reader, most, paths int, comment func(string) error) (all []sumLine, err error) {
	lines := bufio.NewScanner(transfer.NewReader(ctx, r, nil))
	lines.Buffer(make([]byte, 0, 4096), maxSumLine)
	n := 0
	for lines.Scan() {
		n++
		text := strings.TrimSuffix(lines.Text(), "\r")
		if text == "" || text[0] == '#' {
			if comment != nil && text != "" {
				if err := comment(text); err != nil {
					return nil, fmt.Errorf("line %d %w", n, err)
				}
			}
			if n > 3*most+10 {
				return nil, refused("has more than %d lines", n-1)
			}
			continue
		}
		l, err := parseSumLine(text)
		if err != nil {
			return nil, fmt.Errorf("line %d %w", n, err)
		}
		if len(all) == most {
			return nil, refused("lists more than %d files, which are allowed; see MaxMatches in file.Options", most)
		}
		if paths -= len(l.name); paths < 0 {
			return nil, refused("lists paths of more bytes than are allowed; see MaxPathBytes in file.Options")
		}
		all = append(all, l)
	}
	if lines.Err() == bufio.ErrTooLong {
		return nil, fmt.Errorf("line %d is longer than %d bytes", n+1, maxSumLine)
	}
	return all, lines.Err()
}

// sumOf hashes the file at p, and refuses a file that changes meanwhile.
func sumOf(ctx context.Context, job *courier.Context, p place, h hash.Hash) (sum string, size int64, err error) {
	f, from, err := p.source(job)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	size = from.Size()
	job.Progress(0, size, p.name)
	n, err := transfer.Copy(ctx, h, io.LimitReader(f, size+1), func(done int64) { job.Progress(done, max(size, done), p.name) })
	if err != nil {
		return "", 0, localfile.Error(p.name, err)
	}
	after, err := f.Stat()
	if err != nil {
		return "", 0, localfile.Error(p.name, err)
	}
	if n != size || localfile.Identify(after) != localfile.Identify(from) {
		return "", 0, fmt.Errorf("%q changed while it was being read: it had %d bytes, %d were read, now it has %d", p.name, size, n, after.Size())
	}
	return hex.EncodeToString(h.Sum(nil)), n, nil
}

// errRefused is matched by errors about a manifest that further attempts cannot fix.
var errRefused = errors.New("is refused")

// refused returns an error that matches errRefused and has only the given text.
func refused(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }

type refusal struct{ error }

func (r refusal) Is(target error) bool { return target == errRefused }
func (r refusal) Unwrap() error        { return r.error }
