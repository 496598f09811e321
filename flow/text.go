package flow

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/reference"

	"github.com/courierhq/courier"
)

// The prefixes of what is replaced as a whole.
const (
	contextPrefix = "context:"
	secretPrefix  = "secret:"
)

// A text is a string of a configuration, parsed.
type text struct {
	parts  []part
	whole  bool   // the only part is a reference, whose value keeps its type
	secret string // the whole is this secret
}

// A part of a text is a reference, or literal text where ref is nil.
type part struct {
	literal string
	ref     *reference.Reference
}

// parseText finds the references in s. These are the forms:
//
//	context:KEY      the whole string: the value, with its type
//	secret:NAME      the whole string: a secret
//	${context:KEY}   anywhere: the value as text
//	$${              a literal ${
//	$context:        at the start: a literal context:, likewise $secret:
//
// Any other ${ is just text. A leading run of several $ before context: or
// secret: loses one of them too, so every text can be written.
func parseText(s string) (text, error) {
	if key, ok := strings.CutPrefix(s, contextPrefix); ok {
		ref, err := reference.Parse(key)
		if err != nil {
			return text{}, fmt.Errorf("%w; in a longer text write ${context:KEY}, and $context: for the literal", err)
		}
		return text{parts: []part{{ref: &ref}}, whole: true}, nil
	}
	if name, ok := strings.CutPrefix(s, secretPrefix); ok {
		if name == "" || hasControl(name) {
			return text{}, errors.New(`secret: must be followed by a name; write $secret: for the literal`)
		}
		return text{secret: name}, nil
	}
	return parseParts(unescapeStart(s))
}

// unescapeStart takes one $ away where it only keeps what follows from being
// a reference.
func unescapeStart(s string) string {
	rest := strings.TrimLeft(s, "$")
	if len(rest) < len(s) && (strings.HasPrefix(rest, contextPrefix) || strings.HasPrefix(rest, secretPrefix)) {
		return s[1:]
	}
	return s
}

func parseParts(s string) (text, error) {
	var t text
	var literal strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			break
		}
		inner := s[i+2:]
		switch {
		case i > 0 && s[i-1] == '$':
			literal.WriteString(s[:i-1] + "${")
			s = inner
		case strings.HasPrefix(inner, contextPrefix):
			ref, rest, err := reference.Cut(inner[len(contextPrefix):])
			if err == nil && !strings.HasPrefix(rest, "}") {
				err = fmt.Errorf("reference %q: the closing } is missing", ref.String())
			}
			if err != nil {
				return text{}, fmt.Errorf("%w; write $${ for a literal ${", err)
			}
			literal.WriteString(s[:i])
			t.flush(&literal)
			t.parts = append(t.parts, part{ref: &ref})
			s = rest[1:]
		case strings.HasPrefix(inner, secretPrefix):
			return text{}, errors.New(`a secret can only be a whole value: write "secret:NAME" and nothing else; write $${ for a literal ${`)
		default:
			literal.WriteString(s[:i+2])
			s = inner
		}
	}
	literal.WriteString(s)
	t.flush(&literal)
	return t, nil
}

func (t *text) flush(literal *strings.Builder) {
	if literal.Len() > 0 {
		t.parts = append(t.parts, part{literal: literal.String()})
		literal.Reset()
	}
}

// constant returns the text that there is without any values.
func (t *text) constant() (string, bool) {
	switch {
	case t.secret != "" || len(t.parts) > 1:
		return "", false
	case len(t.parts) == 0:
		return "", true
	}
	return t.parts[0].literal, t.parts[0].ref == nil
}

// expand puts values into t.
func (t *text) expand(s courier.Scope) (string, error) {
	var b strings.Builder
	for _, p := range t.parts {
		if p.ref == nil {
			b.WriteString(p.literal)
			continue
		}
		v, err := p.ref.Resolve(s)
		if err != nil {
			return "", err
		}
		b.WriteString(jsontext.Text(v))
	}
	return b.String(), nil
}

var errNoSecret = errors.New("a secret can't be used here, since it would be stored")

// Expand replaces the references in a single string, such as a limit key, by the text
// of their values. It does so in one pass: the text of values is not searched for
// references. Secrets are an error, and so is a reference without a value.
func Expand(s string, scope courier.Scope) (string, error) {
	t, err := parseText(s)
	switch {
	case err != nil:
		return "", err
	case t.secret != "":
		return "", errNoSecret
	}
	return t.expand(scope)
}

// CheckText returns the error that [Expand] returns for the string with any scope.
func CheckText(s string) error {
	t, err := parseText(s)
	if err == nil && t.secret != "" {
		err = errNoSecret
	}
	return err
}

// Escape returns s in the form in which a configuration contains it as plain text:
// nothing in it is read as a reference.
func Escape(s string) string {
	if rest := strings.TrimLeft(s, "$"); strings.HasPrefix(rest, contextPrefix) || strings.HasPrefix(rest, secretPrefix) {
		s = "$" + s
	}
	return strings.ReplaceAll(s, "${", "$${")
}

// hasControl reports whether s has control characters or is no valid UTF-8.
func hasControl(s string) bool {
	return !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl)
}
