// Package dryrun declares the reports of a dry run, which say whether a job or a chain could
// run, as far as that can be found out without running it. The methods DryRun of engine.Jobs
// and DryRunChain of an engine return reports. A [Report], or a [ChainReport], has problems
// and warnings, a result for each step, and the next times of the schedules. Its String is
// for people; its JSON, which can be read back, for programs.
package dryrun

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/schedule"
)

// Options are the settings of a dry run. The zero value is the default.
type Options struct {
	// Params are the parameters that an execution of the job or chain would be given. A
	// parameter that is declared as null and not given counts as unknown.
	Params map[string]any
	// Timeout is the longest time for validating one step. 0 means 30 seconds.
	Timeout time.Duration
	// Parallel is how many steps are validated at a time. Those that use the same
	// connection are validated one after the other, whatever it is. 0 means 8.
	Parallel int
	// Jobs replace, in the dry run of a chain, the latest versions of the jobs with the same
	// names. They need not be saved. The dry run of a job does not use them.
	Jobs []courier.Job
	// Fires is how many of its next times the report has for each schedule. 0 means 5.
	Fires int
}

// A State is the result of a dry run for a step.
type State string

// The values of State.
const (
	OK         State = "ok"          // its Validate found nothing wrong
	Problem    State = "problem"     // Message says what is wrong, and what to do
	NotChecked State = "not_checked" // Message says why
)

// A Report is the result of a dry run of a job. It has no secrets in it. String
// is for people; JSON, with the names of the field tags and the member "ok", for
// programs.
type Report struct {
	Job     string `json:"job"`
	Version int    `json:"version,omitempty"` // as the job that was given had it; 0 if it was not saved
	// Problems are the mistakes in the definition or the params. If the definition has
	// any, its steps are not validated.
	Problems []courier.Problem `json:"problems,omitempty"`
	// Warnings are the doubtful places. String shows the warnings of a step beside the
	// step.
	Warnings []courier.Problem `json:"warnings,omitempty"`
	// Params are those that are declared with a type; Unknown those without a value.
	Params  []flow.DeclaredParam `json:"params,omitempty"`
	Unknown []string             `json:"unknown_params,omitempty"`
	// Steps has an entry for each step, of both branches of each flow.if and of rescues, in the
	// order of the list; markers have an entry only if they have problems.
	Steps []StepReport `json:"steps"`
	// Schedules are those that start the job, in the order of their names.
	Schedules []schedule.Report `json:"schedules,omitempty"`
	Duration  time.Duration     `json:"-"` // of the whole dry run; "duration_seconds" in JSON
}

// A StepReport is what a dry run found out about a step.
type StepReport struct {
	Step int `json:"step"` // index in the flat list
	// Path is the indexes of the blocks around the step, outermost first, and its
	// own, with the part after that of a flow.if, a flow.try and a rescue: "1.3.then.4" is
	// step 4, in the first branch of the flow.if at 3, in the flow.foreach at 1, and
	// "1.rescue.6" is step 6, in the rescue of that.
	Path    string `json:"path"`
	ID      string `json:"id,omitempty"`
	Name    string `json:"name,omitempty"`
	Type    string `json:"type"`
	State   State  `json:"state"`
	Message string `json:"message,omitempty"` // what is wrong, or why it was not checked
	// Unresolved are the fields of the configuration that are known only when the
	// step runs, and so were not checked.
	Unresolved []string `json:"unresolved,omitempty"`
	// Notes are what the step has logged, such as what it learned of a server; at
	// most 20.
	Notes    []string      `json:"notes,omitempty"`
	Duration time.Duration `json:"-"` // of its Validate; "duration_seconds" in JSON
}

// A ChainReport is the result of a dry run of a chain, as [Report] is that of a job.
type ChainReport struct {
	Chain   string `json:"chain"`
	Version int    `json:"version,omitempty"` // as the chain that was given had it; 0 if it was not saved
	// Problems are the mistakes in the chain or its params. If the chain has any, its
	// members are not checked.
	Problems []courier.Problem    `json:"problems,omitempty"`
	Warnings []courier.Problem    `json:"warnings,omitempty"`       // what looks doubtful
	Params   []flow.DeclaredParam `json:"params,omitempty"`         // as in [Report]
	Unknown  []string             `json:"unknown_params,omitempty"` // the chain's params without a value, in order
	// Members are in an order in which they can begin: each after those that it
	// depends on, otherwise as in the definition.
	Members   []MemberReport    `json:"members"`
	Schedules []schedule.Report `json:"schedules,omitempty"` // those that start the chain
	Duration  time.Duration     `json:"-"`                   // "duration_seconds" in JSON
}

// A MemberReport is the result for a member of a chain. Its report has no
// schedules and no duration of its own.
type MemberReport struct {
	Member    string             `json:"member"`
	DependsOn []chain.Dependency `json:"depends_on,omitempty"`
	Report    Report             `json:"report"`
}

// OK reports whether the dry run has found nothing that keeps the job from running.
func (r Report) OK() bool { return r.Err() == nil }

// Err returns an error with all problems, those of steps and those of schedules, or nil
// if there are none.
func (r Report) Err() error {
	var errs []error
	for _, p := range r.Problems {
		if p.Step < 0 || len(r.Steps) == 0 { // the others are those of steps too
			errs = append(errs, errors.New(p.String()))
		}
	}
	for i := range r.Steps {
		if s := &r.Steps[i]; s.State == Problem {
			errs = append(errs, fmt.Errorf("%s: %s", courier.StepLabel(s.Step, s.ID, s.Type), s.Message))
		}
	}
	return errors.Join(append(errs, scheduleErrors(r.Schedules)...)...)
}

// OK reports whether the dry run has found nothing that keeps the chain from running.
func (r ChainReport) OK() bool { return r.Err() == nil }

// Err returns an error with all problems of the chain, its members and its schedules, or
// nil if there are none.
func (r ChainReport) Err() error {
	var errs []error
	for _, p := range r.Problems {
		errs = append(errs, errors.New(p.String()))
	}
	for i := range r.Members {
		if err := r.Members[i].Report.Err(); err != nil {
			errs = append(errs, fmt.Errorf("member %q: %w", r.Members[i].Member, err))
		}
	}
	return errors.Join(append(errs, scheduleErrors(r.Schedules)...)...)
}

func scheduleErrors(list []schedule.Report) (errs []error) {
	for i := range list {
		if s := &list[i]; s.Problem != "" {
			errs = append(errs, fmt.Errorf("schedule %q: %s", s.Schedule, s.Problem))
		}
	}
	return errs
}

// MarshalJSON writes the report with whether it is OK.
func (r Report) MarshalJSON() ([]byte, error) {
	type plain Report // without methods
	if r.Steps == nil {
		r.Steps = []StepReport{}
	}
	return json.Marshal(struct {
		OK bool `json:"ok"`
		plain
		Duration *float64 `json:"duration_seconds,omitempty"`
	}{r.OK(), plain(r), inSeconds(r.Duration)})
}

// MarshalJSON writes the report with whether it is OK.
func (r ChainReport) MarshalJSON() ([]byte, error) {
	type plain ChainReport // without methods
	if r.Members == nil {
		r.Members = []MemberReport{}
	}
	return json.Marshal(struct {
		OK bool `json:"ok"`
		plain
		Duration *float64 `json:"duration_seconds,omitempty"`
	}{r.OK(), plain(r), inSeconds(r.Duration)})
}

// MarshalJSON writes the duration in seconds.
func (s StepReport) MarshalJSON() ([]byte, error) {
	type plain StepReport // without methods
	return json.Marshal(struct {
		plain
		Duration *float64 `json:"duration_seconds,omitempty"`
	}{plain(s), inSeconds(s.Duration)})
}

// UnmarshalJSON reads what MarshalJSON has written.
func (r *Report) UnmarshalJSON(data []byte) error {
	type plain Report // without methods
	return readTimed(data, (*plain)(r), &r.Duration)
}

// UnmarshalJSON reads what MarshalJSON has written.
func (r *ChainReport) UnmarshalJSON(data []byte) error {
	type plain ChainReport // without methods
	return readTimed(data, (*plain)(r), &r.Duration)
}

// UnmarshalJSON reads what MarshalJSON has written.
func (s *StepReport) UnmarshalJSON(data []byte) error {
	type plain StepReport // without methods
	return readTimed(data, (*plain)(s), &s.Duration)
}

// inSeconds is a duration as JSON has it, to the microsecond; nil for none.
func inSeconds(d time.Duration) *float64 {
	if d == 0 {
		return nil
	}
	return new(float64(d.Microseconds()) / 1e6)
}

// readTimed reads an object and its member "duration_seconds".
func readTimed(data []byte, v any, d *time.Duration) error {
	var timed struct {
		Seconds float64 `json:"duration_seconds"`
	}
	err := json.Unmarshal(data, v)
	if err == nil {
		err = json.Unmarshal(data, &timed)
	}
	*d = time.Duration(timed.Seconds*1e6+0.5) * time.Microsecond
	return err
}
