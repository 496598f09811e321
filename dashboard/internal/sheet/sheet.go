// Package sheet writes lists as CSV (RFC 4180, UTF-8) for spreadsheets and programs.
package sheet

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier/dashboard/internal/format"
)

// Text returns a value as the text of a cell: an instant in UTC as in RFC 3339, a length of time in
// seconds, and several texts separated by commas. A zero value of these and a negative length are
// empty.
func Text(v any) string {
	switch v := v.(type) {
	case time.Time:
		if v.IsZero() {
			return ""
		}
		return v.UTC().Format(time.RFC3339)
	case time.Duration:
		if v < 0 {
			return ""
		}
		return strconv.FormatFloat(v.Seconds(), 'f', -1, 64)
	case []string:
		return strings.Join(v, ", ")
	}
	return fmt.Sprint(v)
}

// Texts returns the cells of a row.
func Texts(row []any) []string {
	cells := make([]string, len(row))
	for i, v := range row {
		cells[i] = Text(v)
	}
	return cells
}

// formula has the characters that make a spreadsheet take a cell for a formula, also in their
// full-width forms.
const formula = "=+-@\uff1d\uff0b\uff0d\uff20"

// Safe returns a cell that no spreadsheet takes for a formula. If the cell begins like a formula,
// after spaces and other invisible characters, an apostrophe is added in front. Characters that
// hide or reverse text are shown by their numbers, as on pages.
func Safe(cell string) string {
	text := format.Shown(cell)
	if begin := strings.TrimLeft(text, " \t\r\n\u00a0\u3000"); begin != "" && strings.ContainsRune(formula, []rune(begin)[0]) || strings.HasPrefix(text, "\t") || strings.HasPrefix(text, "\n") {
		return "'" + text
	}
	return text
}

// A Book is a CSV text that is written row by row.
type Book struct {
	text bytes.Buffer
	w    *csv.Writer
}

// Add adds a row, and makes its cells safe.
func (b *Book) Add(cells []string) {
	if b.w == nil {
		b.w = csv.NewWriter(&b.text)
		b.w.UseCRLF = true
	}
	safe := make([]string, len(cells))
	for i, c := range cells {
		safe[i] = Safe(c)
	}
	_ = b.w.Write(safe) // writing to a buffer can't fail
}

// Bytes returns the text.
func (b *Book) Bytes() []byte {
	if b.w != nil {
		b.w.Flush()
	}
	return b.text.Bytes()
}

// Len returns the approximate length of the text in bytes.
func (b *Book) Len() int { return b.text.Len() }
