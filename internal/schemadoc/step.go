package schemadoc

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

// isID is the form of the id of a step.
const isID = `^[a-z][a-z0-9_-]{0,49}$`

// step is the schema of an entry of the list of steps. OpenAPI documents leave types and
// configurations open: they are the same for all engines, whatever step types these have.
func (b *builder) step() Schema {
	typ := func(s Schema) Schema { return described(s, "The key of a step type, or a marker.", nil) }
	properties := Schema{
		"id":                    described(Schema{"type": "string", "pattern": isID, "not": Schema{"enum": []string{"job", "loop", "params", "chain", "monitor"}}}, "Another name for the step's index in references.", nil),
		"type":                  typ(Schema{"type": "string"}),
		"name":                  label("A text for people."),
		"timeout_seconds":       b.orNull(seconds("The longest time for one attempt; 0 is none.")),
		"stall_timeout_seconds": b.orNull(seconds("The longest time without progress; 0 is none.")),
		"failure_policy":        described(b.policy("step_policy", "StepFailurePolicy", stepPolicies), "Holds for this step in place of the job's.", nil),
		"allow_parent":          boolean("Lets values that references put into paths, patterns and URLs contain the segment \"..\"."),
		"isolate":               boolean("Has the step run in a process of its own."),
		"config":                Schema{"type": "object"},
	}
	s := Object(properties, "type")
	if b.types != nil {
		return s
	}
	rules := b.rules()
	var keys []string
	all := make([]Schema, len(rules))
	for i, rule := range rules {
		keys = append(keys, rule.keys...)
		all[i] = b.ofType(rule)
	}
	slices.Sort(keys)
	properties["type"], s["allOf"] = typ(AnyOf(Schema{"enum": keys}, capitals())), all
	return s
}

// capitals is the schema of a text that has capital letters, where letter case does not
// count.
func capitals() Schema { return Schema{"type": "string", "pattern": "[A-Z]"} }

// A rule says which configuration the steps of one type have.
type rule struct {
	keys   []string // the key of the type and its aliases
	doc    string
	config Schema
	needed bool // a configuration can't be left out
	marker bool
}

// rules returns one rule for each type, in order.
func (b *builder) rules() []rule {
	r := b.registry
	keys := make(map[string][]string)
	for _, key := range r.Keys() {
		t, _ := r.Lookup(key)
		keys[t.Key()] = append(keys[t.Key()], key)
	}
	list := b.markers()
	for _, key := range r.Keys() {
		if len(keys[key]) == 0 {
			continue // an alias
		}
		t, _ := r.Lookup(key)
		family, _, _ := strings.Cut(key, ".")
		c := configs{b, b.names.Connections[family]}
		list = append(list, rule{keys: keys[key], doc: t.Doc(), config: c.object(t.Config()), needed: needsConfig(t.Config())})
	}
	return list
}

// ofType is the schema that holds for steps of one type.
func (b *builder) ofType(r rule) Schema {
	keys := make([]any, len(r.keys))
	for i, key := range r.keys {
		keys[i] = key
	}
	properties := Schema{"config": r.config}
	if r.doc != "" {
		properties["type"] = Schema{"description": r.doc}
	}
	if r.marker {
		properties["failure_policy"] = b.policy("marker_policy", "", markerPolicies)
	}
	then := Schema{"properties": properties}
	if r.needed {
		then["required"] = []string{"config"}
	}
	return when(has("type", keys...), then)
}

// needsConfig reports whether a configuration without fields is wrong.
func needsConfig(s *courier.Schema) bool {
	return slices.ContainsFunc(s.Properties, func(p courier.Property) bool { return p.Required }) ||
		slices.ContainsFunc(s.Groups, func(g courier.Group) bool { return g.Kind != "at_most_one" })
}

// configs makes schemas of configurations, in which references may stand for values.
type configs struct {
	*builder
	connections []string
}

// reference is the schema of a text that is replaced as a whole.
func (b *builder) reference() Schema {
	return b.define("reference", "", func() Schema {
		return Schema{"type": "string", "pattern": `^(context:[^.]+\..|secret:.)`, "description": "A reference, such as context:list.file_list, or secret:NAME."}
	})
}

// template is the schema of a text with references.
func (b *builder) template() Schema {
	return b.define("template", "", func() Schema {
		return Schema{"type": "string", "pattern": `^(context|secret):|\$\{`, "description": "A reference, or a text with references in ${}."}
	})
}

// value is the schema of a value.
func (c configs) value(s *courier.Schema) Schema {
	switch {
	case s.Type == "":
		return Schema{}
	case len(s.Enum) > 0:
		return AnyOf(Schema{"enum": s.Enum}, c.template())
	case s.Type == "string":
		return Schema{"type": "string"}
	case s.Type == "object":
		return AnyOf(c.object(s), c.reference())
	case s.Type == "array":
		return AnyOf(Schema{"type": "array", "items": c.value(s.Items)}, c.reference())
	}
	own := Schema{"type": s.Type}
	if n := number(s.Min); n != nil {
		own["minimum"] = n
	}
	if n := number(s.Max); n != nil {
		own["maximum"] = n
	}
	return AnyOf(own, c.reference())
}

// property is the schema of a field.
func (c configs) property(p *courier.Property) Schema {
	s := c.value(p.Schema)
	if p.Required && s["type"] == "string" {
		s["minLength"] = 1
	}
	if p.Name == "connection_id" && len(c.connections) > 0 {
		s["examples"] = sorted(c.connections)
	}
	return described(s, p.Doc, defaultOf(p))
}

// defaultOf returns the default of a field, or nil.
func defaultOf(p *courier.Property) any {
	switch {
	case p.Default == "":
		return nil
	case p.Schema.Type == "string":
		return p.Default
	case !json.Valid([]byte(p.Default)):
		return nil
	}
	return json.RawMessage(p.Default)
}

// number returns the JSON number of a text, or nil.
func number(text json.Number) any {
	if text == "" {
		return nil
	}
	return text
}

// object is the schema of an object.
func (c configs) object(s *courier.Schema) Schema {
	properties, required, open := Schema{}, []string(nil), s.Open
	groups := slices.Clone(s.Groups)
	for i := range s.Properties {
		p := &s.Properties[i]
		properties[p.Name] = c.property(p)
		if inAnyCase(s, p) {
			open = true // under which of its names it is given can't be said
		} else if p.Alias != "" {
			properties[p.Alias] = described(c.property(p), "Another name of "+p.Name+".", nil)
			kind := "at_most_one"
			if p.Required {
				kind = "one_of"
			}
			groups = append(groups, courier.Group{Kind: kind, Fields: []string{p.Name, p.Alias}})
		} else if p.Required {
			required = append(required, p.Name)
		}
	}
	o := Object(properties, required...)
	if open {
		delete(o, "additionalProperties")
		return o
	}
	if rules := c.groups(groups); len(rules) > 0 {
		o["allOf"] = rules
	}
	return o
}

// inAnyCase reports whether the letter case of a property's name does not count.
func inAnyCase(s *courier.Schema, p *courier.Property) bool {
	other := strings.ToLower(p.Name)
	if other == p.Name {
		other = strings.ToUpper(p.Name)
	}
	found, ok := s.Property(other)
	return ok && found == p
}

// groups are the schemas of the groups of an object's fields.
func (c configs) groups(groups []courier.Group) (rules []Schema) {
	for _, g := range groups {
		if g.Kind != "at_most_one" {
			one := make([]Schema, len(g.Fields))
			for i, name := range g.Fields {
				one[i] = Schema{"required": []string{name}}
			}
			rules = append(rules, AnyOf(one...))
		}
		if g.Kind == "any_of" {
			continue
		}
		for i, a := range g.Fields {
			for _, b := range g.Fields[i+1:] {
				rules = append(rules, Schema{
					"not":          Schema{"properties": Schema{a: c.given(), b: c.given()}, "required": []string{a, b}},
					"errorMessage": "give only one of " + a + " and " + b, // for editors that know the keyword
				})
			}
		}
	}
	return rules
}

// given is the schema of a value that is certainly given: it is no reference, which may
// turn out to be empty.
func (b *builder) given() Schema {
	return b.define("given", "", func() Schema {
		return Schema{"not": AnyOf(Schema{"enum": []any{nil, "", false, []any{}, Schema{}}}, Schema{"type": "string", "pattern": "^(context|secret):"})}
	})
}

// operators are those of flow.if, exists aside.
var operators = []string{"equals", "not_equals", "contains", "greater_than", "less_than", "greater_or_equal", "less_or_equal", "regex"}

// markers are the rules of the markers of control flow.
func (b *builder) markers() []rule {
	none := Schema{"type": "object", "maxProperties": 0}
	return []rule{
		{keys: []string{flow.TypeElse}, doc: "Begins the steps that run if the condition does not hold.", config: none, marker: true},
		{keys: []string{flow.TypeEnd}, doc: "Ends what a flow.if, a flow.foreach or a flow.try began.", config: none, marker: true},
		{keys: []string{flow.TypeFinally}, doc: "Begins the steps that run however the others end.", config: none},
		{keys: []string{flow.TypeForEach}, doc: "Begins steps that run once for each item of a list.", config: b.forEach(), needed: true, marker: true},
		{keys: []string{flow.TypeRescue}, doc: "Begins the steps that run for an item of a loop, or a flow.try, in which something has failed.", config: rescue(), marker: true},
		{keys: []string{flow.TypeTry}, doc: "Begins steps whose first failure leads to the rescue of the block.", config: none, marker: true},
		{keys: []string{flow.TypeIf}, doc: "Begins steps that run only if a condition holds.", config: condition(), needed: true, marker: true},
	}
}

// condition is the schema of the configuration of a flow.if.
func condition() Schema {
	compares := make([]any, len(operators))
	for i, o := range operators {
		compares[i] = o
	}
	s := Object(Schema{
		"left":     stored(Schema{"description": "The value that is compared, or a reference to it."}),
		"operator": described(AnyOf(Schema{"enum": append(slices.Clone(operators), "exists")}, capitals()), "How they are compared.", nil),
		"right":    stored(Schema{"description": "What left is compared with; exists needs none."}),
	}, "left", "operator")
	s["allOf"] = []Schema{when(has("operator", compares...), Schema{"required": []string{"right"}})}
	return s
}

// rescue is the schema of the configuration of a flow.rescue.
func rescue() Schema {
	classes := append(courier.ErrorClasses(), courier.ReasonItems, courier.ReasonWorkerLost)
	return Object(Schema{
		"rescue_on":    list(enum("", nil, classes...), "The error classes that come to the rescue; all others do not."),
		"no_rescue_on": list(enum("", nil, classes...), "The error classes that do not come to the rescue."),
		"rescued":      enum("What becomes of the execution at its end if the rescue has run.", "complete", "complete", "fail"),
	})
}

// forEach is the schema of the configuration of a flow.foreach.
func (b *builder) forEach() Schema {
	percentage := Schema{"type": "string", "pattern": `^(\d|[1-9]\d|100)%$`}
	s := Object(Schema{
		"source":          described(AnyOf(Schema{"type": "array"}, Schema{"type": "string", "pattern": `context:|^\s*\[`}), "A list, a reference to one, or the JSON text of one.", nil),
		"label":           Schema{"type": "string", "description": "By what people know an item: a text with references to loop and params."},
		"on_resume":       enum("Where an execution goes on that was interrupted in the loop and is resumed by an operator: in the same iteration, or in the first one.", "continue", "continue", "restart"),
		"max_iterations":  whole("The most iterations of the loop, multiplied by those of the loops around it.", 1, nil),
		"on_item_failure": enum("Whether a step that fails ends the execution, or only the current item.", "stop", "stop", "continue"),
		"max_failures":    described(AnyOf(whole("", 0, nil), percentage), "How many items may fail, or which part of the list, such as 10%.", nil),
		"then":            enum("What becomes of the execution after the loop if items have failed.", "fail", "fail", "complete"),
		"continue_on":     list(enum("", nil, courier.ErrorClasses()...), "The error classes that end only the item."),
		"after_repair":    enum("What happens to the steps behind the loop when failed items have been executed again.", "continue", "continue", "rerun"),
	}, "source")
	s["allOf"] = []Schema{when(has("on_item_failure", "stop"), forbidden("max_failures", "then", "continue_on", "after_repair"))}
	return s
}
