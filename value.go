package courier

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync"
)

// ParseValue decodes JSON text into a JSON value, with the digits of numbers
// kept as [json.Number]. Text that is not valid UTF-8 is refused, and so are
// escapes that are half a character: decoding would alter them.
func ParseValue(raw []byte) (any, error) {
	if err := checkText(raw); err != nil {
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

// AppendJSON appends the JSON text of a value to b. Unlike json.Marshal it
// leaves <, > and & as they are, and it refuses text that is not valid UTF-8 or
// contains NUL, which no store can keep.
func AppendJSON(b []byte, v any) ([]byte, error) {
	start := len(b)
	b, err := appendJSON(b, v)
	if err == nil {
		err = checkStorable(b[start:])
	}
	return b, err
}

func appendJSON(b []byte, v any) ([]byte, error) {
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

// decodeStrict decodes JSON text that must have no other names than v's.
func decodeStrict(raw []byte, v any) error {
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
	return nil
}

func marshalValue(v any) (json.RawMessage, error) { return AppendJSON(nil, v) }

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
