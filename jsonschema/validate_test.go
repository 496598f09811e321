package jsonschema_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/courierhq/courier/internal/jsontext"
)

// A validator checks values against a schema. It knows the keywords of draft-07 that
// the package uses, and fails the test for all others.
type validator struct {
	t        *testing.T
	root     map[string]any
	patterns map[string]*regexp.Regexp
}

func newValidator(t *testing.T, text []byte) *validator {
	t.Helper()
	root, err := jsontext.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return &validator{t, root.(map[string]any), map[string]*regexp.Regexp{}}
}

// check returns what is wrong with a JSON text.
func (v *validator) check(text string) []string {
	v.t.Helper()
	value, err := jsontext.Parse([]byte(text))
	if err != nil {
		v.t.Fatalf("%v: %s", err, text)
	}
	return v.value(v.root, value, "")
}

// annotations are the keywords that permit everything.
var annotations = []string{"$schema", "title", "description", "default", "examples", "readOnly", "definitions", "then", "else", "errorMessage", "formatMinimum", "formatMaximum"}

// value returns what is wrong with the value at a path.
func (v *validator) value(schema, value any, at string) (wrong []string) {
	if allowed, ok := schema.(bool); ok {
		if !allowed {
			return []string{at + ": is not allowed"}
		}
		return nil
	}
	s := schema.(map[string]any)
	for _, keyword := range slices.Sorted(func(yield func(string) bool) {
		for k := range s {
			if !yield(k) {
				return
			}
		}
	}) {
		wrong = append(wrong, v.keyword(s, keyword, value, at)...)
	}
	return wrong
}

func (v *validator) keyword(s map[string]any, keyword string, value any, at string) []string {
	if slices.Contains(annotations, keyword) {
		return nil
	}
	for _, check := range []func(map[string]any, string, any, string) ([]string, bool){v.logic, v.plain, v.ofObject, v.ofList, v.ofText} {
		if wrong, known := check(s, keyword, value, at); known {
			return wrong
		}
	}
	v.t.Fatalf("the validator does not know the keyword %q", keyword)
	return nil
}

// logic checks keywords that apply other schemas to the same value.
func (v *validator) logic(s map[string]any, keyword string, value any, at string) (wrong []string, known bool) {
	list, _ := s[keyword].([]any)
	fits, closest := 0, []string(nil)
	for i, part := range list {
		found := v.valueOf(keyword, part, value, at)
		if found == nil {
			fits++
		} else if i == 0 || len(found) < len(closest) {
			closest = found
		}
		if keyword == "allOf" {
			wrong = append(wrong, found...)
		}
	}
	switch keyword {
	case "allOf":
	case "anyOf":
		if fits == 0 {
			wrong = closest
		}
	case "oneOf":
		if fits != 1 {
			wrong = []string{fmt.Sprintf("%s: fits %d of %d", at, fits, len(list))}
		}
	case "not":
		if v.value(s[keyword], value, at) == nil {
			wrong = []string{at + ": must not fit"}
		}
	case "if":
		branch, ok := s["then"]
		if v.value(s[keyword], value, at) != nil {
			branch, ok = s["else"]
		}
		if ok {
			wrong = v.value(branch, value, at)
		}
	case "$ref":
		name := strings.TrimPrefix(s[keyword].(string), "#/definitions/")
		part, ok := v.root["definitions"].(map[string]any)[name]
		if !ok {
			v.t.Fatalf("there is no definition %q", name)
		}
		wrong = v.value(part, value, at)
	default:
		return nil, false
	}
	return wrong, true
}

// valueOf is value for the parts of allOf, anyOf and oneOf.
func (v *validator) valueOf(keyword string, part, value any, at string) []string {
	if keyword != "allOf" && keyword != "anyOf" && keyword != "oneOf" {
		return nil
	}
	return v.value(part, value, at)
}

// plain checks keywords for values of any type and for numbers.
func (v *validator) plain(s map[string]any, keyword string, value any, at string) ([]string, bool) {
	ok := true
	number, isNumber := value.(json.Number)
	switch keyword {
	case "type":
		ok = isType(s[keyword].(string), value)
	case "enum":
		ok = slices.ContainsFunc(s[keyword].([]any), func(x any) bool { return same(x, value) })
	case "const":
		ok = same(s[keyword], value)
	case "minimum":
		ok = !isNumber || rational(number).Cmp(rational(s[keyword].(json.Number))) >= 0
	case "maximum":
		ok = !isNumber || rational(number).Cmp(rational(s[keyword].(json.Number))) <= 0
	default:
		return nil, false
	}
	return fault(ok, s, keyword, at), true
}

func fault(ok bool, s map[string]any, keyword, at string) []string {
	if ok {
		return nil
	}
	return []string{fmt.Sprintf("%s: breaks %s %.80v", at, keyword, s[keyword])}
}

func rational(n json.Number) *big.Rat { r, _ := new(big.Rat).SetString(n.String()); return r }

func same(a, b any) bool {
	x, ok := a.(json.Number)
	y, also := b.(json.Number)
	return ok && also && rational(x).Cmp(rational(y)) == 0 || reflect.DeepEqual(a, b)
}

func isType(name string, value any) bool {
	switch v := value.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case json.Number:
		return name == "number" || name == "integer" && rational(v).IsInt()
	case []any:
		return name == "array"
	}
	return name == "object"
}

func (v *validator) ofObject(s map[string]any, keyword string, value any, at string) (wrong []string, known bool) {
	object, _ := value.(map[string]any)
	switch keyword {
	case "properties":
		for name, part := range s[keyword].(map[string]any) {
			if x, given := object[name]; given {
				wrong = append(wrong, v.value(part, x, at+"/"+name)...)
			}
		}
	case "required":
		for _, name := range s[keyword].([]any) {
			if _, given := object[name.(string)]; !given && object != nil {
				wrong = append(wrong, fmt.Sprintf("%s: lacks %s", at, name))
			}
		}
	case "additionalProperties":
		properties, _ := s["properties"].(map[string]any)
		for name, x := range object {
			if _, ok := properties[name]; !ok {
				wrong = append(wrong, v.value(s[keyword], x, at+"/"+name)...)
			}
		}
	case "maxProperties":
		wrong = fault(len(object) <= size(s[keyword]), s, keyword, at)
	case "dependencies":
		for name, part := range s[keyword].(map[string]any) {
			if _, given := object[name]; !given {
				continue
			}
			if names, ok := part.([]any); ok {
				part = map[string]any{"required": names}
			}
			wrong = append(wrong, v.value(part, object, at)...)
		}
	default:
		return nil, false
	}
	return wrong, true
}

func size(v any) int { n, _ := v.(json.Number).Int64(); return int(n) }

func (v *validator) ofList(s map[string]any, keyword string, value any, at string) (wrong []string, known bool) {
	list, isList := value.([]any)
	switch keyword {
	case "items":
		for i, x := range list {
			wrong = append(wrong, v.value(s[keyword], x, fmt.Sprintf("%s/%d", at, i))...)
		}
	case "minItems":
		wrong = fault(!isList || len(list) >= size(s[keyword]), s, keyword, at)
	case "maxItems":
		wrong = fault(len(list) <= size(s[keyword]), s, keyword, at)
	case "uniqueItems":
		for i, x := range list {
			if slices.ContainsFunc(list[:i], func(y any) bool { return same(x, y) }) {
				wrong = fault(false, s, keyword, at)
			}
		}
	default:
		return nil, false
	}
	return wrong, true
}

func (v *validator) ofText(s map[string]any, keyword string, value any, at string) ([]string, bool) {
	text, isText := value.(string)
	ok := true
	switch keyword {
	case "minLength":
		ok = utf8.RuneCountInString(text) >= size(s[keyword])
	case "maxLength":
		ok = utf8.RuneCountInString(text) <= size(s[keyword])
	case "pattern":
		ok = v.pattern(s[keyword].(string)).MatchString(text)
	case "format":
		layout := map[string]string{"date": time.DateOnly, "date-time": time.RFC3339}[s[keyword].(string)]
		_, err := time.Parse(layout, text)
		ok = err == nil
	default:
		return nil, false
	}
	return fault(ok || !isText, s, keyword, at), true
}

func (v *validator) pattern(text string) *regexp.Regexp {
	if v.patterns[text] == nil {
		v.patterns[text] = regexp.MustCompile(text)
	}
	return v.patterns[text]
}
