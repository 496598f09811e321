package courier

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/courierhq/courier/internal/errtext"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/strictjson"
)

// A Job is a named, versioned pipeline of steps. It is a plain value: engines and stores
// keep copies of their own and never change the one that they are given.
//
// In JSON it is an object with the names of the field tags. Other names and repeated
// names are refused.
type Job struct {
	Name string `json:"name"` // 1 to 200 characters, no control characters
	// Version is assigned when the job is saved, counting from 1. Executions
	// keep the version that they were started with.
	Version int `json:"version,omitempty"`
	// FailurePolicy says what happens when a step fails; the zero value stops the
	// execution.
	FailurePolicy FailurePolicy `json:"failure_policy,omitzero"`
	// Params declares the parameters of an execution, by name. A value is either a
	// declaration, which is a [Param] or an object with the key "type", or the default of
	// a parameter that takes any value; nil is the default null. If Params is nil, any
	// parameter may be given.
	Params map[string]any `json:"params,omitzero"`
	// Queue names the pool of work that the job's executions wait in; empty
	// means "default".
	Queue string `json:"queue,omitempty"`
	// Limit is how many of the job's executions may run at once; 0 means any
	// number. A limit set on the engine for "job:NAME" overrides it.
	Limit int `json:"limit,omitempty"`
	// LimitKeys name things that executions share, such as a partner. The engine can
	// limit how many executions with the same key run at once. They may contain
	// references to params and job. An execution has at most 16, of 2 KiB together.
	LimitKeys []string `json:"limit_keys,omitempty"`
	// DependsOn are other jobs that an execution waits for before it begins.
	DependsOn []JobDependency `json:"depends_on,omitempty"`
	// Timeout limits the whole execution, from its first claim after it was created or
	// resumed. When it ends, the execution fails. 0 means none. In JSON it is
	// timeout_seconds.
	Timeout time.Duration `json:"-"`
	// MaxDuration and ExpectedBy raise the event [EventJobOverdue], once each, if an
	// execution has not ended by then. They end nothing.
	//
	// MaxDuration is counted from when the execution was first due. 0 means none. In
	// JSON it is max_duration_seconds.
	MaxDuration time.Duration `json:"-"`
	// ExpectedBy is a time of day with the name of a time zone in the tz database, such
	// as "07:30 Europe/Berlin"; without a zone it is UTC. The first such time after the
	// execution was first due counts; for a member of a chain, the first after the start
	// of the chain execution. Empty means none.
	ExpectedBy string `json:"expected_by,omitempty"`
	// Result is the result that an execution shows: a reference such as
	// "context:sum.url", or a text that contains references. It is resolved when the
	// execution completes; see [Execution].Result. Empty means none.
	Result string `json:"result,omitempty"`
	// Outputs are files in the workspace that are kept. After the last step, each is copied
	// by a step of the type file.copy, to which the failure policy applies; then the
	// execution completes, and its workspace is removed.
	Outputs []JobOutput `json:"outputs,omitempty"`
	// Steps is the flat list, control-flow markers included.
	Steps []StepSpec `json:"steps"`
}

// A Param declares a parameter of a job or a chain, as a value of [Job.Params]. A given
// value is checked when an execution is created. References to the parameter are checked
// when the job is defined. In JSON it is an object with the key "type".
type Param struct {
	// Type is one of these:
	//   - "text"
	//   - "integer": a number written in digits alone; 1.0 and 1e3 are not integers
	//   - "number"
	//   - "boolean"
	//   - "date": text such as "2026-11-23", a day that exists
	//   - "instant": text in the form of RFC 3339
	//   - "list" and "object", with any content
	//   - "file": the absolute path of a file, or an object with the text "path" or
	//     "name", or both. It may have "size", "sha256" in hexadecimal digits and any
	//     other field. The value is an object in any case; a name that is missing is
	//     taken from the path.
	//
	// It is empty if the parameter takes any value; a declaration in JSON must have a
	// type.
	Type string `json:"type"`
	// Required says that the parameter must be given. A parameter that is neither given
	// nor has a default is null. For a declared parameter, null counts as not given.
	Required bool `json:"required,omitempty"`
	Default  any  `json:"default,omitempty"` // of the parameter's type
	// Enum lists the permitted values of a text, integer, number, date or instant.
	Enum []any `json:"enum,omitempty"`
	// Pattern is a regular expression in the syntax of RE2 that the whole text must
	// match.
	Pattern string `json:"pattern,omitempty"`
	// Min and Max are the inclusive bounds of an integer, number, date or instant.
	Min any `json:"min,omitempty"`
	Max any `json:"max,omitempty"`
	// MinLength and MaxLength bound the number of characters of a text, or of items of a
	// list; 0 means no bound.
	MinLength int    `json:"min_length,omitempty"`
	MaxLength int    `json:"max_length,omitempty"`
	Doc       string `json:"doc,omitempty"` // for people
	// Secret says that the text is the name of a secret. The engine asks its
	// Options.Secrets whether it may be used when an execution is created, and puts the
	// secret into configurations that refer to the parameter. A reference must be the
	// whole value of a field of a step. Everywhere else the value is the name.
	Secret bool `json:"secret,omitempty"`
}

// A JobOutput is a file that a job keeps. An existing file at its destination is replaced
// atomically.
type JobOutput struct {
	// From is a reference to an output that is the path of a file, such as
	// "context:pack.archive_path".
	From string `json:"from"`
	// To is an absolute path in one of the engine's Options.Roots. The file keeps its name
	// if To is an existing directory or ends in "/". It may contain references.
	To string `json:"to"`
}

func (o *JobOutput) read(dec *json.Decoder) error {
	return strictjson.ReadObject(dec, strictjson.Fields{"from": strictjson.Into(&o.From), "to": strictjson.Into(&o.To)})
}

// DefaultQueue is the queue of a job whose Queue is empty.
const DefaultQueue = "default"

// A StepSpec is one entry of a job's flat list of steps.
type StepSpec struct {
	// ID is another name for the step's index in references; optional. It
	// starts with a small letter, followed by small letters, digits, "_", "-".
	ID   string `json:"id,omitempty"`
	Type string `json:"type"`           // key of a registered step type, or of a flow marker
	Name string `json:"name,omitempty"` // for people
	// Timeout limits one attempt. Nil means the default of the step's type, 0
	// means none. In JSON it is timeout_seconds.
	Timeout *time.Duration `json:"-"`
	// StallTimeout limits the time without progress. Nil means the default of
	// the step's type, 0 means none. In JSON it is stall_timeout_seconds.
	StallTimeout *time.Duration `json:"-"`
	// FailurePolicy is the policy of this step; the zero value means the job's. It can't
	// be retry_job. On a flow marker it says what happens if a condition or a list can't
	// be evaluated: stop or skip_and_continue.
	FailurePolicy FailurePolicy `json:"failure_policy,omitzero"`
	// AllowParent permits the segment ".." in values that references put into the step's
	// paths, patterns and URLs. Without it such a value is an error, since it could lead
	// into another directory. A ".." in the configuration's own text is always allowed.
	AllowParent bool `json:"allow_parent,omitempty"`
	// Isolate runs the step in a process of its own. False leaves the decision to the
	// engine, whose Options.Isolate selects step types.
	Isolate bool `json:"isolate,omitempty"`
	// Config is the configuration of the step's type. Strings in it may be
	// references; [Get] says how they are written.
	Config map[string]any `json:"config,omitempty"`
}

// UnmarshalJSON reads a job strictly, with [ReadDefinition].
func (j *Job) UnmarshalJSON(data []byte) error {
	return ReadDefinition("job", data, j, (*Job).fields)
}

func (j *Job) fields() map[string]func(*json.Decoder) error {
	return strictjson.Fields{
		"name":                 strictjson.Into(&j.Name),
		"version":              strictjson.Into(&j.Version),
		"failure_policy":       strictjson.Into(&j.FailurePolicy),
		"params":               strictjson.Into(&j.Params),
		"queue":                strictjson.Into(&j.Queue),
		"limit":                strictjson.Into(&j.Limit),
		"limit_keys":           strictjson.Into(&j.LimitKeys),
		"result":               strictjson.Into(&j.Result),
		"depends_on":           strictjson.IntoList("dependency", &j.DependsOn, (*JobDependency).read),
		"timeout_seconds":      strictjson.IntoDuration(&j.Timeout),
		"max_duration_seconds": strictjson.IntoDuration(&j.MaxDuration),
		"expected_by":          strictjson.Into(&j.ExpectedBy),
		"outputs":              strictjson.IntoList("output", &j.Outputs, (*JobOutput).read),
		"steps":                func(dec *json.Decoder) error { return readSteps(dec, &j.Steps) },
	}
}

// MarshalJSON writes the form that UnmarshalJSON reads.
func (j Job) MarshalJSON() ([]byte, error) {
	type plain Job // without methods
	return jsontext.AppendAny(nil, struct {
		plain
		Timeout     strictjson.Seconds `json:"timeout_seconds,omitempty"`
		MaxDuration strictjson.Seconds `json:"max_duration_seconds,omitempty"`
		Steps       []StepSpec         `json:"steps"` // last
	}{plain(j), strictjson.Seconds(j.Timeout), strictjson.Seconds(j.MaxDuration), j.Steps})
}

func readSteps(dec *json.Decoder, steps *[]StepSpec) error {
	tok, err := dec.Token()
	if err != nil {
		return err
	}
	if tok == nil {
		return nil
	}
	if tok != json.Delim('[') {
		return errors.Join(errors.New("must be a list of steps, each an object"), strictjson.Skip(dec, tok))
	}
	*steps = []StepSpec{}
	var errs []error
	for i := 0; dec.More(); i++ {
		var s StepSpec
		if err := s.read(dec); err != nil && len(errs) < errtext.MaxListed {
			errs = append(errs, &strictjson.FieldError{Key: strconv.Itoa(i), Label: fmt.Sprintf("step %d", i), Err: err})
		}
		*steps = append(*steps, s)
	}
	_, err = dec.Token()
	return errors.Join(append(errs, err)...)
}

// UnmarshalJSON reads a step strictly.
func (s *StepSpec) UnmarshalJSON(data []byte) error {
	return strictjson.Read(s, data, (*StepSpec).read)
}

func (s *StepSpec) read(dec *json.Decoder) error {
	return strictjson.ReadObject(dec, strictjson.Fields{
		"id":                    strictjson.Into(&s.ID),
		"type":                  strictjson.Into(&s.Type),
		"name":                  strictjson.Into(&s.Name),
		"timeout_seconds":       strictjson.IntoSeconds(&s.Timeout),
		"stall_timeout_seconds": strictjson.IntoSeconds(&s.StallTimeout),
		"failure_policy":        intoStepPolicy(&s.FailurePolicy),
		"allow_parent":          strictjson.Into(&s.AllowParent),
		"isolate":               strictjson.Into(&s.Isolate),
		"config":                strictjson.Into(&s.Config),
	})
}

// MarshalJSON writes the form that UnmarshalJSON reads.
func (s StepSpec) MarshalJSON() ([]byte, error) {
	type plain StepSpec // without methods
	return jsontext.AppendAny(nil, struct {
		plain
		Timeout *strictjson.Seconds `json:"timeout_seconds,omitempty"`
		Stall   *strictjson.Seconds `json:"stall_timeout_seconds,omitempty"`
		Config  map[string]any      `json:"config,omitempty"`
	}{plain(s), (*strictjson.Seconds)(s.Timeout), (*strictjson.Seconds)(s.StallTimeout), s.Config})
}

// intoStepPolicy reads the policy that a step has of its own: one without a type would be none.
func intoStepPolicy(p *FailurePolicy) func(*json.Decoder) error {
	return func(dec *json.Decoder) error {
		var own *FailurePolicy
		if err := strictjson.Plain(dec.Decode(&own)); err != nil || own == nil {
			return err
		}
		if *p = *own; p.IsZero() {
			return policyError("type", "is required; leave the field out for the policy of the job")
		}
		return nil
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
