package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/format"
)

// A field of a form stands for a field of a definition in JSON. Forms are read into JSON,
// so that what is wrong is said as for a definition that is a text.
type field struct {
	name    string // in JSON, such as "webhook.url"
	label   string
	hint    string
	kind    fieldKind
	options []string // of a choice
	jobs    bool     // the jobs that the visitor may change are suggested
	once    bool     // it can't be changed later
	group   string   // the legend above it and those that follow
}

type fieldKind string

// The kinds of fields.
const (
	textField   fieldKind = "text"
	numberField fieldKind = "number"
	listField   fieldKind = "list" // a text in each line
	jsonField   fieldKind = "json"
	checkField  fieldKind = "check"
	choiceField fieldKind = "choice"
)

// A formField is a field as it is shown.
type formField struct {
	Name, Label, Hint string
	Kind              fieldKind
	Value             string
	Options           []string
	List              string   // the id of a list of suggestions
	Problems          []string // with what was sent
	Group             string
}

// formFields returns the fields of a definition in JSON, or those of a form that was sent,
// with the problems that belong to them. The others are the rest.
func formFields(fields []field, definition []byte, form url.Values, problems []courier.Problem, isNew bool) (list []formField, rest []courier.Problem) {
	rest = slices.Clone(problems)
	var values map[string]any
	if form == nil {
		values = decode(definition)
	}
	for _, f := range fields {
		v := formField{Name: f.name, Label: f.label, Hint: f.hint, Kind: f.kind, Options: f.options, Group: f.group}
		if f.once && !isNew {
			continue
		}
		if f.jobs {
			v.List = "jobs"
		}
		if form != nil {
			v.Value = form.Get("f." + f.name)
		} else {
			v.Value = f.text(at(values, f.name))
		}
		rest = slices.DeleteFunc(rest, func(p courier.Problem) bool {
			if !f.has(p.Field) {
				return false
			}
			text := p.Message
			if p.Field != f.name {
				text = p.Field + ": " + text
			}
			v.Problems = append(v.Problems, format.Sentence(text))
			return true
		})
		list = append(list, v)
	}
	return list, rest
}

// has reports whether a problem with a field of the definition belongs to the field.
func (f *field) has(name string) bool {
	rest, ok := strings.CutPrefix(name, f.name)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// text returns a value of JSON as the form has it.
func (f *field) text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		if f.kind != jsonField {
			return v
		}
	case bool:
		if f.kind == checkField {
			return map[bool]string{true: "on"}[v]
		}
	case json.Number:
		return v.String()
	case []any:
		if f.kind == listField {
			var lines []string
			for _, line := range v {
				lines = append(lines, fmt.Sprint(line))
			}
			return strings.Join(lines, "\n")
		}
	}
	return format.JSON(v)
}

// decode reads an object, whose numbers keep their digits.
func decode(text []byte) map[string]any {
	values := make(map[string]any)
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	_ = d.Decode(&values) // the text is what was marshalled here
	return values
}

// at returns the value of a name such as "webhook.url"; nil if there is none.
func at(values map[string]any, name string) any {
	first, rest, nested := strings.Cut(name, ".")
	if !nested {
		return values[first]
	}
	inner, _ := values[first].(map[string]any)
	return at(inner, rest)
}

// put sets the value of a name such as "webhook.url"; nil takes it away, and an object that
// is empty then.
func put(values map[string]any, name string, v any) {
	first, rest, nested := strings.Cut(name, ".")
	if nested {
		inner, _ := values[first].(map[string]any)
		if inner == nil {
			inner = make(map[string]any)
		}
		put(inner, rest, v)
		if v = inner; len(inner) == 0 {
			v = nil
		}
	}
	if v == nil {
		delete(values, first)
	} else {
		values[first] = v
	}
}

// fromForm returns the JSON of a definition with what a form says in its place. Fields that
// the form does not have stay as they are.
func fromForm(fields []field, definition []byte, form url.Values, isNew bool) (text []byte, problems []courier.Problem) {
	values := decode(definition)
	for _, f := range fields {
		if f.once && !isNew {
			continue
		}
		sent := strings.ReplaceAll(form.Get("f."+f.name), "\r\n", "\n")
		v, err := f.value(sent)
		if err != nil {
			problems = append(problems, courier.Problem{Step: -1, Field: f.name, Message: err.Error()})
		}
		put(values, f.name, v)
	}
	text, err := json.Marshal(values)
	if err != nil {
		problems = append(problems, courier.Problem{Step: -1, Message: err.Error()})
	}
	return text, problems
}

// value returns what was sent as a value of JSON; nil if nothing was.
func (f *field) value(sent string) (any, error) {
	if strings.TrimSpace(sent) == "" {
		return nil, nil
	}
	switch f.kind {
	case checkField:
		return true, nil
	case numberField:
		sent = strings.TrimSpace(sent)
		if n := json.Number(sent); isNumber(n) {
			return n, nil
		}
	case listField:
		var list []any
		for line := range strings.Lines(sent) {
			if line = strings.TrimSpace(line); line != "" {
				list = append(list, line)
			}
		}
		return list, nil
	case jsonField:
		d := json.NewDecoder(strings.NewReader(sent))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil || d.More() {
			return nil, fmt.Errorf("it is no JSON: write an object such as {\"name\": \"value\"}, with names and texts in double quotes")
		}
		return v, nil
	}
	return sent, nil
}

func isNumber(n json.Number) bool {
	text, err := json.Marshal(n)
	return err == nil && len(text) > 0 && text[0] != '"'
}
