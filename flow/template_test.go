package flow_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

var scope = courier.Values{
	"0.file":     `a "b".csv`,
	"0.files":    []any{m{"name": "x<y>&z", "size": json.Number("12345678901234567890.10")}, "é"},
	"0.count":    json.Number("3"),
	"0.fraction": json.Number("0.10"),
	"0.ok":       true,
	"0.none":     nil,
	"0.evil":     "${context:0.file} secret:db context:0.file",
	"0.whole":    "secret:db",
	"0.odd":      m{"a.b": m{"c d": []any{"deep"}}},
	"0.nul":      "\x00",
	"params.day": "Monday",
}

func secrets(name, _ string) (string, error) {
	if name == "db" {
		return `p"w`, nil
	}
	return "", errors.New("there is none")
}

func TestRender(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string // JSON of the value
	}{
		{"plain", `"plain"`},
		{"", `""`},
		{nil, `null`},
		{json.Number("1.10"), `1.10`},
		{12, `12`},
		{1.5, `1.5`},
		{-1, `-1`},
		{true, `true`},
		{[]any{}, `[]`},
		{m{}, `{}`},
		{[]any(nil), `null`},
		{m{"b": 1, "a": []string{"<&>"}}, `{"a":["<&>"],"b":1}`},
		{time.Second, `1000000000`},
		{struct {
			X string `json:"x"`
		}{"context:0.ok"}, `{"x":true}`},

		{"context:0.file", `"a \"b\".csv"`},
		{"context:0.files", `[{"name":"x<y>&z","size":12345678901234567890.10},"é"]`},
		{"context:0.files[0].name", `"x<y>&z"`},
		{"context:0.files.1", `"é"`},
		{"context:0.count", `3`},
		{"context:0.fraction", `0.10`},
		{"context:0.ok", `true`},
		{"context:0.none", `null`},
		{`context:0.odd["a.b"]["c d"][0]`, `"deep"`},
		{"context:0.whole", `"secret:db"`},
		{"context:0.evil", `"${context:0.file} secret:db context:0.file"`},

		{"/${context:params.day}/${context:0.file}", `"/Monday/a \"b\".csv"`},
		{"${context:0.count}", `"3"`},
		{"${context:0.ok}${context:0.none}${context:0.fraction}", `"true0.10"`},
		{"é${context:0.files}", `"é[{\"name\":\"x<y>&z\",\"size\":12345678901234567890.10},\"é\"]"`},
		{"a${context:0.evil}b", `"a${context:0.file} secret:db context:0.fileb"`},
		{`${context:0.odd["a.b"]["c d"][0]}`, `"deep"`},
		{`context of ${context:params.day}`, `"context of Monday"`},

		{"$${context:0.file}", `"${context:0.file}"`},
		{"$$${context:0.file}", `"$${context:0.file}"`},
		{"$${${context:params.day}", `"${Monday"`},
		{"${other} ${} ${", `"${other} ${} ${"`},
		{"$context:0.file", `"context:0.file"`},
		{"$secret:db", `"secret:db"`},
		{"$$secret:db", `"$secret:db"`},
		{"$context:${context:params.day}", `"context:Monday"`},
		{"$other", `"$other"`},
		{"$$", `"$$"`},
		{" context:0.file", `" context:0.file"`},
		{"Context:0.file", `"Context:0.file"`},

		{"secret:db", `"p\"w"`},
		{[]any{"secret:db", m{"context:0.file": "context:0.count"}}, `["p\"w",{"context:0.file":3}]`},
	} {
		tmpl, problems := flow.Compile(m{"v": c.value, "w": 1})
		if len(problems) > 0 {
			t.Errorf("%v: %v", c.value, problems)
			continue
		}
		got, err := tmpl.Render([]byte("x"), scope, secrets)
		if want := `x{"v":` + c.want + `,"w":1}`; string(got) != want || err != nil {
			t.Errorf("Render(%v) = %s, %v, want %s", c.value, got, err, want)
		}
		partial, unresolved, err := tmpl.Partial(scope, secrets)
		if "x"+string(partial) != string(got) || unresolved != nil || err != nil {
			t.Errorf("Partial(%v) = %s, %v, %v", c.value, partial, unresolved, err)
		}
	}
}

func TestTemplateFacts(t *testing.T) {
	tmpl, problems := flow.Compile(m{
		"a": "secret:x", "b": []any{"secret:y", "secret:x", m{"c.d": "context:0.file", "e": "1${context:params.day}2${context:0.ok}"}},
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if got := tmpl.Secrets(); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("Secrets() = %v", got)
	}
	var refs []string
	for _, r := range tmpl.References() {
		refs = append(refs, fmt.Sprint(r.Field, " ", r.Ref, " ", r.Whole))
	}
	want := []string{`config.b[2]["c.d"] 0.file true`, `config.b[2].e params.day false`, `config.b[2].e 0.ok false`}
	if !slices.Equal(refs, want) {
		t.Errorf("References() = %q, want %q", refs, want)
	}
	if tmpl.Static() {
		t.Error("Static() = true")
	}
	if tmpl, _ := flow.Compile(m{"a": "$context:x"}); !tmpl.Static() || tmpl.Secrets() != nil || tmpl.References() != nil {
		t.Error("a configuration without references is not static")
	}
}

func TestRenderErrors(t *testing.T) {
	for _, c := range []struct {
		config m
		secret flow.Secret
		want   string
	}{
		{m{"remote_path": "context:0.fle"}, secrets, `config.remote_path: "0.fle" has no value here; did you mean "0.file"?`},
		{m{"a": []any{"x", m{"b": "y${context:0.files[9]}"}}}, secrets, `config.a[1].b: "0.files[9]" has no value: 0.files has no [9]`},
		{m{"a": "context:0.fle", "b": "secret:no"}, secrets, "config.a: \"0.fle\" has no value here; did you mean \"0.file\"?\nconfig.b: secret \"no\": there is none"},
		{m{"a": "secret:db"}, nil, `config.a: secret "db": no secrets are configured`},
		{m{"a": "context:0.nul"}, nil, `config.a: the value of "0.nul": contains a NUL character`},
		{m{"a": "x${context:0.nul}"}, nil, `config.a: the value of "0.nul": contains a NUL character`},
		{m{"a": "secret:s"}, func(_, _ string) (string, error) { return "hidden\xff", nil }, `config.a: secret "s": contains a NUL character or text that is not valid UTF-8`},
	} {
		tmpl, _ := flow.Compile(c.config)
		got, err := tmpl.Render([]byte("kept"), scope, c.secret)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "hidden") || string(got) != "kept" {
			t.Errorf("Render(%v) = %s, %v, want %s", c.config, got, err, c.want)
		}
	}
	config := m{}
	for i := range 50 {
		config[fmt.Sprintf("f%02d", i)] = "context:0.nope"
	}
	tmpl, _ := flow.Compile(config)
	_, err := tmpl.Render(nil, scope, nil)
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 21 || lines[20] != "and 30 more" || !errors.Is(err, courier.ErrNotFound) {
		t.Errorf("Render() = %v", err)
	}
}

func TestCompileProblems(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{
		{"context:", `reference "": must be <step>.<name>, such as "0.file_list" or "params.day"; in a longer text write ${context:KEY}, and $context: for the literal`},
		{"context:0.file/x", `reference "0.file/x": unexpected "/x"; in a longer text`},
		{"secret:", `secret: must be followed by a name`},
		{"secret:a\nb", `secret: must be followed by a name`},
		{"x ${context:0.file", `reference "0.file": the closing } is missing; write $${ for a literal ${`},
		{"x ${context:0.file!}", ``},
		{"x ${context:0..file}", `reference "0..file}": a name must follow the first dot`},
		{"x ${secret:db}", `a secret can only be a whole value: write "secret:NAME" and nothing else`},
		{math.Inf(1), `json: unsupported value: +Inf`},
		{func() {}, `json: unsupported type: func()`},
		{json.Number("1x"), `json: invalid number literal`},
		{"a\x00", `contains a NUL character`},
		{"a\xff${context:0.file}", `contains a NUL character or text that is not valid UTF-8`},
		{[]any{m{"\xff": 1}}, `contains a NUL character or text that is not valid UTF-8`},
	} {
		tmpl, problems := flow.Compile(m{"v": c.value})
		if c.want == "" {
			if len(problems) > 0 {
				t.Errorf("Compile(%v): %v", c.value, problems)
			}
			continue
		}
		if len(problems) != 1 || problems[0].Step != -1 || !strings.HasPrefix(problems[0].Field, "config.v") || !strings.HasPrefix(problems[0].Message, c.want) {
			t.Errorf("Compile(%v): %v, want %s", c.value, problems, c.want)
			continue
		}
		want := problems[0].Field + ": " + problems[0].Message
		if _, err := tmpl.Render(nil, scope, nil); err == nil || err.Error() != want {
			t.Errorf("Render(%v) = %v, want %s", c.value, err, want)
		}
		if _, _, err := tmpl.Partial(scope, nil); err == nil || err.Error() != want {
			t.Errorf("Partial(%v) = %v, want %s", c.value, err, want)
		}
	}
	loop := []any{nil}
	loop[0] = loop
	if _, problems := flow.Compile(m{"v": loop}); len(problems) != 1 {
		t.Errorf("a list that contains itself: %v", problems)
	}
	if _, problems := flow.Compile(m{"v": slices.Repeat([]any{"context:"}, 5000)}); len(problems) != 1000 {
		t.Errorf("there are %d problems, want 1000", len(problems))
	}
}

func TestCompileChangesNothing(t *testing.T) {
	inner := []string{"context:0.ok"}
	config := m{"a": inner, "b": 1}
	tmpl, _ := flow.Compile(config)
	if !reflect.DeepEqual(config, m{"a": inner, "b": 1}) {
		t.Errorf("Compile changed its argument to %v", config)
	}
	if got, err := tmpl.Render(nil, scope, nil); string(got) != `{"a":[true],"b":1}` || err != nil {
		t.Errorf("Render() = %s, %v", got, err)
	}
}

func TestPartial(t *testing.T) {
	tmpl, _ := flow.Compile(m{
		"a": "context:9.later", "b": "context:0.file", "c": m{"deep": []any{"x${context:9.later}", "context:0.ok"}}, "d": "plain", "e": "secret:db", "f": "context:8.x",
	})
	got, unresolved, err := tmpl.Partial(scope, secrets)
	if want := `{"b":"a \"b\".csv","d":"plain","e":"p\"w"}`; string(got) != want || !slices.Equal(unresolved, []string{"a", "c", "f"}) || err != nil {
		t.Errorf("Partial() = %s, %v, %v, want %s", got, unresolved, err, want)
	}
	if got, unresolved, err = tmpl.Partial(scope, nil); string(got) != `{"b":"a \"b\".csv","d":"plain"}` || !slices.Equal(unresolved, []string{"a", "c", "e", "f"}) || err != nil {
		t.Errorf("Partial() without secrets = %s, %v, %v", got, unresolved, err)
	}
	tmpl, _ = flow.Compile(m{"a": "context:9.later", "b": "secret:no"})
	if _, _, err := tmpl.Partial(scope, secrets); err == nil || err.Error() != `config.b: secret "no": there is none` {
		t.Errorf("Partial() = %v", err)
	}
	tmpl, _ = flow.Compile(m{"a": "context:9.later"})
	if got, _, err := tmpl.Partial(scope, nil); string(got) != "{}" || err != nil {
		t.Errorf("Partial() = %s, %v", got, err)
	}
}

func TestStaticRenderAllocatesNothing(t *testing.T) {
	tmpl, _ := flow.Compile(m{"path": "/in", "n": 1, "list": []any{"x"}})
	buf := make([]byte, 0, 100)
	if n := testing.AllocsPerRun(100, func() { buf, _ = tmpl.Render(buf[:0], nil, nil) }); n > 0 {
		t.Errorf("Render allocates %v times", n)
	}
}

func TestExpand(t *testing.T) {
	for _, c := range []struct{ text, want, err string }{
		{"partner", "partner", ""},
		{"", "", ""},
		{"context:0.count", "3", ""},
		{"p-${context:params.day}-${context:0.ok}", "p-Monday-true", ""},
		{"context:0.evil", scope["0.evil"].(string), ""},
		{"$${context:0.file}", "${context:0.file}", ""},
		{"secret:db", "", "a secret can't be used here, since it would be stored"},
		{"${secret:db}", "", "a secret can only be"},
		{"${context:0}", "", "reference "},
	} {
		got, err := flow.Expand(c.text, scope)
		check := flow.CheckText(c.text)
		if c.err == "" && (err != nil || check != nil || got != c.want) {
			t.Errorf("Expand(%q) = %q, %v, want %q; CheckText: %v", c.text, got, err, c.want, check)
		}
		if c.err != "" && (err == nil || check == nil || !strings.HasPrefix(err.Error(), c.err) || check.Error() != err.Error()) {
			t.Errorf("Expand(%q) = %v, CheckText: %v, want %s", c.text, err, check, c.err)
		}
	}
	if _, err := flow.Expand("${context:params.dya}", scope); !errors.Is(err, courier.ErrNotFound) || flow.CheckText("${context:params.dya}") != nil {
		t.Errorf("Expand() of what is not there = %v", err)
	}
}

func TestEscape(t *testing.T) {
	for _, s := range []string{"", "x", "$", "${", "$${", "$$$${{${", "context:a.b", "$context:a.b", "$$secret:x", "secret:${context:a.b}", "a context:"} {
		if got, err := flow.Expand(flow.Escape(s), scope); got != s || err != nil {
			t.Errorf("Expand(Escape(%q)) = %q, %v; Escape gives %q", s, got, err, flow.Escape(s))
		}
	}
}
