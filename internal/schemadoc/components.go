package schemadoc

import (
	"reflect"
	"regexp"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
)

// Components returns the schemas of definitions and of their parts for an OpenAPI document,
// by name, and the names of the Go types that they are of.
//
// They say what the schemas for editors say, apart from two things. Conditions between
// fields, such as that a schedule has either a job or a chain, are left out: generators of
// clients do not read them. And a field that may be left out can also have the zero value of
// its Go type, which clients send for it.
func Components() (named Schema, names map[reflect.Type]string) {
	b := &builder{definitions: Schema{}, types: make(map[reflect.Type]string)}
	part[courier.Job](b, "Job", b.job)
	part[chain.Chain](b, "Chain", b.chain)
	part[schedule.Schedule](b, "Schedule", b.schedule)
	part[monitor.Monitor](b, "Monitor", b.monitor)
	part[expectation.Expectation](b, "Expectation", b.expectation)
	part[calendar.Calendar](b, "Calendar", b.calendar)
	part[notify.Subscription](b, "Subscription", b.subscription)
	for _, s := range b.definitions {
		unconditional(s.(Schema))
	}
	return b.definitions, b.types
}

// unconditional changes the schema of a component and those in it: it takes away the
// conditions, permits zero values, and says the type of words, which generators need.
func unconditional(s Schema) {
	delete(s, "allOf")
	delete(s, "dependencies")
	if _, words := s["enum"].([]string); words {
		s["type"] = "string"
	}
	required, _ := s["required"].([]string)
	properties, _ := s["properties"].(Schema)
	for name, p := range properties {
		if p, ok := p.(Schema); !ok { // the field is forbidden, where other things may stand
			delete(properties, name)
		} else if unconditional(p); !slices.Contains(required, name) {
			orZero(p)
		}
	}
	if len(properties) == 0 {
		delete(s, "properties")
	}
	for _, keyword := range []string{"items", "additionalProperties"} {
		if inner, ok := s[keyword].(Schema); ok {
			unconditional(inner)
		}
	}
	list, _ := s["anyOf"].([]Schema)
	for _, one := range list {
		unconditional(one)
	}
}

// orZero changes a schema so that it permits the zero value too.
func orZero(s Schema) {
	delete(s, "minLength")
	if pattern, ok := s["pattern"].(string); ok && !regexp.MustCompile(pattern).MatchString("") {
		s["pattern"] = "^$|" + pattern
	}
	if words, ok := s["enum"].([]string); ok {
		s["enum"] = append(words, "")
	}
	if least, ok := s["minimum"].(int); ok {
		s["minimum"] = min(least, 0)
	}
}
