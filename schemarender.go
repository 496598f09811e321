package courier

import (
	"errors"
	"reflect"
	"slices"
	"strings"
)

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
		if err := newReader(config).Decode(&object); err != nil {
			return plainError(err)
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
	return errors.New(strings.Join(lines[:min(len(lines), maxListed)], "; "))
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
