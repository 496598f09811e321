package courier_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/courierhq/courier"
)

type valued struct {
	Mode  string   `json:"mode" default:"a" enum:"a,b"`
	Modes []string `json:"modes" enum:"a,b"`
	Count int      `json:"count" min:"1" max:"10"`
	One   string   `json:"one" courier:"one_of=first"`
	Two   []string `json:"two" courier:"one_of=first"`
	Three string   `json:"three" courier:"at_most_one=last"`
	Four  bool     `json:"four" courier:"at_most_one=last"`
}

func TestSchemaValues(t *testing.T) {
	var reg courier.Registry
	courier.RegisterFunc(&reg, "a.b", func(context.Context, *courier.Context, valued) (struct{}, error) { return struct{}{}, nil }, nil)
	typ, _ := reg.Lookup("a.b")
	for config, want := range map[string]string{
		`{"one": "x"}`: "", `{"one": "x", "mode": "b", "modes": ["a"], "count": 10, "four": false, "three": "x"}`: "",
		`{"one": "context:params.a", "two": ["x"]}`:                             "", // which of them shows only at run time
		`{"one": "x", "mode": "context:params.a", "count": "context:params.b"}`: "",
		`{"one": "x", "mode": "c", "modes": "context:params.a"}`:                `config.mode: "c" is none`,
		`{"one": "x", "modes": ["a", "c"]}`:                                     `config.modes[1]: "c" is none`,
		`{"one": "x", "count": 0}`:                                              "config.count: must be at least 1, not 0",
		`{"one": "x", "count": 11}`:                                             "config.count: must be at most 10, not 11",
		`{}`:                                                                    "config: give one of one and two",
		`{"one": "", "two": []}`:                                                "config: give one of one and two",
		`{"one": "x", "two": ["y"]}`:                                            "config: give only one of one and two",
		`{"one": "x", "three": "x", "four": true}`:                              "config: give only one of three and four",
	} {
		d := json.NewDecoder(strings.NewReader(config))
		d.UseNumber()
		var v map[string]any
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, p := range typ.Check(v, false) {
			got += p.Field + ": " + p.Message
		}
		if !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: %q, want %q", config, got, want)
		}
	}
}
