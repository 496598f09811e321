package flow_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

type filledConfig struct {
	Path     string            `json:"path" courier:"path"`
	Paths    []string          `json:"paths" courier:"path"`
	Pattern  courier.Pattern   `json:"pattern"`
	Patterns []courier.Pattern `json:"patterns"`
	URL      string            `json:"url" courier:"url"`
	Text     string            `json:"text"`
	Nested   struct {
		Path string `json:"path" courier:"path"`
	} `json:"nested"`
}

func filledType() *courier.StepType {
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "test.fill", doNothing[filledConfig], nil)
	typ, _ := reg.Lookup("test.fill")
	return typ
}

// fill renders a configuration for values, and decodes it.
func fill(config m, values courier.Values, allowParent bool) (filledConfig, error) {
	var cfg filledConfig
	t, _ := flow.Compile(config)
	t = t.For(filledType().Config(), allowParent, nil)
	raw, err := t.Render(nil, values, func(_, _ string) (string, error) { return "../secret", nil })
	if err == nil {
		err = json.Unmarshal(raw, &cfg)
	}
	return cfg, err
}

// A value that brings a segment ".." is refused in every field of a kind, however
// it comes together; one that the definition has written itself is not.
func TestValuesDoNotClimb(t *testing.T) {
	const x, y = "${context:params.x}", "${context:params.y}"
	for _, c := range []struct {
		text, x, y string
		path, url  bool // refused
	}{
		{"context:params.x", "../b", "", true, true},
		{"context:params.x", "a/../../b", "", true, true},
		{"context:params.x", `..\b`, "", true, true},
		{"context:params.x", `a\..`, "", true, true},
		{"context:params.x", "..", "", true, true},
		{"context:params.x", ".. ", "", true, true},
		{"secret:s", "", "", true, true},
		{"/root/a/" + x, "../b/prices.csv", "", true, true},
		{"/root/a/" + x, "c/../../b", "", true, true},
		{"/root/." + x + "/b", ".", "", true, true},
		{"/root/" + x + "./b", ".", "", true, true},
		{"/root/" + x + y + "/b", ".", ".", true, true},
		{"/root/a" + x + "..", "/", "", true, true},
		{"/root/a/.." + x, "/b", "", true, true},
		{"/root/a/.." + x, "", "", true, true},
		{"/root/" + x, "%2e%2E/b", "", false, true},
		{"/root/" + x, "%252e./b", "", false, true},
		{"/root/" + x, "a%2f..%5cb", "", false, true},
		{"/root/%2" + x + "./b", "e", "", false, true},
		{"/root/" + x, "..;v=1/b", "", false, true},
		{"/root/a?to=/" + x, "../b", "", true, false},
		{"/root/a#/" + x, "../b", "", true, false},

		{"../" + x, "b", "", false, false},
		{x + "/../b", "/root/a", "", false, false},
		{x + "/" + y, "/root/a..", "..b", false, false},
		{"/root/" + x, "...", "", false, false},
		{"/root/" + x, "a..b", "", false, false},
		{"/root/" + x, "", "", false, false},
	} {
		values := courier.Values{"params.x": c.x, "params.y": c.y}
		for field, refused := range map[string]bool{"path": c.path, "pattern": c.path, "url": c.url, "text": false} {
			_, err := fill(m{field: c.text}, values, false)
			if (err != nil) != refused {
				t.Errorf("%s: %q with %q and %q: %v, want refused %t", field, c.text, c.x, c.y, err, refused)
			}
			if err != nil && (!strings.Contains(err.Error(), "config."+field+": ") || !strings.Contains(err.Error(), "allow_parent")) {
				t.Errorf("%s: the error doesn't name the field and the way to allow it: %v", field, err)
			}
			if _, err := fill(m{field: c.text}, values, true); err != nil {
				t.Errorf("%s: %q with %q and %q is refused although that is allowed: %v", field, c.text, c.x, c.y, err)
			}
		}
	}
	for _, config := range []m{
		{"paths": []any{"a", "context:params.x"}}, {"paths": "context:params.list"},
		{"nested": m{"path": "context:params.x"}}, {"nested": "context:params.object"},
		{"patterns": []any{"a", "b/${context:params.x}"}}, {"patterns": "context:params.list"},
	} {
		_, err := fill(config, courier.Values{"params.x": "../b", "params.list": []any{"a", "../b"}, "params.object": m{"path": "../b"}}, false)
		if err == nil || !strings.Contains(err.Error(), `"params.`) {
			t.Errorf("%v: %v", config, err)
		}
	}
}

// A wildcard counts only where the definition has written it.
func TestValuesAreLiteral(t *testing.T) {
	hostile := []string{"*", "a?b", "[x]", "{a,b}", "**", `\*`, "a,b", "^x", "in/*/x", "}", "plain"}
	for _, v := range hostile {
		for _, text := range []string{"context:params.x", "in/${context:params.x}", "in/${context:params.x}/y", "{a,${context:params.x}}/*.csv", "[${context:params.x}]*"} {
			cfg, err := fill(m{"pattern": text, "patterns": []any{text}, "text": text}, courier.Values{"params.x": v}, false)
			want := strings.ReplaceAll(strings.Replace(text, "context:params.x", v, 1), "${"+v+"}", v)
			if err != nil || cfg.Pattern.String() != want || cfg.Text != want || len(cfg.Patterns) != 1 || cfg.Patterns[0] != cfg.Pattern {
				t.Errorf("%q with %q: %q, %q, %v", text, v, cfg.Pattern, cfg.Patterns, err)
			}
			if cfg.Pattern.ContainsAny("*?") != strings.Contains(text, "*") {
				t.Errorf("%q with %q is taken for a pattern: %t", text, v, cfg.Pattern.ContainsAny("*?"))
			}
		}
	}
	list := make([]any, len(hostile))
	for i, v := range hostile {
		list[i] = v
	}
	cfg, err := fill(m{"patterns": "context:params.list"}, courier.Values{"params.list": list}, false)
	if err != nil || len(cfg.Patterns) != len(hostile) {
		t.Fatal(cfg, err)
	}
	for i, p := range cfg.Patterns {
		if p.String() != hostile[i] || p.ContainsAny("*?[{") {
			t.Errorf("%q became %q", hostile[i], p)
		}
	}
	if _, err := fill(m{"pattern": "a${context:params.x}"}, courier.Values{"params.x": "\x00*\x00"}, false); err == nil {
		t.Error("a value with NUL characters is taken")
	}
	if _, problems := flow.Compile(m{"pattern": "a\x00*\x00"}); len(problems) == 0 {
		t.Error("a definition with NUL characters is taken")
	}
}

// A long value costs time in proportion.
func TestLongValues(t *testing.T) {
	for _, v := range []string{strings.Repeat("%25", 1<<18), strings.Repeat("../", 1<<18), strings.Repeat("*", 1<<18), strings.Repeat("/", 1<<18)} {
		if _, err := fill(m{"url": "https://h/${context:params.x}", "pattern": "a/${context:params.x}"}, courier.Values{"params.x": v}, true); err != nil {
			t.Error(err)
		}
		_, _ = fill(m{"url": "https://h/${context:params.x}"}, courier.Values{"params.x": v}, false)
	}
}

func doNothing[C any](context.Context, *courier.Context, C) (struct{}, error) {
	return struct{}{}, nil
}
