// Package connfile reads the connections of step types from JSON, strictly, and says
// what is wrong with their fields.
package connfile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/courierhq/courier/internal/nearest"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
)

// Seconds returns n seconds. It keeps the sign of n, however small or large it is, since 0 means
// something else.
func Seconds(n float64) time.Duration {
	const limit = 1 << 62
	d := time.Duration(max(-limit, min(n*float64(time.Second), limit)))
	switch {
	case n > 0:
		return max(d, 1)
	case n < 0:
		return min(d, -1)
	}
	return 0
}

// DecodeStrict decodes JSON into the struct to which v points, and refuses
// unknown names. The fields of an embedded struct called plain, and of embedded
// Timeouts, count as v's own.
func DecodeStrict(text []byte, v any) error {
	if !utf8.Valid(text) {
		return errUTF8
	}
	if err := checkNames(text, jsonNames(reflect.TypeOf(v).Elem())); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if err == nil {
		return nil
	}
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && t.Field != "" {
		field := strings.TrimPrefix(strings.TrimPrefix(t.Field, "plain."), "Timeouts.")
		return Wrong(field, "%s: must be %s, not a JSON %s", field, jsonKind(t.Type), t.Value)
	}
	message := strings.TrimPrefix(err.Error(), "json: ")
	if quoted, ok := strings.CutPrefix(message, "unknown field "); ok {
		if name, err := strconv.Unquote(quoted); err == nil {
			return unknownField(name, jsonNames(reflect.TypeOf(v).Elem()))
		}
	}
	return errors.New(message)
}

func unknownField(name string, names []string) error {
	slices.Sort(names)
	names = slices.Compact(names) // a struct may have names of the one around it too
	return Wrong(name, "unknown field %s; %s", safename.Quote(name), nearest.DidYouMean(name, names))
}

// checkNames returns the errors of a valid JSON object with names that are repeated, or that are
// none of some names, unless these are nil: package json takes "User" for "user".
func checkNames(text []byte, names []string) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		return nil // null
	}
	seen := make(map[string]bool)
	var errs []error
	for dec.More() {
		token, err := dec.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return err
		}
		switch {
		case names != nil && !slices.Contains(names, name):
			errs = append(errs, unknownField(name, names))
		case seen[name]:
			errs = append(errs, Wrong(name, "the name %s is repeated", safename.Quote(name)))
		}
		seen[name] = true
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// errUTF8 is about text in which package json would replace characters, such as
// those of a password.
var errUTF8 = errors.New("is not valid UTF-8; save the file as UTF-8")

// jsonKind is how a message calls what JSON must have for a type.
func jsonKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a number"
}

// jsonNames lists the names that a struct and those in it have in JSON.
func jsonNames(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		name := f.Tag.Get("json")
		if name == "-" {
			continue
		}
		if name != "" {
			names = append(names, name)
		}
		if f.Type.Kind() == reflect.Struct {
			names = append(names, jsonNames(f.Type)...)
		}
	}
	return names
}

// Find returns the connection called id. If there is none, the error matches
// [courier.ErrNotFound].
func Find[C any](connections map[string]C, id string) (C, error) {
	c, ok := connections[id]
	if !ok {
		return c, &unknownConnection{fmt.Sprintf("no such connection; %s", nearest.DidYouMean(id, slices.Sorted(maps.Keys(connections))))}
	}
	return c, nil
}

// unknownConnection matches [courier.ErrNotFound] without repeating its text.
type unknownConnection struct{ text string }

func (e *unknownConnection) Error() string        { return e.text }
func (e *unknownConnection) Is(target error) bool { return target == courier.ErrNotFound }

// ReadConnections reads a JSON file that maps ids to connections. Kind is what
// errors call them, such as "sftp". Complete sets what the file does not hold, and check
// looks at one of all the connections that are complete. Both tell what is wrong by joined
// errors.
func ReadConnections[C any](path, kind string, complete func(id string, c *C) error, check func(id string, all map[string]C) error) (map[string]C, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s connections: %w", kind, err)
	}
	m, err := ParseConnections(text, complete, check)
	if err != nil {
		return nil, fmt.Errorf("%s connections: %s: %w", kind, path, err)
	}
	return m, nil
}

// ParseConnections is ReadConnections for the content of such a file. Its error has all
// mistakes of all connections, each with its line.
func ParseConnections[C any](text []byte, complete func(id string, c *C) error, check func(id string, all map[string]C) error) (map[string]C, error) {
	if !utf8.Valid(text) {
		return nil, errUTF8
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		if bad, ok := errors.AsType[*json.SyntaxError](err); ok {
			return nil, fmt.Errorf("line %d: must be a JSON object that maps ids to connections: %w", lineAt(text, bad.Offset), err)
		}
		return nil, fmt.Errorf("must be a JSON object that maps ids to connections: %w", err)
	}
	if err := checkNames(text, nil); err != nil {
		return nil, err
	}
	m := make(map[string]C, len(raw))
	read, incomplete := make(map[string]error), make(map[string]error)
	for id, text := range raw {
		var c C
		if read[id] = json.Unmarshal(text, &c); read[id] == nil {
			incomplete[id] = complete(id, &c)
		}
		m[id] = c
	}
	var wrong []located
	for _, id := range slices.Sorted(maps.Keys(raw)) {
		err := read[id]
		if err == nil {
			err = errors.Join(incomplete[id], check(id, m))
		}
		for _, err := range flat(err) {
			line := lineOf(text, id, err)
			wrong = append(wrong, located{line, fmt.Errorf("line %d: connection %q: %w", line, id, err)})
		}
	}
	slices.SortStableFunc(wrong, func(a, b located) int { return a.line - b.line })
	var errs []error
	for _, w := range wrong {
		errs = append(errs, w.err)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return m, nil
}

// A located is an error with its line.
type located struct {
	line int
	err  error
}

// flat returns the errors that were joined.
func flat(err error) (list []error) {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			list = append(list, flat(e)...)
		}
		return list
	}
	return []error{err}
}

// lineOf returns the line of the field that an error is about, or begins with, in the last
// object with the id of the connection; that of the id if there is no such field.
func lineOf(text []byte, id string, err error) int {
	field, _, _ := strings.Cut(err.Error(), ": ")
	if e, ok := errors.AsType[*fieldError](err); ok {
		field = e.field
	}
	path := append([]string{id}, strings.FieldsFunc(field, func(r rune) bool { return r == '.' || r == '[' })...)
	at := int64(0)
	for base := int64(0); len(path) > 0; path = path[1:] {
		dec := json.NewDecoder(bytes.NewReader(text[base:]))
		if first, err := dec.Token(); err != nil || first != json.Delim('{') {
			break
		}
		found := int64(-1)
		for dec.More() {
			name, err := dec.Token()
			end := dec.InputOffset()
			var value json.RawMessage
			if err != nil || dec.Decode(&value) != nil {
				break
			}
			if name == path[0] {
				found, at = base+dec.InputOffset()-int64(len(value)), base+end
			}
		}
		if found < 0 {
			break
		}
		base = found
	}
	return lineAt(text, at)
}

// lineAt returns the number of the line with an offset.
func lineAt(text []byte, offset int64) int {
	return 1 + bytes.Count(text[:min(offset, int64(len(text)))], []byte("\n"))
}

// Secret returns what the text of a credential stands for: the secret that
// "secret:NAME" names, and otherwise the text itself, without the dollar sign of
// "$secret:". The job's Redact knows it from now on. Errors begin with the name
// of the field.
func Secret(ctx context.Context, job *courier.Context, field, text string) (string, error) {
	name, ok := strings.CutPrefix(text, "secret:")
	if !ok {
		if strings.HasPrefix(text, "$secret:") {
			text = text[1:]
		}
		job.AddSecret(field, text)
		return text, nil
	}
	value, err := job.Secret(ctx, name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", field, err)
	}
	return value, nil
}
