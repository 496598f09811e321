// Package wildcard tells the text in a pattern that stands for itself from that in
// which wildcards count.
package wildcard

import "strings"

// Mark stands before and after literal text in a pattern.
const Mark = "\x00"

// Meta are the characters that have a meaning in a pattern.
const Meta = `*?[]{}\,-^!`

// Literal returns text in the form in which a pattern holds what was put in, with
// no wildcards in it. NUL characters are removed.
func Literal(text string) string {
	text = strings.ReplaceAll(text, Mark, "")
	if !strings.ContainsAny(text, Meta) {
		return text
	}
	return Mark + text + Mark
}
