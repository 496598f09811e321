package courier

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/nearest"
)

// A Job is a named, versioned pipeline of steps. It is a plain value: engines
// and stores keep copies of their own and never change one that they were
// given.
//
// In JSON it is an object with the names of the field tags; names that are not
// among them are refused, as are repeated ones.
type Job struct {
	Name string `json:"name"` // 1 to 200 characters, no control characters
	// Version is assigned when the job is saved, counting from 1. Executions
	// keep the version that they were started with.
	Version int `json:"version,omitempty"`
	// FailurePolicy says what a failed step leads to; the zero value stops.
	FailurePolicy FailurePolicy `json:"failure_policy,omitzero"`
	// Params declares the parameters of an execution, with the values that
	// hold where none is given. Where it is nil, any parameter may be given.
	Params map[string]any `json:"params,omitzero"`
	// Queue names the pool of work that the job's executions wait in; empty
	// means "default".
	Queue string `json:"queue,omitempty"`
	// Limit is how many of the job's executions may run at once; 0 means any
	// number. A limit set on the engine for "job:NAME" overrides it.
	Limit int `json:"limit,omitempty"`
	// LimitKeys name what executions share, such as a partner, for which the
	// engine can set limits. They may contain references to params and job.
	LimitKeys []string `json:"limit_keys,omitempty"`
	// DependsOn are other jobs that an execution waits for before it begins.
	DependsOn []JobDependency `json:"depends_on,omitempty"`
	// Steps is the flat list, control-flow markers included.
	Steps []StepSpec `json:"steps"`
}

// DefaultQueue is the queue of jobs that name none.
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
	// AllowParent lets values that references put into the step's paths,
	// patterns and URLs contain the segment "..". Without it such a value is an
	// error, since it could lead from one directory into another; a ".." of the
	// configuration's own text is always allowed.
	AllowParent bool `json:"allow_parent,omitempty"`
	// Config is the configuration of the step's type. Strings in it may be
	// references; [Get] says how they are written.
	Config map[string]any `json:"config,omitempty"`
}

// A Policy says what becomes of an execution in which a step fails.
type Policy string

// The failure policies.
const (
	Stop            Policy = "stop"              // the execution fails
	RetryStep       Policy = "retry_step"        // the step is repeated, then the execution fails
	RetryJob        Policy = "retry_job"         // the execution starts again at step 0, then fails
	SkipAndContinue Policy = "skip_and_continue" // the step is skipped
)

// policies lists the policies in the order in which messages name them.
var policies = []Policy{Stop, RetryStep, RetryJob, SkipAndContinue}

// A FailurePolicy is a [Policy] with its figures. Nil figures mean the
// defaults. In JSON it is an object, or just the policy's name.
type FailurePolicy struct {
	Type        Policy         // empty means stop
	MaxRetries  *int           // max_retries: attempts after the first; default 3
	BackoffBase *time.Duration // backoff_base_seconds: before the first retry; default 1 s
	BackoffMax  *time.Duration // backoff_max_seconds: the most between two attempts; default 60 s
}

// IsZero reports whether p says nothing, which means stop.
func (p FailurePolicy) IsZero() bool { return p == FailurePolicy{} }

// Retries is how many attempts may follow the first.
func (p FailurePolicy) Retries() int {
	switch {
	case p.Type != RetryStep && p.Type != RetryJob:
		return 0
	case p.MaxRetries == nil:
		return 3
	}
	return max(0, *p.MaxRetries)
}

// Backoff is the delay before retry number n, counting from 0:
// min(BackoffBase * 2^n, BackoffMax), for any n.
func (p FailurePolicy) Backoff(n int) time.Duration {
	base, most := time.Second, time.Minute
	if p.BackoffBase != nil {
		base = max(0, *p.BackoffBase)
	}
	if p.BackoffMax != nil {
		most = max(0, *p.BackoffMax)
	}
	for ; n > 0 && base > 0 && base < most; n-- {
		if base > math.MaxInt64/2 {
			return most
		}
		base *= 2
	}
	return min(base, most)
}

// UnmarshalJSON reads a job strictly. The error is a *[DefinitionError] with
// everything that is wrong with its form, in lines and columns counted from the
// beginning of data.
func (j *Job) UnmarshalJSON(data []byte) error { return readDefinition(j, data) }

func (j *Job) readers() (string, fields) {
	return "job", fields{
		"name":           into(&j.Name),
		"version":        into(&j.Version),
		"failure_policy": into(&j.FailurePolicy),
		"params":         into(&j.Params),
		"queue":          into(&j.Queue),
		"limit":          into(&j.Limit),
		"limit_keys":     into(&j.LimitKeys),
		"depends_on":     listOf("dependency", &j.DependsOn, (*JobDependency).read),
		"steps":          func(dec *json.Decoder) error { return readSteps(dec, &j.Steps) },
	}
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
		return errors.Join(errors.New("must be a list of steps, each an object"), skip(dec, tok))
	}
	*steps = []StepSpec{}
	var errs []error
	for i := 0; dec.More(); i++ {
		var s StepSpec
		if err := s.read(dec); err != nil && len(errs) < maxListed {
			errs = append(errs, &fieldError{strconv.Itoa(i), fmt.Sprintf("step %d", i), err})
		}
		*steps = append(*steps, s)
	}
	_, err = dec.Token()
	return errors.Join(append(errs, err)...)
}

// UnmarshalJSON reads a step strictly.
func (s *StepSpec) UnmarshalJSON(data []byte) error { return strictly(s, data, (*StepSpec).read) }

func (s *StepSpec) read(dec *json.Decoder) error {
	return readObject(dec, fields{
		"id":                    into(&s.ID),
		"type":                  into(&s.Type),
		"name":                  into(&s.Name),
		"timeout_seconds":       intoSeconds(&s.Timeout),
		"stall_timeout_seconds": intoSeconds(&s.StallTimeout),
		"allow_parent":          into(&s.AllowParent),
		"config":                into(&s.Config),
	})
}

// MarshalJSON writes the form that UnmarshalJSON reads.
func (s StepSpec) MarshalJSON() ([]byte, error) {
	type plain StepSpec // without methods
	return jsontext.AppendAny(nil, struct {
		plain
		Timeout *seconds       `json:"timeout_seconds,omitempty"`
		Stall   *seconds       `json:"stall_timeout_seconds,omitempty"`
		Config  map[string]any `json:"config,omitempty"`
	}{plain(s), (*seconds)(s.Timeout), (*seconds)(s.StallTimeout), s.Config})
}

// UnmarshalJSON reads a policy's name, or an object with its figures. Null is the
// default.
func (p *FailurePolicy) UnmarshalJSON(data []byte) error {
	var n FailurePolicy
	if string(data) == "null" {
		*p = n
		return nil
	}
	if len(data) > 0 && data[0] == '"' {
		if err := json.Unmarshal(data, &n.Type); err != nil {
			return err
		}
	} else if err := readObject(newReader(data), fields{
		"type":                 into(&n.Type),
		"max_retries":          into(&n.MaxRetries),
		"backoff_base_seconds": intoSeconds(&n.BackoffBase),
		"backoff_max_seconds":  intoSeconds(&n.BackoffMax),
	}); err != nil {
		return err
	}
	if err := n.check(); err != nil {
		return err
	}
	*p = n
	return nil
}

// MarshalJSON writes just the name where the figures are the defaults.
func (p FailurePolicy) MarshalJSON() ([]byte, error) {
	name := p.Type
	if name == "" {
		name = Stop
	}
	if p.MaxRetries == nil && p.BackoffBase == nil && p.BackoffMax == nil {
		return json.Marshal(name)
	}
	return json.Marshal(struct {
		Type       Policy   `json:"type"`
		MaxRetries *int     `json:"max_retries,omitempty"`
		Base       *seconds `json:"backoff_base_seconds,omitempty"`
		Max        *seconds `json:"backoff_max_seconds,omitempty"`
	}{name, p.MaxRetries, (*seconds)(p.BackoffBase), (*seconds)(p.BackoffMax)})
}

func (p FailurePolicy) check() error {
	switch {
	case p.Type != "" && !slices.Contains(policies, p.Type):
		return policyError("type", "unknown policy %q; %s", shorten(string(p.Type), 60), nearest.DidYouMean(string(p.Type), policies))
	case p.MaxRetries != nil && *p.MaxRetries < 0:
		return policyError("max_retries", "%d is negative", *p.MaxRetries)
	case p.BackoffBase != nil && *p.BackoffBase < 0:
		return policyError("backoff_base_seconds", "%v is negative", *p.BackoffBase)
	case p.BackoffMax != nil && *p.BackoffMax < 0:
		return policyError("backoff_max_seconds", "%v is negative", *p.BackoffMax)
	}
	return nil
}

func policyError(field, format string, args ...any) error {
	return &fieldError{field, field, fmt.Errorf(format, args...)}
}

// seconds is a duration that JSON writes as a number of seconds.
type seconds time.Duration

func (s seconds) MarshalJSON() ([]byte, error) {
	sign, n := "", uint64(s)
	if s < 0 {
		sign, n = "-", -n
	}
	b := fmt.Appendf(nil, "%s%d.%09d", sign, n/uint64(time.Second), n%uint64(time.Second))
	return bytes.TrimSuffix(bytes.TrimRight(b, "0"), []byte(".")), nil
}

func (s *seconds) UnmarshalJSON(data []byte) error {
	text := string(data)
	if text == "null" {
		return nil
	}
	// A float can't hold the nanoseconds of times longer than some weeks.
	if d, err := time.ParseDuration(text + "s"); err == nil && d.Abs() > 1e6*time.Second {
		*s = seconds(d)
		return nil
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsNaN(f):
		return fmt.Errorf("must be a number of seconds, not %s", shorten(text, 60))
	case f != 0 && math.Abs(f) < 1e-9:
		return fmt.Errorf("%s is less than a nanosecond; 0 means none", shorten(text, 60))
	case math.Abs(f) > float64(math.MaxInt64/time.Second):
		return fmt.Errorf("%s is too large", shorten(text, 60))
	}
	*s = seconds(math.Round(f * float64(time.Second)))
	return nil
}

// newReader returns a decoder that keeps the digits of numbers.
func newReader(data []byte) *json.Decoder {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return dec
}

// strictly sets v to what read makes of data, unless that is an error.
func strictly[T any](v *T, data []byte, read func(*T, *json.Decoder) error) error {
	var n T
	err := read(&n, newReader(data))
	if err == nil {
		*v = n
	}
	return err
}

// fields says how to read the value of each name of an object. Each function
// reads exactly one value.
type fields map[string]func(*json.Decoder) error

func into(v any) func(*json.Decoder) error {
	return func(dec *json.Decoder) error { return plainError(dec.Decode(v)) }
}

func intoSeconds(v **time.Duration) func(*json.Decoder) error {
	return func(dec *json.Decoder) error {
		var s *seconds
		err := plainError(dec.Decode(&s))
		if err == nil && s != nil && *s < 0 {
			text, _ := s.MarshalJSON()
			err = fmt.Errorf("%s is negative", text)
		}
		*v = (*time.Duration)(s)
		return err
	}
}

// readObject reads a JSON object whose names are those of fields. All unknown
// and repeated names and all fields' errors are reported together.
func readObject(dec *json.Decoder, known fields) error {
	tok, err := dec.Token()
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	if tok != json.Delim('{') {
		return errors.Join(errors.New("must be an object"), skip(dec, tok))
	}
	seen := make(map[string]bool, len(known))
	var errs []error
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return fmt.Errorf("not JSON: %w", err)
		}
		name, _ := tok.(string)
		read, ok := known[name]
		switch {
		case !ok:
			names := slices.Sorted(maps.Keys(known))
			errs = append(errs, &fieldError{key: name, err: fmt.Errorf("unknown field %q; %s", shorten(name, 60), nearest.DidYouMean(name, names))})
		case seen[name]:
			errs = append(errs, &fieldError{name, name, errors.New("given twice")})
			ok = false
		}
		seen[name] = true
		if !ok {
			err = dec.Decode(new(json.RawMessage))
		} else if err = read(dec); err != nil {
			err = &fieldError{name, name, err}
		}
		if err != nil {
			errs = append(errs, err)
		}
		if _, ok := errors.AsType[*json.SyntaxError](err); ok || errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.Join(errs...) // there is no going on
		}
	}
	_, err = dec.Token()
	return errors.Join(append(errs[:min(len(errs), maxListed)], err)...)
}

// skip reads the rest of the value that began with tok.
func skip(dec *json.Decoder, tok json.Token) error {
	depth := 0
	for {
		switch tok {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
		var err error
		if tok, err = dec.Token(); err != nil {
			return err
		}
	}
}

// plainError makes an error of package json one for people.
func plainError(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		where := ""
		if e.Field != "" {
			where = e.Field + ": "
		}
		return fmt.Errorf("%smust be %s, not a JSON %s", where, kindName(e.Type), shorten(e.Value, 60))
	}
	return err
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
