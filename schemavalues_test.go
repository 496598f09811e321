package courier_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
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
		`{"one": "x", "mode": "c", "modes": "context:params.a"}`:                `config.mode: "c" is not one`,
		`{"one": "x", "modes": ["a", "c"]}`:                                     `config.modes[1]: "c" is not one`,
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

type limited struct {
	Depth int    `json:"depth" min:"0" max:"3"`
	Name  string `json:"name" courier:"required"`
}

type restricted struct {
	valued
	Ratio  *float64  `json:"ratio" min:"0.5" max:"2"`
	Inner  limited   `json:"inner,omitzero"`
	Inners []limited `json:"inners"`
	Path   string    `json:"path" courier:"required"`
}

// A configuration is compared with its schema once more when it is rendered, where
// no text is a reference any more, before any method of the step is called.
func TestSchemaOfRendered(t *testing.T) {
	var reg courier.Registry
	var got []restricted
	courier.RegisterFunc(&reg, "a.b", func(_ context.Context, _ *courier.Context, cfg restricted) (struct{}, error) {
		got = append(got, cfg)
		return struct{}{}, nil
	}, nil)
	typ, _ := reg.Lookup("a.b")
	for config, want := range map[string]string{
		`"mode": "c"`:                        `mode: "c" is not one of the possible values`,
		`"mode": "context:params.a"`:         `mode: "context:params.a" is not one`,
		`"mode": "secret:a"`:                 `mode: "secret:a" is not one`,
		`"mode": "${context:params.a}"`:      `mode: "${context:params.a}" is not one`,
		`"modes": ["a", ""]`:                 `modes[1]: must be one of a, b, not empty`,
		`"modes": ["a", "c"]`:                `modes[1]: "c" is not one`,
		`"count": 0`:                         "count: must be at least 1, not 0",
		`"ratio": 0.4999`:                    "ratio: must be at least 0.5",
		`"ratio": 2.0001`:                    "ratio: must be at most 2",
		`"two": ["context:params.a"]`:        "give only one of one and two",
		`"one": null`:                        "give one of one and two",
		`"three": "x", "four": true`:         "give only one of three and four",
		`"inner": {"name": "x", "depth": 4}`: "inner.depth: must be at most 3, not 4",
		`"inner": {"depth": 1}`:              "inner.name: is required",
		`"inner": {"NAME": "x"}`:             `inner: unknown field "NAME"`,
		`"inners": [{"name": "x"}, {"name": "x", "depth": -1}]`: "inners[1].depth: must be at least 0",
		`"mode": "c", "count": 11`:                              "count: must be at most 10, not 11; mode:",
	} {
		full := `{"path": "p", "one": "x", ` + config + `}`
		if strings.HasPrefix(config, `"one"`) {
			full = `{"path": "p", ` + config + `}`
		}
		_, err := typ.Execute(t.Context(), &courier.Context{}, []byte(full))
		bad, ok := errors.AsType[*courier.ConfigError](err)
		if !ok || !courier.IsPermanent(err) || !strings.HasPrefix(bad.Error(), "config: "+want) {
			t.Errorf("Execute %s: %v, want %q", full, err, want)
		}
		if err := typ.Validate(t.Context(), &courier.Context{}, []byte(full)); err == nil || !strings.HasPrefix(err.Error(), "config: "+want) {
			t.Errorf("Validate %s: %v, want %q", full, err, want)
		}
	}
	if len(got) > 0 {
		t.Fatalf("the step was called with %+v", got)
	}
	good := `{"path": "p", "one": "x", "mode": "", "modes": ["b"], "count": 10, "ratio": 0.5, "inners": [{"name": "context:a", "depth": 3}]}`
	if _, err := typ.Execute(t.Context(), &courier.Context{}, []byte(good)); err != nil || len(got) != 1 || got[0].Mode != "a" {
		t.Errorf("%v, called with %+v; empty text in an enumeration stands for its default", err, got)
	}
	// In a dry run, what is known only later may be what is required, or in a group.
	dry := courier.NewContext(courier.ContextConfig{DryRun: true, Unresolved: []string{"path", "two", "inner"}})
	if err := typ.Validate(t.Context(), dry, []byte(`{"mode": "b"}`)); err != nil {
		t.Error(err)
	}
	if err := typ.Validate(t.Context(), dry, []byte(`{"mode": "c"}`)); err == nil {
		t.Error("a dry run takes a value that is none of the possible ones")
	}
	if err := typ.Validate(t.Context(), courier.NewContext(courier.ContextConfig{DryRun: true, Unresolved: []string{"path"}}), []byte(`{}`)); err == nil {
		t.Error("a dry run takes a group without any field")
	}
}

// Numbers with exponents that no fraction can hold are compared too.
func TestSchemaBoundsOfHugeNumbers(t *testing.T) {
	type config struct {
		N json.Number `json:"n" min:"0" max:"10"`
	}
	var reg courier.Registry
	courier.RegisterFunc(&reg, "a.b", func(context.Context, *courier.Context, config) (struct{}, error) { return struct{}{}, nil }, nil)
	typ, _ := reg.Lookup("a.b")
	for n, want := range map[string]bool{"10.0": true, "1e1": true, "1e-2000000": true, "1.1e1": false, "1e2000000": false, "-1e2000000": false, "-1e400": false} {
		if got := len(typ.Check(map[string]any{"n": json.Number(n)}, true)) == 0; got != want {
			t.Errorf("%s fits: %t", n, got)
		}
	}
}

type aliased struct {
	Source string `json:"source_path" alias:"input_path" courier:"required"`
	Output string `json:"output_path"`
}

// TestAliases: a field may be given under its alias, which a definition does not keep. A
// name that is unknown leads to a required field that is missing rather than to another.
func TestAliases(t *testing.T) {
	var reg courier.Registry
	courier.RegisterFunc(&reg, "a.b", func(context.Context, *courier.Context, aliased) (struct{}, error) { return struct{}{}, nil }, nil)
	typ, _ := reg.Lookup("a.b")
	for _, c := range []struct {
		config map[string]any
		want   string
	}{
		{map[string]any{"source_path": "a"}, ""},
		{map[string]any{"input_path": "a", "output_path": "b"}, ""},
		{map[string]any{"input_path": "a", "source_path": "b"}, `config: "input_path" is another name of "source_path"; give one of them`},
		{map[string]any{"inpt_path": "a"}, `config: unknown field "inpt_path"; did you mean "source_path"?`},
		{map[string]any{"outptu_path": "a"}, `config: unknown field "outptu_path"; did you mean "output_path"?`},
		{map[string]any{"source_path": "a", "inpt_path": "a"}, `config: unknown field "inpt_path"; known are source_path, output_path`},
		{map[string]any{"sourcepath": "a"}, `config: unknown field "sourcepath"; did you mean "source_path"?`},
	} {
		given := maps.Clone(c.config)
		got := ""
		if found := typ.Check(typ.WithoutAliases(given), true); len(found) > 0 {
			got = found[0].Field + ": " + found[0].Message
		}
		if got != c.want || !maps.Equal(given, c.config) {
			t.Errorf("%v: %q, want %q; the argument is %v", c.config, got, c.want, given)
		}
	}
}
