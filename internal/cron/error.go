package cron

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A ParseError says what is wrong with an expression, and where.
type ParseError struct {
	Expression string // as given
	Offset     int    // of the first byte that is wrong; the length of Expression if something is missing at the end
	Problem    string // what is wrong, such as `hours are 0 to 23`
	Hint       string // what was probably meant, such as `did you mean "0"?`; may be empty
}

// Column returns the position of the wrong character, in characters from 1.
func (e *ParseError) Column() int {
	return utf8.RuneCountInString(e.Expression[:e.Offset]) + 1
}

// Error returns the error in one line, with at most 100 bytes of the expression.
func (e *ParseError) Error() string {
	s := fmt.Sprintf("cron expression %q, column %d: %s", shown(e.Expression), e.Column(), e.Problem)
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// shown shortens a text that is too long for a message.
func shown(s string) string {
	const most = 100
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

// Caret returns two lines for a terminal: the expression, and a "^" below the wrong character. Of
// a long expression it shows only the part around that character. Characters that would move the
// cursor are shown as "?".
func (e *ParseError) Caret() string {
	const before, after = 60, 20
	line := []rune(strings.Map(printable, e.Expression))
	column := e.Column() - 1
	start, end := max(0, column-before), min(len(line), column+after)
	return string(line[start:end]) + "\n" + strings.Repeat(" ", column-start) + "^"
}

// printable returns r if it takes one column, and otherwise a replacement.
func printable(r rune) rune {
	switch {
	case r == '\t':
		return ' '
	case r < ' ' || r > '~':
		return '?'
	}
	return r
}
