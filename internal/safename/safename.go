// Package safename decides which names from outside, such as those in the
// listing of a remote server, may be used as file names, and makes text from
// outside presentable.
//
// A name is used as it is or refused. It is never altered: an altered name
// stands for another file, or for two.
package safename

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxBytes is the longest name that [Check] accepts, which is also the longest
// that common file systems take.
const MaxBytes = 255

// Check returns nil if name can stand for exactly one file in one directory:
// valid UTF-8 without path separators, control characters and characters that
// reverse the direction of text, not empty, ".", or "..", without a dot or
// space at the end, which Windows drops, and at most [MaxBytes] long. On
// Windows the names of devices and the characters that have a meaning there
// are refused too. The error says what is wrong and doesn't contain the name.
func Check(name string) error { return check(name, runtime.GOOS == "windows") }

// Portable returns nil if name is one as [Check] has it, and may go to hosts and people
// that are not known, such as in an archive: on no system it is the name of a device or
// begins with that of a drive, and it has no characters that nobody sees.
func Portable(name string) error {
	switch {
	case IsDevice(name):
		return errors.New("the name is one of a device on Windows")
	case len(name) > 1 && name[1] == ':' && isASCII(name[:1]) && unicode.IsLetter(rune(name[0])):
		return errors.New("the name begins with a drive of Windows")
	case strings.ContainsFunc(name, invisible):
		return errors.New("the name contains an invisible character")
	}
	return Check(name)
}

// invisible reports whether a character neither shows nor changes another one. U+200C and
// U+200D do, in Persian and in emojis.
func invisible(r rune) bool {
	return r == '\u200b' || r >= '\u2060' && r <= '\u2064' || r == '\ufeff'
}

func check(name string, windows bool) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case name == "." || name == "..":
		return errors.New("the name stands for a directory")
	case len(name) > MaxBytes:
		return fmt.Errorf("the name has %d bytes, %d at most", len(name), MaxBytes)
	case !utf8.ValidString(name):
		return errors.New("the name is not valid UTF-8")
	}
	for _, r := range name {
		if err := checkRune(r, windows); err != nil {
			return err
		}
	}
	if last := name[len(name)-1]; last == '.' || last == ' ' {
		return errors.New("the name ends in a dot or a space")
	}
	if windows && IsDevice(name) {
		return errors.New("the name is one of a device")
	}
	return nil
}

func checkRune(r rune, windows bool) error {
	switch {
	case r == '/' || r == '\\':
		return errors.New("the name contains a path separator")
	case unicode.IsControl(r):
		return errors.New("the name contains a control character")
	case unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029':
		return errors.New("the name contains a character that hides what it says")
	case r == utf8.RuneError:
		return errors.New("the name contains the replacement character")
	case windows && strings.ContainsRune(`<>:"|?*`, r):
		return fmt.Errorf("the name contains %q, which has a meaning on Windows", r)
	}
	return nil
}

// IsDevice reports whether Windows takes name for a device, with any extension.
func IsDevice(name string) bool {
	base, _, _ := strings.Cut(name, ".")
	base = strings.ToUpper(strings.TrimRight(base, " "))
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	for _, port := range []string{"COM", "LPT"} {
		n, ok := strings.CutPrefix(base, port)
		if ok && utf8.RuneCountInString(n) == 1 && strings.ContainsAny(n, "0123456789¹²³") {
			return true
		}
	}
	return false
}

// maxQuoted is how much of a text Quote shows, in bytes.
const maxQuoted = 200

// Quote returns text from outside in a form for messages and logs: in quotes,
// on one line, with everything escaped that is not plainly visible. Of long
// text only the beginning is shown, followed by dots.
func Quote(s string) string {
	if len(s) <= maxQuoted {
		return strconv.Quote(s)
	}
	cut := maxQuoted
	for cut > maxQuoted-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strconv.Quote(s[:cut]) + "..."
}
