package jsontext

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

type inner struct {
	Item int `json:"item"`
}

type Embedded struct {
	Base string `json:"base"`
}

type outer struct {
	Embedded
	Params map[string]any   `json:"params"`
	List   []inner          `json:"list"`
	Map    map[string]inner `json:"map"`
	To     *inner           `json:"to"`
	Raw    json.RawMessage  `json:"raw"`
	At     time.Time        `json:"at"`
	Plain  int
	Hidden int `json:"-"`
}

// Names are exact, and come once, wherever a struct is read; what is free stays free.
func TestNames(t *testing.T) {
	for _, c := range []struct{ text, strict, lenient string }{
		{`{"params": {"A": 1, "a": 2}, "base": "b", "Plain": 1, "list": [{"item": 1}, {}], "map": {"Item": {"item": 1}}, "raw": {"PARAMS": [{"\"}": 1}]}, "at": "2026-01-02T03:04:05Z", "to": null}`, "", ""},
		{` [ ] `, "array", "array"},
		{`{"PARAMS": {}}`, "PARAMS", "PARAMS"},
		{`{"param\u017f": {}}`, "paramſ", "paramſ"},
		{`{"paramſ": {}}`, "paramſ", "paramſ"},
		{`{"params": {}, "Params": {}}`, "Params", "Params"},
		{`{"params": {}, "p\u0061rams": {}}`, "repeated", "repeated"},
		{`{"params": {"a": 1, "a": 2}}`, "repeated", "repeated"},
		{`{"Base": "b"}`, "Base", "Base"},
		{`{"plain": 1}`, "", ""},
		{`{"plain": 1, "Plain": 1}`, "repeated", "repeated"},
		{`{"list": [{"item": 1}, {"Item": 1}]}`, "Item", "Item"},
		{`{"map": {"x": {"ITEM": 1}}}`, "ITEM", "ITEM"},
		{`{"to": {"iTem": 1}}`, "iTem", "iTem"},
		{`{"Hidden": 1}`, "Hidden", ""},
		{`{"other": {"Params": 1}, "raw": 1}`, "other", ""},
		{`{"other": [1, "a\\\"]", {"b": [true]}] , "BASE": "x"}`, "other", "BASE"},
	} {
		for strict, want := range map[bool]string{true: c.strict, false: c.lenient} {
			decode := Decode
			if strict {
				decode = DecodeStrict
			}
			var v outer
			err := decode([]byte(c.text), &v)
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s, strict %t: %v; want %q", c.text, strict, err, want)
			}
		}
	}
}

// FuzzNames: reading names ends, at the end of the text, whatever the text is.
func FuzzNames(f *testing.F) {
	f.Add([]byte(`{"list": [{"item": 1}], "raw": [1, {"a": "\u017f\\\""}], "map": {}}`))
	f.Add([]byte(` {"other" : -1e5 , "params":{"a":[[],{}]}} `))
	f.Fuzz(func(t *testing.T, text []byte) {
		var v outer
		if json.Unmarshal(text, &v) != nil {
			return
		}
		n := namesReader{raw: text}
		n.value(nil)
		if n.space(); n.i != len(text) {
			t.Errorf("stopped at %d of %q", n.i, text)
		}
		n = namesReader{raw: text}
		n.value(reflect.TypeOf(v))
		if n.space(); n.err == nil && n.i != len(text) {
			t.Errorf("stopped at %d of %q", n.i, text)
		}
	})
}
