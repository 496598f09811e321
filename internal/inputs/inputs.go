// Package inputs has the rules for what executions of jobs and of chains are started with:
// parameters, labels and the trace context.
package inputs

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/store"
)

// Bounds of labels.
const (
	maxLabels     = 16
	maxLabelValue = 200 // characters
)

var (
	labelName   = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
	traceParent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.{0,200})?$`)
)

// Params returns the JSON object of the parameters of an execution: the declared
// ones, and in their place those that are given. It may have maxParams bytes. If partial
// is true, more are given later.
func Params(declared *flow.Params, given map[string]any, partial bool, maxParams int) (json.RawMessage, error) {
	values, problems := declared.Values(given, partial)
	if len(problems) > 0 {
		return nil, &courier.ParamsError{Problems: problems}
	}
	return Encode(values, maxParams)
}

// Encode returns parameters as the JSON object that is stored, nil if there are none. It may
// have maxParams bytes.
func Encode(values map[string]any, maxParams int) (json.RawMessage, error) {
	if len(values) == 0 {
		return nil, nil
	}
	raw, err := jsontext.Append(nil, values)
	if err != nil {
		return nil, courier.Errorf(courier.ErrInvalid, "params: %w", err)
	}
	if len(raw) > maxParams {
		return nil, fmt.Errorf("params: they have %d bytes, more than the %d of engine.Options.MaxParams; put them into a file and give its path, or raise the limit: %w",
			len(raw), maxParams, courier.ErrInvalid)
	}
	return raw, nil
}

// RerunParams returns the parameters of a new execution that repeats a former one: those of
// the former one, of which replace replaces single ones.
func RerunParams(former json.RawMessage, replace map[string]any) map[string]any {
	params := jsontext.Object(former)
	maps.Copy(params, replace)
	if len(params) == 0 {
		return nil
	}
	return params
}

// RerunLabels is [RerunParams] for labels. [courier.LabelBy] is never copied: the new execution
// is that of who has asked for it.
func RerunLabels(former, replace map[string]string) map[string]string {
	labels := make(map[string]string)
	maps.Copy(labels, former)
	delete(labels, courier.LabelBy)
	maps.Copy(labels, replace)
	return labels
}

// CheckLabels returns what is wrong with the labels and the trace context of an execution;
// the errors match [courier.ErrInvalid].
func CheckLabels(labels map[string]string, trace string) error {
	return errors.Join(checkLabels(labels), checkTrace(trace))
}

// checkLabels returns all that is wrong with labels, as one error that matches
// [courier.ErrInvalid].
func checkLabels(labels map[string]string) error {
	var wrong []string
	n := len(labels)
	if _, ok := labels[courier.LabelBy]; ok {
		n--
	}
	if n > maxLabels {
		wrong = append(wrong, fmt.Sprintf("labels: there are %d, more than %d", n, maxLabels))
	}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		value, problem := labels[name], ""
		switch {
		case name == store.TrailFile:
			problem = "the name is reserved for the names of files; take another one"
		case !labelName.MatchString(name):
			problem = "the name must begin with a small letter, and have up to 63 small letters, digits, \"_\" and \"-\""
		case value == "":
			problem = "the value is empty; leave the label out"
		case !jsontext.Storable(value):
			problem = "the value contains a NUL character or text that is not valid UTF-8"
		case utf8.RuneCountInString(value) > maxLabelValue:
			problem = fmt.Sprintf("the value has %d characters, more than %d", utf8.RuneCountInString(value), maxLabelValue)
		default:
			continue
		}
		if wrong = append(wrong, fmt.Sprintf("label %q: %s", name[:min(len(name), 80)], problem)); len(wrong) > maxLabels {
			break
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return courier.Errorf(courier.ErrInvalid, "%s", text.Lines(wrong))
}

// checkTrace refuses a trace context that is none.
func checkTrace(trace string) error {
	if trace == "" || traceParent.MatchString(trace) {
		return nil
	}
	return courier.Errorf(courier.ErrInvalid, "trace: it must have the form of the header traceparent, such as 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
}
