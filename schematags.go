package courier

import (
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"

	"github.com/courierhq/courier/internal/jsontext"
)

// malformedTag says what is wrong with a tag in t, or in what t contains, and with a
// [Pattern] where no values can be told from the definition's text: the struct, the
// field and the tag. It is empty if nothing is wrong.
func malformedTag(t reflect.Type, depth int) string {
	if depth > maxSchemaDepth {
		return ""
	}
	switch t.Kind() {
	case reflect.Map:
		if t.Key() == reflect.TypeFor[Pattern]() || t.Elem() == reflect.TypeFor[Pattern]() {
			return fmt.Sprintf("%v: a Pattern can't be in a map; make it a field or a list", t)
		}
		return malformedTag(t.Elem(), depth+1)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return malformedTag(t.Elem(), depth+1)
	case reflect.Struct:
		for f := range t.Fields() {
			if bad := badField(f); bad != "" {
				return fmt.Sprintf("%v: field %s: %s", t, f.Name, bad)
			}
			if f.IsExported() || f.Anonymous {
				if bad := malformedTag(f.Type, depth+1); bad != "" {
					return bad
				}
			}
		}
	}
	return ""
}

// badField says what is wrong with the tags of a field; empty if nothing is.
func badField(f reflect.StructField) string {
	grouped := ""
	for _, option := range tagOptions(f) {
		if _, _, ok := groupOf(option); ok {
			grouped = option
			continue
		}
		if !slices.Contains([]string{"required", kindPath, kindURL}, option) {
			return fmt.Sprintf("the tag courier:%q is unknown; there are courier:\"required\", courier:\"path\", courier:\"url\", and one_of=NAME, any_of=NAME and at_most_one=NAME for groups of fields, and several words with commas between them", f.Tag.Get("courier"))
		}
	}
	if _, ok := f.Tag.Lookup("default"); grouped != "" && (ok || slices.Contains(tagOptions(f), "required")) {
		return fmt.Sprintf("the tag courier:%q puts it into a group, so it is neither required nor has a default", f.Tag.Get("courier"))
	}
	if k := fieldKind(f); ofKind(schemaOf(f.Type, 0), k) == nil {
		return fmt.Sprintf("the tag courier:%q is for strings and lists of strings, not for %v", k, f.Type)
	}
	s, bad := ofValues(schemaOf(f.Type, 0), f)
	if bad == "" {
		bad = badDefault(s, f)
	}
	return bad
}

// badDefault says why the default of a field is no value that its schema permits;
// empty if it is one, or can't be read, which setDefaults reports.
func badDefault(s *Schema, f reflect.StructField) string {
	text := f.Tag.Get("default")
	var v any = text
	if text == "" {
		return ""
	}
	if f.Type.Kind() != reflect.String {
		var err error
		if v, err = jsontext.Parse([]byte(text)); err != nil {
			return ""
		}
	}
	if found := s.check("", v, schemaCheck{rendered: true}); len(found) > 0 {
		return fmt.Sprintf("the default %q: %s", text, found[0].Message)
	}
	return ""
}

// badGroup says which group of s, or of what is in it, has only one field; empty if
// none has.
func (s *Schema) badGroup() string {
	if s == nil {
		return ""
	}
	for _, g := range s.Groups {
		if len(g.Fields) < 2 {
			return fmt.Sprintf("field %s: it is alone in the group %s=%s", g.Fields[0], g.Kind, g.Name)
		}
	}
	for _, p := range s.Properties {
		if bad := p.Schema.badGroup(); bad != "" {
			return bad
		}
	}
	return s.Items.badGroup()
}

// ofValues returns s with the permitted values and bounds that the tags enum, min
// and max of a field say; they go to the items of a list. It says what is wrong
// with them.
func ofValues(s *Schema, f reflect.StructField) (*Schema, string) {
	_, isEnum := f.Tag.Lookup("enum")
	_, isMin := f.Tag.Lookup("min")
	_, isMax := f.Tag.Lookup("max")
	with := *s
	switch {
	case !isEnum && !isMin && !isMax:
		return s, ""
	case s.Type == "array":
		items, bad := ofValues(s.Items, f)
		with.Items = items
		return &with, bad
	}
	if isEnum {
		if bad := with.setEnum(f); bad != "" {
			return s, bad
		}
	}
	if bad := with.setBounds(f); bad != "" {
		return s, bad
	}
	return &with, ""
}

// setEnum sets the values that the tag enum of a field says, or says what is wrong
// with it.
func (s *Schema) setEnum(f reflect.StructField) string {
	enum := f.Tag.Get("enum")
	values := strings.Split(enum, ",")
	bad := func(v string) bool { return v == "" || strings.TrimSpace(v) != v }
	switch {
	case s.Type != "string":
		return fmt.Sprintf("the tag enum is for strings and lists of strings, not for %v", f.Type)
	case slices.ContainsFunc(values, bad) || len(slices.Compact(slices.Sorted(slices.Values(values)))) < len(values):
		return fmt.Sprintf("the tag enum:%q has an empty value, one with a blank at its end, or one twice", enum)
	}
	s.Enum = values
	return ""
}

// setBounds sets the bounds that the tags min and max of a field say, or says what
// is wrong with them.
func (s *Schema) setBounds(f reflect.StructField) string {
	for _, b := range []struct {
		tag string
		to  *json.Number
	}{{"min", &s.Min}, {"max", &s.Max}} {
		text, ok := f.Tag.Lookup(b.tag)
		if !ok {
			continue
		}
		if s.Type != "integer" && s.Type != "number" {
			return fmt.Sprintf("the tag %s is for numbers and lists of numbers, not for %v", b.tag, f.Type)
		}
		if !isNumber(text) {
			return fmt.Sprintf("the tag %s:%q is not a number", b.tag, text)
		}
		*b.to = json.Number(text)
	}
	if s.Min != "" && s.Max != "" && compareNumbers(s.Min, s.Max) > 0 {
		return fmt.Sprintf("min:%q is more than max:%q", s.Min, s.Max)
	}
	return ""
}

// isNumber reports whether a text is a JSON number with exact figures.
func isNumber(text string) bool {
	_, ok := new(big.Rat).SetString(text)
	var n json.Number
	return ok && json.Unmarshal([]byte(text), &n) == nil
}
