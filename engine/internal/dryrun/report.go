package dryrun

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/schedule"
)

// A State is what a dry run can say of a step.
type State string

// The values of State.
const (
	OK         State = "ok"
	Problem    State = "problem"
	NotChecked State = "not_checked"
)

// A Report is the result of a dry run of a job. Its fields, and those of the types
// below, mean what those of the types of package engine mean.
type Report struct {
	Job       string               `json:"job"`
	Version   int                  `json:"version,omitempty"`
	Problems  []courier.Problem    `json:"problems,omitempty"`
	Warnings  []courier.Problem    `json:"warnings,omitempty"`
	Params    []flow.DeclaredParam `json:"params,omitempty"`
	Unknown   []string             `json:"unknown_params,omitempty"`
	Steps     []Step               `json:"steps"`
	Schedules []schedule.Report    `json:"schedules,omitempty"`
	Duration  time.Duration        `json:"-"` // "duration_seconds" in JSON
}

// A Step is what a dry run found out about a step.
type Step struct {
	Step       int           `json:"step"`
	Path       string        `json:"path"`
	ID         string        `json:"id,omitempty"`
	Name       string        `json:"name,omitempty"`
	Type       string        `json:"type"`
	State      State         `json:"state"`
	Message    string        `json:"message,omitempty"`
	Unresolved []string      `json:"unresolved,omitempty"`
	Notes      []string      `json:"notes,omitempty"`
	Duration   time.Duration `json:"-"` // "duration_seconds" in JSON
}

// A ChainReport is the result of a dry run of a chain.
type ChainReport struct {
	Chain     string               `json:"chain"`
	Version   int                  `json:"version,omitempty"`
	Problems  []courier.Problem    `json:"problems,omitempty"`
	Warnings  []courier.Problem    `json:"warnings,omitempty"`
	Params    []flow.DeclaredParam `json:"params,omitempty"`
	Unknown   []string             `json:"unknown_params,omitempty"`
	Members   []Member             `json:"members"`
	Schedules []schedule.Report    `json:"schedules,omitempty"`
	Duration  time.Duration        `json:"-"` // "duration_seconds" in JSON
}

// A Member is the result for a member of a chain.
type Member struct {
	Member    string               `json:"member"`
	DependsOn []courier.Dependency `json:"depends_on,omitempty"`
	Report    Report               `json:"report"`
}

// Err joins all that is wrong: problems, those of steps and those of schedules.
// It is nil if there is nothing.
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

// Err joins all that is wrong: problems of the chain, its members and its
// schedules. It is nil if there is nothing.
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
		r.Steps = []Step{}
	}
	return json.Marshal(struct {
		OK bool `json:"ok"`
		plain
		Duration *float64 `json:"duration_seconds,omitempty"`
	}{r.Err() == nil, plain(r), inSeconds(r.Duration)})
}

// MarshalJSON writes the report with whether it is OK.
func (r ChainReport) MarshalJSON() ([]byte, error) {
	type plain ChainReport // without methods
	if r.Members == nil {
		r.Members = []Member{}
	}
	return json.Marshal(struct {
		OK bool `json:"ok"`
		plain
		Duration *float64 `json:"duration_seconds,omitempty"`
	}{r.Err() == nil, plain(r), inSeconds(r.Duration)})
}

// MarshalJSON writes the duration in seconds.
func (s Step) MarshalJSON() ([]byte, error) {
	type plain Step // without methods
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
func (s *Step) UnmarshalJSON(data []byte) error {
	type plain Step // without methods
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
