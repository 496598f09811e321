package file

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/courierhq/courier/internal/localfile"
)

// ManifestFormat is the format of the manifest of a split file.
type ManifestFormat string

// The formats. The empty ManifestFormat means ManifestJSON.
const (
	ManifestJSON ManifestFormat = "json"
	ManifestText ManifestFormat = "text" // lines of sha256sum, each after a comment with the size
)

// UnmarshalText refuses everything but the two values.
func (f *ManifestFormat) UnmarshalText(text []byte) error {
	return oneOf(f, string(text), "", ManifestJSON, ManifestText)
}

// name returns the manifest's name for the file called base.
func (f ManifestFormat) name(base string) string {
	if f == ManifestText {
		return base + ".sha256"
	}
	return base + ".manifest.json"
}

// A splitManifest lists the parts of a file.
type splitManifest struct {
	Name   string      `json:"name"`
	Size   int64       `json:"size"`
	SHA256 string      `json:"sha256"`
	Parts  []splitPart `json:"parts"`
}

// A splitPart is a part of a file.
type splitPart struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// sizeComment begins the comment that states the size of the next file.
const sizeComment = "# size "

// encode writes the manifest. In text format, the whole file comes first.
func (f ManifestFormat) encode(m splitManifest) ([]byte, error) {
	if f != ManifestText {
		b, err := json.MarshalIndent(m, "", "  ")
		return append(b, '\n'), err
	}
	var b bytes.Buffer
	for _, p := range append([]splitPart{{m.Name, m.Size, m.SHA256}}, m.Parts...) {
		fmt.Fprintf(&b, "%s%d\n%s", sizeComment, p.Size, sumLine{p.SHA256, p.Name})
	}
	return b.Bytes(), nil
}

// readSplitManifest reads a manifest in either format and checks that it is
// consistent.
func readSplitManifest(ctx context.Context, r io.Reader, limits Limits) (m splitManifest, err error) {
	most := 64<<10 + 1024*int64(limits.MaxFiles)
	text, err := io.ReadAll(io.LimitReader(r, most+1))
	switch {
	case err != nil:
		return m, err
	case int64(len(text)) > most:
		return m, refused("is larger than %d bytes, which %d parts don't need; see MaxFiles in file.Options", most, limits.MaxFiles)
	}
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '{' {
		if err := m.decode(text, limits); err != nil {
			return m, err
		}
	} else if m, err = parseSplitText(ctx, text, limits); err != nil {
		return m, err
	}
	return m, m.check(limits)
}

// decode reads the JSON format. Parts are counted while they are read: a part
// takes three bytes of text, and twenty times as much memory.
func (m *splitManifest) decode(text []byte, limits Limits) error {
	raw := struct {
		*splitManifest
		Parts json.RawMessage `json:"parts"`
	}{splitManifest: m}
	if err := json.Unmarshal(text, &raw); err != nil {
		return fmt.Errorf("is damaged or incomplete: %w", err)
	}
	if len(raw.Parts) == 0 || string(raw.Parts) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw.Parts))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return errors.New("is damaged or incomplete: parts is not a list")
	}
	for d.More() {
		if len(m.Parts) == limits.MaxFiles {
			return refused("lists more than %d parts, which are allowed; see MaxFiles in file.Options", limits.MaxFiles)
		}
		var p splitPart
		if err := d.Decode(&p); err != nil {
			return fmt.Errorf("is damaged or incomplete: %w", err)
		}
		m.Parts = append(m.Parts, p)
	}
	return nil
}

// parseSplitText reads the text format.
func parseSplitText(ctx context.Context, text []byte, limits Limits) (m splitManifest, err error) {
	if len(text) > 0 && text[len(text)-1] != '\n' {
		return m, errors.New("is incomplete: its last line has no end")
	}
	var sizes []int64
	lines, err := readSums(ctx, bytes.NewReader(text), limits.MaxFiles+1, limits.MaxPathBytes, func(comment string) error {
		digits, ok := strings.CutPrefix(comment, sizeComment)
		if !ok {
			return nil
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		sizes = append(sizes, n)
		if err != nil {
			return errors.New("has no size")
		}
		return nil
	})
	if err != nil {
		return m, err
	}
	if len(lines) < 2 || len(sizes) != len(lines) {
		return m, fmt.Errorf("has %d files and %d sizes; the file and at least one part must be there, each with a size", len(lines), len(sizes))
	}
	m = splitManifest{Name: lines[0].name, Size: sizes[0], SHA256: lines[0].sum}
	for i, l := range lines[1:] {
		m.Parts = append(m.Parts, splitPart{l.name, sizes[i+1], l.sum})
	}
	return m, nil
}

// check refuses a manifest whose parts cannot be joined.
func (m *splitManifest) check(limits Limits) error {
	if len(m.Parts) == 0 {
		return errors.New("lists no parts")
	}
	if len(m.Parts) > limits.MaxFiles {
		return refused("lists %d parts; %d are allowed, see MaxFiles in file.Options", len(m.Parts), limits.MaxFiles)
	}
	if m.Size > limits.MaxEntryBytes {
		return refused("is for a file of %d bytes; %d are allowed, see MaxEntryBytes in file.Options", m.Size, limits.MaxEntryBytes)
	}
	var total int64
	for _, p := range append([]splitPart{{m.Name, m.Size, m.SHA256}}, m.Parts...) {
		if err := checkPartName(p.Name); err != nil {
			return refused("has the name %q, which %w", localfile.Shorten(p.Name), err)
		}
		if a, ok := algorithmOf(p.SHA256); !ok || a != SHA256 {
			return refused("has no SHA-256 for %q", localfile.Shorten(p.Name))
		}
		if p.Size < 0 || p.Size > m.Size {
			return refused("says that %q has %d bytes of %d", localfile.Shorten(p.Name), p.Size, m.Size)
		}
		total += p.Size
	}
	if total != 2*m.Size {
		return refused("has parts of %d bytes for a file of %d", total-m.Size, m.Size)
	}
	return nil
}
