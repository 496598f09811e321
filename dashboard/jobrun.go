package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/definition"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/jsontext"
)

// A jobRunPage is the form that starts a job.
type jobRunPage struct {
	Name, Back string // Back is empty for who may not see the job
	Version    int    // that is started; 0 for the latest
	Params     []runField
	Settings   []runField
	Rest       []string // problems that belong to no field
	Dry        bool     // the visitor may try it
	Report     *reportView
}

// A runField is a field of the form.
type runField struct {
	ID, Name, Label string
	Kind            string // "text", "password", "date", "select", "area" or "check"
	Mode            string // the keyboard of a phone: "numeric" or "decimal"
	Value           string
	Options         []runOption
	Required        bool
	Doc, Hint       string
	Problem         string
}

// Described reports whether there is a text that the field refers to.
func (f runField) Described() bool { return f.Doc+f.Hint+f.Problem != "" }

type runOption struct {
	Value, Label string
	Chosen       bool
}

// paramField is what the names of the fields of parameters begin with.
const paramField = "param."

// allParams is the name of the field with parameters of any names.
const allParams = "params"

// longText is from how many characters on a text has a field of several lines.
const longText = 100

func (c *call) jobRun() (any, error) {
	job, err := c.jobToRun()
	if err != nil {
		return nil, err
	}
	p := &jobRunPage{Name: job.Name}
	if c.query.Get("version") != "" {
		p.Version = job.Version
	}
	c.title = "Run " + format.Clip(80, job.Name)
	sees := c.may(desk.Viewer)
	if sees {
		p.Back = c.link("jobs", job.Name)
	}
	p.Dry = c.may(desk.Operator) && c.SeesValues(c.ctx(), job.Name)
	p.Params, p.Settings = c.runFields(flow.ReadParams(job.Params), sees), c.runSettings()
	problems := problem.List(c.failed)
	if r, ok := c.found.(*engine.Report); ok {
		problems = r.Problems
		shown := *r
		shown.Problems = placeProblems(p.Params, p.Settings, problems)
		p.Report = reportOf(&shown)
		p.Report.OK = r.OK()
		return p, nil
	}
	for _, rest := range placeProblems(p.Params, p.Settings, problems) {
		p.Rest = append(p.Rest, rest.String())
	}
	c.placed = len(problems) > 0
	return p, nil
}

// jobToRun is the version of the job that the address names, or the latest one.
func (c *call) jobToRun() (courier.Job, error) {
	version, err := c.number("version", 0, 1, 1<<30)
	if err != nil {
		return courier.Job{}, err
	}
	return c.jobVersion(c.r.PathValue("name"), version)
}

// runFields returns the fields of the parameters, those that are required first, with what was typed, or their defaults for
// who may see the job. Secrets are never filled in.
func (c *call) runFields(params *flow.Params, sees bool) (fields []runField) {
	if params == nil {
		return []runField{{ID: "params", Name: allParams, Label: "Parameters", Kind: "area", Value: c.form.Get(allParams), Hint: "The job declares none, and takes any: a JSON object, such as {\"day\": \"2026-11-20\"}. Empty means none."}}
	}
	for i, name := range params.Names() {
		d, _ := params.Get(name)
		f := runField{ID: "param-" + strconv.Itoa(i), Name: paramField + name, Label: name, Required: d.Required && d.Default == nil, Doc: d.Doc, Hint: paramHint(&d, sees)}
		if c.form != nil {
			f.Value = c.typed(f.Name)
		} else if sees && d.Default != nil {
			f.Value = definition.Value(d.Default)
		}
		f.set(&d)
		fields = append(fields, f)
	}
	slices.SortStableFunc(fields, func(a, b runField) int {
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
func (c *call) typed(name string) string {
	return strings.ReplaceAll(c.form.Get(name), "\r\n", "\n")
}

// set chooses how a parameter is asked for.
func (f *runField) set(d *courier.Param) {
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
func (f *runField) choose(values []any, def bool) {
	f.Kind = "select"
	f.Options = []runOption{{Value: "", Label: "not given", Chosen: f.Value == ""}}
	if def {
		f.Options[0].Label = "the default"
	}
	chosen := f.Value == ""
	for _, value := range values {
		v := jsontext.Text(value)
		f.Options = append(f.Options, runOption{Value: v, Label: v, Chosen: v == f.Value})
		chosen = chosen || v == f.Value
	}
	if !chosen {
		f.Options = append(f.Options, runOption{Value: f.Value, Label: f.Value, Chosen: true}) // what was sent stays
	}
}

// paramHint says in words what is asked for.
func paramHint(d *courier.Param, sees bool) string {
	what := map[string]string{
		"text": "Text", "integer": "A whole number", "number": "A number", "boolean": "True or false", "date": "A day, such as 2026-11-20", "instant": "An instant, such as 2026-11-20T08:00:00Z",
		"list": "A list in JSON", "object": "An object in JSON", "file": "The absolute path of a file, or an object in JSON", "": "Any value in JSON; text in double quotes",
	}[d.Type]
	if _, isText := d.Default.(string); d.Type == "" && isText {
		what = "Text"
	} else if d.Type == "" && d.Default == nil {
		what = "Any value in JSON; what is no JSON is taken as text"
	}
	if d.Secret {
		what = "The name of a secret; it is not shown"
	}
	shown := *d
	shown.Required, shown.Secret = false, false
	if rules := definition.ParamRules(&shown); rules != "" {
		what += "; " + rules
	}
	if d.Default != nil && sees && !d.Secret {
		return what + ". The default is " + format.Clip(60, jsontext.Text(d.Default)) + "."
	} else if !d.Required || d.Default != nil {
		return what + ". It may be left empty."
	}
	return what + ". It is required."
}

// runSettings are the fields that say how the execution starts.
func (c *call) runSettings() []runField {
	hold := ""
	if c.form.Has("hold") {
		hold = "on"
	}
	return []runField{
		{ID: "priority", Name: "priority", Label: "Priority", Kind: "text", Mode: "numeric", Value: c.typed("priority"), Hint: "A whole number from -32768 to 32767; higher ones are claimed first. Empty means 0."},
		{ID: "delay", Name: "delay", Label: "Delay", Kind: "text", Value: c.typed("delay"), Hint: "A time until it is due, such as 90s, 10m or 2h30m. Empty means none."},
		{ID: "hold", Name: "hold", Label: "Hold: it waits until somebody releases it", Kind: "check", Value: hold},
		{ID: "labels", Name: "labels", Label: "Labels", Kind: "area", Value: c.typed("labels"), Hint: "One a line, as name=value: people find the execution by them."},
	}
}

// placeProblems sets the problems of fields, and returns those that belong to none.
func placeProblems(params, settings []runField, problems []courier.Problem) (rest []courier.Problem) {
	for _, p := range problems {
		if !placeProblem(params, p) && !placeProblem(settings, p) {
			rest = append(rest, p)
		}
	}
	return rest
}

// placeProblem sets the problem of the field that it is about. Names of parameters that are
// long are cut off in problems.
func placeProblem(fields []runField, p courier.Problem) bool {
	name, isParam := strings.CutPrefix(p.Field, "params.")
	for i := range fields {
		f := &fields[i]
		param, ok := strings.CutPrefix(f.Name, paramField)
		cut, isCut := strings.CutSuffix(name, "…")
		if ok && isParam && p.Step < 0 && (param == name || isCut && strings.HasPrefix(param, cut)) || !ok && p.Field == f.Name {
			f.Problem = format.Sentence(p.Message)
			return true
		}
	}
	return false
}

// runOptions reads the form. What is wrong with it is a *[courier.ParamsError], whose problems
// name the fields.
func (c *call) runOptions(job *courier.Job, dry bool) (*engine.EnqueueOptions, error) {
	var problems []courier.Problem
	bad := func(field, format string, args ...any) {
		problems = append(problems, courier.Problem{Step: -1, Field: field, Message: fmt.Sprintf(format, args...)})
	}
	o := &engine.EnqueueOptions{By: c.by(), Hold: c.form.Has("hold"), Labels: map[string]string{desk.LabelBy: c.ID}}
	if c.query.Get("version") != "" {
		o.Version = job.Version
	}
	if c.form.Get("key") != "" {
		o.IdempotencyKey = "page/" + url.PathEscape(c.ID) + "/" + c.formID()
	}
	if text := strings.TrimSpace(c.form.Get("priority")); text != "" {
		n, err := strconv.ParseInt(text, 10, 16)
		if o.Priority = int16(n); err != nil {
			bad("priority", "it must be a whole number from -32768 to 32767")
		}
	}
	if text := strings.TrimSpace(c.form.Get("delay")); text != "" {
		d, err := time.ParseDuration(strings.ReplaceAll(text, " ", ""))
		if o.Delay = d; err != nil || d < 0 || d > maxDelay {
			bad("delay", "it must be a time such as 90s, 10m or 2h30m, and at most 100 years")
		}
	}
	for line := range strings.Lines(c.form.Get("labels")) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		switch name, value = strings.TrimSpace(name), strings.TrimSpace(value); {
		case !ok || name == "" || value == "":
			bad("labels", "each line must have the form name=value")
		case name == desk.LabelBy:
			bad("labels", "the service itself sets the label %s to who has started the execution: leave it out", desk.LabelBy)
		default:
			o.Labels[name] = value
		}
	}
	var wrong []courier.Problem
	if o.Params, wrong = c.runParams(flow.ReadParams(job.Params), dry); len(problems)+len(wrong) > 0 {
		return nil, &courier.ParamsError{Problems: append(wrong, problems...)}
	}
	return o, nil
}

// maxDelay is the longest delay that a form may name, as in the API.
const maxDelay = 100 * 366 * 24 * time.Hour

// runParams returns the parameters that were given. All that is wrong with them, also as the
// engine says, is told at once. For a dry run none is missing.
func (c *call) runParams(params *flow.Params, dry bool) (given map[string]any, problems []courier.Problem) {
	if params == nil {
		text := strings.TrimSpace(c.form.Get(allParams))
		if text == "" {
			return nil, nil
		}
		v, err := jsontext.Parse([]byte(text))
		given, ok := v.(map[string]any)
		if err != nil || !ok {
			return nil, []courier.Problem{{Step: -1, Field: allParams, Message: "it must be a JSON object, with names in double quotes"}}
		}
		return given, nil
	}
	given = make(map[string]any)
	unread := make(map[string]bool)
	for _, name := range params.Names() {
		d, _ := params.Get(name)
		v, is, err := paramValue(&d, c.typed(paramField+name), c.may(desk.Viewer))
		if err != nil {
			problems = append(problems, courier.Problem{Step: -1, Field: "params." + name, Message: err.Error()})
			unread[name] = true
		} else if is {
			given[name] = v
		}
	}
	_, wrong := params.Values(given, dry)
	for _, p := range wrong {
		if !unread[strings.TrimPrefix(p.Field, "params.")] {
			problems = append(problems, p)
		}
	}
	return given, problems
}

// paramValue returns what was typed for a parameter, and whether anything was. A default that
// was filled in, and then taken away, is an empty text.
func paramValue(d *courier.Param, text string, filled bool) (v any, given bool, err error) {
	def, isText := d.Default.(string)
	if strings.TrimSpace(text) == "" {
		if text == "" && filled && isText && def != "" && !d.Secret && len(d.Enum) == 0 && cmp.Or(d.Type, "text") == "text" {
			return "", true, nil
		}
		return text, text != "" && cmp.Or(d.Type, "text") == "text", nil
	}
	parsed, bad := jsontext.Parse([]byte(text))
	switch d.Type {
	case "text", "date", "instant":
		return text, true, nil
	case "list", "object":
		if bad != nil {
			return nil, false, fmt.Errorf("it is no JSON: write a list such as [1, 2], or an object such as {\"name\": \"value\"}")
		}
		return parsed, true, nil
	case "file":
		if bad == nil && strings.HasPrefix(strings.TrimSpace(text), "{") {
			return parsed, true, nil
		}
		return text, true, nil
	case "integer", "number", "boolean":
		if bad == nil {
			return parsed, true, nil
		}
		return text, true, nil // the engine says what it must be
	}
	switch {
	case isText:
		return text, true, nil
	case bad != nil && d.Default != nil:
		return nil, false, fmt.Errorf("it is no JSON: write text in double quotes, and lists and objects such as [1, 2] and {\"name\": \"value\"}")
	case bad != nil:
		return text, true, nil
	}
	return parsed, true, nil
}

// startJob starts the job with what the form says.
func startJob(ctx context.Context, c *call) (string, error) {
	job, err := c.jobToRun()
	if err != nil {
		return "", err
	}
	o, err := c.runOptions(&job, false)
	if err != nil {
		return "", err
	}
	x, err := c.h.e.Enqueue(ctx, job.Name, o)
	if err != nil {
		return "", err
	}
	return c.link("executions", string(x.ID)), nil
}

// tryJob finds out whether the job could run with what the form says.
func tryJob(_ context.Context, c *call) (string, error) {
	if err := c.needValues(); err != nil {
		return "", err
	}
	job, err := c.jobToRun()
	if err != nil {
		return "", err
	}
	o, err := c.runOptions(&job, true)
	if err != nil {
		return "", err
	}
	r, err := c.dryRun(job, o.Params)
	if err != nil {
		return "", err
	}
	c.found = r
	return "", nil
}
