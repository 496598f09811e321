// Package errtext words what errors have in common: text of any length that is quoted in
// a message, and lists of problems.
package errtext

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Shorten returns s if it has at most n bytes. Otherwise it returns at most n bytes of it,
// without invalid UTF-8, followed by "...".
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

// MaxListed is the number of problems that a message spells out, so that a list of
// 100,000 bad steps makes a message that people can read.
const MaxListed = 20

// Lines returns the problems as lines, each after the first indented. It counts those
// after the first [MaxListed].
func Lines[P fmt.Stringer](list []P) string {
	lines := make([]string, 0, MaxListed+1)
	for i, p := range list {
		if i == MaxListed {
			lines = append(lines, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n  ")
}

// Refused returns the message of an operation, such as "define job", that was refused
// because of problems. The name may be empty. The note, if not empty, follows the number
// of several problems.
func Refused[P fmt.Stringer](operation, name, note string, list []P) string {
	var b strings.Builder
	b.WriteString(operation)
	if name != "" {
		fmt.Fprintf(&b, " %q", Shorten(name, 200))
	}
	b.WriteString(": ")
	if len(list) > 1 {
		fmt.Fprintf(&b, "%d problems%s:\n  ", len(list), note)
	}
	b.WriteString(Lines(list))
	return b.String()
}

// NothingSaved is the note for [Refused] of an operation that saves something if it
// succeeds.
const NothingSaved = " (nothing was saved)"

// Name says what is wrong with the name of a schedule or a monitor. It returns an empty
// text if nothing is.
func Name(name string) string {
	const most = 200
	switch {
	case name == "":
		return "it is missing"
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Sprintf("%q has control characters, or is not valid UTF-8", Shorten(name, most))
	case utf8.RuneCountInString(name) > most:
		return fmt.Sprintf("it has %d characters, more than %d", utf8.RuneCountInString(name), most)
	}
	return ""
}
