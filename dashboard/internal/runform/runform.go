// Package runform makes the form that starts a job or a chain: fields for its parameters and for how the
// execution starts. It reads what was sent, and puts problems at their fields.
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

// Described reports whether there is a text that the field refers to.
func (f Field) Described() bool { return f.Doc+f.Hint+f.Problem != "" }

// An Option is a value that a field can have.
type Option struct {
	Value, Label string
	Chosen       bool
}

// paramPrefix is what the names of the fields of parameters begin with.
const paramPrefix = "param."

// allParams is the name of the field with parameters of any names.
const allParams = "params"

// longText is from how many characters on a text has a field of several lines.
const longText = 100

// Params returns the fields of parameters, those that are required first, with what was sent. If
// sent is nil they have the defaults, for visitors that see the job. Secrets are never filled in.
// If none are declared, for which params is nil, there is one field for all of them.
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

// typed is the value of a field as it was typed.
func typed(sent url.Values, name string) string {
	return strings.ReplaceAll(sent.Get(name), "\r\n", "\n")
}

// set chooses how a parameter is asked for.
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
			f.Kind = "text" // a field for dates would drop what was typed
		}
	}
}

// choose makes a field one of values, or none, for which the default may stand.
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
		f.Options = append(f.Options, Option{Value: f.Value, Label: f.Value, Chosen: true}) // what was sent stays
	}
}

// paramHint says in words what is asked for.
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

// Settings returns the fields that say how the execution of a "job" or a "chain" starts, with
// what was sent. Priority and delay are those of jobs alone.
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

// Place sets the problems of fields, and returns those that belong to none.
func Place(params, settings []Field, problems []courier.Problem) (rest []courier.Problem) {
	for _, p := range problems {
		if !place(params, p) && !place(settings, p) {
			rest = append(rest, p)
		}
	}
	return rest
}

// place sets the problem of the field that it is about. Names of parameters that are
// long are cut off in problems.
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
