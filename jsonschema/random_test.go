package jsonschema_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/raced"
)

var seed = flag.Uint64("seed", 1, "of the random definitions")

// A field has values that are right at least where nothing else says otherwise, and
// values that are wrong, as JSON text.
type field struct{ right, wrong []string }

// values makes a field of a text that has right values, a bar, and wrong ones, with
// semicolons between them.
func values(text string) field {
	right, wrong, _ := strings.Cut(text, "|")
	split := func(s string) (list []string) {
		for v := range strings.SplitSeq(s, ";") {
			if v = strings.TrimSpace(v); v != "" {
				list = append(list, v)
			}
		}
		return list
	}
	return field{split(right), split(wrong)}
}

// A drawer makes random definitions.
type drawer struct {
	*rand.Rand
	r     *courier.Registry
	bad   float64 // the probability that a field has a wrong value
	begun int     // steps
}

// of draws a value of a field.
func (d *drawer) of(f field) json.RawMessage {
	list := f.right
	if len(f.wrong) > 0 && d.Float64() < d.bad {
		list = f.wrong
	}
	return json.RawMessage(list[d.IntN(len(list))])
}

// object draws an object that has the needed fields, nearly always, and some others.
func (d *drawer) object(fields map[string]field, share float64, needed ...string) map[string]any {
	o := make(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		chance := share
		if slices.Contains(needed, name) {
			chance = 1 - d.bad/4
		}
		if d.Float64() < chance {
			o[name] = d.of(fields[name])
		}
	}
	if d.Float64() < d.bad/4 {
		o["unknwon"] = 1
	}
	return o
}

var (
	longest  = `"` + strings.Repeat("é", 200) + `"`
	tooLong  = `"` + strings.Repeat("é", 201) + `"`
	ofName   = values(`"a"; "a b"; ` + longest + `| ""; 5; "a\nb"; "a\u0085"; ` + tooLong)
	ofURL    = values(`"a"; "a b"; ` + longest + `| ""; 5; "a\nb"; "."; ".."; ` + tooLong)
	ofText   = values(`"a"; "context:params.p" | 5; true; ["a"]`)
	ofBool   = values(`true; false | "true"; 1`)
	ofSecs   = values(`1; 0.5; 300; 86400 | -1; "5"; true`)
	ofJob    = values(`"other" | 7; "nobody"`)
	ofChain  = values(`"chain" | 7; "nobody"`)
	ofParams = values(`{}; {"x": 1}; {"x": {"y": [1]}} | []; "x"`)
	ofPrio   = values(`1; -5; 32767; -32768 | 32768; 1.5; "1"`)
	ofTime   = values(`"2030-01-31T08:00:00Z"; "2030-01-31T08:00:00.5+02:00" | "2030-01-31"; 7; "x"`)
)

var jobFields = map[string]field{
	"name": ofURL, "version": values(`3; -1 | "x"`), "limit": values(`1; 5 | -1; 1.5; "1"`), "queue": values(`"night"; ` + longest + ` | ` + tooLong + `; "a\tb"; 5`),
	"failure_policy": values(`"stop"; "retry_step"; "skip_and_continue"; {"type": "retry_step", "max_retries": 2, "backoff_base_seconds": 0.5, "backoff_max_seconds": 9, "jitter": false};
		{"max_retries": 1}; {"type": "retry_job", "retry_on": ["connection"], "no_retry_on": ["login"]}; {"type": "stop", "retry_on": []}
		| "nope"; {"type": "stop", "retry_on": ["connection"]}; {"retry_on": ["connection"]}; {"type": "retry_step", "retry_on": ["nope"]}; {"type": "retry_step", "max_retries": -1};
		{"type": "retry_step", "backoff_max_seconds": -1}; {"typ": "stop"}; 3; {"type": "retry_step", "retry_on": ["login"], "no_retry_on": ["login"]}`),
	"limit_keys": values(`["a"]; ["p:${context:job.name}"] | "a"; [""]; [1]; ["secret:x"]; ["${context:0.x}"]`),
	"result":     values(`"context:job.name"; "x ${context:job.name}" | 5; "secret:x"; "context:nobody.x"`),
	"depends_on": values(`["other"]; [{"job": "other"}]; [{"job": "other", "run_on_failure": true, "required_status": "any", "on_unmet": "refuse"}]
		| [""]; [{}]; "other"; [{"job": "other", "required_status": "x"}]; [{"job": "other", "on_unmet": "x"}]; ["nobody"]; ["other", "other"]; [{"jbo": "other"}]`),
	"timeout_seconds": ofSecs, "max_duration_seconds": ofSecs,
	"expected_by": values(`"07:30"; "23:59 Europe/Berlin"; "07:30 " | "7:30"; "24:00"; "07:60"; "07:30 Nowhere"; 5; "07:30Europe/Berlin"`),
	"outputs": values(`[]; [{"from": "context:files.file_list[0].path", "to": "/srv/out/"}]; [{"from": "context:files.file_list[0].path", "to": "${context:job.name}/x"}]
		| [{"from": "x", "to": "/srv"}]; [{"from": "context:files.file_list[0].path", "to": "srv"}]; [{"from": "context:files.file_list[0].path"}]; [{}]; {}`),
}

var stepFields = map[string]field{
	"name": values(`"a"; "with \"quotes\"" | "a\nb"; 5; ` + tooLong), "timeout_seconds": ofSecs, "stall_timeout_seconds": ofSecs, "allow_parent": ofBool,
	"failure_policy": values(`"stop"; "skip_and_continue"; {"type": "stop"}; {"type": "skip_and_continue", "max_retries": 1}; {}
		| {"max_retries": 1}; {"jitter": false}; "retry_job"; {"type": "retry_job"}; {"type": "stop", "no_retry_on": ["login"]}; 5; "retry_steps"; ["stop"]`),
	"id": values(`"%d" | "A%d"; 5; "job"; "params"; "-x"; "a b"; "` + strings.Repeat("a", 51) + `"`),
}

var ifFields = map[string]field{
	"left": values(`"a"; 1; ["x"]; "context:params.p" | "secret:x"`), "right": values(`"a"; 1.5; true; {"x": 1} | "secret:x"`),
	"operator": values(`"equals"; "not_equals"; "contains"; "greater_than"; "less_than"; "greater_or_equal"; "less_or_equal"; "exists"; "EQUALS"; "Exists" | "matches"; 5; "context:params.p"`),
}

var forEachFields = map[string]field{
	"source": values(`[1, 2]; []; "context:files.file_list"; "[1, 2]"; " [\"${context:params.p}\"]"; "context:params.p" | "x"; 5; {"a": 1}; "[1"; "secret:x"`),
	"then":   values(`"fail"; "complete" | "x"; 5`), "on_resume": values(`"continue"; "restart" | "x"; "context:params.p"`),
	"max_iterations": values(`1; 100000 | 0; -1; "5"; 1.5; "context:params.p"`), "on_item_failure": values(`"continue"; "continue"; "stop" | "x"; 5; "context:params.p"`),
	"max_failures": values(`0; 10; "0%"; "100%"; "7%" | -1; "101%"; "5"; 1.5; "context:params.p"; "07%"`),
	"continue_on":  values(`["connection", "invalid"]; [] | "connection"; ["x"]; [1]`), "after_repair": values(`"continue"; "rerun" | "x"; 5`),
}

// step draws a step of any type, or a block.
func (d *drawer) step(depth int) []map[string]any {
	own := d.object(stepFields, 0.1)
	if id, ok := own["id"].(json.RawMessage); ok {
		d.begun++
		own["id"] = json.RawMessage(strings.ReplaceAll(string(id), "%d", fmt.Sprintf("step%d", d.begun)))
	}
	if depth > 2 || d.Float64() < 0.7 {
		keys := d.r.Keys()
		own["type"] = keys[d.IntN(len(keys))]
		typ, _ := d.r.Lookup(own["type"].(string))
		own["config"] = d.config(typ.Config())
		if d.Float64() < 0.05 {
			own["type"] = strings.ToUpper(own["type"].(string))
		} else if d.Float64() < d.bad/4 {
			own["type"] = "file.lst"
		}
		return []map[string]any{own}
	}
	block := []map[string]any{own}
	if d.Float64() < 0.5 {
		own["type"], own["config"] = "flow.if", d.object(ifFields, 0.9, "left", "operator")
		block = append(append(block, d.step(depth+1)...), map[string]any{"type": "flow.else"})
	} else {
		own["type"], own["config"] = "flow.foreach", d.object(forEachFields, 0.2, "source")
	}
	end := map[string]any{"type": "flow.end"}
	if d.Float64() < d.bad/4 {
		end["config"] = map[string]any{"x": 1}
	}
	return append(append(block, d.step(depth+1)...), end)
}

// config draws a configuration.
func (d *drawer) config(s *courier.Schema) map[string]any {
	config := make(map[string]any)
	for i := range s.Properties {
		p := &s.Properties[i]
		if share := 0.2; p.Required || d.Float64() < share {
			config[p.Name] = d.value(p.Schema)
		}
	}
	for _, g := range s.Groups {
		if d.Float64() < d.bad {
			continue
		}
		for _, name := range g.Fields {
			delete(config, name)
		}
		name := g.Fields[d.IntN(len(g.Fields))]
		p, _ := s.Property(name)
		config[name] = d.value(p.Schema)
	}
	if d.Float64() < d.bad/4 {
		config["unknwon"] = "x"
	}
	if required := slices.Collect(maps.Keys(config)); len(required) > 0 && d.Float64() < d.bad/4 {
		slices.Sort(required)
		delete(config, required[d.IntN(len(required))])
	}
	return config
}

// anything are values of all types, and references.
var anything = []any{"x", "/srv/a", "a\nb", 7, -3, 1.5, true, []any{"x"}, []any{1}, map[string]any{"x": "y"}, "context:params.p", "secret:s", "${context:params.p}/x", "$${", "context:p"}

// value draws a value that fits a schema, or sometimes any.
func (d *drawer) value(s *courier.Schema) any {
	switch {
	case d.Float64() < d.bad/2:
		return anything[d.IntN(len(anything))]
	case d.Float64() < 0.15:
		return "context:params.p"
	case len(s.Enum) > 0:
		return s.Enum[d.IntN(len(s.Enum))]
	case s.Type == "string":
		return []string{"x", "/srv/in/*.csv", "${context:params.p}/x", "secret:s"}[d.IntN(4)]
	case s.Type == "boolean":
		return d.IntN(2) == 0
	case s.Type == "array":
		return []any{d.value(s.Items)}
	case s.Type == "object":
		if s.Open {
			return map[string]any{"x": "y"}
		}
		return d.config(s)
	case s.Min != "" && d.IntN(2) == 0:
		return s.Min
	case s.Max != "":
		return s.Max
	case s.Type == "number":
		return 12.5
	}
	return 3
}

func (d *drawer) job() map[string]any {
	d.begun = 0
	job := d.object(jobFields, 0.1, "name")
	steps := []map[string]any{{"id": "files", "type": "file.list", "config": map[string]any{"path": "/srv/in"}}}
	for range 1 + d.IntN(3) {
		steps = append(steps, d.step(0)...)
	}
	job["steps"] = steps
	if d.Float64() < d.bad/8 {
		job["steps"] = []any{}
	}
	return job
}

// others are definitions that the random ones may refer to.
const others = `[{"name": "other", "steps": [{"type": "file.list", "config": {"path": "/srv"}}]},
	{"name": "more", "steps": [{"type": "file.list", "config": {"path": "/srv"}}]},
	{"name": "chain", "members": [{"job": "other"}]}]`

// A comparison holds the verdicts of a schema against those of engine.Check.
type comparison struct {
	*validator
	r      *courier.Registry
	unseen *regexp.Regexp // problems that the schema can't see

	accepted, refused, missed int
}

// compare checks a definition both ways: the schema accepts what Check accepts, and what
// it accepts and Check refuses has only problems that it can't see.
func (c *comparison) compare(definition any) {
	c.t.Helper()
	text, err := json.Marshal(definition)
	if err != nil {
		c.t.Fatal(err)
	}
	wrong, problems := c.check(string(text)), c.problems(text)
	switch {
	case problems == nil:
		c.accepted++
		if wrong != nil {
			c.t.Errorf("the schema refuses what Check accepts: %q\n%s", wrong, text)
		}
	case wrong != nil:
		c.refused++
	case capital.Match(text): // whose configuration the schema does not check
	default:
		c.missed++
		for _, p := range problems {
			if !c.unseen.MatchString(p) {
				c.t.Errorf("the schema does not see: %s\n%s", p, text)
			}
		}
	}
}

// problems returns what Check finds in a definition.
func (c *comparison) problems(text []byte) (list []string) {
	b := engine.Check([]courier.Source{{File: "this", Text: text}, {File: "others", Text: []byte(others)}}, c.r, nil)
	for _, p := range b.Problems {
		if p.File == "this" {
			list = append(list, p.Field+": "+p.Message)
		}
	}
	return list
}

// capital matches a step type with capital letters.
var capital = regexp.MustCompile(`"type":"[A-Z]`)

// unseenOfJobs are the problems that a schema of jobs can't see.
var unseenOfJobs = regexp.MustCompile(strings.Join([]string{
	` has no value`,                               // a reference leads nowhere, or not there
	` reference "[^"]*": `,                        // a text has a malformed reference
	`can't be used here, since`,                   // a secret within a value of a marker; a reference in a limit key
	`config.right: is required`,                   // for an operator in capital letters
	`unknown operator "[^"]*[A-Z]`,                // in capital letters
	`not the JSON of a list`,                      // a text as the source of a loop
	`is in retry_on too`,                          // a class is in both lists
	`or a flow\.rescue; add one`,                  // of a loop that has none
	`is "retry_job", that of the job`,             // a step of a loop has none of its own
	`there is no job `,                            // a name
	`expected_by: `,                               // a time zone
	`given twice`,                                 // a name
	`is not a set of permissions|expected_status`, // what only the Go type of a field says
}, "|"))

// TestRandomJobs compares the verdicts on 1,000 valid jobs, and on as many others.
func TestRandomJobs(t *testing.T) {
	r := registry()
	c := &comparison{validator: newValidator(t, schemas()["job"]), r: r, unseen: unseenOfJobs}
	d := &drawer{Rand: rand.New(rand.NewPCG(*seed, 0)), r: r}
	n := raced.Or(100, 1000)
	for c.accepted < n || c.refused < n {
		if d.bad = 0; c.accepted > n || d.IntN(2) == 0 {
			d.bad = 0.1
		}
		c.compare(d.job())
		if t.Failed() {
			return
		}
	}
	t.Logf("accepted %d; refused by both %d, by Check alone %d", c.accepted, c.refused, c.missed)
}
