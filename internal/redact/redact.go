// Package redact finds secrets in text, in the forms that programs turn them into.
package redact

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// A Redactor replaces secrets in text by "[secret NAME]". It finds a secret as
// it is and in the forms that programs turn it into: base64, also of a longer
// text that contains it, such as "user:secret"; hexadecimal; in UTF-16 of either byte
// order, and in base64 and hexadecimal of that; with the escapes
// of URLs, forms, JSON, HTML, Go and C, repeated ones included; and cut short by
// three dots, with at least four bytes left. Of a URL it also finds the
// password, the path, the query and its values, and of a text of several lines
// each long line.
//
// Secrets below four bytes are not looked for, since they occur by chance. The
// zero Redactor knows none and costs next to nothing. It may be used by several
// goroutines.
type Redactor struct {
	mu      sync.Mutex
	needles []needle
	ready   atomic.Pointer[matcher] // nil while there are no needles, or new ones
	some    atomic.Bool
}

// The shortest texts that are looked for. Shorter ones occur by chance: in
// messages, which are short, that does little harm; an output can be large, and
// one found in it fails a step.
const (
	minSecret     = 4
	minSecretPart = 8  // of a URL, but for a password
	minSecretLine = 16 // of several; also of what looks random
	minSureBase64 = 7
	minSureHex    = 12
	minEncodedCut = 8 // characters of base64 or hexadecimal before dots
)

// Add makes a secret known. What it is called is shown in its place.
func (r *Redactor) Add(name, value string) {
	if trimmed := strings.TrimSpace(value); len(trimmed) >= minSecret {
		value = trimmed // it may be used without the line end of its file
	}
	if len(value) < minSecret {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.needles, func(n needle) bool { return n.form == plain && n.sure && n.text == value }) {
		return
	}
	r.needles = append(r.needles, needlesOf(name, value)...)
	r.ready.Store(nil)
	r.some.Store(true)
}

// Empty reports whether there are no secrets.
func (r *Redactor) Empty() bool { return !r.some.Load() }

// Redact returns text without secrets.
func (r *Redactor) Redact(text string) string {
	if r.Empty() || text == "" {
		return text
	}
	return r.matcher().redact(text)
}

// Find returns the name of a secret in text, which may be JSON; empty if it has
// none. Unlike Redact it doesn't take a text for a secret that may be there by
// chance: the beginning of one, the path of a URL that is short, and the encoded
// forms of secrets below six bytes.
func (r *Redactor) Find(text string) (name string) {
	if r.Empty() {
		return ""
	}
	return r.matcher().find(text)
}

func (r *Redactor) matcher() *matcher {
	if m := r.ready.Load(); m != nil {
		return m
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m := newMatcher(r.needles)
	r.ready.Store(m)
	return m
}

// A needle is a text that gives a secret away.
type needle struct {
	name string
	text string
	form form
	sure bool // it doesn't occur by chance
	// head and tail say that the first or last character of its base64 depends on
	// what is around it, and so is not in text.
	head, tail bool
}

// A form is how the text of a needle is compared.
type form byte

const (
	plain  form = iota // as it is, or with plus signs for spaces
	base   form = iota // base64 of either alphabet, also in lines
	digits form = iota // hexadecimal of either case, also with spaces or colons
)

// needlesOf returns what to look for, so that a secret isn't seen.
func needlesOf(name, value string) []needle {
	list := encoded(name, value)
	add := func(text string, least int, sure bool) {
		if len(text) >= least && text != value {
			list = append(list, needle{name: name, text: text, sure: sure})
		}
	}
	if strings.ContainsAny(value, "\r\n") {
		for line := range strings.FieldsFuncSeq(value, func(c rune) bool { return c == '\r' || c == '\n' }) {
			if !strings.HasPrefix(line, "-----") {
				add(strings.TrimSpace(line), minSecretLine, true)
			}
		}
		return list
	}
	u, err := url.Parse(value)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return list
	}
	if password, ok := u.User.Password(); ok && len(password) >= minSecret {
		list = append(list, encoded(name, password)...)
	}
	// Hosts and schemes are written in lower case by those who print a URL.
	add(strings.TrimPrefix(u.EscapedPath(), "/"), minSecretPart, false)
	for part := range strings.SplitSeq(u.Path, "/") {
		add(part, minSecretLine, isRandom(part))
	}
	add(u.RawQuery, minSecretPart, isRandom(u.RawQuery))
	for _, values := range u.Query() {
		for _, v := range values {
			add(v, minSecretPart, isRandom(v))
		}
	}
	add(u.Fragment, minSecretPart, isRandom(u.Fragment))
	return list
}

// isRandom reports whether a part of a URL looks like a key rather than a word.
func isRandom(part string) bool {
	return len(part) >= minSecretLine && strings.ContainsAny(part, "0123456789") && strings.ContainsFunc(part, unicode.IsLetter)
}

// encoded returns the forms of a secret in UTF-8 and UTF-16.
func encoded(name, value string) []needle {
	list := forms(name, value)
	for _, w := range wide(value) {
		list = append(list, forms(name, w)...)
	}
	return list
}

// wide returns a text in UTF-16, once in each byte order. Of a text in ASCII both have all
// but the last or the first byte in common, and that is returned.
func wide(value string) []string {
	if !utf8.ValidString(value) {
		return nil
	}
	units := utf16.Encode([]rune(value))
	little, big, narrow := make([]byte, 0, 2*len(units)), make([]byte, 0, 2*len(units)), true
	for _, u := range units {
		little, big = append(little, byte(u), byte(u>>8)), append(big, byte(u>>8), byte(u))
		narrow = narrow && u < 1<<8
	}
	if narrow {
		return []string{string(big[1:])}
	}
	return []string{string(little), string(big)}
}

// forms returns a secret as it is, and what its encoded forms have in common
// wherever it stands in what is encoded.
func forms(name, value string) []needle {
	h := hex.EncodeToString([]byte(value))
	list := []needle{
		{name: name, text: value, sure: true},
		{name: name, text: h, form: digits, sure: len(h) >= minSureHex},
	}
	for before := range 3 {
		text := base64.RawStdEncoding.EncodeToString(append(make([]byte, before), value...))
		n := needle{name: name, form: base, head: before > 0, tail: (before+len(value))%3 != 0}
		first, end := 0, len(text)
		if n.head {
			first = before + 1
		}
		if n.tail {
			end--
		}
		if n.text = text[first:end]; len(n.text) >= minSecret {
			n.sure = len(n.text) >= minSureBase64
			list = append(list, n)
		}
	}
	return list
}
