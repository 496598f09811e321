package jsontext

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// Decode decodes JSON text that may have other names than v's: those are ignored. Unlike
// json.Unmarshal it refuses a name that is that of a field but for the case of its letters,
// and one that is repeated.
func Decode(raw []byte, v any) error {
	if err := json.Unmarshal(raw, v); err != nil {
		return err
	}
	return checkNames(raw, v, false)
}

// checkNames returns the error of valid JSON text that was decoded into v, if an object of it
// that became a struct or a map has a name twice, or a field of a struct under another name
// than its own: package json does not distinguish "Params", "params" and "param\u017f". A
// field without a name for JSON is one under its name in Go, in any letter case. Strict says
// that each name has to be that of a field.
func checkNames(raw []byte, v any, strict bool) error {
	n := namesReader{raw: raw, strict: strict}
	n.value(reflect.TypeOf(v))
	return n.err
}

// A namesReader reads a JSON text that is known to be valid.
type namesReader struct {
	raw    []byte
	i      int
	strict bool
	err    error
}

// space goes on to the next byte that is no white space, and returns it.
func (n *namesReader) space() byte {
	for n.i < len(n.raw) && strings.IndexByte(" \t\r\n", n.raw[n.i]) >= 0 {
		n.i++
	}
	if n.i == len(n.raw) {
		return 0
	}
	return n.raw[n.i]
}

// value reads a value that became one of a type; nil if no struct can be in it.
func (n *namesReader) value(t reflect.Type) {
	for t != nil && t.Kind() == reflect.Pointer && !readsItself(t) {
		t = t.Elem()
	}
	if t == nil || readsItself(t) {
		n.skip()
		return
	}
	b := n.space()
	switch kind := t.Kind(); {
	case b == '{' && kind == reflect.Struct:
		n.object(fieldsOf(t), nil)
	case b == '{' && kind == reflect.Map:
		n.object(nil, t.Elem())
	case b == '[' && (kind == reflect.Slice || kind == reflect.Array):
		n.i++
		for n.err == nil && n.space() != ']' {
			n.value(t.Elem())
			n.comma()
		}
		n.i++
	default:
		n.skip()
	}
}

func (n *namesReader) comma() {
	if n.space() == ',' {
		n.i++
	}
}

// object reads an object that became a struct with some fields, or a map with elements of a
// type.
func (n *namesReader) object(fields map[string]field, elem reflect.Type) {
	var seen map[string]bool
	n.i++
	for n.err == nil && n.space() != '}' {
		start := n.i
		n.skip()
		quoted := n.raw[start:n.i]
		name := string(quoted[1 : len(quoted)-1])
		if bytes.IndexByte(quoted, '\\') >= 0 {
			_ = json.Unmarshal(quoted, &name) // it is valid
		}
		t, is := elem, true
		if fields != nil {
			name, t, is = fieldNamed(fields, name)
		}
		switch {
		case is && seen[name]:
			n.err = fmt.Errorf("json: the name %q is repeated in its object", name)
		case is && seen == nil:
			seen = map[string]bool{name: true}
		case is:
			seen[name] = true
		case n.strict || folds(fields, name):
			n.err = fmt.Errorf("json: unknown field %q", name)
		}
		n.space()
		n.i++ // the colon
		n.value(t)
		n.comma()
	}
	n.i++
}

// fieldNamed returns the field that an object names, if there is one, with its name.
func fieldNamed(fields map[string]field, name string) (string, reflect.Type, bool) {
	if f, ok := fields[name]; ok {
		return name, f.typ, true
	}
	for own, f := range fields {
		if f.anyCase && strings.EqualFold(own, name) {
			return own, f.typ, true
		}
	}
	return name, nil, false
}

// folds reports whether a name that is none of the fields would be taken for one of them.
func folds(fields map[string]field, name string) bool {
	for f := range fields {
		if strings.EqualFold(f, name) {
			return true
		}
	}
	return false
}

// skip goes on behind a value.
func (n *namesReader) skip() {
	depth := 0
	for b := n.space(); n.i < len(n.raw); b = n.space() {
		n.i++
		switch b {
		case '"':
			for ; n.raw[n.i] != '"'; n.i++ {
				if n.raw[n.i] == '\\' {
					n.i++
				}
			}
			n.i++
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',', ':':
			continue
		default: // a number, or a word
			for n.i < len(n.raw) && strings.IndexByte(",:]} \t\r\n", n.raw[n.i]) < 0 {
				n.i++
			}
		}
		if depth == 0 {
			return
		}
	}
}

var (
	jsonReader = reflect.TypeFor[json.Unmarshaler]()
	textReader = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// readsItself reports whether a type has a reader of its own, or is any.
func readsItself(t reflect.Type) bool {
	if t.Kind() == reflect.Interface {
		return true
	}
	p := reflect.PointerTo(t)
	return p.Implements(jsonReader) || p.Implements(textReader)
}

// A field is a field of a struct.
type field struct {
	typ reflect.Type
	// anyCase says that its author has given it no name for JSON: then it has that of the
	// field in Go, and package json's rule holds, by which any letter case will do.
	anyCase bool
}

// fieldSets has the result of fieldsOf, by type.
var fieldSets sync.Map

// fieldsOf returns the fields of a struct by their names in JSON. Those of embedded structs
// are among them.
func fieldsOf(t reflect.Type) map[string]field {
	if known, ok := fieldSets.Load(t); ok {
		return known.(map[string]field)
	}
	fields := make(map[string]field)
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case f.Tag.Get("json") == "-", f.Anonymous && name == "" && inner.Kind() == reflect.Struct, !f.IsExported():
		case name == "":
			fields[f.Name] = field{f.Type, true}
		default:
			fields[name] = field{f.Type, false}
		}
	}
	fieldSets.Store(t, fields)
	return fields
}
