package redact

import (
	"cmp"
	"html"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A matcher finds needles in a text, and in what is left of it without escapes,
// where the needles have none either.
type matcher struct{ raw, bare scanner }

func newMatcher(list []needle) *matcher {
	m := new(matcher)
	list = slices.Clone(list)
	m.raw.add(list)
	for i := range list {
		if n := &list[i]; n.form == plain {
			n.text = newBare(n.text, false).text
		}
	}
	m.bare.add(slices.DeleteFunc(list, func(n needle) bool { return len(n.text) < minSecret }))
	return m
}

// A span is where a needle was found.
type span struct {
	start, end int
	name       string
}

// redact replaces what it finds. Secrets that overlap are replaced by the name
// of the first.
func (m *matcher) redact(text string) string {
	spans := m.raw.scan(text, nil)
	if strings.ContainsAny(text, introducers) {
		if found := m.bare.scan(newBare(text, false).text, nil); len(found) > 0 {
			b := newBare(text, true)
			for _, s := range found {
				spans = append(spans, span{b.origin(s.start, false), b.origin(s.end, true), s.name})
			}
		}
	}
	if len(spans) == 0 {
		return text
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end)) })
	var out strings.Builder
	done := 0
	for _, s := range spans {
		if s.start >= done {
			out.WriteString(text[done:s.start])
			out.WriteString("[secret " + s.name + "]")
		}
		done = max(done, s.end)
	}
	out.WriteString(text[done:])
	return out.String()
}

// find returns the name of a secret that is there for sure.
func (m *matcher) find(text string) string {
	if name := m.raw.first(text); name != "" || !strings.ContainsAny(text, introducers) {
		return name
	}
	return m.bare.first(newBare(text, false).text)
}

// A scanner finds needles in a text that is taken as it is.
type scanner struct {
	starts  [1 << 10]uint64 // a bit for the hash of each three bytes with which something may begin
	needles [256][]*needle  // by bucket, the longest first
}

// next returns the next place at which something may begin, from at on, and
// what; the place is -1 if there is none.
func (s *scanner) next(text string, at int) (int, []*needle) {
	if at+2 >= len(text) {
		return -1, nil
	}
	h := hash(hash(0, text[at]), text[at+1])
	for i := at + 2; i < len(text); i++ {
		h = hash(h, text[i])
		if s.starts[h>>6]>>(h&63)&1 != 0 {
			if list := s.needles[bucketOf(text[i-2], text[i-1])]; list != nil {
				return i - 2, list
			}
		}
	}
	return -1, nil
}

// hash adds a byte to a hash of the last three.
func hash(h uint16, b byte) uint16 { return h<<6 ^ uint16(b) }

func bucketOf(a, b byte) byte { return a*31 + b }

func (s *scanner) add(list []needle) {
	sorted := make([]*needle, len(list))
	for i := range list {
		n := list[i]
		if n.form == plain {
			n.text = strings.ReplaceAll(n.text, "+", " ")
		}
		sorted[i] = &n
	}
	slices.SortStableFunc(sorted, func(a, b *needle) int { return cmp.Compare(len(b.text), len(a.text)) })
	for _, n := range sorted {
		seconds, thirds := n.form.variants(n.text[1]), n.form.variants(n.text[2])
		switch n.form {
		case base: // a line may end after any character
			thirds = append(append(thirds, seconds...), '\r', '\n')
			seconds = append(seconds, '\r', '\n')
		case digits:
			thirds = append(thirds, ' ', ':')
		}
		for _, a := range n.form.variants(n.text[0]) {
			for _, b := range seconds {
				for _, c := range thirds {
					h := hash(hash(hash(0, a), b), c)
					s.starts[h>>6] |= 1 << (h & 63)
				}
				bucket := &s.needles[bucketOf(a, b)]
				*bucket = append(*bucket, n)
			}
		}
	}
}

// variants are the bytes that stand for c.
func (f form) variants(c byte) []byte {
	switch {
	case f == plain && c == ' ', f == base && c == '+':
		return []byte{c, '+', '-'}[:2+f]
	case f == base && c == '/':
		return []byte("/_")
	case f == digits && c >= 'a':
		return []byte{c, c - 'a' + 'A'}
	}
	return []byte{c}
}

// scan appends where needles are, or their beginnings before dots.
func (s *scanner) scan(text string, spans []span) []span {
	for at, list := s.next(text, 0); at >= 0; at, list = s.next(text, at+1) {
		end := 0
		var found *needle
		for _, n := range list {
			if e := n.match(text, at, true); e > end {
				found, end = n, e
			}
		}
		if found != nil {
			start, end := found.extend(text, at, end)
			spans = append(spans, span{start, end, found.name})
		}
	}
	return spans
}

// first returns the name of the first secret that is there for sure.
func (s *scanner) first(text string) string {
	for at, list := s.next(text, 0); at >= 0; at, list = s.next(text, at+1) {
		for _, n := range list {
			if n.sure && n.match(text, at, false) > 0 {
				return n.name
			}
		}
	}
	return ""
}

// match returns where the needle ends that begins at a place; 0 if it doesn't.
// With cut set a beginning of it before dots will do.
func (n *needle) match(text string, at int, cut bool) int {
	i := 0
	for ; i < len(n.text) && at < len(text); at++ {
		b, want := text[at], n.text[i]
		switch {
		case b == want:
		case n.form == plain && b == '+' && want == ' ':
		case n.form == base && (b == '-' && want == '+' || b == '_' && want == '/'):
		case n.form == digits && b|0x20 == want && want >= 'a':
		case n.form == base && i > 0 && (b == '\r' || b == '\n'), n.form == digits && i > 0 && i%2 == 0 && (b == ' ' || b == ':'):
			continue
		default:
			if least := []int{plain: minSecret, base: minEncodedCut, digits: minEncodedCut}[n.form]; !cut || i < least || !isCut(text[at:]) && (strings.IndexByte(introducers, text[at-1]) < 0 || !isCut(text[at-1:])) {
				return 0
			}
			return at
		}
		i++
	}
	if i < len(n.text) {
		return 0
	}
	return at
}

// extend adds the characters of base64 that hold bits of the secret too, and the
// padding.
func (n *needle) extend(text string, start, end int) (int, int) {
	if n.form != base {
		return start, end
	}
	if n.head && start > 0 && isBase64(text[start-1]) {
		start--
	}
	if n.tail && end < len(text) && isBase64(text[end]) {
		end++
	}
	for end < len(text) && text[end] == '=' {
		end++
	}
	return start, end
}

func isBase64(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("+/-_", c) >= 0
}

// isCut reports whether text begins with dots that stand for what is missing,
// perhaps after half an escape and the end of what is in quotes.
func isCut(text string) bool {
	const most = 24
	rest := text[:min(len(text), most)]
	if whole := strings.TrimPrefix(strings.TrimPrefix(rest, "\uFFFD"), `\ufffd`); whole != rest {
		rest = whole
	} else if strings.IndexByte(introducers, rest[0]) >= 0 {
		rest = strings.TrimLeftFunc(rest[1:], func(r rune) bool { return isBase64(byte(min(r, utf8.RuneSelf))) || r == '#' })
	}
	rest = strings.TrimLeft(rest, "\\\"'`")
	return strings.HasPrefix(rest, "...") || strings.HasPrefix(rest, "\u2026")
}

// introducers are the characters with which escapes begin.
const introducers = `\%&`

// maxLayers is how often a text may have been escaped.
const maxLayers = 5

// A bare text is one without its escapes, those of other escapes included.
type bare struct {
	text   string
	layers [][]piece // of each text before it, in order
}

// A piece is an escape: where it was and is, and how long.
type piece struct{ origin, size, at, width int }

// newBare returns a text without escapes, and with where each was only if that
// is asked for.
func newBare(text string, layers bool) bare {
	b := bare{text: text}
	for range maxLayers {
		next, pieces := unescapeOnce(b.text, layers)
		if next == b.text {
			break
		}
		b.text, b.layers = next, append(b.layers, pieces)
	}
	return b
}

// origin returns the place in the text with escapes at which what is at a place
// without them begins, or what is before it ends.
func (b *bare) origin(at int, end bool) int {
	for _, pieces := range slices.Backward(b.layers) {
		i, _ := slices.BinarySearchFunc(pieces, at, func(p piece, at int) int {
			if p.at < at || p.at == at && !end {
				return -1
			}
			return 1
		})
		if i == 0 {
			continue // there is no escape before it
		}
		p := pieces[i-1]
		switch inside := at - p.at; {
		case inside >= p.width && (inside > 0 || p.width == 0 && !end || end):
			at = p.origin + p.size + inside - p.width
		case end:
			at = p.origin + p.size
		default:
			at = p.origin
		}
	}
	return at
}

// introduced is where each of the introducers comes next in a text.
type introduced [len(introducers)]int

// next returns the place of the first introducer from at on, or the text's length.
func (in *introduced) next(text string, at int) int {
	first := len(text)
	for i := range in {
		if in[i] < at {
			in[i] = len(text)
			if n := strings.IndexByte(text[at:], introducers[i]); n >= 0 {
				in[i] = at + n
			}
		}
		first = min(first, in[i])
	}
	return first
}

// unescapeOnce resolves the escapes of a text.
func unescapeOnce(text string, keep bool) (string, []piece) {
	var out strings.Builder
	var pieces []piece
	done := 0
	coming := introduced{-1, -1, -1}
	for at := coming.next(text, 0); at < len(text); {
		b, size := unescapeAt(text[at:])
		if b != text[at:at+size] {
			if done == 0 {
				out.Grow(len(text))
			}
			out.WriteString(text[done:at])
			if keep {
				pieces = append(pieces, piece{at, size, out.Len(), len(b)})
			}
			out.WriteString(b)
			done = at + size
		}
		at = coming.next(text, at+size)
	}
	if done == 0 {
		return text, nil
	}
	out.WriteString(text[done:])
	return out.String(), pieces
}

// unescapeAt returns what the escape at the beginning of text stands for, and
// its size. It is taken as it is if it is none.
func unescapeAt(text string) (b string, size int) {
	switch text[0] {
	case '\\':
		return unescapeSlash(text)
	case '%':
		if len(text) >= 3 {
			if v, err := strconv.ParseUint(text[1:3], 16, 8); err == nil {
				return string([]byte{byte(v)}), 3
			}
		}
	case '&':
		const longest = 12 // of the usual entities
		if end := strings.IndexByte(text[:min(len(text), longest)], ';'); end > 0 {
			return html.UnescapeString(text[:end+1]), end + 1
		}
	}
	return text[:1], 1
}

// unescapeSlash is unescapeAt for a backslash. As many as there are count as
// one, since escaping doubles them, and it is left out unless something follows
// that looks like half an escape.
func unescapeSlash(text string) (b string, size int) {
	at := 1
	for at < len(text) && text[at] == '\\' {
		at++
	}
	if at == len(text) {
		return "", at
	}
	const letters, meanings = "abfnrtv", "\a\b\f\n\r\t\v"
	c := text[at]
	if i := strings.IndexByte(letters, c); i >= 0 {
		return meanings[i : i+1], at + 1
	}
	width, base, from := 0, 16, at+1
	switch {
	case c == 'x':
		width = 2
	case c == 'u':
		width = 4
	case c == 'U':
		width = 8
	case c >= '0' && c <= '3':
		width, base, from = 3, 8, at
	default:
		_, n := utf8.DecodeRuneInString(text[at:])
		return text[at : at+n], at + n
	}
	if len(text) < from+width {
		return `\`, at
	}
	v, err := strconv.ParseUint(text[from:from+width], base, 32)
	end := from + width
	switch {
	case err != nil:
		return `\`, at
	case width < 4:
		return string([]byte{byte(v)}), end
	case !utf16.IsSurrogate(rune(v)):
		return string(rune(v)), end
	}
	low := strings.TrimLeft(text[end:], `\`)
	if len(low) > 4 && low[0] == 'u' {
		w, _ := strconv.ParseUint(low[1:5], 16, 32)
		if r := utf16.DecodeRune(rune(v), rune(w)); r != utf8.RuneError {
			return string(r), len(text) - len(low) + 5
		}
	}
	return `\`, at
}
