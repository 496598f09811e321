package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
)

// The values of checksum.
const (
	ChecksumNone     = "none"
	ChecksumReadBack = "read_back"
	ChecksumSidecar  = "sidecar"
)

// SidecarSuffix is added to the name of a file for that with its checksum.
const SidecarSuffix = ".sha256"

// MaxSidecar is how many bytes a file with a checksum may have.
const MaxSidecar = 4 << 10

// ErrNoSidecar is the error of what can't be a file with a checksum.
var ErrNoSidecar = courier.Permanent(errors.New("is no file with a checksum"))

// CheckSidecar compares a local file of so many bytes with the checksum at the
// beginning of text, which is the content of the remote file called sidecar.
func CheckSidecar(ctx context.Context, sidecar, text string, src io.ReaderAt, size int64, beat func()) error {
	want, err := parseSidecar(text)
	if err != nil {
		return fmt.Errorf("checksum in %s: %w", safename.Quote(sidecar), err)
	}
	got, err := Sum(ctx, src, size, beat)
	if err == nil && got != want {
		err = fmt.Errorf("the content has the SHA-256 %s, but %s says %s", got, safename.Quote(sidecar), want)
	}
	return err
}

// parseSidecar returns the checksum at the beginning of text, in small letters.
func parseSidecar(text string) (string, error) {
	word := text
	if i := strings.IndexAny(word, " \t\r\n"); i >= 0 {
		word = word[:i]
	}
	word = strings.ToLower(strings.TrimPrefix(word, `\`)) // sha256sum marks names that it has escaped
	if b, err := hex.DecodeString(word); err != nil || len(b) != sha256.Size {
		return "", courier.Permanent(fmt.Errorf("it begins with %s, which is no SHA-256", safename.Quote(word)))
	}
	return word, nil
}

// SidecarText is the content of the file with the checksum of the file called
// name, as sha256sum writes it.
func SidecarText(sum, name string) string { return sum + "  " + name + "\n" }

// Sum returns the SHA-256 of the first size bytes of a local file, in hexadecimal
// digits. It calls beat now and then.
func Sum(ctx context.Context, src io.ReaderAt, size int64, beat func()) (string, error) {
	h := sha256.New()
	buf := make([]byte, 256<<10)
	for off := int64(0); off < size; {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		n, err := src.ReadAt(buf[:min(int64(len(buf)), size-off)], off)
		if n == 0 && err != nil {
			return "", fmt.Errorf("local file: %w", err)
		}
		h.Write(buf[:n])
		off += int64(n)
		beat()
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
