package schemadoc

import (
	"regexp"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

// A paramType is a type of parameters, with the keys that fit only some types.
type paramType struct {
	name string
	keys []string
}

var paramTypes = []paramType{
	{"text", []string{"enum", "pattern", "min_length", "max_length", "secret"}},
	{"integer", []string{"enum", "min", "max"}},
	{"number", []string{"enum", "min", "max"}},
	{"boolean", nil},
	{"date", []string{"enum", "min", "max"}},
	{"instant", []string{"enum", "min", "max"}},
	{"list", []string{"min_length", "max_length"}},
	{"object", nil},
	{"file", nil},
}

// someKeys are the keys of a declaration that do not fit all types.
var someKeys = []string{"enum", "pattern", "min_length", "max_length", "secret", "min", "max"}

// params is the schema of the parameters of a job or a chain. OpenAPI documents leave them
// open: that an object with a type is a declaration takes a condition.
func (b *builder) params() Schema {
	if b.types != nil {
		return Schema{"type": "object"}
	}
	declaration := b.define("param", "", declaration)
	return Schema{"type": "object", "additionalProperties": when(Schema{"type": "object", "required": []string{"type"}}, declaration)}
}

// declaration is the schema of the declaration of a parameter.
func declaration() Schema {
	const maxLength = 999_999_999
	names := make([]string, len(paramTypes))
	secret := valueOf(courier.Param{Type: "text", Secret: true})
	rules := []Schema{
		when(has("required", true), forbidden("default")),
		when(has("secret", true), Schema{"properties": Schema{"default": secret, "enum": Schema{"items": secret}}}),
	}
	for i, t := range paramTypes {
		names[i] = t.name
		value := valueOf(courier.Param{Type: t.name})
		of := Schema{"default": value}
		for _, key := range someKeys {
			switch fits := slices.Contains(t.keys, key); {
			case !fits:
				of[key] = false
			case key == "min" || key == "max":
				of[key] = value
			case key == "enum":
				of[key] = Schema{"items": value}
			}
		}
		rules = append(rules, when(has("type", t.name), Schema{"properties": of}))
	}
	s := Object(Schema{
		"type":       enum("What the parameter takes.", nil, names...),
		"required":   boolean("An execution can't be created without it."),
		"default":    Schema{"description": "The value where none is given."},
		"doc":        text("A text for people."),
		"enum":       Schema{"type": "array", "minItems": 1, "description": "The values that are permitted."},
		"pattern":    text("A regular expression (RE2) that the whole text must match."),
		"secret":     boolean("The text is the name of a secret."),
		"min":        Schema{"description": "The least value."},
		"max":        Schema{"description": "The greatest value."},
		"min_length": whole("The least number of characters of a text, or of items of a list.", 0, maxLength),
		"max_length": whole("The greatest number of characters of a text, or of items of a list; 0 is no bound.", 0, maxLength),
	}, "type")
	s["allOf"] = rules
	return s
}

// Params returns the draft-07 schema of the parameters of an execution of a job, as package
// jsonschema says.
func Params(job courier.Job) []byte {
	const title = "Parameters of a Courier job"
	declared := flow.ReadParams(job.Params)
	if declared == nil {
		return document(title, Schema{"type": "object"})
	}
	properties, required := Schema{}, []string(nil)
	for _, name := range declared.Names() {
		d, _ := declared.Get(name)
		properties[name] = described(valueOf(d), d.Doc, d.Default)
		if d.Required {
			required = append(required, name)
		}
	}
	return document(title, Object(properties, required...))
}

// valueOf is the schema of the values of a parameter.
func valueOf(d courier.Param) Schema {
	switch d.Type {
	case "text":
		return ofText(d)
	case "integer", "number":
		return with(Schema{"type": d.Type}, map[string]any{"enum": listed(d.Enum), "minimum": d.Min, "maximum": d.Max})
	case "boolean", "object":
		return Schema{"type": d.Type}
	case "date":
		return with(Schema{"type": "string", "format": "date"}, map[string]any{"enum": listed(d.Enum), "formatMinimum": d.Min, "formatMaximum": d.Max})
	case "instant":
		return with(Schema{"type": "string", "format": "date-time"}, map[string]any{"formatMinimum": d.Min, "formatMaximum": d.Max})
	case "list":
		return with(Schema{"type": "array"}, map[string]any{"minItems": positive(d.MinLength), "maxItems": positive(d.MaxLength)})
	case "file":
		return ofFile()
	}
	return Schema{}
}

// with returns s with the keywords that have a value.
func with(s Schema, keywords map[string]any) Schema {
	for keyword, v := range keywords {
		if v != nil {
			s[keyword] = v
		}
	}
	return s
}

// positive returns n, or nil if it is 0.
func positive(n int) any {
	if n == 0 {
		return nil
	}
	return n
}

// listed returns a list, or nil if it is empty.
func listed(l []any) any {
	if len(l) == 0 {
		return nil
	}
	return l
}

func ofText(d courier.Param) Schema {
	s := with(Schema{"type": "string"}, map[string]any{"enum": listed(d.Enum), "minLength": positive(d.MinLength), "maxLength": positive(d.MaxLength)})
	if d.Pattern != "" && isCommon(d.Pattern) {
		s["pattern"] = "^(?:" + d.Pattern + ")$"
	}
	if d.Secret {
		s["minLength"], s["not"] = max(1, d.MinLength), ofSecret
	}
	return s
}

// ofFile is the schema of a file: an absolute path, or an object.
func ofFile() Schema {
	path := func() Schema { return Schema{"type": "string", "pattern": `^(/|\\\\|.:[/\\]).*[^/\\]$`} }
	return AnyOf(path(), Schema{"type": "object", "properties": Schema{
		"path":   path(),
		"name":   Schema{"type": "string", "pattern": `^[^/\\]+$`, "not": Schema{"enum": []string{".", ".."}}},
		"size":   whole("", 0, nil),
		"sha256": Schema{"type": "string", "pattern": "^[0-9A-Fa-f]{64}$"},
	}, "anyOf": []Schema{{"required": []string{"path"}}, {"required": []string{"name"}}}})
}

// uncommon finds what RE2 and the regular expressions of ECMA 262 read differently:
// flags and names of groups, classes by name, and escapes other than those of
// punctuation and of \d and \w.
var uncommon = regexp.MustCompile(`\(\?[^:]|\[\[:|\\[^dwDW[:punct:]]|\\$`)

// isCommon reports whether a pattern means the same in RE2 and in ECMA 262.
func isCommon(pattern string) bool { return !uncommon.MatchString(pattern) }
