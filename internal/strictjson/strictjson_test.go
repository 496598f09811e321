package strictjson_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/strictjson"
)

// A thing has a field of each kind.
type thing struct {
	Name  string
	Count int
	In    time.Duration
	Opt   *time.Duration
	At    time.Time
	Parts []thing
}

func readThing(v *thing, dec *json.Decoder) error {
	return strictjson.ReadObject(dec, strictjson.Fields{
		"name": strictjson.Into(&v.Name), "count": strictjson.Into(&v.Count), "in": strictjson.IntoDuration(&v.In), "opt": strictjson.IntoSeconds(&v.Opt),
		"at": strictjson.IntoTime(&v.At), "parts": strictjson.IntoList("part", &v.Parts, readThing),
	})
}

// TestRead: an object is read if nothing is wrong with it. Null is like a field that is not there.
func TestRead(t *testing.T) {
	var got thing
	text := `{"name":"a","count":3,"in":1.5,"opt":0,"at":"2026-11-20T08:00:00+01:00","parts":[{"name":"b"},{}]}`
	if err := strictjson.Read(&got, []byte(text), readThing); err != nil {
		t.Fatal(err)
	}
	if got.Name != "a" || got.Count != 3 || got.In != 1500*time.Millisecond || got.Opt == nil || *got.Opt != 0 || got.At.UTC().Hour() != 7 || len(got.Parts) != 2 || got.Parts[0].Name != "b" {
		t.Errorf("%+v", got)
	}
	for _, text := range []string{`{}`, `{"name":null,"count":null,"in":null,"opt":null,"at":null,"parts":null}`} {
		got := thing{Name: "before"}
		if err := strictjson.Read(&got, []byte(text), readThing); err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", thing{}) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	none := []thing(nil)
	if err := strictjson.IntoList("part", &none, readThing)(strictjson.NewDecoder([]byte(`[]`))); err != nil || none == nil {
		t.Errorf("an empty list is %v, %v", none, err)
	}
}

// TestMistakes: all mistakes are reported together, each with its path, and what was read is not
// used.
func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		`{"nmae":"a","count":"x"}`:               `nmae: unknown field "nmae"; did you mean "name"? | count: must be a whole number, not a JSON string`,
		`{"Name":"a"}`:                           `Name: unknown field "Name"; did you mean "name"?`,
		`{"name":"a","name":"b"}`:                `name: given twice`,
		`{"name":"a","name":7}`:                  `name: given twice`,
		`{"xxxxxx":1,"xxxxxx":2}`:                `xxxxxx: unknown field "xxxxxx"; known are at, count, in, name, opt, parts | xxxxxx: unknown field "xxxxxx"; known are at, count, in, name, opt, parts`,
		`{"in":-1,"opt":-0.5}`:                   `in: -1 is negative | opt: -0.5 is negative`,
		`{"in":"1s"}`:                            `in: must be a number of seconds, not "1s"`,
		`{"at":"2026-11-20"}`:                    `at: must be an instant such as "2030-01-31T08:00:00Z", not "2026-11-20"`,
		`{"at":5}`:                               `at: must be a string, not a JSON number`,
		`{"parts":{"name":[1,{"a":2}]},"in":-1}`: `parts: must be a list | in: -1 is negative`,
		`{"parts":[{"name":1},{},{"parts":[{"count":1.5}]},7]}`: `parts/0/name: must be a string, not a JSON number | parts/2/parts/0/count: must be a whole number, not a JSON number 1.5 | parts/3: must be an object`,
		`[1,[2]]`:                `: must be an object`,
		`null`:                   `: must be an object`,
		``:                       `: not JSON: EOF`,
		`{"name":"a"`:            `: EOF`,
		`{"nmae":1,"count":}`:    `nmae: unknown field "nmae"; did you mean "name"? | count: invalid character '}' looking for beginning of value`,
		`{"a\u0000\u001b[2J":1}`: `a` + "\x00\x1b" + `[2J: unknown field "a\x00\x1b[2J"; known are at, count, in, name, opt, parts`,
	} {
		got := thing{Name: "before"}
		err := strictjson.Read(&got, []byte(text), readThing)
		var list []string
		for _, e := range strictjson.Errors(err) {
			list = append(list, strings.Join(e.Path, "/")+": "+e.Err.Error())
		}
		if s := strings.Join(list, " | "); s != want {
			t.Errorf("%s:\n got %s\nwant %s", text, s, want)
		}
		if got.Name != "before" {
			t.Errorf("%s: it has changed to %+v", text, got)
		}
	}
}

// TestMistakeTexts: as one text, mistakes are in lines that begin with their fields, and an unknown
// field is named once.
func TestMistakeTexts(t *testing.T) {
	var v thing
	err := strictjson.Read(&v, []byte(`{"nmae":1,"parts":[{"count":""}]}`), readThing)
	const want = "unknown field \"nmae\"; did you mean \"name\"?\nparts: part 0: count: must be a whole number, not a JSON string"
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	list := strictjson.Errors(err)
	if len(list) != 2 || !list[0].Unnamed || list[1].Unnamed {
		t.Errorf("%+v", list)
	}
	if strictjson.Errors(nil) != nil {
		t.Error("no error consists of some")
	}
}

// TestMistakesAreBounded: a hostile text makes no message of its own length.
func TestMistakesAreBounded(t *testing.T) {
	var names, items, long strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&names, `,"x%d":1`, i)
		items.WriteString(`,{"count":true}`)
	}
	long.WriteString(strings.Repeat("x", 1<<20))
	for name, text := range map[string]string{
		"many fields": `{` + names.String()[1:] + `}`, "many items": `{"parts":[` + items.String()[1:] + `]}`,
		"a long name": `{"` + long.String() + `":1}`, "a long instant": `{"at":"` + long.String() + `"}`, "a long time": `{"in":"` + long.String() + `"}`,
		"many digits": `{"count":1` + strings.Repeat("0", 1<<20) + `}`, "many digits of seconds": `{"in":1` + strings.Repeat("0", 1<<20) + `}`,
	} {
		var v thing
		err := strictjson.Read(&v, []byte(text), readThing)
		if err == nil || len(err.Error()) > 5000 || len(strictjson.Errors(err)) > 20 {
			t.Errorf("%s: %d errors, %.300v", name, len(strictjson.Errors(err)), err)
		}
	}
}

// TestSeconds: durations are written with all their digits and read back the same. What is no
// number of seconds, or none that a duration holds, is an error.
func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", time.Second: "1", 10 * time.Second: "10", 1500 * time.Millisecond: "1.5", 1: "0.000000001", -1: "-0.000000001", -100 * time.Second: "-100",
		math.MaxInt64: "9223372036.854775807", math.MinInt64: "-9223372036.854775808", 40*24*time.Hour + 1: "3456000.000000001",
	} {
		text, err := strictjson.Seconds(d).MarshalJSON()
		if err != nil || string(text) != want {
			t.Errorf("%v is %s, %v", d, text, err)
		}
		var back strictjson.Seconds
		if err := back.UnmarshalJSON(text); err != nil || time.Duration(back) != d {
			t.Errorf("%s is %v, %v, want %v", text, time.Duration(back), err, d)
		}
	}
	for text, want := range map[string]time.Duration{"1e3": 1000 * time.Second, "0.1": 100 * time.Millisecond, "2.5e-9": 3, "null": 7} {
		s := strictjson.Seconds(7)
		if err := s.UnmarshalJSON([]byte(text)); err != nil || time.Duration(s) != want {
			t.Errorf("%s is %v, %v", text, time.Duration(s), err)
		}
	}
	for text, want := range map[string]string{
		`"1"`: `must be a number of seconds, not "1"`, `true`: `must be a number of seconds, not true`, `{}`: `must be a number of seconds, not {}`, `NaN`: `must be a number of seconds, not NaN`,
		`1e-10`: `1e-10 is less than a nanosecond; 0 means none`, `1e10`: `1e10 is too large`, `-1e300`: `-1e300 is too large`, `Infinity`: `Infinity is too large`,
	} {
		var s strictjson.Seconds
		if err := s.UnmarshalJSON([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestTypes: a Go type has the type of JSON that package json gives it; one that writes itself may
// have any.
func TestTypes(t *testing.T) {
	type text string
	for want, list := range map[string][]any{
		"string": {"", text(""), []byte(nil), time.Time{}, new(*string)}, "boolean": {true}, "integer": {0, uint8(0), time.Duration(0)}, "number": {1.5, json.Number("")},
		"array": {[]string(nil), [2]int{}}, "object": {map[string]any(nil), struct{}{}, &thing{}}, "": {json.RawMessage(nil), strictjson.Seconds(0), func() {}},
	} {
		for _, v := range list {
			if got := strictjson.TypeOf(reflect.TypeOf(v)); got != want {
				t.Errorf("%T: %q, want %q", v, got, want)
			}
		}
	}
	for want, v := range map[string]any{"a whole number": 1, "true or false": true, "a list": []int{}, "strictjson.Seconds": strictjson.Seconds(1)} {
		if got := strictjson.KindName(reflect.TypeOf(v)); got != want {
			t.Errorf("%T is called %q, want %q", v, got, want)
		}
	}
}
