package sheet_test

import (
	"encoding/csv"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/dashboard/internal/sheet"
)

// No cell is a formula, whatever people have called their things; what is harmless stays as it is.
func TestSafe(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "daily": "daily", "a=b": "a=b", "'quoted": "'quoted", "12.5": "12.5", "two\nlines": "two\nlines", "–": "–",
		`=cmd|' /C calc'!A0`: `'=cmd|' /C calc'!A0`, "+1": "'+1", "-2+3": "'-2+3", "@SUM(A1)": "'@SUM(A1)", " =1": "' =1", "\t=1": "'\t=1", "\tx": "'\tx", "\n=1": "'\n=1", "\u00a0=1": "'\u00a0=1",
		"＝1": "'＝1", "＠x": "'＠x", "\u202e=1": "[U+202E]=1", "\x00=1": "[U+0000]=1", "\r=1": "[U+000D]=1",
	} {
		if got := sheet.Safe(in); got != want {
			t.Errorf("%q becomes %q, and not %q", in, got, want)
		}
	}
}

// Cells come back as they were written, with quotes, commas and lines in them.
func TestBook(t *testing.T) {
	b := new(sheet.Book)
	rows := [][]string{{"Name", "Text"}, {`a "b", c`, "one\ntwo"}, {"", "x;y"}}
	for _, r := range rows {
		b.Add(r)
	}
	r := csv.NewReader(strings.NewReader(string(b.Bytes())))
	read, err := r.ReadAll()
	if err != nil || len(read) != len(rows) || !strings.Contains(string(b.Bytes()), "Name,Text\r\n") {
		t.Fatalf("%q, %v", b.Bytes(), err)
	}
	for i := range rows {
		if strings.Join(read[i], "|") != strings.Join(rows[i], "|") {
			t.Errorf("row %d is %q", i, read[i])
		}
	}
	at := time.Date(2026, 11, 29, 9, 0, 0, 0, time.FixedZone("CET", 3600))
	if got := strings.Join(sheet.Texts([]any{at, time.Time{}, 1500 * time.Millisecond, time.Duration(-1), 7, []string{"a", "b"}, "x"}), "|"); got != "2026-11-29T08:00:00Z||1.5||7|a, b|x" {
		t.Errorf("values are %q", got)
	}
	if text := new(sheet.Book).Bytes(); len(text) != 0 {
		t.Errorf("an empty one has %q", text)
	}
}
