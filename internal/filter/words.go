package filter

import (
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A word is a part of a text without its quotes. Quoted characters stand for themselves.
type word struct {
	text   string
	quoted []bool // of each byte; nil if none was
}

// index returns the first index of an unquoted byte; -1 if there is none.
func (w word) index(c byte) int {
	for i := range len(w.text) {
		if w.text[i] == c && (w.quoted == nil || !w.quoted[i]) {
			return i
		}
	}
	return -1
}

// cut is like [strings.Cut], at an unquoted byte.
func (w word) cut(c byte) (before, after word, ok bool) {
	i := w.index(c)
	if i < 0 {
		return w, word{}, false
	}
	before, after = word{text: w.text[:i]}, word{text: w.text[i+1:]}
	if w.quoted != nil {
		before.quoted, after.quoted = w.quoted[:i], w.quoted[i+1:]
	}
	return before, after, true
}

// list returns the parts between unquoted commas.
func (w word) list() (parts []string) {
	for {
		part, rest, ok := w.cut(',')
		if parts = append(parts, part.text); !ok {
			return parts
		}
		w = rest
	}
}

// String returns the word in the form in which it is written in a filter.
func (w word) String() string {
	if slices.Contains(w.quoted, true) {
		return inQuotes(w.text)
	}
	return w.text
}

// Literal returns the meaning of a text that is completely in quotes; ok is false for any other
// text.
func Literal(text string) (name string, ok bool) {
	words := slices.Collect(new(parser).split(text, func(rune) bool { return false }))
	if len(words) != 1 || slices.Contains(words[0].quoted, false) {
		return text, false
	}
	return words[0].text, true
}

// split returns the words of a text, without their quotes. It reads only as far as words are
// taken.
func (p *parser) split(from string, space func(rune) bool) iter.Seq[word] {
	return func(yield func(word) bool) { p.words(from, space, yield) }
}

func (p *parser) words(from string, space func(rune) bool, yield func(word) bool) {
	var text []byte
	var literal []bool
	in, quoted, escaped := false, false, false
	add := func(r rune) {
		n := len(text)
		text = utf8.AppendRune(text, r)
		for range text[n:] {
			literal = append(literal, quoted)
		}
		in = true
	}
	end := func() bool {
		w, any := word{string(text), slices.Clone(literal)}, in
		text, literal, in = text[:0], literal[:0], false
		return !any || yield(w)
	}
	for _, r := range from {
		switch {
		case escaped:
			add(r)
			escaped = false
		case quoted && r == '\\':
			escaped = true
		case r == '"':
			quoted, in = !quoted, true
		case !quoted && space(r):
			if !end() {
				return
			}
		default:
			add(r)
		}
	}
	if quoted {
		p.problem("a quote is not closed")
		return
	}
	end()
}

// Quote returns a value in the form in which it is written in a filter. It is in quotes if any of
// its characters would have a special meaning without them.
func Quote(value string) string {
	special := func(r rune) bool {
		return strings.ContainsRune(`"*=,`, r) || unicode.IsSpace(r) || unicode.IsControl(r)
	}
	if value != "" && !strings.ContainsFunc(value, special) {
		return value
	}
	return inQuotes(value)
}

func inQuotes(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}
