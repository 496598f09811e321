// Package schemadoc makes JSON Schemas: those of definitions, which it describes field by
// field, and the parts of which package httpapi makes the schemas of its other types.
//
// It writes two dialects. Editors read draft-07, one document for each kind of definition
// ([Definition]). OpenAPI documents have the dialect 2020-12, and a name for each schema, by
// which generated clients name their types ([Components]).
//
// The steps of a job have one if with a then for each type, in an allOf: with oneOf and anyOf
// editors compare a step of an unknown type with all types, and complain of missing fields of
// some other type. A field that is no text is anyOf its type and a reference. Known names are
// examples, so that others stay valid. The OpenAPI document leaves out conditions between fields
// and the types of steps, which generators of clients do not read; it permits null for pointers,
// and the zero values of fields that may be left out.
package schemadoc

import (
	"reflect"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/jsontext"
)

// The dialects, as documents name them.
const (
	draft07   = "http://json-schema.org/draft-07/schema#"
	Draft2020 = "https://json-schema.org/draft/2020-12/schema"
)

// A Schema is a JSON Schema, a part of one, or of a document that holds schemas. Its
// values are those that have a JSON text.
type Schema = map[string]any

// Text returns the JSON text of a schema or a document, in which names are in order.
func Text(s Schema) []byte {
	text, err := jsontext.AppendAny(nil, s)
	if err != nil {
		panic("schemadoc: " + err.Error()) // a schema holds JSON values only
	}
	return text
}

// Names are known names, which editors offer where a definition refers to something. The
// names of connections are listed by the family of step types.
type Names struct {
	Jobs, Chains []string
	Connections  map[string][]string
}

// kinds make the schemas of the kinds of definitions.
var kinds = map[string]func(*builder) Schema{
	"job": (*builder).job, "chain": (*builder).chain, "schedule": (*builder).schedule, "monitor": (*builder).monitor,
	"subscription": (*builder).subscription, "calendar": (*builder).calendar,
	"expectation": (*builder).expectation,
}

// Definition returns the draft-07 schema of a kind of definitions: job, chain, schedule,
// monitor, expectation, subscription or calendar. The steps of jobs are of the types in r, which the other kinds do
// not use.
func Definition(kind string, r *courier.Registry, n Names) []byte {
	b := &builder{registry: r, names: n, definitions: Schema{}}
	root := kinds[kind](b)
	if len(b.definitions) > 0 {
		root["definitions"] = b.definitions
	}
	return document("Courier "+kind, root)
}

// document returns the text of a schema of draft-07.
func document(title string, root Schema) []byte {
	root["$schema"], root["title"] = draft07, title
	return Text(root)
}

// A builder makes the schemas of one document.
type builder struct {
	registry    *courier.Registry
	names       Names
	definitions Schema // by name, the parts that others refer to
	// types are the Go types of which an OpenAPI document has schemas, with their names in
	// it; nil for draft-07.
	types map[reflect.Type]string
}

// define adds a part that is used several times, and returns a reference to it. The part
// has a name for each dialect.
func (b *builder) define(editor, openAPI string, part func() Schema) Schema {
	name, ref := editor, Schema{"$ref": "#/definitions/" + editor}
	if b.types != nil {
		name, ref = openAPI, Ref(openAPI)
	}
	if b.definitions[name] == nil {
		b.definitions[name] = Schema{} // for parts that refer to themselves
		b.definitions[name] = part()
	}
	return ref
}

// part returns the schema of the Go type T. An OpenAPI document has it under a name, since
// generated clients name their types by it.
func part[T any](b *builder, name string, of func() Schema) Schema {
	if b.types == nil {
		return of()
	}
	b.types[reflect.TypeFor[T]()] = name
	return b.define("", name, of)
}

// described returns s with a description, and with a default if that is not nil.
func described(s Schema, doc string, value any) Schema {
	if doc != "" {
		s["description"] = doc
	}
	if value != nil {
		s["default"] = value
	}
	return s
}

// Object returns the schema of an object that has certain properties and no others.
func Object(properties Schema, required ...string) Schema {
	s := Schema{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// Ref returns a reference to a schema of an OpenAPI document.
func Ref(name string) Schema { return Schema{"$ref": "#/components/schemas/" + name} }

// Nullable returns a schema of the dialect 2020-12 that permits null besides what s
// permits. It may change s.
func Nullable(s Schema) Schema {
	kind, plain := s["type"].(string)
	switch {
	case len(s) == 0:
		return s
	case !plain || s["enum"] != nil:
		return AnyOf(s, Schema{"type": "null"})
	}
	s["type"] = []string{kind, "null"}
	return s
}

// orNull is [Nullable] in an OpenAPI document. In it null stands for a field of a pointer
// type that is not given, as clients write it; for an editor it is no value.
func (b *builder) orNull(s Schema) Schema {
	if b.types == nil {
		return s
	}
	return Nullable(s)
}

// AnyOf returns the schema of what fits at least one of some schemas.
func AnyOf(list ...Schema) Schema { return Schema{"anyOf": list} }

// list is the schema of a list.
func list(items Schema, doc string) Schema {
	return described(Schema{"type": "array", "items": items}, doc, nil)
}

// when applies a schema to what fits a condition.
func when(condition, then Schema) Schema { return Schema{"if": condition, "then": then} }

// unless applies a schema to what does not fit a condition.
func unless(condition, otherwise Schema) Schema {
	return Schema{"if": condition, "then": Schema{}, "else": otherwise}
}

// has is the schema of an object in which a property has one of some values.
func has(name string, values ...any) Schema {
	of := Schema{"enum": values}
	if len(values) == 1 {
		of = Schema{"const": values[0]}
	}
	return Schema{"properties": Schema{name: of}, "required": []string{name}}
}

// forbidden is the schema of an object that lacks certain properties.
func forbidden(names ...string) Schema {
	properties := Schema{}
	for _, name := range names {
		properties[name] = false
	}
	return Schema{"type": "object", "properties": properties}
}

// exactlyOne is the schema of an object that has one of certain properties.
func exactlyOne(names ...string) Schema {
	list := make([]Schema, len(names))
	for i, name := range names {
		list[i] = Schema{"required": []string{name}}
	}
	return Schema{"oneOf": list}
}

// enum is the schema of a string that has one of some values.
func enum[T ~string](doc string, value any, values ...T) Schema {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = string(v)
	}
	return described(Schema{"enum": words}, doc, value)
}

func text(doc string) Schema { return described(Schema{"type": "string"}, doc, nil) }

func boolean(doc string) Schema { return described(Schema{"type": "boolean"}, doc, nil) }

// needed is the schema of a text that is not empty.
func needed(doc string) Schema {
	return described(Schema{"type": "string", "minLength": 1}, doc, nil)
}

// maxName is how many characters a name may have.
const maxName = 200

// plainText is the form of a text without control characters.
const plainText = `^[^\x00-\x1f\x7f-\x9f]*$`

// label is the schema of a name for people or of a queue, which may be empty.
func label(doc string) Schema {
	return described(Schema{"type": "string", "maxLength": maxName, "pattern": plainText}, doc, nil)
}

// name is the schema of the name of a definition.
func name(doc string) Schema {
	s := label(doc)
	s["minLength"] = 1
	return s
}

// inURL is the schema of a name that is part of a URL.
func inURL(doc string) Schema {
	s := name(doc)
	s["not"] = Schema{"enum": []string{".", ".."}}
	return s
}

// known is the schema of a name for which some are offered.
func known(doc string, names []string) Schema {
	s := needed(doc)
	if len(names) > 0 {
		s["examples"] = sorted(names)
	}
	return s
}

// sorted returns names in order, each once.
func sorted(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// whole is the schema of a whole number; the most is nil if there is no bound.
func whole(doc string, least, most any) Schema {
	s := Schema{"type": "integer", "minimum": least}
	if most != nil {
		s["maximum"] = most
	}
	return described(s, doc, nil)
}

func seconds(doc string) Schema {
	return described(Schema{"type": "number", "minimum": 0}, doc, nil)
}

func instant(doc string) Schema {
	return described(Schema{"type": "string", "format": "date-time"}, doc, nil)
}

// priority is the schema of the priority of executions.
func priority() Schema { return whole("Higher is claimed first.", -1<<15, 1<<15-1) }

// version is the schema of a version that is assigned when a definition is saved.
func version() Schema {
	return Schema{"type": "integer", "readOnly": true, "description": "Assigned when the definition is saved; ignored in what is saved."}
}

// reports is the schema of a field that is for reading.
func reports(typ string) Schema { return Schema{"type": typ, "readOnly": true} }
