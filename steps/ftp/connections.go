package ftp

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

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
)

// UnmarshalJSON reads the form {"host": "files.example.com", "username":
// "acme", "password": "secret:acme", "security": "explicit"}. The names are
// those of the fields in snake case; times are numbers of seconds:
// connect_timeout_seconds, keep_alive_seconds, operation_timeout_seconds.
// Unknown names are errors.
func (c *Connection) UnmarshalJSON(text []byte) error {
	type plain Connection // without this method
	var f struct {
		plain
		Password                string   `json:"password"`
		ClientKey               string   `json:"client_key"`
		ConnectTimeoutSeconds   float64  `json:"connect_timeout_seconds"`
		KeepAliveSeconds        *float64 `json:"keep_alive_seconds"`
		OperationTimeoutSeconds float64  `json:"operation_timeout_seconds"`
	}
	if err := decodeStrict(text, &f); err != nil {
		return err
	}
	*c = Connection(f.plain)
	c.Password, c.ClientKey = f.Password, f.ClientKey
	c.ConnectTimeout = seconds(f.ConnectTimeoutSeconds)
	c.OperationTimeout = seconds(f.OperationTimeoutSeconds)
	if f.KeepAliveSeconds != nil {
		c.KeepAlive = new(seconds(*f.KeepAliveSeconds))
	}
	return nil
}

// seconds keeps the sign of n, however small or large it is, since 0 means
// something else.
func seconds(n float64) time.Duration {
	const most = 1 << 62
	d := time.Duration(max(-most, min(n*float64(time.Second), most)))
	switch {
	case n > 0:
		return max(d, 1)
	case n < 0:
		return min(d, -1)
	}
	return 0
}

// decodeStrict decodes JSON into v and refuses unknown names.
func decodeStrict(text []byte, v any) error {
	if !utf8.Valid(text) {
		return errUTF8
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if err == nil {
		return nil
	}
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && t.Field != "" {
		return fmt.Errorf("%s: must be %s, not a JSON %s", strings.TrimPrefix(t.Field, "plain."), jsonKind(t.Type), t.Value)
	}
	message := strings.TrimPrefix(err.Error(), "json: ")
	if quoted, ok := strings.CutPrefix(message, "unknown field "); ok {
		if name, err := strconv.Unquote(quoted); err == nil {
			names := jsonNames(reflect.TypeOf(v).Elem())
			slices.Sort(names)
			names = slices.Compact(names)
			return fmt.Errorf("unknown field %s; %s", safename.Quote(name), courier.DidYouMean(name, names))
		}
	}
	return errors.New(message)
}

// errUTF8 is about text in which package json would replace characters, such as
// those of a password.
var errUTF8 = errors.New("is not valid UTF-8; save the file in that form")

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

// A Map holds connections by id. It must not be changed while it is in use.
type Map map[string]Connection

var _ Connections = Map(nil)

// Connection returns the connection called id.
func (m Map) Connection(_ context.Context, id string) (Connection, error) {
	c, ok := m[id]
	if !ok {
		return c, &unknownConnection{fmt.Sprintf("no such connection; %s", courier.DidYouMean(id, slices.Sorted(maps.Keys(m))))}
	}
	return c, nil
}

// unknownConnection matches [courier.ErrNotFound] without repeating its text.
type unknownConnection struct{ text string }

func (e *unknownConnection) Error() string        { return e.text }
func (e *unknownConnection) Is(target error) bool { return target == courier.ErrNotFound }

// ReadConnections reads a JSON file that maps ids to connections, such as
// {"acme": {"host": "files.example.com", ...}}; see [Connection.UnmarshalJSON].
// All that is wrong with a connection by itself is reported here. The server is
// not asked, and secrets are not resolved.
func ReadConnections(path string) (Map, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("ftp connections: %w", err)
	}
	m, err := parseConnections(text)
	if err != nil {
		return nil, fmt.Errorf("ftp connections: %s: %w", path, err)
	}
	return m, nil
}

func parseConnections(text []byte) (Map, error) {
	if !utf8.Valid(text) {
		return nil, errUTF8
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("must be a JSON object that maps ids to connections: %w", err)
	}
	m := make(Map, len(raw))
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(raw)) {
		var c Connection
		err := json.Unmarshal(raw[id], &c)
		if err == nil {
			err = c.check()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("connection %q: %w", id, err))
		}
		m[id] = c
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return m, nil
}
