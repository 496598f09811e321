// Package text has the rules for text that the engine stores and shows: what a store
// can keep, how errors are shown, and how text is shortened.
package text

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/jsontext"
)

// Max is how many bytes a text for [Check] may have.
const Max = 1000

// By returns the texts of b for [Check], with others, each given by its name and its
// text.
func By(b courier.By, more ...string) map[string]string {
	all := map[string]string{"By": b.Actor, "By.Reason": b.Reason}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// Check refuses text that no store can keep, or that is too long for a name. The keys
// are the names of the texts.
func Check(fields map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch s := fields[name]; {
		case len(s) > Max:
			return courier.Errorf(courier.ErrInvalid, "%s: has %d bytes, more than %d", name, len(s), Max)
		case !jsontext.Storable(s):
			return courier.Errorf(courier.ErrInvalid, "%s: %q contains a NUL character or text that is not valid UTF-8", name, s)
		}
	}
	return nil
}

// OfError returns the text of an error. It returns a replacement, and ok false, if the
// method Error panics, as that of a nil pointer does.
func OfError(err error) (text string, ok bool) {
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprintf("an error of type %T whose method Error panics: %v", err, p)
		}
	}()
	return err.Error(), true
}

// Plain returns the text of an error without the sentinel at its end.
func Plain(err error) string {
	s := err.Error()
	for _, sentinel := range []error{courier.ErrNotFound, courier.ErrInvalid} {
		s = strings.TrimSuffix(s, ": "+sentinel.Error())
	}
	return s
}

// MaxMessage is how many bytes of the message of an error are kept.
const MaxMessage = 8 << 10

// Valid returns text as it can be stored and shown: without NUL and invalid UTF-8. Of more
// than most bytes it returns that many and "... (cut)".
func Valid(s string, most int) string {
	if len(s) > most {
		s = s[:most] + "... (cut)"
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// Shorten returns s if it has at most n bytes. Otherwise it returns at most n bytes of
// it, followed by "...".
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n] + "..."
}

// SameJSON reports whether two values have the same JSON text.
func SameJSON(a, b any) bool {
	x, err := jsontext.Append(nil, a)
	y, err2 := jsontext.Append(nil, b)
	return err == nil && err2 == nil && string(x) == string(y)
}

// Lines returns the items of a list, each after the first on an indented line of its
// own.
func Lines(list []string) string { return strings.Join(list, "\n  ") }

// Count returns a number with a noun, which has a plural in -s, such as "2 steps".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
