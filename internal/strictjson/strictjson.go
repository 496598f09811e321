// Package strictjson reads JSON objects whose names are known. Unknown and repeated names
// are errors, and so are values of another type. All errors of an object are reported
// together, each with the path to its value; see [Errors].
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/courierhq/courier/internal/errtext"
	"github.com/courierhq/courier/internal/nearest"
)

// NewDecoder returns a decoder that keeps the digits of numbers.
func NewDecoder(data []byte) *json.Decoder {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return dec
}

// Fields says how to read the value of each name of an object. Each function reads
// exactly one value.
type Fields map[string]func(*json.Decoder) error

// Into reads a value as package json does.
func Into(v any) func(*json.Decoder) error {
	return func(dec *json.Decoder) error { return Plain(dec.Decode(v)) }
}

// IntoSeconds reads a number of seconds that is not negative; null sets nil.
func IntoSeconds(v **time.Duration) func(*json.Decoder) error {
	return func(dec *json.Decoder) error {
		var s *Seconds
		err := Plain(dec.Decode(&s))
		if err == nil && s != nil && *s < 0 {
			text, _ := s.MarshalJSON()
			err = fmt.Errorf("%s is negative", text)
		}
		*v = (*time.Duration)(s)
		return err
	}
}

// IntoDuration reads a number of seconds that is not negative; null changes nothing.
func IntoDuration(d *time.Duration) func(*json.Decoder) error {
	return func(dec *json.Decoder) error {
		var v *time.Duration
		err := IntoSeconds(&v)(dec)
		if v != nil {
			*d = *v
		}
		return err
	}
}

// IntoTime reads an instant in the form of RFC 3339; null changes nothing.
func IntoTime(t *time.Time) func(*json.Decoder) error {
	return func(dec *json.Decoder) error {
		var text *string
		if err := dec.Decode(&text); err != nil {
			return Plain(err)
		}
		if text == nil {
			return nil
		}
		at, err := time.Parse(time.RFC3339, *text)
		if err != nil {
			return fmt.Errorf("must be an instant such as \"2030-01-31T08:00:00Z\", not %q", errtext.Shorten(*text, 60))
		}
		*t = at
		return nil
	}
}

// IntoList reads a list whose items are read by a function that reports all that is wrong
// with one. What begins the texts of their errors, before the index.
func IntoList[T any](what string, list *[]T, read func(*T, *json.Decoder) error) func(*json.Decoder) error {
	return func(dec *json.Decoder) error {
		tok, err := dec.Token()
		if err != nil {
			return err
		}
		if tok == nil {
			return nil
		}
		if tok != json.Delim('[') {
			return errors.Join(errors.New("must be a list"), Skip(dec, tok))
		}
		*list = []T{}
		var errs []error
		for i := 0; dec.More(); i++ {
			var v T
			if err := read(&v, dec); err != nil && len(errs) < errtext.MaxListed {
				errs = append(errs, &FieldError{strconv.Itoa(i), fmt.Sprintf("%s %d", what, i), err})
			}
			*list = append(*list, v)
		}
		_, err = dec.Token()
		return errors.Join(append(errs, err)...)
	}
}

// Read sets v to what read makes of data, unless that is an error.
func Read[T any](v *T, data []byte, read func(*T, *json.Decoder) error) error {
	var n T
	err := read(&n, NewDecoder(data))
	if err == nil {
		*v = n
	}
	return err
}

// ReadObject reads a JSON object whose names are those of fields. All unknown
// and repeated names and all fields' errors are reported together.
func ReadObject(dec *json.Decoder, known Fields) error {
	tok, err := dec.Token()
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	if tok != json.Delim('{') {
		return errors.Join(errors.New("must be an object"), Skip(dec, tok))
	}
	seen := make(map[string]bool, len(known))
	var errs []error
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return fmt.Errorf("not JSON: %w", err)
		}
		name, _ := tok.(string)
		read, ok := known[name]
		switch {
		case !ok:
			names := slices.Sorted(maps.Keys(known))
			errs = append(errs, &FieldError{Key: name, Err: fmt.Errorf("unknown field %q; %s", errtext.Shorten(name, 60), nearest.DidYouMean(name, names))})
		case seen[name]:
			errs = append(errs, &FieldError{name, name, errors.New("given twice")})
			ok = false
		}
		seen[name] = true
		if !ok {
			err = dec.Decode(new(json.RawMessage))
		} else if err = read(dec); err != nil {
			err = &FieldError{name, name, err}
		}
		if err != nil {
			errs = append(errs, err)
		}
		if _, ok := errors.AsType[*json.SyntaxError](err); ok || errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.Join(errs...) // there is no going on
		}
	}
	_, err = dec.Token()
	return errors.Join(append(errs[:min(len(errs), errtext.MaxListed)], err)...)
}

// Skip reads the rest of the value that began with tok.
func Skip(dec *json.Decoder, tok json.Token) error {
	depth := 0
	for {
		switch tok {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
		var err error
		if tok, err = dec.Token(); err != nil {
			return err
		}
	}
}

// Plain makes an error of package json one for people.
func Plain(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		where := ""
		if e.Field != "" {
			where = e.Field + ": "
		}
		return fmt.Errorf("%smust be %s, not a JSON %s", where, KindName(e.Type), errtext.Shorten(e.Value, 60))
	}
	return err
}
