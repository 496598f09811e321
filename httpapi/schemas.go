package httpapi

import (
	"encoding"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/internal/attention"
	"github.com/courierhq/courier/internal/schemadoc"
	"github.com/courierhq/courier/monitor"
)

// A schema is a part of the OpenAPI document, such as a JSON Schema.
type schema = schemadoc.Schema

// schemas makes the JSON Schemas of Go types as encoding/json writes them. The schemas of
// definitions come from package schemadoc, which also describes them for editors.
type schemas struct {
	named   schema                  // by the names under which others refer to them
	names   map[reflect.Type]string // of the types in named
	closed  bool                    // the types of bodies: objects accept no other fields
	missing []string                // types with MarshalJSON and without a form
}

// newSchemas returns the schemas of definitions. A read-only field of a definition, such as the
// health of a monitor, has the schema of its Go type, because schemadoc only has its name, which is
// enough for an editor.
func newSchemas() *schemas {
	s := new(schemas)
	s.named, s.names = schemadoc.Components()
	for t, name := range maps.Clone(s.names) {
		properties := s.named[name].(schema)["properties"].(schema)
		for _, f := range fieldsOf(t) {
			if p, ok := properties[f.name].(schema); ok && p["readOnly"] == true {
				maps.Copy(p, s.of(f.typ))
			}
		}
	}
	return s
}

// of returns the schema of a type.
func (s *schemas) of(t reflect.Type) schema {
	switch t {
	case reflect.TypeFor[time.Time]():
		return schema{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return schema{}
	case reflect.TypeFor[json.Number]():
		return schema{"type": "number"}
	}
	if short, ok := shortForms[t]; ok {
		return schemadoc.AnyOf(s.ref(t), s.ref(short))
	}
	if words, ok := enums[t]; ok {
		return schema{"type": "string", "enum": words}
	}
	if t.Kind() != reflect.Pointer && t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return schema{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemadoc.Nullable(s.of(t.Elem()))
	case reflect.Struct:
		if t.Name() == "" {
			return s.object(t)
		}
		return s.ref(t)
	case reflect.Map:
		o := schema{"type": "object"}
		if values := s.element(t.Elem()); len(values) > 0 {
			o["additionalProperties"] = values
		}
		return o
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return schema{"type": "string", "contentEncoding": "base64"}
		}
		return schema{"type": "array", "items": s.element(t.Elem())}
	}
	return plain(t)
}

// plain returns the schema of a type that has no fields or elements.
func plain(t reflect.Type) schema {
	switch t.Kind() {
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return schema{"type": "number"}
	case reflect.Int16:
		return schema{"type": "integer", "minimum": -1 << 15, "maximum": 1<<15 - 1}
	case reflect.Interface:
		return schema{}
	}
	return schema{"type": "integer"}
}

// element returns the schema of an element of a list or a map. A nil element is null.
func (s *schemas) element(t reflect.Type) schema {
	if k := t.Kind(); (k == reflect.Slice || k == reflect.Map) && t != reflect.TypeFor[json.RawMessage]() {
		return schemadoc.Nullable(s.of(t))
	}
	return s.of(t)
}

// ref returns the reference to the schema of a named type.
func (s *schemas) ref(t reflect.Type) schema {
	name, ok := s.names[t]
	if !ok {
		name = s.nameOf(t)
		s.names[t], s.named[name] = name, nil // it may refer to itself
		s.named[name] = s.object(t)
	}
	return schemadoc.Ref(name)
}

// definition returns a copy of the schema of a definition, and its properties.
func (s *schemas) definition(t reflect.Type) (o, properties schema) {
	o = maps.Clone(s.named[s.names[t]].(schema))
	properties = maps.Clone(o["properties"].(schema))
	o["properties"] = properties
	return o, properties
}

// body returns the schema of the body of a route, nil for none. The body of a PUT may leave out the
// name, which is in the path.
func (s *schemas) body(t *route) schema {
	if t.body == nil {
		return nil
	}
	typ := reflect.TypeOf(t.body)
	if t.method != http.MethodPut || !strings.Contains(t.path, "{name}") {
		return s.of(typ)
	}
	name := "Put" + typeName(typ)
	if s.named[name] == nil {
		o, properties := s.definition(typ)
		properties["name"] = schema{"type": "string", "description": "The name in the path, or left out."}
		required := slices.DeleteFunc(slices.Clone(o["required"].([]string)), func(f string) bool { return f == "name" })
		if o["required"] = required; len(required) == 0 {
			delete(o, "required")
		}
		s.named[name] = o
	}
	return schemadoc.Ref(name)
}

// typeNames are names of types in the document. The Go names of these types are only clear together
// with the name of their package.
var typeNames = map[reflect.Type]string{
	reflect.TypeFor[chain.Execution](): "ChainExecution",
	reflect.TypeFor[chain.Failure]():   "ChainFailure",
	reflect.TypeFor[monitor.Health]():  "MonitorHealth",
	reflect.TypeFor[attention.List]():  "Attention",
}

// typeName returns the name of a type for the document.
func typeName(t reflect.Type) string {
	if name, ok := typeNames[t]; ok {
		return name
	}
	return upperFirst(t.Name())
}

// nameOf returns the name of a type in the document. No other type has the same name.
func (s *schemas) nameOf(t reflect.Type) string {
	name := typeName(t)
	if isPage(t) {
		items, _ := t.FieldByName("Items")
		name = typeName(items.Type.Elem()) + "Page"
	}
	if isSaved(t) {
		value, _ := t.FieldByName("Value")
		name = "Saved" + typeName(value.Type)
	}
	if _, taken := s.named[name]; taken {
		name = upperFirst(t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:]) + name
	}
	return name
}

// isPage reports whether a type is a page, whose items are never null.
func isPage(t reflect.Type) bool { return isOf(t, "page[") }

// isSaved reports whether a type is a saved definition, with warnings.
func isSaved(t reflect.Type) bool { return isOf(t, "saved[") }

// isOf reports whether a type is an instance of a generic type of this package.
func isOf(t reflect.Type, name string) bool {
	return t.PkgPath() == reflect.TypeFor[page[int]]().PkgPath() && strings.HasPrefix(t.Name(), name)
}

func upperFirst(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// object returns the schema of a struct.
func (s *schemas) object(t reflect.Type) schema {
	if isSaved(t) {
		return s.saved(t)
	}
	_, known := forms[t]
	if !known && reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
		s.missing = append(s.missing, t.String())
		return schema{}
	}
	properties, required := schema{}, []string{}
	for _, f := range fieldsOf(t) {
		o := s.of(f.typ)
		switch k := f.typ.Kind(); {
		case k == reflect.Pointer && f.optional && !s.closed:
			o = s.of(f.typ.Elem()) // a nil value is left out
		case !f.optional && !isPage(t):
			o = s.element(f.typ)
		}
		if f.doc != "" {
			o["description"] = f.doc
		}
		properties[f.name] = o
		if !f.optional {
			required = append(required, f.name)
		}
	}
	o := schemadoc.Object(properties, required...)
	if !s.closed {
		delete(o, "additionalProperties")
	}
	return o
}

// saved returns the schema of a saved definition, with warnings.
func (s *schemas) saved(t reflect.Type) schema {
	value, _ := t.FieldByName("Value")
	warnings, _ := t.FieldByName("Warnings")
	o, properties := s.definition(value.Type)
	properties["warnings"] = s.of(warnings.Type)
	delete(o, "additionalProperties")
	return o
}

// A field is a field of a JSON object.
type field struct {
	name     string
	typ      reflect.Type
	optional bool // it can be left out
	doc      string
}

// fieldsOf returns the fields of the JSON object of a struct, in order. If several fields have the
// same name, the outer one counts.
func fieldsOf(t reflect.Type) (list []field) {
	f := forms[t]
	if f.only != nil {
		return fieldsOf(reflect.TypeOf(f.only))
	}
	own := make(map[string]bool)
	put := func(n field, outer bool) {
		for i := range list {
			if list[i].name == n.name {
				if outer || !own[n.name] {
					list[i] = n
				}
				return
			}
		}
		list = append(list, n)
	}
	for i := range t.NumField() {
		sf := t.Field(i)
		name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		switch {
		case sf.Anonymous && name == "" && sf.Type.Kind() == reflect.Struct:
			for _, n := range fieldsOf(sf.Type) {
				put(n, false)
			}
			continue
		case !sf.IsExported() || name == "-":
			continue
		case name == "":
			name = sf.Name
		}
		own[name] = true
		put(field{name, sf.Type, omitted(options, sf.Type.Kind()), sf.Tag.Get("doc")}, true)
	}
	if f.adds != nil {
		for _, n := range fieldsOf(reflect.TypeOf(f.adds)) {
			put(n, true)
		}
	}
	return list
}

// omitted reports whether a field of a kind may be left out, according to the options in its tag.
func omitted(options string, k reflect.Kind) bool {
	return strings.Contains(options, "omitzero") || strings.Contains(options, "omitempty") && k != reflect.Struct && k != reflect.Array
}
