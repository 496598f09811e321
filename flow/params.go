package flow

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/nearest"

	"github.com/courierhq/courier"
)

// The types of parameters; see [courier.Param].
const (
	paramText    = "text"
	paramInteger = "integer"
	paramNumber  = "number"
	paramBoolean = "boolean"
	paramDate    = "date"
	paramInstant = "instant"
	paramList    = "list"
	paramObject  = "object"
	paramFile    = "file"
)

// paramTypes lists them in the order in which messages name them.
var paramTypes = []string{paramText, paramInteger, paramNumber, paramBoolean, paramDate, paramInstant, paramList, paramObject, paramFile}

// paramWords is how messages name a value of each type.
var paramWords = map[string]string{
	paramText: "a text", paramInteger: "a whole number", paramNumber: "a number", paramBoolean: "true or false", paramDate: "a date",
	paramInstant: "an instant", paramList: "a list", paramObject: "an object", paramFile: "a file",
}

// paramKeys are the keys of a declaration, with the types that they fit; nil means all.
var paramKeys = map[string][]string{
	keyType: nil, keyRequired: nil, keyDefault: nil, keyDoc: nil,
	keyEnum:    {paramText, paramInteger, paramNumber, paramDate, paramInstant},
	keyPattern: {paramText}, keySecret: {paramText},
	keyMin: {paramInteger, paramNumber, paramDate, paramInstant}, keyMax: {paramInteger, paramNumber, paramDate, paramInstant},
	keyMinLength: {paramText, paramList}, keyMaxLength: {paramText, paramList},
}

const (
	keyType      = "type"
	keyRequired  = "required"
	keyDefault   = "default"
	keyDoc       = "doc"
	keyEnum      = "enum"
	keyPattern   = "pattern"
	keySecret    = "secret"
	keyMin       = "min"
	keyMax       = "max"
	keyMinLength = "min_length"
	keyMaxLength = "max_length"
)

// Params are the declared parameters of a job or a chain. They never change, and may be
// used by several goroutines. Nil Params take any parameter.
type Params struct {
	names    []string
	all      map[string]*param
	secrets  []string
	problems []courier.Problem
	doubts   []courier.Problem
}

// A param is a declaration that was read.
type param struct {
	courier.Param
	pattern *pattern // anchored; nil if there is none
	broken  bool     // it has problems
}

// ReadParams reads the declarations of a job or a chain: the values of
// [courier.Job.Params], which may be any that encoding/json can handle. A value that is
// an object with the key "type" is a declaration; any other one is the default of a
// parameter without a type. The Params of a nil map are nil.
func ReadParams(declared map[string]any) *Params {
	if declared == nil {
		return nil
	}
	p := &Params{names: slices.Sorted(maps.Keys(declared)), all: make(map[string]*param, len(declared))}
	for _, name := range p.names {
		r := paramReader{params: p, field: "params." + shorten(name), param: new(param)}
		r.read(declared[name])
		p.all[name] = r.param
		if r.param.Secret {
			p.secrets = append(p.secrets, name)
		}
	}
	return p
}

// Names returns the names of the parameters in order. The caller must not change them.
func (p *Params) Names() []string {
	if p == nil {
		return nil
	}
	return p.names
}

// Secrets returns the names of the parameters whose values are names of secrets, in
// order. The caller must not change them.
func (p *Params) Secrets() []string {
	if p == nil {
		return nil
	}
	return p.secrets
}

// Get returns the declaration of a parameter. One that was declared by a default alone
// has no type. Values in it are JSON values; the caller must not change them.
func (p *Params) Get(name string) (d courier.Param, ok bool) {
	if p == nil || p.all[name] == nil {
		return d, false
	}
	return p.all[name].Param, true
}

// A DeclaredParam is a parameter with a type, and where its value comes from.
type DeclaredParam struct {
	Name string `json:"name"`
	courier.Param
	// State is "given"; "default", which is Default; "missing", if it is required; or
	// "null".
	State string `json:"state"`
}

// Declared returns the parameters that have a type, in the order of their names, with
// where their values come from if those are given. It does not check the values.
func (p *Params) Declared(given map[string]any) (list []DeclaredParam) {
	for _, name := range p.Names() {
		d := p.all[name].Param
		x := DeclaredParam{Name: name, Param: d}
		switch v := given[name]; {
		case d.Type == "":
			continue
		case v != nil:
			x.State = "given"
		case d.Default != nil:
			x.State = "default"
		case d.Required:
			x.State = "missing"
		default:
			x.State = "null"
		}
		list = append(list, x)
	}
	return list
}

// Problems returns what is wrong with the declarations, with fields such as
// "params.day.min", and what looks doubtful.
func (p *Params) Problems() (problems, warnings []courier.Problem) {
	if p == nil {
		return nil, nil
	}
	return slices.Clone(p.problems), slices.Clone(p.doubts)
}

// isSecret reports whether a reference names a secret parameter.
func (p *Params) isSecret(head, name string) bool {
	return head == headParams && p != nil && p.all[name] != nil && p.all[name].Secret
}

// A paramReader reads a declaration.
type paramReader struct {
	params *Params
	field  string
	*param
	object map[string]any
}

func (r *paramReader) problem(key, format string, args ...any) {
	r.broken = true
	field := r.field
	if key != "" {
		field += "." + key
	}
	r.params.problems = append(r.params.problems, courier.Problem{Step: -1, Field: field, Message: fmt.Sprintf(format, args...)})
}

// read reads the value of a parameter in a definition.
func (r *paramReader) read(v any) {
	plain, err := plainJSON(v)
	if err != nil {
		r.problem("", "%v", err)
		return
	}
	object, ok := plain.(map[string]any)
	given, declares := object[keyType]
	if !ok || !declares {
		r.Default = plain
		if keys := slices.Collect(maps.Keys(object)); len(keys) > 0 && !slices.ContainsFunc(keys, func(k string) bool { _, known := paramKeys[k]; return !known }) {
			r.params.doubts = append(r.params.doubts, courier.Problem{Step: -1, Field: r.field, Message: `is taken for a default value, since it has no "type"; a declaration has one`})
		}
		return
	}
	r.object = maps.Clone(object)
	typ, isText := given.(string)
	switch {
	case !isText:
		r.problem(keyType, `must be the name of a type, which makes it a declaration; write a default that has the key "type" as {"type": "object", "default": {...}}`)
	case !slices.Contains(paramTypes, typ):
		r.problem(keyType, "unknown type %q; %s", shorten(typ), nearest.DidYouMean(typ, paramTypes))
	default:
		r.Type = typ
	}
	r.keys()
	r.bounds()
	r.values()
	if r.broken {
		r.pattern = nil
	}
}

// plainJSON returns v as a JSON value.
func plainJSON(v any) (any, error) {
	if isJSON(v, 0) && isStorable(v) {
		return v, nil
	}
	raw, err := jsontext.Append(nil, v)
	if err != nil || isJSON(v, 0) {
		return v, err
	}
	return jsontext.Parse(raw)
}

// keys reports keys that are unknown or do not fit the type.
func (r *paramReader) keys() {
	for _, key := range sortedNames(r.object) {
		fits, known := paramKeys[key]
		switch {
		case !known:
			r.problem("", "unknown key %q; %s", shorten(key), nearest.DidYouMean(key, slices.Sorted(maps.Keys(paramKeys))))
		case r.Type != "" && fits != nil && r.object[key] != nil && !slices.Contains(fits, r.Type):
			r.problem(key, "does not fit the type %q; it is for %s", r.Type, strings.Join(fits, ", "))
			delete(r.object, key)
		}
	}
	readKey(r, keyRequired, "true or false", &r.Required)
	readKey(r, keySecret, "true or false", &r.Secret)
	readKey(r, keyDoc, "a text", &r.Doc)
	readKey(r, keyPattern, "a text", &r.Param.Pattern)
	readKey(r, keyEnum, "a list", &r.Enum)
	r.length(keyMinLength, &r.MinLength)
	r.length(keyMaxLength, &r.MaxLength)
	if r.MaxLength > 0 && r.MinLength > r.MaxLength {
		r.problem(keyMinLength, "%d is above max_length, %d", r.MinLength, r.MaxLength)
	}
	if r.Param.Pattern != "" {
		if _, err := compilePattern(r.Param.Pattern); err != nil {
			r.problem(keyPattern, "%v", err)
		} else if whole, err := compilePattern(`\A(?:` + r.Param.Pattern + `)\z`); err != nil {
			r.problem(keyPattern, "%v", err)
		} else {
			r.pattern = &whole
		}
	}
}

// readKey sets *v to the value of a key, which must be of v's type.
func readKey[T any](r *paramReader, key, what string, v *T) {
	given := r.object[key]
	if given == nil {
		return
	}
	x, ok := given.(T)
	if !ok {
		r.problem(key, "must be %s, not %s", what, shown(given))
	}
	*v = x
}

func (r *paramReader) length(key string, n *int) {
	given := r.object[key]
	if given == nil {
		return
	}
	number, _ := given.(json.Number)
	var ok bool
	if *n, ok = parseIndex(number.String()); !ok {
		r.problem(key, "must be a whole number from 0 to 999999999, not %s", shown(given))
	}
}

// bounds reads min and max.
func (r *paramReader) bounds() {
	if r.Type == "" {
		return
	}
	for _, b := range []struct {
		key string
		to  *any
	}{{keyMin, &r.Min}, {keyMax, &r.Max}} {
		if given := r.object[b.key]; given != nil {
			if x, why := r.ofType(given); why != "" {
				r.problem(b.key, "%s", why)
			} else {
				*b.to = x
			}
		}
	}
	if r.Min != nil && r.Max != nil && r.compare(r.Min, r.Max) > 0 {
		r.problem(keyMin, "%s is above max, %s", shown(r.Min), shown(r.Max))
	}
}

// values reads the values that the declaration has: those of enum, and the default.
func (r *paramReader) values() {
	if r.object[keyEnum] != nil && len(r.Enum) == 0 {
		r.problem(keyEnum, "has no values; leave it out to permit all")
	}
	for i, v := range r.Enum {
		if r.Type == "" {
			break
		}
		if _, why := r.ofType(v); why != "" {
			r.problem(fmt.Sprintf("%s[%d]", keyEnum, i), "%s", why)
		}
	}
	r.Default = r.object[keyDefault]
	switch {
	case r.Default == nil:
	case r.Required:
		r.problem(keyRequired, "has no effect beside a default; leave one of them out")
	case r.Type != "" && !r.broken:
		x, why := r.value(r.Default)
		if why != "" {
			r.problem(keyDefault, "%s", why)
		}
		r.Default = x
	}
}
