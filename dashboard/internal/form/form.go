// Package form makes forms for definitions. A field of a form stands for a value in the
// definition's JSON. A form that was sent is read into JSON again, so that its problems are found
// in the same way as in a definition that is a text.
package form

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

// A Field of a form stands for a field of a definition in JSON.
type Field struct {
	Name    string // in JSON, such as "webhook.url"
	Label   string
	Hint    string
	Kind    Kind
	Options []string // of a choice
	Jobs    bool     // the jobs that the visitor may change are suggested
	Once    bool     // it can't be changed later
	Group   string   // the legend above it and the fields that follow
}

// A Kind is the kind of input of a field.
type Kind string

// The kinds of fields.
const (
	Text   Kind = "text"
	Number Kind = "number"
	List   Kind = "list" // a text in each line
	JSON   Kind = "json"
	Check  Kind = "check"
	Choice Kind = "choice"
)

// An Input is a field in the form in which it is shown.
type Input struct {
	Name, Label, Hint string
	Kind              Kind
	Value             string
	Options           []string
	List              string   // the id of a list of suggestions
	Problems          []string // with the value that was sent
	Group             string
}

// Inputs returns the fields of a definition in JSON, with the problems that belong to them. Unless
// sent is nil, the values are those of a form that was sent. Rest are the other problems.
func Inputs(fields []Field, definition []byte, sent url.Values, problems []courier.Problem, isNew bool) (list []Input, rest []courier.Problem) {
	rest = slices.Clone(problems)
	var values map[string]any
	if sent == nil {
		values = decode(definition)
	}
	for _, f := range fields {
		v := Input{Name: f.Name, Label: f.Label, Hint: f.Hint, Kind: f.Kind, Options: f.Options, Group: f.Group}
		if f.Once && !isNew {
			continue
		}
		if f.Jobs {
			v.List = "jobs"
		}
		if sent != nil {
			v.Value = sent.Get("f." + f.Name)
		} else {
			v.Value = f.text(at(values, f.Name))
		}
		rest = slices.DeleteFunc(rest, func(p courier.Problem) bool {
			if !f.has(p.Field) {
				return false
			}
			text := p.Message
			if p.Field != f.Name {
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
func (f *Field) has(name string) bool {
	rest, ok := strings.CutPrefix(name, f.Name)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// text returns a JSON value as the text of an input.
func (f *Field) text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		if f.Kind != JSON {
			return v
		}
	case bool:
		if f.Kind == Check {
			return map[bool]string{true: "on"}[v]
		}
	case json.Number:
		return v.String()
	case []any:
		if f.Kind == List {
			var lines []string
			for _, line := range v {
				lines = append(lines, fmt.Sprint(line))
			}
			return strings.Join(lines, "\n")
		}
	}
	return format.JSON(v)
}

// decode reads an object. Its numbers keep their digits.
func decode(text []byte) map[string]any {
	values := make(map[string]any)
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	_ = d.Decode(&values) // the text was marshalled here
	return values
}

// at returns the value with a name such as "webhook.url". It is nil if there is none.
func at(values map[string]any, name string) any {
	first, rest, nested := strings.Cut(name, ".")
	if !nested {
		return values[first]
	}
	inner, _ := values[first].(map[string]any)
	return at(inner, rest)
}

// put sets the value with a name such as "webhook.url". Nil removes it, and the object around it if
// that becomes empty.
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

// Read returns the JSON of a definition, changed by a form that was sent. Fields that the form does
// not have stay as they are.
func Read(fields []Field, definition []byte, sent url.Values, isNew bool) (text []byte, problems []courier.Problem) {
	values := decode(definition)
	for _, f := range fields {
		if f.Once && !isNew {
			continue
		}
		v, err := f.value(strings.ReplaceAll(sent.Get("f."+f.Name), "\r\n", "\n"))
		if err != nil {
			problems = append(problems, courier.Problem{Step: -1, Field: f.Name, Message: err.Error()})
		}
		put(values, f.Name, v)
	}
	text, err := json.Marshal(values)
	if err != nil {
		problems = append(problems, courier.Problem{Step: -1, Message: err.Error()})
	}
	return text, problems
}

// value returns the text that was sent as a JSON value. It is nil for an empty text.
func (f *Field) value(sent string) (any, error) {
	if strings.TrimSpace(sent) == "" {
		return nil, nil
	}
	switch f.Kind {
	case Check:
		return true, nil
	case Number:
		sent = strings.TrimSpace(sent)
		if n := json.Number(sent); isNumber(n) {
			return n, nil
		}
	case List:
		var list []any
		for line := range strings.Lines(sent) {
			if line = strings.TrimSpace(line); line != "" {
				list = append(list, line)
			}
		}
		return list, nil
	case JSON:
		d := json.NewDecoder(strings.NewReader(sent))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil || d.More() {
			return nil, fmt.Errorf("it is not JSON: write an object such as {\"name\": \"value\"}, with names and texts in double quotes")
		}
		return v, nil
	}
	return sent, nil
}

func isNumber(n json.Number) bool {
	text, err := json.Marshal(n)
	return err == nil && len(text) > 0 && text[0] != '"'
}
