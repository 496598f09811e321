package form_test

import (
	"net/url"
	"slices"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/form"
)

// fields are one of each kind.
var fields = []form.Field{
	{Name: "name", Kind: form.Text, Once: true}, {Name: "every", Kind: form.Number}, {Name: "patterns", Kind: form.List}, {Name: "params", Kind: form.JSON},
	{Name: "disabled", Kind: form.Check}, {Name: "webhook.url", Kind: form.Text}, {Name: "job", Kind: form.Text, Jobs: true},
}

// TestRead: what was sent becomes the JSON of the definition. Fields that the form does not have stay
// as they are, and what is empty is taken away, with the object around it.
func TestRead(t *testing.T) {
	const before = `{"name":"a","every":12345678901234567890,"other":[1],"webhook":{"url":"https://a","secret":"s"},"disabled":true}`
	for name, c := range map[string]struct {
		sent url.Values
		new  bool
		want string
	}{
		"nothing":        {url.Values{}, false, `{"name":"a","other":[1],"webhook":{"secret":"s"}}`},
		"a new one":      {url.Values{"f.name": {"b"}}, true, `{"name":"b","other":[1],"webhook":{"secret":"s"}}`},
		"once":           {url.Values{"f.name": {"b"}, "f.every": {" 1.50 "}}, false, `{"every":1.50,"name":"a","other":[1],"webhook":{"secret":"s"}}`},
		"no number":      {url.Values{"f.every": {"1m"}}, false, `{"every":"1m","name":"a","other":[1],"webhook":{"secret":"s"}}`}, // the check of the definition says it
		"digits":         {url.Values{"f.every": {"12345678901234567891"}}, false, `{"every":12345678901234567891,"name":"a","other":[1],"webhook":{"secret":"s"}}`},
		"lines":          {url.Values{"f.patterns": {" *.csv\r\n\r\n b \n"}}, false, `{"name":"a","other":[1],"patterns":["*.csv","b"],"webhook":{"secret":"s"}}`},
		"JSON":           {url.Values{"f.params": {`{"n": 12345678901234567890}`}}, false, `{"name":"a","other":[1],"params":{"n":12345678901234567890},"webhook":{"secret":"s"}}`},
		"checked":        {url.Values{"f.disabled": {"on"}, "f.webhook.url": {"https://b"}}, false, `{"disabled":true,"name":"a","other":[1],"webhook":{"secret":"s","url":"https://b"}}`},
		"unknown fields": {url.Values{"f.other": {"x"}, "name": {"x"}, "f.job": {"<script>"}}, false, `{"job":"\u003cscript\u003e","name":"a","other":[1],"webhook":{"secret":"s"}}`},
	} {
		text, problems := form.Read(fields, []byte(before), c.sent, c.new)
		if string(text) != c.want || problems != nil {
			t.Errorf("%s: %s, %v", name, text, problems)
		}
	}
	if text, _ := form.Read(fields, []byte(`{"webhook":{"url":"https://a"}}`), url.Values{}, false); string(text) != `{}` {
		t.Errorf("an object that is empty stays: %s", text)
	}
	for _, bad := range []string{`{"a"`, `{} {}`, `a`} {
		if _, problems := form.Read(fields, nil, url.Values{"f.params": {bad}}, true); len(problems) != 1 || problems[0].Field != "params" {
			t.Errorf("%s: %v", bad, problems)
		}
	}
}

// TestInputs: fields have the values of the definition, or else all that was sent, with the problems
// that belong to them. Reading what is shown gives the definition again.
func TestInputs(t *testing.T) {
	const definition = `{"name":"a","every":12345678901234567890,"patterns":["*.csv","b"],"params":{"n":1},"disabled":true,"webhook":{"url":"https://a"}}`
	list, rest := form.Inputs(fields, []byte(definition), nil, nil, true)
	sent := url.Values{}
	for _, v := range list {
		sent.Set("f."+v.Name, v.Value)
	}
	if text, problems := form.Read(fields, nil, sent, true); len(rest)+len(problems) > 0 || string(text) != `{"disabled":true,"every":12345678901234567890,"name":"a","params":{"n":1},"patterns":["*.csv","b"],"webhook":{"url":"https://a"}}` {
		t.Errorf("%s, %v", text, problems)
	}
	if list[6].List != "jobs" || list[5].List != "" {
		t.Errorf("jobs are suggested for %+v", list)
	}
	problems := []courier.Problem{
		{Field: "patterns[1]", Message: "has a slash"}, {Field: "name", Message: "is taken"}, {Field: "webhook.url", Message: "is no URL"}, {Field: "webhook", Message: "is missing"}, {Field: "everything", Message: "is odd"}, {Field: "params.n.m", Message: "x"},
	}
	list, rest = form.Inputs(fields, []byte(definition), url.Values{"f.every": {"soon"}}, problems, false)
	if slices.ContainsFunc(list, func(v form.Input) bool { return v.Name == "name" }) || list[0].Value != "soon" || list[1].Value != "" {
		t.Errorf("%+v", list)
	}
	if !slices.Equal(list[1].Problems, []string{"Patterns[1]: has a slash."}) || !slices.Equal(list[4].Problems, []string{"Is no URL."}) || len(list[2].Problems) != 1 || len(list[0].Problems) > 0 {
		t.Errorf("%+v", list)
	}
	if len(rest) != 3 || rest[0].Field != "name" || rest[1].Field != "webhook" || rest[2].Field != "everything" || len(problems) != 6 || problems[5].Field != "params.n.m" {
		t.Errorf("the rest is %v of %v", rest, problems)
	}
}
