// Package jsontext reads and writes the JSON values of configurations and outputs:
// nil, bool, string, [json.Number], []any and map[string]any.
package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// Storable reports whether every store can keep, and look for, a text: it is valid UTF-8
// without NUL characters, which PostgreSQL refuses.
func Storable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// Parse decodes JSON text into a JSON value, with the digits of numbers
// kept as [json.Number]. Text that is not valid UTF-8 is refused, and so are
// escapes that are half a character: decoding would alter them.
func Parse(raw []byte) (any, error) {
	if err := CheckText(raw); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("something follows the JSON value")
	}
	return v, nil
}

// Object decodes what was stored as a JSON object. It returns an empty one if raw is
// none.
func Object(raw json.RawMessage) map[string]any {
	if len(raw) > 0 {
		if x, err := Parse(raw); err == nil {
			if m, ok := x.(map[string]any); ok {
				return m
			}
		}
	}
	return map[string]any{}
}

// Append appends the JSON text of a value to b. Unlike json.Marshal it
// leaves <, > and & as they are, and it refuses what [CheckStorable] does.
func Append(b []byte, v any) ([]byte, error) {
	start := len(b)
	b, err := AppendAny(b, v)
	if err == nil {
		err = CheckStorable(b[start:])
	}
	return b, err
}

// AppendAny is [Append] for text that nothing has to keep.
func AppendAny(b []byte, v any) ([]byte, error) {
	e := encoders.Get().(*encoder)
	defer e.free()
	if err := e.enc.Encode(v); err != nil {
		return b, err
	}
	return append(b, bytes.TrimSuffix(e.buf.Bytes(), []byte("\n"))...), nil
}

// An encoder is kept for the next value, since a fresh one costs more than
// encoding a step's outputs.
type encoder struct {
	buf bytes.Buffer
	enc *json.Encoder
}

var encoders = sync.Pool{New: func() any {
	e := new(encoder)
	e.enc = json.NewEncoder(&e.buf)
	e.enc.SetEscapeHTML(false)
	return e
}}

// maxKept is the size of buffers that are worth keeping, in bytes.
const maxKept = 64 << 10

func (e *encoder) free() {
	if e.buf.Cap() <= maxKept {
		e.buf.Reset()
		encoders.Put(e)
	}
}

// A decoder decodes one JSON text after the other, strictly. It is kept for the
// next text like an encoder.
type decoder struct {
	in  bytes.Reader
	dec *json.Decoder
}

var decoders = sync.Pool{New: func() any {
	d := new(decoder)
	d.dec = json.NewDecoder(&d.in)
	d.dec.DisallowUnknownFields()
	d.dec.UseNumber()
	return d
}}

// DecodeStrict decodes JSON text that must have no other names than v's, exactly and once. The
// letter case of a field that has no name for JSON does not count.
func DecodeStrict(raw []byte, v any) error {
	d := decoders.Get().(*decoder)
	d.in.Reset(raw)
	before := d.dec.InputOffset()
	if err := d.dec.Decode(v); err != nil {
		return err // the decoder may be left inside the text; it is not kept
	}
	if rest := raw[d.dec.InputOffset()-before:]; len(bytes.TrimSpace(rest)) > 0 {
		return errors.New("more than one JSON value")
	} else if len(rest) == 0 && len(raw) <= maxKept {
		decoders.Put(d)
	}
	return checkNames(raw, v, true)
}

// Text is the form in which a value stands inside a longer string: strings as
// they are, numbers as their digits, true and false, nothing for null, and
// compact JSON for lists and objects.
func Text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return v.String()
	}
	b, err := AppendAny(nil, v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// Depth returns how many arrays and objects lie in each other in valid JSON text.
func Depth(raw []byte) (most int) {
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch b := raw[i]; {
		case b == '"':
			quoted = !quoted
		case b == '\\':
			i++ // only in strings
		case quoted:
		case b == '[' || b == '{':
			depth++
			most = max(most, depth)
		case b == ']' || b == '}':
			depth--
		}
	}
	return most
}

// errStorable says why a value can't be stored as JSON text in every store.
var errStorable = errors.New(`contains a NUL character or text that is not valid UTF-8, which no store can keep; encode it, for example in base64`)

// MaxDepth is how many lists and objects may lie in each other in what is stored. Readers of
// JSON elsewhere give up early: those of Go at 10,000.
const MaxDepth = 1000

// CheckStorable reports whether the output of json.Marshal has lost or would
// lose something: invalid UTF-8 (which Marshal writes as the escape \ufffd,
// unlike a replacement character that was there, and leaves alone in a
// [json.RawMessage]), half characters or NUL. It also refuses what is nested deeper than
// MaxDepth.
func CheckStorable(raw []byte) error {
	if CheckText(raw) != nil {
		return errStorable
	}
	if n := Depth(raw); n > MaxDepth {
		return fmt.Errorf("is nested %d levels deep, more than the %d that can be stored; give it as a text, or in a file", n, MaxDepth)
	}
	for i := bytes.IndexByte(raw, '\\'); i >= 0 && i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		if i+6 <= len(raw) && raw[i+1] == 'u' {
			if esc := string(raw[i+2 : i+6]); esc == "0000" || esc == "fffd" {
				return errStorable
			}
		}
		i++ // the escaped character
	}
	return nil
}

// ErrText says why JSON text can't be decoded without altering it.
var ErrText = errors.New("contains text that is not valid UTF-8, or half of a character; write it in UTF-8")

// CheckText refuses JSON text in which package json would silently replace
// characters.
func CheckText(raw []byte) error {
	if !utf8.Valid(raw) {
		return ErrText
	}
	for i := bytes.IndexByte(raw, '\\'); i >= 0 && i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		if r := unescape(raw[i:]); utf16.IsSurrogate(r) {
			if utf16.DecodeRune(r, unescape(raw[i+6:])) == utf8.RuneError {
				return ErrText
			}
			i += 6
		}
		i++ // the escaped character
	}
	return nil
}

// unescape returns the 16 bits of the escape \uhhhh that raw begins with, or -1.
func unescape(raw []byte) rune {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

// IterationIndex is the field iteration_index of something that is about a step if step is
// not nil: absent without a step, and null outside loops.
func IterationIndex(step *int, iteration []int) json.RawMessage {
	switch {
	case step == nil:
		return nil
	case len(iteration) == 0:
		return json.RawMessage("null")
	}
	return strconv.AppendInt(nil, int64(iteration[len(iteration)-1]), 10)
}
