package strictjson

import (
	"encoding"
	"encoding/json"
	"reflect"
	"time"
)

// TypeNames is how messages name the types of JSON.
var TypeNames = map[string]string{
	"string": "a string", "boolean": "true or false", "integer": "a whole number", "number": "a number",
	"array": "a list", "object": "an object", "": "null",
}

// KindName is how messages name what a Go type is in JSON.
func KindName(t reflect.Type) string {
	if typ := TypeOf(t); typ != "" {
		return TypeNames[typ]
	}
	return t.String()
}

// TypeOf returns the type of JSON that a Go type is written as and read from: "string",
// "boolean", "integer", "number", "array" or "object". It is empty if any may be.
func TypeOf(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	pt := reflect.PointerTo(t)
	switch {
	case t == reflect.TypeFor[json.Number]():
		return "number"
	case t == reflect.TypeFor[time.Time]():
		return "string"
	case pt.Implements(reflect.TypeFor[json.Unmarshaler]()) || pt.Implements(reflect.TypeFor[json.Marshaler]()):
		return ""
	case pt.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) || pt.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return "string"
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "integer"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return "string" // base64
		}
		return "array"
	case reflect.Map, reflect.Struct:
		return "object"
	}
	return ""
}
