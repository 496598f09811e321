// Package jsonschema makes JSON Schemas of definitions and of the parameters of a job. Editors use
// the schemas of definitions to complete and check them. Forms are made from the schemas of
// parameters.
//
// A schema describes the form of a definition: the names of fields, the required fields, and the
// values that fields may have. It can't check properties of the whole definition, such as where a
// reference leads, whether blocks are closed and whether ids are unique. Engine.Check does that.
//
// A schema accepts everything that Engine.Jobs().Define accepts, and likewise for the other
// definitions, with one exception. For Define, null and the zero value of a field's type mean that
// the field is not given. For the schema such a field is given, and null is not a valid value. A
// step type may have capital letters; the configuration of such a step is not checked.
//
// The schemas are in draft-07, which all editors support, as compact JSON text. The same step types
// and options always give the same text. The schema of jobs with all step types of package steps
// has about 77 KB, and 11 KB compressed.
package jsonschema

import (
	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/schemadoc"
)

// Options say what a schema suggests. The zero value suggests only what the types of the
// definitions declare.
type Options struct {
	// Names are known names, which editors suggest where a definition refers to one. Other names
	// stay valid.
	Names Names
}

// Names are names that definitions can refer to.
type Names struct {
	Jobs, Chains []string
	// Connections are ids of connections, by the family of step types that uses them, such as
	// "sftp". They are suggested for fields called connection_id.
	Connections map[string][]string
}

// Job returns the schema of a [courier.Job] whose steps are of the types in r.
func Job(r *courier.Registry, o *Options) []byte { return definition("job", r, o) }

// Chain returns the schema of a chain, the type Chain of package chain.
func Chain(o *Options) []byte { return definition("chain", nil, o) }

// Schedule returns the schema of a schedule, the type Schedule of package schedule.
func Schedule(o *Options) []byte { return definition("schedule", nil, o) }

// Monitor returns the schema of a monitor, the type Monitor of package monitor.
func Monitor(o *Options) []byte { return definition("monitor", nil, o) }

// Subscription returns the schema of a subscription, the type Subscription of package
// notify.
func Subscription(o *Options) []byte { return definition("subscription", nil, o) }

// Calendar returns the schema of a calendar, the type Calendar of package calendar.
func Calendar(o *Options) []byte { return definition("calendar", nil, o) }

// Expectation returns the schema of an expectation, the type Expectation of package
// expectation.
func Expectation(o *Options) []byte { return definition("expectation", nil, o) }

// definition returns the schema of definitions of a kind.
func definition(kind string, r *courier.Registry, o *Options) []byte {
	if o == nil {
		o = new(Options)
	}
	return schemadoc.Definition(kind, r, schemadoc.Names(o.Names))
}

// Params returns the schema of the parameters that start an execution of a job. The schema is an
// object with a property for each declared parameter. Bounds of dates and instants are given as
// formatMinimum and formatMaximum, which only some validators support. The schema leaves out a
// pattern that has another meaning outside of RE2. It also leaves out the permitted values of
// instants, because instants are equal if their time is the same.
func Params(job courier.Job) []byte { return schemadoc.Params(job) }
