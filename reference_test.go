package courier_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/reference"

	"github.com/courierhq/courier"
)

var scope = courier.Values{
	"0.list":      []any{"a", map[string]any{"name": "x", "a.b": json.Number("1"), "2": "two"}},
	"get.size":    json.Number("9007199254740993"),
	"params.day":  nil,
	"job.name":    "j",
	"loop.index":  json.Number("3"),
	"7.file_list": []any{},
}

func TestReferences(t *testing.T) {
	for key, want := range map[string]string{
		`0.list`:          `["a",{"2":"two","a.b":1,"name":"x"}]`,
		`0.list[0]`:       `"a"`,
		`0.list.0`:        `"a"`,
		`0.list[1].name`:  `"x"`,
		`0.list.1["a.b"]`: `1`,
		`0.list[1].2`:     `"two"`,
		`get.size`:        `9007199254740993`,
		`params.day`:      `null`,
	} {
		ref, err := reference.Parse(key)
		if err != nil {
			t.Errorf("%s: %v", key, err)
			continue
		}
		if ref.String() != key {
			t.Errorf("String of %s = %s", key, ref)
		}
		v, err := ref.Resolve(scope)
		got, _ := jsontext.Append(nil, v)
		if err != nil || string(got) != want {
			t.Errorf("%s = %s, %v, want %s", key, got, err, want)
		}
	}
}

func TestMissingReferences(t *testing.T) {
	for key, want := range map[string]string{
		`0.lsit`:        `did you mean "0.list"?`,
		`0.list[9]`:     `0.list has no [9]`,
		`0.list[1].nam`: `0.list[1] has no .nam`,
		`params.day.x`:  `params.day has no .x`,
		`nobody.name`:   `known are`,
		`0.list[1][2]`:  `has no [2]`,
	} {
		ref, err := reference.Parse(key)
		if err != nil {
			t.Fatal(err)
		}
		_, err = ref.Resolve(scope)
		if !errors.Is(err, courier.ErrNotFound) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", key, err, want)
		}
	}
}

func TestMalformedReferences(t *testing.T) {
	for _, key := range []string{"", "a", "a.", ".a", "a..b", "a.b.", "a.b[", "a.b[x]", "a.b[-1]", "a.b[01]", `a.b["x]`, "a b.c", "a.b}", "a.b c", "a.b[1", `a.b["x"`, "a.b/c", strings.Repeat("a", 2000) + ".b"} {
		if ref, err := reference.Parse(key); err == nil {
			t.Errorf("ParseReference(%q) = %v, want an error", key, ref)
		}
	}
}

func FuzzReference(f *testing.F) {
	for _, s := range []string{"0.list[1].name", `a.b["c.d"].2`, "loop.0.current_item.x", "a.b[", "💥.x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ref, rest, err := reference.Cut(s)
		if err != nil {
			return
		}
		if ref.String()+rest != s {
			t.Fatalf("CutReference(%q) = %q, rest %q", s, ref, rest)
		}
		again, err := reference.Parse(ref.String())
		if err != nil || again.Head != ref.Head || again.Name != ref.Name || len(again.Path) != len(ref.Path) {
			t.Fatalf("ParseReference(%q) = %v, %v", ref.String(), again, err)
		}
		ref.Resolve(scope) // must not panic
	})
}

func TestText(t *testing.T) {
	for want, v := range map[string]any{
		"": nil, "true": true, "1.50": json.Number("1.50"), "a<b": "a<b", `{"a":["<"]}`: map[string]any{"a": []any{"<"}},
	} {
		if got := jsontext.Text(v); got != want {
			t.Errorf("Text(%v) = %q, want %q", v, got, want)
		}
	}
}

// What a path leads to is told like any other name that is almost right.
func TestResolveSuggestsProperties(t *testing.T) {
	large := make(map[string]any)
	for i := range 1001 {
		large[fmt.Sprint("p", i)] = nil
	}
	scope := courier.Values{"0.o": map[string]any{
		"name": "x", "size": json.Number("1"), "a b": nil, "list": []any{"x"}, "empty": map[string]any{}, "null": nil, "yes": true, "large": large,
		"odd": map[string]any{"\x1b[2J" + strings.Repeat("x", 100): nil},
	}}
	for key, want := range map[string]string{
		"0.o.nam":      `0.o has no .nam; did you mean "name"?`,
		"0.o.siez":     `0.o has no .siez; did you mean "size"?`,
		"0.o.zzzzzzz":  `0.o has no .zzzzzzz; known are ["a b"], empty, large, list, name, null, odd, size, yes`,
		"0.o[0]":       `0.o has no [0]; known are`,
		"0.o.list[7]":  `0.o.list has no [7]; it is a list of 1`,
		"0.o.list.x":   `0.o.list has no .x; it is a list of 1`,
		"0.o.empty.x":  `0.o.empty has no .x; it has 0 properties`,
		"0.o.large.x":  `0.o.large has no .x; it has 1001 properties`,
		"0.o.null.x":   `0.o.null has no .x; it is null`,
		"0.o.name.x":   `0.o.name has no .x; it is text`,
		"0.o.yes.x":    `0.o.yes has no .x; it is true or false`,
		"0.o.size.x.y": `0.o.size has no .x; it is a number`,
		"0.o.odd.x":    `0.o.odd has no .x; known are ["\x1b[2Jxxxx`,
	} {
		ref, err := reference.Parse(key)
		if err != nil {
			t.Fatal(err)
		}
		_, err = ref.Resolve(scope)
		if !errors.Is(err, courier.ErrNotFound) || !strings.Contains(err.Error(), want) || len(err.Error()) > 300 {
			t.Errorf("%s: the error is %v, want %q", key, err, want)
		}
	}
}
