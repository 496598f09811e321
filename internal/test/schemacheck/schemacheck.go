// Package schemacheck checks JSON values against JSON Schemas, for tests. It has the keywords
// of draft-07 and of the dialect 2020-12 that the schemas of this module use, and panics if a
// schema has another one.
package schemacheck

import (
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// A Validator checks values against the schemas of a document. It can be used concurrently.
type Validator struct {
	// Root is the document, with the digits of numbers, as jsontext.Parse reads it.
	Root map[string]any
	// Strict refuses fields that the schema of an object does not name, where it does not say
	// what becomes of them.
	Strict   bool
	patterns sync.Map // compiled, by their texts
}

// Check returns what is wrong with a value, each with where it is; nil if it fits the schema.
func (v *Validator) Check(schema, value any) []string { return v.value(schema, value, "") }

// Resolve returns the part of the document that a reference leads to, as #/definitions/step.
func (v *Validator) Resolve(ref string) (map[string]any, error) {
	var at any = v.Root
	for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		o, _ := at.(map[string]any)
		at = o[name]
	}
	to, ok := at.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the reference %s leads nowhere", ref)
	}
	return to, nil
}

// annotations are the keywords that permit everything.
var annotations = []string{"$schema", "title", "description", "default", "examples", "readOnly", "definitions", "components", "contentEncoding", "then", "else", "errorMessage", "formatMinimum", "formatMaximum"}

// value returns what is wrong with the value at a path.
func (v *Validator) value(schema, value any, at string) (wrong []string) {
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

func (v *Validator) keyword(s map[string]any, keyword string, value any, at string) []string {
	if slices.Contains(annotations, keyword) {
		return nil
	}
	for _, check := range []func(map[string]any, string, any, string) ([]string, bool){v.logic, v.plain, v.ofObject, v.ofList, v.ofText} {
		if wrong, known := check(s, keyword, value, at); known {
			return wrong
		}
	}
	panic(fmt.Sprintf("%s: the validator does not know the keyword %q", at, keyword))
}

// logic checks keywords that apply other schemas to the same value.
func (v *Validator) logic(s map[string]any, keyword string, value any, at string) (wrong []string, known bool) {
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
		part, err := v.Resolve(s[keyword].(string))
		if err != nil {
			return []string{at + ": " + err.Error()}, true
		}
		wrong = v.value(part, value, at)
	default:
		return nil, false
	}
	return wrong, true
}

// valueOf is value for the parts of allOf, anyOf and oneOf.
func (v *Validator) valueOf(keyword string, part, value any, at string) []string {
	if keyword != "allOf" && keyword != "anyOf" && keyword != "oneOf" {
		return nil
	}
	return v.value(part, value, at)
}

// plain checks keywords for values of any type and for numbers.
func (v *Validator) plain(s map[string]any, keyword string, value any, at string) ([]string, bool) {
	ok := true
	number, isNumber := value.(json.Number)
	switch keyword {
	case "type":
		kinds, several := s[keyword].([]any)
		if !several {
			kinds = []any{s[keyword]}
		}
		ok = slices.ContainsFunc(kinds, func(kind any) bool { return isType(kind.(string), value) })
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

func (v *Validator) ofObject(s map[string]any, keyword string, value any, at string) (wrong []string, known bool) {
	object, _ := value.(map[string]any)
	switch keyword {
	case "properties":
		for name, part := range s[keyword].(map[string]any) {
			if x, given := object[name]; given {
				wrong = append(wrong, v.value(part, x, at+"/"+name)...)
			}
		}
		if v.Strict && s["additionalProperties"] == nil && s["$ref"] == nil {
			wrong = append(wrong, v.others(s, object, false, at)...)
		}
	case "required":
		for _, name := range s[keyword].([]any) {
			if _, given := object[name.(string)]; !given && object != nil {
				wrong = append(wrong, fmt.Sprintf("%s: lacks %s", at, name))
			}
		}
	case "additionalProperties":
		wrong = v.others(s, object, s[keyword], at)
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

// others checks the fields of an object that its schema does not name.
func (v *Validator) others(s, object map[string]any, schema any, at string) (wrong []string) {
	properties, _ := s["properties"].(map[string]any)
	for name, x := range object {
		if _, ok := properties[name]; !ok {
			wrong = append(wrong, v.value(schema, x, at+"/"+name)...)
		}
	}
	return wrong
}

func size(v any) int { n, _ := v.(json.Number).Int64(); return int(n) }

func (v *Validator) ofList(s map[string]any, keyword string, value any, at string) (wrong []string, known bool) {
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

func (v *Validator) ofText(s map[string]any, keyword string, value any, at string) ([]string, bool) {
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

func (v *Validator) pattern(text string) *regexp.Regexp {
	p, ok := v.patterns.Load(text)
	if !ok {
		p, _ = v.patterns.LoadOrStore(text, regexp.MustCompile(text))
	}
	return p.(*regexp.Regexp)
}
