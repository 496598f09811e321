package schemadoc

import (
	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

// maxDependencies is how many jobs a job may depend on.
const maxDependencies = 100

// job returns the schema of jobs.
func (b *builder) job() Schema {
	return Object(Schema{
		"name":                 inURL("The key under which versions are kept."),
		"version":              version(),
		"failure_policy":       described(b.policy("failure_policy", "FailurePolicy", policies), "What a failed step leads to.", courier.Stop),
		"params":               described(b.params(), "The parameters: their declarations, or the values that hold where none is given.", nil),
		"queue":                described(label("The pool of work that the executions wait in."), "", courier.DefaultQueue),
		"limit":                whole("How many executions of the job run at once; 0 is any number.", 0, nil),
		"limit_keys":           described(Schema{"type": "array", "maxItems": flow.MaxLimitKeys, "items": stored(needed(""))}, "Names of what executions share, such as partner:acme.", nil),
		"result":               stored(text("What an execution is shown to have resulted in: a reference to an output, or a text with references.")),
		"depends_on":           b.jobDependencies(),
		"timeout_seconds":      seconds("The longest time for an execution, from its first claim after it was created or resumed; 0 is none."),
		"max_duration_seconds": seconds("How long after an execution was first due it is overdue; 0 is never."),
		"expected_by":          described(Schema{"type": "string", "pattern": `^([01]\d|2[0-3]):[0-5]\d( .*)?$`}, "The time of day when an execution that has not ended is overdue, with a time zone, such as 07:30 Europe/Berlin.", nil),
		"outputs":              list(part[courier.JobOutput](b, "JobOutput", output), "Files that are kept when the execution completes."),
		"steps":                described(Schema{"type": "array", "minItems": 1, "items": b.define("step", "StepSpec", b.step)}, "The flat list of steps, markers included.", nil),
	}, "name", "steps")
}

// ofSecret is the schema of a reference to a secret.
var ofSecret = Schema{"type": "string", "pattern": "^secret:"}

// stored is a value that can't be a secret, since it is stored.
func stored(s Schema) Schema {
	s["not"] = ofSecret
	return s
}

func output() Schema {
	return Object(Schema{
		"from": described(Schema{"type": "string", "pattern": `^context:[^.]+\..`}, "A reference to an output that is the path of one file.", nil),
		"to":   described(Schema{"type": "string", "pattern": `^(/|.:|\\|context:|\$\{)`}, "An absolute path; the file keeps its name if it ends in / or is a directory.", nil),
	}, "from", "to")
}

// jobDependencies is the schema of the jobs that a job depends on.
func (b *builder) jobDependencies() Schema {
	job := func() Schema { return known("The name of the other job.", b.names.Jobs) }
	one := AnyOf(job(), part[courier.JobDependency](b, "JobDependency", func() Schema {
		return Object(Schema{
			"job":             job(),
			"run_on_failure":  boolean("Accepts an execution that failed, besides one that completed."),
			"required_status": requiredStatus(),
			"on_unmet":        enum("What becomes of an execution that is created while the dependency is not met.", courier.HoldUnmet, courier.HoldUnmet, courier.RefuseUnmet),
		}, "job")
	}))
	s := list(one, "Other jobs that an execution waits for.")
	s["maxItems"] = maxDependencies
	return s
}

func requiredStatus() Schema {
	return enum("Which ends meet the dependency.", courier.RequireCompleted, courier.RequireCompleted, courier.RequireAny)
}

// The failure policies of jobs, of steps and of markers.
var (
	policies       = []courier.Policy{courier.Stop, courier.RetryStep, courier.RetryJob, courier.SkipAndContinue}
	stepPolicies   = []courier.Policy{courier.Stop, courier.RetryStep, courier.SkipAndContinue}
	markerPolicies = []courier.Policy{courier.Stop, courier.SkipAndContinue}
)

// policy is the schema of a failure policy, which is its name or an object.
func (b *builder) policy(name, openAPI string, allowed []courier.Policy) Schema {
	return b.define(name, openAPI, func() Schema {
		classes := func(doc string) Schema {
			return list(b.define("class", "ErrorClass", func() Schema { return enum("", nil, courier.ErrorClasses()...) }), doc)
		}
		figures := Object(Schema{
			"type":                 enum("What a failure leads to.", courier.Stop, allowed...),
			"max_retries":          b.orNull(described(whole("Attempts after the first.", 0, nil), "", 3)),
			"backoff_base_seconds": b.orNull(described(seconds("The delay before the first retry; it doubles with every further one."), "", 1)),
			"backoff_max_seconds":  b.orNull(described(seconds("The longest delay."), "", 60)),
			"jitter": b.orNull(described(AnyOf(boolean(""), enum("", nil, courier.JitterHalf, courier.JitterFull, courier.JitterAdded, courier.JitterNone)),
				"How chance changes each delay: half (or true) between half of the backoff and the whole of it, full between 0 and the whole, added up to the base more, none (or false) not at all.", true)),
			"retry_on":    classes("The error classes that are repeated; none means all."),
			"no_retry_on": classes("The error classes that are not repeated."),
		})
		none := Schema{"maxItems": 0}
		figures["allOf"] = []Schema{when(
			Schema{"properties": Schema{"type": Schema{"enum": markerPolicies}}},
			Schema{"properties": Schema{"retry_on": none, "no_retry_on": none}},
		)}
		if name != "failure_policy" { // the figures of a step do not join those of the job
			figures["required"] = []string{"type"}
		}
		return AnyOf(enum("", nil, allowed...), figures)
	})
}
