package reference_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier/internal/reference"
)

// scope has values by their keys.
type scope map[string]any

func (s scope) Value(head, name string) (any, bool) { v, ok := s[head+"."+name]; return v, ok }

func (s scope) Keys() []string {
	var keys []string
	for k := range s {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

var values = scope{
	"list.files": []any{map[string]any{"name": "a.csv", "a.b": 1, "2": "two"}, map[string]any{"name": "b.csv"}},
	"list.count": 2,
	"params.day": "monday",
}

// TestResolve follows references into objects and lists.
func TestResolve(t *testing.T) {
	for text, want := range map[string]any{
		"params.day":                 "monday",
		"list.files[1].name":         "b.csv",
		"list.files.0.name":          "a.csv",
		`list.files[0]["a.b"]`:       1,
		`list.files[0]["\u006eame"]`: "a.csv",
		"list.files[0].2":            "two",
	} {
		r, err := reference.Parse(text)
		if err != nil || r.String() != text {
			t.Errorf("%s is read as %s, %v", text, r, err)
			continue
		}
		if got, err := r.Resolve(values); err != nil || got != want {
			t.Errorf("%s is %v, %v", text, got, err)
		}
	}
}

// TestMissing checks what is said of a reference without a value.
func TestMissing(t *testing.T) {
	for text, want := range map[string]string{
		"list.flies":         `did you mean "list.files"?`,
		"lst.count":          `did you mean "list.count"?`,
		"nobody.x":           "known are list.count, list.files, params.day",
		"list.files[7]":      "list.files has no [7]",
		"list.files[0].nmae": "list.files[0] has no .nmae",
		"params.day.x":       "params.day has no .x",
	} {
		r, err := reference.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = r.Resolve(values); !errors.Is(err, reference.ErrNotFound) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestMistakes checks which texts are no references, and that what follows one is left over.
func TestMistakes(t *testing.T) {
	for _, text := range []string{
		"", "a", ".a", "a.", "a.b.", "a.b[", "a.b[x]", "a.b[-1]", "a.b[01]", "a.b[1", `a.b["x]`, `a.b["x"`, "a.b c", "a b.c", "a/b.c", "a.b[9999999999]", "a." + strings.Repeat("x", 2000),
	} {
		if r, err := reference.Parse(text); err == nil || len(err.Error()) > 300 {
			t.Errorf("%.20q is read as %v, %.100v", text, r, err)
		}
	}
	r, rest, err := reference.Cut("a.b[2] and more")
	if err != nil || r.String() != "a.b[2]" || rest != " and more" {
		t.Errorf("%s, then %q, %v", r, rest, err)
	}
}
