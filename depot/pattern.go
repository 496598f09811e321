package depot

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/safename"
)

// The other families compare patterns by a library. This package links none, so it has
// what is needed on top of [path.Match]: ** and braces.

// checkPattern refuses malformed patterns, patterns with .. or an empty part after a wildcard,
// and patterns whose braces have very many alternatives.
func checkPattern(p courier.Pattern) error {
	_, rest := glob.Split(p)
	if err := safename.CheckPattern(rest); err != nil {
		return courier.Permanent(err)
	}
	all, ok := expand(rest)
	for _, one := range all {
		for part := range strings.SplitSeq(one, "/") {
			if _, err := path.Match(part, ""); err != nil || part == ".." || part == "" {
				ok = false
			}
		}
	}
	if !ok || rest == "" {
		return courier.Permanent(fmt.Errorf("pattern %s is malformed: check that its brackets and braces are closed, and that neither .. nor // nor a slash at the end follows a wildcard", safename.Quote(p.String())))
	}
	return nil
}

// A matcher compares paths with a pattern that checkPattern has accepted.
type matcher struct {
	alternatives [][]string // without braces, each in the parts between slashes
}

func newMatcher(rest string) matcher {
	var m matcher
	all, _ := expand(rest)
	for _, one := range all {
		parts := strings.Split(one, "/")
		parts = slices.CompactFunc(parts, func(a, b string) bool { return a == "**" && b == "**" })
		m.alternatives = append(m.alternatives, parts)
	}
	return m
}

// match reports whether the pattern matches a path.
func (m matcher) match(below string) bool {
	parts := strings.Split(below, "/")
	return slices.ContainsFunc(m.alternatives, func(pattern []string) bool { return matchParts(pattern, parts) })
}

// matchParts compares part by part; ** matches any number of parts.
func matchParts(pattern, parts []string) bool {
	return glob.MatchWildcards(pattern, parts, func(p string) bool { return p == "**" }, matchPart)
}

func matchPart(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// expand returns the patterns without braces that a pattern means, and reports whether its braces
// and brackets are closed. In a class, ! at the beginning becomes ^.
func expand(pattern string) ([]string, bool) {
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '[':
			end := class(pattern, i)
			if end < 0 {
				return nil, false
			}
			if pattern[i+1] == '!' {
				pattern = pattern[:i+1] + "^" + pattern[i+2:]
			}
			i = end
		case '{':
			return expandBrace(pattern, i)
		case '}':
			return nil, false
		}
	}
	return []string{pattern}, true
}

// class returns the index of the bracket that closes the class at i, or -1.
func class(pattern string, i int) int {
	first := true
	for i++; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case first && (c == '!' || c == '^'):
			continue
		case c == ']' && !first:
			return i
		}
		first = false
	}
	return -1
}

// expandBrace expands the brace at index open, and then the rest.
func expandBrace(pattern string, open int) ([]string, bool) {
	var alternatives []string
	depth, start := 0, open+1
	for i := open + 1; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case c == '[':
			if end := class(pattern, i); end > 0 {
				i = end
			}
		case c == '{':
			depth++
		case c == '}' && depth > 0:
			depth--
		case (c == ',' || c == '}') && depth == 0:
			alternatives = append(alternatives, pattern[start:i])
			start = i + 1
			if c == ',' {
				continue
			}
			var all []string
			for _, one := range alternatives {
				more, ok := expand(pattern[:open] + one + pattern[i+1:])
				if !ok {
					return nil, false
				}
				all = append(all, more...)
			}
			return all, true
		}
	}
	return nil, false
}
