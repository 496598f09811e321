package definition

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/jsontext"
)

// A Fact is a property of a job in words.
type Fact struct{ Name, Text string }

// A Param is a parameter in words.
type Param struct {
	Name, Type, Rules, Default, Doc string
	HasDefault                      bool
}

// Facts returns the properties of a job, except its steps.
func Facts(job *courier.Job) (facts []Fact) {
	add := func(name, text string) {
		if text != "" {
			facts = append(facts, Fact{name, text})
		}
	}
	add("Queue", cmp.Or(job.Queue, courier.DefaultQueue))
	if job.Limit > 0 {
		add("Limit", format.Plural(job.Limit, "execution")+" at once")
	}
	for _, key := range job.LimitKeys {
		add("Limit key", key)
	}
	add("Failure", cmp.Or(policyText(job.FailurePolicy), "A failure stops the execution"))
	if job.Timeout > 0 {
		add("Timeout", format.Span(job.Timeout)+" for the whole execution")
	}
	if job.MaxDuration > 0 {
		add("Overdue after", format.Span(job.MaxDuration))
	}
	add("Expected by", job.ExpectedBy)
	add("Result", job.Result)
	for _, o := range job.Outputs {
		add("Kept file", o.From+" as "+o.To)
	}
	return facts
}

// Params returns the parameters that a job or a chain declares.
func Params(declared map[string]any) (list []Param) {
	params := flow.ReadParams(declared)
	if params == nil {
		return nil
	}
	for _, name := range params.Names() {
		p, _ := params.Get(name)
		f := Param{Name: name, Type: cmp.Or(p.Type, "any"), Rules: ParamRules(&p), Doc: p.Doc}
		if f.HasDefault = p.Default != nil; f.HasDefault {
			f.Default = jsontext.Text(p.Default)
		}
		list = append(list, f)
	}
	return list
}

// ParamRules returns the rules for a value of a parameter, in words.
func ParamRules(p *courier.Param) string {
	var rules []string
	if p.Required {
		rules = append(rules, "required")
	}
	if p.Secret {
		rules = append(rules, "the name of a secret")
	}
	if len(p.Enum) > 0 {
		rules = append(rules, "one of "+strings.Join(texts(p.Enum), ", "))
	}
	if p.Pattern != "" {
		rules = append(rules, "matches "+p.Pattern)
	}
	if p.Min != nil {
		rules = append(rules, "at least "+jsontext.Text(p.Min))
	}
	if p.Max != nil {
		rules = append(rules, "at most "+jsontext.Text(p.Max))
	}
	what := "characters"
	if p.Type == "list" {
		what = "items"
	}
	if p.MinLength > 0 {
		rules = append(rules, fmt.Sprintf("at least %d %s", p.MinLength, what))
	}
	if p.MaxLength > 0 {
		rules = append(rules, fmt.Sprintf("at most %d %s", p.MaxLength, what))
	}
	return strings.Join(rules, "; ")
}

// texts returns the values in the form for people; see [Value].
func texts(values []any) []string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = jsontext.Text(v)
	}
	return list
}

// Value returns a value of a definition for people: a text as it is, and other values as JSON.
func Value(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	raw, err := jsontext.AppendAny(nil, v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return format.BreakJSON(raw)
}

// policyText returns a failure policy in words. It is empty for the zero policy.
func policyText(p courier.FailurePolicy) string {
	if p.IsZero() {
		return ""
	}
	text := ""
	switch p.Type {
	case courier.RetryStep, courier.RetryJob:
		what := "the step"
		if p.Type == courier.RetryJob {
			what = "the whole job"
		}
		text = "A failure retries " + what + ", at most " + strconv.Itoa(p.Retries()) + " times"
		base, most := time.Second, time.Minute
		if p.BackoffBase != nil {
			base = *p.BackoffBase
		}
		if p.BackoffMax != nil {
			most = *p.BackoffMax
		}
		text += ", after " + format.Span(base) + " at first and at most " + format.Span(most)
		switch p.Jitter {
		case courier.JitterNone:
			text += ", without jitter"
		case courier.JitterFull, courier.JitterAdded:
			text += ", with " + string(p.Jitter) + " jitter"
		}
	case courier.SkipAndContinue:
		text = "A failure skips the step"
	default:
		text = "A failure stops the execution"
	}
	if len(p.RetryOn) > 0 {
		text += "; only for " + reasonList(p.RetryOn)
	}
	if len(p.NoRetryOn) > 0 {
		text += "; not for " + reasonList(p.NoRetryOn)
	}
	return text
}

func reasonList(list []courier.Reason) string {
	words := make([]string, len(list))
	for i, r := range list {
		words[i] = string(r)
	}
	return strings.Join(words, ", ")
}
