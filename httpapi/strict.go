package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/courierhq/courier/internal/jsontext"
)

// maxDepth is how deep lists and objects may be nested in a body.
const maxDepth = 100

// checkJSON returns what is wrong with the form of a body: besides what [checkForm] says,
// no name may be repeated in an object.
func checkJSON(raw []byte) error {
	if err := checkForm(raw); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if path := repeated(dec); path != nil {
		slices.Reverse(path)
		return oneProblem(item{Pointer: shortPointer("/" + strings.Join(path, "/")), Message: "the name is repeated in its object"})
	}
	return nil
}

// checkForm returns an error if a body is not one JSON value in UTF-8.
func checkForm(raw []byte) error {
	if !json.Valid(raw) {
		return problemf(codeInvalid, "the body is no JSON: %s", syntax(raw))
	}
	if err := jsontext.CheckText(raw); err != nil {
		return problemf(codeInvalid, "the body %v", err)
	}
	if n := jsontext.Depth(raw); n > maxDepth {
		return problemf(codeInvalid, "the body has %d lists and objects in each other, %d at most", n, maxDepth)
	}
	return nil
}

// syntax says where a text is not valid JSON, without quoting the text.
func syntax(raw []byte) string {
	var v any
	err := json.Unmarshal(raw, &v)
	if s, ok := errors.AsType[*json.SyntaxError](err); ok {
		head := raw[:min(int(s.Offset), len(raw))]
		line := bytes.Count(head, []byte("\n")) + 1
		return fmt.Sprintf("line %d, column %d: a comma, quote or bracket is missing or too much", line, len(head)-bytes.LastIndexByte(head, '\n')-1)
	}
	return "it ends too early"
}

// repeated returns the path of the first name that is repeated in an object of valid JSON text,
// with the name first. It is nil if no name is repeated.
func repeated(dec *json.Decoder) []string {
	tok, err := dec.Token()
	if err != nil {
		return nil
	}
	switch tok {
	case json.Delim('['):
		for i := 0; dec.More(); i++ {
			if path := repeated(dec); path != nil {
				return append(path, strconv.Itoa(i))
			}
		}
	case json.Delim('{'):
		seen := make(map[string]bool)
		for dec.More() {
			tok, _ := dec.Token()
			name, _ := tok.(string)
			if seen[name] {
				return []string{jsontext.EscapePointer(name)}
			}
			seen[name] = true
			if path := repeated(dec); path != nil {
				return append(path, jsontext.EscapePointer(name))
			}
		}
	default:
		return nil
	}
	_, _ = dec.Token() // the bracket at the end
	return nil
}

// bodyProblem says how the form of a body differs from the form that the route takes.
func bodyProblem(err error) error {
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		value, _, _ := strings.Cut(t.Value, " ") // the number that was sent follows
		pointer := ""
		for name := range strings.SplitSeq(t.Field, ".") {
			if name != "" && !unicode.IsUpper(rune(name[0])) { // structs that are embedded have a capital letter, and are not in the body
				pointer += "/" + name
			}
		}
		return oneProblem(item{Pointer: shortPointer(pointer), Message: fmt.Sprintf("it must be %s, and is %s", jsonName(t.Type), kindName(value))})
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		if plain, err := strconv.Unquote(name); err == nil {
			return oneProblem(item{Pointer: shortPointer("/" + jsontext.EscapePointer(plain)), Message: "this route takes no field of this name; see openapi.json"})
		}
	}
	return problemf(codeInvalid, "the body does not have the form that this route takes: see openapi.json")
}

// jsonName is the JSON name for the values of a Go type.
func jsonName(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Float64, reflect.Float32:
		return "a number"
	case reflect.Int16:
		return "a whole number from -32768 to 32767"
	}
	return "a whole number"
}

// kindName is the name of a kind of JSON value, for people.
func kindName(kind string) string {
	switch kind {
	case "string":
		return "a text"
	case "bool":
		return "true or false"
	case "array":
		return "a list"
	case "object":
		return "an object"
	}
	return "another number"
}

// shortPointer returns a pointer to names in a body. Names that are too long are cut off.
func shortPointer(pointer string) string {
	if len(pointer) > 200 {
		return strings.ToValidUTF8(pointer[:200], "") + "…"
	}
	return pointer
}
