package filter

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestParse(t *testing.T) {
	for text, want := range map[string]Filter{
		"":                                    {},
		"  ":                                  {},
		"state:failed":                        {States: []string{"failed"}},
		"state:lost,paused state:lost":        {States: []string{"lost", "paused"}},
		"job:daily-* job:a":                   {Jobs: []string{"a"}, JobPrefixes: []string{"daily-"}},
		`job:"ab*"`:                           {Jobs: []string{"ab*"}},
		`job:ab"*" "job":"a*b"`:               {Jobs: []string{"a*b", "ab*"}},
		`job:"ab*"*`:                          {JobPrefixes: []string{"ab*"}},
		"job:*":                               {JobPrefixes: []string{""}},
		`label:"a=b"=c label:d="*,="`:         {Labels: map[string]string{"a=b": "c", "d": "*,="}},
		`queue:"q*" by:* chain:a,b`:           {Queue: "q*", By: "*", Chain: "a,b"},
		`job:"two words" queue:"a\"b\\c"`:     {Jobs: []string{"two words"}, Queue: `a"b\c`},
		`queue:a\b`:                           {Queue: `a\b`},
		"job:a:b":                             {Jobs: []string{"a:b"}},
		"label:partner=acme label:key=a=b":    {Labels: map[string]string{"partner": "acme", "key": "a=b"}},
		`label:partner="Acme Ltd"`:            {Labels: map[string]string{"partner": "Acme Ltd"}},
		"by:ann\tchain:daily\nreason:timeout": {By: "ann", Chain: "daily", Reasons: []courier.Reason{courier.ReasonTimeout}},
		`connection:"the bank" state:failed`:  {Connection: "the bank", States: []string{"failed"}},
		"since:24h until:30m":                 {Since: noon.Add(-24 * time.Hour), Until: noon.Add(-30 * time.Minute)},
		"since:7d":                            {Since: noon.Add(-7 * 24 * time.Hour)},
		"since:2026-11-19":                    {Since: time.Date(2026, 11, 19, 0, 0, 0, 0, time.UTC)},
		"since:2026-11-20T09:30:00.5+01:00":   {Since: time.Date(2026, 11, 20, 8, 30, 0, 5e8, time.UTC)},
		"finally:failed state:completed":      {FinallyFailed: true, States: []string{"completed"}},
		"ended:24h state:failed":              {Ended: noon.Add(-24 * time.Hour), States: []string{"failed"}},
	} {
		got, err := Parse(text, noon)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if again, err := Parse(got.String(), noon); err != nil || !reflect.DeepEqual(again, want) {
			t.Errorf("%q as %q: %+v, %v", text, got, again, err)
		}
	}
}

// TestParseMistakes has all that is wrong reported at once, with the nearest names
// and the grammar.
func TestParseMistakes(t *testing.T) {
	for text, want := range map[string][]string{
		"stat:failed":                {`stat: there is no such condition; did you mean "state"?`},
		"state:faild":                {`there is no state faild; did you mean "failed"?`},
		"state:":                     {"state: give a value"},
		"reason:timout":              {`did you mean "timeout"?`},
		"invoices":                   {"invoices is not a condition; for a job write job:invoices"},
		"job:a*b":                    {`an asterisk can stand at the end only; for the job of that name write job:"a*b"`},
		`"ab*"`:                      {`"ab*" is not a condition; for a job write job:"ab*"`},
		"ab*":                        {"ab* is not a condition; for a job write job:ab*"},
		`"job:a"`:                    {`"job:a" is not a condition`},
		`state:"failed,lost"`:        {`there is no state "failed,lost"`},
		"label:partner":              {"write label:NAME=VALUE"},
		"label:a=b label:a=c":        {"a can't be b and c at once"},
		"queue:a queue:b":            {"queue is given twice"},
		"finally:completed":          {"finally: completed: write finally:failed"},
		"since:tomorrow":             {"since: tomorrow is neither a duration"},
		"since:-1h":                  {"lies in the future"},
		"until:2026-11-21":           {"lies in the future"},
		"since:1969-01-01":           {"lies before 1970"},
		"since:99999999999999d":      {"neither a duration"},
		"since:1h until:2h":          {"since is not before until"},
		"ended:1h state:completed":   {"ended goes with failed and cancelled executions, and not with state:completed"},
		`job:"a`:                     {"a quote is not closed"},
		"by:a\x00b":                  {"control characters"},
		"job:" + long:                {"1 to 300 characters"},
		"stat:x state:y since:z a b": {"stat: there is no such", "no state y", "since: z is neither", "a is not a condition", "b is not a condition"},
	} {
		got, err := Parse(text, noon)
		wrong, ok := errors.AsType[*Error](err)
		if !ok || !errors.Is(err, courier.ErrInvalid) || len(wrong.Problems) != len(want) || !reflect.DeepEqual(got, Filter{}) {
			t.Errorf("%.50q: %v", text, err)
			continue
		}
		for _, part := range append(want, Grammar) {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%.50q: %v\nwithout %q", text, err, part)
			}
		}
	}
}

var long = strings.Repeat("a", 301)

func TestParseQuery(t *testing.T) {
	q, err := url.ParseQuery("state=failed&state=paused&job=two+words&label=a%3Db&since=1h")
	if err != nil {
		t.Fatal(err)
	}
	want := Filter{States: []string{"failed", "paused"}, Jobs: []string{"two words"}, Labels: map[string]string{"a": "b"}, Since: noon.Add(-time.Hour)}
	if got, err := ParseQuery(q, noon); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	// Quotes mean what they do in a text.
	q = url.Values{"job": {"ab*", `"ab*"`, `"two words*"*`, `a"b`}, "label": {`"a=b"=c`, `d="x"`}, "queue": {`"q"`}}
	want = Filter{Jobs: []string{`a"b`, "ab*"}, JobPrefixes: []string{"ab", "two words*"}, Labels: map[string]string{"a=b": "c", "d": `"x"`}, Queue: "q"}
	if got, err := ParseQuery(q, noon); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := ParseQuery(url.Values{"job": {`"ab`}}, noon); err == nil || !strings.Contains(err.Error(), "a quote is not closed") {
		t.Errorf("an open quote: %v", err)
	}
	q = url.Values{}
	q.Set("limit", "5")
	if _, err := ParseQuery(q, noon); !errors.Is(err, courier.ErrInvalid) {
		t.Errorf("with a parameter that is none: %v", err)
	}
}

// FuzzParse checks that any text is either refused with the grammar, or means the
// same as the text that is written for it.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", "state:failed,paused job:a* queue:q", `job:"a \"b\" \\c" by:x`, "label:a=b since:24h until:1m", "ended:7d", "since:2026-11-19T00:00:00+14:00",
		`job:"`, "a:b:c", "reason:timeout,timeout", "label:=", "since:106751d", "\u00a0state:lost\u2028", `queue:a"b c"d`,
		`job:"ab*" job:"a*"* job:* label:"a=b"=c`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w, err := Parse(text, noon)
		if err != nil {
			if wrong, ok := errors.AsType[*Error](err); !ok || len(wrong.Problems) == 0 {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		again, err := Parse(w.String(), noon)
		if err != nil || !reflect.DeepEqual(w, again) {
			t.Fatalf("%q is %+v; as %q it is %+v, %v", text, w, w.String(), again, err)
		}
	})
}

// TestReasons checks that a filter knows every class of errors.
func TestReasons(t *testing.T) {
	for _, c := range courier.ErrorClasses() {
		if _, err := Parse("reason:"+string(c), time.Now()); err != nil {
			t.Error(err)
		}
	}
}

// TestFiltersAreBounded checks that a filter of any length costs little: what is wrong with it is looked at so often, and it
// has so many conditions.
func TestFiltersAreBounded(t *testing.T) {
	for name, text := range map[string]string{
		"patterns": strings.Repeat("job:a* ", 70_000), "states": strings.Repeat("state:faild,runing,a,b,c,d ", 30_000), "words": strings.Repeat("x ", 300_000),
		"names": strings.Repeat("jop:a ", 100_000),
	} {
		var err error
		allocations := testing.AllocsPerRun(1, func() { _, err = Parse(text, time.Now()) })
		wrong, ok := errors.AsType[*Error](err)
		if !ok || len(wrong.Problems) > maxWrong+2 || allocations > 20_000 {
			t.Errorf("%s: %.0f allocations, %s", name, allocations, fmt.Sprintf("%.300v", err))
		}
	}
}
