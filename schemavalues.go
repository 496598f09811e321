package courier

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"

	"github.com/courierhq/courier/internal/errtext"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/internal/strictjson"
)

// A Group says how many of its fields an object must have. A field counts as given unless
// it is missing, null, false, or empty.
type Group struct {
	// Kind is "one_of" for exactly one field, "any_of" for at least one, and
	// "at_most_one" for one or none: the word of the tag courier:"KIND=NAME".
	Kind   string   `json:"kind"`
	Name   string   `json:"name"`
	Fields []string `json:"fields"` // by their JSON names
}

// The kinds of groups.
const (
	groupOneOf     = "one_of"
	groupAnyOf     = "any_of"
	groupAtMostOne = "at_most_one"
)

// groupOf takes a word of a tag named courier apart that puts a field into a group.
func groupOf(option string) (kind, name string, ok bool) {
	kind, name, found := strings.Cut(option, "=")
	return kind, name, found && name != "" && slices.Contains([]string{groupOneOf, groupAnyOf, groupAtMostOne}, kind)
}

// addGroups puts a field into its groups.
func (s *Schema) addGroups(f reflect.StructField, field string) {
	for _, option := range tagOptions(f) {
		kind, name, ok := groupOf(option)
		if !ok {
			continue
		}
		i := slices.IndexFunc(s.Groups, func(g Group) bool { return g.Kind == kind && g.Name == name })
		if i < 0 {
			i = len(s.Groups)
			s.Groups = append(s.Groups, Group{Kind: kind, Name: name})
		}
		s.Groups[i].Fields = append(s.Groups[i].Fields, field)
	}
}

// compareNumbers compares two numbers by their value. What is too large for exact
// figures is compared as a float64.
func compareNumbers(a, b json.Number) int {
	x, okX := new(big.Rat).SetString(a.String())
	y, okY := new(big.Rat).SetString(b.String())
	if okX && okY {
		return x.Cmp(y)
	}
	f, _ := a.Float64() // with an error, infinite or 0
	g, _ := b.Float64()
	return cmp.Compare(f, g)
}

// checkValue reports a value that is not among those that are permitted. Text that
// references have part in is taken to fit, and so is empty text, which stands for
// the default.
func (s *Schema) checkValue(field string, v any, how schemaCheck) []Problem {
	message := ""
	switch v := v.(type) {
	case string:
		if len(s.Enum) > 0 && v != "" && (how.rendered || !strings.Contains(v, "${")) && !slices.Contains(s.Enum, v) {
			message = fmt.Sprintf("%q is not one of the possible values; %s", errtext.Shorten(v, 60), nearest.DidYouMean(v, s.Enum))
		}
	case json.Number:
		if len(v.String()) > 400 {
			return nil // its type is wrong, or it can't be decoded
		}
		switch {
		case s.Min != "" && compareNumbers(v, s.Min) < 0:
			message = fmt.Sprintf("must be at least %s, not %s", s.Min, errtext.Shorten(v.String(), 40))
		case s.Max != "" && compareNumbers(v, s.Max) > 0:
			message = fmt.Sprintf("must be at most %s, not %s", s.Max, errtext.Shorten(v.String(), 40))
		}
	}
	if message == "" {
		return nil
	}
	return []Problem{{Step: -1, Field: field, Message: message}}
}

// checkGroups reports fields of which there are too few or too many. A reference,
// or a field that comes later, counts as given where one is needed; whether it is
// too many shows only when it is resolved.
func (s *Schema) checkGroups(field string, v map[string]any, how schemaCheck) []Problem {
	var all []Problem
	for _, g := range s.Groups {
		given, sure := 0, 0
		for name, x := range v {
			p, ok := s.Property(name)
			if !ok || !slices.Contains(g.Fields, p.Name) || isEmptyValue(x) {
				continue
			}
			given++
			if !how.open(x) {
				sure++
			}
		}
		if slices.ContainsFunc(g.Fields, how.missing) {
			given++
		}
		message := ""
		switch {
		case given == 0 && g.Kind == groupOneOf:
			message = "give one of "
		case given == 0 && g.Kind == groupAnyOf:
			message = "give at least one of "
		case sure > 1 && g.Kind != groupAnyOf:
			message = "give only one of "
		}
		if message != "" {
			last := len(g.Fields) - 1
			names := strings.Join(g.Fields[:last], ", ") + " and " + g.Fields[last]
			all = append(all, Problem{Step: -1, Field: field, Message: message + names})
		}
	}
	return all
}

func isEmptyValue(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// restricts reports whether s, or what is in it, permits less than the Go type
// that it describes.
func (s *Schema) restricts() bool {
	if s == nil {
		return false
	}
	return len(s.Enum) > 0 || s.Min != "" || s.Max != "" || len(s.Groups) > 0 || s.Items.restricts() ||
		slices.ContainsFunc(s.Properties, func(p Property) bool { return p.Schema.restricts() || requiredWithin(p.Schema) })
}

// requiredWithin reports whether an object in s has a required field, which the
// decoder does not look for.
func requiredWithin(s *Schema) bool {
	return s != nil && (requiredWithin(s.Items) ||
		slices.ContainsFunc(s.Properties, func(p Property) bool { return p.Required || requiredWithin(p.Schema) }))
}

// checkRendered compares the JSON text of a configuration, in which references and
// secrets have been replaced, with its schema. Fields that job, if not nil, calls
// unresolved may be missing. The error names each field.
func (s *Schema) checkRendered(config []byte, job *Context) error {
	object := map[string]any{}
	if len(config) > 0 {
		if err := strictjson.NewDecoder(config).Decode(&object); err != nil {
			return strictjson.Plain(err)
		}
	}
	how := schemaCheck{rendered: true}
	if job != nil {
		how.unresolved = job.Unresolved
	}
	problems := s.check("", object, how)
	if len(problems) == 0 {
		return nil
	}
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.Message
		if field := strings.TrimPrefix(p.Field, "."); field != "" {
			lines[i] = field + ": " + p.Message
		}
	}
	return errors.New(strings.Join(lines[:min(len(lines), errtext.MaxListed)], "; "))
}

// fillDefaults gives the fields of v with an enumeration and a default that one
// where their text is empty.
func (s *Schema) fillDefaults(v reflect.Value) {
	for _, p := range s.Properties {
		if p.Default == "" || len(p.Schema.Enum) == 0 {
			continue
		}
		if f, err := v.FieldByIndexErr(p.index); err == nil && f.Kind() == reflect.String && f.Len() == 0 {
			f.SetString(p.Default)
		}
	}
}

// setDefaults sets the fields of a configuration that have a default.
func setDefaults(key string, v reflect.Value, s *Schema) {
	if v.Kind() != reflect.Struct {
		return
	}
	for _, p := range s.Properties {
		if p.Default == "" {
			continue
		}
		f, err := v.FieldByIndexErr(p.index)
		if err != nil {
			panic(fmt.Sprintf("courier: register %q: default of %s: it lies in an embedded pointer", key, p.Name))
		}
		if f.Kind() == reflect.String {
			f.SetString(p.Default)
		} else if err := json.Unmarshal([]byte(p.Default), f.Addr().Interface()); err != nil {
			panic(fmt.Sprintf("courier: register %q: default of %s: %q must be %s: %v", key, p.Name, p.Default, strictjson.KindName(f.Type()), err))
		}
	}
}

// requiredFields returns the fields that must be given.
func requiredFields(s *Schema) []Property {
	return slices.DeleteFunc(slices.Clone(s.Properties), func(p Property) bool { return !p.Required })
}

// isEmpty reports whether a required field was left out or given as nothing.
// Zero is a number like any other, and false an answer.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String, reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Pointer, reflect.Interface:
		return v.IsNil()
	}
	return false
}
