package flow

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/internal/reference"

	"github.com/courierhq/courier"
)

// MistypedReferences finds texts in a configuration that are not references, but were
// probably meant to be: "${params.dir}", "Context:params.dir" or "{{params.dir}}". Known
// reports whether a reference can begin with a head. Each problem has the Step -1, and
// says what to write instead. Escaped text, such as "$${params.dir}", is not reported.
func MistypedReferences(config map[string]any, known func(head string) bool) []courier.Problem {
	var found problems
	for _, name := range sortedNames(config) {
		eachText(appendName([]byte("config"), name), config[name], func(field []byte, s string) {
			if a := almost(s, known); a != "" && !found.full() {
				found.add(courier.Problem{Step: -1, Field: string(field), Message: a})
			}
		})
	}
	return found.list
}

// eachText calls f for each text in a JSON value.
func eachText(field []byte, v any, f func(field []byte, s string)) {
	switch v := v.(type) {
	case string:
		f(field, v)
	case []any:
		for i, x := range v {
			eachText(append(strconv.AppendInt(append(slices.Clip(field), '['), int64(i), 10), ']'), x, f)
		}
	case map[string]any:
		for _, name := range sortedNames(v) {
			eachText(appendName(slices.Clip(field), name), v[name], f)
		}
	}
}

// The forms in which references are written by mistake.
var (
	// A word and a colon before the whole text.
	almostPrefix = regexp.MustCompile(`^\s*([A-Za-z]{3,10})\s*:\s*(\S+)\s*$`)
	// Braces or parentheses, and what is in them. A $ before them is part of it.
	almostBraces = regexp.MustCompile(`\$*(?:\{\{\s*([^{}]+?)\s*\}\}|[#%]?\{\s*([^{}]+?)\s*\}|\(\s*([^(){}]+?)\s*\))`)
	// What may stand in braces before the key.
	almostWord = regexp.MustCompile(`^(?i:(contexts?|ctx|secrets?)\s*[:.]\s*)`)
	// A prefix in the middle of a text.
	almostInside = regexp.MustCompile(`[^$A-Za-z0-9_{](context|secret):([^\s"']+)`)
)

// almost says of a text what reference it was probably meant to be, or nothing.
func almost(s string, known func(string) bool) string {
	if !strings.ContainsAny(s, ":{(.") || strings.HasPrefix(s, contextPrefix) || strings.HasPrefix(s, secretPrefix) {
		return ""
	}
	if m := almostPrefix.FindStringSubmatch(s); m != nil {
		switch nearest.Name(m[1], []string{"context", "secret"}) {
		case "context":
			if key, ok := keyOf(m[2], known, false); ok {
				return meant(s, `"context:`+key+`"`)
			}
		case "secret":
			if !strings.HasPrefix(m[2], "//") {
				return meant(s, `"secret:`+m[2]+`"`)
			}
		}
	}
	if key, ok := keyOf(s, known, false); ok && (strings.HasPrefix(s, headParams+".") || strings.HasPrefix(s, headLoop+".")) {
		return meant(s, `"context:`+key+`"`)
	}
	for _, m := range almostBraces.FindAllStringSubmatch(s, -1) {
		if a := inBraces(s, m, known); a != "" {
			return a
		}
	}
	if m := almostInside.FindStringSubmatch(s); m != nil {
		if m[1] == "secret" {
			return meant(m[0][1:], `"secret:NAME" as the whole value, since a secret can't be part of a longer text`)
		}
		if ref, _, err := reference.Cut(m[2]); err == nil && known(ref.Head) {
			return meant("context:"+ref.String(), "${context:"+ref.String()+"}")
		}
	}
	return ""
}

// inBraces is [almost] for a match of almostBraces in s.
func inBraces(s string, m []string, known func(string) bool) string {
	inner := m[1] + m[2] + m[3]
	dollars := len(m[0]) - len(strings.TrimLeft(m[0], "$"))
	switch {
	case dollars > 1: // escaped
		return ""
	case dollars == 1 && m[2] != "" && strings.HasPrefix(m[0], "${"+contextPrefix): // a reference
		return ""
	case dollars == 0 && m[3] != "": // text in parentheses
		return ""
	}
	word := almostWord.FindStringSubmatch(inner)
	if word != nil && strings.HasPrefix(strings.ToLower(word[1]), "secret") {
		if name := inner[len(word[0]):]; !strings.ContainsAny(name, " \t\n") {
			return meant(m[0], `"secret:`+name+`" as the whole value`)
		}
		return ""
	}
	rest := inner
	if word != nil {
		rest = inner[len(word[0]):]
	}
	key, ok := keyOf(rest, known, word != nil)
	if !ok || word == nil && dollars == 0 && m[1] == "" { // {x.y} is usual in other languages
		return ""
	}
	write := "${context:" + key + "}"
	if m[0] == s {
		write = `"context:` + key + `", or ${context:` + key + "} in a longer text"
	}
	if strings.HasPrefix(m[0], "${") {
		write += ", or $" + m[0] + " for the text itself"
	}
	return meant(m[0], write)
}

// keyOf returns s if it is the key of a reference with a known head, or with any
// head if it need not be known.
func keyOf(s string, known func(string) bool, anyHead bool) (string, bool) {
	ref, err := reference.Parse(s)
	if err != nil {
		return "", false
	}
	if _, index := parseIndex(ref.Head); index && strings.Trim(ref.Name, "0123456789") == "" {
		return "", false // a number
	}
	return s, anyHead || known(ref.Head)
}

func meant(s, write string) string {
	return fmt.Sprintf("%q is taken as it stands, and is not a reference; if it was meant as one, write %s", shorten(s), write)
}

// isHead reports whether a reference in the job can begin with a head.
func (c *checker) isHead(head string) bool {
	if slices.Contains(reserved, head) {
		return true
	}
	_, ok := c.tree.Head(head)
	return ok
}

// checkAlmost warns of texts of an entry that are almost references.
func (c *checker) checkAlmost(i int) {
	for _, p := range MistypedReferences(c.tree.Template(i).config, c.isHead) {
		c.warnings.add(at(c.tree.Spec(i), i, p.Field, p.Message))
	}
}
