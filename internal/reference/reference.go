// Package reference parses the references of configurations to values, such as
// "0.file_list[2].name", and looks the values up.
package reference

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/courierhq/courier/internal/nearest"
)

// ErrNotFound is matched by the error of a reference without a value. The root
// package exports it.
var ErrNotFound = errors.New("courier: not found")

// A Scope gives values to references; it is that of the root package.
type Scope interface {
	// Value returns the value called head.name.
	Value(head, name string) (v any, ok bool)
	// Keys returns what there is.
	Keys() []string
}

// A Reference is a parsed KEY of "context:KEY": two segments and a path into
// the value.
type Reference struct {
	// Head is a step's index or id, or "loop", "job", "params".
	Head string
	Name string
	Path []Segment
	text string
}

// A Segment of a path selects from an object by name or from a list by index.
type Segment struct {
	Name  string // the name; empty for [n]
	Index int    // the index; -1 if Name is no index
}

// maxReference bounds a reference's length in bytes.
const maxReference = 1024

// Parse parses KEY: a head and a name, then any of ".name", "[2]",
// ".2" and `["a.b"]`. It does not include the prefix "context:".
func Parse(key string) (Reference, error) {
	r, rest, err := Cut(key)
	if err == nil && rest != "" {
		err = fmt.Errorf("reference %q: unexpected %q", shorten(key, 80), shorten(rest, 20))
	}
	return r, err
}

// Cut parses the reference that s begins with and returns what
// follows it.
func Cut(s string) (r Reference, rest string, err error) {
	fail := func(what string) (Reference, string, error) {
		return Reference{}, "", fmt.Errorf("reference %q: %s", shorten(s, 80), what)
	}
	head, rest := CutName(s)
	if head == "" || !strings.HasPrefix(rest, ".") {
		return fail(`must be <step>.<name>, such as "0.file_list" or "params.day"`)
	}
	name, rest := CutName(rest[1:])
	if name == "" {
		return fail("a name must follow the first dot")
	}
	r = Reference{Head: head, Name: name}
	for rest != "" {
		seg, after, ok := cutSegment(rest)
		if !ok {
			if rest[0] == '.' || rest[0] == '[' {
				return fail(`a path goes on with .name, [2] or ["a.b"]`)
			}
			break
		}
		r.Path, rest = append(r.Path, seg), after
	}
	r.text = s[:len(s)-len(rest)]
	if len(r.text) > maxReference {
		return fail("is too long")
	}
	return r, rest, nil
}

func cutSegment(s string) (seg Segment, rest string, ok bool) {
	switch {
	case strings.HasPrefix(s, "."):
		name, rest := CutName(s[1:])
		return Segment{Name: name, Index: ParseIndex(name)}, rest, name != ""
	case strings.HasPrefix(s, `["`):
		quoted, err := strconv.QuotedPrefix(s[1:])
		if err != nil {
			return seg, s, false
		}
		name, err := strconv.Unquote(quoted)
		rest, ok := strings.CutPrefix(s[1+len(quoted):], "]")
		return Segment{Name: name, Index: -1}, rest, ok && err == nil
	case strings.HasPrefix(s, "["):
		digits, rest, ok := strings.Cut(s[1:], "]")
		n := ParseIndex(digits)
		return Segment{Index: n}, rest, ok && n >= 0
	}
	return seg, s, false
}

// CutName cuts the longest run of characters that need no quoting.
func CutName(s string) (name, rest string) {
	i := strings.IndexFunc(s, func(r rune) bool {
		return r <= ' ' || r == 0x7f || strings.ContainsRune(`.[]{}"'$:/\`, r)
	})
	if i < 0 {
		i = len(s)
	}
	return s[:i], s[i:]
}

// ParseIndex returns the index that s writes in plain digits, or -1.
func ParseIndex(s string) int {
	if s == "" || len(s) > 9 || (len(s) > 1 && s[0] == '0') {
		return -1
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return -1
		}
	}
	n, _ := strconv.Atoi(s)
	return n
}

// String returns KEY as it was written.
func (r Reference) String() string {
	if r.text == "" {
		return r.Head + "." + r.Name
	}
	return r.text
}

// Resolve returns the value of r in s. The error of a value that isn't there
// matches [ErrNotFound] and lists the nearest keys.
func (r Reference) Resolve(s Scope) (any, error) {
	v, ok := s.Value(r.Head, r.Name)
	if !ok {
		return nil, r.missing(s)
	}
	for i, seg := range r.Path {
		next, ok := seg.of(v)
		if !ok {
			return nil, &missingError{fmt.Sprintf("%q has no value: %s has no %s%s", r.String(), r.prefix(i), seg, seg.instead(v))}
		}
		v = next
	}
	return v, nil
}

func (r Reference) missing(s Scope) error {
	keys := s.Keys()
	var list []string
	for _, k := range keys {
		if strings.HasPrefix(k, r.Head+".") {
			list = append(list, k)
		}
	}
	if len(list) == 0 {
		list = keys
	}
	return &missingError{fmt.Sprintf("%q has no value here; %s", r.String(), nearest.DidYouMean(r.Head+"."+r.Name, list))}
}

// prefix is how a message names the value before segment i of the path.
func (r Reference) prefix(i int) string {
	var b strings.Builder
	b.WriteString(r.Head + "." + r.Name)
	for _, seg := range r.Path[:i] {
		b.WriteString(seg.String())
	}
	return b.String()
}

// missingError says that a reference has no value. It matches ErrNotFound.
type missingError struct{ text string }

func (e *missingError) Error() string        { return e.text }
func (e *missingError) Is(target error) bool { return target == ErrNotFound }

// String writes the segment as in a reference.
func (s Segment) String() string {
	switch name, _ := CutName(s.Name); {
	case s.Name == "" && s.Index >= 0:
		return "[" + strconv.Itoa(s.Index) + "]"
	case name == s.Name && s.Name != "":
		return "." + s.Name
	}
	return "[" + strconv.Quote(s.Name) + "]"
}

// instead says what there is in v instead of s, or what v is.
func (s Segment) instead(v any) string {
	switch v := v.(type) {
	case map[string]any:
		const many = 1000 // to look through for a message
		if n := len(v); n == 0 || n > many {
			return fmt.Sprintf("; it has %d properties", n)
		}
		names := make([]string, 0, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			names = append(names, strings.TrimPrefix(Segment{Name: shorten(name, 60), Index: -1}.String(), "."))
		}
		return "; " + nearest.DidYouMean(s.Name, names)
	case []any:
		return fmt.Sprintf("; it is a list of %d", len(v))
	case nil:
		return "; it is null"
	case string:
		return "; it is text"
	case bool:
		return "; it is true or false"
	}
	return "; it is a number"
}

func (s Segment) of(v any) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		if s.Name == "" && s.Index >= 0 {
			return nil, false
		}
		x, ok := v[s.Name]
		return x, ok
	case []any:
		if s.Index < 0 || s.Index >= len(v) {
			return nil, false
		}
		return v[s.Index], true
	}
	return nil, false
}

// shorten cuts s to at most n bytes for a message.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}
