package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/reference"

	"github.com/courierhq/courier"
)

// A Template is a configuration whose references are parsed. It never changes and may
// be used by several goroutines.
//
// References may be in all strings of a configuration, at any depth, but not in the
// names of fields. A string that is exactly "context:KEY" is replaced by the value,
// with its type; "${context:KEY}" inside a string by the value's text; a string that
// is exactly "secret:NAME" by a secret. "$${" is an escape of "${". At the start of a
// string, "$context:" and "$secret:" are escapes of the same text without the "$".
type Template struct {
	config   map[string]any
	form     form
	fields   []field
	static   []byte // the whole text, if there is nothing to replace
	refs     []FieldReference
	secrets  []string
	problems []courier.Problem
}

// A FieldReference is a reference that a configuration contains.
type FieldReference struct {
	Field string // where it stands, such as "config.remote_path"
	Ref   reference.Reference
	Whole bool // it is the whole value and keeps its type

	within []string // the path of a hole
}

// A field is a field of the configuration, its value as a sequence of JSON
// text and holes.
type field struct {
	name   string
	key    []byte // `"name":`
	pieces []piece
	holes  int
}

// A piece is JSON text, followed by what fills the hole, if there is one.
type piece struct {
	text []byte
	hole *hole
}

// maxListed bounds the errors that Render joins.
const maxListed = 20

// Compile parses a configuration. Its values may be of any type that encoding/json
// can handle, and are converted to their JSON form. The problems have the Step -1.
// The template is returned also if there are problems; its Render then fails with
// them.
func Compile(config map[string]any) (*Template, []courier.Problem) {
	c := compiler{t: &Template{}}
	names := sortedNames(config)
	c.t.config = c.normalise(config, names)
	c.t.fields = make([]field, 0, len(names))
	holes := 0
	for _, name := range names {
		f := c.field(name, c.t.config[name])
		holes += f.holes
		c.t.fields = append(c.t.fields, f)
	}
	if holes == 0 {
		c.t.static = c.t.joinStatic()
	}
	if len(c.seen) > 0 {
		c.t.secrets = slices.Sorted(maps.Keys(c.seen))
	}
	return c.t, slices.Clone(c.t.problems)
}

func (t *Template) joinStatic() []byte {
	b := []byte{'{'}
	for i, f := range t.fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, f.key...), f.pieces[0].text...)
	}
	return append(b, '}')
}

// References returns the references, in the order of the fields. The caller
// must not change them.
func (t *Template) References() []FieldReference { return t.refs }

// A Secret returns the secret called name. Param is the parameter whose value is the name;
// it is empty if the configuration names the secret itself.
type Secret func(name, param string) (string, error)

// Secrets returns the names of the secrets, in order and without repetitions.
// The caller must not change them.
func (t *Template) Secrets() []string { return t.secrets }

// Static reports whether there is nothing to replace.
func (t *Template) Static() bool { return t.static != nil }

// Render appends the JSON text of the configuration to dst, with all references
// replaced. It does so in one pass over the configuration's own text: the text of
// values is not searched for references. A nil secret means that there are no
// secrets. The error names each field whose references have no value, at most 20, and
// contains no secrets; dst is then returned unchanged.
func (t *Template) Render(dst []byte, s courier.Scope, secret Secret) ([]byte, error) {
	if err := t.err(); err != nil {
		return dst, err
	}
	if t.static != nil {
		return append(dst, t.static...), nil
	}
	start := len(dst)
	var errs []error
	dst = append(dst, '{')
	for i := range t.fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, t.fields[i].key...)
		dst, errs = t.fields[i].render(dst, t.form, s, secret, errs)
	}
	if len(errs) > 0 {
		return dst[:start], joinErrors(errs)
	}
	return append(dst, '}'), nil
}

// connectionField is the field of a configuration that names a connection, by the convention of
// all step types.
const connectionField = "connection_id"

// Connection returns the connection that the configuration names; empty for none, and for one that
// depends on a secret or on a value that does not exist.
func (t *Template) Connection(s courier.Scope) string {
	config, _, err := t.Partial(s, nil)
	if err != nil {
		return ""
	}
	id, _ := jsontext.Object(config)[connectionField].(string)
	return id
}

// Partial is [Template.Render] for a dry run, in which some values do not exist yet.
// It leaves out the fields of the configuration that refer to such a value, and
// returns their names. With a nil secret, it also leaves out fields with secrets.
func (t *Template) Partial(s courier.Scope, secret Secret) (config []byte, unresolved []string, err error) {
	if err := t.err(); err != nil {
		return nil, nil, err
	}
	var errs []error
	config = []byte{'{'}
	for i := range t.fields {
		f := &t.fields[i]
		start := len(config)
		if start > 1 {
			config = append(config, ',')
		}
		config = append(config, f.key...)
		var failed []error
		config, failed = f.render(config, t.form, s, secret, nil)
		if len(failed) == 0 {
			continue
		}
		config = config[:start]
		if missing(failed) {
			unresolved = append(unresolved, f.name)
		} else {
			errs = append(errs, failed...)
		}
	}
	if len(errs) > 0 {
		return nil, nil, joinErrors(errs)
	}
	return append(config, '}'), unresolved, nil
}

// missing reports whether all errs are about values that aren't there.
func missing(errs []error) bool {
	return !slices.ContainsFunc(errs, func(err error) bool {
		return !errors.Is(err, courier.ErrNotFound) && !errors.Is(err, errNoSecrets)
	})
}

func (t *Template) err() error {
	if len(t.problems) == 0 {
		return nil
	}
	var errs []error
	for _, p := range t.problems {
		errs = append(errs, fmt.Errorf("%s: %s", p.Field, p.Message))
	}
	return joinErrors(errs)
}

func joinErrors(errs []error) error {
	if more := len(errs) - maxListed; more > 0 {
		errs = append(slices.Clone(errs[:maxListed]), fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}

// render appends the field's value, or adds to errs what hinders it.
func (f *field) render(dst []byte, form form, s courier.Scope, secret Secret, errs []error) ([]byte, []error) {
	for i := range f.pieces {
		p := &f.pieces[i]
		dst = append(dst, p.text...)
		if p.hole != nil {
			dst, errs = p.hole.fill(dst, form, s, secret, errs)
		}
	}
	return dst, errs
}

// appendValue appends the JSON text of v.
func appendValue(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case string:
		if isPlain(v) {
			return append(append(append(dst, '"'), v...), '"'), nil
		}
	case json.Number:
		if _, ok := parseIndex(string(v)); ok {
			return append(dst, v...), nil
		}
	}
	return jsontext.Append(dst, v)
}

// appendInner appends s as it stands inside of a JSON string.
func appendInner(dst []byte, s string) ([]byte, error) {
	if isPlain(s) {
		return append(dst, s...), nil
	}
	start := len(dst)
	dst, err := jsontext.Append(dst, s)
	if err != nil {
		return dst[:start], err
	}
	copy(dst[start:], dst[start+1:])
	return dst[:len(dst)-2], nil
}

// isPlain reports whether JSON writes s as it is.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// A compiler makes a template.
type compiler struct {
	t     *Template
	where []byte   // the place of the value at hand
	path  []string // the same by names, with listItem for an item of a list
	buf   []byte   // JSON text since the last hole
	f     field    // the field at hand
	seen  map[string]bool
}

func (c *compiler) problem(format string, args ...any) {
	if len(c.t.problems) == maxProblems {
		return
	}
	c.t.problems = append(c.t.problems, courier.Problem{Step: -1, Field: string(c.where), Message: fmt.Sprintf(format, args...)})
}

// normalise returns the configuration as JSON values.
func (c *compiler) normalise(config map[string]any, names []string) map[string]any {
	all, own := config, false
	for _, name := range names {
		v := config[name]
		if isJSON(v, 0) {
			continue
		}
		raw, err := jsontext.Append(nil, v)
		if err == nil {
			v, err = jsontext.Parse(raw)
		}
		if err != nil {
			c.where = appendName([]byte("config"), name)
			c.problem("%v", err)
			v = nil
		}
		if !own {
			all, own = maps.Clone(config), true
		}
		all[name] = v
	}
	return all
}

// isJSON reports whether v is made of JSON values only. It is false for what
// is so deep that it may contain itself.
func isJSON(v any, depth int) bool {
	switch v := v.(type) {
	case nil, bool, string, json.Number:
		return true
	case []any:
		return depth < 100 && v != nil && !slices.ContainsFunc(v, func(x any) bool { return !isJSON(x, depth+1) })
	case map[string]any:
		if depth >= 100 || v == nil {
			return false
		}
		for _, x := range v {
			if !isJSON(x, depth+1) {
				return false
			}
		}
		return true
	}
	return false
}

// sortedNames returns the names of an object in order.
func sortedNames(object map[string]any) []string {
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (c *compiler) field(name string, v any) field {
	c.f, c.buf = field{name: name}, nil
	c.where = append(c.where[:0], "config"...)
	c.name(name)
	c.f.key, c.buf = c.buf, nil
	c.where, c.path = appendName(c.where, name), append(c.path[:0], name)
	c.value(v)
	c.f.pieces = append(c.f.pieces, piece{text: c.buf})
	return c.f
}

func (c *compiler) name(name string) {
	c.literal(name)
	c.buf = append(c.buf, ':')
}

// literal adds v as it is.
func (c *compiler) literal(v any) {
	b, err := appendValue(c.buf, v)
	if err != nil {
		c.problem("%v", err)
		b = append(c.buf, `""`...)
	}
	c.buf = b
}

func (c *compiler) value(v any) {
	at, depth := len(c.where), len(c.path)
	switch v := v.(type) {
	case string:
		c.text(v)
	case []any:
		c.buf = append(c.buf, '[')
		for i, x := range v {
			if i > 0 {
				c.buf = append(c.buf, ',')
			}
			c.where = append(strconv.AppendInt(append(c.where, '['), int64(i), 10), ']')
			c.path = append(c.path, listItem)
			c.value(x)
			c.where, c.path = c.where[:at], c.path[:depth]
		}
		c.buf = append(c.buf, ']')
	case map[string]any:
		c.buf = append(c.buf, '{')
		for i, name := range sortedNames(v) {
			if i > 0 {
				c.buf = append(c.buf, ',')
			}
			c.where = appendName(c.where, name)
			c.name(name)
			c.path = append(c.path, name)
			c.value(v[name])
			c.where, c.path = c.where[:at], c.path[:depth]
		}
		c.buf = append(c.buf, '}')
	default:
		c.literal(v)
	}
}

func (c *compiler) text(s string) {
	t, err := parseText(s)
	if err != nil {
		c.problem("%v", err)
		c.literal(nil)
		return
	}
	if t.secret != "" {
		c.hole(hole{secret: t.secret})
		c.secret(t.secret)
		return
	}
	if literal, ok := t.constant(); ok {
		c.literal(literal)
		return
	}
	if t.whole {
		c.hole(hole{ref: t.parts[0].ref})
		return
	}
	h := hole{runs: make([]run, len(t.parts))}
	for i, p := range t.parts {
		b, err := appendInner(nil, p.literal)
		if err != nil {
			c.problem("%v", err)
		}
		h.runs[i] = run{p, b}
	}
	c.hole(h)
}

func (c *compiler) hole(h hole) {
	h.where, h.path = string(c.where), slices.Clone(c.path)
	c.f.pieces = append(c.f.pieces, piece{c.buf, &h})
	c.f.holes++
	c.buf = nil
	if h.ref != nil {
		c.t.refs = append(c.t.refs, FieldReference{Field: h.where, Ref: *h.ref, Whole: true, within: h.path})
	}
	for _, r := range h.runs {
		if r.ref != nil {
			c.t.refs = append(c.t.refs, FieldReference{Field: h.where, Ref: *r.ref})
		}
	}
}

func (c *compiler) secret(name string) {
	if c.seen == nil {
		c.seen = make(map[string]bool)
	}
	c.seen[name] = true
}

// appendName appends a field's name to the place of what it lies in.
func appendName(where []byte, name string) []byte {
	if name == "" || strings.ContainsAny(name, ".[]\"") || hasControl(name) {
		return append(strconv.AppendQuote(append(where, '['), name), ']')
	}
	return append(append(where, '.'), name...)
}
