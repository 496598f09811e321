package flow_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/jsontext"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

// jsonValue is the value that a JSON text writes.
func jsonValue(t testing.TB, text string) any {
	t.Helper()
	v, err := jsontext.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func lines(problems []courier.Problem) string {
	var b strings.Builder
	for _, p := range problems {
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}

// TestDeclarations reads declarations, each with what is wrong with it.
func TestDeclarations(t *testing.T) {
	for declared, want := range map[string][]string{
		`null`: nil, `3`: nil, `"x"`: nil, `[1]`: nil, `{}`: nil, `{"a": {"type": "text"}}`: nil,
		`{"type": "text"}`: nil,
		`{"type": "text", "required": true, "enum": ["a", "b"], "pattern": "[a-z]", "min_length": 1, "max_length": 1, "doc": "which"}`: nil,
		`{"type": "integer", "min": 1, "max": 10, "default": 3}`:                                                                       nil,
		`{"type": "number", "min": 1, "max": 1.0, "enum": [1]}`:                                                                        nil,
		`{"type": "date", "min": "2026-01-01", "max": "2026-01-01", "default": "2026-01-01"}`:                                          nil,
		`{"type": "instant", "min": "2026-01-01T00:00:00+01:00", "max": "2025-12-31T23:00:00.1Z"}`:                                     nil,
		`{"type": "list", "min_length": 1, "default": [1]}`:                                                                            nil,
		`{"type": "object", "default": {"type": "text"}}`:                                                                              nil,
		`{"type": "file", "default": "/a/b"}`:                                                                                          nil,
		`{"type": "text", "secret": true, "default": "db", "pattern": "[a-z]+"}`:                                                       nil,
		`{"type": "text", "default": null, "required": true, "min": null, "doc": null}`:                                                nil,
		`{"type": "txet"}`:                      {`params.x.type: unknown type "txet"; did you mean "text"?`},
		`{"type": ""}`:                          {`params.x.type: unknown type ""; known are text, integer`},
		`{"type": 5}`:                           {`params.x.type: must be the name of a type`, `{"type": "object", "default": {...}}`},
		`{"type": "text", "mn": 1, "Doc": "x"}`: {`params.x: unknown key "Doc"; did you mean "doc"?`, `params.x: unknown key "mn"; did you mean "min"?`},
		`{"type": "text", "min": 1, "max": 2}`:  {`params.x.max: does not fit the type "text"; it is for integer, number, date, instant`, `params.x.min: does not`},
		`{"type": "boolean", "enum": [true], "pattern": "t", "min_length": 1}`: {`params.x.enum: does not fit`, `params.x.min_length: does not fit`, `params.x.pattern: does not fit`},
		`{"type": "integer", "secret": true}`:                                  {`params.x.secret: does not fit the type "integer"; it is for text`},
		`{"type": "integer", "default": "3"}`:                                  {`params.x.default: must be a whole number, not "3"`},
		`{"type": "integer", "default": 1.0}`:                                  {`params.x.default: must be a whole number in digits alone, not 1.0`},
		`{"type": "integer", "min": 1, "default": 0}`:                          {`params.x.default: must be at least 1, not 0`},
		`{"type": "integer", "default": 3, "required": true}`:                  {`params.x.required: has no effect beside a default; leave one of them out`},
		`{"type": "integer", "min": 2, "max": 1}`:                              {`params.x.min: 2 is above max, 1`},
		`{"type": "integer", "min": "a", "max": 1.5}`:                          {`params.x.min: must be a whole number, not "a"`, `params.x.max: must be a whole number in digits alone, not 1.5`},
		`{"type": "date", "min": "2026-02-30"}`:                                {`params.x.min: must be a date that exists, such as 2026-11-23, not "2026-02-30"`},
		`{"type": "list", "min_length": 3, "max_length": 2}`:                   {`params.x.min_length: 3 is above max_length, 2`},
		`{"type": "list", "min_length": -1, "max_length": "2"}`:                {`params.x.min_length: must be a whole number from 0`, `params.x.max_length: must be`},
		`{"type": "text", "enum": [1, "a"]}`:                                   {`params.x.enum[0]: must be a text, not 1`},
		`{"type": "text", "enum": []}`:                                         {`params.x.enum: has no values`},
		`{"type": "text", "enum": "a"}`:                                        {`params.x.enum: must be a list, not "a"`},
		`{"type": "text", "enum": ["a"], "default": "b"}`:                      {`params.x.default: "b" is not one of the possible values; did you mean "a"?`},
		`{"type": "text", "pattern": "("}`:                                     {`params.x.pattern: is not a valid regular expression`},
		`{"type": "text", "pattern": "a)(b"}`:                                  {`params.x.pattern: is not a valid regular expression`},
		`{"type": "text", "required": "yes", "doc": 1, "secret": 0}`:           {`params.x.required: must be true or false, not "yes"`, `params.x.secret: must be`, `params.x.doc: must be a text, not 1`},
		`{"type": "text", "secret": true, "default": "secret:db"}`:             {`params.x.default: must be the name of a secret, without secret: before it`},
	} {
		p := flow.ReadParams(map[string]any{"x": jsonValue(t, declared)})
		problems, _ := p.Problems()
		got := lines(problems)
		if (len(want) == 0) != (got == "") {
			t.Errorf("%s: %s", declared, got)
		}
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: got\n%swant %s", declared, got, w)
			}
		}
		if d, _ := p.Get("x"); got == "" && d.Type != "" {
			// What was read is the declaration again.
			raw, err := jsontext.Append(nil, d)
			if err != nil {
				t.Fatal(err)
			}
			again := flow.ReadParams(map[string]any{"x": d})
			if more, _ := again.Problems(); len(more) > 0 {
				t.Errorf("%s: read again as %s: %s", declared, raw, lines(more))
			}
		}
	}
	if flow.ReadParams(nil) != nil || flow.ReadParams(map[string]any{}) == nil {
		t.Error("nil declarations are not those without a parameter")
	}
	_, doubts := flow.ReadParams(map[string]any{"x": map[string]any{"required": true, "doc": "a"}, "y": map[string]any{"a": 1}}).Problems()
	if len(doubts) != 1 || doubts[0].Field != "params.x" || !strings.Contains(doubts[0].Message, `no "type"`) {
		t.Errorf("doubts: %v", doubts)
	}
}

// TestParamValues gives values for one parameter: what is stored, or why it is refused.
func TestParamValues(t *testing.T) {
	const text, date, instant, file = `{"type": "text"}`, `{"type": "date"}`, `{"type": "instant"}`, `{"type": "file"}`
	for _, c := range []struct{ declared, given, stored, refused string }{
		{`null`, `{"type": 5}`, `{"type":5}`, ""},
		{`null`, ``, `null`, ""},
		{`3`, ``, `3`, ""},
		{`3`, `null`, `null`, ""},
		{text, `"x"`, `"x"`, ""},
		{text, `""`, `""`, ""},
		{text, `5`, ``, `params.x: must be a text, not 5`},
		{text, ``, `null`, ""},
		{text, `null`, `null`, ""},
		{`{"type": "text", "default": "d"}`, `null`, `"d"`, ""},
		{`{"type": "text", "default": "d"}`, ``, `"d"`, ""},
		{`{"type": "text", "required": true}`, ``, ``, `params.x: is required, and was not given`},
		{`{"type": "text", "required": true}`, `null`, ``, `params.x: is required, and was not given`},
		{`{"type": "text", "enum": ["acme", "globex"]}`, `"acmee"`, ``, `params.x: "acmee" is not one of the possible values; did you mean "acme"?`},
		{`{"type": "text", "enum": ["acme", "globex"]}`, `"zzz"`, ``, `known are acme, globex`},
		{`{"type": "text", "enum": ["acme"]}`, `"ACME"`, ``, `not one of the possible`},
		{`{"type": "text", "pattern": "a|bc"}`, `"bc"`, `"bc"`, ""},
		{`{"type": "text", "pattern": "a|bc"}`, `"abc"`, ``, `params.x: "abc" does not match the pattern a|bc as a whole`},
		{`{"type": "text", "pattern": "a"}`, `"a\n"`, ``, `does not match`},
		{`{"type": "text", "pattern": "(?m)a$"}`, `"a\nb"`, ``, `does not match`},
		{`{"type": "text", "min_length": 2, "max_length": 3}`, `"ää"`, `"ää"`, ""},
		{`{"type": "text", "min_length": 2}`, `"ä"`, ``, `params.x: must have at least 2 characters, not 1`},
		{`{"type": "text", "max_length": 3}`, `"abcd"`, ``, `params.x: must have at most 3 characters, not 4`},
		{`{"type": "integer"}`, `123456789012345678901234567890`, `123456789012345678901234567890`, ""},
		{`{"type": "integer"}`, `-0`, `-0`, ""},
		{`{"type": "integer"}`, `1.0`, ``, `must be a whole number in digits alone, not 1.0`},
		{`{"type": "integer"}`, `1e3`, ``, `must be a whole number in digits alone, not 1e3`},
		{`{"type": "integer"}`, `"7"`, ``, `must be a whole number, not "7"`},
		{`{"type": "integer", "min": 1, "max": 10}`, `11`, ``, `must be at most 10, not 11`},
		{`{"type": "integer", "min": 9007199254740993}`, `9007199254740992`, ``, `must be at least 9007199254740993, not 9007199254740992`},
		{`{"type": "integer", "enum": [1, 2]}`, `3`, ``, `params.x: 3 is not one of the possible values; known are 1, 2`},
		{`{"type": "number"}`, `1.50`, `1.50`, ""},
		{`{"type": "number", "enum": [1.5]}`, `15e-1`, `15e-1`, ""},
		{`{"type": "number", "max": 1}`, `1e999999999`, ``, `must be at most 1, not 1e999999999`},
		{`{"type": "number"}`, `1e9999999999999999999999`, ``, `too large an exponent`},
		{`{"type": "boolean"}`, `false`, `false`, ""},
		{`{"type": "boolean"}`, `"false"`, ``, `must be true or false, not "false"`},
		{`{"type": "boolean"}`, `0`, ``, `must be true or false, not 0`},
		{date, `"2028-02-29"`, `"2028-02-29"`, ""},
		{date, `"2026-02-29"`, ``, `must be a date that exists`},
		{date, `"2026-2-9"`, ``, `must be a date`},
		{date, `"2026-02-09T00:00:00Z"`, ``, `must be a date`},
		{date, `20260209`, ``, `must be a date that exists, such as 2026-11-23, not 20260209`},
		{`{"type": "date", "min": "2026-01-02"}`, `"2026-01-01"`, ``, `must be at least "2026-01-02", not "2026-01-01"`},
		{instant, `"2026-02-09T07:30:00.5+01:00"`, `"2026-02-09T07:30:00.5+01:00"`, ""},
		{instant, `"2026-02-09T7:30:00Z"`, ``, `must be an instant of RFC 3339`},
		{instant, `"2026-02-09T07:30:00,5Z"`, ``, `must be an instant`},
		{instant, `"2026-02-09 07:30:00Z"`, ``, `must be an instant`},
		{`{"type": "instant", "max": "2026-01-01T00:00:00Z"}`, `"2026-01-01T00:30:00+01:00"`, `"2026-01-01T00:30:00+01:00"`, ""},
		{`{"type": "instant", "max": "2026-01-01T00:00:00Z"}`, `"2026-01-01T00:00:00.1Z"`, ``, `must be at most`},
		{`{"type": "list", "min_length": 1}`, `[]`, ``, `must have at least 1 items, not 0`},
		{`{"type": "list"}`, `[1, "a", null]`, `[1,"a",null]`, ""},
		{`{"type": "list"}`, `{}`, ``, `must be a list, not an object`},
		{`{"type": "object"}`, `{"b": 1.0}`, `{"b":1.0}`, ""},
		{`{"type": "object"}`, `[]`, ``, `must be an object, not a list`},
		{file, `"/in/a.csv"`, `{"name":"a.csv","path":"/in/a.csv"}`, ""},
		{file, `"C:\\in\\a.csv"`, `{"name":"a.csv","path":"C:\\in\\a.csv"}`, ""},
		{file, `"in/a.csv"`, ``, `must be the absolute path of a file, or an object with "path" or "name", not "in/a.csv"`},
		{file, `"/in/"`, ``, `names a directory`},
		{file, `{"name": "a.csv", "size": 3, "sha256": "` + strings.Repeat("0a", 32) + `", "modified": "x"}`, `{"modified":"x","name":"a.csv","sha256":"` + strings.Repeat("0a", 32) + `","size":3}`, ""},
		{file, `{"path": "/in/a.csv"}`, `{"name":"a.csv","path":"/in/a.csv"}`, ""},
		{file, `{"path": "/in/a.csv", "name": "b"}`, `{"name":"b","path":"/in/a.csv"}`, ""},
		{file, `{"size": 3}`, ``, `an object with "path" or "name"`},
		{file, `{"path": "a"}`, ``, `path: must be an absolute path, not "a"`},
		{file, `{"path": 3}`, ``, `path: must be an absolute path, not 3`},
		{file, `{"name": "../a"}`, ``, `name: must be the name of a file`},
		{file, `{"name": ".."}`, ``, `name: must be`},
		{file, `{"name": "a", "size": -1}`, ``, `size: must be the number of bytes, not -1`},
		{file, `{"name": "a", "sha256": "00"}`, ``, `sha256: must be 64 hexadecimal digits`},
		{file, `3`, ``, `must be the absolute path`},
		{`{"type": "txet"}`, `3`, ``, `params.x: its declaration has problems; mend the definition`},
	} {
		p := flow.ReadParams(map[string]any{"x": jsonValue(t, c.declared)})
		given := map[string]any{}
		if c.given != "" {
			given["x"] = jsonValue(t, c.given)
		}
		before := fmt.Sprint(given)
		values, problems := p.Values(given, false)
		if got := lines(problems); !strings.Contains(got, c.refused) || c.refused == "" && got != "" || len(problems) > 1 {
			t.Errorf("%s: %s is refused with %q, want %q", c.declared, c.given, got, c.refused)
			continue
		}
		if raw, err := jsontext.Append(nil, values["x"]); c.refused == "" && (err != nil || string(raw) != c.stored) {
			t.Errorf("%s: %s is stored as %s, %v, want %s", c.declared, c.given, raw, err, c.stored)
		}
		if fmt.Sprint(given) != before {
			t.Errorf("%s: %s was changed to %v", c.declared, before, given)
		}
	}
}

// TestParamsOfGo takes values of any Go type that JSON can hold.
func TestParamsOfGo(t *testing.T) {
	type own string
	p := flow.ReadParams(map[string]any{
		"n": courier.Param{Type: "integer", Min: 1, Max: int64(5)}, "t": &courier.Param{Type: "text", Enum: []any{"a", own("b")}},
		"at": courier.Param{Type: "instant"}, "list": courier.Param{Type: "list"}, "plain": 7,
	})
	if problems, _ := p.Problems(); len(problems) > 0 {
		t.Fatal(lines(problems))
	}
	at := time.Date(2026, 11, 23, 7, 30, 0, 0, time.UTC)
	values, problems := p.Values(map[string]any{"n": uint8(5), "t": own("b"), "at": at, "list": []string{"x"}}, false)
	raw, err := jsontext.Append(nil, values)
	if want := `{"at":"2026-11-23T07:30:00Z","list":["x"],"n":5,"plain":7,"t":"b"}`; len(problems) > 0 || err != nil || string(raw) != want {
		t.Errorf("got %s, %v, %v, want %s", raw, problems, err, want)
	}
	_, problems = p.Values(map[string]any{"n": 2.5, "t": own("c"), "at": make(chan int), "lst": 1}, false)
	got := lines(problems)
	for _, want := range []string{
		"params.at: json: unsupported type: chan int", `params.lst: unknown parameter "lst"; did you mean "list"?`,
		"params.n: must be a whole number in digits alone, not 2.5", `params.t: "c" is not one of the possible values`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%swant %s", got, want)
		}
	}
	if len(problems) != 4 || !slices.IsSortedFunc(problems, func(a, b courier.Problem) int { return strings.Compare(a.Field, b.Field) }) {
		t.Errorf("got\n%s", got)
	}
}

// TestSecretIsNotEchoed gives secrets in the place of their names.
func TestSecretIsNotEchoed(t *testing.T) {
	for _, declared := range []string{
		`{"type": "text", "secret": true, "pattern": "[a-z]{1,3}"}`, `{"type": "text", "secret": true, "enum": ["db"]}`, `{"type": "text", "secret": true, "max_length": 2}`,
	} {
		p := flow.ReadParams(map[string]any{"x": jsonValue(t, declared)})
		for _, given := range []any{"hunter2hunter2", "secret:hunter2", json.Number("47112003"), []any{"hunter2"}, "hunter2\nhunter2", "hunter2\xff"} {
			_, problems := p.Values(map[string]any{"x": given}, false)
			if got := lines(problems); len(problems) != 1 || strings.Contains(got, "hunter") || strings.Contains(got, "4711") {
				t.Errorf("%s: %q: %s", declared, given, got)
			}
		}
	}
}

// TestParamReferences checks references to parameters by what they are declared as.
func TestParamReferences(t *testing.T) {
	job := courier.Job{Params: map[string]any{
		"text": jsonValue(t, `{"type": "text", "enum": ["acme", "globex"]}`), "n": jsonValue(t, `{"type": "integer"}`), "flag": jsonValue(t, `{"type": "boolean"}`),
		"day": jsonValue(t, `{"type": "date"}`), "at": jsonValue(t, `{"type": "instant"}`), "list": jsonValue(t, `{"type": "list"}`),
		"object": jsonValue(t, `{"type": "object"}`), "file": jsonValue(t, `{"type": "file"}`), "pw": jsonValue(t, `{"type": "text", "secret": true}`),
		"float": jsonValue(t, `{"type": "number"}`), "any": nil,
	}, LimitKeys: []string{"k:${context:params.day}", "k:${context:params.pw}"}, Steps: []courier.StepSpec{
		with("sftp.download", m{"remote_path": "context:params.text", "size": "context:params.n", "retry": "context:params.flag", "names": "context:params.list", "since": "context:params.at"}),
		with("sftp.download", m{"remote_path": "context:params.file.path", "size": "context:params.any", "names": []any{"context:params.day", "context:params.pw"}, "since": "context:params.list[0].x"}),
		with("sftp.download", m{"remote_path": "${context:params.list}-${context:params.flag}-${context:params.object.a.b}"}),
		with("sftp.download", m{"remote_path": "context:params.list", "size": "context:params.flag", "retry": "context:params.text", "names": "context:params.object"}), // 3
		with("sftp.download", m{"remote_path": "context:params.file", "size": "context:params.text", "names": []any{"context:params.n"}}),
		with("sftp.download", m{"remote_path": "x-${context:params.pw}", "size": "context:params.pw"}), // 5
		with("sftp.download", m{"remote_path": "context:params.day.x", "size": "context:params.file.size"}),
		with("flow.foreach", m{"source": "context:params.list"}), with("sftp.download", m{"remote_path": "context:loop.current_item.path"}), end,
		with("flow.foreach", m{"source": "context:params.text"}), end, // 10
		with("flow.foreach", m{"source": "context:params.pw"}), end, // 12
		with("flow.foreach", m{"source": []any{"context:params.pw"}}), end, // 14
		with("flow.foreach", m{"source": "context:params.object"}), end, // 16
	}}
	problems, warnings := check(t, job)
	expect(t, "problems", problems, []string{
		`limit_keys[1]: "params.pw" is a secret, which can only be the whole value of a field of a step, as "context:params.pw"`,
		`step 3 (sftp.download): config.names: "params.object" is an object, but names must be a list`,
		`step 3 (sftp.download): config.remote_path: "params.list" is a list, but remote_path must be a string`,
		`step 3 (sftp.download): config.retry: "params.text" is a string, but retry must be true or false`,
		`step 3 (sftp.download): config.size: "params.flag" is true or false, but size must be a whole number`,
		`step 4 (sftp.download): config.names[0]: "params.n" is a whole number, but names[0] must be a string`,
		`step 4 (sftp.download): config.remote_path: "params.file" is an object, but remote_path must be a string; the path of a file is "params.file.path"`,
		`step 4 (sftp.download): config.size: "params.text" is a string, but size must be a whole number`,
		`step 5 (sftp.download): config.remote_path: "params.pw" is a secret, which can only be`,
		`step 5 (sftp.download): config.size: "params.pw" is a string, but size must be a whole number`,
		`step 6 (sftp.download): config.remote_path: "params.day.x" has no value: params.day is a string, and has no .x`,
		`step 10 (flow.foreach): config.source: "params.text" is a string, not a list`,
		`step 12 (flow.foreach): config.source: "params.pw" is a secret`,
		`step 14 (flow.foreach): config.source[0]: "params.pw" is a secret`,
		`step 16 (flow.foreach): config.source: "params.object" is an object, not a list`,
	})
	expect(t, "warnings", warnings, nil)
}

// TestParamComparisons checks conditions with parameters: what is wrong with each.
func TestParamComparisons(t *testing.T) {
	params := map[string]any{
		"text": jsonValue(t, `{"type": "text"}`), "who": jsonValue(t, `{"type": "text", "enum": ["acme", "globex"]}`), "n": jsonValue(t, `{"type": "integer"}`),
		"float": jsonValue(t, `{"type": "number"}`), "flag": jsonValue(t, `{"type": "boolean"}`), "day": jsonValue(t, `{"type": "date"}`),
		"at": jsonValue(t, `{"type": "instant"}`), "list": jsonValue(t, `{"type": "list"}`), "pw": jsonValue(t, `{"type": "text", "secret": true}`), "any": nil,
	}
	const n, flag, day, list = "context:params.n", "context:params.flag", "context:params.day", "context:params.list"
	for _, c := range []struct {
		left     any
		operator string
		right    any
		want     string
	}{
		{n, "equals", json.Number("3"), ""}, {n, "equals", "3e0", ""}, {n, "equals", "", ""}, {n, "equals", nil, ""}, {n, "greater_than", "context:params.float", ""},
		{n, "equals", "context:params.text", ""}, {n, "equals", "context:params.any", ""}, {n, "contains", "x", ""}, {n, "regex", "x", ""}, {n, "equals", "${context:params.day}", ""},
		{n, "equals", "abc", `config.left: "params.n" is a whole number, which is never equal to "abc"`},
		{n, "less_than", "abc", `which can't be compared with "abc"`},
		{"abc", "equals", n, `config.right: "params.n" is a whole number, which is never equal to "abc"`},
		{n, "not_equals", true, `which is never equal to true`},
		{n, "equals", flag, `config.left: "params.n" is a whole number, which is never equal to true or false, which "params.flag" is`},
		{n, "equals", day, `never equal to a date`}, {n, "greater_than", list, `never equal to a list`}, {n, "equals", []any{}, `never equal to a list`},
		{flag, "equals", true, ""}, {flag, "equals", "TRUE", ""}, {flag, "equals", "yes", `is true or false, which is never equal to "yes"`},
		{flag, "equals", json.Number("1"), `never equal to 1`}, {flag, "greater_than", false, `which has no order for greater_than`},
		{day, "equals", "2026-11-23", ""}, {day, "less_than", "context:params.day", ""}, {day, "equals", "today", `is a date, which is never equal to "today"`},
		{day, "greater_or_equal", "2026-11-31", `can't be compared with "2026-11-31"`}, {day, "equals", "context:params.at", `never equal to an instant`},
		{"context:params.who", "equals", "ACME", ""}, {"context:params.who", "equals", "acmee", `is a text, which is never "acmee"; did you mean "acme"?`},
		{"context:params.who", "less_than", "b", ""}, {"context:params.text", "equals", json.Number("3"), ""}, {"context:params.text", "equals", list, `never equal to a list`},
		{list, "equals", "[]", ""}, {list, "equals", []any{}, ""}, {list, "less_than", list, `has no order`}, {list, "exists", nil, ""},
		{"context:params.pw", "equals", "x", `"params.pw" is a secret`}, {"context:params.pw", "exists", nil, `"params.pw" is a secret`},
		{"x${context:params.pw}", "equals", "x", `"params.pw" is a secret`},
	} {
		steps := []courier.StepSpec{with("flow.if", m{"left": c.left, "operator": c.operator, "right": c.right}), with("sftp.download", m{"remote_path": "x"}), end}
		problems, _ := check(t, courier.Job{Params: params, Steps: steps})
		if got := strings.Join(problems, "\n"); !strings.Contains(got, c.want) || (c.want == "") != (got == "") || len(problems) > 1 {
			t.Errorf("%v %s %v: got %q, want %q", c.left, c.operator, c.right, got, c.want)
		}
	}
}

// TestSecretParamRenders resolves secrets that parameters name where they are whole
// values, and nowhere else.
func TestSecretParamRenders(t *testing.T) {
	params := flow.ReadParams(map[string]any{"pw": jsonValue(t, `{"type": "text", "secret": true}`), "no": jsonValue(t, `{"type": "text", "secret": true}`), "plain": nil})
	scope := courier.Values{"params.pw": "db", "params.no": nil, "params.plain": "db", "0.pw": "db"}
	template, problems := flow.Compile(map[string]any{"a": "context:params.pw", "b": []any{"context:params.pw"}, "c": "context:params.plain", "d": "${context:params.pw}", "e": "context:0.pw", "f": "context:params.no"})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	got, err := template.For(&courier.Schema{}, false, params).Render(nil, scope, func(name, param string) (string, error) { return param + "<" + name + ">", nil })
	if want := `{"a":"pw<db>","b":["pw<db>"],"c":"db","d":"db","e":"db","f":null}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	if _, err := template.For(&courier.Schema{}, false, params).Render(nil, scope, nil); err == nil || !strings.Contains(err.Error(), "no secrets are configured") {
		t.Errorf("without secrets: %v", err)
	}
	_, unresolved, err := template.For(&courier.Schema{}, false, params).Partial(scope, nil)
	if err != nil || !slices.Equal(unresolved, []string{"a", "b"}) {
		t.Errorf("without secrets, unresolved are %v, %v", unresolved, err)
	}
}

// FuzzParams reads any declaration and any value: what is accepted is stored in a form
// that is accepted and stored as the same again, and so is a default.
func FuzzParams(f *testing.F) {
	for _, typ := range []string{"text", "integer", "number", "boolean", "date", "instant", "list", "object", "file"} {
		f.Add(`{"type": "`+typ+`", "default": 1, "min": 0, "max_length": 3}`, `"2026-01-01"`)
	}
	f.Add(`{"type": "file"}`, `"/a/b"`)
	f.Add(`{"type": "text", "pattern": "a+", "enum": ["a"]}`, `"a"`)
	f.Add(`{"type": "number", "min": -1e5, "enum": [1]}`, `10e-1`)
	f.Fuzz(func(t *testing.T, declared, given string) {
		d, err := jsontext.Parse([]byte(declared))
		v, err2 := jsontext.Parse([]byte(given))
		if err != nil || err2 != nil {
			return
		}
		p := flow.ReadParams(map[string]any{"x": d})
		problems, _ := p.Problems()
		for _, partial := range []bool{false, true} {
			values, refused := p.Values(map[string]any{"x": v}, partial)
			if len(refused) > 1 {
				t.Fatalf("%d problems for one parameter: %v", len(refused), refused)
			}
			if len(problems) > 0 && len(refused) == 0 {
				t.Fatalf("%v, but %s is accepted", problems, given)
			}
			if len(refused) > 0 {
				continue
			}
			stored, err := jsontext.Append(nil, values["x"])
			if err != nil {
				t.Fatalf("%s is accepted, and can't be stored: %v", given, err)
			}
			again, refused := p.Values(maps.Clone(values), partial)
			twice, err := jsontext.Append(nil, again["x"])
			if len(refused) > 0 || err != nil || !bytes.Equal(stored, twice) {
				t.Fatalf("%s is stored as %s, and that as %s, %v, %v", given, stored, twice, refused, err)
			}
		}
	})
}
