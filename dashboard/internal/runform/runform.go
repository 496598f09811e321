// Package runform makes the form that starts a job or a chain: fields for its parameters, and for
// how the execution starts. It reads a form that was sent, and puts problems at their fields.
package runform

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/definition"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/jsontext"
)

// A Field is a field of the form.
type Field struct {
	ID, Name, Label string
	Kind            string // "text", "password", "date", "select", "area" or "check"
	Mode            string // the keyboard of a phone: "numeric" or "decimal"
	Value           string
	Options         []Option
	Required        bool
	Doc, Hint       string
	Problem         string
}

// Described reports whether the field has a description.
func (f Field) Described() bool { return f.Doc+f.Hint+f.Problem != "" }

// An Option is a value to choose for a field.
type Option struct {
	Value, Label string
	Chosen       bool
}

// paramPrefix begins the names of the fields of parameters.
const paramPrefix = "param."

// allParams is the name of the field with parameters of any names.
const allParams = "params"

// longText is the number of characters from which a text gets a field of several lines.
const longText = 100

// Params returns the fields of parameters, the required ones first, with the values that were sent.
// If sent is nil, they have the defaults, if the visitor may see the job. Secrets are never filled
// in. If params is nil, the job declares no parameters, and there is one field for all.
func Params(params *flow.Params, sent url.Values, sees bool) (fields []Field) {
	if params == nil {
		return []Field{{ID: "params", Name: allParams, Label: "Parameters", Kind: "area", Value: sent.Get(allParams), Hint: "No parameters are declared, so any are accepted: a JSON object, such as {\"day\": \"2026-11-20\"}. Empty means none."}}
	}
	for i, name := range params.Names() {
		d, _ := params.Get(name)
		f := Field{ID: "param-" + strconv.Itoa(i), Name: paramPrefix + name, Label: name, Required: d.Required && d.Default == nil, Doc: d.Doc, Hint: paramHint(&d, sees)}
		if sent != nil {
			f.Value = typed(sent, f.Name)
		} else if sees && d.Default != nil {
			f.Value = definition.Value(d.Default)
		}
		f.set(&d)
		fields = append(fields, f)
	}
	slices.SortStableFunc(fields, func(a, b Field) int {
		switch {
		case a.Required == b.Required:
			return 0
		case a.Required:
			return -1
		}
		return 1
	})
	return fields
}

// typed returns the text that was typed into a field.
func typed(sent url.Values, name string) string {
	return strings.ReplaceAll(sent.Get(name), "\r\n", "\n")
}

// set selects the kind of field for a parameter.
func (f *Field) set(d *courier.Param) {
	f.Kind = "text"
	switch {
	case d.Secret:
		f.Kind, f.Value = "password", ""
	case len(d.Enum) > 0:
		f.choose(d.Enum, d.Default != nil)
	case d.Type == "boolean":
		f.choose([]any{true, false}, d.Default != nil)
	case d.Type == "date":
		f.Kind = "date"
	case d.Type == "integer":
		f.Mode = "numeric"
	case d.Type == "number":
		f.Mode = "decimal"
	case d.Type == "list" || d.Type == "object":
		f.Kind = "area"
	case format.Long(longText, f.Value) || strings.Contains(f.Value, "\n") || d.MaxLength > longText:
		f.Kind = "area"
	}
	if f.Kind == "date" {
		if _, err := time.Parse(time.DateOnly, f.Value); f.Value != "" && err != nil {
			f.Kind = "text" // a field for dates would drop the typed text
		}
	}
}

// choose makes a field for one of the values, or for no value. No value may stand for the default.
func (f *Field) choose(values []any, def bool) {
	f.Kind = "select"
	f.Options = []Option{{Value: "", Label: "not given", Chosen: f.Value == ""}}
	if def {
		f.Options[0].Label = "the default"
	}
	chosen := f.Value == ""
	for _, value := range values {
		v := jsontext.Text(value)
		f.Options = append(f.Options, Option{Value: v, Label: v, Chosen: v == f.Value})
		chosen = chosen || v == f.Value
	}
	if !chosen {
		f.Options = append(f.Options, Option{Value: f.Value, Label: f.Value, Chosen: true}) // keeps the value that was sent
	}
}

// paramHint describes the expected value in words.
func paramHint(d *courier.Param, sees bool) string {
	what := map[string]string{
		"text": "Text", "integer": "A whole number", "number": "A number", "boolean": "True or false", "date": "A day, such as 2026-11-20", "instant": "An instant in UTC, such as 2026-11-20T08:00:00Z, or with an offset",
		"list": "A list in JSON", "object": "An object in JSON", "file": "The absolute path of a file, or an object in JSON", "": "Any value in JSON; text in double quotes",
	}[d.Type]
	if _, isText := d.Default.(string); d.Type == "" && isText {
		what = "Text"
	} else if d.Type == "" && d.Default == nil {
		what = "Any value in JSON; anything else is taken as text"
	}
	if d.Secret {
		what = "The name of a secret; it is not shown"
	}
	shown := *d
	shown.Required, shown.Secret = false, false
	if rules := definition.ParamRules(&shown); rules != "" {
		what += "; " + rules
	}
	if d.Default == "" {
		return what + ". The default is empty."
	}
	if d.Default != nil && sees && !d.Secret {
		return what + ". The default is " + format.Stop(format.Clip(60, jsontext.Text(d.Default)))
	} else if !d.Required || d.Default != nil {
		return what + ". It may be left empty."
	}
	return what + "." // the label says that it is required
}

// Settings returns the fields for how the execution of a "job" or a "chain" starts, with the values
// that were sent. Only jobs have priority and delay.
func Settings(kind string, sent url.Values) []Field {
	hold := ""
	if sent.Has("hold") {
		hold = "on"
	}
	fields := []Field{
		{ID: "priority", Name: "priority", Label: "Priority", Kind: "text", Mode: "numeric", Value: typed(sent, "priority"), Hint: "A whole number from -32768 to 32767. Higher ones start first. Empty means 0."},
		{ID: "delay", Name: "delay", Label: "Delay", Kind: "text", Value: typed(sent, "delay"), Hint: "The delay until it is due, such as 90s, 10m or 2h30m. Empty means no delay."},
		{ID: "hold", Name: "hold", Label: "Hold: it waits until somebody releases it", Kind: "check", Value: hold},
		{ID: "labels", Name: "labels", Label: "Labels", Kind: "area", Value: typed(sent, "labels"), Hint: "One per line, as name=value. You can find the execution by its labels."},
	}
	if kind == "chain" {
		return fields[2:]
	}
	return fields
}

// Place sets the problems of fields, and returns the problems that belong to no field.
func Place(params, settings []Field, problems []courier.Problem) (rest []courier.Problem) {
	for _, p := range problems {
		if !place(params, p) && !place(settings, p) {
			rest = append(rest, p)
		}
	}
	return rest
}

// place puts a problem at its field, and reports whether there is one. Problems cut off long names
// of parameters.
func place(fields []Field, p courier.Problem) bool {
	name, isParam := strings.CutPrefix(p.Field, "params.")
	for i := range fields {
		f := &fields[i]
		param, ok := strings.CutPrefix(f.Name, paramPrefix)
		cut, isCut := strings.CutSuffix(name, "…")
		if ok && isParam && p.Step < 0 && (param == name || isCut && strings.HasPrefix(param, cut)) || !ok && p.Field == f.Name {
			f.Problem = format.Sentence(p.Message)
			return true
		}
	}
	return false
}
