// Package jsonschema makes JSON Schemas of definitions, which editors use to complete
// and check them, and of the parameters of a job, from which forms are made.
//
// A schema sees the form of a definition: the names of fields, which of them are
// needed, and the values that they may have. It does not see what only the whole
// definition says, such as where a reference leads, whether blocks are closed and
// whether ids are unique; Engine.Check does.
//
// A schema refuses nothing that Engine.Jobs().Define accepts, and likewise for the
// other definitions, with one exception: null, and the zero value of a field's type,
// stand for a field that is not given where Define reads them, while for the schema
// such a field is given, and null is no value. A step type may have capital letters;
// the configuration of such a step is not checked.
//
// The schemas are of draft-07, which all editors know, in compact JSON text. The same
// step types and options always give the same text. That of jobs with all step types
// of package steps has about 77 KB, and 11 KB compressed.
package jsonschema

import (
	"encoding/json"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/jsontext"
)

// Options say what a schema offers. The zero value offers what is in the definitions'
// own types.
type Options struct {
	// Names are known names, which editors offer where a definition has one. Other
	// names stay valid.
	Names Names
}

// Names are names of what definitions refer to.
type Names struct {
	Jobs, Chains []string
	// Connections are ids of connections by the family of step types that uses them,
	// such as "sftp". Fields called connection_id have them.
	Connections map[string][]string
}

// Job returns the schema of a [courier.Job] whose steps are of the types in r.
func Job(r *courier.Registry, o *Options) []byte { return newBuilder(o).job(r) }

// Chain returns the schema of a chain, the type Chain of package chain.
func Chain(o *Options) []byte { return newBuilder(o).chain() }

// Schedule returns the schema of a [schedule.Schedule].
func Schedule(o *Options) []byte { return newBuilder(o).schedule() }

// Monitor returns the schema of a [monitor.Monitor].
func Monitor(o *Options) []byte { return newBuilder(o).monitor() }

// Subscription returns the schema of a [notify.Subscription].
func Subscription(o *Options) []byte { return newBuilder(o).subscription() }

// A schema is a JSON Schema, or a part of one.
type schema = map[string]any

// A builder makes one schema.
type builder struct {
	names       Names
	definitions schema
}

func newBuilder(o *Options) *builder {
	b := &builder{definitions: schema{}}
	if o != nil {
		b.names = o.Names
	}
	return b
}

// define adds a part that is used several times, and returns a reference to it.
func (b *builder) define(name string, part func() schema) schema {
	if b.definitions[name] == nil {
		b.definitions[name] = schema{} // for parts that refer to themselves
		b.definitions[name] = part()
	}
	return schema{"$ref": "#/definitions/" + name}
}

// document returns the text of the schema of a definition.
func (b *builder) document(title string, root schema) []byte {
	root["$schema"], root["title"] = "http://json-schema.org/draft-07/schema#", title
	if len(b.definitions) > 0 {
		root["definitions"] = b.definitions
	}
	text, err := jsontext.AppendAny(nil, root)
	if err != nil {
		panic("jsonschema: " + err.Error()) // a schema holds JSON values only
	}
	return text
}

// described returns s with a description, and with a default if that is not nil.
func described(s schema, doc string, value any) schema {
	if doc != "" {
		s["description"] = doc
	}
	if value != nil {
		s["default"] = value
	}
	return s
}

// object is the schema of an object with certain properties and no others.
func object(properties schema, required ...string) schema {
	s := schema{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// list is the schema of a list.
func list(items schema, doc string) schema {
	return described(schema{"type": "array", "items": items}, doc, nil)
}

func anyOf(list ...schema) schema { return schema{"anyOf": list} }

// when applies a schema to what fits a condition.
func when(condition, then schema) schema { return schema{"if": condition, "then": then} }

// unless applies a schema to what does not fit a condition.
func unless(condition, otherwise schema) schema {
	return schema{"if": condition, "then": schema{}, "else": otherwise}
}

// has is the schema of an object in which a property has one of some values.
func has(name string, values ...any) schema {
	of := schema{"enum": values}
	if len(values) == 1 {
		of = schema{"const": values[0]}
	}
	return schema{"properties": schema{name: of}, "required": []string{name}}
}

// forbidden is the schema of an object that lacks certain properties.
func forbidden(names ...string) schema {
	properties := schema{}
	for _, name := range names {
		properties[name] = false
	}
	return schema{"type": "object", "properties": properties}
}

// exactlyOne is the schema of an object that has one of certain properties.
func exactlyOne(names ...string) schema {
	list := make([]schema, len(names))
	for i, name := range names {
		list[i] = schema{"required": []string{name}}
	}
	return schema{"oneOf": list}
}

// enum is the schema of a string that has one of some values.
func enum[T ~string](doc string, value any, values ...T) schema {
	return described(schema{"enum": values}, doc, value)
}

func text(doc string) schema { return described(schema{"type": "string"}, doc, nil) }

func boolean(doc string) schema { return described(schema{"type": "boolean"}, doc, nil) }

// needed is the schema of a text that is not empty.
func needed(doc string) schema {
	return described(schema{"type": "string", "minLength": 1}, doc, nil)
}

// maxName is how many characters a name may have.
const maxName = 200

// plainText is the form of a text without control characters.
const plainText = `^[^\x00-\x1f\x7f-\x9f]*$`

// label is the schema of a name for people or of a queue, which may be empty.
func label(doc string) schema {
	return described(schema{"type": "string", "maxLength": maxName, "pattern": plainText}, doc, nil)
}

// name is the schema of the name of a definition.
func name(doc string) schema {
	s := label(doc)
	s["minLength"] = 1
	return s
}

// inURL is the schema of a name that is part of a URL.
func inURL(doc string) schema {
	s := name(doc)
	s["not"] = schema{"enum": []string{".", ".."}}
	return s
}

// known is the schema of a name for which some are offered.
func known(doc string, names []string) schema {
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
func whole(doc string, least, most any) schema {
	s := schema{"type": "integer", "minimum": least}
	if most != nil {
		s["maximum"] = most
	}
	return described(s, doc, nil)
}

func seconds(doc string) schema {
	return described(schema{"type": "number", "minimum": 0}, doc, nil)
}

func instant(doc string) schema {
	return described(schema{"type": "string", "format": "date-time"}, doc, nil)
}

// priority is the schema of the priority of executions.
func priority() schema { return whole("Higher is claimed first.", -1<<15, 1<<15-1) }

// version is the schema of a version that is assigned when a definition is saved.
func version() schema {
	return schema{"type": "integer", "readOnly": true, "description": "Assigned when the definition is saved; ignored in what is saved."}
}

// reports is the schema of a field that is for reading.
func reports(typ string) schema { return schema{"type": typ, "readOnly": true} }

// number returns the JSON number of a text, or nil.
func number(text json.Number) any {
	if text == "" {
		return nil
	}
	return text
}
