package courier

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"

	"github.com/courierhq/courier/internal/nearest"
)

// A Group says how many of the fields that share its name an object has. A field
// counts as given unless it is missing, null, false, or empty.
type Group struct {
	Kind   GroupKind `json:"kind"`
	Name   string    `json:"name"`
	Fields []string  `json:"fields"` // by their JSON names
}

// A GroupKind says how many fields of a [Group] must be given.
type GroupKind string

// The kinds of groups, which are words of the tag courier:"KIND=NAME".
const (
	GroupOneOf     GroupKind = "one_of"      // exactly one
	GroupAnyOf     GroupKind = "any_of"      // at least one
	GroupAtMostOne GroupKind = "at_most_one" // one or none
)

// groupOf takes a word of a tag named courier apart that puts a field into a group.
func groupOf(option string) (kind GroupKind, name string, ok bool) {
	word, name, found := strings.Cut(option, "=")
	kind = GroupKind(word)
	return kind, name, found && name != "" && slices.Contains([]GroupKind{GroupOneOf, GroupAnyOf, GroupAtMostOne}, kind)
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
			message = fmt.Sprintf("%q is none of the possible values; %s", shorten(v, 60), nearest.DidYouMean(v, s.Enum))
		}
	case json.Number:
		if len(v.String()) > 400 {
			return nil // its type is wrong, or it can't be decoded
		}
		switch {
		case s.Min != "" && compareNumbers(v, s.Min) < 0:
			message = fmt.Sprintf("must be at least %s, not %s", s.Min, shorten(v.String(), 40))
		case s.Max != "" && compareNumbers(v, s.Max) > 0:
			message = fmt.Sprintf("must be at most %s, not %s", s.Max, shorten(v.String(), 40))
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
		case given == 0 && g.Kind == GroupOneOf:
			message = "give one of "
		case given == 0 && g.Kind == GroupAnyOf:
			message = "give at least one of "
		case sure > 1 && g.Kind != GroupAnyOf:
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
