// Package sheet writes lists as CSV (RFC 4180, UTF-8), as spreadsheets and programs read it.
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

// Text returns a value as it stands in a cell: an instant in UTC as of RFC 3339, a length of time in
// seconds, several texts with commas between them. What is zero of these, and a negative length,
// is empty.
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

// formula are the characters with which a spreadsheet takes a cell for a formula, also in the
// width of Chinese characters.
const formula = "=+-@\uff1d\uff0b\uff0d\uff20"

// Safe returns a cell that no spreadsheet takes for a formula: one that begins like a formula,
// after spaces and whatever else can't be seen, has an apostrophe in front. Characters that hide or
// turn around text are shown by their numbers, as on pages.
func Safe(cell string) string {
	text := format.Shown(cell)
	if begin := strings.TrimLeft(text, " \t\r\n\u00a0\u3000"); begin != "" && strings.ContainsRune(formula, []rune(begin)[0]) || strings.HasPrefix(text, "\t") || strings.HasPrefix(text, "\n") {
		return "'" + text
	}
	return text
}

// A Book is a text of CSV, row by row.
type Book struct {
	text bytes.Buffer
	w    *csv.Writer
}

// Add adds a row, whose cells become safe.
func (b *Book) Add(cells []string) {
	if b.w == nil {
		b.w = csv.NewWriter(&b.text)
		b.w.UseCRLF = true
	}
	safe := make([]string, len(cells))
	for i, c := range cells {
		safe[i] = Safe(c)
	}
	_ = b.w.Write(safe) // a buffer takes all
}

// Bytes returns the text.
func (b *Book) Bytes() []byte {
	if b.w != nil {
		b.w.Flush()
	}
	return b.text.Bytes()
}

// Len is about how many bytes the text has.
func (b *Book) Len() int { return b.text.Len() }
