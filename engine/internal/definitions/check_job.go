package definitions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/procgroup"
)

// CheckJob brings a job into the form that it will have after a restart, and checks it.
// Its error is a *[courier.DefinitionError], or one of the store.
func (v *Service) CheckJob(ctx context.Context, job courier.Job) (core.CheckedJob, error) {
	invalid := func(problems ...courier.Problem) (core.CheckedJob, error) {
		return core.CheckedJob{}, &courier.DefinitionError{Job: job.Name, Problems: problems}
	}
	job.Version = 0
	body, err := jsontext.Append(nil, job)
	var found []courier.Problem
	if err != nil {
		found = unstorable(job, err)
		if body, err = json.Marshal(job); err != nil {
			return invalid(found...)
		}
	}
	plain, err := reread(body, job)
	if err != nil {
		return invalid(courier.Problem{Step: -1, Message: err.Error()})
	}
	for i := range plain.Steps {
		if t, ok := v.registry.Lookup(plain.Steps[i].Type); ok {
			plain.Steps[i].Config = t.WithoutAliases(plain.Steps[i].Config)
		}
	}
	full := program.WithOutputs(plain)
	tree, err := flow.Parse(plain.Steps, full.Steps[len(plain.Steps):]...)
	if p, ok := errors.AsType[*flow.ParseError](err); ok {
		found = append(found, p.Problems...)
	} else if err != nil {
		return invalid(courier.Problem{Step: -1, Message: err.Error()})
	}
	problems, warnings := flow.Check(tree, &full, v.registry)
	if tree != nil {
		problems = append(problems, checkOutputs(&plain, tree)...)
	}
	doubts, err := v.checkMember(ctx, &full)
	if err != nil {
		return core.CheckedJob{}, fmt.Errorf("define job %q: %w", job.Name, err)
	}
	warnings = ofOutputs(&plain, append(warnings, doubts...))
	found, problems = ofOutputs(&plain, found), ofOutputs(&plain, problems)
	slices.SortStableFunc(warnings, func(a, b courier.Problem) int { return a.Step - b.Step })
	if len(plain.Steps) == 0 {
		problems = append(problems, courier.Problem{Step: -1, Field: "steps", Message: "there are none; a job needs at least one"})
	}
	depends, err := v.checkDependencies(ctx, &plain)
	if err != nil {
		return core.CheckedJob{}, fmt.Errorf("define job %q: %w", job.Name, err)
	}
	problems = append(problems, depends...)
	if _, err := program.ParseTimeOfDay(plain.ExpectedBy); plain.ExpectedBy != "" && err != nil {
		problems = append(problems, courier.Problem{Step: -1, Field: "expected_by", Message: err.Error()})
	}
	found = append(found, unsupported(plain.Steps)...)
	if found = distinct(append(found, problems...)); len(found) > 0 {
		slices.SortStableFunc(found, func(a, b courier.Problem) int { return a.Step - b.Step })
		return invalid(found...)
	}
	return core.CheckedJob{Job: plain, Tree: tree, Warnings: warnings}, nil
}

// reread returns a job as it will be read from its JSON, but for failure policies
// and durations that JSON does not take: they are as they were given, for the check to
// report them beside all else. The policy of a step that has figures and no type has none
// either, although JSON writes stop.
func reread(body []byte, job courier.Job) (plain courier.Job, err error) {
	if err = json.Unmarshal(body, &plain); err == nil {
		for i := range plain.Steps {
			plain.Steps[i].FailurePolicy.Type = job.Steps[i].FailurePolicy.Type
		}
		return plain, nil
	}
	rest := job
	rest.FailurePolicy, rest.Timeout, rest.MaxDuration, rest.Steps = courier.FailurePolicy{}, 0, 0, slices.Clone(job.Steps)
	for i := range rest.Steps {
		rest.Steps[i].Timeout, rest.Steps[i].StallTimeout, rest.Steps[i].FailurePolicy = nil, nil, courier.FailurePolicy{}
	}
	if body, again := json.Marshal(rest); again != nil || json.Unmarshal(body, &plain) != nil {
		return job, err
	}
	plain.FailurePolicy, plain.Timeout, plain.MaxDuration = job.FailurePolicy, job.Timeout, job.MaxDuration
	for i := range plain.Steps {
		given := &job.Steps[i]
		plain.Steps[i].Timeout, plain.Steps[i].StallTimeout, plain.Steps[i].FailurePolicy = given.Timeout, given.StallTimeout, given.FailurePolicy
	}
	return plain, nil
}

// unsupported finds the steps that ask for what this system does not have.
func unsupported(steps []courier.StepSpec) (found []courier.Problem) {
	for i, s := range steps {
		if s.Isolate && !procgroup.Supported {
			found = append(found, courier.Problem{Step: i, ID: s.ID, Type: s.Type, Field: "isolate", Message: procgroup.Unsupported})
		}
	}
	return found
}

// distinct drops repetitions: the check of a definition also reports what the parser has found,
// and names the field of a text that can't be stored.
func distinct(problems []courier.Problem) []courier.Problem {
	seen := make(map[courier.Problem]bool, len(problems))
	for _, p := range problems {
		if p.Field != "" {
			p.Field = ""
			seen[p] = true
		}
	}
	return slices.DeleteFunc(problems, func(p courier.Problem) bool {
		again := seen[p]
		seen[p] = true
		return again
	})
}

// unstorable finds the text in a job that no store can keep, or that JSON can't
// hold; err is what the job as a whole gave.
func unstorable(job courier.Job, err error) (found []courier.Problem) {
	for i, s := range job.Steps {
		if _, err := jsontext.Append(nil, s); err != nil {
			found = append(found, courier.Problem{Step: i, ID: s.ID, Type: s.Type, Message: err.Error()})
		}
	}
	if len(found) == 0 {
		found = append(found, courier.Problem{Step: -1, Message: err.Error()})
	}
	return found
}
