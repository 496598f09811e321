package sftp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
)

// UnmarshalJSON reads the form {"host": "files.example.com", "port": 22,
// "username": "acme", "password": "secret:acme", "host_keys": ["SHA256:..."]}.
// The names are those of the fields in snake case; times are numbers of
// seconds: connect_timeout_seconds, keep_alive_seconds,
// operation_timeout_seconds. Unknown names are errors.
func (c *Connection) UnmarshalJSON(text []byte) error {
	type plain Connection // without this method
	var f struct {
		plain
		Password                string   `json:"password"`
		PrivateKey              string   `json:"private_key"`
		Passphrase              string   `json:"passphrase"`
		Certificate             string   `json:"certificate"`
		ConnectTimeoutSeconds   float64  `json:"connect_timeout_seconds"`
		KeepAliveSeconds        *float64 `json:"keep_alive_seconds"`
		OperationTimeoutSeconds float64  `json:"operation_timeout_seconds"`
	}
	if err := decodeStrict(text, &f); err != nil {
		return err
	}
	*c = Connection(f.plain)
	c.Password, c.PrivateKey, c.Passphrase, c.Certificate = f.Password, f.PrivateKey, f.Passphrase, f.Certificate
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
			names = slices.Compact(names) // host_keys are a field of the algorithms too
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
