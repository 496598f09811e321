package courier_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/glob"
)

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		p                courier.Pattern
		text, escaped    string
		wildcard, braces bool
	}{
		{"", "", "", false, false},
		{"in/*.csv", "in/*.csv", "in/*.csv", true, false},
		{"{a,b}", "{a,b}", "{a,b}", false, true},
		{courier.Pattern("in/" + glob.Literal("*")), "in/*", `in/\*`, false, false},
		{courier.Pattern(glob.Literal("a[1]") + "/*"), "a[1]/*", `a\[1\]/*`, true, false},
		{courier.Pattern(glob.Literal("?") + glob.Literal("{")), "?{", `\?\{`, false, false},
		{courier.Pattern(glob.Literal("plain")), "plain", "plain", false, false},
		{courier.Pattern(glob.Literal("a\x00*")), "a*", `a\*`, false, false},
	} {
		if c.p.String() != c.text || fmt.Sprint(c.p) != c.text || c.p.Escaped() != c.escaped ||
			c.p.ContainsAny("*?") != c.wildcard || c.p.ContainsAny("{[") != c.braces {
			t.Errorf("%q: %q, %q, %t, %t", string(c.p), c.p, c.p.Escaped(), c.p.ContainsAny("*?"), c.p.ContainsAny("{["))
		}
	}
}

// Tags and types that say nothing, or where values couldn't be told from the
// definition's text, are refused.
func TestFieldKinds(t *testing.T) {
	type good struct {
		Path  *string         `json:"path" courier:"required,path"`
		Paths []string        `json:"paths" courier:"path"`
		URL   string          `json:"url" courier:"url"`
		In    courier.Pattern `json:"in" courier:"required"`
	}
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "test.good", doNothing[good], nil)
	typ, _ := reg.Lookup("test.good")
	for i, want := range []string{"path", "", "url", "pattern"} {
		if p := typ.Config().Properties[i]; p.Schema.Kind != want || p.Required != (i == 0 || i == 3) {
			t.Errorf("%s: kind %q, required %t", p.Name, p.Schema.Kind, p.Required)
		}
	}
	if items := typ.Config().Properties[1].Schema.Items; items.Kind != "path" {
		t.Errorf("an item of paths has the kind %q", items.Kind)
	}
	for want, register := range map[string]func(){
		"strings": func() {
			courier.RegisterFunc(reg, "test.a", doNothing[struct {
				N int `courier:"path"`
			}], nil)
		},
		"unknown": func() {
			courier.RegisterFunc(reg, "test.b", doNothing[struct {
				N string `courier:"required,paht"`
			}], nil)
		},
		"map": func() {
			courier.RegisterFunc(reg, "test.c", doNothing[struct {
				N map[string]courier.Pattern
			}], nil)
		},
	} {
		func() {
			defer func() {
				if p := fmt.Sprint(recover()); !strings.Contains(p, want) {
					t.Errorf("panic %q, want %q", p, want)
				}
			}()
			register()
		}()
	}
}

func doNothing[C any](context.Context, *courier.Context, C) (struct{}, error) {
	return struct{}{}, nil
}
