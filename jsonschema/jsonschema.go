// Package jsonschema makes JSON Schemas of definitions, which editors use to complete
// and check them, and of the parameters of a job, from which forms are made.
//
// A schema sees the form of a definition: the names of fields, which of them are
// needed, and the values that they may have. It can't check properties of the whole
// definition, such as where a reference leads, whether blocks are closed and whether ids
// are unique; Engine.Check does.
//
// A schema refuses nothing that Engine.Jobs().Define accepts, and likewise for the
// other definitions, with one exception: null, and the zero value of a field's type,
// stand for a field that is not given where Define reads them, while for the schema
// such a field is given, and null is no value. A step type may have capital letters;
// the configuration of such a step is not checked.
//
// The schemas are of draft-07, which all editors know, in compact JSON text. The same
// step types and options always give the same text. That of jobs with all step types
// of package steps has about 77 KB, and 11 KB compressed.
package jsonschema

import (
	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/schemadoc"
)

// Options say what a schema offers. The zero value offers what is in the definitions'
// own types.
type Options struct {
	// Names are known names, which editors offer where a definition has one. Other
	// names stay valid.
	Names Names
}

// Names are names of what definitions refer to.
type Names struct {
	Jobs, Chains []string
	// Connections are ids of connections by the family of step types that uses them,
	// such as "sftp". Fields called connection_id have them.
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

// definition returns the schema of a kind of definitions.
func definition(kind string, r *courier.Registry, o *Options) []byte {
	if o == nil {
		o = new(Options)
	}
	return schemadoc.Definition(kind, r, schemadoc.Names(o.Names))
}

// Params returns the schema of the parameters that an execution of a job is started
// with, an object. It has a property for each declared parameter. Bounds of dates and
// instants are given as formatMinimum and formatMaximum, which only some validators
// know; a pattern that has another meaning outside of RE2, and the permitted values of
// instants, which are compared by when they are, are left out.
func Params(job courier.Job) []byte { return schemadoc.Params(job) }
