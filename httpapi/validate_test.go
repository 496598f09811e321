package httpapi_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// A validator checks JSON values against the schemas of a document. It knows the part of
// the dialect 2020-12 that the document uses, and refuses any other keyword.
type validator struct {
	root map[string]any
	// strict refuses fields that an object's schema does not name: the document permits
	// them in answers, so that later versions can have more.
	strict bool
}

// annotations are the keywords that permit every value.
var annotations = []string{"description", "components", "contentEncoding", "default", "readOnly", "x-courier-note"}

// check returns the first thing that is wrong with a value; the numbers in it are
// json.Number.
func (v *validator) check(o map[string]any, value any, at string) error {
	for key, arg := range o {
		if err := v.keyword(o, key, arg, value, at); err != nil {
			return err
		}
	}
	return nil
}

func (v *validator) keyword(o map[string]any, key string, arg, value any, at string) error {
	switch key {
	case "$ref":
		to, err := v.resolve(arg.(string))
		if err != nil {
			return err
		}
		return v.check(to, value, at)
	case "type":
		return checkType(arg, value, at)
	case "enum":
		if !slices.Contains(arg.([]any), value) {
			return fmt.Errorf("%s: %v is none of %v", at, value, arg)
		}
	case "anyOf":
		var all []string
		for _, one := range arg.([]any) {
			err := v.check(one.(map[string]any), value, at)
			if err == nil {
				return nil
			}
			all = append(all, err.Error())
		}
		return fmt.Errorf("%s: fits none: %s", at, strings.Join(all, " | "))
	case "not":
		if v.check(arg.(map[string]any), value, at) == nil {
			return fmt.Errorf("%s: fits what it must not", at)
		}
	case "pattern", "minLength", "maxLength":
		text, ok := value.(string)
		if ok && !fitsText(key, arg, text) {
			return fmt.Errorf("%s: %q breaks %s %v", at, text, key, arg)
		}
	case "minItems", "maxItems", "uniqueItems":
		list, ok := value.([]any)
		if ok && !fitsList(key, arg, list) {
			return fmt.Errorf("%s: %v breaks %s %v", at, list, key, arg)
		}
	case "items":
		list, _ := value.([]any)
		for i, item := range list {
			if err := v.check(arg.(map[string]any), item, fmt.Sprintf("%s/%d", at, i)); err != nil {
				return err
			}
		}
	case "properties", "required", "additionalProperties":
		fields, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		return v.object(o, key, arg, fields, at)
	case "format":
		return checkFormat(arg, value, at)
	case "minimum", "maximum":
		n, ok := value.(json.Number)
		if !ok {
			return nil
		}
		x, _ := new(big.Float).SetString(n.String())
		bound, _ := new(big.Float).SetString(arg.(json.Number).String())
		if c := x.Cmp(bound); key == "minimum" && c < 0 || key == "maximum" && c > 0 {
			return fmt.Errorf("%s: %s is beyond the %s %s", at, n, key, bound)
		}
	default:
		if !slices.Contains(annotations, key) {
			return fmt.Errorf("%s: the validator of these tests does not know the keyword %s", at, key)
		}
	}
	return nil
}

func fitsText(key string, arg any, text string) bool {
	switch key {
	case "minLength":
		return utf8.RuneCountInString(text) >= size(arg)
	case "maxLength":
		return utf8.RuneCountInString(text) <= size(arg)
	}
	return regexp.MustCompile(arg.(string)).MatchString(text)
}

func fitsList(key string, arg any, list []any) bool {
	switch key {
	case "minItems":
		return len(list) >= size(arg)
	case "maxItems":
		return len(list) <= size(arg)
	}
	for i, x := range list {
		if slices.ContainsFunc(list[:i], func(y any) bool { return reflect.DeepEqual(x, y) }) {
			return false
		}
	}
	return true
}

func size(arg any) int { n, _ := arg.(json.Number).Int64(); return int(n) }

func (v *validator) object(o map[string]any, key string, arg any, fields map[string]any, at string) error {
	properties, _ := o["properties"].(map[string]any)
	switch key {
	case "required":
		for _, name := range arg.([]any) {
			if _, ok := fields[name.(string)]; !ok {
				return fmt.Errorf("%s: the field %s is missing", at, name)
			}
		}
	case "properties":
		_, others := o["additionalProperties"]
		_, refers := o["$ref"]
		for name, value := range fields {
			schema, ok := properties[name].(map[string]any)
			if !ok {
				if v.strict && !others && !refers {
					return fmt.Errorf("%s: the field %s is not in the document", at, name)
				}
				continue
			}
			if err := v.check(schema, value, at+"/"+name); err != nil {
				return err
			}
		}
	case "additionalProperties":
		for name, value := range fields {
			if _, ok := properties[name]; ok {
				continue
			}
			schema, ok := arg.(map[string]any)
			if !ok && arg == false {
				return fmt.Errorf("%s: the field %s is not in the document", at, name)
			}
			if err := v.check(schema, value, at+"/"+name); err != nil {
				return err
			}
		}
	}
	return nil
}

// resolve returns the schema that a reference leads to.
func (v *validator) resolve(ref string) (map[string]any, error) {
	var at any = v.root
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

func checkType(arg, value any, at string) error {
	kinds, ok := arg.([]any)
	if !ok {
		kinds = []any{arg}
	}
	is := []any{kindOf(value)}
	if n, ok := value.(json.Number); ok {
		if x, ok := new(big.Rat).SetString(n.String()); ok && x.IsInt() {
			is = append(is, "integer")
		}
	}
	for _, k := range is {
		if slices.Contains(kinds, k) {
			return nil
		}
	}
	return fmt.Errorf("%s: %.100v is no %v", at, value, arg)
}

func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}

func checkFormat(arg, value any, at string) error {
	text, ok := value.(string)
	if !ok {
		return nil
	}
	if arg != "date-time" {
		return fmt.Errorf("%s: the validator of these tests does not know the format %v", at, arg)
	}
	if _, err := time.Parse(time.RFC3339Nano, text); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	return nil
}

// parse decodes JSON text with the digits of numbers.
func parse(text []byte) (v any, err error) {
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.UseNumber()
	err = dec.Decode(&v)
	return v, err
}
