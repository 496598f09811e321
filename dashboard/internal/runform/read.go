package runform

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/jsontext"
)

// Read reads a form that was sent. If the form is invalid, the error is a *[courier.ParamsError]
// whose problems name the fields. Filled says that the form had the defaults of parameters. In a
// dry run no parameter is missing. The caller sets Version, By, IdempotencyKey, and the label with
// the person who starts the execution; Labels is never nil.
func Read(params *flow.Params, sent url.Values, filled, dry bool) (*courier.EnqueueOptions, error) {
	var problems []courier.Problem
	bad := func(field, format string, args ...any) {
		problems = append(problems, courier.Problem{Step: -1, Field: field, Message: fmt.Sprintf(format, args...)})
	}
	o := &courier.EnqueueOptions{Hold: sent.Has("hold"), Labels: make(map[string]string)}
	if text := strings.TrimSpace(sent.Get("priority")); text != "" {
		n, err := strconv.ParseInt(text, 10, 16)
		if o.Priority = int16(n); err != nil {
			bad("priority", "it must be a whole number from -32768 to 32767")
		}
	}
	if text := strings.TrimSpace(sent.Get("delay")); text != "" {
		d, err := time.ParseDuration(strings.ReplaceAll(text, " ", ""))
		if o.Delay = d; err != nil || d < 0 || d > maxDelay {
			bad("delay", "it must be a time such as 90s, 10m or 2h30m, and at most 100 years")
		}
	}
	for line := range strings.Lines(sent.Get("labels")) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		switch name, value = strings.TrimSpace(name), strings.TrimSpace(value); {
		case !ok || name == "" || value == "":
			bad("labels", "each line must have the form name=value")
		case name == courier.LabelBy:
			bad("labels", "the service itself sets the label %s to the name of the person who starts the execution: leave it out", courier.LabelBy)
		default:
			o.Labels[name] = value
		}
	}
	var wrong []courier.Problem
	if o.Params, wrong = readParams(params, sent, filled, dry); len(problems)+len(wrong) > 0 {
		return nil, &courier.ParamsError{Problems: append(wrong, problems...)}
	}
	return o, nil
}

// maxDelay is the longest delay in a form, as in the API.
const maxDelay = 100 * 366 * 24 * time.Hour

// readParams returns the parameters that were given. The error has all problems with them,
// including those that the engine would find.
func readParams(params *flow.Params, sent url.Values, filled, dry bool) (given map[string]any, problems []courier.Problem) {
	if params == nil {
		text := strings.TrimSpace(sent.Get(allParams))
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
		v, is, err := paramValue(&d, typed(sent, paramPrefix+name), filled)
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

// paramValue returns the value for a parameter, and whether one was given. If a default was filled
// in and then deleted, the value is an empty text.
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
			return nil, false, fmt.Errorf("it is not JSON: write a list such as [1, 2], or an object such as {\"name\": \"value\"}")
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
		return text, true, nil // the engine reports what it must be
	}
	switch {
	case isText:
		return text, true, nil
	case bad != nil && d.Default != nil:
		return nil, false, fmt.Errorf("it is not JSON: write text in double quotes, and lists and objects such as [1, 2] and {\"name\": \"value\"}")
	case bad != nil:
		return text, true, nil
	}
	return parsed, true, nil
}
