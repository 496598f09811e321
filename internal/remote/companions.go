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
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/internal/transfer"
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
var ErrNoSidecar = courier.Permanent(errors.New("is not a file with a checksum"))

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
		return "", courier.Permanent(fmt.Errorf("it begins with %s, which is not a SHA-256", safename.Quote(word)))
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

// removeDone removes the companion of a file that is gone.
func (t *downloading) removeDone(ctx context.Context, s Server, f *remoteFile) error {
	if t.cfg.DoneFile == "" {
		return nil
	}
	return removeGone(ctx, s, DonePath(t.cfg.DoneFile, f.Remote))
}

// CheckDoneFile reports what is wrong with a value of done_file.
func CheckDoneFile(pattern courier.Pattern) error {
	switch {
	case pattern == "":
		return nil
	case pattern == "*" || len(doneName(pattern)) > 2:
		return fmt.Errorf("done_file: %s must differ from the file's name, for which one * stands, such as in *.done", safename.Quote(pattern.String()))
	}
	if err := safename.Check(strings.Join(doneName(pattern), "x")); err != nil {
		return fmt.Errorf("done_file: %w; it is the name of a file in the same directory", err)
	}
	return nil
}

// doneName returns the texts between the stars of a value of done_file. A star
// in a value that a reference has put in is none.
func doneName(pattern courier.Pattern) []string {
	parts := []string{""}
	for run, literal := range pattern.Runs() {
		more := []string{run}
		if !literal {
			more = strings.Split(run, "*")
		}
		parts[len(parts)-1] += more[0]
		parts = append(parts, more[1:]...)
	}
	return parts
}

// DonePath is the path of the companion that pattern, a value of done_file,
// gives the remote file p.
func DonePath(pattern courier.Pattern, p string) string {
	dir, name := Split(p)
	return Join(dir, strings.Join(doneName(pattern), name))
}

// IsDoneName reports whether name is one of a companion.
func IsDoneName(pattern courier.Pattern, name string) bool {
	parts := doneName(pattern)
	if len(parts) != 2 {
		return name != "" && name == pattern.String()
	}
	before, after := parts[0], parts[1]
	return len(name) > len(before)+len(after) && strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
}

// written lists the remote files that the step writes, companions included.
func (t *uploading) written() []string {
	var all []string
	for _, f := range t.files {
		all = append(all, f.Final)
		if t.cfg.Checksum == ChecksumSidecar {
			all = append(all, f.Final+SidecarSuffix)
		}
		if t.cfg.DoneFile != "" {
			all = append(all, DonePath(t.cfg.DoneFile, f.Final))
		}
	}
	return all
}

// companions writes the files with checksums and, when all is there, the done
// files.
func (t *uploading) companions(ctx context.Context, s Server) error {
	done := make(map[string]bool)
	for _, f := range t.files {
		if f.Skipped {
			continue
		}
		if t.cfg.DoneFile != "" {
			done[DonePath(t.cfg.DoneFile, f.Final)] = true
		}
		if t.cfg.Checksum != ChecksumSidecar {
			continue
		}
		_, name := Split(f.Final)
		sum, err := f.Sum(ctx, t.Job, f.Final)
		if err == nil {
			err = t.putText(ctx, s, f.Final+SidecarSuffix, SidecarText(sum, name))
		}
		if err != nil {
			return s.Fault("upload", f.Final+SidecarSuffix, err)
		}
	}
	for name := range done {
		if err := t.putText(ctx, s, name, ""); err != nil {
			return s.Fault("upload", name, err)
		}
	}
	return nil
}

// putText writes a small remote file, in place of what is there.
func (t *uploading) putText(ctx context.Context, s Server, final, text string) error {
	dir, name := Split(final)
	side := Join(dir, stepcontext.Of(t.Job).SideName(name))
	size := int64(len(text))
	m := &Meter{Job: t.Job, Item: final, Total: size}
	if _, err := s.Store(ctx, Storing{Path: side, Content: strings.NewReader(text), Size: size, Meter: m}); err != nil {
		return err
	}
	r := renaming{account: t.Account, from: side, to: final, size: size, ifExists: transfer.IfExistsOverwrite, what: "the complete file"}
	return r.run(ctx, s)
}
