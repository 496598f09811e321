package filter

import (
	"slices"
	"strings"
	"unicode"
)

// TextGrammar describes what [ParseText] reads.
const TextGrammar = `Rows that have every word, and no word with a minus sign: acme -heartbeat. Case is ignored. Put words that belong together in quotes: -"no route".`

// A Text selects rows of a list by their visible text. The zero value selects all.
type Text struct{ with, without []string }

// ParseText reads a text filter; see [TextGrammar]. An unclosed quotation mark stands for itself.
func ParseText(text string) (t Text) {
	var p parser
	words := slices.Collect(p.split(text, unicode.IsSpace))
	if len(p.problems) > 0 {
		words = words[:0]
		for _, w := range strings.Fields(text) {
			words = append(words, word{text: w})
		}
	}
	for _, w := range words {
		list, part := &t.with, strings.ToLower(w.text)
		if w.index('-') == 0 {
			list, part = &t.without, part[1:]
		}
		if part != "" {
			*list = append(*list, part)
		}
	}
	return t
}

// Empty reports whether the filter selects all rows.
func (t *Text) Empty() bool { return len(t.with)+len(t.without) == 0 }

// Selects reports whether the filter selects a row with the given cells.
func (t *Text) Selects(cells []string) bool {
	lower := make([]string, len(cells))
	for i, c := range cells {
		lower[i] = strings.ToLower(c)
	}
	in := func(part string) bool {
		return slices.ContainsFunc(lower, func(c string) bool { return strings.Contains(c, part) })
	}
	return !slices.ContainsFunc(t.with, func(part string) bool { return !in(part) }) && !slices.ContainsFunc(t.without, in)
}

// TextOf returns the filter that selects the rows that contain exactly the given text.
func TextOf(text string) string { return inQuotes(text) }
