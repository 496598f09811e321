package courier

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/courierhq/courier/internal/errtext"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/internal/strictjson"
)

// A Schema describes the JSON form of a Go type, so that a job's definition can be
// checked before anything runs.
type Schema struct {
	// Type is "string", "boolean", "integer", "number", "array" or "object";
	// empty means that any value will do.
	Type       string     `json:"type,omitempty"`
	Properties []Property `json:"properties,omitempty"` // of an object, in the order of the struct
	Items      *Schema    `json:"items,omitempty"`      // of an array
	// Open says that an object may have names that are not among its Properties.
	Open bool `json:"open,omitempty"`
	// Kind says what a string is: "path" for a local or remote path, by the tag
	// courier:"path"; "url" for a URL, by the tag courier:"url"; "pattern" for a path or
	// name that may have wildcards, by the type [Pattern]; empty for other strings. A
	// value that a reference or secret puts into a string with a kind must not contain a
	// segment ".." (in a URL, in its path), unless the step has [StepSpec.AllowParent].
	Kind string `json:"kind,omitempty"`
	// Enum lists the values that a string may have, by the tag enum:"A,B". Empty
	// means any.
	Enum []string `json:"enum,omitempty"`
	// Min and Max are the inclusive bounds of a number, by the tags min:"0" and max:"10".
	// Empty means none.
	Min    json.Number `json:"min,omitempty"`
	Max    json.Number `json:"max,omitempty"`
	Groups []Group     `json:"groups,omitempty"` // of an object's properties
}

// What [Schema.Kind] may be.
const (
	kindPath    = "path"    // tag courier:"path"
	kindURL     = "url"     // tag courier:"url"
	kindPattern = "pattern" // the type [Pattern]
)

// A Pattern is a string of a configuration that may contain wildcards, such as
// "in/*.csv". Wildcards have an effect only in the definition's own text: text that
// comes from a reference or a secret is literal, so that a file called "*" stands for
// itself.
//
// A step type that takes patterns declares their fields with this type, or as a list of
// it. In a definition they are plain strings. A string constant can be converted to a
// Pattern.
//
// In a Pattern, values that contain wildcard characters are enclosed in NUL characters,
// which no definition and no value can contain. So a Pattern that is used as a path,
// without String, names no file.
type Pattern string

// String returns the whole text, including that of values, without marks of what is
// literal.
func (p Pattern) String() string { return strings.ReplaceAll(string(p), glob.Mark, "") }

// Runs iterates over the pieces of the text, each with whether it is literal.
func (p Pattern) Runs() iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		literal := false
		for run := range strings.SplitSeq(string(p), glob.Mark) {
			if run != "" && !yield(run, literal) {
				return
			}
			literal = !literal
		}
	}
}

// ContainsAny reports whether one of the characters occurs in the pattern and is not
// literal there.
func (p Pattern) ContainsAny(chars string) bool {
	for run, literal := range p.Runs() {
		if !literal && strings.ContainsAny(run, chars) {
			return true
		}
	}
	return false
}

// Escaped returns the pattern in the syntax of [path.Match], extended by ** and
// {a,b}, with a backslash before each literal character that has a meaning there.
func (p Pattern) Escaped() string {
	var b strings.Builder
	for run, literal := range p.Runs() {
		for _, c := range []byte(run) {
			if literal && strings.IndexByte(glob.Meta, c) >= 0 {
				b.WriteByte('\\')
			}
			b.WriteByte(c)
		}
	}
	return b.String()
}

// A Property is one field of an object.
type Property struct {
	Name     string  `json:"name"`
	Schema   *Schema `json:"schema"`
	Required bool    `json:"required,omitempty"` // tag courier:"required"
	Default  string  `json:"default,omitempty"`  // tag default:"..."
	Doc      string  `json:"doc,omitempty"`      // tag doc:"..."
	// File says that an output is the path of a file that the step writes, or a list of
	// such paths. It names the configuration field that gives the location; if that field
	// is not given, the file is in the attempt's own directory. Tag file:"...".
	File string `json:"file,omitempty"`
	// Alias is another name that a job's definition may use for a field of a
	// configuration. A saved definition has Name. Tag alias:"...".
	Alias string `json:"alias,omitempty"`
	// anyCase is set for fields without a json tag, which encoding/json
	// matches without regard to case.
	anyCase bool
	index   []int
	typ     reflect.Type
}

// Property returns the property with the given JSON name.
func (s *Schema) Property(name string) (*Property, bool) {
	for i := range s.Properties {
		p := &s.Properties[i]
		if p.Name == name || p.anyCase && strings.EqualFold(p.Name, name) {
			return p, true
		}
	}
	return nil, false
}

// Names lists the names of the properties.
func (s *Schema) Names() []string {
	names := make([]string, len(s.Properties))
	for i, p := range s.Properties {
		names[i] = p.Name
	}
	return names
}

// maxSchemaDepth ends the description of recursive types.
const maxSchemaDepth = 8

func schemaOf(t reflect.Type, depth int) *Schema {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if depth > maxSchemaDepth {
		return &Schema{}
	}
	s := &Schema{Type: strictjson.TypeOf(t)}
	switch {
	case t == reflect.TypeFor[Pattern]():
		s.Kind = kindPattern
	case s.Type == "array":
		s.Items = schemaOf(t.Elem(), depth+1)
	case s.Type == "object" && t.Kind() == reflect.Map:
		s.Open = true
	case s.Type == "object":
		s.addFields(t, nil, depth)
	}
	return s
}

func (s *Schema) addFields(t reflect.Type, index []int, depth int) {
	for f := range t.Fields() {
		tag, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		at := append(append([]int(nil), index...), f.Index...)
		if inner := structOf(f.Type); f.Anonymous && tag == "" && inner != nil && depth < maxSchemaDepth {
			s.addFields(inner, at, depth+1)
			continue
		}
		if !f.IsExported() || f.Tag.Get("json") == "-" {
			continue
		}
		p := Property{
			Name: tag, Schema: schemaOf(f.Type, depth+1),
			Required: slices.Contains(tagOptions(f), "required"),
			Default:  f.Tag.Get("default"), Doc: f.Tag.Get("doc"),
			File: f.Tag.Get("file"), Alias: f.Tag.Get("alias"),
			index: at, typ: f.Type,
		}
		if tag == "" {
			p.Name, p.anyCase = f.Name, true
		}
		if strings.Contains(option, "string") {
			p.Schema = &Schema{Type: "string"}
		}
		if p.Schema = ofKind(p.Schema, fieldKind(f)); p.Schema == nil {
			continue // refused by malformedTag
		}
		p.Schema, _ = ofValues(p.Schema, f)
		s.addGroups(f, p.Name)
		s.Properties = append(s.Properties, p)
	}
}

// tagOptions are the words of a field's tag named courier.
func tagOptions(f reflect.StructField) []string {
	tag, ok := f.Tag.Lookup("courier")
	if !ok {
		return nil
	}
	return strings.Split(tag, ",")
}

// fieldKind returns the kind that a field's tag says, or nothing.
func fieldKind(f reflect.StructField) string {
	for _, option := range tagOptions(f) {
		if option == kindPath || option == kindURL {
			return option
		}
	}
	return ""
}

// ofKind returns s, the schema of a string or of a list of strings, with a kind;
// nil if it is the schema of something else.
func ofKind(s *Schema, kind string) *Schema {
	switch {
	case kind == "":
		return s
	case s.Type == "string" && s.Kind == "":
		return &Schema{Type: s.Type, Kind: kind}
	case s.Type == "array":
		if items := ofKind(s.Items, kind); items != nil {
			return &Schema{Type: s.Type, Items: items}
		}
	}
	return nil
}

// notJSON returns a type in t that encoding/json refuses, or nil.
func notJSON(t reflect.Type, depth int) reflect.Type {
	if depth > maxSchemaDepth || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
		return nil
	}
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return t
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return notJSON(t.Elem(), depth+1)
	case reflect.Struct:
		for f := range t.Fields() {
			if f.IsExported() && f.Tag.Get("json") != "-" {
				if bad := notJSON(f.Type, depth+1); bad != nil {
					return bad
				}
			}
		}
	}
	return nil
}

// structOf returns the struct that t is or points to, or nil.
func structOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return t
}

// Check compares a JSON value with the schema. It returns a problem for each unknown or
// missing name, each value that has a wrong type or is not permitted, and each group with
// too few or too many fields. The names in the problems begin with field. References are
// assumed to fit.
func (s *Schema) Check(field string, v any) []Problem {
	return s.check(field, v, schemaCheck{})
}

// A schemaCheck says what a value is that is compared with a schema. The zero
// schemaCheck is for the text of a definition.
type schemaCheck struct {
	// rendered says that references and secrets have been replaced, so that every
	// text means itself.
	rendered bool
	// unresolved reports whether a field is left out because its value is known
	// only later; nil means that none is.
	unresolved func(name string) bool
}

// open reports whether a value is a reference, so that nothing is known of it.
func (c schemaCheck) open(v any) bool {
	s, ok := v.(string)
	return ok && !c.rendered && isReference(s)
}

// missing reports whether a field that is not there comes later.
func (c schemaCheck) missing(name string) bool { return c.unresolved != nil && c.unresolved(name) }

func (s *Schema) check(field string, v any, how schemaCheck) []Problem {
	if how.open(v) {
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		if s.Type == "object" {
			return s.checkObject(field, v, how)
		}
	case []any:
		if s.Type == "array" {
			how.unresolved = nil
			var all []Problem
			for i, x := range v {
				all = append(all, s.Items.checkItem(fmt.Sprintf("%s[%d]", field, i), x, how)...)
			}
			return all
		}
	}
	if s.Type == "" || v == nil || s.Type == jsonType(v) || s.Type == "number" && jsonType(v) == "integer" {
		return s.checkValue(field, v, how)
	}
	given := strictjson.TypeNames[jsonType(v)]
	if n, ok := v.(json.Number); ok {
		given = errtext.Shorten(n.String(), 40)
	}
	return []Problem{{Step: -1, Field: field, Message: fmt.Sprintf("must be %s, not %s", strictjson.TypeNames[s.Type], given)}}
}

// checkItem is check for an item of a list, for which empty text stands for no
// default.
func (s *Schema) checkItem(field string, v any, how schemaCheck) []Problem {
	if v == "" && len(s.Enum) > 0 {
		return []Problem{{Step: -1, Field: field, Message: "must be one of " + strings.Join(s.Enum, ", ") + ", not empty"}}
	}
	return s.check(field, v, how)
}

func (s *Schema) checkObject(field string, v map[string]any, how schemaCheck) []Problem {
	var all []Problem
	inner := schemaCheck{rendered: how.rendered}
	given := make(map[string]bool, len(v))
	for _, name := range sortedKeys(v) {
		p, ok := s.Property(name)
		if !ok {
			if !s.Open {
				all = append(all, Problem{Step: -1, Field: field, Message: s.unknownField(name, v)})
			}
			continue
		}
		if given[p.Name] {
			all = append(all, Problem{Step: -1, Field: field + "." + name, Message: "is given twice, in different letter case"})
		}
		given[p.Name] = v[name] != nil && v[name] != ""
		all = append(all, p.Schema.check(field+"."+name, v[name], inner)...)
	}
	for _, p := range s.Properties {
		if p.Required && !given[p.Name] && !how.missing(p.Name) {
			all = append(all, Problem{Step: -1, Field: field + "." + p.Name, Message: "is required"})
		}
	}
	return append(all, s.checkGroups(field, v, how)...)
}

// unknownField says that an object v has a field that s does not know. It proposes a
// required field that is missing, if its name is near or ends with the same word.
func (s *Schema) unknownField(name string, v map[string]any) string {
	var missing []string
	for _, p := range s.Properties {
		if _, given := v[p.Name]; p.Required && !given {
			missing = append(missing, p.Name)
		}
		if p.Alias == name {
			return fmt.Sprintf("%q is another name of %q; give one of them", name, p.Name)
		}
	}
	const typing = 3 // mistakes in fewer letters are slips of the keyboard
	lastWord := func(name string) string { return name[strings.LastIndexByte(name, '_')+1:] }
	meant := nearest.Name(name, missing)
	if near := nearest.Name(name, s.Names()); meant == "" && (near == "" || nearest.Distance(name, near, typing) == typing) {
		if i := slices.IndexFunc(missing, func(m string) bool { return lastWord(m) == lastWord(name) }); i >= 0 {
			meant = missing[i]
		}
	}
	if meant != "" {
		return fmt.Sprintf("unknown field %q; did you mean %q?", errtext.Shorten(name, 60), meant)
	}
	return fmt.Sprintf("unknown field %q; %s", errtext.Shorten(name, 60), nearest.DidYouMean(name, s.Names()))
}

// withoutAliases returns an object in which fields have their own names. A field that
// is given under both of its names is left as it is, for [Schema.Check] to refuse.
func (s *Schema) withoutAliases(v map[string]any) map[string]any {
	copied := false
	for _, p := range s.Properties {
		value, given := v[p.Alias]
		if _, both := v[p.Name]; !given || both || p.Alias == "" {
			continue
		}
		if !copied {
			v, copied = maps.Clone(v), true
		}
		v[p.Name] = value
		delete(v, p.Alias)
	}
	return v
}

// isReference reports whether a config string is replaced as a whole.
func isReference(s string) bool {
	return strings.HasPrefix(s, "context:") || strings.HasPrefix(s, "secret:")
}

func jsonType(v any) string {
	switch v := v.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return "number"
		}
		return "integer"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return ""
}
