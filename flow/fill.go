package flow

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/reference"

	"github.com/courierhq/courier"
)

// A hole is a string of the configuration that values are put into, or whose
// place a value takes.
type hole struct {
	where  string   // such as "config.paths[0]"
	path   []string // the names of the fields, with listItem for an item of a list
	secret string   // this secret takes the place, if it is not empty
	ref    *reference.Reference
	runs   []run // text with references, if there is no ref and no secret
}

// A run is a part of a text, with the JSON form of its literal.
type run struct {
	part
	json []byte
}

// listItem stands for an item of a list in the path of a hole.
const listItem = "\x00"

var errNoSecrets = errors.New("no secrets are configured")

// A form says what a configuration is for: the zero form knows nothing of it.
type form struct {
	config      *courier.Schema
	allowParent bool
	params      *Params
}

// For returns the template for a step whose type has the given configuration. Values
// are then restricted by the kind of the field: in a [courier.Pattern] their
// wildcards have no effect, and in paths, patterns and URLs a value that adds a
// segment ".." is refused, unless allowParent is set; see
// [courier.StepSpec.AllowParent]. Params are those of the job: where a reference to one
// that is secret is a whole string, the secret that its value names takes its place.
func (t *Template) For(config *courier.Schema, allowParent bool, params *Params) *Template {
	if t.static != nil {
		return t
	}
	typed := *t
	typed.form = form{config, allowParent, params}
	return &typed
}

// at returns what is known of the value at a path; nil if nothing is.
func (f form) at(path []string) *courier.Schema {
	s := f.config
	for _, name := range path {
		if s == nil {
			return nil
		}
		if name == listItem {
			s = s.Items
		} else if p, ok := s.Property(name); ok {
			s = p.Schema
		} else {
			return nil
		}
	}
	return s
}

// A lookup is where values come from.
type lookup struct {
	scope  courier.Scope
	secret Secret
	params *Params
}

// fill appends what the hole becomes, or adds to errs what hinders it.
func (h *hole) fill(dst []byte, form form, s courier.Scope, secret Secret, errs []error) ([]byte, []error) {
	at := form.at(h.path)
	var err error
	switch {
	case h.runs == nil:
		dst, err = h.whole(dst, lookup{s, secret, form.params}, at, form)
	case at != nil && at.Kind != "":
		dst, errs = h.typed(dst, s, at, form, errs)
	default:
		dst = append(dst, '"')
		dst, errs = h.text(dst, s, errs)
		dst = append(dst, '"')
	}
	if err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", h.where, err))
	}
	return dst, errs
}

// whole appends the value that takes the place of the string.
func (h *hole) whole(dst []byte, from lookup, at *courier.Schema, form form) ([]byte, error) {
	v, err := h.value(from)
	if err == nil {
		dst, err = form.append(dst, at, v)
	}
	if _, missing := errors.AsType[*noValue](err); err != nil && !missing {
		if what := h.names() + ": "; !strings.HasPrefix(err.Error(), what) { // who was asked may have said so
			err = fmt.Errorf("%s%w", what, err)
		}
	}
	return dst, err
}

// noValue is an error of looking a value up, which names it.
type noValue struct{ error }

func (e *noValue) Unwrap() error { return e.error }

// value looks up the value of a whole field.
func (h *hole) value(from lookup) (any, error) {
	name, param := h.secret, ""
	if h.ref != nil {
		v, err := h.ref.Resolve(from.scope)
		if err != nil {
			return nil, &noValue{err}
		}
		named, isText := v.(string)
		if !isText || !from.params.isSecret(h.ref.Head, h.ref.Name) {
			return v, nil
		}
		name, param = named, h.ref.Name
	}
	if from.secret == nil {
		return nil, errNoSecrets
	}
	return from.secret(name, param)
}

// names says what is put into the hole.
func (h *hole) names() string {
	switch {
	case h.secret != "":
		return fmt.Sprintf("secret %q", h.secret)
	case h.ref != nil:
		return fmt.Sprintf("the value of %q", h.ref.String())
	}
	var refs []string
	for _, r := range h.runs {
		if r.ref != nil {
			refs = append(refs, fmt.Sprintf("%q", r.ref.String()))
		}
	}
	if len(refs) == 1 {
		return "the value of " + refs[0]
	}
	return "the values of " + strings.Join(refs, ", ")
}

// text appends the text with the values in it, as inside of a JSON string.
func (h *hole) text(dst []byte, s courier.Scope, errs []error) ([]byte, []error) {
	for _, r := range h.runs {
		if r.ref == nil {
			dst = append(dst, r.json...)
			continue
		}
		v, err := r.ref.Resolve(s)
		if err == nil {
			if dst, err = appendInner(dst, jsontext.Text(v)); err != nil {
				err = fmt.Errorf("the value of %q: %w", r.ref.String(), err)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", h.where, err))
		}
	}
	return dst, errs
}

// typed is text for a field of a kind, as a JSON string.
func (h *hole) typed(dst []byte, s courier.Scope, at *courier.Schema, form form, errs []error) ([]byte, []error) {
	var plain, marked, pattern strings.Builder
	failed := len(errs)
	for _, r := range h.runs {
		if r.ref == nil {
			plain.WriteString(r.literal)
			marked.WriteString(r.literal)
			pattern.WriteString(r.literal)
			continue
		}
		v, err := r.ref.Resolve(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", h.where, err))
		}
		text := jsontext.Text(v)
		plain.WriteString(text)
		marked.WriteString(mark + text + mark)
		pattern.WriteString(glob.Literal(text))
	}
	if len(errs) > failed {
		return dst, errs
	}
	err := form.check(at.Kind, marked.String(), plain.String())
	if err == nil {
		dst, err = appendText(dst, at.Kind, pattern.String(), plain.String())
	}
	if err != nil {
		errs = append(errs, fmt.Errorf("%s: %s: %w", h.where, h.names(), err))
	}
	return dst, errs
}

// append appends a value as it has to be for a field.
func (f form) append(dst []byte, s *courier.Schema, v any) ([]byte, error) {
	if !hasKinds(s) {
		return appendValue(dst, v)
	}
	switch v := v.(type) {
	case string:
		if err := f.check(s.Kind, mark+v+mark, v); err != nil {
			return dst, err
		}
		return appendText(dst, s.Kind, glob.Literal(v), v)
	case []any:
		dst = append(dst, '[')
		for i, x := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = f.append(dst, s.Items, x); err != nil {
				return dst, fmt.Errorf("item %d: %w", i, err)
			}
		}
		return append(dst, ']'), nil
	case map[string]any:
		return f.appendObject(dst, s, v)
	}
	return appendValue(dst, v)
}

func (f form) appendObject(dst []byte, s *courier.Schema, object map[string]any) ([]byte, error) {
	dst = append(dst, '{')
	for i, name := range sortedNames(object) {
		if i > 0 {
			dst = append(dst, ',')
		}
		var of *courier.Schema
		if p, ok := s.Property(name); ok {
			of = p.Schema
		}
		var err error
		if dst, err = appendValue(dst, name); err == nil {
			dst, err = f.append(append(dst, ':'), of, object[name])
		}
		if err != nil {
			return dst, fmt.Errorf("%s: %w", name, err)
		}
	}
	return append(dst, '}'), nil
}

// Kinds of strings; see [courier.Schema].
const (
	kindURL     = "url"
	kindPattern = "pattern"
)

// hasKinds reports whether what is described contains a string of a kind.
func hasKinds(s *courier.Schema) bool {
	return s != nil && (s.Kind != "" || hasKinds(s.Items) ||
		slices.ContainsFunc(s.Properties, func(p courier.Property) bool { return hasKinds(p.Schema) }))
}

// appendText appends a string of a kind, which is given as a pattern and plain.
func appendText(dst []byte, kind string, pattern, plain string) ([]byte, error) {
	if kind != kindPattern || pattern == plain {
		return appendValue(dst, plain)
	}
	dst = append(dst, '"')
	for i, run := range strings.Split(pattern, mark) {
		if i > 0 {
			dst = append(dst, `\u0000`...)
		}
		var err error
		if dst, err = appendInner(dst, run); err != nil {
			return dst, err
		}
	}
	return append(dst, '"'), nil
}

// mark stands before and after a value in a text. It can stand in neither.
const mark = "\x00"

var errNUL = errors.New("contains a NUL character, which no path can contain")

// check refuses a text that a value must not make: plain is the text, and marked
// the same with a mark before and after each value.
func (f form) check(kind string, marked, plain string) error {
	switch {
	case kind == "":
		return nil
	case strings.Contains(plain, mark):
		return errNUL
	case f.allowParent || !climbs(kind, marked):
		return nil
	}
	return fmt.Errorf("it makes a segment %q in %q, and so could lead into another directory; if that is meant, set allow_parent for the step", "..", shorten(plain))
}

// climbs reports whether a value has part in a segment ".." of a text in which
// each value stands between two marks. Both separators count, whatever system the
// path is for.
func climbs(kind string, marked string) bool {
	if kind == kindURL {
		marked = urlPath(marked)
	}
	value := false // the segment begins inside of a value
	for segment := range strings.FieldsFuncSeq(marked, isSeparator) {
		n := strings.Count(segment, mark)
		if (value || n > 0) && isParent(kind, strings.ReplaceAll(segment, mark, "")) {
			return true
		}
		value = value != (n%2 == 1)
	}
	return false
}

func isSeparator(r rune) bool { return r == '/' || r == '\\' }

// isParent reports whether a segment means the directory above. Windows ignores
// dots and blanks at the end of a name, and some servers parameters after a
// semicolon.
func isParent(kind string, segment string) bool {
	if kind == kindURL {
		segment, _, _ = strings.Cut(segment, ";")
	}
	if runtime.GOOS == "windows" && strings.HasPrefix(segment, "..") {
		segment = ".." + strings.TrimRight(segment[2:], ". ")
	}
	return strings.TrimRight(segment, " \t\r\n") == ".."
}

// maxEscapes is how often escapes of escapes are replaced: more often than any
// row of servers does.
const maxEscapes = 4

// urlPath returns the part of a marked URL before its query, with the escapes of
// dots and separators replaced, also where they are escaped again.
func urlPath(marked string) string {
	if i := strings.IndexAny(marked, "?#"); i >= 0 {
		marked = marked[:i]
	}
	for range maxEscapes {
		marked = unescapeDots(marked)
	}
	return marked
}

// unescapeDots replaces the escapes of ., /, \ and % once. Marks inside of an
// escape come before it.
func unescapeDots(marked string) string {
	if !strings.Contains(marked, "%") {
		return marked
	}
	var b strings.Builder
	for i := 0; i < len(marked); i++ {
		c, n, marks := unescape(marked[i:])
		b.WriteString(marks)
		b.WriteByte(c)
		i += n - 1
	}
	return b.String()
}

// unescape returns the character that s begins with, how many bytes it takes, and
// the marks among them.
func unescape(s string) (c byte, n int, marks string) {
	if s[0] != '%' {
		return s[0], 1, ""
	}
	digits := ""
	for n = 1; n < len(s) && len(digits) < 2; n++ {
		if s[n] == mark[0] {
			marks += mark
		} else {
			digits += s[n : n+1]
		}
	}
	switch strings.ToLower(digits) {
	case "2e":
		return '.', n, marks
	case "2f":
		return '/', n, marks
	case "5c":
		return '\\', n, marks
	case "25":
		return '%', n, marks
	case "3b":
		return ';', n, marks
	}
	return '%', 1, ""
}
