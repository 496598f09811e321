package jsonschema_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/jsonschema"
)

// A kindCase says how the random definitions of a kind are drawn.
type kindCase struct {
	fields map[string]field
	needed []string
	choose [][]string // of each list, one field
	is     string     // the field that tells definitions of the kind from others
	target []string   // of these fields, the one that is called as the kind says
	unseen string
}

var chainCase = kindCase{
	fields: map[string]field{
		"name": ofURL, "description": ofText, "version": values(`3 | "x"`), "params": values(`{}; {"day": null}; {"day": {"type": "date", "required": true}} | []; {"day": {"type": "day"}}`),
		"members": values(`[{"job": "other"}]; [{"name": "a", "job": "other", "version": 1}, {"job": "more", "depends_on": ["a"], "priority": 5}];
			[{"name": "a", "job": "other"}, {"name": "b-2_x", "job": "other", "params": {"x": 1}, "depends_on": [{"member": "a", "run_on_failure": true, "required_status": "any"}]}]
			| []; [{}]; [{"job": ""}]; [{"name": "A", "job": "other"}]; [{"job": "other", "depends_on": [""]}]; [{"job": "other", "depends_on": [{}]}]; [{"job": "Other job"}];
			[{"job": "other", "version": -1}]; [{"job": "other", "priority": 40000}]; [{"name": "a", "job": "other"}, {"job": "other", "depends_on": [{"member": "a", "required_status": "x"}]}];
			[{"job": "other", "params": []}]; [{"name": "a", "job": "other", "dependson": []}]; {}; "other"; [{"job": "nobody"}]`),
	},
	needed: []string{"name", "members"},
	unseen: `there is no job "nobody"|there is no version`,
}

var scheduleCase = kindCase{
	fields: map[string]field{
		"name": ofName, "job": ofJob, "chain": ofChain, "cron": values(`"0 0 3 ? * TUE"; "0 0/15 8-17 * * ? 2030"; " 0 0 3  * * ? " | "0 3 * * *"; 5; "0 0 3 * * ? 2030 x"; "0 0 3 * * X"`),
		"time_zone": values(`"Europe/Berlin"; "UTC" | 5; "Nowhere"`), "every_seconds": values(`1; 3600; 1.5 | 0.5; -1; "60"; 1.0001`), "at": ofTime, "starts_at": ofTime, "ends_at": ofTime,
		"on_closed": values(`"skip" | "x"; 5`), "params": ofParams, "priority": ofPrio, "overlap": values(`"allow"; "skip"; "queue_one"; "cancel_running" | "x"; 5`), "misfire": values(`"fire_all"; "fire_all"; "skip"; "fire_once" | "x"; 5`),
		"window_seconds": ofSecs, "jitter_seconds": values(`0.5; 86400 | -1; 86401; "5"`), "pause_after": values(`0; 3 | -1; 1.5; "3"`), "disabled": ofBool,
		"reason": values(`"x" | 5`), "failures": values(`3 | "x"`),
	},
	needed: []string{"name"},
	choose: [][]string{{"job", "chain"}, {"cron", "every_seconds", "at"}},
	unseen: `there is no (job|chain) "nobody"|time zone|cron: |not less than every_seconds|whole milliseconds|is before starts_at|never fires`,
}

var monitorCase = kindCase{
	fields: map[string]field{
		"name": ofName, "description": ofText, "lister": ofText, "connection_id": ofText, "path": values(`"/in"; "in" | ""; 5`), "patterns": values(`["*.csv"]; [] | [""]; ["a/b"]; "x"; ["a\\b"]; [5]`),
		"events":        values(`["created"]; ["created", "modified", "exists"]; [] | ["x"]; ["created", "created"]; "created"`),
		"every_seconds": values(`60; 0.5; 86400 | -1; 86401; "60"`), "stable_seconds": ofSecs, "done_file": values(`".done"; "" | "*"; "a/b"; 5`), "batch": ofBool, "job": ofJob, "chain": ofChain,
		"params": values(`{}; {"x": 1} | []; {"files": 1}; {"monitor": 1}`), "priority": ofPrio, "max_failures": values(`0; 3 | -1; 1.5; "3"`), "disabled": ofBool,
		"state": values(`"active" | 5`), "health": values(`{} | 5`),
	},
	needed: []string{"name", "path"},
	is:     "path",
	choose: [][]string{{"job", "chain"}},
	unseen: `there is no (job|chain) "nobody"`,
}

var subscriptionCase = kindCase{
	fields: map[string]field{
		"name": ofName, "events": values(`["JobFailed"]; ["JobCompleted", "StepEvent", "ChainFailed"] | []; ["x"]; ["JobFailed", "JobFailed"]; ["StepProgress"]; "JobFailed"`),
		"jobs": values(`["other"]; ["other", "more"] | ["other", "other"]; "other"; [5]; ["nobody"]`), "chains": values(`["chain"] | ["chain", "chain"]; ["nobody"]; 5`),
		"kind": values(`"func"; "webhook"; "job"; "email" | "x"; 5`), "func": values(`"f" | 5`), "window_seconds": ofSecs, "disabled": ofBool,
		"webhook": values(`{"url": "https://a.example/x", "secrets": ["secret:s"]}; {"url": "secret:u", "secrets": ["secret:s", "secret:t"], "headers": {"X-A": "b"}}
			| {}; {"url": "ftp://a", "secrets": ["secret:s"]}; {"url": "https://a.example", "secrets": []}; {"url": "https://a.example", "secrets": ["x"]}; {"uri": "x"}; 5;
			{"url": "https://a.example", "secrets": ["secret:s"], "headers": {"X-A": 5}}`),
		"job":   values(`{"name": "more"}; {"name": "more", "params": {"x": 1}, "priority": 3} | {}; {"name": ""}; {"name": "more", "params": {"event": 1}}; {"name": "nobody"}; {"nmae": "x"}; "more"`),
		"email": values(`{"to": ["ops@example.com"]}; {"to": ["Operations <ops@example.com>"], "subject": "Courier"} | {}; {"to": []}; {"to": "x"}; {"to": ["x"]}; {"to": ["a@b.example"], "subject": "a\nb"}`),
	},
	needed: []string{"name", "kind", "events"},
	target: []string{"func", "webhook", "job", "email"},
	unseen: `there is no (job|chain) "nobody"|it is not an address|would start|no receiver`,
}

var calendarCase = kindCase{
	fields: map[string]field{
		"name": ofName, "description": ofText, "time_zone": values(`"Europe/Berlin"; "UTC" | 5; "Nowhere"`),
		"weekend": values(`["saturday", "sunday"]; []; ["friday"] | ["Saturday"]; ["saturday", "saturday"]; "saturday"; [5]`),
		"closed": values(`["2026-12-25", {"yearly": "05-01", "title": "Labour Day"}]; [{"date": "2026-12-24", "title": "x"}]; [{"yearly": "02-29"}]; []
			| ["2026-1-1"]; [{"yearly": "13-01"}]; [{}]; [{"title": "x"}]; [{"date": "2026-12-24", "yearly": "12-24"}]; [{"datum": "2026-12-24"}]; [5]; "2026-12-25"; ["1812-01-01"]; [{"yearly": "5-1"}]`),
		"open": values(`["2026-11-28"]; [] | ["28.11.2026"]; "2026-11-28"; [5]; ["2300-01-01"]`), "version": values(`3 | "x"`), "saved_by": values(`"x" | 5`),
	},
	needed: []string{"name"},
	is:     "weekend",
	unseen: `time zone|is in closed too|no date such as`,
}

var expectationCase = kindCase{
	fields: map[string]field{
		"name": ofName, "description": ofText, "from": values(`{"job": "other"} | {"monitor": "nobody"}; {}; {"job": "other", "monitor": "x"}; {"jbo": "other"}; "other"`),
		"pattern": values(`"PAY_*.csv"; "rates{date:20060102}?" | ""; "a/b"; "abc{day}"; "*"; 5`), "count": values(`{"least": 1, "most": 2}; {} | {"least": -1}; {"least": 3, "most": 2}; {"min": 1}; 2`),
		"bytes": values(`{"least": 0}; {"least": 1024, "most": 4096}; {} | {"least": -1}; {"most": "1"}; {"least": 1.5}; 5`),
		"window": values(`{"from": "06:00", "until": "07:50", "grace": "20m"}; {"from": "22:00", "until": "2:00"} | {"from": "06:00"}; {"from": "6", "until": "07:00"};
			{"from": "06:00", "until": "24:00"}; {"from": "06:00", "until": "06:00"}; {"from": "06:00", "until": "07:00", "grace": "20"}; {"from": "06:00", "until": "05:00", "grace": "5h"}; "06:00"; {"to": "07:00"}`),
		"calendar": values(`5; "nobody"`), "cron": values(`"0 0 0 ? * MON" | "each monday"; 5`), "time_zone": values(`"Europe/Berlin"; "UTC" | 5; "Nowhere"`),
		"due_soon": values(`"30m"; "1h30m" | "30"; 5; "-1m"; "20h"`), "early": values(`"2h"; "0" | "x"; 7; "25h"`), "label": values(`{"partner": "globex"}; {} | {"a": 5}; "x"`), "disabled": ofBool,
		"health": values(`{} | 5`),
	},
	needed: []string{"name", "from", "pattern", "window"},
	is:     "pattern",
	unseen: `there is no|overlaps|longer than the window|is from too|no day of a year|less than the least|begins with a wildcard|which is not a day|time zone|between 0 and|not a duration|cron`,
}

var kindCases = map[string]kindCase{"chain": chainCase, "schedule": scheduleCase, "monitor": monitorCase, "subscription": subscriptionCase, "calendar": calendarCase, "expectation": expectationCase}

// draw draws a definition of a kind.
func (d *drawer) draw(k kindCase) map[string]any {
	needed := k.needed
	own := make(map[string]field)
	for name, f := range k.fields {
		own[name] = f
	}
	for _, list := range k.choose {
		if d.Float64() < d.bad {
			continue
		}
		chosen := list[d.IntN(len(list))]
		for _, name := range list {
			if name != chosen {
				delete(own, name)
			}
		}
		needed = append(needed[:len(needed):len(needed)], chosen)
	}
	o := d.object(own, 0.15, needed...)
	if k.is != "" && o[k.is] == nil {
		o[k.is] = d.of(own[k.is])
	}
	kind, _ := o["kind"].(json.RawMessage)
	for _, name := range k.target {
		if d.Float64() < d.bad {
			continue
		}
		if delete(o, name); string(kind) == `"`+name+`"` {
			o[name] = d.of(own[name])
		}
	}
	return o
}

// TestRandomKinds compares the verdicts on 300 valid definitions of each kind that is no
// job, and on as many others.
func TestRandomKinds(t *testing.T) {
	for kind, k := range kindCases {
		t.Run(kind, func(t *testing.T) {
			c := &comparison{validator: newValidator(t, schemas()[kind]), r: registry(), unseen: regexp.MustCompile(k.unseen)}
			d := &drawer{Rand: rand.New(rand.NewPCG(*seed, 1))}
			for n := raced.Or(50, 300); c.accepted < n || c.refused < n; {
				if d.bad = 0; c.accepted > raced.Or(50, 300) || d.IntN(2) == 0 {
					d.bad = 0.15
				}
				c.compare(d.draw(k))
				if t.Failed() {
					return
				}
			}
			t.Logf("accepted %d; refused by both %d, by Check alone %d", c.accepted, c.refused, c.missed)
		})
	}
}

// paramValues are values that fit some type of parameter.
var paramValues = []any{
	"x", "", "acme", "2026-11-23", "2026-02-30", "2026-11-23T07:30:00+01:00", "/srv/in/a.csv", `C:\in\a.csv`, `\\host\share\a`, "/srv/in/", "in/a.csv", "secret:x", "AB123456",
	json.Number("5"), json.Number("5.0"), json.Number("-7"), json.Number("2.5"), true, false, []any{}, []any{"a", json.Number("1")}, map[string]any{},
	map[string]any{"path": "/srv/a"}, map[string]any{"name": "a.csv", "size": json.Number("10")}, map[string]any{"path": "a"}, map[string]any{"name": "a/b"}, map[string]any{"size": json.Number("1")},
	map[string]any{"name": "a", "sha256": strings.Repeat("aB", 32)}, map[string]any{"name": "a", "sha256": "x"}, map[string]any{"name": "..", "x": true},
}

// declaration draws the declaration of a parameter.
func (d *drawer) declaration() map[string]any {
	types := []string{"text", "integer", "number", "boolean", "date", "instant", "list", "object", "file"}
	value := func() any { return paramValues[d.IntN(len(paramValues))] }
	p := map[string]any{"type": types[d.IntN(len(types))]}
	if d.IntN(40) == 0 {
		p["type"] = "string"
	}
	keys := map[string]func() any{
		"required": func() any { return d.IntN(5) > 0 }, "default": value, "doc": func() any { return "for people" }, "enum": func() any { return []any{value()} },
		"pattern": func() any { return []string{"[A-Z]{2}[0-9]{6}", "a|b", `(?i)acme`, `\d+`, "("}[d.IntN(5)] }, "secret": func() any { return true },
		"min": value, "max": value, "min_length": func() any { return json.Number("2") }, "max_length": func() any { return []json.Number{"3", "-1"}[d.IntN(2)] }, "unknwon": value,
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if d.IntN(10) == 0 {
			p[key] = keys[key]()
		}
	}
	return p
}

// unseenOfParams are the problems of declarations that a schema can't see.
var unseenOfParams = regexp.MustCompile(`missing closing|is above max|is not one of the possible|must be at (least|most)|must have at|does not match|names a directory|digits alone|must be the name of a secret`)

// TestRandomParams compares the verdicts on declarations of parameters, and on values for
// those that are sound.
func TestRandomParams(t *testing.T) {
	jobs := newValidator(t, schemas()["job"])
	d := &drawer{Rand: rand.New(rand.NewPCG(*seed, 2))}
	sound, unsound, fit, unfit := 0, 0, 0, 0
	for range raced.Or(300, 4000) {
		declared := map[string]any{"p": d.declaration()}
		text, _ := jsontext.Append(nil, map[string]any{"name": "x", "params": declared, "steps": []any{map[string]any{"type": "flow.end"}}})
		wrong := jobs.check(string(text))
		params := flow.ReadParams(declared)
		problems, _ := params.Problems()
		if len(problems) > 0 {
			unsound++
			if wrong == nil && !unseenOfParams.MatchString(problems[0].Message) {
				t.Errorf("the schema does not see: %v\n%s", problems, text)
			}
			continue
		}
		if sound++; wrong != nil {
			t.Errorf("the schema refuses %s\n%s", wrong, text)
		}
		v := newValidator(t, jsonschema.Params(courier.Job{Params: declared}))
		for _, x := range paramValues {
			given := map[string]any{"p": x}
			text, _ := jsontext.Append(nil, given)
			_, problems := params.Values(given, false)
			wrong := v.check(string(text))
			if len(problems) == 0 {
				fit++
			} else {
				unfit++
			}
			if seen := wrong != nil; seen != (len(problems) > 0) && (seen || !unseenOfValues.MatchString(problems[0].Message)) {
				t.Fatalf("%s for %v: the schema says %v, Values %v", text, declared, wrong, problems)
			}
		}
		if given, _ := params.Get("p"); (v.check(`{}`) != nil) != given.Required || v.check(`{"q": 1}`) == nil {
			t.Errorf("%v: required and unknown parameters", declared)
		}
	}
	t.Logf("%d declarations are sound, %d are not; %d values fit, %d do not", sound, unsound, fit, unfit)
	if v := newValidator(t, jsonschema.Params(courier.Job{})); v.check(`{"any": 1}`) != nil {
		t.Error("a job without declarations takes any parameter")
	}
}

// unseenOfValues are the problems of values that the schema of a job's parameters can't
// see.
var unseenOfValues = regexp.MustCompile(`digits alone|must be at (least|most) "|not one of the possible values; known are|does not match|must be the name of a secret`)
