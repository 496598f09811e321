package courier

import (
	"iter"
	"strings"
)

// A Pattern is a string of a configuration in which wildcards may stand, such
// as "in/*.csv". Wildcards count only where they stand in the definition's own
// text: what a reference or a secret has put in is literal, so that a file
// called "*" stands for itself.
//
// A step type that takes patterns declares their fields with this type, or as a
// list of it. In a definition they are plain strings. A constant converts to a
// Pattern as it is; see [Literal] for text that a program puts in.
//
// Values that contain characters of patterns are kept between NUL characters,
// which no definition and no value can contain. So a Pattern that is used as if
// it were a path, without String, names no file.
type Pattern string

// patternMark stands before and after literal text.
const patternMark = "\x00"

// patternMeta are the characters that have a meaning in a pattern.
const patternMeta = `*?[]{}\,-^!`

// Literal returns text in the form in which a [Pattern] holds what was put in,
// with no wildcards in it. NUL characters are removed.
func Literal(text string) string {
	text = strings.ReplaceAll(text, patternMark, "")
	if !strings.ContainsAny(text, patternMeta) {
		return text
	}
	return patternMark + text + patternMark
}

// String returns the text with everything that was put in, as a path or as the
// pattern that the whole of it would be.
func (p Pattern) String() string { return strings.ReplaceAll(string(p), patternMark, "") }

// Runs returns the text in pieces, and whether each of them is literal.
func (p Pattern) Runs() iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		literal := false
		for run := range strings.SplitSeq(string(p), patternMark) {
			if run != "" && !yield(run, literal) {
				return
			}
			literal = !literal
		}
	}
}

// ContainsAny reports whether one of the characters stands where it is not
// literal.
func (p Pattern) ContainsAny(chars string) bool {
	for run, literal := range p.Runs() {
		if !literal && strings.ContainsAny(run, chars) {
			return true
		}
	}
	return false
}

// Escaped returns the pattern in the syntax of path.Match and its extensions by
// ** and {a,b}, with a backslash before each literal character that has a meaning
// there.
func (p Pattern) Escaped() string {
	var b strings.Builder
	for run, literal := range p.Runs() {
		for _, c := range []byte(run) {
			if literal && strings.IndexByte(patternMeta, c) >= 0 {
				b.WriteByte('\\')
			}
			b.WriteByte(c)
		}
	}
	return b.String()
}
