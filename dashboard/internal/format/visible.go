package format

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible returns a page whose text shows control characters, and characters that change the
// direction of text, by their numbers. So a name can't hide a part of itself, and can't reverse the
// text beside it. Names within sentences are between quotation marks. A name that is written from
// right to left becomes a <bdi>, so that the words and figures around it keep their order.
// Attributes and text areas stay as they are, so that a form sends back the name itself. Everything
// that is not a tag is text, because html/template escapes the characters of tags in inserted
// values and in attributes. Visible does not change a page that it has already processed.
func Visible(page []byte) []byte {
	v := viewed{page: page, isolated: -1}
	for ; v.at < len(page); v.at++ {
		if v.at == v.isolated {
			v.write("</bdi>", 0)
		}
		switch b := page[v.at]; {
		case b == '<':
			v.inTag, v.tag = true, v.at
			if bytes.HasPrefix(page[v.at:], []byte("<textarea")) {
				v.at += max(0, bytes.Index(page[v.at:], []byte("</textarea>")))
			}
		case b == '>':
			v.inTag, v.text = false, v.at+1
		case v.inTag:
		case b == '&':
			v.quotation()
		case b >= ' ' && b < 0x7f || b == '\n' || b == '\t':
		default:
			if r, n := hiddenAt(page[v.at:]); n > 0 {
				v.write(fmt.Sprintf("[U+%04X]", r), n)
				v.at = v.copied - 1
			}
		}
	}
	if v.isolated == len(page) {
		v.write("</bdi>", 0)
	}
	if v.out == nil {
		return page
	}
	return append(v.out, page[v.copied:]...)
}

// Shown returns a plain text with such characters replaced by their numbers.
func Shown(text string) string {
	if !strings.ContainsFunc(text, isHidden) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if isHidden(r) {
			fmt.Fprintf(&b, "[U+%04X]", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// A viewed page is a page that Visible is processing.
type viewed struct {
	page, out []byte
	at        int // the present place
	copied    int // out has everything before it
	inTag     bool
	tag, text int // where the last tag and the text after it begin
	quoted    int // where the last quotation ends
	isolated  int // where this quotation stops being a <bdi>; -1 if there is none
}

// write adds to the result the part before the present place, and a text that replaces the next n
// bytes.
func (v *viewed) write(text string, n int) {
	v.out = append(append(v.out, v.page[v.copied:v.at]...), text...)
	v.copied = v.at + n
}

// mark is a quotation mark as html/template writes it.
var mark = []byte("&#34;")

// quotation begins a <bdi> if a quotation begins here that contains text written from right to
// left. Titles, options and drawings can't contain a <bdi>.
func (v *viewed) quotation() {
	if v.at < v.quoted || !bytes.HasPrefix(v.page[v.at:], mark) {
		return
	}
	v.quoted = v.at + quotation(v.page[v.at:])
	if !bytes.ContainsFunc(v.page[v.at:v.quoted], leftward) {
		return
	}
	before := v.page[v.tag:v.text]
	for _, tag := range []string{"<title", "<option", "<text"} {
		if bytes.HasPrefix(before, []byte(tag)) {
			return
		}
	}
	if whole := v.at == v.text && (v.quoted == len(v.page) || v.page[v.quoted] == '<'); !whole || string(before) != "<bdi>" {
		v.write("<bdi>", 0)
		v.isolated = v.quoted
	}
}

// quotation returns the length of the quotation at the beginning of a text. Within it, quotation
// marks have a backslash in front. A quotation without an end was cut off with an ellipsis, or is
// not a quotation.
func quotation(text []byte) int {
	if end := bytes.IndexByte(text, '<'); end >= 0 {
		text = text[:end]
	}
	for i := len(mark); i < len(text); i++ {
		switch {
		case text[i] == '\\':
			if i++; bytes.HasPrefix(text[i:], mark) {
				i += len(mark) - 1
			}
		case bytes.HasPrefix(text[i:], mark):
			return i + len(mark)
		}
	}
	if cut := bytes.LastIndex(text, []byte("…")); cut >= 0 {
		return cut + len("…")
	}
	return len(mark)
}

// leftward reports whether a character is of a script that is written from right to left.
func leftward(r rune) bool {
	return r >= 0x590 && r <= 0x8ff || r >= 0xfb1d && r <= 0xfdff || r >= 0xfe70 && r <= 0xfefe || r >= 0x10800 && r <= 0x10fff || r >= 0x1e800 && r <= 0x1efff
}

// hiddenAt returns the hidden character at the beginning of a text, and its length. The length is 0
// if there is none. Most text has none of the bytes with which such characters begin.
func hiddenAt(text []byte) (rune, int) {
	switch b := text[0]; {
	case b < 0x80, b == 0xc2, b == 0xd8, b == 0xe2, b == 0xef:
	default:
		return 0, 0
	}
	if r, n := utf8.DecodeRune(text); isHidden(r) {
		return r, n
	}
	return 0, 0
}

// isHidden reports whether a character is invisible and changes how other text is shown. Line
// breaks and tabs are not hidden.
func isHidden(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case r == 0x061c, r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x2069, r == 0xfeff:
		return true
	}
	return unicode.IsControl(r)
}
