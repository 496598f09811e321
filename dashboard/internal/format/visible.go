package format

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// Visible returns a page in whose text control characters, and those that change the
// direction of what follows, are shown by their numbers: a name can neither hide a part of
// itself nor turn around what stands beside it. Attributes and text areas stay as they are, so
// that a form sends back the name itself. Text between tags is all that is no tag:
// html/template escapes the signs of tags in what it inserts, and in attributes too.
func Visible(page []byte) []byte {
	var out []byte
	tag, copied := false, 0
	for i := 0; i < len(page); i++ {
		switch b := page[i]; {
		case b == '<':
			tag = true
			if bytes.HasPrefix(page[i:], []byte("<textarea")) {
				i += max(0, bytes.Index(page[i:], []byte("</textarea>")))
			}
		case b == '>':
			tag = false
		case tag || b >= ' ' && b < 0x7f || b == '\n' || b == '\t':
		default:
			if r, n := hiddenAt(page[i:]); n > 0 {
				out = append(out, page[copied:i]...)
				out = fmt.Appendf(out, "[U+%04X]", r)
				copied = i + n
				i = copied - 1
			}
		}
	}
	if out == nil {
		return page
	}
	return append(out, page[copied:]...)
}

// hiddenAt returns the character that a text begins with, and its length, if it can't be
// seen and changes what is seen; the length is 0 otherwise. Most text has none of the bytes
// that such characters begin with.
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

// isHidden reports whether a character can't be seen and changes what is seen. Line breaks
// and tabs are seen.
func isHidden(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case r == 0x061c, r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x2069, r == 0xfeff:
		return true
	}
	return unicode.IsControl(r)
}
