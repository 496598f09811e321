package runform_test

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/runform"
	"github.com/courierhq/courier/flow"
)

// declared are parameters of several types.
func declared() *flow.Params {
	return flow.ReadParams(map[string]any{
		"day": map[string]any{"type": "date", "required": true}, "n": map[string]any{"type": "integer"}, "on": map[string]any{"type": "boolean"},
		"to": map[string]any{"type": "text", "default": "x"}, "key": map[string]any{"type": "text", "secret": true}, "list": map[string]any{"type": "list"},
		"mode": map[string]any{"type": "text", "enum": []any{"a", "b"}, "default": "a"}, "any": nil,
	})
}

// problems are those of an error, as field and message.
func problems(err error) (list []string) {
	if e, ok := errors.AsType[*courier.ParamsError](err); ok {
		for _, p := range e.Problems {
			list = append(list, p.Field+": "+p.Message)
		}
	}
	return list
}

// TestParams: what was typed is a value of the type of its parameter. All mistakes are told at once,
// each at its field.
func TestParams(t *testing.T) {
	good := url.Values{"param.day": {"2026-11-20"}}
	with := func(more ...string) url.Values {
		v := url.Values{}
		for name, x := range good {
			v[name] = x
		}
		for i := 0; i < len(more); i += 2 {
			v.Set("param."+more[i], more[i+1])
		}
		return v
	}
	for name, c := range map[string]struct {
		sent        url.Values
		filled, dry bool
		want        string
		problems    []string // what they begin with
	}{
		"one":                 {with(), false, false, "map[day:2026-11-20]", nil},
		"nothing":             {url.Values{}, false, false, "", []string{"params.day: "}},
		"nothing, to look":    {url.Values{}, false, true, "map[]", nil},
		"typed":               {with("n", "3", "on", "true", "list", `[1,"a"]`, "key", "db", "any", "12"), false, false, "map[any:12 day:2026-11-20 key:db list:[1 a] n:3 on:true]", nil},
		"digits":              {with("any", "12345678901234567890"), false, false, "map[any:12345678901234567890 day:2026-11-20]", nil},
		"any text":            {with("any", "so it is"), false, false, "map[any:so it is day:2026-11-20]", nil},
		"lines":               {with("to", "a\r\nb"), false, false, "map[day:2026-11-20 to:a\nb]", nil},
		"the default, erased": {with("to", ""), true, false, "map[day:2026-11-20 to:]", nil},
		"no default shown":    {with("to", ""), false, false, "map[day:2026-11-20]", nil},
		"a choice not made":   {with("mode", "", "to", "x"), true, false, "map[day:2026-11-20 to:x]", nil},
		"mistakes":            {with("day", "20.11.", "n", "three", "list", "1,2", "mode", "c"), false, false, "", []string{"params.list: it is not JSON", "params.day: ", "params.mode: ", "params.n: "}},
	} {
		o, err := runform.Read(declared(), c.sent, c.filled, c.dry)
		list := problems(err)
		if len(list) != len(c.problems) || err != nil && c.problems == nil || err == nil && fmt.Sprint(o.Params) != c.want {
			t.Errorf("%s: %+v, %v", name, o, err)
			continue
		}
		for i, want := range c.problems {
			if !slices.ContainsFunc(list, func(p string) bool { return strings.HasPrefix(p, want) }) {
				t.Errorf("%s: no problem %d %q in %q", name, i, want, list)
			}
		}
	}
	for text, want := range map[string]string{``: "map[]", ` {"a": 1} `: "map[a:1]", `[1]`: "", `{`: "", `null`: ""} {
		o, err := runform.Read(nil, url.Values{"params": {text}}, false, false)
		if (err == nil) != (want != "") || err == nil && fmt.Sprint(o.Params) != want || err != nil && problems(err)[0] != "params: it must be a JSON object, with names in double quotes" {
			t.Errorf("%q: %+v, %v", text, o, err)
		}
	}
}

// TestSettings: priority, delay and labels are read within bounds. The label of who starts is the
// service's.
func TestSettings(t *testing.T) {
	o, err := runform.Read(nil, url.Values{"priority": {" -7 "}, "delay": {"2h 30m"}, "hold": {"on"}, "labels": {"partner = acme=1\r\n\r\n day=x"}}, false, false)
	if err != nil || o.Priority != -7 || o.Delay != 150*time.Minute || !o.Hold || fmt.Sprint(o.Labels) != "map[day:x partner:acme=1]" {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := runform.Read(nil, url.Values{}, false, false); err != nil || o.Labels == nil || o.Hold {
		t.Errorf("%+v, %v", o, err)
	}
	for name, values := range map[string][]string{
		"priority": {"32768", "-32769", "1.5", "high"}, "delay": {"-1s", "10", "soon", "900000h", "1e9h"}, "labels": {"a", "=a", "a=", courier.LabelBy + "=ann", "ok=1\nx"},
	} {
		for _, v := range values {
			if _, err := runform.Read(nil, url.Values{name: {v}}, false, false); len(problems(err)) != 1 || !strings.HasPrefix(problems(err)[0], name+": ") {
				t.Errorf("%s %q: %v", name, v, err)
			}
		}
	}
	names := func(list []runform.Field) (all []string) {
		for _, f := range list {
			all = append(all, f.Name)
		}
		return all
	}
	if job, chain := names(runform.Settings("job", nil)), names(runform.Settings("chain", nil)); !slices.Equal(job, []string{"priority", "delay", "hold", "labels"}) || !slices.Equal(chain, []string{"hold", "labels"}) {
		t.Errorf("%q, %q", job, chain)
	}
}

// TestFields: required parameters come first, each asked for as its type is. Defaults are for who
// sees the job, and a secret is never filled in.
func TestFields(t *testing.T) {
	kinds := func(sent url.Values, sees bool) string {
		var list []string
		for _, f := range runform.Params(declared(), sent, sees) {
			list = append(list, fmt.Sprintf("%s %s %q", f.Label, f.Kind+f.Mode, f.Value))
		}
		return strings.Join(list, ", ")
	}
	const rest = `, any text "", key password "", list area "", `
	for want, c := range map[string]struct {
		sent url.Values
		sees bool
	}{
		`day date ""` + rest + `mode select "a", n textnumeric "", on select "", to text "x"`:           {nil, true},
		`day date ""` + rest + `mode select "", n textnumeric "", on select "", to text ""`:             {nil, false},
		`day text "20.11."` + rest + `mode select "c", n textnumeric "x", on select "", to area "a\nb"`: {url.Values{"param.day": {"20.11."}, "param.key": {"hunter-two"}, "param.mode": {"c"}, "param.n": {"x"}, "param.to": {"a\r\nb"}}, true},
	} {
		if got := kinds(c.sent, c.sees); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	for _, f := range runform.Params(declared(), url.Values{"param.mode": {"c"}}, true) {
		if f.Label == "mode" && (len(f.Options) != 4 || f.Options[0].Label != "the default" || f.Options[3] != (runform.Option{Value: "c", Label: "c", Chosen: true})) {
			t.Errorf("%+v", f.Options)
		}
		if f.Required != (f.Label == "day") {
			t.Errorf("%s is required: %v", f.Label, f.Required)
		}
	}
	if list := runform.Params(nil, url.Values{"params": {"{"}}, true); len(list) != 1 || list[0].Value != "{" {
		t.Errorf("%+v", list)
	}
}

// TestPlace: problems stand at their fields, also those whose names were cut. One of a step belongs
// to none.
func TestPlace(t *testing.T) {
	long := strings.Repeat("x", 300)
	params, settings := []runform.Field{{Name: "param.delay"}, {Name: "param." + long}}, runform.Settings("job", nil)
	rest := runform.Place(params, settings, []courier.Problem{
		{Step: -1, Field: "params.delay", Message: "is odd"}, {Step: -1, Field: "delay", Message: "is long"}, {Step: -1, Field: "params." + long[:100] + "…", Message: "is missing"},
		{Step: -1, Field: "params.other", Message: "is unknown"}, {Step: 0, Field: "params.delay", Message: "of a step"},
	})
	if params[0].Problem != "Is odd." || settings[1].Problem != "Is long." || params[1].Problem != "Is missing." || len(rest) != 2 || rest[0].Field != "params.other" || rest[1].Step != 0 {
		t.Errorf("%+v, %+v, the rest is %v", params, settings, rest)
	}
}
