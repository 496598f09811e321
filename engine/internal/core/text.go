package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/jsontext"
)

// MaxText is how many bytes a name of somebody or something may have.
const MaxText = 1000

// Texts returns the texts of who and why for [CheckText], with others, each given
// by its name and its text.
func Texts(b courier.By, more ...string) map[string]string {
	all := map[string]string{"By": b.Actor, "By.Reason": b.Reason}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// CheckText refuses text that no store can keep, or that is no name. The keys are
// the names of the texts.
func CheckText(fields map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch s := fields[name]; {
		case len(s) > MaxText:
			return courier.Errorf(courier.ErrInvalid, "%s: has %d bytes, more than %d", name, len(s), MaxText)
		case !utf8.ValidString(s) || strings.ContainsRune(s, 0):
			return courier.Errorf(courier.ErrInvalid, "%s: %q contains a NUL character or text that is not valid UTF-8", name, s)
		}
	}
	return nil
}

// ErrorText is the text of an error; ok is false if the error has none of its
// own, since its method panics, as that of a nil pointer does.
func ErrorText(err error) (text string, ok bool) {
	defer func() {
		if p := recover(); p != nil {
			text = fmt.Sprintf("an error of type %T whose method Error panics: %v", err, p)
		}
	}()
	return err.Error(), true
}

// PlainMessage is the message of an error without the sentinel at its end.
func PlainMessage(err error) string {
	text := err.Error()
	for _, sentinel := range []error{courier.ErrNotFound, courier.ErrInvalid} {
		text = strings.TrimSuffix(text, ": "+sentinel.Error())
	}
	return text
}

// Shortened is at most n bytes of s, and "..." where that is not all of it.
func Shortened(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n] + "..."
}

// A Redactor knows the secrets that somebody has used. All text that leaves a step,
// a lister or a delivery goes through one of its methods, before it is cut. The
// zero value knows none and is ready to use; it may be used by several goroutines.
type Redactor struct{ courier.Redactor }

// Clean returns text without secrets, to be shown or logged.
func (d *Redactor) Clean(s string) string { return d.Redact(s) }

// CleanError returns err with a text without secrets; errors.Is and errors.As see
// the original.
func (d *Redactor) CleanError(err error) error {
	text, ok := ErrorText(err)
	if clean := d.Clean(text); !ok || clean != text {
		return &redactedError{clean, err}
	}
	return err
}

type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }

// maxMessage is how many bytes of an error are kept.
const maxMessage = 8 << 10

// Message is the text of an error as it can be stored and shown: without
// secrets, NUL and invalid UTF-8, and not too long.
func (d *Redactor) Message(err error) string {
	text, _ := ErrorText(err)
	s := d.Clean(text)
	if len(s) > maxMessage {
		s = s[:maxMessage] + "... (cut)"
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// SameJSON reports whether two values have the same JSON text.
func SameJSON(a, b any) bool {
	x, err := jsontext.Append(nil, a)
	y, err2 := jsontext.Append(nil, b)
	return err == nil && err2 == nil && string(x) == string(y)
}
